"""Importance sampling: by enumeration, against plain loops, and where it must not be believed."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import saddleback as sb
from logs import columns, mixed
from saddleback import errors
from saddleback.evaluation import bounds, doubly_robust, importance_sampling
from saddleback.evaluation.weighted import threshold
from saddleback.evaluation.weights import effective, pareto_k, pareto_shape, shares
from saddleback.log import Log, LogError, files
from weighting import (
    GAMMA,
    as_log,
    draws,
    episodes,
    means,
    ratios,
    sizes,
    small,
    some_q,
    target,
    trajectories,
)  # fmt: skip

CAR = sb.problems.mountain_car()


def weighed(log, policy=target, gamma=GAMMA, **options):
    """Return the trajectories of one target."""
    return next(iter(importance_sampling(log, {"π": policy}, gamma=gamma, **options).values()))


def helped(log, q=some_q, policy=target, gamma=GAMMA, **options):
    """Return the trajectories of one target, with the help of Q."""
    found = doubly_robust(log, {"π": policy}, gamma=gamma, q=q, **options)
    return next(iter(found.values()))


def table(q):
    return lambda observations: q[observations[:, 0].astype(int)]


# By enumeration.


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(4))
def test_is_and_pdis_are_unbiased(seed):
    mdp, pi, mu = small(seed)
    chance, every = zip(*trajectories(mdp, mu), strict=True)
    assert math.fsum(chance) == pytest.approx(1.0, abs=1e-14)
    assert {len(each) for each in every} == {1, 2, 3}
    found = weighed(as_log(every, mu), pi)
    truth = float(mdp.start @ mdp.v(pi))
    for name in ("IS", "PDIS"):
        assert np.array(chance) @ found.numbers(name) == pytest.approx(truth, rel=1e-12)
    assert np.var(found.numbers("IS")) != pytest.approx(np.var(found.numbers("PDIS")))
    assert np.array(chance) @ np.exp(found.log_weights) == pytest.approx(1.0, rel=1e-12)


def test_ratios_after_a_reward_do_not_matter_in_the_mean():
    """Lemma 1 of the paper's appendix A: E[ρ_{t:h−1} R_{t+k}] = E[ρ_{t:t+k−1} R_{t+k}] = E_π R."""
    mdp, pi, mu = small(5)
    logged = list(trajectories(mdp, mu))
    own = list(trajectories(mdp, pi))
    for k in range(3):
        whole = part = 0.0
        for chance, each in logged:
            if k < len(each):
                rho = [pi[s, a] / mu[s, a] for s, a, _ in each]
                whole += chance * math.prod(rho) * each[k][2]
                part += chance * math.prod(rho[: k + 1]) * each[k][2]
        truth = math.fsum(chance * each[k][2] for chance, each in own if k < len(each))
        assert whole == pytest.approx(truth, abs=1e-13)
        assert part == pytest.approx(truth, abs=1e-13)
        # The same of the library, with no other reward than R_k and no discount.
        only = [[(s, a, r * (t == k)) for t, (s, a, r) in enumerate(each)] for _, each in logged]
        found = weighed(as_log(only, mu), pi, gamma=1.0)
        for name in ("IS", "PDIS"):
            mean = np.array([chance for chance, _ in logged]) @ found.numbers(name)
            assert mean == pytest.approx(truth, abs=1e-13)


@pytest.mark.parametrize("q", ["none", "wrong", "true"])
def test_doubly_robust_estimates_are_unbiased_with_any_q(q):
    mdp, pi, mu = small(1)
    chance, every = zip(*trajectories(mdp, mu), strict=True)
    rng = np.random.default_rng(0)
    values = {"none": 0.0, "wrong": rng.normal(size=(7, 2)), "true": mdp.q(pi)}[q]
    found = helped(as_log(every, mu), table(np.zeros((7, 2)) + values), pi)
    truth = float(mdp.start @ mdp.v(pi))
    assert np.array(chance) @ found.totals == pytest.approx(truth, rel=1e-12)
    if q == "none":
        plain = weighed(as_log(every, mu), pi)
        np.testing.assert_array_equal(found.totals, plain.totals)
        assert found.normalised == plain.normalised


@pytest.mark.kernel
@pytest.mark.parametrize("q", [None, "wrong"])
def test_normalised_estimates_of_the_exact_distribution_are_exact(q):
    """Every trajectory as often as it happens: all the data there can be."""
    mdp, pi, mu = small(2, steps=2)
    every = [(chance, each) for chance, each in trajectories(mdp, mu)]
    copies = [round(chance * 4**5) for chance, _ in every]
    assert sum(copies) == 4**5
    whole = [each for count, (_, each) in zip(copies, every, strict=True) for _ in range(count)]
    truth = float(mdp.start @ mdp.v(pi))
    values = None if q is None else table(np.random.default_rng(1).normal(size=(5, 2)))
    log = as_log(whole, mu)
    found = weighed(log, pi) if q is None else helped(log, values, pi)
    for name in found.names:
        assert found.value(name) == pytest.approx(truth, rel=1e-12)


def test_normalised_estimates_come_near_the_truth_as_episodes_grow_many():
    mdp, pi, mu = small(2)
    chance, every = zip(*trajectories(mdp, mu), strict=True)
    truth = float(mdp.start @ mdp.v(pi))
    rng = np.random.default_rng(3)
    off = []
    for n in (100, 10_000):
        picked = rng.choice(len(every), p=chance, size=(10, n))
        runs = [weighed(as_log([every[i] for i in each], mu), pi) for each in picked]
        off.append([np.mean([abs(r.value(x) - truth) for r in runs]) for x in ("WIS", "PDWIS")])
    assert (np.array(off[1]) < 0.3 * np.array(off[0])).all()


def test_bandits():
    """With one step and no discount, IS and WIS are inverse propensity weighting."""
    rng = np.random.default_rng(0)
    data = columns(np.ones(200, dtype=int), "terminated", seed=1)
    found = weighed(Log(data), gamma=0.0)
    x = np.column_stack([data["obs_0"], data["obs_1"]])
    w = target(x)[np.arange(200), data["action"]] / data["behavior_prob"]
    ipw = (w * data["reward"]).mean()
    snipw = (w * data["reward"]).sum() / w.sum()
    assert found.value("IS") == pytest.approx(ipw, rel=1e-13)
    assert found.value("PDIS") == pytest.approx(ipw, rel=1e-13)
    assert found.value("WIS") == pytest.approx(snipw, rel=1e-13)
    assert found.value("PDWIS") == pytest.approx(snipw, rel=1e-13)
    error = np.sqrt((w**2 * (data["reward"] - snipw) ** 2).sum()) / w.sum()
    one = found.estimate("WIS")
    half = stats.t.ppf(0.975, 199) * error * np.sqrt(200 / 199)
    assert [one.low, one.high] == pytest.approx([snipw - half, snipw + half], rel=1e-12)
    truncated = Log(columns(np.ones(9, dtype=int), rng.permutation(["truncated"] * 9), seed=1))
    assert weighed(truncated, gamma=0.0).estimand == "V^π"
    assert not weighed(truncated, gamma=0.1).comparable


@pytest.mark.kernel
def test_with_the_true_q_nothing_varies_where_nothing_is_random():
    rng = np.random.default_rng(0)
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = P[0, 1, 2] = P[1, 0, 2] = P[1, 1, 3] = P[2, :, 3] = P[3, :, 3] = 1.0
    mdp = sb.FiniteMDP(P, rng.normal(size=(4, 2)), 0.9, start=[1.0, 0, 0, 0], terminal=[3])
    pi, mu = np.tile([0.3, 0.7], (4, 1)), np.tile([0.6, 0.4], (4, 1))
    picked = [each for _, each in trajectories(mdp, mu)] * 5
    found = helped(as_log(picked, mu), table(mdp.q(pi)), pi)
    truth = float(mdp.start @ mdp.v(pi))
    np.testing.assert_allclose(found.totals, truth, rtol=1e-13)
    for each in found.estimates():
        assert [each.value, each.low, each.high] == pytest.approx([truth] * 3, rel=1e-12)
    assert np.ptp(weighed(as_log(picked, mu), pi).totals) > 0.1


# Against plain loops, and whatever pieces the log comes in.


def agrees(found, expected, gamma=GAMMA):
    IS, PDIS = means(expected, gamma)
    WIS, PDWIS = ratios(expected, gamma)
    names = found.names
    mean, ratio = names[len(names) // 2 - 1], names[-1]
    np.testing.assert_allclose(found.numbers(mean), PDIS, rtol=1e-10, atol=1e-12)
    assert found.value(mean) == pytest.approx(np.mean(PDIS), rel=1e-11)
    assert found.value(ratio) == pytest.approx(PDWIS, rel=1e-11)
    slopes = draws(expected, gamma)
    np.testing.assert_allclose(found.scores, slopes[1], rtol=1e-6, atol=1e-6)
    assert found.scores.mean() == pytest.approx(0.0, abs=1e-12)
    if not found.robust:
        np.testing.assert_allclose(found.numbers("IS"), IS, rtol=1e-10, atol=1e-13)
        assert found.value("WIS") == pytest.approx(WIS, rel=1e-11)
        assert found.numbers("WIS").mean() == pytest.approx(WIS, rel=1e-11)
        np.testing.assert_allclose(found.numbers("WIS") - WIS, slopes[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.ess_by_step, sizes(expected), rtol=1e-11)
    assert found.ess == pytest.approx(found.ess_by_step[-1], rel=1e-12)
    for name in names:
        low, high = bounds.student(found.numbers(name), 0.9)
        one = found.estimate(name, 0.9)
        assert (one.low, one.high) == (low, high)
        assert one.low <= one.value <= one.high
        assert one.n == len(expected)


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(3))
def test_against_plain_loops(seed):
    data = mixed(seed=seed)
    agrees(weighed(Log(data)), episodes(data))
    agrees(weighed(Log(data), gamma=1.0), episodes(data, gamma=1.0), gamma=1.0)


@pytest.mark.kernel
@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("task", [False, True])
def test_doubly_robust_against_plain_loops(beyond, task):
    data = mixed(seed=4)
    log = Log(data, time_limit="task" if task else "artifact")
    found = helped(log, beyond=beyond)
    agrees(found, episodes(data, q=some_q, beyond=beyond, task=task))
    count = sum(not each for each in (data["terminated"] | (data["truncated"] & task))[ends(data)])
    assert found.truncated == count
    cut = f"{count} of 18 episodes were truncated"
    words = f"V^π, by Q beyond the end ({cut})" if beyond else f"H-step value ({cut})"
    assert found.estimand == words
    assert [each.comparable for each in found.estimates()] == [beyond, beyond]


def ends(data):
    return np.append(np.flatnonzero(np.diff(data["episode_id"])), len(data["episode_id"]) - 1)


def same(one, other):
    """Assert that two results are equal to the bit."""
    for name in one.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.kernel
@pytest.mark.parametrize("beyond", [False, True])
def test_results_do_not_depend_on_how_the_log_is_cut(beyond, tmp_path, monkeypatch):
    data = mixed(seed=7)
    log = Log(data)
    fit = {"features": sb.features.Fourier((-3, -3), (3, 3), order=1), "folds": 3, "q": None}
    plain, given, fitted = (
        weighed(log),
        helped(log, beyond=beyond),
        helped(log, beyond=beyond, **fit),
    )
    assert (plain.scores != 0).all()
    whole = pa.table(data)
    for k in range(3):
        pq.write_table(whole.slice(40 * k, 40 if k < 2 else None), tmp_path / f"{k}.parquet")
    for batch, segment in ((1 << 17, 3), (5, 1 << 16), (7, 4), (1, 1)):
        monkeypatch.setattr(files, "BATCH", batch)
        for source in (data, str(tmp_path / "*.parquet")):
            cut = Log(source, segment=segment)
            same(weighed(cut), plain)
            same(helped(cut, beyond=beyond), given)
            again = helped(cut, beyond=beyond, **fit)
            np.testing.assert_allclose(again.totals, fitted.totals, rtol=1e-8)
            np.testing.assert_allclose(again.scores, fitted.scores, rtol=1e-7, atol=1e-8)


def test_several_targets_at_once_are_as_one_by_one():
    log = Log(mixed(seed=8))
    given = {"π": target, "even": "uniform", "μ": "logged"}
    both = importance_sampling(log, given, gamma=GAMMA)
    for name, policy in given.items():
        one = importance_sampling(log, {name: policy}, gamma=GAMMA)[name]
        same(one, both[name])
    features = sb.features.Fourier((-3, -3), (3, 3), order=1)
    more = doubly_robust(log, given, features=features, gamma=GAMMA, shared=True)
    assert list(more) == list(given)
    one = doubly_robust(log, {"even": "uniform"}, features=features, gamma=GAMMA, shared=True)
    np.testing.assert_allclose(more["even"].totals, one["even"].totals, rtol=1e-12)
    assert one["even"].ids.tolist() == more["π"].ids.tolist()


@pytest.mark.parametrize("shared", [False, True])
def test_q_of_an_episode_is_fitted_to_the_other_folds(shared):
    data = mixed(seed=9)
    features = sb.features.Fourier((-3, -3), (3, 3), order=2)
    options = {"features": features, "gamma": GAMMA, "shared": shared, "rule": sb.GES(0.0)}
    found = doubly_robust(Log(data), {"π": target}, ridge=1e-6, folds=3, **options)["π"]
    numbers = np.unique(data["episode_id"])
    for fold in range(3):
        mine = found.ids % np.uint64(3) == fold
        rest = np.isin(data["episode_id"], numbers[~mine])
        other = Log({name: column[rest] for name, column in data.items()})
        fitted = sb.LSTD(target=target, **options, ridge=1e-6).fit(other)
        expected = means(episodes(data, q=fitted.predict))[1]
        # The ridge is in units of the whole log's M, so agreement is to the order of the ridge.
        np.testing.assert_allclose(found.totals[mine], np.array(expected)[mine], rtol=2e-3)


@pytest.mark.kernel
def test_the_logged_policy_itself():
    data = mixed(seed=10)
    found = weighed(Log(data), "logged")
    np.testing.assert_array_equal(found.log_weights, 0.0)
    gains = [each["gain"] for each in episodes(data)]
    for each in found.estimates():
        assert each.value == pytest.approx(np.mean(gains), rel=1e-13)
        assert each.ess == pytest.approx(18)
        assert each.max_share == pytest.approx(1 / 18)
        np.testing.assert_allclose(each.ess_by_step, 18)
    many = Log(columns(np.full(100, 2), "terminated"))
    one = weighed(many, "logged").estimate("PDIS")
    assert (one.k_hat, one.note, one.comparable) == (-np.inf, "ok", True)
    assert one.as_dict()["k_hat"] is None
    assert one.as_dict()["ess_by_step"] == pytest.approx([100, 100])


# Weights.


def test_pareto_shapes_of_known_samples():
    for k in (-0.4, 0.1, 0.5, 0.9, 1.5):
        x = np.sort(stats.genpareto.rvs(k, scale=2.0, size=(30, 2000), random_state=0), axis=1)
        found = [pareto_shape(each) for each in x]
        assert np.mean(found) == pytest.approx(k, abs=4 * np.std(found) / np.sqrt(30) + 0.01)
        raw = [pareto_k(np.log(each)) for each in x]
        tail = 3 * np.sqrt(2000)
        drawn = (tail * k + 5) / (tail + 10)
        assert np.mean(raw) == pytest.approx(drawn, abs=4 * np.std(raw) / np.sqrt(30) + 0.05)


def test_weights_of_any_size():
    logs = np.random.default_rng(0).normal(size=300)
    for shift in (-1e5, 1e5):
        np.testing.assert_allclose(shares(logs + shift), shares(logs), rtol=1e-9)
        assert effective(logs + shift) == pytest.approx(effective(logs), rel=1e-9)
        assert pareto_k(logs + shift) == pytest.approx(pareto_k(logs), rel=1e-6)
    assert effective(np.full(3, -np.inf)) == 0.0
    assert np.isnan(pareto_k(logs[:20]))
    assert np.isnan(pareto_k(np.full(99, -np.inf)))
    assert np.isnan(pareto_k(np.append(np.zeros(100), [1.0, 2.0])))
    assert threshold(5) == 0.0


@pytest.mark.kernel
@pytest.mark.parametrize("prob", [1e-6, 1.0])
def test_weights_that_no_number_can_hold(prob):
    """Weights of e^±1000 and more: ratios are as with weights of a common size taken out."""
    data = columns([200, 150, 200, 180], "terminated", seed=3, mu=False)
    data["behavior_prob"] = np.full(730, prob) * (1 + (np.arange(730) % 7 == 0) * 1e-3)
    pi = (
        (lambda x: np.tile([1 / 3] * 3, (len(x), 1)))
        if prob < 1
        else (lambda x: np.tile([1e-5, 1e-5, 1 - 2e-5], (len(x), 1)))
    )
    data["behavior_prob"] = np.minimum(data["behavior_prob"], 1.0)
    data["action"] = data["action"] % 2
    log = Log(data, actions=["a", "b", "c"])
    found = weighed(log, pi, allow_uncovered=True)
    assert np.abs(found.log_weights).min() > 900
    if prob == 1.0:
        assert found.value("IS") == 0.0
        assert np.isfinite(found.value("PDIS"))
    else:
        one = found.estimate("IS")
        assert not np.isfinite(one.value)
        assert "overflow" in one.note
    assert np.isfinite(found.value("WIS"))
    assert np.isfinite(found.value("PDWIS"))
    assert np.isfinite(found.scores).all()
    rho = (1 / 3 if prob < 1 else 1e-5) / data["behavior_prob"]
    logs = [each.sum() for each in np.split(np.log(rho), np.cumsum([200, 150, 200]))]
    np.testing.assert_allclose(found.log_weights, logs, rtol=1e-12)


def test_no_episode_could_have_come_from_the_target():
    data = columns([3] * 30, "terminated", actions=2, seed=1)
    data["action"][1::3] = 0
    found = weighed(Log(data), "always:1")
    assert found.value("IS") == 0.0
    for name in ("WIS", "PDWIS"):
        one = found.estimate(name)
        assert np.isnan([one.value, one.low, one.high]).all()
        assert one.note.startswith("undefined: no logged episode could have come from the target")
        assert one.as_dict()["value"] is None
    assert found.ess == 0.0


# Where it must not be believed.


def test_mountain_car_is_beyond_importance_sampling():
    log = sb.collect(CAR, episodes=500, rng=0)
    found = importance_sampling(log, "pump:0.8", gamma=0.99)["pump:0.8"]
    one = found.estimate("PDIS")
    assert one.high < -79.83 / 2 or one.low > -79.83 / 2
    assert one.high - one.low < 40
    assert one.estimand == "V^π"
    for each in found.estimates():
        assert each.ess < 10
        assert each.k_hat > 0.7
        assert each.max_share > 0.2
        assert "neither value nor interval can be trusted" in each.note
        assert each.ess_by_step[0] > 100
        assert each.ess_by_step[100] < 10
    assert "ESS 2.3 of 500" in repr(one)
    assert "ESS 2.3" in repr(found)


def test_doubly_robust_on_mountain_car_is_near():
    log = sb.collect(CAR, episodes=2000, rng=0)
    found = doubly_robust(log, "pump:0.8", features=CAR.features, gamma=0.99)["pump:0.8"]
    assert found.value("DR") == pytest.approx(-79.83, abs=6)
    assert found.names == ("DR", "WDR")


# Intervals.


def test_intervals_of_mild_ratios_cover_as_often_as_they_say():
    mdp, pi, mu = small(2)
    pi = 0.5 * pi + 0.5 * mu
    chance, every = zip(*trajectories(mdp, mu), strict=True)
    truth = float(mdp.start @ mdp.v(pi))
    rng = np.random.default_rng(0)
    runs, n = 400, 150
    inside = dict.fromkeys(("IS", "PDIS", "WIS", "PDWIS", "DR", "WDR"), 0)
    q = table(rng.normal(size=(7, 2)))
    for picked in rng.choice(len(every), p=chance, size=(runs, n)):
        log = as_log([every[i] for i in picked], mu)
        for each in (*weighed(log, pi).estimates(), *helped(log, q, pi).estimates()):
            inside[each.name] += each.low <= truth <= each.high
    low, high = stats.binom.ppf([0.0005, 0.9995], runs, 0.945)
    for name, count in inside.items():
        assert low <= count <= high, (name, count / runs)


def test_bernstein_holds_and_is_wider():
    mdp, pi, mu = small(2)
    chance, every = zip(*trajectories(mdp, mu), strict=True)
    truth = float(mdp.start @ mdp.v(pi))
    most = float((pi / mu).max()) ** 3
    span = (float(mdp.rewards.min()), float(mdp.rewards.max()))
    rng = np.random.default_rng(0)
    widths = []
    for n in (200, 20_000):
        found = weighed(
            as_log([every[i] for i in rng.choice(len(every), p=chance, size=n)], mu), pi
        )
        for name in ("IS", "PDIS"):
            one = found.bernstein(name, rewards=span, most_weight=most, horizon=3)
            plain = found.estimate(name)
            assert one.low < plain.low < plain.high < one.high
            assert one.low < truth < one.high
            widths.append(one.high - one.low)
            assert one.interval == "95% empirical Bernstein"
            less = found.bernstein(name, rewards=span, horizon=3, level=0.9)
            assert less.low < truth
            assert less.high == np.inf
            assert less.interval.startswith("90% lower bound, empirical Bernstein, truncated at ")
            assert found.bernstein(name, rewards=span, horizon=3, truncate=9.0).low < truth
    assert widths[2] < 0.2 * widths[0]
    assert less.low > truth - 1.0  # n is large, so the bound is worth something


def test_what_is_truncated_is_what_the_equations_say():
    """Numbers ≥ 0 with mean V − least·Σγ^t, enumerated: shifting rewards moves V as it should."""
    mdp, pi, mu = small(3)
    chance, every = zip(*trajectories(mdp, mu), strict=True)
    found = weighed(as_log(every, mu), pi)
    truth = float(mdp.start @ mdp.v(pi))
    for horizon in (3, 7, None):
        total = 1 / (1 - GAMMA) if horizon is None else (1 - GAMMA**horizon) / (1 - GAMMA)
        for name in ("IS", "PDIS"):
            shifted = found.at_least(name, -4.0, total)
            assert (shifted >= 0).all()
            assert np.array(chance) @ shifted == pytest.approx(truth + 4.0 * total, rel=1e-12)


def test_bounds_by_hand():
    x = np.array([0.0, 0.5, 1.0, 0.25])
    log = math.log(2 / 0.05)
    half = math.sqrt(2 * x.var(ddof=1) * log / 4) + 7 * 10 * log / (3 * 3)
    assert bounds.bernstein(x, -5.0, 5.0, 0.9) == (-5.0, 5.0)
    assert bounds.bernstein(x, -500.0, -490.0, 0.9)[0] == pytest.approx(x.mean() - half)
    cut = np.minimum(np.tile(x, 200), 0.5)
    less = math.sqrt(2 * cut.var(ddof=1) * log / 800) + 7 * 0.5 * log / (3 * 799)
    bound, at = bounds.truncated(np.tile(x, 200), 0.95, 0.5)
    assert (bound, at) == (pytest.approx(cut.mean() - less), 0.5)
    assert bounds.truncated(np.zeros(100), 0.95) == (0.0, 1.0)


# What is refused.

REWARDS = (-9.0, 9.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"Bernstein needs bounds of the rewards, which no log can tell \(this one shows "),
        (
            {"rewards": (1.0, 0.0)},
            r"rewards must be two numbers, the least and the greatest, got \(",
        ),
        (
            {"rewards": (0.0, 1.0)},
            r"rewards=\(0.0, 1.0\) is declared, but the log holds rewards fr",
        ),
        ({"rewards": REWARDS, "horizon": 2}, "horizon=2 is declared, but the log has an episode o"),
        (
            {"rewards": REWARDS, "most_weight": 1e-3},
            "most_weight=0.001 is declared, but the log has",
        ),
        ({"rewards": REWARDS, "most_weight": -1.0}, "most_weight must be a finite number > 0, got"),
        (
            {"rewards": REWARDS},
            r"18 episodes are too few to choose where to truncate \(at least 21",
        ),
        ({"rewards": REWARDS, "truncate": 0.0}, "truncate must be a finite number > 0, got 0.0"),
        ({"rewards": REWARDS, "level": 1.0}, "level must lie between 0 and 1, got 1.0"),
        (
            {"name": "WIS"},
            r"Bernstein is for means of independent episodes .* got 'WIS'. Use estim",
        ),
    ],
)
def test_bernstein_refuses(options, words):
    found = weighed(Log(mixed(seed=1)))
    with pytest.raises(errors.InvalidParameter, match=words):
        found.bernstein(**options)


def test_bernstein_of_what_the_log_declares(tmp_path):
    path = Log(mixed(seed=1)).write(tmp_path / "log.parquet", reward_bounds=[-9, 9])
    found = weighed(Log(path))
    assert found.bernstein("PDIS", truncate=100.0).low < found.value("PDIS")
    with pytest.raises(
        errors.InvalidParameter, match="these trajectories have a Q: PDIS is without"
    ):
        helped(Log(path)).bernstein("PDIS")
    with pytest.raises(
        errors.InvalidParameter, match="without a discount returns are bounded only"
    ):
        weighed(Log(path), gamma=1.0).bernstein("PDIS")
    assert weighed(Log(path), gamma=1.0).bernstein("IS", horizon=30, truncate=9.0).n == 18


def test_what_estimates_refuse():
    data = mixed(seed=1)
    log = Log(data)
    found = weighed(log)
    with pytest.raises(errors.UnknownName, match="estimator 'DR'"):
        found.estimate("DR")
    with pytest.raises(errors.InvalidParameter, match="level must lie between 0 and 1"):
        found.estimates(level=0.0)
    with pytest.raises(errors.InvalidParameter, match="at least two episodes, the log has 1"):
        weighed(Log(columns([5], "terminated")))
    bare = {name: each for name, each in data.items() if "mu" not in name and "prob" not in name}
    with pytest.raises(errors.InvalidParameter, match="needs the probabilities of the logged act"):
        weighed(Log(bare, actions=["a", "b", "c"]))
    with pytest.raises(errors.InvalidParameter, match=r"gamma must be a number in \[0, 1\], got 2"):
        weighed(log, gamma=2)
    with pytest.raises(errors.InvalidParameter, match="log must be a Log, got dict"):
        importance_sampling(data, "uniform", gamma=0.9)
    with pytest.raises(
        errors.InvalidParameter, match="either features, to fit Q with, or q itself"
    ):
        doubly_robust(log, "uniform", gamma=0.9)
    features = sb.features.Fourier((-3, -3), (3, 3), order=1)
    for options, words in (
        ({"rule": sb.TD(0.0)}, r"TD\(0\.?0?\) learns state values, and doubly robust"),
        ({"folds": 1}, "folds must be at least 2, or Q is fitted to the very episodes"),
        ({"ridge": -1.0}, "ridge must be a finite number >= 0"),
    ):
        with pytest.raises(errors.SaddlebackError, match=words):
            doubly_robust(log, "uniform", gamma=0.9, features=features, **options)
    for q, words in (
        (3, r"q must be a function from observations \[n, d\] to values \[n, K\], got int"),
        ({"other": some_q}, "q has no entry for target 'uniform': other"),
        (lambda x: x[:, :1], r"must return one value for each row and action, \(\d+, 3\); got"),
        (lambda x: some_q(x) * np.nan, r"q of 'uniform'\[0, 0\] is nan"),
    ):
        with pytest.raises(errors.SaddlebackError, match=words):
            doubly_robust(log, "uniform", gamma=0.9, q=q)


def test_actions_that_were_never_logged():
    data = columns([4] * 30, "terminated", seed=2, mu=False)
    data["action"] = data["action"] % 2
    log = Log(data, actions=["a", "b", "c"])
    with pytest.raises(LogError, match=r"E110 pi \(uniform\) puts mass on actions mu never takes"):
        importance_sampling(log, "uniform", gamma=0.9)
    found = importance_sampling(log, "uniform", gamma=0.9, allow_uncovered=True)["uniform"]
    assert "puts mass on actions mu never takes: 33.3%" in found.estimate("IS").note


def test_estimated_propensities_are_said():
    log = sb.estimate_behaviour(Log(columns([4] * 60, "terminated", seed=2))).log
    found = importance_sampling(log, "uniform", gamma=0.9)["uniform"]
    assert "propensities estimated: counts in a grid" in found.estimate("IS").note


def test_columns_of_the_log_need_not_know_what_truncated_rows_led_to():
    data = mixed(seed=3)
    pi = target(np.column_stack([data["obs_0"], data["obs_1"]]))
    more = {f"pi_{a}": pi[:, a] for a in range(3)}
    same(weighed(Log(data | more), "columns"), weighed(Log(data)))


def test_progress_is_told_of_both_passes():
    seen = []
    weighed(Log(mixed(seed=3)), progress=lambda done, of: seen.append(done / of))
    assert seen == [0.5, 1.0]
