"""One task of a study: from plain data to the rows of a shard, on any machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._progress import Progress, part_of
from saddleback._provenance import versions
from saddleback.engine import Source
from saddleback.learning import Run, learn
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.sweep.store import check_versions, parquet_bytes, study_hash
from saddleback.sweep.study import Metrics, Study, TaskSpec, study_metrics
from saddleback.sweep.task_runner import Shard, Task


def tasks_of(study: Study, folder: Path) -> list[Task]:
    """Return the tasks of a study; paths in ``make`` are relative to the folder."""
    data, directory, required = json.dumps(study.as_dict()), str(folder.resolve()), versions()
    return [
        Task(spec.name, partial(compute, data, spec, directory, required), spec.size)
        for spec in study.task_specs()
    ]


def compute(
    data: str, spec: TaskSpec, folder: str, required: Mapping[str, str], progress: Progress | None
) -> Shard:
    """Run one task of a study given as JSON; return its shard."""
    check_versions(required)
    study = _study(data)
    with _LOCK:  # files are imported, and systems solved, once
        problem = _problem(data, spec.case, folder)
        metrics = {
            study.rule(r): _metrics(data, spec.case, folder, r)
            for r in range(spec.rule_start, spec.rule_stop)
        }
    return run_task(study, spec, problem, metrics, progress)


def run_task(
    study: Study,
    spec: TaskSpec,
    problem: Problem | Source,
    metrics: Mapping[Rule, Metrics],
    progress: Progress | None = None,
) -> Shard:
    """Run one task of a study, given its problem and the metrics of each of its rules."""
    case = study.cases[spec.case]
    alpha, beta = study.step_sizes(spec)
    tables = []
    learners = steps = diverged = 0
    count = spec.run_stop - spec.run_start
    for done, run in enumerate(range(spec.run_start, spec.run_stop)):
        results = learn(
            list(metrics), problem, alpha=alpha, beta=beta, **{case.unit: case.count},
            rng=np.random.SeedSequence(study.seed, spawn_key=(spec.case, run)),
            record=np.array(case.points), metrics=lambda rule: metrics[rule], theta0=study.theta0,
            progress=part_of(progress, done / count, (done + 1) / count),
        )  # type: ignore[call-overload]  # fmt: skip
        for index, result in enumerate(results, spec.rule_start):
            name, parameters = study.rules[index]
            labels = {
                "problem": case.label, "rule": result.rule.display_name, "name": name,
                "lam": float(parameters.get("lam", parameters.get("zeta", np.nan))), "run": run,
            }  # fmt: skip
            no_beta = beta is None
            tables.append(
                run_table(replace(result, beta=np.full((), np.nan)) if no_beta else result, labels)
            )
            learners += result.ok.size
            steps += result.ok.size * int(result.updates[-1])
            diverged += int((~result.ok).sum())
    metadata = {
        "study": study_hash(study.as_dict()), "task": spec.name, "entropy": study.seed,
        "spawn_keys": [[spec.case, run] for run in range(spec.run_start, spec.run_stop)],
        "learners": learners, "learner_steps": steps, "diverged": diverged,
    }  # fmt: skip
    return Shard(parquet_bytes(pa.concat_tables(tables), metadata), diverged)


def run_table(run: Run, labels: Mapping[str, Any]) -> pa.Table:
    """Return a run of one rule in long form, by point, α and β; labels are constant columns."""
    full = (len(run.recorded), *run.diverged_at.shape)
    size = int(np.prod(full))

    def column(values: Any, dtype: Any) -> Any:
        return np.broadcast_to(values, full).astype(dtype).ravel()

    def constant(value: Any) -> Any:
        return [value] * size if isinstance(value, str) else np.full(size, value)

    table = {name: constant(value) for name, value in labels.items()}
    table |= {
        "point": column(run.recorded[:, None, None], np.int64),
        "updates": column(run.updates[:, None, None], np.int64),
        "alpha": column(run.alpha, np.float64),
        "beta": column(run.beta, np.float64),
        "diverged_at": column(run.diverged_at, np.int64),
    }
    return pa.table(table | {n: np.ravel(curve) for n, curve in run.curves.items()})


_LOCK = Lock()


@lru_cache(8)
def _study(data: str) -> Study:
    return Study.from_dict(json.loads(data))


@lru_cache(32)
def _problem(data: str, case: int, folder: str) -> Problem | Source:
    return _study(data).cases[case].build(Path(folder))


@lru_cache(256)
def _metrics(data: str, case: int, folder: str, index: int) -> Metrics:
    study = _study(data)
    problem = _problem(data, case, folder)
    return study_metrics(problem, study.rule(index), study.metrics, study.sample, study.seed)
