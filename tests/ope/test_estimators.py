"""Estimates from logs against truths from elsewhere: exact tables, simulation, logged means."""

from __future__ import annotations

import re
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from scipy.sparse import csr_array

import saddleback as sb
from helpers.decision_logs import always, random_decisions
from saddleback.features import OneHot, Tiles
from saddleback.ope.fqe import DIVERGED, iterate_q
from saddleback.ope.lstd_solve import FeatureSpan
from saddleback.ope.sparse_samples import Samples
from saddleback.paper import mountain_car_reference as truth_of_car
from saddleback.problems.mountain_car import returns

CAR = sb.problems.mountain_car()


@pytest.fixture(scope="module")
def car_log():
    return sb.collect(CAR, episodes=5000, rng=0)


@pytest.fixture(scope="module")
def small_car_log():
    return sb.collect(CAR, episodes=500, rng=0)


@pytest.fixture(scope="module")
def car_values():
    effort = truth_of_car.Effort(starts=0, steps=0, pairs=2000, returns=200, sample=0)
    return truth_of_car.reference_values(CAR, effort, np.random.SeedSequence(5))


def frozen_lake(name, which):
    """FrozenLake from its exact tables, with one of two targets; μ strays more than they do."""
    env = gymnasium.make("FrozenLake-v1", map_name=name, is_slippery=True)
    mdp = sb.FiniteMDP.from_gymnasium(env, gamma=0.95)
    S, A = mdp.n_states, mdp.n_actions
    target = np.tile([0.05, 0.45, 0.45, 0.05], (S, 1))
    if which == "better":
        best = mdp.q(target).argmax(axis=1)
        target = 0.1 / A + 0.9 * np.eye(A)[best]
    phi = np.eye(S * A).reshape(S, A, S * A)
    problem = sb.Problem(mdp, phi, target, np.tile([0.15, 0.35, 0.35, 0.15], (S, 1)))
    return problem, float(mdp.start @ mdp.v(target))


@pytest.mark.statistical
@pytest.mark.parametrize("rule", [None, sb.GES(0.0), sb.GTB(0.9)], ids=str)
@pytest.mark.parametrize("which", ["down or right", "better"])
@pytest.mark.parametrize("name", ["4x4", "8x8"])
def test_frozen_lake_agrees_with_its_exact_tables(name, which, rule):
    problem, truth = frozen_lake(name, which)
    features = OneHot(problem.mdp.n_states)
    estimates = []
    for seed in range(10):
        log = sb.collect(problem, episodes=3000, rng=seed)
        one = sb.LSTD(
            target=problem.target, features=features, gamma=0.95, rule=rule, allow_uncovered=True
        )
        estimates.append(one.fit(log).value())
    error = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - truth) < 4 * error + 0.01 * truth
    assert error < 0.1 * truth


@pytest.mark.statistical
def test_value_of_the_papers_policy_by_simulation():
    rng = np.random.default_rng(0)
    n = 400_000
    start = np.column_stack([rng.uniform(-0.6, -0.4, n), np.zeros(n)])
    action = rng.choice(3, p=CAR.target[0], size=n)
    gains = returns(CAR.target, start, action, 0.99, rng)
    assert gains.std() / np.sqrt(n) < 0.006
    assert gains.mean() == pytest.approx(-79.83, abs=0.02)


@pytest.mark.statistical
@pytest.mark.parametrize("rule", [None, sb.GES(0.6), sb.GRetrace(0.99), sb.GTB(0.99)], ids=str)
def test_values_of_mountain_car_from_5000_episodes(rule, car_log, car_values):
    estimator = sb.LSTD(target="pump:0.8", features=CAR.features, gamma=0.99, rule=rule, threads=2)
    estimator.fit(car_log)
    assert estimator.outcome_ == "ok"
    assert car_values.mse(estimator.theta_) <= 0.006
    assert estimator.value() == pytest.approx(-79.83, abs=1.5)


@pytest.mark.slow
def test_values_can_be_predicted_for_any_observation(small_car_log):
    estimator = sb.LSTD(target="pump:0.8", features=CAR.features, gamma=0.99).fit(small_car_log)
    seen = small_car_log.start_states()
    assert estimator.value(seen) == pytest.approx(estimator.value(), rel=1e-12)
    q = estimator.predict(seen[:7])
    assert q.shape == (7, 3)
    phi = CAR.phi(seen[:7], np.array([2] * 7))
    np.testing.assert_allclose(
        estimator.predict(seen[:7], [2] * 7), phi @ estimator.theta_, rtol=1e-12
    )
    np.testing.assert_array_equal(estimator.predict(seen[:7], [2] * 7), q[:, 2])
    state = sb.LSTD(target="pump:0.8", features=CAR.features, gamma=0.99, rule=sb.TD(0.0))
    assert state.fit(small_car_log).predict(seen[:7]).shape == (7,)
    assert state.value() == pytest.approx(-79.8, abs=2)


def evenly_displaced(observations, bins=8, tilings=4):
    """Tiles of which tiling i is displaced by i/4 of a tile in both dimensions alike."""
    low, high = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
    place = (observations - low) / (high - low) * bins
    shifted = place[:, None] + np.arange(tilings)[:, None] / tilings
    row, column = np.moveaxis(np.minimum(shifted.astype(int), bins), 2, 0)
    index = (np.arange(tilings) * (bins + 1) + row) * (bins + 1) + column
    n = len(index)
    return csr_array(
        (np.ones(n * tilings), index.ravel(), np.arange(n + 1) * tilings),
        shape=(n, tilings * (bins + 1) ** 2),
    )


@pytest.mark.statistical
def test_truncated_episodes_bootstrap_and_time_limits_terminate():
    """Cut at 120 steps: bootstrapping stays near the truth, calling it an end does not."""
    log = sb.collect(CAR, episodes=8000, limit=120, rng=0)
    tiles = sb.features.Custom(evenly_displaced, 324)
    options = {"target": "pump:0.8", "features": tiles, "gamma": 0.99, "rule": sb.GES(0.0)}
    assert -81 < sb.LSTD(**options).fit(log).value() < -77
    assert -71 < sb.LSTD(**options).fit(log.with_options(time_limit="task")).value() < -68


@pytest.mark.statistical
def test_the_estimate_of_the_logged_policy_is_its_mean_return(car_log):
    mean = car_log.summary(0.99).mean_return
    for rule in (None, sb.GES(0.0), sb.GES(1.0)):
        one = sb.LSTD(target="logged", features=CAR.features, gamma=0.99, rule=rule)
        assert one.fit(car_log).value() == pytest.approx(mean, rel=0.02)


def test_the_logged_policy_is_exact_with_a_feature_for_each_state_at_lambda_one():
    """In a log whose episodes visit no state twice, TD(1) is the mean return, to rounding."""
    rng = np.random.default_rng(1)
    episodes, length = 200, 6
    obs = (rng.integers(3, size=(episodes, length)) + 3 * np.arange(length)).ravel()
    log = sb.Log(
        {
            "episode_id": np.repeat(np.arange(episodes), length),
            "obs_0": obs.astype(float),
            "action": rng.integers(2, size=len(obs)),
            "reward": rng.normal(size=len(obs)),
            "terminated": np.tile(np.arange(length) == length - 1, episodes),
            "truncated": np.zeros(len(obs), dtype=bool),
            "mu_0": np.full(len(obs), 0.5),
            "mu_1": np.full(len(obs), 0.5),
        }
    )
    one = sb.LSTD(target="logged", features=OneHot(18), gamma=0.9, rule=sb.TD(1.0)).fit(log)
    assert one.value() == pytest.approx(log.summary(0.9).mean_return, rel=1e-10)


@pytest.mark.slow
def test_fqe_converges_to_lstd_or_reports_divergence(small_car_log):
    options = {"target": "pump:0.8", "features": CAR.features, "gamma": 0.99}
    fqe = sb.FQE(**options, ridge=1e-3).fit(small_car_log)
    assert fqe.outcome_ == "ok"
    assert fqe.radius_ < 1
    assert fqe.distance_ < 1e-5
    lstd = sb.LSTD(**options, rule=sb.GES(0.0), ridge=1e-3).fit(small_car_log)
    assert fqe.value() == pytest.approx(lstd.value(), rel=1e-4)


def test_fqe_diverges_on_the_classic_counterexample():
    """w, 2w with π always going to the second state: FQE multiplies by 6γ/5, LSTD is at 0."""
    obs = np.tile([1.0, 2.0], 500)
    log = sb.Log(
        {
            "episode_id": np.arange(1000),
            "obs_0": obs,
            "next_obs_0": np.full(1000, 2.0),
            "action": np.zeros(1000, dtype=int),
            "reward": np.full(1000, 0.1),
            "terminated": np.zeros(1000, dtype=bool),
            "truncated": np.ones(1000, dtype=bool),
            "behavior_prob": np.ones(1000),
        }
    )
    options = {"target": "uniform", "features": sb.features.Identity(1), "gamma": 0.95}
    fqe = sb.FQE(**options).fit(log)
    assert fqe.radius_ == pytest.approx(6 * 0.95 / 5)
    assert fqe.outcome_.startswith("diverges: the spectral radius of the iteration is 1.14 >= 1")
    assert "the fixed point exists; use LSTD" in fqe.outcome_
    assert sb.LSTD(**options, rule=sb.GES(0.0)).fit(log).outcome_ == "ok"


def test_streamed_learners_approach_the_closed_form():
    problem = sb.problems.two_state(0.5, rewards=[[1, -1], [0.5, 2]])
    log = sb.collect(problem, steps=20_000, rng=0)
    options = {"target": problem.target, "features": OneHot(2), "gamma": 0.5}
    streamed = sb.Streamed(**options, rule=sb.GES(0.0), passes=5).fit(log)
    assert streamed.outcome_ == "ok"
    assert streamed.distances_[-1] < 0.05
    closed = sb.LSTD(**options, rule=sb.GES(0.0)).fit(log)
    assert streamed.value() == pytest.approx(closed.value(), rel=0.05)


@pytest.mark.slow
def test_streamed_learners_with_many_features_choose_from_a_grid():
    log = sb.collect(CAR, episodes=300, rng=0)
    small = Tiles((-1.2, -0.07), (0.6, 0.07), bins=3, tilings=2)
    options = {"target": "pump:0.8", "features": small, "gamma": 0.9}
    one = sb.Streamed(**options, rule=sb.GQ(0.3), passes=2).fit(log)
    two = sb.Streamed(**options, rule=sb.GQ(0.3), passes=2, threads=2).fit(log)
    assert one.tried_ == 121
    assert one.distances_[-1] < one.distances_[0] < 1
    np.testing.assert_array_equal(one.theta_, two.theta_)
    explicit = sb.Streamed(**options, rule=sb.GQ(0.3), passes=2, alpha=one.alpha_, beta=one.beta_)
    explicit.fit(log)
    np.testing.assert_allclose(explicit.theta_, one.theta_, rtol=1e-9)


@pytest.mark.slow
def test_streamed_learners_report_divergence():
    log = sb.collect(CAR, episodes=200, rng=0)
    options = {"target": "pump:0.8", "features": CAR.features, "gamma": 0.99}
    streamed = sb.Streamed(**options, rule=sb.ExpectedSarsa(0.99), alpha=1.0).fit(log)
    assert streamed.outcome_.startswith("diverged at step")
    assert np.isfinite(streamed.theta_).all()


def test_svrg_agrees_with_the_direct_solve():
    problem = sb.problems.two_state(0.5, rewards=[[1, -1], [0.5, 2]])
    log = sb.collect(problem, steps=5000, rng=0)
    options = {"target": problem.target, "features": OneHot(2), "gamma": 0.5, "rule": sb.GES(0.4)}
    svrg = sb.SVRG(**options, rng=0).fit(log)
    exact = sb.LSTD(**options).fit(log)
    assert svrg.outcome_ == "ok"
    np.testing.assert_allclose(
        svrg.predict([[0.0], [1.0]]), exact.predict([[0.0], [1.0]]), rtol=1e-8
    )
    assert svrg.value() == pytest.approx(exact.value(), rel=1e-8)


@pytest.mark.parametrize("kind", [sb.LSTD, sb.FQE, sb.SVRG])
def test_partial_fit_equals_fit(kind):
    problem = sb.problems.random_mdp(0.5, rng=0, termination=0.2)
    features = OneHot(problem.mdp.n_states)
    log = sb.collect(problem, episodes=600, rng=0)
    parts = [log.data.filter(log.data["episode_id"].to_numpy() // 200 == k) for k in range(3)]
    more = {"rng": 0} if kind is sb.SVRG else {}
    options = {"target": problem.target, "features": features, "gamma": 0.5, **more}
    if kind is not sb.FQE:
        options["rule"] = sb.GES(0.0)
    one = kind(**options).fit(log)
    other = kind(**options)
    for part in parts:
        other.partial_fit(part)
    assert other.value() == pytest.approx(one.value(), rel=1e-8)
    with pytest.raises(sb.errors.SaddlebackError, match="episodes are in both"):
        one.partial_fit(parts[0])


@pytest.mark.slow
def test_solutions_have_minimum_norm_on_the_range(small_car_log):
    sums = sb.Statistics.of(
        small_car_log, sb.GES(0.3), "pump:0.8", features=CAR.features, gamma=0.99
    )
    system = sums.system()
    span = FeatureSpan(system.M)
    theta = span.solve(system.A, system.b).theta
    assert span.note.startswith("311 of 972 features never active; 38 collinear")
    assert (theta[np.diag(system.M) == 0] == 0).all()
    active = span.active
    residual = (system.A @ theta + system.b)[active]
    assert np.abs(residual).max() < 1e-10
    size = np.sqrt(np.diag(system.M)[active])
    values, vectors = np.linalg.eigh(system.M[np.ix_(active, active)] / np.outer(size, size))
    null = vectors[:, values < 1e-12 * values[-1]]
    assert null.shape[1] == 38
    assert np.abs(null.T @ (size * theta[active])).max() < 1e-8


def test_the_ridge_is_relative_to_the_features():
    """Rescaling a feature rescales its weight, and changes no prediction."""
    problem = sb.problems.random_mdp(0.5, rng=0, termination=0.2)
    log = sb.collect(problem, episodes=300, rng=0)
    X = np.random.default_rng(0).normal(size=(problem.mdp.n_states, 3))
    for ridge in (0.0, 0.1):
        predictions = []
        for scale in (1.0, 1000.0):
            features = sb.features.Custom(
                lambda obs, s=scale: X[obs[:, 0].astype(int)] * [s, 1.0, 1.0], 3
            )
            one = sb.LSTD(target=problem.target, features=features, gamma=0.5, ridge=ridge)
            predictions.append(one.fit(log).predict([[0.0], [1.0]]))
        np.testing.assert_allclose(*predictions, rtol=1e-9)


@pytest.mark.slow
def test_evaluate_warns_when_lambda_exceeds_the_ceiling(car_log, no_opinion):
    few = Tiles((-1.2, -0.07), (0.6, 0.07), bins=4, tilings=2)
    result = sb.evaluate(
        car_log, "pump:0.8", features=few, gamma=0.99, rule=sb.GES(0.99), methods=()
    )
    warnings = [str(warning) for warning in result.findings]
    assert any(
        warning.startswith(
            "W170 lambda=0.99 exceeds 0.62, above which the trace second moment grows"
        )
        for warning in warnings
    )
    assert any(
        warning.startswith("W171 45 of 150 features never active; 3 coll") for warning in warnings
    )


def test_an_undiscounted_value_needs_terminated_episodes():
    log = sb.collect(CAR, episodes=20, limit=120, rng=0)
    one = sb.LSTD(target="pump:0.8", features=CAR.features, gamma=1.0)
    with pytest.raises(sb.LogError, match=r"E160 gamma=1 requires terminating episodes, but 60%"):
        one.fit(log)
    assert np.isfinite(one.fit(sb.collect(CAR, episodes=20, rng=0)).value())


@pytest.mark.slow
def test_fqe_takes_no_rule(small_car_log):
    one = sb.FQE(target="pump:0.8", features=CAR.features, gamma=0.99, rule=sb.GES(0.5))
    with pytest.raises(sb.errors.InvalidParameter, match="takes no rule"):
        one.fit(small_car_log)


def test_too_many_features_for_matrices_leave_only_svrg():
    log = sb.collect(CAR, episodes=5, rng=0)
    tiles = Tiles((-1.2, -0.07), (0.6, 0.07), bins=8, tilings=8, table=1_000_000)
    with pytest.raises(
        sb.errors.InvalidParameter, match=r'solve without matrices: methods=\["svrg"\]'
    ):
        sb.evaluate(log, "pump:0.8", features=tiles, gamma=0.9)
    result = sb.evaluate(log, "pump:0.8", features=tiles, gamma=0.9, methods=["svrg"], ridge=0.1)
    assert result.statistics.p == 3_000_000
    assert np.isfinite(result.estimates[0].value)


def test_svrg_checks_the_log_like_other_estimators():
    log = sb.collect(CAR, episodes=5, rng=0)
    small = Tiles((-1.2, -0.07), (0.6, 0.07), bins=2, tilings=1)
    one = sb.SVRG(target="always:1", features=small, gamma=0.5, rng=0, epochs=3)
    bare = log.data.drop(["mu_0", "mu_1", "mu_2"])
    bare = bare.filter(bare["action"].to_numpy() != 1)
    bare = bare.set_column(1, "step", [np.arange(len(bare))]).drop("step")
    with pytest.raises(sb.LogError, match="E110"):
        one.fit(sb.Log(bare, actions=["0", "1", "2"]))
    sb.SVRG(target="logged", features=small, gamma=0.5, rng=0, epochs=3).fit(log)
    with pytest.raises(sb.errors.InvalidParameter, match="episodes are in both"):
        sb.SVRG(target="logged", features=small, gamma=0.5, rng=0, epochs=3).fit(log).partial_fit(
            log
        )


def test_start_actions_that_never_occur_in_the_log_are_a_warning():
    rows = sb.collect(CAR, episodes=100, rng=0).data.drop(["mu_0", "mu_1", "mu_2"])
    keep = ~((rows["step"].to_numpy() < 3) & (rows["action"].to_numpy() == 1))
    rows = rows.filter(keep).drop("step")
    estimator = sb.LSTD(target="always:1", features=CAR.features, gamma=0.9).fit(rows)
    warnings = [str(finding) for finding in estimator.findings_ if finding.code == "W172"]
    assert "of the actions of always:1 in the start states never occur in the log" in warnings[0]


def test_estimated_propensities_survive_a_change_of_options():
    log = sb.collect(CAR, episodes=50, rng=0)
    guess = sb.estimate_behaviour(log, bins=3).log
    one, two = (
        np.concatenate([piece.propensity for piece in version.segments()])
        for version in (guess, guess.with_options(segment=99))
    )
    np.testing.assert_array_equal(one, two)
    assert "estimated=" in guess.read_options
    with pytest.raises(sb.errors.InvalidParameter, match="propensities computed by a function"):
        guess.write("anywhere.parquet")


def iterated(contraction, b, ridge=0.0, iterations=10_000, tolerance=1e-9):
    """Return the result for θ ← (b + diag(c)θ)/(1 + η), features of unit size, and by a loop."""
    c, b = np.array(contraction), np.array(b)
    system = SimpleNamespace(A=np.diag(c - 1.0), b=b, M=np.eye(len(b)))
    result = iterate_q(system, ridge, iterations, tolerance)
    theta, k = np.zeros(len(b)), 0
    while k < iterations:
        before, theta = theta, (b + c * theta) / (1 + ridge)
        k, change = k + 1, np.abs(theta - before).max()
        if np.abs(theta).max() >= DIVERGED or change <= tolerance * np.abs(theta).max():
            break
    return result, theta, k


@pytest.mark.parametrize("ridge", [0.0, 0.25])
@pytest.mark.parametrize(("iterations", "tolerance"), [(10_000, 1e-9), (10_000, 0.125), (7, 1e-9)])
def test_fqe_iterates_until_it_does_not_change(ridge, iterations, tolerance):
    c, b = [0.5, -0.75], [1.0, 2.0]
    result, theta, k = iterated(c, b, ridge, iterations, tolerance)
    np.testing.assert_allclose(result.theta, theta, rtol=1e-12)
    assert result.iterations == k
    assert result.radius == pytest.approx(0.75 / (1 + ridge))
    exact = np.array(b) / (1 + ridge - np.array(c))
    distance = np.linalg.norm(theta - exact) / np.linalg.norm(exact)
    assert result.distance == pytest.approx(distance, rel=1e-6, abs=1e-12)
    if iterations == 7:
        words = (
            f"not converged after 7 iterations (radius {0.75 / (1 + ridge):.6g}); {distance:.2g}"
        )
        assert result.outcome.startswith(words)
    else:
        assert result.outcome == "ok"


def test_fqe_that_reaches_its_tolerance_in_the_last_iteration_has_converged():
    """Changes halve: after k iterations they are a quarter of what is still to come, or less."""
    result, _, k = iterated([0.5], [1.0], tolerance=1 / 7)  # 1, 1.5, 1.75: a change of 1/7
    assert (k, result.iterations, result.outcome) == (3, 3, "ok")
    for iterations, outcome in ((3, "ok"), (2, "not converged after 2 iterations")):
        result, _, _ = iterated([0.5], [1.0], 0.0, iterations, 1 / 7)
        assert result.outcome.startswith(outcome)


def test_fqe_diverges_from_a_radius_of_one():
    growing, theta, k = iterated([2.0], [1.0])
    np.testing.assert_allclose(growing.theta, theta)
    assert growing.iterations == k == 40  # 2^40 is the first power beyond
    words = "diverges: the spectral radius of the iteration is 2 >= 1, although the fixed point "
    assert growing.outcome.startswith(words + "exists")
    still, _, _ = iterated([1.0], [0.0])
    assert still.outcome.startswith("diverges: the spectral radius of the iteration is 1 >= 1")
    assert "is not unique" in still.outcome
    assert iterated([0.999], [0.0])[0].outcome == "ok"


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    data = {
        "episode_id": np.repeat(np.arange(6), 3), "obs_0": rng.integers(0, 3, 18).astype(float),
        "action": rng.integers(0, 2, 18), "reward": rng.normal(size=18),
        "terminated": np.tile([False, False, True], 6), "truncated": np.zeros(18, bool),
        "behavior_prob": np.full(18, 0.5),
    }  # fmt: skip
    log = sb.Log(data)
    tiles = Tiles((0.0,), (2.0,), bins=2, tilings=2)
    return {
        (shared, rule): sb.LSTD(
            target=lambda x: np.tile([0.3, 0.7], (len(x), 1)), features=tiles, gamma=0.9,
            rule=rule, shared=shared, ridge=0.1,
        ).fit(log)
        for shared, rule in ((False, "GES(0)"), (True, "GES(0)"), (False, "ETD(0)"))
    }  # fmt: skip


@pytest.mark.parametrize("shared", [False, True])
def test_predictions_are_sums_of_weights(fitted, shared):
    estimator = fitted[shared, "GES(0)"]
    states = np.array([[0.0], [2.0], [1.0], [2.0]])
    phi = estimator.features.encode(states).dense(estimator.features.size)
    theta = estimator.theta_.reshape(len(phi[0]), -1)
    expected = [[x @ theta[:, a] + shared * (x @ theta[:, -1]) for a in range(2)] for x in phi]
    values = estimator.predict(states)
    np.testing.assert_allclose(values, expected)
    actions = np.array([1, 0, 1, 1])
    assert estimator.predict(states, actions).tolist() == values[np.arange(4), actions].tolist()
    mean = (values @ [0.3, 0.7]).mean()
    assert estimator.value(states) == pytest.approx(mean)
    assert estimator.value() == pytest.approx(estimator.theta_ @ estimator.start_)


def test_values_of_states_have_no_actions(fitted):
    estimator = fitted[False, "ETD(0)"]
    states = np.array([[0.0], [2.0], [1.0]])
    values = estimator.predict(states)
    phi = estimator.features.encode(states).dense(estimator.features.size)
    np.testing.assert_allclose(values, phi @ estimator.theta_)
    assert estimator.value(states) == pytest.approx(values.mean())


@pytest.mark.parametrize(
    ("actions", "words"),
    [([0, 1], "one integer for each of 3"), ([0.0, 1.0, 1.0], "one integer for each of 3"),
     ([0, 2, 1], "action 2 is not one of 0 … 1"), ([0, -1, 1], "action -1 is not one of 0 … 1")],
)  # fmt: skip
def test_predictions_need_actions_of_the_log(fitted, actions, words):
    with pytest.raises(sb.errors.InvalidParameter, match=words):
        fitted[False, "GES(0)"].predict(np.zeros((3, 1)), np.array(actions))
    with pytest.raises(sb.errors.InvalidParameter, match="no observations"):
        fitted[False, "GES(0)"].value(np.zeros((0, 1)))


# Step sizes of learners over a log.


def learner(**options):
    features = sb.features.Custom(lambda seen: np.eye(5)[seen[:, 0].astype(int)], 5)
    given = {"target": always(0.3, 0.7), "features": features, "gamma": 0.9, "rule": sb.GES(0.0)}
    return sb.Streamed(**given | options)


def test_a_grid_has_halves_below_the_inverse_trace_and_ratios_around_one():
    """α = 1/trace M̂ · 2^−k for k = 0 … 10, each with β/α = 2^−5 … 2^5."""
    log = random_decisions(0, K=2)
    one = learner(alpha=0.1).fit(log)
    system = one.statistics_.system()
    size = np.trace(system.M)
    pairs = [(2.0**-k / size, 2.0**-k / size * 2.0**j) for k in range(11) for j in range(-5, 6)]
    np.testing.assert_allclose(np.transpose(one._grid(system)), pairs, rtol=1e-12)
    primal = learner(rule=sb.ExpectedSarsa(0.0), alpha=0.1).fit(log)
    by_itself = [(2.0**-k / size,) * 2 for k in range(11)]
    np.testing.assert_allclose(np.transpose(primal._grid(system)), by_itself, rtol=1e-12)


@pytest.mark.parametrize(("states", "tried"), [(8, 1), (9, 121)])
@pytest.mark.parametrize("beta", [0.02, None])
def test_up_to_sixteen_features_have_the_step_sizes_advised(monkeypatch, states, tried, beta):
    """For all steps of all passes; above, those of the grid are tried."""
    requested = []

    def advice(system, steps):
        requested.append((system.p, steps))
        return SimpleNamespace(alpha=0.01, beta=beta)

    monkeypatch.setattr("saddleback.theory.step_sizes", advice)
    log = random_decisions(0, states=states, K=2, episodes=30)
    one = learner(features=OneHot(states), passes=3).fit(log)
    assert one.tried_ == tried
    assert requested == ([(16, 3 * log.rows)] if tried == 1 else [])
    if tried == 1:
        assert (one.alpha_, one.beta_) == (0.01, beta or 0.01)


@pytest.mark.parametrize("beta", [None, 0.02])
def test_passes_with_given_step_sizes_are_those_of_a_loop(beta):
    """GES(0) with α and β: each pass goes on from the last, and its distance is recorded."""
    log = random_decisions(2, K=2)
    one = learner(alpha=0.05, beta=beta, passes=3).fit(log)
    assert (one.alpha_, one.beta_, one.tried_, one.diverged_) == (0.05, beta or 0.05, 1, 0)
    columns = [c for streams in one._streams(log) for c in streams]
    samples = [Samples.of(c, 10) for c in columns]
    theta = omega = np.zeros(10)
    statistics = one.statistics_
    exact = statistics.solve().theta
    M = statistics.M
    for k in range(3):
        for part in samples:
            e, d, phi = (rows.toarray() for rows in (part.e, part.d, part.phi))
            for t, reward in enumerate(part.rewards):
                delta = reward + d[t] @ theta
                change = -one.alpha_ * (e[t] @ omega) * d[t]
                omega = omega + one.beta_ * (delta * e[t] - (phi[t] @ omega) * phi[t])
                theta = theta + change
        gap = theta - exact
        expected = np.sqrt(gap @ M @ gap / (exact @ M @ exact))
        assert one.distances_[k] == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(one.theta_, theta, rtol=1e-6, atol=1e-9)
    more = one.partial_fit(random_decisions(3, K=2))
    assert len(more.distances_) == 6
    assert (more.alpha_, more.beta_) == (0.05, beta or 0.05)


def test_progress_of_a_learner_is_that_of_its_passes():
    """After reading, each pass has the same share."""
    reports, log = [], random_decisions(2, K=2)
    one = learner(alpha=0.05)
    assert one.passes == 1
    learner(alpha=0.05, passes=4).fit(log, lambda fraction, *_: reports.append(fraction))
    assert reports == sorted(reports)
    assert reports[-1] == 1.0
    ends = [0.5 + 0.5 * k / 4 for k in range(1, 5)]
    assert {round(end, 9) for end in ends} <= {round(fraction, 9) for fraction in reports}


def test_divergence_is_told_with_its_step():
    log = random_decisions(2, K=2, episodes=60)
    one = learner(alpha=300.0, passes=2).fit(log)
    assert one.diverged_ == 1
    assert re.match(r"diverged at step \d+ with α = 300: use smaller", one.outcome_)
    assert one.distances_ == [np.inf] * 2
    assert (one.tried_, learner().tried_, learner().diverged_) == (1, 0, 0)


@pytest.mark.parametrize("episodes", [3, 60])
def test_noise_is_estimated_from_two_hundred_batches(episodes):
    log = random_decisions(2, K=2, episodes=episodes)
    one = learner(alpha=0.1).fit(log)
    system = one._with_batches(log, one.statistics_.system())
    steps = int(one.statistics_.steps.sum())
    assert system.batch_steps == max(1, steps // 200)
