"""A comparison of rules over a grid of step sizes: its tasks, and its results as arrays.

Each task is one run: all rules and all step sizes learn from the same experience, and the metrics
of every setting are stored at every checkpoint.
"""

from __future__ import annotations

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
    make_with,
)
from saddleback.sweep import Store, Task, parquet_bytes, run_table

Metrics = Mapping[str, Callable[[FloatArray], ArrayLike]]


EPISODE = 135
"""Mean length of an episode of MountainCar under the behaviour policy, in steps."""

ROW = 80
"""Size of a row of results in memory, in bytes: ten columns."""


@dataclass(frozen=True)
class Grid:
    """The step sizes (α, β/α) of a sweep."""

    alphas: tuple[float, ...]
    ratios: tuple[float, ...]


PAPER_GRID = Grid(*((tuple(0.1 * 2.0**j for j in range(-10, 1)),) * 2))
"""(α, β/α) ∈ {0.1·2^j, j = −10 … 0}², as in the paper: β is at most a tenth of α."""

USUAL_GRID = Grid(PAPER_GRID.alphas, tuple(2.0**j for j in range(-5, 6)))
"""The same α with common ratios of time scales, β/α from 2⁻⁵ to 2⁵."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rules on one problem, over a grid of step sizes and several runs.

    Attributes
    ----------
    name
        Prefix of the names of its shards.
    source, rules, grid
        The problem, the rules by their names, and the step sizes.
    count, unit
        Number of steps or episodes.
    points
        Checkpoints, in the same unit.
    runs, seed
        Number of independent runs, and the seed they are spawned from.
    theta0
        Initial weights.
    metrics
        Returns the metrics of a rule; called once per rule, before any run.
    schedule
        Turns step sizes into schedules; constant by default.
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
        """Return the parameters of the comparison, for the manifest."""
        return {
            "rules": {name: rule.spec for name, rule in self.rules.items()},
            "alphas": list(self.grid.alphas),
            "ratios": list(self.grid.ratios),
            self.unit: self.count,
            "points": list(self.points),
            "runs": self.runs,
            "seed": self.seed,
            "theta0": self.theta0,
        }

    def check(self) -> int:
        """Reject rules that do not fit the problem; return the size of the results in bytes."""
        as_source("paper", self.source()).streamer(list(self.rules.values()))
        settings = len(self.grid.alphas) * len(self.grid.ratios)
        return self.runs * len(self.rules) * len(self.points) * settings * ROW

    def tasks(self) -> list[Task]:
        """Return one task per run."""
        return [
            Task(f"{self.name}-run{run:02d}", partial(self._run, run), self.size)
            for run in range(self.runs)
        ]

    @property
    def size(self) -> int:
        """Planned cost of a run in learner-steps, with `EPISODE` steps per episode."""
        steps = self.count * (EPISODE if self.unit == "episodes" else 1)
        return steps * len(self.rules) * len(self.grid.alphas) * len(self.grid.ratios)

    def _run(self, run: int, progress: Progress | None) -> bytes:
        alpha = np.array(self.grid.alphas)[:, None]
        beta = alpha * np.array(self.grid.ratios)
        results = learn(
            list(self.rules.values()), self.source(),
            alpha=self.schedule(alpha), beta=self.schedule(beta),
            **{self.unit: self.count}, rng=np.random.SeedSequence(self.seed, spawn_key=(run,)),
            record=np.array(self.points), metrics=self.metrics, theta0=self.theta0,
            progress=progress,
        )  # type: ignore[call-overload]  # fmt: skip
        return parquet_bytes(
            pa.concat_tables(
                [
                    run_table(result, {"run": run, "rule": name})
                    for name, result in zip(self.rules, results, strict=True)
                ]
            )
        )

    def results(self, store: Store) -> ComparisonResults:
        """Read the results from a store, which must be of the same comparison."""
        store.expect(self.name, self.study())
        shards = [store.shard(task.name) for task in self.tasks()]
        shape = (len(self.rules), len(self.points), len(self.grid.alphas), len(self.grid.ratios))
        columns = shards[0].column_names
        arrays = {
            name: np.stack([shard[name].to_numpy().reshape(shape) for shard in shards], axis=1)
            for name in columns
            if name not in ("rule", "run")
        }
        return ComparisonResults(self, arrays)


@dataclass(frozen=True, eq=False)
class ComparisonResults:
    """Metrics of a comparison, each as an array [rule, run, point, α, β/α]."""

    comparison: Comparison
    arrays: Mapping[str, FloatArray]

    def rule(self, index: int, metric: str) -> FloatArray:
        """One metric of one rule, [run, point, α, β/α]; infinity once a learner diverged."""
        return np.asarray(self.arrays[metric][index])

    def diverged(self, index: int) -> IntArray:
        """Number of runs in which each setting diverged, [α, β/α]."""
        return np.asarray((self.arrays["diverged_at"][index, :, -1] >= 0).sum(axis=0))

    def final(self, index: int, metric: str) -> FloatArray:
        """Mean over runs and the last tenth of the points, [α, β/α]."""
        values = self.rule(index, metric)
        return np.asarray(values[:, -tail_length(values.shape[1]) :].mean(axis=(0, 1)))

    def median(self, index: int, metric: str) -> FloatArray:
        """Median over runs at the last point, [α, β/α]."""
        return np.asarray(np.median(self.rule(index, metric)[:, -1], axis=0))

    def best(self, index: int, metric: str) -> tuple[int, int]:
        """Return the setting with the smallest final metric; the first one if all diverged."""
        setting = argmin_finite(self.final(index, metric))
        return (0, 0) if setting is None else (setting[0], setting[1])

    def curve(self, index: int, metric: str) -> FloatArray:
        """Learning curves of the best setting, [point, run]."""
        i, j = self.best(index, metric)
        return np.asarray(self.rule(index, metric)[:, :, i, j].T)


def scaled_points(count: int, number: int = 21) -> tuple[int, ...]:
    """Return checkpoints from 0 to ``count``, more densely at the start."""
    inner = np.unique(np.round(count * np.linspace(0, 1, number) ** 2)).astype(int)
    return tuple(inner.tolist())


def rule_names() -> list[str]:
    """Return the names of rules that ``--rule`` accepts, besides texts."""
    return list(dict.fromkeys([*family(0.0, 0.0), *regularised(0.0, 0.0), *NAMED]))


def chosen_rules(names: Sequence[str], lam: float, zeta: float) -> dict[str, Rule]:
    """Return rules by name, with λ and ζ filled in, or by text; without names, `family`.

    The problems have features of state-action pairs, so a rule for state values is replaced by its
    version for action values: the same trace and form, with the expected bootstrap.
    """
    defaults = family(lam, zeta)
    predefined = defaults | regularised(lam, zeta)
    rules = {}
    for name in names or defaults:
        if name in predefined:
            rule = predefined[name]
        elif set(name) & set(":+("):
            rule = Rule.parse(name)
        else:
            rule = make_with(check_name("rule", name, rule_names()), lam)
        for_states = rule.values == "state" and rule.emphasis is None
        rules[name] = replace(rule, bootstrap=Expected()) if for_states else rule
    return rules


def family(lam: float, zeta: float) -> dict[str, Rule]:
    """Return every trace with the saddle and the correction form, and Expected Sarsa.

    The paper compares GES and GTB (saddle) with GQ and ABQ (correction): trace and form change
    together. Here each trace is combined with each form.
    """
    rules = {}
    for name, trace in _traces(lam, zeta).items():
        saddle, correction = ("ABQ saddle", name) if name == "ABQ" else (name, f"{name} corr.")
        rules[saddle] = Rule(trace, Saddle(), Expected())
        rules["GQ" if name == "GES" else correction] = Rule(trace, Correction(), Expected())
    first = ["GES", "GQ", "ABQ", "GTB", "GRetrace"]
    ordered = {name: rules[name] for name in first}
    return ordered | {"Expected Sarsa": ExpectedSarsa(lam)} | rules


def regularised(lam: float, zeta: float) -> dict[str, Rule]:
    """Return TDRC's regularised correction (η = 1) with each bounded trace."""
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
