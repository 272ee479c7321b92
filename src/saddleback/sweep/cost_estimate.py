"""What a study will take: learner-steps, time, memory and disk, from a short calibration."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saddleback.engine import as_source
from saddleback.sweep.store import packed
from saddleback.sweep.study import Part, Study, measures
from saddleback.sweep.task import work

LONG, LEAST = 0.5, 0.05
"""Seconds that a calibration takes for all kinds of tasks together, and at least for each."""

LEARNER = 4 * 8
"""Bytes of a learner for each feature: θ and ω, and copies while they are measured."""

ROW = 120
"""Bytes of a row of results in memory."""

SAMPLE = 2000
"""Steps behind estimated metrics while calibrating: they take as long to measure."""

PROCESS, SYSTEM = 320_000_000, 4
"""Bytes of the process itself; and matrices of p² numbers for each rule, to measure with."""


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
    memory, shared
        Bytes for each thread; and for all together, the process itself among them.
    disk
        Bytes of the store.

    Examples
    --------
    >>> small = Plan(
    ...     learners=10, learner_steps=10_000, tasks=1, seconds=0.5, longest=0.5, rate=20_000.0,
    ...     memory=5_000, disk=12_000, shared=300_000_000,
    ... )  # fmt: skip
    >>> small.learner_steps / small.rate == small.seconds
    True
    """

    learners: int
    learner_steps: int
    tasks: int
    seconds: float
    longest: float
    rate: float
    memory: int
    disk: int
    shared: int


def plan(study: Study, folder: Path) -> Plan:
    """Calibrate each kind of task for a moment, and add up.

    Parameters
    ----------
    study
        The study, as `read_study` returns it.
    folder
        From which paths in it are meant: where its file is.

    Examples
    --------
    >>> from saddleback.sweep.study import EXAMPLE
    >>> found = plan(EXAMPLE, Path())
    >>> found.learners, found.learner_steps, found.tasks
    (12, 12000, 1)
    """
    parts = list(study.parts())
    sizes = [as_source("study", case.build(folder)).p for case in study.cases]
    kinds = [_kind(study, part, sizes[part.case]) for part in parts]
    enough = max(LEAST, LONG / len(set(kinds)))
    known: dict[Kind, tuple[float, float, float, float]] = {}
    learners = steps = disk = memory = all_rows = 0
    seconds = longest = 0.0
    for part, kind in zip(parts, kinds, strict=True):
        if kind not in known:
            known[kind] = _calibrate(study, part, folder, enough)
        slope, fixed, empty, row = known[kind]
        case, p = study.cases[part.case], sizes[part.case]
        betas = sum(study.width(r) for r in range(part.rule, part.rules))
        settings = betas * (part.alphas - part.alpha)
        rows = settings * len(case.points) * (part.runs - part.run)
        learners += settings * (part.runs - part.run)
        steps += part.size
        disk += int(empty + rows * row)
        long = part.size * slope + (part.runs - part.run) * fixed
        seconds += long
        longest = max(longest, long)
        memory = max(memory, settings * p * LEARNER + rows * ROW)
        all_rows += rows
    shared = PROCESS + all_rows * ROW + 8 * SYSTEM * len(study.rules) * sum(p * p for p in sizes)
    return Plan(
        learners, steps, len(parts), seconds, longest, steps / seconds, memory, disk, shared
    )


Kind = tuple[str | None, str | None, str, int, bool]


def _kind(study: Study, part: Part, p: int) -> Kind:
    """Return what the pace of a part depends on."""
    case = study.cases[part.case]
    return case.name, case.make, case.unit, p, study.rule(part.rule).form.has_dual


def _calibrate(
    study: Study, part: Part, folder: Path, enough: float
) -> tuple[float, float, float, float]:
    """Return seconds of a learner-step and of a run, bytes of an empty shard and of each row."""
    case = study.cases[part.case]
    problem, sample = case.build(folder), min(study.sample, SAMPLE)
    chosen = {
        rule: measures(problem, rule, study.metrics, sample, study.seed)
        for rule in map(study.rule, range(part.rule, part.rules))
    }
    least = len(case.points)  # so that measuring takes as long each time
    count = min(case.count, max(least, 1 if case.unit == "episodes" else 200))
    part = replace(part, case=0, run=0, runs=1)
    before: tuple[int, float] | None = None
    warm = False
    while True:
        points = np.unique(np.linspace(0, count, len(case.points)).astype(int))
        small = replace(case, count=count, points=tuple(points.tolist()))
        only = replace(study, cases=(small,))
        if not warm:
            work(only, part, problem, chosen)  # kernels are compiled
            warm = True
        taken = np.inf
        for _ in range(2):  # the better of two: others use this machine too
            begun = time.perf_counter()
            content = work(only, part, problem, chosen)
            taken = min(taken, time.perf_counter() - begun)
        rows = pq.read_table(pa.BufferReader(content), use_threads=False)
        steps = json.loads(rows.schema.metadata[b"saddleback"])["learner_steps"]
        long = before is not None and taken - before[1] >= enough
        if long or count >= case.count:
            slope, fixed = taken / steps, 0.0
            if before is not None and count < case.count:
                # What takes the same however long it learns, as measuring does, is paid once.
                slope = (taken - before[1]) / (steps - before[0])
                fixed = max(0.0, taken - slope * steps)
            empty = len(packed(rows.slice(0, 0)))
            return slope, fixed, empty, (len(content) - empty) / len(rows)
        before = (steps, taken)
        count = min(case.count, 8 * count)
