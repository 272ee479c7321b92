"""What a study will take: learner-steps, time, memory and disk, from a short calibration."""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from saddleback.engine import as_source
from saddleback.sweep.compute import compute
from saddleback.sweep.store import versions
from saddleback.sweep.study import Part, Study

LONG = 0.2
"""Seconds that a calibration takes, for each kind of task."""

LEARNER = 4 * 8
"""Bytes of a learner for each feature: θ and ω, and copies while they are measured."""

ROW = 120
"""Bytes of a row of results in memory."""


@dataclass(frozen=True)
class Plan:
    """What a study will take.

    Attributes
    ----------
    learners, learner_steps
        Settings times runs, and all their steps.
    tasks
        Shards.
    seconds
        Of one thread.
    longest
        Seconds of the longest task, on one thread.
    rate
        Learner-steps in a second of one thread.
    memory
        Bytes for each thread, besides the process itself.
    disk
        Bytes of the store.
    """

    learners: int
    learner_steps: int
    tasks: int
    seconds: float
    longest: float
    rate: float
    memory: int
    disk: int


def plan(study: Study, folder: Path) -> Plan:
    """Calibrate each kind of task for a moment, and add up."""
    parts = list(study.parts())
    known: dict[tuple[Any, ...], tuple[float, float]] = {}
    sizes = [as_source("study", case.build(folder)).p for case in study.cases]
    learners = steps = disk = memory = 0
    seconds = longest = 0.0
    for part in parts:
        case, p = study.cases[part.case], sizes[part.case]
        kind = (case.name, case.make, case.unit, p, study.rule(part.rule).form.has_dual)
        if kind not in known:
            known[kind] = _calibrate(study, part, folder)
        rate, width = known[kind]
        betas = sum(study.width(r) for r in range(part.rule, part.rules))
        settings = betas * (part.alphas - part.alpha)
        rows = settings * len(case.points) * (part.runs - part.run)
        learners += settings * (part.runs - part.run)
        steps += part.size
        disk += int(rows * width)
        seconds += part.size / rate
        longest = max(longest, part.size / rate)
        memory = max(memory, settings * p * LEARNER + rows * ROW)
    return Plan(learners, steps, len(parts), seconds, longest, steps / seconds, memory, disk)


def _calibrate(study: Study, part: Part, folder: Path) -> tuple[float, float]:
    """Return learner-steps per second of such a part, and bytes for each row of results."""
    case, where = study.cases[part.case], str(folder.resolve())
    count = 1 if case.unit == "episodes" else 200
    one = replace(part, case=0, run=0, runs=1)
    warm = False
    while True:
        short = replace(case, count=count, points=tuple(sorted({0, count})))
        text = json.dumps(replace(study, cases=(short,)).plain())
        begun = time.perf_counter()
        content = compute(text, one, where, versions())
        taken = time.perf_counter() - begun
        if warm and (taken >= LONG or count >= case.count):
            with pq.ParquetFile(io.BytesIO(content)) as file:
                facts = json.loads(file.schema_arrow.metadata[b"saddleback"])
                rows = file.metadata.num_rows
            return max(1.0, facts["learner_steps"] / taken), len(content) / rows
        if warm:
            count = min(case.count, count * 4)
        warm = True  # the first time kernels are compiled, and systems solved
