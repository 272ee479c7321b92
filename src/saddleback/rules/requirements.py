"""Requirements of a rule on a log: kind of values, propensities, full behaviour policy."""

from __future__ import annotations

import numpy as np

from saddleback.errors import ESTIMATE_PROPENSITIES, Fix, InvalidParameter, RuleMismatch
from saddleback.rules.rule import Rule
from saddleback.rules.traces import Importance, NoTrace


def check_log_requirements(rule: Rule, values: str, *, propensity: bool, behaviour: bool) -> None:
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
    if not propensity and needs_propensities(rule):
        raise InvalidParameter(
            f"{rule} needs the probabilities of the logged actions, and the log has none. Rules "
            "without ratios, such as GES(0) or GTB, need none.",
            ESTIMATE_PROPENSITIES,
        )
    simple = isinstance(rule.trace, (Importance, NoTrace))
    corrects = rule.form.coefficients.correction and not simple
    if not behaviour and (corrects or not rule.trace.by_action):
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


def needs_propensities(rule: Rule) -> bool:
    """Whether a rule depends on μ of the action taken."""
    pi = np.array([[0.2, 0.5, 0.9]])
    one, two = (rule.trace.kappa(pi, np.full_like(pi, mu)) for mu in (0.3, 0.6))
    weights = [rule.bootstrap.weight(np.full(1, rho)) for rho in (1.0, 2.0)]
    return bool((one != two).any() or weights[0] != weights[1] or rule.emphasis is not None)
