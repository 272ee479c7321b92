"""Metrics of learners: functions of their weights, recorded while they learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from saddleback._typing import ArrayLike, FloatArray

Metric: TypeAlias = Callable[[FloatArray], ArrayLike]


class Quadratic(NamedTuple):
    """The metric factor·rᵀGr + constant with r = Hθ + h, computed where the weights are.

    A vector in place of G is a diagonal. A metric that is a method ``m`` of an object with
    ``quadratic_form`` is ``quadratic_form("m")``, unless that is None.
    """

    H: FloatArray
    h: FloatArray
    G: FloatArray
    factor: float
    constant: float = 0.0


def quadratic_form(metric: Metric) -> Quadratic | None:
    """Return a metric as a quadratic form, None if it is not; see `Quadratic`."""
    form = getattr(getattr(metric, "__self__", None), "quadratic_form", None)
    return None if form is None else form(getattr(metric, "__name__", ""))


class MeasuredWeights:
    """Learners whose weights are in memory."""

    weights: Callable[..., tuple[FloatArray, FloatArray]]

    def current_theta(self) -> FloatArray:
        """Return θ as [K, p]."""
        return self.weights()[0]

    def measure(
        self, metrics: Mapping[str, Metric], shape: tuple[int, ...]
    ) -> Mapping[str, ArrayLike]:
        """Return metrics of θ in the shape of the settings, by name, equal ones once."""
        theta: Any = self.current_theta().reshape(*shape, -1)
        theta.flags.writeable = False
        values: dict[str, FloatArray] = {}
        for name, metric in metrics.items():
            same = next((other for other in values if metrics[other] == metric), None)
            values[name] = (
                np.array(metric(theta), dtype=np.float64) if same is None else values[same]
            )
        return values
