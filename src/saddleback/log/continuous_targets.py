"""Target policies of continuous actions, for a log with columns action_0, action_1, …

a function f(observations [n, d]) → actions [n, k], a deterministic policy
`saddleback.policies.Gaussian`, or a function that returns a pair of means [n, k] and variances
    [n, k] or covariances [n, k, k]
`saddleback.policies.Sampler`, whose expectations are means over random draws
any of these as "module.py:name"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from saddleback._plugins import USER_ERRORS, load
from saddleback._typing import FloatArray
from saddleback._user_functions import ImpureFunction, Recheck, call, check_rows, describe_error
from saddleback.errors import InvalidParameter
from saddleback.features.action_distribution import (
    DRAWS,
    ActionDistribution,
    GaussianActions,
    SampledActions,
)
from saddleback.log.callable_fingerprint import fingerprint
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.log import Log
from saddleback.log.named_columns import with_columns
from saddleback.log.policy_query import format_observation
from saddleback.log.segmentation import Segment
from saddleback.log.target_policies import Target, convert_targets
from saddleback.policies import Gaussian, Sampler

SYMMETRIC = 1e-9
"""Largest asymmetry and negative eigenvalue of a covariance, relative to its largest entry."""


@dataclass(frozen=True, eq=False)
class ContinuousTarget(Target):
    """A target policy of continuous actions.

    Examples
    --------
    >>> target = ContinuousTarget("new", "", form=lambda obs: 2.0 * obs, size=1, names=("x",))
    >>> target.actions(np.array([[0.5]])).mean
    array([[1.]])
    """

    form: Any = None  # the policy: Gaussian, a sampler, or a function
    size: int = 1  # number of entries of an action
    names: tuple[str, ...] = ()  # names of the entries of an observation

    def probabilities(self, segment: Segment, n_actions: int) -> FloatArray:
        """Return 1 in each state: the action as a whole is the only one, [m, 1]."""
        return np.ones((len(segment.observations), n_actions))

    def check_rows(self, segment: Segment, n_actions: int) -> Recheck:
        """Raise unless the policy is a function of each observation alone, on some states."""
        states = segment.observations[:256]
        actions = self.actions(states)
        if isinstance(actions, GaussianActions):
            return check_rows(f"E144 target {self.name!r} policy", self._numbers, states, self.form)

        points = actions.points

        def recheck() -> None:
            repeated = self.actions(states)
            if not (
                isinstance(repeated, SampledActions) and np.array_equal(points, repeated.points)
            ):
                raise ImpureFunction(
                    f"E144 target {self.name!r} policy draws other actions with the same "
                    "generator. All random numbers must come from its second argument, rng."
                )

        recheck()
        return recheck

    def _numbers(self, states: FloatArray) -> FloatArray:
        actions = self.actions(states)
        assert isinstance(actions, GaussianActions)
        return np.column_stack([actions.mean, actions.covariance.reshape(len(states), -1)])

    def actions(self, states: FloatArray) -> ActionDistribution:
        """Return the distribution of the actions in states [n, d]."""
        form = self.form
        if isinstance(form, Sampler):
            rng = np.random.default_rng(0)
            draws = [self._query(form.draw, states, rng) for _ in range(DRAWS)]
            return SampledActions(np.stack(draws, axis=1), np.full(DRAWS, 1.0 / DRAWS))
        if isinstance(form, Gaussian):
            mean = self._query(form.mean, states)
            if callable(form.covariance):
                covariance = self._call(form.covariance, states)
                return GaussianActions(mean, self._covariance(covariance, states, True))
            return GaussianActions(mean, self._covariance(form.covariance, states, False))
        result = self._call(form, states)
        if isinstance(result, tuple) and len(result) == 2:
            mean = self._checked(result[0], states)
            return GaussianActions(mean, self._covariance(result[1], states, True))
        mean = self._checked(result, states)
        return GaussianActions(mean, np.zeros((len(states), self.size, self.size)))

    @property
    def has_density(self) -> bool:
        """Whether the density of an action may be known."""
        return not isinstance(self.form, Sampler) or self.form.density is not None

    def log_density(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the logarithm of the density of an action in each state, [n]."""
        if not isinstance(self.form, Sampler):
            distribution = self.actions(states)
            assert isinstance(distribution, GaussianActions)
            return distribution.log_density(actions)
        assert self.form.density is not None
        density = np.asarray(self._call(self.form.density, states, actions), dtype=np.float64)
        if density.shape != (len(states),) or not (np.isfinite(density) & (density >= 0)).all():
            raise LogError(
                Finding(
                    "E144",
                    f"target {self.name!r}: density must return one number ≥ 0 for each row, [n].",
                )
            )
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(density))

    def _call(self, function: Callable[..., Any], states: FloatArray, *others: Any) -> Any:
        named = with_columns(function, self.names)
        try:
            return call(f"E144 target {self.name!r} policy", partial(_apply, named, others), states)
        except ImpureFunction:
            raise
        except USER_ERRORS as error:
            message = f"target {self.name!r} policy failed: {describe_error(error)}"
            raise LogError(Finding("E144", message)) from error

    def _query(self, function: Callable[..., Any], states: FloatArray, *others: Any) -> FloatArray:
        return self._checked(self._call(function, states, *others), states)

    def _checked(self, returned: Any, states: FloatArray) -> FloatArray:
        """Return actions [n, k], or raise if they are not finite numbers of that shape."""
        try:
            actions = np.array(returned, dtype=np.float64)
        except (TypeError, ValueError):
            actions = np.empty(0)
        if actions.shape == (len(states),) and self.size == 1:
            actions = actions[:, None]
        if actions.shape != (len(states), self.size):
            message = (
                f"target {self.name!r} policy returned {_shape(returned)}; expected (n, "
                f"{self.size}), one action of {self.size} number{'s' * (self.size > 1)} per row."
            )
            raise LogError(Finding("E141", message))
        self._refuse(~np.isfinite(actions).all(axis=1), "gives NaN or infinite actions", states)
        return actions

    def _covariance(self, given: Any, states: FloatArray, by_state: bool) -> FloatArray:
        """Return Σ [n, k, k] from a number, variances or matrices, constant or by state."""
        n, k = len(states), self.size
        values = np.array(given, dtype=np.float64)
        lead = (n,) if by_state else ()
        if values.shape == lead and (k == 1 or not by_state):
            values = np.repeat(values[..., None], k, axis=-1)
        if values.shape == (*lead, k):
            values = values[..., None] * np.eye(k)
        if values.shape != (*lead, k, k):
            n_ = "n, " if by_state else ""
            raise LogError(
                Finding(
                    "E141",
                    f"target {self.name!r}: the covariance has shape {values.shape}; expected "
                    f"variances ({n_}{k}) or matrices ({n_}{k}, {k}).",
                )
            )
        matrices = np.broadcast_to(values, (n, k, k))
        self._refuse(~np.isfinite(matrices).all(axis=(1, 2)), "gives a NaN covariance", states)
        limit = SYMMETRIC * np.abs(matrices).max(axis=(1, 2), initial=0.0)
        skew = np.abs(matrices - matrices.transpose(0, 2, 1)).max(axis=(1, 2), initial=0.0)
        smallest = np.linalg.eigvalsh(matrices).min(axis=1, initial=0.0)
        problem = "gives a covariance that is not symmetric and ≥ 0"
        self._refuse((skew > limit) | (smallest < -limit), problem, states)
        return matrices

    def _refuse(self, wrong: Any, problem: str, states: FloatArray) -> None:
        for i in np.flatnonzero(wrong)[:1]:
            message = (
                f"target {self.name!r} policy {problem} for {int(np.sum(wrong)):,} of "
                f"{len(states):,} observations (first: {format_observation(states[i])})."
            )
            raise LogError(Finding("E144", message))


def _shape(returned: Any) -> str:
    shape = getattr(returned, "shape", None)
    return f"shape {shape}" if shape is not None else type(returned).__name__


def as_continuous_targets(targets: Any, log: Log) -> list[ContinuousTarget]:
    """Return target policies of continuous actions from any accepted form, by name."""
    return convert_targets(targets, lambda given, name: _as_target(given, log, name))


def _as_target(given: Any, log: Log, name: str | None) -> ContinuousTarget:
    if isinstance(given, ContinuousTarget):
        return given
    source = None
    if isinstance(given, str):
        path = given.partition(":")[0]
        if not path.endswith(".py"):
            raise InvalidParameter(
                f"target {given!r} is a policy of discrete actions, but the log has continuous "
                f"ones, {', '.join(log.roles.actions)}. Write module.py:name."
            )
        name, given = name or given, load(given)
        source = Path(path).read_text(encoding="utf-8")
    if not isinstance(given, (Gaussian, Sampler)) and not callable(given):
        raise InvalidParameter(
            "a target for continuous actions must be a function from observations [n, d] to "
            "actions [n, k], policies.Gaussian, policies.Sampler, or 'module.py:name'; got "
            f"{type(given).__name__}."
        )
    name = name or str(getattr(given, "__name__", type(given).__name__.lower()))
    return ContinuousTarget(
        name, fingerprint(given, source), form=given, size=len(log.roles.actions),
        names=log.observation_names,
    )  # fmt: skip


def _apply(function: Callable[..., Any], others: tuple[Any, ...], states: FloatArray) -> Any:
    return function(states, *others)
