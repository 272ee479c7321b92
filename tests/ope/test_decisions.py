"""Estimates for single decisions against formulas written out, and logs whose answer is exact."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import saddleback as sb
from saddleback.errors import InvalidParameter, UnknownName
from saddleback.log import LogError
from saddleback.ope import Decisions
from saddleback.ope import decisions as decisions_module
from saddleback.ope.estimate import estimate_note, format_distinct

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
    # A weight of exactly τ is kept.
    all_kept = decisions.switched(decisions.weights.max())
    np.testing.assert_allclose(all_kept, v + rho * residual, atol=1e-12)


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


def fixed(rho, returns=1.0, **changes):
    """Return decisions with these weights, and totals of no residual."""
    rho = np.array(rho, dtype=float)
    n = len(rho)
    with np.errstate(divide="ignore"):
        logs = np.log(rho)
    numbers = {
        "log_weights": logs, "returns": np.full(n, returns), "starts": np.arange(n) / n,
        "totals": np.arange(n) / n + rho * np.linspace(-1.0, 1.0, n), "n": n, "k_hat": 0.25,
        "ess": 40.0, "estimated": None, "target": "new",
    }  # fmt: skip
    return Decisions(SimpleNamespace(**numbers | changes))


def test_tuning_parameters_are_around_the_logged_weights(monkeypatch):
    """30 values between the 5% and 95% quantiles, their squares in hundreds, and both ends."""
    rho = np.concatenate([[0.0], np.linspace(0.5, 4.0, 40)])
    low, high = np.quantile(rho[1:], [0.05, 0.95])
    one, tried = fixed(rho), {}
    monkeypatch.setattr(decisions_module, "slope", lambda means, widths: 3)
    for name, ends in (("switched", (low, high)), ("shrunk", (low**2 / 100, 100 * high**2))):
        method = getattr(Decisions, name)

        def spied(self, parameter, name=name, method=method):
            tried.setdefault(name, []).append(parameter)
            return method(self, parameter)

        monkeypatch.setattr(Decisions, name, spied)
        symbol = {"switched": "τ", "shrunk": "λ"}[name]
        values, note = one.values({"switched": "Switch-DR", "shrunk": "DRos"}[name])
        expected = [np.inf, *np.geomspace(*ends, 30)[::-1], 0.0]
        assert tried[name] == pytest.approx(expected)
        assert note.startswith(f"{symbol} = {expected[3]:.3g} by SLOPE++; the interval leaves out")
        np.testing.assert_allclose(values, method(one, expected[3]))
    none = fixed(np.zeros(5))
    tried.clear()
    none.values("Switch-DR")
    assert tried["switched"] == pytest.approx([np.inf, *[1.0] * 30, 0.0])


def test_slope_compares_means_with_half_widths(monkeypatch):
    one, calls = fixed(np.linspace(0.5, 4.0, 40)), []
    monkeypatch.setattr(
        decisions_module, "slope", lambda means, widths: calls.append((means, widths)) or 0
    )
    values, note = one.values("Switch-DR")
    assert note == "τ = ∞ by SLOPE++"
    means, widths = calls[0]
    assert means[0] == pytest.approx(one.weighted.totals.mean())
    mean, _, high = interval(one.weighted.totals)
    assert widths[0] == pytest.approx(high - mean)
    assert means[-1] == pytest.approx(one.weighted.starts.mean())
    np.testing.assert_allclose(values, one.weighted.totals)


def test_notes_of_decisions_tell_of_weights_and_of_shrinkage():
    rho = np.linspace(0.5, 4.0, 40)
    plain = fixed(rho).estimate("DR")
    assert (plain.note, plain.estimand, plain.comparable) == ("ok", "V^π", True)
    assert plain.max_share == pytest.approx(4.0 / rho.sum())
    assert (plain.ess, plain.k_hat) == (40.0, 0.25)
    assert fixed(rho, k_hat=-np.inf).estimate("DR").k_hat == -1.0
    few = fixed(rho, ess=3.0).estimate("DR")
    assert few.note.startswith("small effective sample size (3.0 < 20)")
    model = fixed(rho, ess=3.0).estimate("DM")
    assert (model.note, model.comparable) == (
        "the interval leaves out the error of the model", False,
    )  # fmt: skip
    assert (model.estimand, model.ess) == ("mean of the model", None)


def test_the_mean_weight_has_its_standard_error():
    rho = np.array([0.5, 1.0, 3.0, 0.0])
    assert fixed(rho).mean_weight == pytest.approx((rho.mean(), stats.sem(rho)))
    assert fixed(rho).residuals == pytest.approx([-1.0, -1 / 3, 1 / 3, 0.0])


@pytest.mark.parametrize(
    ("value", "k_hat", "ess", "note"),
    [
        (1.0, 0.5, 20.0, "ok"),
        (1.0, 0.5, 19.9, "small effective sample size (19.9 < 20)"),
        (np.nan, 0.5, 99.0, "undefined"),
        (np.inf, 0.5, 99.0, "overflows"),
        (1.0, np.nan, 3.0, "too few episodes"),
        (1.0, 0.71, 99.0, "importance weights are heavy-tailed (k̂ 0.71 > 0.70)"),
        (1.0, 0.701, 99.0, "importance weights are heavy-tailed (k̂ 0.701 > 0.700)"),
        (1.0, 0.7, 99.0, "ok"),
    ],
)
def test_notes_of_estimates(value, k_hat, ess, note):
    """With very many episodes k̂ may be up to 0.7."""
    assert estimate_note(value, k_hat, ess, 10**9, None).startswith(note)
    with_propensities = estimate_note(value, k_hat, ess, 10**9, "by a tree")
    assert with_propensities.endswith("propensities estimated: by a tree")
    assert ("ok" in with_propensities) is False


def test_close_numbers_have_as_many_decimals_as_they_need():
    assert format_distinct(0.5, 0.25) == ("0.50", "0.25")
    assert format_distinct(0.50001, 0.5) == ("0.50001", "0.50000")
    assert format_distinct(0.5, 0.5) == ("0.50", "0.50")
    assert format_distinct(0.5 + 4e-11, 0.5 - 4e-11) == ("0.50000000004", "0.49999999996")
    assert format_distinct(0.5 + 1e-12, 0.5) == ("0.50", "0.50")
