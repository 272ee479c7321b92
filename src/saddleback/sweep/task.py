"""The work of a study: one part of it, from plain data to the rows of a shard, on any machine."""

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
from saddleback.sweep.store import digest, packed, same_versions
from saddleback.sweep.study import Metrics, Part, Study, measures
from saddleback.sweep.task_runner import Task


def tasks_of(study: Study, folder: Path) -> list[Task]:
    """Return the tasks of a study; ``make`` of its problems is a path from the folder."""
    plain, where, wanted = json.dumps(study.plain()), str(folder.resolve()), versions()
    return [
        Task(part.name, partial(compute, plain, part, where, wanted), part.size)
        for part in study.parts()
    ]


def compute(
    plain: str, part: Part, folder: str, wanted: Mapping[str, str], progress: Progress | None
) -> bytes:
    """Do one part of a study; return the content of its shard."""
    same_versions(wanted)
    study = _study(plain)
    with _LOCK:  # files are imported, and systems solved, once
        problem = _problem(plain, part.case, folder)
        chosen = {
            study.rule(r): _metrics(plain, part.case, folder, r)
            for r in range(part.rule, part.rules)
        }
    return work(study, part, problem, chosen, progress)


def work(
    study: Study,
    part: Part,
    problem: Problem | Source,
    chosen: Mapping[Rule, Metrics],
    progress: Progress | None = None,
) -> bytes:
    """Do one part of a study, with its problem, rules and metrics at hand."""
    case = study.cases[part.case]
    alpha, beta = study.step_sizes(part)
    tables = []
    learners = steps = diverged = 0
    count = part.runs - part.run
    for done, run in enumerate(range(part.run, part.runs)):
        found = learn(
            list(chosen), problem, alpha=alpha, beta=beta, **{case.unit: case.count},
            rng=np.random.SeedSequence(study.seed, spawn_key=(part.case, run)),
            record=np.array(case.points), metrics=lambda rule: chosen[rule], theta0=study.theta0,
            progress=part_of(progress, done / count, (done + 1) / count),
        )  # type: ignore[call-overload]  # fmt: skip
        for index, each in enumerate(found, part.rule):
            name, parameters = study.rules[index]
            said = {
                "problem": case.label, "rule": each.rule.display_name, "name": name,
                "lam": float(parameters.get("lam", parameters.get("zeta", np.nan))), "run": run,
            }  # fmt: skip
            none = beta is None
            tables.append(rows_of(replace(each, beta=np.full((), np.nan)) if none else each, said))
            learners += each.ok.size
            steps += each.ok.size * int(each.updates[-1])
            diverged += int((~each.ok).sum())
    facts = {
        "study": digest(study.plain()), "task": part.name, "entropy": study.seed,
        "spawn_keys": [[part.case, run] for run in range(part.run, part.runs)],
        "learners": learners, "learner_steps": steps, "diverged": diverged,
    }  # fmt: skip
    return packed(pa.concat_tables(tables), facts)


def rows_of(found: Run, said: Mapping[str, Any]) -> pa.Table:
    """Lay a run of one rule out in rows: points, then α, then β; with the same said of each."""
    full = (len(found.recorded), *found.diverged_at.shape)
    size = int(np.prod(full))

    def column(values: Any, dtype: Any) -> Any:
        return np.broadcast_to(values, full).astype(dtype).ravel()

    def same(value: Any) -> Any:
        return [value] * size if isinstance(value, str) else np.full(size, value)

    table = {name: same(value) for name, value in said.items()}
    table |= {
        "point": column(found.recorded[:, None, None], np.int64),
        "updates": column(found.updates[:, None, None], np.int64),
        "alpha": column(found.alpha, np.float64),
        "beta": column(found.beta, np.float64),
        "diverged_at": column(found.diverged_at, np.int64),
    }
    return pa.table(table | {n: np.ravel(curve) for n, curve in found.curves.items()})


_LOCK = Lock()


@lru_cache(8)
def _study(plain: str) -> Study:
    return Study.of(json.loads(plain))


@lru_cache(32)
def _problem(plain: str, case: int, folder: str) -> Problem | Source:
    return _study(plain).cases[case].build(Path(folder))


@lru_cache(256)
def _metrics(plain: str, case: int, folder: str, index: int) -> Metrics:
    study = _study(plain)
    problem = _problem(plain, case, folder)
    return measures(problem, study.rule(index), study.metrics, study.sample, study.seed)
