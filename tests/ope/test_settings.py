"""Settings with absurd values: none of them makes a wrong estimate usable."""

import pytest

import saddleback as sb
from helpers.verdicts import gate_of
from saddleback.log import BehaviourTarget
from saddleback.log.behaviour_target import NAME
from saddleback.ope import evaluate_statistics
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier

BOX = sb.features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
GAMMA = 0.97


@pytest.fixture(scope="module")
def log():
    return sb.Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)


@pytest.fixture(scope="module")
def statistics(log):
    targets = {"new": earlier, NAME: BehaviourTarget.of(log)}
    rules = [sb.GRetrace(0.5), sb.GRetrace(0.0)]
    return sb.Statistics.of(log, rules, targets, features=BOX, gamma=GAMMA)


def verdict_of(log, **options):
    options = {"features": BOX, "gamma": GAMMA, "methods": []} | options
    return sb.evaluate(log, {"new": earlier}, **options).verdicts[0]


def test_a_ridge_widens_the_interval_and_is_refused_where_it_moves_the_estimate(log, statistics):
    """A ridge of 1 gave -0.64, from -1.21 to -0.06, usable; without it 0.02, from -0.08 to 0.13."""
    for judge in (
        lambda ridge: verdict_of(log, ridge=ridge),
        lambda ridge: evaluate_statistics(statistics, ridge=ridge, draws=0).verdicts[0],
    ):
        plain = judge(0.0)
        assert plain.trust == judge(1e-6).trust == "usable"
        assert gate_of(plain, "RIDGE").level == "not checked"
        for ridge in (1e-6, 1e-3, 0.1, 1.0, 10.0, 1e6):
            verdict = judge(ridge)
            low, high = verdict.interval_with_gap
            assert low <= plain.low + 1e-9
            assert high >= plain.high - 1e-9
            if 0.1 <= ridge <= 10:
                assert gate_of(verdict, "RIDGE").level == verdict.trust == "refused"
                assert verdict.improvement.low < plain.improvement.low


def test_the_shift_by_a_ridge_is_the_change_of_the_solution(log, statistics):
    verdict = verdict_of(log, ridge=0.1)
    start = statistics.start("new")
    one, other = (
        statistics.solve(sb.GRetrace(0.5), "new", ridge).theta @ start for ridge in (0.1, 0.0)
    )
    assert verdict.evidence.ridge_shift == pytest.approx(abs(one - other), rel=1e-6)
    plain = verdict_of(log)
    assert verdict.evidence.error_without_ridge == pytest.approx(plain.evidence.error, rel=1e-9)
    expected = abs(one - other) / (2 * plain.evidence.error)
    assert gate_of(verdict, "RIDGE").value == pytest.approx(expected, rel=1e-6)
