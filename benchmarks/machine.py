"""The machine, date and versions of a benchmark run, printed above its tables."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from pathlib import Path

from saddleback._provenance import versions


def processor() -> str:
    """Return the name of the processor as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def commit() -> str:
    """Return the commit of this checkout, with "-dirty" if files differ from it; "" without git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def machine() -> dict[str, object]:
    """Return processor, cores, date, commit and versions, for the JSON file of a benchmark."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "date": date.today().isoformat(),
        "commit": commit(),
        "versions": versions(),
    }


def machine_line() -> str:
    """Return the same as one line, for the terminal."""
    info = machine()
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"{info['processor']}, {info['cores']} cores, {info['date']}; {packages}"
