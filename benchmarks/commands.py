"""The minutes of ``make paper`` and ``make test`` in a new clone, and what it installs.

Run by ``make weight``; prints a table and writes ``results/bench-commands.json``. The clone is that
of the last commit. Nothing is compiled yet when ``make paper`` starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from install import weight
from machine import machine, machine_line
from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
TARGETS = {
    "installation": ".venv/run-ready",
    "make paper": "paper",
    "installation of tools": ".venv/dev-ready",
    "make test": "test",
}


def make(target, folder):
    """Return the seconds of ``make`` in a folder, away from the environment of this process."""
    outside = {name: os.environ[name] for name in os.environ if not name.startswith("MAKE")}
    outside.pop("NUMBA_CACHE_DIR", None)
    start = time.perf_counter()
    subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=folder, env=outside, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return time.perf_counter() - start


def main():
    """Measure, print, write."""
    print(machine_line())
    seconds = {}
    table = Table("command", "seconds", box=box.SIMPLE)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
        for name, target in TARGETS.items():
            seconds[name] = make(target, folder)
            table.add_row(name, f"{seconds[name]:.0f}")
            if name == "installation":
                weight_mb = weight(Path(folder) / ".venv") / 1e6
    Console().print(table)
    print(f"installation: {weight_mb:,.0f} MB")
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), "seconds": seconds, "installation_mb": weight_mb}
    text = json.dumps(content, indent=1) + "\n"
    Path("results/bench-commands.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
