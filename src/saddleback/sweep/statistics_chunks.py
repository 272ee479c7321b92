"""Statistics of a log of many files: summed up group by group, wherever there is room.

A group is as many files, one after the other, as make a task of seconds; no episode is cut between
two of them. The groups follow from the files alone, and their sums are merged in order: so the
result is the same to the bit, whoever sums them up.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from saddleback._progress import Progress
from saddleback._provenance import versions
from saddleback._typing import FloatArray, OffsetArray
from saddleback.errors import InvalidParameter
from saddleback.evaluation import Statistics, load_statistics
from saddleback.evaluation.feature_spec import load_features
from saddleback.evaluation.statistics_io import packed_statistics
from saddleback.evaluation.statistics_key import StatisticsKey
from saddleback.features import Features
from saddleback.log import Log, Observed, as_target
from saddleback.log.arrow_decode import plain
from saddleback.log.behaviour_target import NAME
from saddleback.log.callable_fingerprint import mark
from saddleback.rules import Rule
from saddleback.sweep.executors import Place
from saddleback.sweep.store import Store, same_versions
from saddleback.sweep.task_runner import Task, Watcher, run_tasks
from saddleback.system.io import rule_words

ROWS = 2_000_000
"""Rows of a group, at least, where there are as many."""

BYTES_A_ROW = 300
"""Bytes of sums that a row is worth: large sums are made of more rows, so that few are sent."""

GROUPS = 1000
"""Groups, at most about."""


@dataclass(frozen=True, eq=False)
class Summing:
    """What to sum up, as it is sent to where that is done.

    Attributes
    ----------
    log
        The whole log, made of files.
    rules, targets
        As for `Statistics.of`; the logged policy is added to the targets.
    features
        Features of ours, or ``module.py:name`` of one's own.
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

    def known(self, log: Log) -> Features:
        """Return the features; those of one's own are tried on a log."""
        return (
            load_features(self.features, log) if isinstance(self.features, str) else self.features
        )

    def setting(self) -> StatisticsKey:
        """Say what will be summed up, refusing what does not fit."""
        policies = [as_target(given, self.log, name) for name, given in self.targets.items()]
        return StatisticsKey.of(
            self.log,
            self.rules,
            policies,
            self.known(self.log),
            self.gamma,
            self.shared,
            self.blocks,
        )

    def groups(self) -> list[tuple[str, ...]]:
        """Return the files of each group."""
        setting = self.setting()
        pairs = len(self.rules) * (len(self.targets) + 1)
        size = 8 * pairs * self.blocks * setting.p**2
        least = max(ROWS, size // BYTES_A_ROW, self.log.rows // GROUPS)
        column = self.log.layout.names["episode_id"]
        found: list[list[str]] = [[]]
        rows = 0
        for part in self.log.parts:
            if rows >= least and not _goes_on(found[-1][-1], part.name, column):
                found.append([])
                rows = 0
            found[-1].append(os.path.abspath(part.name))
            rows += part.rows
        return [tuple(each) for each in found]

    def sum_up(self, log: Log, threads: int = 1, progress: Progress | None = None) -> Statistics:
        """Sum a part of the log up, or all of it."""
        return Statistics.of(
            log, self.rules, {**self.targets, NAME: Observed.by(action_counts(log))},
            features=self.known(log), gamma=self.gamma, shared=self.shared, blocks=self.blocks,
            allow_uncovered=self.allow_uncovered, threads=threads, progress=progress,
        )  # fmt: skip

    def tasks(self) -> list[Task]:
        """Return a task for each group; each is sent with the files of its group alone."""
        rows = {os.path.abspath(part.name): part.rows for part in self.log.parts}
        names = self.log.action_names
        found = []
        for group in self.groups():
            mine = replace(self, log=self.log.but(data=list(group), actions=names))
            name = f"files-{hashlib.sha256(_words(group).encode()).hexdigest()[:16]}"
            size = sum(rows[each] for each in group)
            found.append(Task(name, partial(summed, mine, versions()), size))
        return found

    def study(self) -> dict[str, Any]:
        """Say what the sums are of, so that no others are added to them."""
        setting, log = self.setting(), self.log
        behaviour = None if log.behaviour is None else mark(log.behaviour)
        return asdict(setting) | {
            "rules": [rule_words(replace(rule, label="")) for rule in setting.rules],
            "columns": dict(log.layout.names), "behaviour": behaviour,
            "without propensities": log.ignore_propensities,
        }  # fmt: skip


def summed(what: Summing, wanted: Mapping[str, str], progress: Progress | None) -> bytes:
    """Sum one group up; return its statistics as the content of a file."""
    same_versions(wanted)
    return packed_statistics(what.sum_up(what.log, progress=progress))


def sum_groups(
    what: Summing,
    tasks: Sequence[Task],
    folder: Path,
    place: Place,
    command: str,
    watcher: Callable[[Store], Watcher],
    finish: Callable[[Statistics], object] = lambda merged: None,
) -> Statistics:
    """Sum all groups up, keeping each in a folder; return the merged sums.

    ``finish`` is told of them while nobody else may write there, to keep them and remove the rest.
    """
    study = {"statistics": what.study()}
    fix = f"Remove {folder}, or name another --out."
    with Store.open(folder, study, command, ".npz", fix) as store:
        run_tasks(tasks, store, place, watcher(store))
        merged = _merged([store.path(task.name) for task in tasks])
        _once(merged.ids)
        finish(merged)
    return merged


def _merged(paths: Sequence[Path]) -> Statistics:
    """Merge statistics, halves by halves: each is read once, and few are held."""
    if len(paths) == 1:
        return load_statistics(paths[0])
    middle = len(paths) // 2
    return _merged(paths[:middle]).merge(_merged(paths[middle:]))


def _once(ids: OffsetArray) -> None:
    """Refuse a log that has an episode's id twice, as it is refused where it is read in one go."""
    twice = len(ids) - len(np.unique(ids))
    if twice:
        raise InvalidParameter(
            f"{twice:,} episode id{'s are' if twice > 1 else ' is'} in several files: the same "
            "episodes twice, or numbered anew in each file? Give different episodes different ids."
        )


def action_counts(log: Log) -> FloatArray:
    """Return how often each action is in the rows of a log, [K], reading nothing else."""
    column, names = log.layout.names["action"], log.action_names
    found = np.zeros(len(names))
    for part in log.parts:
        for batch in part.batches([column]):
            for each in pc.value_counts(plain(batch.column(column)).drop_null()).to_pylist():
                value = each["values"]
                at = names.index(value) if log.text_actions else int(value)
                if 0 <= at < len(found):
                    found[at] += each["counts"]
    return found


def _goes_on(one: str, other: str, column: str) -> bool:
    """Whether the last episode of a file goes on in the next."""
    with pq.ParquetFile(one) as last, pq.ParquetFile(other) as first:
        if not last.metadata.num_rows or not first.metadata.num_rows:
            return True
        ending = last.read_row_group(last.num_row_groups - 1, columns=[column])[column]
        beginning = next(first.iter_batches(batch_size=1, columns=[column])).column(0)
        return bool(ending[-1] == beginning[0])


def _words(group: Sequence[str]) -> str:
    """Name the files of a group, and what tells their content from another."""
    said = []
    for name in group:
        state = os.stat(name)
        said.append(f"{os.path.abspath(name)} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(said)
