"""On what, when and with which versions a benchmark was run; each prints it above its table."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

from saddleback._provenance import versions


def processor() -> str:
    """The processor by the name the system has for it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def machine() -> dict[str, object]:
    """Processor, cores, date and versions, for the file of numbers."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "date": date.today().isoformat(),
        "versions": versions(),
    }


def told() -> str:
    """The same in a line, for the terminal."""
    known = machine()
    each = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"{known['processor']}, {known['cores']} cores, {known['date']}; {each}"
