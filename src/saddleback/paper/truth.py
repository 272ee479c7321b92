"""What learners on MountainCar are measured by, each part worked out once, when first asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

import numpy as np

from saddleback._typing import FloatArray
from saddleback.engine import Simulation
from saddleback.paper.comparison import Metrics
from saddleback.paper.mountain_car_reference import (
    Effort,
    Objective,
    Values,
    from_experience,
    gram,
    half_inverse,
    trusted,
    values,
)
from saddleback.rules import GES, Expected, Rule, Saddle, Trace
from saddleback.system import System

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class Once(Generic[Key, Found]):
    """A function whose values are worked out once each, also where several threads ask.

    Examples
    --------
    >>> asked = []
    >>> square = Once(lambda k: asked.append(k) or k * k)
    >>> square(3), square(3), asked
    (9, 9, [3])
    """

    def __init__(self, work: Callable[[Key], Found]) -> None:
        self._work, self._guard = work, threading.Lock()
        self._found: dict[Key, Future[Found]] = {}

    def __call__(self, key: Key) -> Found:
        """Return the value, waiting if another thread is at it."""
        with self._guard:
            first = key not in self._found
            future = self._found.setdefault(key, Future())
        if first:
            try:
                future.set_result(self._work(key))
            except BaseException as error:
                future.set_exception(error)
        return future.result()


class Truth:
    """Values of π, and systems of traces, trusted and as the paper estimates them.

    Saddle and correction forms of one trace share their system, so a trace is all that is asked.
    """

    def __init__(self, car: Simulation, effort: Effort, metric_steps: int, seed: int) -> None:
        def entropy(part: int) -> np.random.SeedSequence:
            return np.random.SeedSequence([seed, 99, part])

        def own(trace: Trace) -> Rule:
            return Rule(trace, Saddle(), Expected())

        self._values = Once[None, Values](lambda _: values(car, effort, entropy(0)))
        self.system = Once[Trace, System](
            lambda trace: trusted(car, own(trace), effort, entropy(1), entropy(2))
        )
        half = Once[tuple[int, int], FloatArray](
            lambda chosen: half_inverse(gram(car, chosen[0], entropy(chosen[1])))
        )
        self._objective = Once[Trace, Objective](
            lambda trace: Objective(self.system(trace), half((effort.steps, 1)))
        )
        self._paper = Once[Trace, Objective](
            lambda trace: Objective(
                from_experience(car, own(trace), metric_steps, entropy(3)), half((metric_steps, 3))
            )
        )

    @property
    def values(self) -> Values:
        """q^π where it is compared."""
        return self._values(None)

    def metrics(self, rule: Rule, lam: float) -> Metrics:
        """MSE, the MSPBE of the rule itself, that of GES(λ), and the paper's of the rule itself."""
        return {
            "mse": self.values.mse,
            "mspbe": self._objective(rule.trace).mspbe,
            "mspbe_common": self._objective(GES(lam).trace).mspbe,
            "mspbe_paper": self._paper(rule.trace).mspbe,
        }
