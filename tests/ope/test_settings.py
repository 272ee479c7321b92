"""Settings with absurd values: none of them makes a wrong estimate usable."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.situations import situation

import saddleback as sb
from helpers.verdicts import gate_of
from saddleback.log import BehaviourTarget
from saddleback.log.behaviour_target import NAME
from saddleback.ope import evaluate_statistics
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier

pytestmark = pytest.mark.usefixtures("known_opinions")

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


@pytest.mark.slow
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


@pytest.mark.slow
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


SETTINGS = {
    "ridge": [{"ridge": ridge} for ridge in (1e-3, 0.1, 10.0, 1e6)],
    "rule": [{"rule": rule} for rule in ("GES:0.9", "GES:1", "GRetrace:1", "GTB:0.99")],
    "min_prob": [{"min_prob": least} for least in (0.05, 0.3, 0.6, 0.95)],
    "box": [{"box": width} for width in (0.5, 0.2, 0.01, 10.0, 1000.0)],
    "blocks": [{"blocks": count, "ridge": ridge} for count in (2, 3, 50) for ridge in (0.0, 1.0)],
}


def resized(features, factor):
    """Return features with a box of another width, around the same centre."""
    low, high = np.array(features.low), np.array(features.high)
    reach = factor * (high - low) / 2
    centre = (low + high) / 2
    return replace(features, low=tuple(centre - reach), high=tuple(centre + reach))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kind", ["good, tabular", "good, continuous", "good, truncated"])
def test_no_setting_makes_a_wrong_estimate_usable(kind, name):
    given = situation(kind, 0)
    options = {"features": given.features, "gamma": given.gamma, "allow_uncovered": True}
    for setting in SETTINGS[name]:
        more, log = dict(setting), given.log
        if "min_prob" in more:
            log = log.with_options(min_prob=more.pop("min_prob"))
        if "box" in more:
            if not hasattr(given.features, "low"):
                continue
            more["features"] = resized(given.features, more.pop("box"))
        if "blocks" in more:
            ridge, count = more.pop("ridge"), more.pop("blocks")
            targets = {"target": given.target, NAME: BehaviourTarget.of(log)}
            sums = sb.Statistics.of(log, sb.GRetrace(0.5), targets, blocks=count, **options)
            verdict = evaluate_statistics(sums, ridge=ridge).verdicts[0]
        else:
            settings = {"methods": []} | options | more
            verdict = sb.evaluate(log, given.target, **settings).verdicts[0]
        low, high = verdict.interval_with_gap
        assert verdict.trust != "usable" or low <= given.truth <= high, setting
