"""Statistics of a log of many files, computed in chunks by threads or a cluster.

A chunk is a run of consecutive files that takes a few seconds; no episode is split between two
chunks. The chunks depend only on the files, and their statistics are merged in order, so the result
is bit-identical however they are computed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from saddleback._progress import Progress
from saddleback._provenance import versions
from saddleback._typing import OffsetArray
from saddleback.errors import Fix, InvalidParameter
from saddleback.features import Features
from saddleback.log import BehaviourTarget, Log, as_target
from saddleback.log.behaviour_target import NAME
from saddleback.log.callable_fingerprint import fingerprint
from saddleback.log.row_source import RowSource
from saddleback.ope import Statistics, load_statistics, save_statistics
from saddleback.ope.feature_spec import load_features
from saddleback.ope.statistics_io import packed_statistics
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.rules import Rule, as_rule
from saddleback.rules.parse import located_text
from saddleback.sweep.executors import ExecutorHandle
from saddleback.sweep.store import Store, check_versions
from saddleback.sweep.task_runner import Task, run_tasks

MIN_ROWS = 2_000_000
"""Smallest number of rows in a chunk, if the log has that many."""

BYTES_PER_ROW = 300
"""Bytes of statistics that justify one more row: large statistics get larger chunks."""

MAX_CHUNKS = 1000
"""Approximate largest number of chunks."""


@dataclass(frozen=True, eq=False)
class ChunkedStatistics:
    """The statistics to compute from a log, in a form that can be sent to a worker.

    Attributes
    ----------
    log
        The complete log, read from files.
    rules, targets
        As for `Statistics.of`; the logged policy is added to the targets.
    features
        Built-in features, or ``module.py:name`` of custom ones.
    gamma, shared, blocks, allow_uncovered
        As for `Statistics.of`.
    """

    log: Log
    rules: tuple[Rule, ...]
    targets: Mapping[str, Any]
    features: Features | str
    gamma: float
    shared: bool = False
    blocks: int = 20
    allow_uncovered: bool = False

    def resolve_features(self, log: Log) -> Features:
        """Return the features; custom ones are loaded and checked against a log."""
        return (
            load_features(self.features, log) if isinstance(self.features, str) else self.features
        )

    def setting(self) -> StatisticsKey:
        """Return the setting of the statistics; refuse inconsistent arguments."""
        policies = [as_target(policy, self.log, name) for name, policy in self.targets.items()]
        return StatisticsKey.of(
            self.log,
            self.rules,
            policies,
            self.resolve_features(self.log),
            self.gamma,
            self.shared,
            self.blocks,
        )

    def chunks(self) -> list[tuple[RowSource, ...]]:
        """Return the files of each chunk."""
        setting = self.setting()
        pairs = len(self.rules) * (len(self.targets) + 1)
        size = 8 * pairs * self.blocks * setting.p**2
        smallest = max(MIN_ROWS, size // BYTES_PER_ROW, self.log.rows // MAX_CHUNKS)
        column = self.log.roles.names["episode_id"]
        chunks: list[list[RowSource]] = [[]]
        rows = 0
        for part in self.log.sources:
            if rows >= smallest and not _episode_continues(chunks[-1][-1], part, column):
                chunks.append([])
                rows = 0
            chunks[-1].append(part.absolute())
            rows += part.rows
        return [tuple(files) for files in chunks]

    def compute(self, log: Log, threads: int = 1, progress: Progress | None = None) -> Statistics:
        """Compute the statistics of the log or a part of it."""
        return Statistics.of(
            log, self.rules,
            {**self.targets, NAME: BehaviourTarget.from_counts(log.sample().action_counts)},
            features=self.resolve_features(log), gamma=self.gamma, shared=self.shared,
            blocks=self.blocks, allow_uncovered=self.allow_uncovered, threads=threads,
            progress=progress,
        )  # fmt: skip

    def tasks(self) -> list[Task]:
        """Return one task per chunk, each with only the files of its chunk."""
        names = self.log.action_names
        rules = [(located_text(rule) or rule, rule.label) for rule in self.rules]
        tasks = []
        for files in self.chunks():
            paths = [path for file in files for path in file.files]
            log = self.log.with_options(
                data=paths, sources=files, actions=names, categorical=self.log.categories or None
            )
            chunk = replace(self, log=log, rules=())
            name = f"files-{hashlib.sha256(_file_states(paths).encode()).hexdigest()[:16]}"
            size = sum(file.rows for file in files)
            tasks.append(Task(name, partial(compute_chunk, chunk, rules, versions()), size))
        return tasks

    def study(self) -> dict[str, Any]:
        """Return the settings as JSON data, for the manifest of the store."""
        log = self.log
        behaviour = None if log.behaviour is None else fingerprint(log.behaviour)
        return self.setting().as_dict() | {
            "columns": dict(log.roles.names), "behaviour": behaviour,
            "without propensities": log.ignore_propensities,
        }  # fmt: skip


def compute_chunk(
    chunk: ChunkedStatistics,
    rules: Sequence[tuple[Rule | str, str]],
    required: Mapping[str, str],
    progress: Progress | None,
) -> bytes:
    """Compute the statistics of one chunk; return them as the content of a file.

    Rules come as text, each with its label: a class from a file of the user cannot be unpickled in
    another process.
    """
    check_versions(required)
    chunk = replace(chunk, rules=tuple(replace(as_rule(r), label=label) for r, label in rules))
    return packed_statistics(chunk.compute(chunk.log, progress=progress))


def run_chunks(
    job: ChunkedStatistics,
    tasks: Sequence[Task],
    folder: Path,
    executor: ExecutorHandle,
    command: str,
    progress: Progress | None = None,
    out: Path | None = None,
) -> Statistics:
    """Compute all chunks, keeping each in a folder; return the merged statistics.

    With ``out``, they are saved there, and the folder is removed.
    """
    study = {"statistics": job.study()}
    fix = Fix(f"Remove {folder}, or choose another file", "out")
    with Store.open(folder, study, command, ".npz", fix) as store:
        run_tasks(tasks, store, executor, progress, name="stats", unit="rows")
        merged = _merge([store.path(task.name) for task in tasks], job.rules)
        _check_unique(merged.ids)
        if out is not None:
            save_statistics(merged, out)
            store.remove()
    return merged


def _merge(paths: Sequence[Path], rules: Sequence[Rule]) -> Statistics:
    """Merge saved statistics pairwise: each file is read once, and few are in memory at a time."""
    if len(paths) == 1:
        return load_statistics(paths[0], rules)
    middle = len(paths) // 2
    return _merge(paths[:middle], rules).merge(_merge(paths[middle:], rules))


def _check_unique(ids: OffsetArray) -> None:
    """Refuse duplicate episode ids, as when the log is read in one pass."""
    duplicates = len(ids) - len(np.unique(ids))
    if duplicates:
        raise InvalidParameter(
            f"{duplicates:,} episode id{'s occur' if duplicates > 1 else ' occurs'} in several "
            "files: duplicated episodes, or ids that restart in each file? Give different episodes "
            "different ids."
        )


def _episode_continues(file: RowSource, following: RowSource, column: str) -> bool:
    """Whether the last episode of a file continues in the following one."""
    last, first = file.last(column), next(following.batches([column]), None)
    if last is None or first is None or not first.num_rows:
        return True
    return bool(last == first.column(0)[0].as_py())


def _file_states(files: Sequence[str]) -> str:
    """Return path, size and modification time of each file, which identify its content."""
    states = []
    for name in files:
        state = os.stat(name)
        states.append(f"{os.path.abspath(name)} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(states)
