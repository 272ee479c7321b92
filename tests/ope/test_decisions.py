"""Estimates for single decisions against formulas written out, and logs whose answer is exact."""

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import saddleback as sb
from saddleback.errors import InvalidParameter, UnknownName
from saddleback.log import LogError
from saddleback.ope import Decisions

evaluate_decisions = sys.modules["saddleback.ope.evaluate_decisions"]

CONTEXTS = np.array([0.0, 1.0, 2.0])
MU = 0.25 + 0.25 * np.eye(3)
PI = np.array([[0.1, 0.1, 0.8], [0.6, 0.2, 0.2], [1.0, 0.0, 0.0]])
MEANS = np.array([[1.0, 0.0, 2.0], [0.5, 3.0, -1.0], [0.0, 1.0, 4.0]])
"""Three contexts, equally likely, and three actions: μ, π and the mean reward."""

TRUTH = float((PI * MEANS).sum(axis=1).mean())


def policy(contexts):
    return PI[contexts[:, 0].astype(int)]


def draw(n, seed, noise=1.0):
    """Return a log of n decisions under μ, as columns."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, n)
    a = (rng.random(n)[:, None] > MU[x].cumsum(axis=1)).sum(axis=1)
    return {
        "obs_0": CONTEXTS[x], "action": a, "reward": MEANS[x, a] + noise * rng.normal(size=n),
        "behavior_prob": MU[x, a],
    }  # fmt: skip


def enumerated(copies):
    """Return every context and action as often as under μ, with its mean reward: no noise."""
    x = np.repeat([0, 1, 2], 4 * copies)
    a = np.concatenate([np.repeat([0, 1, 2], (4 * copies * row).astype(int)) for row in MU])
    return {
        "obs_0": CONTEXTS[x], "action": a, "reward": MEANS[x, a], "behavior_prob": MU[x, a],
    }  # fmt: skip


def model(contexts):
    """A poor direct model."""
    return MEANS[contexts[:, 0].astype(int)] * 0.5 + 0.3


def weighted(data, q=model):
    return sb.doubly_robust(sb.Log(data, bandit=True), {"new": policy}, gamma=0.0, q=q)["new"]


def written_out(data):
    """Return ρ, r, v and r − q, from the columns of a log."""
    x, a = data["obs_0"].astype(int), data["action"]
    rho = PI[x, a] / data["behavior_prob"]
    q = model(CONTEXTS[x][:, None])
    v = (PI[x] * q).sum(axis=1)
    return rho, data["reward"], v, data["reward"] - q[np.arange(len(x)), a]


def interval(values):
    """Return mean and 95% confidence interval, by scipy."""
    mean, error = values.mean(), stats.sem(values)
    return (mean, *stats.t.interval(0.95, len(values) - 1, mean, error))


@pytest.mark.parametrize("seed", range(3))
def test_estimates_are_the_formulas_written_out(seed):
    data = draw(200, seed)
    rho, r, v, residual = written_out(data)
    decisions = Decisions(weighted(data))
    expected = {"IPW": rho * r, "DM": v, "DR": v + rho * residual}
    for name, values in expected.items():
        shown = decisions.estimate(name)
        assert (shown.value, shown.low, shown.high) == pytest.approx(interval(values), rel=1e-12)
    ratio = (rho * r).sum() / rho.sum()
    scores = rho * (r - ratio) / rho.mean()
    shown = decisions.estimate("SNIPW")
    _, low, high = interval(ratio + scores)
    assert (shown.value, shown.low, shown.high) == pytest.approx((ratio, low, high), rel=1e-12)
    for parameter in (0.0, 0.3, 1.0, 2.5, 40.0):
        switched = v + np.where(rho <= parameter, rho, 0.0) * residual
        np.testing.assert_allclose(decisions.switched(parameter), switched, atol=1e-12)
        shrunk = v + [
            0.0 if w == 0 else parameter * w / (w * w + parameter) * d
            for w, d in zip(rho, residual, strict=True)
        ]
        np.testing.assert_allclose(decisions.shrunk(parameter), shrunk, atol=1e-12)
    np.testing.assert_array_equal(decisions.shrunk(np.inf), decisions.values("DR")[0])


def test_tuned_estimates_follow_slope():
    """With a model that is far off, shrinkage is rejected; with the true one, chosen."""
    data = draw(4000, 0, noise=0.1)
    far = Decisions(weighted(data, q=lambda contexts: model(contexts) + 5.0))
    near = Decisions(weighted(data, q=lambda contexts: MEANS[contexts[:, 0].astype(int)]))
    for name in ("DRos", "Switch-DR"):
        assert abs(far.estimate(name).value - TRUTH) < 4 * stats.sem(far.values("DR")[0])
        tuned = near.estimate(name)
        assert tuned.high - tuned.low <= near.estimate("DR").high - near.estimate("DR").low
        assert "by SLOPE++" in tuned.note


@pytest.mark.slow
def test_a_log_without_noise_gives_the_truth_exactly():
    result = sb.evaluate(enumerated(40), {"new": policy}, bandit=True)
    by_method = {estimate.method: estimate.value for estimate in result.estimates}
    for name in ("IPW", "SNIPW"):
        assert by_method[name] == pytest.approx(TRUTH, rel=1e-10)
    assert by_method["DR"] == pytest.approx(TRUTH, abs=1e-3)  # the model differs between folds
    for name in ("DM", "Marginal DR", "DRos", "Switch-DR"):  # fitted with a ridge
        assert by_method[name] == pytest.approx(TRUTH, abs=0.01)


@pytest.mark.statistical
def test_intervals_cover():
    """Of 400 logs, 95% ± 3 standard errors have an interval that covers the truth."""
    names = ("IPW", "SNIPW", "DR")
    hits = dict.fromkeys(names, 0)
    for seed in range(400):
        decisions = Decisions(weighted(draw(150, seed)))
        for name in names:
            estimate = decisions.estimate(name)
            hits[name] += estimate.low <= TRUTH <= estimate.high
    assert all(367 <= count <= 393 for count in hits.values()), hits


@pytest.mark.statistical
def test_verdicts_and_intervals_of_whole_evaluations():
    """From the log to the verdict: usable, and 95% intervals that cover about as often."""
    hits, error = 0, 0.0
    for seed in range(25):
        result = sb.evaluate(draw(300, seed), {"new": policy}, bandit=True)
        verdict = result.verdicts[0]
        low, high = verdict.interval_with_gap
        assert verdict.trust == "usable", verdict.reason
        hits += low <= TRUTH <= high
        error += verdict.value - TRUTH
    assert hits >= 21  # fewer have a chance of 1 in 300
    assert abs(error / 25) < 0.1


@pytest.fixture(scope="module")
def result():
    return sb.evaluate(draw(400, 0), {"new": policy}, bandit=True, threads=2)


@pytest.mark.slow
def test_one_terminated_row_per_episode_is_recognised(result):
    data = draw(400, 0)
    as_episodes = data | {
        "episode_id": np.arange(400), "terminated": np.ones(400, bool),
        "truncated": np.zeros(400, bool), "step": np.zeros(400, int),
    }  # fmt: skip
    other = sb.evaluate(as_episodes, {"new": policy}, gamma=0.9)
    assert other.is_bandit
    assert [e.value for e in other.estimates] == [e.value for e in result.estimates]
    cut = {"terminated": np.zeros(400, bool), "truncated": np.ones(400, bool)}
    assert not sb.Log(as_episodes | cut).holds_decisions


@pytest.mark.slow
def test_threads_files_and_row_groups_do_not_matter(result, tmp_path):
    table = pa.table(draw(400, 0))
    pq.write_table(table.slice(0, 137), tmp_path / "0.parquet", row_group_size=7)
    pq.write_table(table.slice(137), tmp_path / "1.parquet")
    other = sb.evaluate(str(tmp_path / "*.parquet"), {"new": policy}, bandit=True)
    assert json.dumps(other.as_dict()) == json.dumps(result.as_dict())


@pytest.mark.slow
@pytest.mark.parametrize("rows", [24_000, 500])
def test_the_direct_model_has_not_seen_the_decision_it_is_applied_to(rows, monkeypatch):
    """Rewards are noise: a model fitted to a decision would predict part of its reward."""
    seen = []

    class Recorded(Decisions):
        def __init__(self, weighted):
            super().__init__(weighted)
            seen.append(self)

    monkeypatch.setattr(evaluate_decisions, "Decisions", Recorded)
    monkeypatch.setattr(evaluate_decisions, "ESTIMATE_ROWS", rows)  # of 1,000: all, or half
    rng, n = np.random.default_rng(0), 1000
    data = {
        "obs_0": rng.normal(size=n), "action": rng.integers(0, 3, n),
        "reward": rng.normal(size=n), "behavior_prob": np.full(n, 1 / 3),
    }  # fmt: skip
    sb.evaluate(data, {"even": "uniform"}, bandit=True)
    q = data["reward"] - seen[0].residuals
    assert q.std() > 0.01
    assert np.corrcoef(q, data["reward"])[0, 1] < 0.06


@pytest.mark.slow
def test_without_propensities_the_weights_are_estimated():
    data = draw(400, 1)
    del data["behavior_prob"]
    result = sb.evaluate(data, {"new": policy}, bandit=True)
    assert [e.method for e in result.estimates] == ["Marginal DR", "DM"]
    assert abs(result.verdicts[0].value - TRUTH) < 0.5
    assert result.distributions == {}
    with pytest.raises(InvalidParameter, match="'ipw' needs propensities"):
        sb.evaluate(data, {"new": policy}, bandit=True, methods=["ipw"])


@pytest.mark.slow
def test_heavy_weights_are_not_used():
    rng = np.random.default_rng(0)
    n = 1000
    p = np.clip(rng.beta(0.5, 3.0, n), 1e-4, 1)  # of action 1, which the target always takes
    a = (rng.random(n) < p).astype(int)
    data = {
        "obs_0": p, "action": a, "reward": a + rng.normal(size=n),
        "behavior_prob": np.where(a == 1, p, 1 - p),
    }  # fmt: skip
    result = sb.evaluate(data, {"one": "always:1"}, bandit=True)
    assert result.estimates[0].method == "Marginal DR"
    assert result.verdicts[0].trust != "usable"


@pytest.mark.slow
def test_wrong_propensities_are_refused():
    data = draw(400, 0)
    data["behavior_prob"] = np.clip(1.6 * data["behavior_prob"], 0, 1)
    gates = {
        gate.code: gate
        for gate in sb.evaluate(data, {"new": policy}, bandit=True).verdicts[0].gates
    }
    assert gates["WEIGHTS"].level == "refused"
    assert gates["WEIGHTS"].sentence.startswith("importance weights average 0.6")


@pytest.mark.slow
def test_only_checks_of_decisions(result):
    codes = [gate.code for gate in result.verdicts[0].gates]
    assert codes[:2] == ["DECISIONS", "WEIGHTS"]
    assert not {"EPISODES", "CEILING", "STABILITY", "HORIZON", "ENDS", "HIDDEN"} & set(codes)
    plain = result.as_dict()
    assert plain["bandit"] is True
    assert plain["lambda_ceiling"] == {}
    sentences = [gate["sentence"] for gate in plain["verdicts"][0]["gates"]]
    notes = plain["verdicts"][0]["evidence"]["notes"].values()
    for text in (result.text, repr(result.log_summary), *sentences, *notes):
        assert "episode" not in text
    assert "400 decisions" in result.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 3}, "horizon does not apply to single decisions"),
        ({"gamma": "x"}, "evaluate: gamma must be a number in .* got 'x'"),
        ({"rule": "GTB:0.5"}, "rule does not apply"),
        ({"ridge": 0.1}, "ridge does not apply"),
        ({"methods": ["fqe"]}, "unknown method for single decisions 'fqe'"),
        ({"methods": "ipw"}, "must be a list"),
    ],
)
def test_options_of_episodes_are_refused(options, message):
    with pytest.raises((InvalidParameter, UnknownName), match=message):
        sb.evaluate(draw(20, 0), {"new": policy}, bandit=True, **options)


def test_bad_logs_of_decisions():
    data = draw(20, 0)
    with pytest.raises(InvalidParameter, match="the log has 8 decisions, too few"):
        sb.evaluate({name: column[:8] for name, column in data.items()}, policy, bandit=True)
    several = data | {"episode_id": np.arange(20) // 2}
    with pytest.raises(LogError, match=r"E135 .*several rows with the same 'episode_id'"):
        sb.evaluate(several, policy, bandit=True)
    with pytest.raises(
        LogError, match=r"If each row is a decision of its own, say so: bandit=True"
    ):
        sb.Log(data)
    with pytest.raises(LogError) as error:
        sb.Log({"obs_0": [0.0], "a": [1], "reward": [0.0]}, bandit=True)
    assert "The log has obs_0, a, reward." in str(error.value)
    steps = {
        "episode_id": [0, 0], "obs_0": [0.0, 1.0], "action": [0, 1], "reward": [0.0, 1.0],
        "terminated": [False, True], "truncated": [False, False], "behavior_prob": [0.5, 0.5],
    }  # fmt: skip
    with pytest.raises(InvalidParameter, match=r"'ipw' is for single decisions.*bandit=True"):
        sb.evaluate(steps, "uniform", gamma=0.9, methods=["ipw"])


def test_columns_of_episodes_are_not_read(tmp_path):
    data = draw(50, 0)
    more = data | {"terminated": np.zeros(50), "step": np.arange(50), "next_obs_0": np.zeros(50)}
    log = sb.Log(more, bandit=True)
    assert sum(len(segment.first_states) for segment in log.segments()) == 50
    assert not any(segment.continues.any() for segment in log.segments())
    reread = sb.Log(log.write(tmp_path / "log.parquet"), bandit=True)
    rewards = [segment.rewards for segment in reread.segments()]
    np.testing.assert_array_equal(np.concatenate(rewards), data["reward"])
