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


class MeasuredWeights:
    """Learners whose weights are in memory."""

    weights: Callable[..., tuple[FloatArray, FloatArray]]

    def measure(
        self, metrics: Mapping[str, Metric], shape: tuple[int, ...]
    ) -> Mapping[str, ArrayLike]:
        """Return metrics of θ in the shape of the settings, by name."""
        theta: Any = self.weights()[0].reshape(*shape, -1)
        theta.flags.writeable = False
        return {name: np.array(metric(theta), dtype=np.float64) for name, metric in metrics.items()}
