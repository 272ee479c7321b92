"""Requirements of a rule on a log: kind of values, propensities, full behaviour policy."""

from __future__ import annotations

import numpy as np

from saddleback._plugins import USER_ERRORS
from saddleback.errors import (
    ESTIMATE_PROPENSITIES,
    Fix,
    InvalidParameter,
    RuleMismatch,
    SaddlebackError,
)
from saddleback.rules.rule import Rule
from saddleback.rules.traces import Trace


def check_log_requirements(
    rule: Rule, values: str, *, propensity: bool, behaviour: bool, actions: int = 3
) -> None:
    """Refuse a rule that cannot be used on a log.

    Parameters
    ----------
    rule
        The rule.
    values
        Which values are learned, "action" or "state".
    propensity
        Whether the log has μ of the action taken.
    behaviour
        Whether the log has μ of every action.
    actions
        Number of actions of the log.
    """
    if rule.values != values:
        raise RuleMismatch(
            f"{rule} learns {rule.values} values, other rules here {values} values; evaluate them "
            "separately."
        )
    if rule.bootstrap.on_policy_only:
        raise RuleMismatch(
            f"{rule} evaluates the logged policy only: use ExpectedSarsa with the target 'logged'."
        )
    if not rule.trace.pointwise:
        raise RuleMismatch(
            f"{rule} needs the extrema of the policies over all states, which a log does not have: "
            "declare them, e.g. ActionDependent(zeta, extrema=(0.1, 0.9))."
        )
    if wrong := _wrong_declaration(rule, actions):
        raise RuleMismatch(f"{rule}: {wrong}. Correct the property in {type(rule.trace).__name__}.")
    if not propensity and needs_propensities(rule):
        raise InvalidParameter(
            f"{rule} needs the probabilities of the logged actions, and the log has none. Rules "
            "without ratios, such as GES(0) or GTB, need none.",
            ESTIMATE_PROPENSITIES,
        )
    if not behaviour and (correction_uses_mu(rule) or not rule.trace.elementwise):
        raise RuleMismatch(
            f"{rule} needs the full behaviour policy, and the log has only the probability of "
            "the action taken.",
            Fix(
                "Add mu_0, mu_1, …, or pass the policy",
                "behaviour",
                "…",
                "Log(…, behaviour=function)",
            ),
        )


def _wrong_declaration(rule: Rule, actions: int) -> str:
    """Like `wrong_declaration`; an error of the user's code is raised again with the rule."""
    try:
        return wrong_declaration(rule.trace, actions)
    except SaddlebackError:
        raise
    except USER_ERRORS as error:
        raise RuleMismatch(
            f"{rule}: κ of {actions} actions cannot be computed: {type(error).__name__}: {error}. "
            f"Correct kappa in {type(rule.trace).__name__}, or its parameters."
        ) from error


def wrong_declaration(trace: Trace, actions: int = 3) -> str:
    """Return what a trace declares of itself that is not so on random policies, or empty text."""
    if not trace.pointwise:
        return ""
    pi, mu, other = np.random.default_rng(0).dirichlet(np.ones(actions), (3, 16))
    kappa, by_other = (np.asarray(trace.kappa(pi.copy(), m.copy())) for m in (mu, other))
    if trace.elementwise:
        columns = [trace.kappa(pi[:, [a]], mu[:, [a]]) for a in range(min(actions, 8))]
        if not np.allclose(np.hstack(columns), kappa[:, :8], equal_nan=True):
            return "elementwise is True, but κ of an action depends on the other actions"
    if not trace.uses_mu and not np.allclose(kappa, by_other, equal_nan=True):
        return "uses_mu is False, but κ depends on μ"
    if not trace.flow_uses_mu and not np.allclose(mu * kappa, other * by_other):
        return "flow_uses_mu is False, but μκ depends on μ"
    if trace.bound is not None and kappa.max() > trace.bound * (1 + 1e-9):
        return f"bound is {trace.bound:g}, but κ can be {kappa.max():.3g}"
    return ""


def correction_uses_mu(rule: Rule) -> bool:
    """Whether x depends on μ of every action."""
    return bool(rule.form.coefficients.correction) and rule.trace.flow_uses_mu


def needs_propensities(rule: Rule) -> bool:
    """Whether a rule depends on μ of the action taken."""
    if rule.trace.uses_mu or rule.bootstrap.uses_rho or rule.emphasis is not None:
        return True
    return bool(rule.form.coefficients.hybrid)
