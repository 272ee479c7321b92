"""Cost of a study: learner-steps, time, memory and disk, from a short calibration."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saddleback.engine import as_source
from saddleback.errors import InvalidParameter
from saddleback.learning.device import engine_on
from saddleback.sweep.store import parquet_bytes
from saddleback.sweep.study import Study, TaskSpec
from saddleback.sweep.study_metrics import study_metrics
from saddleback.sweep.task import device_memory, run_task

TOTAL_SECONDS, MIN_SECONDS = 0.5, 0.05
"""Seconds of calibration over all kinds of tasks, and at least per kind."""

LEARNER = 4 * 8
"""Bytes per learner and feature: θ and ω, and copies while metrics are computed."""

ROW = 120
"""Bytes per row of results in memory."""

SAMPLE = 2000
"""Steps for estimated metrics while calibrating; computing the metrics takes as long."""

PROCESS, SYSTEM = 320_000_000, 4
"""Bytes of the process itself; and matrices of p² numbers per rule, for the metrics."""


@dataclass(frozen=True)
class Plan:
    """Estimated cost of a study.

    Attributes
    ----------
    learners, learner_steps
        Settings times runs, and their total number of steps.
    tasks
        Number of tasks, which is that of shards.
    seconds
        Total time on one thread.
    longest
        Seconds of the longest task.
    rate
        Learner-steps per second and thread.
    memory, shared
        Bytes per thread, or on the GPU; and bytes shared by all threads, including the process
        itself.
    disk
        Bytes of the store.
    device
        Name of the GPU; empty on the CPU.

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
    device: str = ""


def plan(study: Study, folder: Path, workers: int = 1) -> Plan:
    """Estimate the cost of a study by running each kind of task briefly.

    Parameters
    ----------
    study
        The study, as `read_study` returns it.
    folder
        Folder of the study file, to which paths in it are relative.
    workers
        Number of threads, for a study on a GPU.

    Examples
    --------
    >>> from saddleback.sweep.study import EXAMPLE
    >>> cost = plan(EXAMPLE, Path())
    >>> cost.learners, cost.learner_steps, cost.tasks
    (12, 12000, 1)
    """
    if study.function:
        raise InvalidParameter(
            f"the cost of {study.function} is unknown: only learning can be estimated."
        )
    study = study.on_device(study.device, workers)
    on_gpu = study.device != "cpu"
    gpu_memory = device_memory(study, folder) if on_gpu else 0
    specs = list(study.task_specs())
    sizes = [as_source("study", case.build(folder)).p for case in study.cases]
    kinds = [_kind(study, spec, sizes[spec.case]) for spec in specs]
    duration = max(MIN_SECONDS, TOTAL_SECONDS / len(set(kinds)))
    calibrations: dict[Kind, tuple[float, float, float, float]] = {}
    learners = steps = disk = memory = all_rows = 0
    seconds = longest = 0.0
    for spec, kind in zip(specs, kinds, strict=True):
        if kind not in calibrations:
            calibrations[kind] = _calibrate(study, spec, folder, duration, workers)
        per_step, per_run, empty_bytes, row_bytes = calibrations[kind]
        case, p = study.cases[spec.case], sizes[spec.case]
        runs = spec.run_stop - spec.run_start
        betas = sum(study.beta_count(r, spec.case) for r in range(spec.rule_start, spec.rule_stop))
        settings = betas * (spec.alpha_stop - spec.alpha_start)
        rows = settings * len(case.points) * runs
        learners += settings * runs
        steps += spec.size
        disk += int(empty_bytes + rows * row_bytes)
        task_seconds = spec.size * per_step + (1 if on_gpu else runs) * per_run
        seconds += task_seconds
        longest = max(longest, task_seconds)
        memory = max(memory, settings * p * LEARNER + rows * ROW)
        all_rows += rows
    shared = PROCESS + all_rows * ROW + 8 * SYSTEM * len(study.rules) * sum(p * p for p in sizes)
    name = engine_on(study.device).name if on_gpu else ""
    return Plan(
        learners, steps, len(specs), seconds, longest, steps / seconds, gpu_memory or memory, disk,
        shared, name,
    )  # fmt: skip


Kind = tuple[str | None, str | None, str, int, bool, int]


def _kind(study: Study, spec: TaskSpec, p: int) -> Kind:
    """Return the properties that determine the speed of a task."""
    case = study.cases[spec.case]
    # On a GPU learners advance side by side, so that time depends on their number.
    size = 0 if study.device == "cpu" else spec.size
    return case.name, case.make, case.unit, p, study.has_dual(spec.rule_start), size


def _calibrate(
    study: Study, spec: TaskSpec, folder: Path, duration: float, workers: int
) -> tuple[float, float, float, float]:
    """Return seconds per learner-step and per run, and bytes per empty shard and per row.

    On a GPU the runs of a task count as one, and use all threads.
    """
    case = study.cases[spec.case]
    problem, short = case.build(folder), replace(study, sample=min(study.sample, SAMPLE))
    indices = range(spec.rule_start, spec.rule_stop)
    rules = [
        (rule, study_metrics(short, spec.case, problem, rule, folder))
        for rule in (study.rule(r, spec.case, folder) for r in indices)
    ]
    smallest = len(case.points)  # so that the metrics take the same time in every trial
    count = min(case.count, max(smallest, 1 if case.unit == "episodes" else 200))
    runs, threads = (1, 1) if study.device == "cpu" else (spec.run_stop - spec.run_start, workers)
    spec = replace(spec, case=0, run_start=0, run_stop=runs)
    previous: tuple[int, float] | None = None
    warm = False
    while True:
        points = np.unique(np.linspace(0, count, len(case.points)).astype(int))
        short_case = replace(case, count=count, points=tuple(points.tolist()))
        trial = replace(study, cases=(short_case,))
        if not warm:
            run_task(trial, spec, problem, rules, None, threads)  # compiles the kernels
            warm = True
        seconds = np.inf
        for _ in range(2):  # the faster of two: the machine may be busy
            start = time.perf_counter()
            content = run_task(trial, spec, problem, rules, None, threads).content
            seconds = min(seconds, time.perf_counter() - start)
        rows = pq.read_table(pa.BufferReader(content), use_threads=False)
        steps = json.loads(rows.schema.metadata[b"saddleback"])["learner_steps"]
        long_enough = previous is not None and seconds - previous[1] >= duration
        if long_enough or count >= case.count:
            per_step, per_run = seconds / steps, 0.0
            if previous is not None and count < case.count:
                # Costs independent of the number of steps, such as metrics, occur once per run.
                per_step = (seconds - previous[1]) / (steps - previous[0])
                per_run = max(0.0, seconds - per_step * steps)
            empty_bytes = len(parquet_bytes(rows.slice(0, 0)))
            return per_step, per_run, empty_bytes, (len(content) - empty_bytes) / len(rows)
        previous = (steps, seconds)
        count = min(case.count, 8 * count)
