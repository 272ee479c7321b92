"""`Estimator`: the common interface, ``fit``, ``partial_fit``, ``predict`` and ``value``."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from saddleback import _registry, _validate
from saddleback._progress import Progress, part_of
from saddleback._typing import ArrayLike, FloatArray
from saddleback.engine import copies_of
from saddleback.errors import InvalidParameter, Undefined
from saddleback.features import Features
from saddleback.log import Finding, Log, as_target
from saddleback.ope.statistics import Statistics
from saddleback.rules import GRetrace, Rule, as_rule

DEFAULT = GRetrace(0.5)
"""The default rule; docs/evaluate/estimators.md explains the choice."""


def default_rule() -> Rule:
    """Return the default rule, which has a bounded trace: Retrace(0.5).

    Examples
    --------
    >>> print(default_rule())
    GRetrace(0.5)
    """
    return DEFAULT


class Parameterised:
    """A dataclass whose ``init`` fields are its parameters; other fields are set by fitting."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` is ignored, as scikit-learn has it.

        Examples
        --------
        >>> from saddleback import LSTD, features
        >>> LSTD(target="uniform", features=features.OneHot(2), gamma=0.9).get_params()["gamma"]
        0.9
        """
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; learned attributes stay until the next ``fit``.

        Examples
        --------
        >>> from saddleback import LSTD, features
        >>> estimator = LSTD(target="uniform", features=features.OneHot(2), gamma=0.9)
        >>> estimator.set_params(ridge=0.1).ridge
        0.1
        >>> estimator.set_params(rigde=0.1)
        Traceback (most recent call last):
        ...
        saddleback.errors.InvalidParameter: LSTD: unknown parameter 'rigde'. Did you mean 'ridge'?
        Takes target, features, gamma, rule, shared, allow_uncovered, threads, ridge.
        """
        _registry.check_parameters(type(self).__name__, parameters, self.get_params())
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator with the same parameters.

        The parameters are shared, not copied: fitting does not change them, and a classifier used
        as the target must stay fitted. A random generator, which fitting changes, is copied.
        """
        return type(self)(
            **{
                name: copy.deepcopy(value) if isinstance(value, np.random.Generator) else value
                for name, value in self.get_params().items()
            }
        )


@dataclass(eq=False, kw_only=True)
class Estimator(Parameterised, ABC):
    """The value of a target policy, learned from a log: Q(s,a) = φ(s,a)ᵀθ, V̂ = start_ᵀθ.

    Estimators follow scikit-learn's conventions: ``sklearn.base.clone``, `get_params`, `set_params`
    and pickling work as usual.

    Parameters
    ----------
    target
        The target policy π, in any form that `saddleback.log.as_target` accepts.
    features, shared
        Features of an observation; ``shared`` adds a copy of each shared by all actions.
    gamma
        Discount.
    rule
        Its trace and bootstrap define the equation to solve; `default_rule` if not given.
    allow_uncovered
        Warn, rather than fail, on actions of π that the log never takes.
    threads
        Number of threads; the result does not depend on it.

    Attributes
    ----------
    theta_
        The learned weights, [p].
    start_
        Mean of E_π φ over the start states of the log, [p].
    statistics_
        The statistics of all logs so far.
    outcome_
        ``"ok"``, or a description of the problem.
    findings_
        Warnings about the log and the features.

    Examples
    --------
    >>> from saddleback import LSTD, collect, problems
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=100, rng=0)
    >>> estimator = LSTD(target="pump:0.8", features=car.features, gamma=0.99)
    >>> estimator.fit(log).outcome_, estimator.theta_.shape
    ('ok', (972,))
    """

    target: Any
    features: Features
    gamma: float
    rule: Rule | str | None = None
    shared: bool = False
    allow_uncovered: bool = False
    threads: int = 1
    theta_: FloatArray | None = field(default=None, init=False, repr=False)
    start_: FloatArray | None = field(default=None, init=False, repr=False)
    statistics_: Statistics | None = field(default=None, init=False, repr=False)
    outcome_: str = field(default="not fitted", init=False, repr=False)

    @property
    def effective_rule(self) -> Rule:
        """The rule in use."""
        return DEFAULT if self.rule is None else as_rule(self.rule)

    @abstractmethod
    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        """Set ``theta_`` and ``outcome_``, after a log was added to ``statistics_``."""

    def fit(self, log: Any, progress: Progress | None = None) -> Self:
        """Learn from a log, discarding earlier data."""
        self.statistics_ = self.theta_ = self.start_ = None
        return self._fit(log, True, progress)

    def partial_fit(self, chunk: Any, progress: Progress | None = None) -> Self:
        """Learn from more complete episodes, in addition to earlier data."""
        return self._fit(chunk, self.theta_ is None, progress)

    def _fit(self, data: Any, fresh: bool, progress: Progress | None) -> Self:
        log = data if isinstance(data, Log) else Log(data)
        self._target = as_target(self.target, log)
        self._log = log.n_actions, log.dimensions
        self._add_statistics(log, part_of(progress, 0.0, 0.5))
        self._learn(log, fresh, part_of(progress, 0.5, 1.0))
        return self

    def _add_statistics(self, log: Log, progress: Progress | None) -> None:
        """Add the statistics of a log to those so far."""
        sums = Statistics.of(
            log, self.effective_rule, self.target, features=self.features, gamma=self.gamma,
            shared=self.shared, blocks=1, allow_uncovered=self.allow_uncovered,
            threads=self.threads, progress=progress,
        )  # fmt: skip
        self.statistics_ = sums if self.statistics_ is None else self.statistics_.merge(sums)
        self.start_ = self.statistics_.start()

    @property
    def findings_(self) -> tuple[Finding, ...]:
        """Warnings about the log and the features."""
        return (
            ()
            if self.statistics_ is None
            else tuple(self.statistics_.warnings(self.effective_rule))
        )

    @property
    def _weights(self) -> FloatArray:
        if self.theta_ is None:
            raise Undefined(f"{type(self).__name__} is not fitted yet: call fit(log).")
        return self.theta_

    def predict(self, observations: ArrayLike, actions: ArrayLike | None = None) -> FloatArray:
        """Q^π of observations [n, d]: for all actions [n, K], or for the given actions [n].

        For rules that learn state values, V^π [n].
        """
        theta = self._weights
        states = _validate.floats("observations", observations)
        _validate.shape("observations", states, ("n", self._log[1]))
        _validate.finite("observations", states)
        copies = copies_of(self._log[0], self.effective_rule.values, self.shared)
        which, size = self.features.encode(states)
        weights = theta.reshape(-1, copies.shape[1])[which]
        if size is not None:
            weights = weights * size[:, :, None]
        values = weights.sum(axis=1) @ copies.T
        if self.effective_rule.values == "state":
            return np.asarray(values[:, 0])
        if actions is None:
            return np.asarray(values)
        indices = np.asarray(actions)
        if indices.shape != (len(states),) or indices.dtype.kind not in "iu":
            raise InvalidParameter(
                f"actions must be one integer for each of {len(states)} observations."
            )
        for action in indices[(indices < 0) | (indices >= self._log[0])][:1]:
            raise InvalidParameter(f"action {action} is not one of 0 … {self._log[0] - 1}.")
        return np.asarray(values[np.arange(len(states)), indices])

    def value(self, observations: ArrayLike | None = None) -> float:
        """V^π: the mean over the log's start states, or over given observations [n, d]."""
        if observations is None:
            return float(self._weights @ np.asarray(self.start_))
        states = _validate.floats("observations", observations)
        if not len(states):
            raise InvalidParameter("value: no observations to average over.")
        values = self.predict(states)
        if values.ndim == 1:
            return float(values.mean())
        return float((self._target.at(states, self._log[0]) * values).sum(axis=1).mean())
