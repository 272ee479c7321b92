"""Intervals of the closed form: the right width and estimand, whichever way they are made."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import saddleback as sb
from helpers.decision_logs import random_decisions
from helpers.intervals import interval_from_blocks, sandwich, score_episodes
from saddleback.features import Custom, OneHot
from saddleback.ope.sandwich import block_scores, concentration, student_interval
from saddleback.ope.scoring_pass import solve_adjoint
from saddleback.ope.spectrum import spectrum

CAR = sb.problems.mountain_car()


def random_problem(seed):
    """A random episodic MDP with too few features for each action, and where its fixed point is."""
    base = sb.problems.random_mdp(0.9, rng=seed, off_policy=0.5, termination=0.1)
    X = np.random.default_rng(seed).normal(size=(6, 4))
    phi = np.einsum("sf,ac->safc", X, np.eye(3)).reshape(6, 3, 12)
    problem = sb.Problem(base.mdp, phi, base.target, base.behaviour)
    return problem, Custom(lambda obs: X[obs[:, 0].astype(int)], 4)


def fixed_point_value(problem, rule):
    theta = sb.System.exact(problem, rule).fixed_point
    values = np.einsum("sa,sap,p->s", problem.target, problem.features, theta)
    return float(problem.mdp.start @ values)


@pytest.mark.statistical
def test_the_sandwich_interval_has_nominal_coverage():
    """For three rules, on the same 300 logs."""
    problem, features = random_problem(1)
    rules = [sb.GES(0.0), sb.GRetrace(0.5), sb.GTB(0.9)]
    intervals = {rule: [] for rule in rules}
    for seed in range(300):
        log = sb.collect(problem, episodes=150, rng=seed)
        sums = sb.Statistics.of(log, rules, problem.target, features=features, gamma=0.9)
        for rule in rules:
            (one,) = sandwich(log, sums, problem.target, features=features, rule=rule)
            intervals[rule].append((one, interval_from_blocks(sums, rule)))
    spread = 3 * np.sqrt(0.95 * 0.05 / 300)
    for rule, pairs in intervals.items():
        truth = fixed_point_value(problem, rule)
        for of_kind in zip(*pairs, strict=True):
            hits = [one.low <= truth <= one.high for one in of_kind]
            assert abs(np.mean(hits) - 0.95) < spread, rule
        ones = [one for one, _ in pairs]
        assert ones[-1].estimand == "TD fixed point of these features"
        spread_of_values = np.std([one.value for one in ones])
        assert np.mean([one.error for one in ones]) == pytest.approx(spread_of_values, rel=0.15)


@pytest.mark.kernel
def test_the_score_of_an_episode_comes_from_its_own_sums():
    """One episode's A_i, b_i, x_i against θ̂ and u, by statistics of that episode alone."""
    problem, features = random_problem(0)
    log = sb.collect(problem, episodes=40, rng=0)
    rule, options = sb.GES(0.4), {"features": features, "gamma": 0.9, "blocks": 1}
    sums = sb.Statistics.of(log, rule, problem.target, **options)
    theta, start, u = solve_adjoint(sums, rule, 0, 0.0)
    value = float(theta @ start)
    ids = log.data["episode_id"].to_numpy()
    scores = []
    for episode in range(40):
        single = sb.Statistics.of(
            sb.Log(log.data.filter(ids == episode), actions=["0", "1", "2"]),
            rule,
            problem.target,
            allow_uncovered=True,
            **options,
        )
        residual = single.A[0, 0, 0] @ theta + single.b[0, 0, 0]
        scores.append(single.starts[0, 0] @ theta - value - u @ residual)
    scores = np.array(scores)
    (interval,) = sandwich(log, sums, problem.target, features=features)
    assert interval.value == pytest.approx(value, rel=1e-12)
    assert interval.error == pytest.approx(np.sqrt(np.sum(scores**2) / (40 * 39)), rel=1e-8)
    assert abs(scores.sum()) < 1e-8 * np.abs(scores).sum()


def test_bootstrap_and_sandwich_agree():
    problem, features = random_problem(0)
    log = sb.collect(problem, episodes=2000, rng=0)
    sums = sb.Statistics.of(
        log, sb.GES(0.3), problem.target, features=features, gamma=0.9, blocks=200
    )
    (one,) = sandwich(log, sums, problem.target, features=features)
    two = bootstrap(sums, 400)
    assert len(two.drawn) == 400
    assert two.drawn.std(ddof=1) == pytest.approx(one.error, rel=0.2)
    assert two.bootstrap() == pytest.approx((one.low, one.high), abs=0.5 * one.error)
    assert interval_from_blocks(sums).error == pytest.approx(one.error, rel=0.2)
    np.testing.assert_array_equal(bootstrap(sums, 400).drawn, two.drawn)


def test_few_draws_use_influence_and_many_solve():
    problem, features = random_problem(2)
    log = sb.collect(problem, episodes=3000, rng=0)
    sums = sb.Statistics.of(log, sb.GES(0.3), problem.target, features=features, gamma=0.9)
    scores, solved = bootstrap(sums, 99).drawn, bootstrap(sums, 100).drawn[:99]
    assert np.abs(scores - solved).max() > 0
    assert np.corrcoef(scores, solved)[0, 1] > 0.98
    assert scores.std() == pytest.approx(solved.std(), rel=0.1)


def bootstrap(sums, draws):
    with ThreadPoolExecutor(2) as pool:
        rule, target = sums.setting.rules[0], sums.setting.targets[0]
        return spectrum(sums, rule, target, pool, ridge=0.0, draws=draws)()


@pytest.mark.slow
def test_influence_sums_to_zero_with_a_ridge():
    log = sb.collect(CAR, episodes=300, rng=0)
    options = {"features": CAR.features}
    sums = sb.Statistics.of(log, sb.GRetrace(0.5), "pump:0.8", gamma=0.99, **options)
    for ridge in (0.0, 1e-3):
        (one,) = sandwich(log, sums, "pump:0.8", ridge=ridge, **options)
        blocks = interval_from_blocks(sums, ridge=ridge)
        assert blocks.value == pytest.approx(one.value, rel=1e-12)
        assert 0.4 < blocks.error / one.error < 2.5
        policy = sb.as_target("pump:0.8", log)
        (scored,) = score_episodes(
            log, sums, [policy], features=CAR.features, rule=sb.GRetrace(0.5), ridge=ridge
        )
        assert abs(scored.influence.sum()) < 1e-6 * np.abs(scored.influence).sum()


@pytest.mark.kernel
def test_intervals_do_not_depend_on_segmentation():
    log = sb.collect(CAR, episodes=10, limit=60, rng=0)
    options = {"features": CAR.features}
    sums = sb.Statistics.of(log, sb.GES(0.5), "pump:0.8", gamma=0.99, **options)
    (one,) = sandwich(log, sums, "pump:0.8", **options)
    (two,) = sandwich(log.with_options(segment=7), sums, "pump:0.8", **options)
    assert two.error == pytest.approx(one.error, rel=1e-12)


def test_one_episode_has_no_interval():
    two = sb.problems.two_state(0.5, rewards=[[1, -1], [0.5, 2]])
    log = sb.collect(two, steps=500, rng=0)
    options = {"features": OneHot(2)}
    sums = sb.Statistics.of(log, sb.GES(0.0), two.target, gamma=0.5, **options)
    with pytest.raises(
        sb.errors.Undefined, match="at least two independent episodes, the data have 1"
    ):
        sandwich(log, sums, two.target, **options)
    with pytest.raises(sb.errors.Undefined, match="all episodes are in one block"):
        bootstrap(sums, 20)


@pytest.mark.parametrize("n", [2, 3, 50])
def test_intervals_are_those_of_student(n):
    """Standard errors √(Σg²/n(n − 1)), with n − 1 degrees of freedom."""
    influence = np.random.default_rng(n).normal(size=n)
    one = student_interval(5.0, influence, "a value", "a method")
    error = math.sqrt(sum(g * g for g in influence) / (n * (n - 1)))
    width = stats.t.ppf(0.975, n - 1) * error
    assert (one.value, one.low, one.high) == pytest.approx((5.0, 5.0 - width, 5.0 + width))
    assert (one.error, one.level, one.n) == (pytest.approx(error), 0.95, n)
    with pytest.raises(sb.errors.Undefined, match="at least two independent episodes, the data"):
        student_interval(5.0, influence[:1], "a value", "a method")


@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_the_influence_of_a_block_is_that_of_its_sums(ridge):
    """x_kᵀθ − n_k V̂ − uᵀ(A_kθ + b_k), the ridge shared by steps; scaled by blocks per episode."""
    rule, log = sb.GES(0.5), random_decisions(3, episodes=15)
    sums = sb.Statistics.of(log, rule, "uniform", features=OneHot(5), gamma=0.9)
    value, scores = block_scores(sums, rule, 0, ridge)
    n, k = sums.steps.sum(), sums.episodes.sum()
    D = np.diag(np.diag(sums.M))
    A = sums.A[0, 0].sum(axis=0) - ridge * D
    theta = np.linalg.lstsq(A, -sums.b[0, 0].sum(axis=0), rcond=None)[0]
    start = sums.starts[0].sum(axis=0) / k
    u = np.linalg.lstsq(A.T, start * k, rcond=None)[0]
    assert value == pytest.approx(theta @ start)
    occupied = np.flatnonzero(sums.episodes)
    for score, i in zip(scores, occupied, strict=True):
        own = sums.A[0, 0, i] - ridge * D * sums.steps[i] / n
        g = sums.starts[0, i] @ theta - sums.episodes[i] * value
        g -= u @ (own @ theta + sums.b[0, 0, i])
        assert score == pytest.approx(g * len(occupied) / k, rel=1e-7, abs=1e-9)


def test_the_effective_number_of_units_is_the_smaller_of_two():
    rng = np.random.default_rng(0)
    influence, rows = rng.normal(size=9), rng.integers(1, 30, 9)
    by_influence = sum(influence**2) ** 2 / sum(influence**4)
    by_rows = sum(rows) ** 2 / sum(rows**2)
    for even, expected in (
        (rows, min(by_influence, by_rows)), (np.full(9, 7), by_influence),
    ):  # fmt: skip
        assert concentration(influence, even, False).units == pytest.approx(expected)
    assert concentration(influence, np.full(9, 7), False).largest == np.abs(influence).argmax()
    huge, even = (
        concentration(1e150 * influence, rows, False),
        concentration(influence, rows, False),
    )
    assert huge == (pytest.approx(even.units), even.largest)
    for negligible, given in ((True, influence), (False, np.zeros(9))):
        actual = concentration(given, rows, negligible)
        assert actual == (pytest.approx(by_rows), rows.argmax())
