"""Statistics of a log of many files: summed up group by group, wherever there is room.

A group is as many files, one after the other, as make a task of seconds; no episode is cut between
two of them. The groups follow from the files alone, and their sums are merged in order: so the
result is the same to the bit, whoever sums them up.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from saddleback.evaluation import Statistics, load_statistics
from saddleback.evaluation.setting import Setting
from saddleback.evaluation.spec import own_features
from saddleback.evaluation.storage import packed_statistics
from saddleback.features import Features
from saddleback.log import Log, Observed, as_target
from saddleback.log.as_logged import NAME
from saddleback.rules import Rule
from saddleback.sweep.place import Place
from saddleback.sweep.run import Task, run_tasks
from saddleback.sweep.store import Store, same_versions, versions
from saddleback.system.storage import rule_words

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
        return own_features(self.features, log) if isinstance(self.features, str) else self.features

    def setting(self) -> Setting:
        """Say what will be summed up, refusing what does not fit."""
        policies = [as_target(given, self.log, name) for name, given in self.targets.items()]
        return Setting.of(
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

    def sum_up(
        self, log: Log, threads: int = 1, progress: Any = None, taken: Any = None
    ) -> Statistics:
        """Sum a part of the log up, or all of it; ``taken`` is how often each action was taken."""
        observed = Observed.of(log) if taken is None else Observed.by(np.asarray(taken, float))
        return Statistics.of(
            log, self.rules, {**self.targets, NAME: observed}, features=self.known(log),
            gamma=self.gamma, shared=self.shared, blocks=self.blocks,
            allow_uncovered=self.allow_uncovered, threads=threads, progress=progress,
        )  # fmt: skip

    def tasks(self) -> list[Task]:
        """Return a task for each group."""
        rows = {os.path.abspath(part.name): part.rows for part in self.log.parts}
        names = self.log.action_names
        return [
            Task(
                f"files-{hashlib.sha256(_words(group).encode()).hexdigest()[:16]}",
                partial(summed, self, group, names, versions()),
                sum(rows[each] for each in group),
            )
            for group in self.groups()
        ]


def summed(
    what: Summing, files: Sequence[str], actions: Sequence[str], wanted: Mapping[str, str]
) -> bytes:
    """Sum one group up; return its statistics as the content of a file."""
    same_versions(wanted)
    return packed_statistics(what.sum_up(what.log.but(data=list(files), actions=actions)))


def sum_groups(
    what: Summing,
    tasks: Sequence[Task],
    folder: Path,
    place: Place,
    command: str,
    telling: Callable[[Store], Any],
) -> Statistics:
    """Sum all groups up, keeping each in a folder until all are there; return the merged sums."""
    setting = what.setting()
    study = asdict(setting) | {"rules": [rule_words(rule) for rule in setting.rules]}
    with Store.open(folder, {"statistics": study}, command, ".npz") as store:
        with telling(store) as done:
            run_tasks(tasks, store, place, done)
        each = (load_statistics(store.path(task.name)) for task in tasks)
        return reduce(Statistics.merge, each)


def remove(folder: Path) -> None:
    """Remove the sums of groups, when they are no longer needed."""
    shutil.rmtree(folder, ignore_errors=True)


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
