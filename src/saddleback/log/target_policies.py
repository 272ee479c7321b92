"""Target policies: π in every state of a log, from any of

a function f(observations [n, d]) → probabilities [n, K], or "module.py:function"; one that takes
    named columns (`saddleback.policies.named_columns`) gets them by name
columns of the log, "columns" (pi_0, …, and next_pi_0, … on truncated rows) or "columns:PREFIX"
a fitted scikit-learn classifier, by its predict_proba
a table [S, K] for observations 0, …, S − 1
"uniform", "always:ACTION", "pump:PROBABILITY", and "logged", which is μ
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from saddleback import _registry, policies
from saddleback._display import join_names
from saddleback._plugins import USER_ERRORS, load
from saddleback._typing import FloatArray
from saddleback._user_functions import Recheck, nothing_to_recheck
from saddleback.errors import (
    ESTIMATE_PROPENSITIES,
    Fix,
    InvalidParameter,
    InvalidShape,
    SaddlebackError,
)
from saddleback.log.action_names import listed
from saddleback.log.callable_fingerprint import fingerprint
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.likely_columns import chosen_columns
from saddleback.log.log import Log
from saddleback.log.named_columns import with_columns
from saddleback.log.policy_query import check_distribution, check_policy_rows, query_policy
from saddleback.log.row_checks import GIVE_FUNCTION
from saddleback.log.segmentation import Segment
from saddleback.policies import Policy

BUILT_IN = ("uniform", "logged", "columns", "always", "pump")

AnyTarget = TypeVar("AnyTarget", bound="Target")


@dataclass(frozen=True, eq=False)
class Target:
    """A target policy: gives π in the states of a log.

    Attributes
    ----------
    name
        Name of the target in results.
    fingerprint
        Identifies the policy when statistics are merged: a hash of its source, table or columns.
    policy
        π as a function of observations, or None if π is in the log.
    table
        Name of the table of the log that contains π, or None.
    action_names
        Names of the actions of the log, for messages.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
    >>> target = as_target("pump:0.8", log)
    >>> target.name, target.at(np.array([[-0.5, 0.03]]), log.n_actions).round(2)
    ('pump:0.8', array([[0.1, 0.1, 0.8]]))
    """

    name: str
    fingerprint: str
    policy: Policy | None = None
    table: str | None = None
    action_names: tuple[str, ...] = ()

    @property
    def tables(self) -> list[str]:
        """Tables of the log that the target needs."""
        return [] if self.table is None else [self.table]

    def probabilities(self, segment: Segment, n_actions: int) -> FloatArray:
        """Return π [m, K] in all states of a segment."""
        if self.policy is not None:
            return query_policy(
                f"target {self.name!r}",
                self.policy,
                segment.observations,
                n_actions,
                self.action_names,
            )
        assert self.table is not None
        pi = segment.tables[self.table]
        unknown = np.isnan(pi[segment.next_states]).any(axis=1) & segment.continues
        for t in np.flatnonzero(unknown)[:1]:
            episode, step = segment.rows.location(int(segment.index[t]))
            raise LogError(
                Finding(
                    "E146",
                    f"{self.table}_* does not cover the observation after truncated rows "
                    f"(first: episode {episode} step {step}).",
                    replace(
                        GIVE_FUNCTION,
                        advice=f"Add next_{self.table}_0, … on those rows, or give the target as a "
                        "function",
                    ),
                )
            )
        return pi

    def behaviour(self, segment: Segment) -> tuple[FloatArray | None, FloatArray | None]:
        """Return μ of the logged actions [n], and of all actions in all states [m, K], if known."""
        return segment.propensity, segment.tables.get("mu")

    def check_rows(self, segment: Segment, n_actions: int) -> Recheck:
        """Raise unless π is a function of each observation alone, on some states of a segment."""
        if self.policy is None:
            return nothing_to_recheck
        return check_policy_rows(
            f"target {self.name!r}", self.policy, segment.observations, n_actions,
            self.action_names,
        )  # fmt: skip

    def at(self, observations: FloatArray, n_actions: int) -> FloatArray:
        """Return π [n, K] for any observations."""
        if self.policy is None:
            raise InvalidParameter(
                f"target {self.name!r} is defined only on the rows of the log. Pass it as a "
                "function to evaluate other observations."
            )
        name = f"target {self.name!r}"
        return query_policy(name, self.policy, observations, n_actions, self.action_names)


def as_target(target: Any, log: Log, name: str | None = None) -> Target:
    """Convert a function, table, classifier, name or column prefix to a target policy.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=1, rng=0)
    >>> as_target("pump:0.8", log).at(np.array([[-0.5, 0.01]]), 3).round(3)
    array([[0.1, 0.1, 0.8]])
    """
    if log.has_continuous_actions:
        raise InvalidParameter(
            f"the log has continuous actions, {', '.join(log.roles.actions)}, which only evaluate "
            "and rank take."
        )
    if isinstance(target, Target):
        return target if name is None else replace(target, name=name)
    if isinstance(target, str):
        return _parse_spec(target, log, name or target)
    if hasattr(target, "predict_proba") and hasattr(target, "classes_"):
        return _from_classifier(target, log, name or type(target).__name__)
    if callable(target):
        policy = with_columns(target, log.observation_names)
        name = name or str(getattr(target, "__name__", "target"))
        return Target(name, fingerprint(target), policy)
    try:
        table = np.asarray(target, dtype=np.float64)
        if not table.ndim:
            raise TypeError
    except (TypeError, ValueError):
        raise InvalidParameter(
            "a target must be a function, 'module.py:function', a fitted classifier, a table, or "
            f"one of {', '.join(BUILT_IN)}; got {type(target).__name__}."
        ) from None
    if table.ndim != 2 or table.shape[1] != log.n_actions:
        raise InvalidShape(
            f"a target table must have one row per observation and {log.n_actions} columns, one "
            f"per action; got shape {list(table.shape)}."
        )
    check_distribution("target table", table, np.arange(len(table), dtype=np.float64)[:, None])
    digest = hashlib.sha256(table.tobytes()).hexdigest()[:16]
    return Target(name or "table", f"table {digest}", partial(_look_up, table))


def as_targets(targets: Any, log: Log) -> list[Target]:
    """Return target policies from any accepted form; names must be distinct."""
    resolved = convert_targets(targets, lambda given, name: as_target(given, log, name))
    return [replace(target, action_names=log.action_names) for target in resolved]


def convert_targets(
    targets: Any, convert: Callable[[Any, str | None], AnyTarget]
) -> list[AnyTarget]:
    """Convert one target policy, or several by name; names must be distinct."""
    named = targets if isinstance(targets, Mapping) else {None: targets}
    if not named:
        raise InvalidParameter("no target policy: pass at least one.")
    for name in named:
        if name is not None and not isinstance(name, str):
            raise InvalidParameter(f"names of target policies must be strings, got {name!r}.")
    resolved = []
    for name, given in named.items():
        try:
            resolved.append(convert(given, name))
        except SaddlebackError:
            raise
        except USER_ERRORS as error:  # from an object that fails when it is looked at
            raise InvalidParameter(
                f"target {name or type(given).__name__!r} cannot be used as a policy: "
                f"{type(error).__name__}: {error}."
            ) from error
    names = [target.name for target in resolved]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"target policies need different names, got {names}.")
    return resolved


def _parse_spec(spec: str, log: Log, name: str) -> Target:
    kind, _, rest = spec.partition(":")
    if kind.endswith(".py"):
        function = load(spec)
        if hasattr(function, "predict_proba"):
            return _from_classifier(function, log, name)
        if not callable(function):
            raise InvalidParameter(
                f"target {spec!r} is {type(function).__name__}, not a function from observations "
                "[n, d] to probabilities [n, K]."
            )
        digest = fingerprint(function, Path(kind).read_text(encoding="utf-8"))
        policy = with_columns(function, log.observation_names)
        return Target(name, f"{Path(kind).name}:{rest} {digest}", policy)
    _registry.check_name("target policy", kind, BUILT_IN)
    if kind == "uniform":
        return Target(name, spec, policies.uniform(log.n_actions))
    if kind == "logged":
        if log.behaviour is not None:
            policy = with_columns(log.behaviour, log.observation_names)
            return Target(name, "logged " + fingerprint(log.behaviour), policy)
        if "mu" not in log.roles.tables:
            raise InvalidParameter(
                "target 'logged' needs mu for all actions.",
                replace(
                    ESTIMATE_PROPENSITIES,
                    advice="Add columns mu_0, mu_1, …, declare behaviour=function, or estimate it",
                ),
            )
        return Target(name, "logged", table="mu")
    if kind == "columns":
        prefix = rest or "pi"
        if prefix not in log.roles.tables:
            available = ", ".join(log.roles.tables) or "none"
            raise InvalidParameter(
                f"target {spec!r}: the log has no columns {prefix}_0, {prefix}_1, … Its tables of "
                f"probabilities are: {available}."
            )
        if len(log.roles.tables[prefix]) != log.n_actions:
            message = (
                f"{prefix}_* has {len(log.roles.tables[prefix])} columns, but the log has "
                f"{log.n_actions} actions."
            )
            raise LogError(Finding("E141", message))
        return Target(name, f"columns {prefix}", table=prefix)
    if kind == "always":
        action = _registry.check_name("action", rest, log.action_names)
        index = log.action_names.index(action)
        return Target(name, spec, policies.always(index, log.n_actions))
    try:
        probability = float(rest)
    except ValueError:
        raise InvalidParameter(
            f"target {spec!r}: {rest!r} is not a probability. Write, for example, pump:0.8."
        ) from None
    policy = policies.pump(probability)
    if (log.dimensions, log.n_actions) != (2, 3):
        raise InvalidParameter(
            f"target {spec!r} is a policy for MountainCar, of 2 observation columns, position and "
            f"velocity, and 3 actions; the log has {log.dimensions} and {log.n_actions}."
        )
    return Target(name, spec, policy)


def _look_up(table: FloatArray, observations: FloatArray) -> FloatArray:
    """Return the rows of a table; observations are row numbers."""
    state = observations[:, 0]
    row = state.astype(np.int64)
    wrong = (observations.shape[1] != 1) | (row != state) | (row < 0) | (row >= len(table))
    for i in np.flatnonzero(np.broadcast_to(wrong, state.shape))[:1]:
        raise ValueError(
            f"a table with {len(table)} rows needs observations that are integers 0 … "
            f"{len(table) - 1}; got {observations[i].tolist()}."
        )
    return table[row]


def _from_classifier(model: Any, log: Log, name: str) -> Target:
    """Return a classifier as a policy: its classes are actions; other actions have π = 0."""
    indices, classes = [], list(map(str, model.classes_))
    for label in model.classes_:
        value = label.item() if hasattr(label, "item") else label
        if isinstance(value, (bool, float)) and value == int(value):
            value = int(value)
        if str(value) not in log.action_names:
            raise InvalidParameter(
                f"target {name!r}: the classifier's class {value!r} is not an action of the log "
                f"({join_names(log.action_names)}).",
                Fix("List the actions", "actions", listed(_all_actions(log, classes))),
            )
        indices.append(log.action_names.index(str(value)))

    policy = partial(_scatter, _classifier_policy(model, log, name), indices, log.n_actions)
    probe = np.random.default_rng(0).normal(size=(64, log.dimensions))
    digest = hashlib.sha256(np.asarray(policy(probe)).round(12).tobytes()).hexdigest()[:16]
    return Target(name, f"{type(model).__name__} {digest}", policy)


def _all_actions(log: Log, classes: list[str]) -> list[str]:
    """Return the actions of a log and the classes; only those if they may name its numbers."""
    if len(classes) == log.n_actions and not (log.has_action_names or log.has_text_actions):
        return classes
    return list(dict.fromkeys([*log.action_names, *classes]))


def _scatter(
    policy: Policy, indices: list[int], n_actions: int, observations: FloatArray
) -> FloatArray:
    """Return probabilities of all actions from those at ``indices``; the others are 0."""
    probabilities = np.zeros((len(observations), n_actions))
    probabilities[:, indices] = policy(observations)
    return probabilities


def _classifier_policy(model: Any, log: Log, name: str) -> Policy:
    """Return the classifier's probabilities; columns are matched by name if it has names."""
    columns = list(log.roles.observations)
    names = [str(feature) for feature in getattr(model, "feature_names_in_", ())]
    n_features = len(names) or getattr(model, "n_features_in_", log.dimensions)
    if n_features != log.dimensions or (names and set(names) != set(columns)):
        expected = f"{n_features} columns" + (f" ({join_names(names)})" if names else "")
        fix = chosen_columns(n_features, names)
        if not {*names} <= {*log.sources[0].schema.names}:
            fix = None
        raise LogError(
            Finding(
                "E140",
                f"obs has {log.dimensions} columns ({join_names(columns)}), but target {name!r} "
                f"expects {expected}.",
                fix,
            )
        )
    order = [columns.index(feature) for feature in names]
    return partial(_predict, model, names, order)


def _predict(
    model: Any, names: list[str], order: list[int], observations: FloatArray
) -> FloatArray:
    """Return the probabilities of a classifier, which may have been fitted with column names."""
    if not names:
        return np.asarray(model.predict_proba(observations))
    try:
        import pandas
    except ImportError:
        return np.asarray(model.predict_proba(observations[:, order]))
    frame = pandas.DataFrame(observations[:, order], columns=names)
    return np.asarray(model.predict_proba(frame))
