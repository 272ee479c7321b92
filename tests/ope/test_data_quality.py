"""Corrupted values make an estimate doubtful or refused; legitimate extremes do not."""

import sys

import numpy as np
import pytest

import saddleback as sb
from helpers.logs import columns
from helpers.verdicts import gate_of, walk_log
from saddleback.features import Fourier, OneHot
from saddleback.log import LogError, row_source
from saddleback.ope import evaluate_statistics

FEATURES = Fourier((-3.0, -3.0), (3.0, 3.0), order=1)
NEW = ("DROPPED", "IMPUTED", "CLIPPED", "BOX", "OUTLIERS", "INFLUENCE", "RIDGE")


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
    assert gate_of(verdict, "INFLUENCE").value > 100
    sums = sb.Statistics.of(log, sb.GES(0.0), "uniform", features=OneHot(5), gamma=1.0)
    gate = gate_of(evaluate_statistics(sums, draws=0).verdicts[0], "INFLUENCE")
    assert 10 < gate.value <= 20
    assert gate.sentence.endswith("of 20 blocks of episodes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("long", "level"), [(600, "usable"), (3000, "doubtful"), (60_000, "refused")]
)
def test_one_long_episode_with_most_rows_is_no_sample(long, level):
    """Its scores sum to nearly 0 whatever its noise: the interval was far too narrow."""
    data = columns([long] + [5] * 60, "terminated", actions=2, d=1, step=False)
    data = {name: values for name, values in data.items() if "mu" not in name}
    options = {"features": Fourier((-3.0,), (3.0,), order=1), "gamma": 0.9}
    log = sb.Log(data, segment=1000)
    gate = gate_of(sb.evaluate(log, "uniform", methods=[], **options).verdicts[0], "INFLUENCE")
    assert gate.level == level
    if level != "usable":
        assert gate.sentence.endswith("of 61 episodes: above all on episode 10")
        sums = sb.Statistics.of(log, sb.GES(0.0), "uniform", **options)
        verdict = evaluate_statistics(sums, draws=0).verdicts[0]
        assert "of episodes: above all on block" in gate_of(verdict, "INFLUENCE").sentence


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


def test_one_large_episode_is_refused_before_it_is_read(monkeypatch):
    """It is found by its id alone; all of its rows were read, and memory was allocated."""
    data = columns([700], "terminated", actions=2)
    log = sb.Log(data | {"episode_id": np.repeat(["a"], 700)})
    assert not log.has_several_episodes()
    assert sb.Log(bandit()).has_several_episodes()
    monkeypatch.setattr(row_source, "BATCH", 300)
    assert sb.Log(columns([600, 1], "terminated")).has_several_episodes()
    assert not sb.Log(columns([601], "terminated")).has_several_episodes()
    monkeypatch.setattr(sys.modules["saddleback.ope.evaluate"], "CACHED_ROWS", 600)
    monkeypatch.setattr(sb.Log, "sample", lambda *_: pytest.fail("the log was read"))
    with pytest.raises(sb.errors.InvalidParameter, match="at least two episodes, the log has 1"):
        sb.evaluate(log, "uniform", features=FEATURES, gamma=0.9)


@pytest.mark.parametrize("rule", ["GES:0.9", "GES:1", "GRetrace:0.5", "GTB:0.9"])
@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-160])
def test_a_propensity_that_overflows_is_an_error(rule, value):
    """GES(0.9) divided by zero."""
    log = sb.Log(changed("behavior_prob", [5], value))
    with pytest.raises(LogError, match=r"E101 behavior_prob is below 1e-30 on 1 row \(episode 15"):
        sb.evaluate(log, "uniform", features=FEATURES, gamma=0.9, rule=rule)
    clipped = log.with_options(min_prob=0.01)
    verdict = sb.evaluate(clipped, "uniform", features=FEATURES, gamma=0.9, rule=rule).verdicts[0]
    assert np.isfinite(verdict.value)


def test_small_propensities_on_many_rows_overflow_only_where_they_are_used():
    """The follow-on trace of GRetrace, which has no use for it, made all of its sums NaN."""
    data = columns([20] * 60, "terminated", actions=2)
    data = {name: values for name, values in data.items() if "mu" not in name}
    data["behavior_prob"][20:39] = 1e-29
    options = {"features": FEATURES, "gamma": 0.9}
    result = sb.evaluate(sb.Log(data), "uniform", rule="GRetrace:0.5", **options)
    assert np.isfinite(result.verdicts[0].value)
    assert result.verdicts[0].trust != "usable"
    with pytest.raises(
        sb.errors.InvalidParameter, match="sums over the log overflow, in the trace"
    ):
        sb.evaluate(sb.Log(data), "uniform", rule="GES:0.9", **options)


def test_effective_sample_sizes_of_many_steps_are_not_all_saved(monkeypatch):
    monkeypatch.setattr(sys.modules["saddleback.ope.result"], "MAX_SAVED_STEPS", 5)
    result = sb.evaluate(
        sb.Log(columns([9] * 30, "terminated")), "uniform", gamma=0.9, features="polynomial:1"
    )
    assert len(result.ess_by_step["uniform"]) == 9
    assert len(result.as_dict()["ess_by_step"]["uniform"]) == 5


@pytest.mark.parametrize("horizon", [None, 1])
def test_the_unit_of_rewards_does_not_matter(horizon):
    """Folds depend on the content of episodes: values are equal within a standard error."""
    data = bandit(200)
    large = data | {"reward": 1e60 * data["reward"]}
    options = {"features": "auto", "horizon": horizon, "gamma": 0.9}
    one, other = (verdict_on(given, **options) for given in (data, large))
    assert other.trust == one.trust
    assert other.value / 1e60 == pytest.approx(one.value, abs=one.evidence.error)
