"""What a study will take: learner-steps, time, memory and disk, from a short calibration."""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from saddleback.engine import as_source
from saddleback.sweep.compute import compute
from saddleback.sweep.store import packed, versions
from saddleback.sweep.study import Study

LONG, LEAST = 0.5, 0.05
"""Seconds that a calibration takes for all problems together, and at least for each."""

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
    """Calibrate each problem for a moment, and add up."""
    parts = list(study.parts())
    rates, sizes = {}, {}
    for c in range(len(study.cases)):
        first = next(part for part in parts if part.case == c)
        rates[c], sizes[c] = _calibrate(study, c, (first.rule, first.rules), folder)
    learners = steps = disk = memory = 0
    seconds = longest = 0.0
    for part in parts:
        case = study.cases[part.case]
        betas = sum(study.width(r) for r in range(part.rule, part.rules))
        settings = betas * (part.alphas - part.alpha)
        rows = settings * len(case.points) * (part.runs - part.run)
        learners += settings * (part.runs - part.run)
        steps += part.size
        disk += int(sizes[part.case][0] + rows * sizes[part.case][1])
        seconds += part.size / rates[part.case]
        longest = max(longest, part.size / rates[part.case])
        p = as_source("study", case.build(folder)).p if part.run == 0 else 0
        memory = max(memory, settings * p * LEARNER + rows * ROW)
    return Plan(learners, steps, len(parts), seconds, longest, steps / seconds, memory, disk)


def _calibrate(
    study: Study, index: int, rules: tuple[int, int], folder: Path
) -> tuple[float, tuple[float, float]]:
    """Return learner-steps per second on a problem, and bytes of a shard and of each row of it."""
    case = study.cases[index]
    count, where = 1 if case.unit == "episodes" else 200, str(folder.resolve())
    enough = max(LEAST, LONG / len(study.cases))
    while True:
        small = replace(case, count=count, points=tuple(sorted({0, count})))
        only = replace(study, cases=(small,), runs=1, share=10**18)
        part = next(each for each in only.parts() if each.rule == rules[0])
        part = replace(part, rules=rules[1])
        text = json.dumps(only.plain())
        compute(text, part, where, versions())  # kernels are compiled, and systems solved, once
        taken = np.inf
        for _ in range(2):  # the better of two: others use this machine too
            begun = time.perf_counter()
            content = compute(text, part, where, versions())
            taken = min(taken, time.perf_counter() - begun)
        if taken >= enough or count >= case.count:
            rows = pq.read_table(io.BytesIO(content))
            facts = json.loads(rows.schema.metadata[b"saddleback"])
            empty = len(packed(rows.slice(0, 0)))
            each = (len(content) - empty) / len(rows)
            return max(1.0, facts["learner_steps"] / taken), (empty, each)
        count = min(case.count, count * int(np.clip(2 * enough / taken, 2, 100)))
