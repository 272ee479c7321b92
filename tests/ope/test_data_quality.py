"""Corrupted values make an estimate doubtful or refused; legitimate extremes do not."""

import numpy as np
import pytest

import saddleback as sb
from helpers.logs import columns
from helpers.verdicts import gate_of, walk_log
from saddleback.features import Fourier, OneHot
from saddleback.ope import evaluate_statistics

FEATURES = Fourier((-3.0, -3.0), (3.0, 3.0), order=1)
NEW = ("DROPPED", "CLIPPED", "BOX", "OUTLIERS", "INFLUENCE", "RIDGE")


def bandit(n=719, seed=0, **changes):
    """Return one decision for each of n episodes, with propensities of the taken actions."""
    kept = columns([1] * n, "terminated", seed=seed, actions=2)
    return {name: values for name, values in kept.items() if "mu" not in name} | changes


def verdict_on(data, **options):
    options = {"features": FEATURES, "gamma": 1.0, "methods": []} | options
    return sb.evaluate(sb.Log(data), "uniform", **options).verdicts[0]


def changed(name, rows, value):
    values = bandit()[name].astype(float)
    values[rows] = value
    return bandit() | {name: values}


def test_the_log_itself_is_usable():
    verdict = verdict_on(bandit())
    assert verdict.trust == "usable"
    assert all(gate_of(verdict, code).passed for code in NEW)


@pytest.mark.parametrize(
    ("name", "rows", "value", "trust", "sentence"),
    [
        ("reward", range(3, 11), -9999, "refused", "reward is -9999 in 8 rows (first: episode 13"),
        ("reward", [5], -9999, "refused", "reward is -9999 in 1 row (episode 15 step 0)"),
        ("reward", [5], -3.5e33, "refused", "reward is -3.5e+33 in 1 row (episode 15 step 0)"),
        ("obs_0", range(360), -9999, "doubtful", "obs_0 is -9999 in 360 rows (first: episode 10"),
        ("behavior_prob", [7], 1e-9, "doubtful", "behavior_prob is 1e-09 in 1 row (episode 17 ste"),
    ],
)  # fmt: skip
def test_corrupted_values_are_never_usable(name, rows, value, trust, sentence):
    data = changed(name, list(rows), value)
    verdict = verdict_on(data)
    gate = gate_of(verdict, "OUTLIERS")
    assert not gate.passed
    assert sentence in gate.sentence
    if name != "obs_0":  # most of them are outside the box, too
        assert verdict.trust == trust
    result = sb.evaluate(sb.Log(data), "uniform", features=FEATURES, gamma=1.0)
    assert any(sentence in warning for warning in result.as_dict()["warnings"])
    sums = sb.Statistics.of(sb.Log(data), sb.GES(0.0), "uniform", features=FEATURES, gamma=1.0)
    from_statistics = evaluate_statistics(sums, draws=0).verdicts[0]
    assert sentence in gate_of(from_statistics, "OUTLIERS").sentence


def test_one_episode_that_decides_is_refused_by_its_id():
    gate = gate_of(verdict_on(changed("reward", [5], -9999)), "INFLUENCE")
    assert gate.level == "refused"
    assert gate.value == pytest.approx(1.0, abs=0.1)
    assert gate.sentence.endswith("of 719 episodes: above all on episode 15")
    two = gate_of(verdict_on(changed("reward", [5, 6], [2000.0, 1500.0])), "INFLUENCE")
    assert two.level == "doubtful"
    assert 1.5 < two.value < 2
    three = gate_of(verdict_on(changed("reward", [5, 6, 7], 2000.0)), "INFLUENCE")
    assert three.level == "usable"
    assert 2 < three.value < 3.5
    dropped = changed("reward", [0, 1], np.nan)
    dropped["reward"][5] = -9999
    log = sb.Log(dropped, drop_bad="episode")
    (verdict,) = sb.evaluate(log, "uniform", features=FEATURES, gamma=1.0, methods=[]).verdicts
    assert "above all on episode 15" in gate_of(verdict, "INFLUENCE").sentence


def test_an_estimate_without_variance_rests_on_no_episode():
    log = walk_log()
    (verdict,) = sb.evaluate(log, "uniform", features="states", gamma=1.0, methods=[]).verdicts
    assert gate_of(verdict, "INFLUENCE").level == "not checked"
    sums = sb.Statistics.of(log, sb.GES(0.0), "uniform", features=OneHot(5), gamma=1.0)
    gate = gate_of(evaluate_statistics(sums, draws=0).verdicts[0], "INFLUENCE")
    assert gate.sentence.startswith("not available from statistics")


RNG = np.random.default_rng(1)
LEGITIMATE = {
    "normal": RNG.normal(size=719),
    "rare success": (RNG.random(719) < 0.03) * 1.0,
    "-1 or 0": (RNG.random(719) < 0.8) * -1.0,
    "exponential": RNG.exponential(size=719),
    "lognormal": RNG.lognormal(size=719),
    "Student, 3": RNG.standard_t(3, 719),
    "Pareto, 3": RNG.pareto(3, 719),
    "large and small": np.where(RNG.random(719) < 0.05, 500.0, RNG.random(719)),
}


@pytest.mark.parametrize("kind", LEGITIMATE)
def test_legitimate_rewards_raise_no_alarm(kind):
    verdict = verdict_on(bandit(reward=LEGITIMATE[kind]))
    assert not [code for code in NEW if not gate_of(verdict, code).passed]
