"""Faults of inputs and of machines: damaged files, wrong rows, kills and full disks.

Hypothesis strategies generate the tries, each a damaged input and how to use it. A seed stands for
the bytes that the strategies draw from: the same family and seed are the same try.
"""

from __future__ import annotations

import traceback
import zlib
from pathlib import Path

from . import kills, logs, options, policies, saved_files, studies, tuning
from .mutations import generated
from .trial import Outcome, Trial, judge

FAMILIES = {
    "bytes of logs": logs.damaged_bytes(),
    "columns of logs": logs.wrong_columns(),
    "rows of logs": logs.wrong_rows(),
    "saved results": saved_files.damaged_result(),
    "saved statistics": saved_files.damaged_arrays("statistics"),
    "saved systems": saved_files.damaged_arrays("system"),
    "study files": studies.changed_study(),
    "stores": studies.damaged_store(),
    "policies": policies.wrong_policy(),
    "options": options.odd_options(),
    "tuning": tuning.odd_tuning(),
    "kill -9": kills.killed(),
    "full disk": kills.full_disk(),
}
"""Strategies of tries, by name."""

QUICK = tuple(name for name in FAMILIES if name not in ("kill -9", "full disk", "stores"))
"""Families that need no other process and take milliseconds."""


def draw_try(family: str, seed: int) -> Trial:
    """Return the try of a seed."""
    trial: Trial = generated(FAMILIES[family], zlib.crc32(family.encode()), seed)
    return trial


def run_try(family: str, seed: int, folder: Path) -> tuple[Outcome, str]:
    """Make one try in an empty folder; return its outcome, what was damaged and what followed."""
    try:
        trial = draw_try(family, seed)
        reference = trial.reference()
    except Exception:
        return Outcome.TRACEBACK, f"before any damage\n{traceback.format_exc()}"
    return judge(trial, reference, folder)


def command(family: str, seed: int) -> str:
    """Return the command that repeats a try and prints what becomes of it."""
    return f"python -m benchmarks.faults 1 --family '{family}' --first {seed}"
