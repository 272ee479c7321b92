"""One task of a study: from plain data to the rows of a shard, on any machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._progress import Progress, part_of
from saddleback._provenance import versions
from saddleback._threads import ThreadSafeCache
from saddleback.engine import Source, as_source
from saddleback.learning import Run, learn
from saddleback.learning.device import engine_on
from saddleback.learning.run import run_columns, unstack
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.sweep.function_task import function_tasks
from saddleback.sweep.manifest import study_hash
from saddleback.sweep.store import check_versions, parquet_bytes
from saddleback.sweep.study import Study, TaskSpec
from saddleback.sweep.study_metrics import METRICS, Metrics, study_metrics
from saddleback.sweep.task_runner import Shard, Task

LEARNERS = 100
"""Learner-steps that take as long as one step of experience in the estimate of a system."""


OWN_LABELS = ("rule", "recorded", "run", "setting")
"""Columns of a run that the rows of a study have otherwise."""


def tasks_of(study: Study, folder: Path, threads: int = 1) -> list[Task]:
    """Return the tasks of a study, each in some threads; paths are relative to the folder."""
    if study.function:
        return function_tasks(study, folder)
    data, directory, required = json.dumps(study.as_dict()), str(folder.resolve()), versions()
    return [
        Task(spec.name, partial(compute, data, spec, directory, threads, required), spec.size)
        for spec in study.task_specs()
    ]


def compute(
    data: str,
    spec: TaskSpec,
    folder: str,
    threads: int,
    required: Mapping[str, str],
    progress: Progress | None,
) -> Shard:
    """Run one task of a study given as JSON; return its shard."""
    check_versions(required)
    with _LOCK:
        context = _context(data, folder)
    rules = [
        (context.study.rule(r, spec.case, Path(folder)), context.metrics((spec.case, r)))
        for r in range(spec.rule_start, spec.rule_stop)
    ]
    return run_task(context.study, spec, context.problem(spec.case), rules, progress, threads)


def metric_tasks(study: Study, folder: Path) -> list[Task]:
    """Return the computation of metrics by functions of the user, which several tasks share."""
    if all(metric in METRICS for metric in study.metrics):
        return []
    data, directory = json.dumps(study.as_dict()), str(folder.resolve())
    return [
        Task(f"metrics-{case}-{rule}", partial(_prepare, data, directory, (case, rule)),
             LEARNERS * study.sample)
        for rule in range(len(study.rules))
        for case in range(len(study.cases))
    ]  # fmt: skip


def _prepare(data: str, folder: str, key: tuple[int, int], progress: Progress | None) -> bytes:
    """Compute the metrics of a rule on a problem, and keep them for the tasks."""
    with _LOCK:
        context = _context(data, folder)
    context.metrics(key)
    return b""


def run_task(
    study: Study,
    spec: TaskSpec,
    problem: Problem | Source,
    rules: Sequence[tuple[Rule, Metrics]],
    progress: Progress | None = None,
    threads: int = 1,
) -> Shard:
    """Run one task of a study, given its problem, and its rules with their metrics."""
    case = study.cases[spec.case]
    tables = []
    learners = steps = diverged = 0
    for run, results in _runs(study, spec, problem, rules, threads, progress):
        for index, result in enumerate(results, spec.rule_start):
            parameter = result.rule.trace.parameter
            labels = {
                "problem": case.label, "rule": result.rule.display_name,
                "name": study.rules[index][0],
                "lam": np.nan if parameter is None else parameter, "run": run,
            }  # fmt: skip
            tables.append(run_table(result, labels))
            learners += result.ok.size
            steps += result.ok.size * int(result.updates[-1])
            diverged += int((~result.ok).sum())
    metadata = {
        "study": study_hash(study.as_dict()), "task": spec.name, "entropy": study.seed,
        "spawn_keys": [
            list(study.spawn_key(spec.case, run)) for run in range(spec.run_start, spec.run_stop)
        ],
        "learners": learners, "learner_steps": steps, "diverged": diverged,
    }  # fmt: skip
    return Shard(parquet_bytes(pa.concat_tables(tables), metadata), diverged)


def _runs(
    study: Study,
    spec: TaskSpec,
    problem: Problem | Source,
    rules: Sequence[tuple[Rule, Metrics]],
    threads: int,
    progress: Progress | None,
) -> Iterator[tuple[int, Sequence[Run]]]:
    """Yield the number of each run with its results by rule; on a GPU all that fit run at once."""
    case, engine = study.cases[spec.case], engine_on(study.device)
    alpha, beta = study.step_sizes(spec)
    metrics = dict(rules)
    count, at_once = spec.run_stop - spec.run_start, 1
    if engine.runs_together:
        forms = [rule.form for rule, _ in rules]
        at_once = engine.runs_that_fit(*_sizes(study, spec, problem), forms, count)
    for done in range(0, count, at_once):
        first, several = spec.run_start + done, min(at_once, count - done)
        results = learn(
            [rule for rule, _ in rules], problem, alpha=alpha, beta=beta, **{case.unit: case.count},
            runs=several,
            rng=np.random.SeedSequence(
                study.seed, spawn_key=study.spawn_key(spec.case, first)[:-1],
                n_children_spawned=first,
            ),
            record=np.array(case.points), metrics=lambda rule: metrics[rule],
            theta0=study.initial_weights(spec.case), threads=threads, device=study.device,
            progress=part_of(progress, done / count, (done + several) / count),
        )  # type: ignore[call-overload]  # fmt: skip
        yield from enumerate(zip(*map(unstack, results), strict=True), first)


def device_memory(study: Study, folder: Path) -> int:
    """Return the memory of a GPU that the largest task needs; refuse runs that do not fit."""
    engine, largest = engine_on(study.device), 0
    for spec in study.task_specs():
        sizes = (
            *_sizes(study, spec, study.cases[spec.case].build(folder)),
            [study.rule(r, spec.case, folder).form for r in range(spec.rule_start, spec.rule_stop)],
        )
        engine.check(*sizes)
        at_once = engine.runs_that_fit(*sizes, spec.run_stop - spec.run_start)
        largest = max(largest, engine.needs(sizes[0] * at_once, *sizes[1:]))
    return largest


def _sizes(
    study: Study, spec: TaskSpec, problem: Problem | Source
) -> tuple[list[int], int, np.dtype[Any]]:
    """Return the learners of each rule in one run, the number of features and the type."""
    settings = (spec.alpha_stop - spec.alpha_start) * study.beta_count(spec.rule_start, spec.case)
    rules = spec.rule_stop - spec.rule_start
    return [settings] * rules, as_source("study", problem).p, np.dtype(np.float64)


def run_table(run: Run, labels: Mapping[str, Any]) -> pa.Table:
    """Return a run of one rule in long form, by point, α and β; labels are constant columns."""
    columns = run_columns(run)
    size = len(columns["recorded"])
    constant = {
        name: [value] * size if isinstance(value, str) else np.full(size, value)
        for name, value in labels.items()
    }
    own = {name: values for name, values in columns.items() if name not in OWN_LABELS}
    return pa.table({**constant, "point": columns["recorded"], **own})


class StudyContext:
    """A study with its metrics, each computed once, when first needed."""

    def __init__(self, study: Study, folder: Path) -> None:
        self.study, self._folder = study, folder
        self.metrics = ThreadSafeCache[tuple[int, int], Metrics](self._metrics)

    def problem(self, index: int) -> Problem | Source:
        """Return the problem of a case; cases with equal parameters share it."""
        with _LOCK:  # it is built once
            return self.study.cases[index].build(self._folder)

    def _metrics(self, key: tuple[int, int]) -> Metrics:
        case, rule = key
        problem = self.problem(case)
        chosen = self.study.rule(rule, case, self._folder)
        return study_metrics(self.study, case, problem, chosen, self._folder)


_LOCK = RLock()


@lru_cache(8)
def _context(data: str, folder: str) -> StudyContext:
    return StudyContext(Study.from_dict(json.loads(data)), Path(folder))
