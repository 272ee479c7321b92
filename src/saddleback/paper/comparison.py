"""One comparison of rules over a grid of step sizes: its tasks, and its results as arrays.

Each task is one run: all rules and all step sizes learn from the same experience, and the metrics
of every setting are kept at every checkpoint.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._progress import Progress
from saddleback._registry import check_name
from saddleback._typing import ArrayLike, FloatArray, IntArray
from saddleback.engine import Source, as_source
from saddleback.learning import learn
from saddleback.learning.best_setting import argmin_finite, tail_length
from saddleback.problem import Problem
from saddleback.rules import (
    NAMED,
    ActionDependent,
    Correction,
    Expected,
    ExpectedSarsa,
    Importance,
    RegularisedCorrection,
    Retrace,
    Rule,
    Saddle,
    Trace,
    TreeBackup,
    make,
)
from saddleback.sweep import Store, Task, parquet_bytes, run_table

Metrics = Mapping[str, Callable[[FloatArray], ArrayLike]]


EPISODE = 135
"""Steps of an episode of MountainCar under the behaviour policy, on average."""

ROW = 80
"""Bytes of a row of results in memory: ten columns."""


@dataclass(frozen=True)
class Grid:
    """The step sizes (α, β/α) of a sweep."""

    alphas: tuple[float, ...]
    ratios: tuple[float, ...]


PAPER = Grid(*((tuple(0.1 * 2.0**j for j in range(-10, 1)),) * 2))
"""(α, β/α) ∈ {0.1·2^j, j = −10 … 0}², as in the paper: β is never more than a tenth of α."""

USUAL = Grid(PAPER.alphas, tuple(2.0**j for j in range(-5, 6)))
"""The same α with the usual time scales, β/α from 2⁻⁵ to 2⁵."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rules on one problem, over a grid of step sizes and several runs.

    Attributes
    ----------
    name
        Of its shards.
    source, rules, grid
        Where, what, with which step sizes.
    count, unit
        How many steps or episodes.
    points
        Where metrics are measured, in the same unit.
    runs, seed
        Independent runs, spawned from the seed.
    theta0
        First weights.
    metrics
        What is measured of a rule; called once for each, before any run.
    """

    name: str
    source: Callable[[], Problem | Source]
    rules: Mapping[str, Rule]
    grid: Grid
    count: int
    unit: str
    points: tuple[int, ...]
    runs: int
    seed: int
    theta0: float
    metrics: Callable[[Rule], Metrics]
    schedule: Callable[[FloatArray], Any] = np.asarray

    def study(self) -> dict[str, Any]:
        """What was chosen, in words and numbers, for the manifest."""
        return {
            "rules": {name: str(rule) for name, rule in self.rules.items()},
            "alphas": list(self.grid.alphas),
            "ratios": list(self.grid.ratios),
            self.unit: self.count,
            "points": list(self.points),
            "runs": self.runs,
            "seed": self.seed,
            "theta0": self.theta0,
        }

    def check(self) -> int:
        """Refuse rules that do not fit the problem; return how many bytes the results will be."""
        as_source("paper", self.source()).streamer(list(self.rules.values()))
        settings = len(self.grid.alphas) * len(self.grid.ratios)
        return self.runs * len(self.rules) * len(self.points) * settings * ROW

    def tasks(self) -> list[Task]:
        """One for each run."""
        return [
            Task(f"{self.name}-run{run:02d}", partial(self._run, run), self.size)
            for run in range(self.runs)
        ]

    @property
    def size(self) -> int:
        """Planned cost of a run: learner-steps, with `EPISODE` steps to an episode."""
        steps = self.count * (EPISODE if self.unit == "episodes" else 1)
        return steps * len(self.rules) * len(self.grid.alphas) * len(self.grid.ratios)

    def _run(self, run: int, progress: Progress | None) -> bytes:
        alpha = np.array(self.grid.alphas)[:, None]
        beta = alpha * np.array(self.grid.ratios)
        found = learn(
            list(self.rules.values()), self.source(),
            alpha=self.schedule(alpha), beta=self.schedule(beta),
            **{self.unit: self.count}, rng=np.random.SeedSequence(self.seed, spawn_key=(run,)),
            record=np.array(self.points), metrics=self.metrics, theta0=self.theta0,
            progress=progress,
        )  # type: ignore[call-overload]  # fmt: skip
        return parquet_bytes(
            pa.concat_tables(
                [
                    run_table(each, {"run": run, "rule": name})
                    for name, each in zip(self.rules, found, strict=True)
                ]
            )
        )

    def results(self, store: Store) -> Results:
        """Read the results back, if they are of this very comparison."""
        store.expect(self.name, self.study())
        shards = [store.shard(task.name) for task in self.tasks()]
        shape = (len(self.rules), len(self.points), len(self.grid.alphas), len(self.grid.ratios))
        columns = shards[0].column_names
        arrays = {
            name: np.stack([shard[name].to_numpy().reshape(shape) for shard in shards], axis=1)
            for name in columns
            if name not in ("rule", "run")
        }
        return Results(self, arrays)


@dataclass(frozen=True, eq=False)
class Results:
    """Metrics of a comparison, each as an array [rule, run, point, α, β/α]."""

    comparison: Comparison
    arrays: Mapping[str, FloatArray]

    def rule(self, index: int, metric: str) -> FloatArray:
        """One metric of one rule, [run, point, α, β/α]; infinity once a learner diverged."""
        return np.asarray(self.arrays[metric][index])

    def diverged(self, index: int) -> IntArray:
        """In how many runs each setting diverged, [α, β/α]."""
        return np.asarray((self.arrays["diverged_at"][index, :, -1] >= 0).sum(axis=0))

    def final(self, index: int, metric: str) -> FloatArray:
        """Mean over runs and the last tenth of the points, [α, β/α]."""
        values = self.rule(index, metric)
        return np.asarray(values[:, -tail_length(values.shape[1]) :].mean(axis=(0, 1)))

    def median(self, index: int, metric: str) -> FloatArray:
        """Median over runs at the last point, [α, β/α]."""
        return np.asarray(np.median(self.rule(index, metric)[:, -1], axis=0))

    def best(self, index: int, metric: str) -> tuple[int, int]:
        """The setting with the least final metric; the first if all diverged."""
        place = argmin_finite(self.final(index, metric))
        return (0, 0) if place is None else (place[0], place[1])

    def curve(self, index: int, metric: str) -> FloatArray:
        """Learning curves of the best setting, [point, run]."""
        i, j = self.best(index, metric)
        return np.asarray(self.rule(index, metric)[:, :, i, j].T)


def scaled_points(count: int, number: int = 21) -> tuple[int, ...]:
    """Return checkpoints from 0 to ``count``, closer together at first."""
    inner = np.unique(np.round(count * np.linspace(0, 1, number) ** 2)).astype(int)
    return tuple(inner.tolist())


def rule_names() -> list[str]:
    """Names by which rules can be asked for."""
    return list(dict.fromkeys([*family(0.0, 0.0), *regularised(0.0, 0.0), *NAMED]))


def chosen_rules(names: Sequence[str], lam: float, zeta: float) -> dict[str, Rule]:
    """Rules by their names, with λ and ζ filled in; without names, `family`.

    The problems have features of state-action pairs. A rule of state values is taken in its version
    for those: the same trace and form, with the expected bootstrap.
    """
    usual = family(lam, zeta)
    ours = usual | regularised(lam, zeta)
    found = {}
    for name in names or usual:
        check_name("rule", name, rule_names())
        if name in ours:
            rule = ours[name]
        else:
            takes = inspect.signature(NAMED[name]).parameters
            rule = make(name, **({"lam": lam} if "lam" in takes else {}))
        of_states = rule.values == "state" and rule.emphasis is None
        found[name] = replace(rule, bootstrap=Expected()) if of_states else rule
    return found


def family(lam: float, zeta: float) -> dict[str, Rule]:
    """Every trace with the saddle and the correction form, and Expected Sarsa.

    The paper compares GES and GTB (saddle) with GQ and ABQ (correction): trace and form change
    together. Here they are untangled.
    """
    found = {}
    for name, trace in _traces(lam, zeta).items():
        saddle, correction = ("ABQ saddle", name) if name == "ABQ" else (name, f"{name} corr.")
        found[saddle] = Rule(trace, Saddle(), Expected())
        found["GQ" if name == "GES" else correction] = Rule(trace, Correction(), Expected())
    first = ["GES", "GQ", "ABQ", "GTB", "GRetrace"]
    ordered = {name: found[name] for name in first}
    return ordered | {"Expected Sarsa": ExpectedSarsa(lam)} | found


def regularised(lam: float, zeta: float) -> dict[str, Rule]:
    """The regularised correction (η = 1), TDRC's, with each bounded trace."""
    bounded = {k: trace for k, trace in _traces(lam, zeta).items() if k != "GES"}
    return {
        f"{name} reg.": Rule(trace, RegularisedCorrection(1.0), Expected())
        for name, trace in bounded.items()
    }


def _traces(lam: float, zeta: float) -> dict[str, Trace]:
    return {
        "GES": Importance(lam), "ABQ": ActionDependent(zeta), "GTB": TreeBackup(lam),
        "GRetrace": Retrace(lam),
    }  # fmt: skip
