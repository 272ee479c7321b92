"""The minutes of ``make paper`` and ``make test`` in a new clone, and what it installs.

Run by ``make weight``; prints a table and writes ``results/bench-commands.json``. The clone is that
of the last commit. Nothing is compiled yet when ``make paper`` starts. If a command fails, the end
of its output is printed, and the seconds of those before it are written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


LAST_LINES = 40
"""Lines of the output of a command that failed."""


class Failed(Exception):
    """A command failed; with the end of its output."""


def make(target, folder):
    """Return the seconds of ``make`` in a folder, away from the environment of this process."""
    outside = {name: os.environ[name] for name in os.environ if not name.startswith("MAKE")}
    outside.pop("NUMBA_CACHE_DIR", None)
    start = time.perf_counter()
    done = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=folder, env=outside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        encoding="utf-8", errors="replace",
    )  # fmt: skip
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        raise Failed(f"make {target} failed; its output ends:\n{end}")
    return time.perf_counter() - start


def measure(targets, folder):
    """Return the seconds of each target, the megabytes installed, and the failure, if any."""
    seconds, weight_mb = {}, None
    for name, target in targets.items():
        try:
            seconds[name] = make(target, folder)
        except Failed as failure:
            return seconds, weight_mb, str(failure)
        if name == "installation":
            weight_mb = weight(Path(folder) / ".venv") / 1e6
    return seconds, weight_mb, ""


def main():
    """Measure, print, write."""
    print(machine_line())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
        seconds, weight_mb, failure = measure(TARGETS, folder)
    table = Table("command", "seconds", box=box.SIMPLE)
    for name, took in seconds.items():
        table.add_row(name, f"{took:.0f}")
    Console().print(table)
    content = {"machine": machine(), "seconds": seconds}
    if weight_mb is not None:
        print(f"installation: {weight_mb:,.0f} MB")
        content["installation_mb"] = weight_mb
    Path("results").mkdir(exist_ok=True)
    text = json.dumps(content, indent=1) + "\n"
    Path("results/bench-commands.json").write_text(text, encoding="utf-8")
    if failure:
        sys.exit(failure)


if __name__ == "__main__":
    main()
