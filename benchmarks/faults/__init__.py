"""Faults of inputs and of machines: damaged files, wrong rows, kills and full disks.

A try damages one input at random and uses it. ``run_try(family, seed, folder)`` makes one; the same
family and seed give the same damage.
"""

from __future__ import annotations

import traceback
import zlib
from pathlib import Path

import numpy as np

from . import kills, logs, options, policies, saved_files, studies, tuning
from .trial import Outcome, judge

FAMILIES = {
    "bytes of logs": logs.damaged_bytes,
    "columns of logs": logs.wrong_columns,
    "rows of logs": logs.wrong_rows,
    "saved results": saved_files.damaged_result,
    "saved statistics": saved_files.damaged_statistics,
    "saved systems": saved_files.damaged_system,
    "study files": studies.changed_study,
    "stores": studies.damaged_store,
    "policies": policies.wrong_policy,
    "options": options.odd_options,
    "tuning": tuning.odd_tuning,
    "kill -9": kills.killed,
    "full disk": kills.full_disk,
}
"""Trials by name: functions of a generator and an empty folder."""

QUICK = tuple(name for name in FAMILIES if name not in ("kill -9", "full disk", "stores"))
"""Families that need no other process and take milliseconds."""


def run_try(family: str, seed: int, folder: Path) -> tuple[Outcome, str]:
    """Make one try; return its outcome, and what was damaged and what followed."""
    rng = np.random.default_rng([zlib.crc32(family.encode()), seed])
    try:
        trial = FAMILIES[family](rng, folder)
    except Exception:
        return Outcome.TRACEBACK, f"before any damage\n{traceback.format_exc()}"
    return judge(trial)
