"""The estimators that `evaluate` takes by name, and which of them a log allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from saddleback._registry import check_name
from saddleback.errors import ESTIMATE_PROPENSITIES, Fix, InvalidParameter
from saddleback.log import Log
from saddleback.ope import episode_weights
from saddleback.ope.decisions import DECISION_METHODS
from saddleback.rules import Rule

IMPORTANCE_SAMPLING = tuple(name.lower() for name in episode_weights.IMPORTANCE_SAMPLING)
DOUBLY_ROBUST = tuple(name.lower() for name in episode_weights.DOUBLY_ROBUST)
WEIGHTED = (*IMPORTANCE_SAMPLING, *DOUBLY_ROBUST)
METHODS, CONTINUOUS = ("fqe", "streamed", "svrg", *WEIGHTED), ("fqe", *WEIGHTED)
"""Estimators for discrete and for continuous actions, besides the closed form."""

DEFAULT_METHODS = ("wdr", "dr", "pdwis", "pdis")
"""Default estimators where the log has propensities and the rule learns action values."""

WITHOUT_PROPENSITIES = ("dm", "marginal-dr")
"""Estimators for single decisions that need no propensities."""


def episode_methods(log: Log, rule: Rule, methods: Sequence[str] | None) -> tuple[str, ...]:
    """Return the methods to use; raise for those that do not apply, with an alternative."""
    if methods is None:
        return DEFAULT_METHODS if log.propensity and rule.values == "action" else ()
    for method in _listed(methods, "['fqe', 'dr']"):
        if method in DECISION_METHODS and method not in METHODS:
            raise InvalidParameter(
                f"method {method!r} is for single decisions, but episodes of this log have several "
                "steps, or did not terminate.",
                Fix("If each row is a decision of its own, say so", "bandit", True),
            )
        check_name("method", method, METHODS)
        if method in WEIGHTED and not log.propensity:
            raise InvalidParameter(
                f"method {method!r} needs propensities, and the log has none. The closed form with "
                "GES(0) or GTB needs none.",
                ESTIMATE_PROPENSITIES,
            )
        if method in ("fqe", *DOUBLY_ROBUST) and rule.values == "state":
            raise InvalidParameter(
                f"method {method!r} learns action values, but {rule} learns state values: remove "
                "one of them, or use GRetrace."
            )
    return tuple(methods)


def continuous_methods(log: Log, methods: Sequence[str] | None) -> tuple[str, ...]:
    """Return the methods to use for continuous actions; raise for those that do not apply."""
    if methods is None:
        return DEFAULT_METHODS if log.propensity else ()
    for method in _listed(methods, "['fqe', 'dr']"):
        check_name("method for continuous actions", method, CONTINUOUS)
        if method in WEIGHTED and not log.propensity:
            raise InvalidParameter(
                f"method {method!r} needs the densities of the logged actions, behavior_prob, and "
                "the log has none."
            )
    return tuple(methods)


def decision_methods(log: Log, methods: Sequence[str] | None) -> tuple[str, ...]:
    """Return the methods to show for single decisions; raise for those that do not apply."""
    if methods is None:
        return tuple(DECISION_METHODS if log.propensity else WITHOUT_PROPENSITIES)
    for method in _listed(methods, "['ipw', 'dm']"):
        check_name("method for single decisions", method, list(DECISION_METHODS))
        if method not in WITHOUT_PROPENSITIES and not log.propensity:
            raise InvalidParameter(
                f"method {method!r} needs propensities, and the log has none. The direct method "
                "'dm' and 'marginal-dr' need none.",
                ESTIMATE_PROPENSITIES,
            )
    return tuple(methods)


def _listed(methods: Sequence[str], example: str) -> Sequence[str]:
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise InvalidParameter(
            f"evaluate: methods must be a list such as {example}, got {methods!r}."
        )
    return methods
