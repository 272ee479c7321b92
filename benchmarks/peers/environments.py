"""The peers' own virtual environments, made only when asked for.

Nothing of theirs enters the environment of saddleback. ``torch`` is the large part; which build of
it pip takes depends on where pip is told to look, and the CPU build is enough.
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
"""What is installed for each tool; the rest follows from their own requirements."""


def python(folder, tool):
    """Return the interpreter of a tool's environment, which may not be there."""
    return folder / f"env-{tool}" / "bin" / "python"


def missing(folder):
    """Return the tools without an environment."""
    return [tool for tool in PINNED if not ready(folder, tool).exists()]


def ready(folder, tool):
    """Return the file that says an environment is complete."""
    return folder / f"env-{tool}" / "ready"


def install(folder, tool):
    """Make the environment of a tool; return the error of pip, or nothing."""
    venv.create(folder / f"env-{tool}", with_pip=True)
    said = subprocess.run(
        [python(folder, tool), "-m", "pip", "install", "--quiet", *PINNED[tool]],
        capture_output=True, text=True,
    )  # fmt: skip
    if said.returncode:
        errors = [line for line in said.stderr.splitlines() if line.startswith("ERROR")]
        return " ".join(errors) or said.stderr[-500:]
    ready(folder, tool).touch()
    return ""
