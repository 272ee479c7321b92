"""The checks of a rule cover its declarations and the logged path."""

from dataclasses import dataclass

import numpy as np
import pytest

import saddleback as sb
from saddleback import Rule
from saddleback.checks import CheckFailed, check_rule


@dataclass(frozen=True)
class Clipped(sb.Trace):
    """κ = λ min(2, ρ)."""

    lam: float

    def kappa(self, pi, mu):
        return self.lam * np.minimum(2.0, sb.policies.ratio(pi, mu))


@pytest.mark.parametrize(
    ("declared", "failure"),
    [
        ({"bound": 0.5}, "bound is 0.5, but κ can be 1"),
        ({"uses_mu": False}, "uses_mu is False, but κ depends on μ"),
        ({"flow_uses_mu": False}, "flow_uses_mu is False, but μκ depends on μ"),
        (
            {"kappa": lambda self, pi, mu: pi / pi.max(axis=1, keepdims=True)},
            "elementwise is True, but κ of an action depends on the other actions",
        ),
    ],
)
def test_wrong_declarations_are_found(declared, failure):
    check_rule(Rule(Clipped(0.5), sb.Saddle(), sb.Expected()))
    trace = type("Wrong", (Clipped,), declared)(0.5)
    with pytest.raises(CheckFailed, match=failure):
        check_rule(Rule(trace, sb.Saddle(), sb.Expected()))


@dataclass(frozen=True)
class Elsewhere(sb.Bootstrap):
    """The expected bootstrap, but for features that are the same in all states, as logs give."""

    def rows(self, phi, pi):
        rows = sb.Expected().rows(phi, pi)
        return 0.5 * rows if phi.strides[0] == 0 else rows


def test_the_logged_path_is_checked():
    with pytest.raises(CheckFailed, match="A of a log differs from that of its steps by"):
        check_rule(Rule(sb.Retrace(0.5), sb.Saddle(), Elsewhere()))


def test_texts_are_checked_too():
    check_rule("Retrace:0.5+Correction")
    with pytest.raises(sb.errors.RuleMismatch, match=r"rule must be a Rule, got 0\.5"):
        check_rule(0.5)


def test_a_bootstrap_that_is_not_the_next_features_is_found():
    @dataclass(frozen=True)
    class Half(sb.State):
        def rows(self, phi, pi):
            return 0.5 * phi

    with pytest.raises(CheckFailed, match="is_next_phi is True, but b differs from the next φ"):
        check_rule(sb.Rule(sb.Importance(0.5), sb.SemiGradient(), Half()))
