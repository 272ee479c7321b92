"""The verdicts of an analysis, each against the function that it summarises."""

import re

import pytest

import saddleback as sb
from saddleback import System, mean_square, problems, theorem2
from saddleback.theory import MeanStability, analyse, lambda_ceiling, small_step_floor

PROBLEM = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])


def numbers(sentence):
    """Return the numbers of a sentence."""
    return [float(text) for text in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?", sentence)]


@pytest.mark.parametrize("rule", [sb.GES(0.4), sb.ExpectedSarsa(0.0)], ids=str)
def test_verdicts_state_the_limits_and_the_advice(rule):
    verdicts = dict(analyse(PROBLEM, rule, steps=100).verdicts)
    system, dual = System.exact(PROBLEM, rule), rule.form.has_dual
    mean = MeanStability(system)
    _, limit = numbers(verdicts["mean"])
    assert mean.radius(0.999 * limit, 0.999 * limit) < 1 < mean.radius(1.001 * limit, 1.001 * limit)
    best, alpha, *beta = numbers(verdicts["fastest expected rate"])
    assert len(beta) == dual
    assert mean.radius(alpha, *beta) == pytest.approx(best, abs=0.01)
    _, limit = numbers(verdicts["mean square"])
    stable = [
        mean_square(PROBLEM, rule, alpha=a, beta=a if dual else None).stable
        for a in (0.99 * limit, 1.01 * limit)
    ]
    # With a trace the limit is that of steps treated as independent.
    assert stable == [True, False] or rule.trace.lam > 0
    assert verdicts["λ ceiling"] == f"{lambda_ceiling(PROBLEM, rule):.3f}"
    words = verdicts["advice, 100 steps"].partition(";")[0]
    alpha, *beta, error = numbers(words)
    assert len(beta) == dual
    sizes = {"alpha": alpha, "beta": beta[0] if dual else None}
    exact = mean_square(PROBLEM, rule, **sizes).curve(100)
    assert error == pytest.approx(exact, rel=0.2 if rule.trace.lam else 0.005)
    floor, *_ = numbers(verdicts["error floor"])
    assert floor == pytest.approx(small_step_floor(PROBLEM, rule, **sizes), rel=0.02)
    if dual:
        constants = theorem2(system)
        _, rate, alpha, beta = numbers(verdicts["Theorem 2"])
        assert (rate, alpha, beta) == pytest.approx(
            (constants.rate, constants.alpha, constants.beta), rel=0.01
        )
    else:
        assert verdicts["Theorem 2"].startswith("– theorem2: ")


def test_a_trace_above_its_ceiling_has_no_mean_square():
    verdicts = dict(analyse(problems.two_state(), sb.GES(0.95), steps=100).verdicts)
    assert verdicts["λ ceiling"].endswith(", exceeded: E‖e‖² is infinite")
    assert verdicts["mean square"].startswith("– GES(0.95) is above the λ ceiling")
    assert verdicts["advice, 100 steps"] == "– none, for the reason above"
    assert "error floor" not in verdicts


def test_an_unstable_mean_is_told():
    verdicts = dict(analyse(problems.two_state(gamma=0.99), sb.ExpectedSarsa(0.0)).verdicts)
    assert verdicts["mean"] == "unstable for every α"
    assert "fastest expected rate" not in verdicts
