"""Virtual environments of the other tools, created on request only.

They are separate from the environment of saddleback. ``torch`` is the large part; pip's index
decides which build is installed, and the CPU build is enough.
"""

from __future__ import annotations

import subprocess
import venv

PINNED = {
    "d3rlpy": ("d3rlpy==2.8.1", "torch==2.13.0", "numpy==2.4.6"),
    "scope-rl": (
        "scope-rl==0.2.1", "d3rlpy==2.8.1", "torch==2.13.0", "numpy==2.4.6", "scipy==1.17.1",
        "scikit-learn==1.9.1", "pandas==3.1.1",
    ),
}  # fmt: skip
"""Packages installed for each tool; the rest follows from their requirements."""


def python(folder, tool):
    """Return the interpreter of a tool's environment, which may not exist."""
    return folder / f"env-{tool}" / "bin" / "python"


def missing(folder):
    """Return the tools without an environment."""
    return [tool for tool in PINNED if not ready(folder, tool).exists()]


def ready(folder, tool):
    """Return the file that marks an environment as complete."""
    return folder / f"env-{tool}" / "ready"


def install(folder, tool):
    """Create the environment of a tool; return the error of pip, or an empty text."""
    venv.create(folder / f"env-{tool}", with_pip=True)
    process = subprocess.run(
        [python(folder, tool), "-m", "pip", "install", "--quiet", *PINNED[tool]],
        capture_output=True, text=True,
    )  # fmt: skip
    if process.returncode:
        errors = [line for line in process.stderr.splitlines() if line.startswith("ERROR")]
        return " ".join(errors) or process.stderr[-500:]
    ready(folder, tool).touch()
    return ""
