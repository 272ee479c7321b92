"""The metrics of a study: those known by name, and functions of the user."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np

from saddleback._typing import ArrayLike, FloatArray
from saddleback.engine import Source
from saddleback.errors import InvalidParameter
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.sweep.study import Study, asked_for, load_function
from saddleback.system import System

METRICS = ("mspbe", "mse", "norm")
"""Metrics by name: the rule's own MSPBE, the absolute MSE, and ‖θ‖."""

COLUMNS = (
    "problem", "rule", "name", "lam", "run", "point", "recorded", "updates", "setting", "alpha",
    "beta", "diverged_at",
)  # fmt: skip
"""Names in the results that no metric may have."""

SAMPLED = 2**32 - 1
"""Spawn key of the sample for estimated metrics; no run uses it."""

Metrics = Mapping[str, Callable[[FloatArray], ArrayLike]]


class Unmeasurable(InvalidParameter):
    """A metric that is not available on a problem, whatever the rule."""


def study_metrics(
    study: Study, case: int, problem: Problem | Source, rule: Rule, folder: Path
) -> Metrics:
    """Return the metrics of a rule on a problem, by name.

    A function of the user is called with problem and rule, and with what it asks for by the name
    of an argument: ``seed``, ``sample``, ``theta0``, ``lam``, or a number in [parameters]; with
    ``**settings`` it gets all of them.
    """
    available = {
        "seed": study.seed, "sample": study.sample, "theta0": study.initial_weights(case),
        "lam": study.cases[case].lam, **study.parameters,
    }  # fmt: skip
    built_in = _BuiltInMetrics(problem, rule, study)
    metrics: dict[str, Callable[[FloatArray], ArrayLike]] = {}
    for name in study.metrics:
        if name in METRICS:
            metrics[name] = built_in(name)
        else:
            path = name.rpartition(":")[0]
            function = load_function(name, folder, study.marks.get(path))
            chosen = asked_for(function, available)
            metrics[metric_name(name)] = function(problem, rule, **chosen)
    return metrics


def metric_name(metric: str) -> str:
    """Return the name of a metric in the results: that of its function.

    Examples
    --------
    >>> metric_name("mspbe"), metric_name("mine.py:largest_error")
    ('mspbe', 'largest_error')
    """
    return metric.rpartition(":")[2]


def metric_column(metric: str, columns: Collection[str]) -> str:
    """Return the column of a metric in the results; the first one if it has several values.

    Examples
    --------
    >>> metric_column("mine.py:errors", ["alpha", "errors_0", "errors_1"])
    'errors_0'
    """
    name = metric_name(metric)
    return name if name in columns else f"{name}_0"


class _BuiltInMetrics:
    """The metrics that are known by name; the exact system is solved once for all of them."""

    def __init__(self, problem: Problem | Source, rule: Rule, study: Study) -> None:
        self._problem, self._rule, self._study = problem, rule, study

    def __call__(self, name: str) -> Callable[[FloatArray], ArrayLike]:
        if name == "norm":
            return lambda theta: np.linalg.norm(theta, axis=-1)
        if isinstance(self._problem, Problem):
            return self._objectives["mse_absolute" if name == "mse" else name]
        if name == "mspbe":
            rng = np.random.SeedSequence(self._study.seed, spawn_key=(SAMPLED,))
            steps = self._study.sample
            return System.estimate(self._problem, self._rule, steps=steps, rng=rng).mspbe
        raise Unmeasurable(f"{name} is not available: the true values are unknown. Remove it.")

    @cached_property
    def _objectives(self) -> Metrics:
        assert isinstance(self._problem, Problem)
        return System.exact(self._problem, self._rule).objectives
