"""Continuous actions: a linear-quadratic problem, density ratios, kernels."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.families.pendulums import Pendulum

import saddleback as sb
from helpers.linear_quadratic import (
    GAMMA,
    LOGGED,
    NEW,
    SIGMA,
    density,
    simulate,
    starts,
    value,
)
from saddleback.features.state_action import (
    FourierByAction,
    JointFourier,
    JointMonomials,
    JointScaling,
)
from saddleback.log.continuous_targets import as_continuous_targets
from saddleback.ope import joint_statistics
from saddleback.ope.action_candidates import SIZES, action_candidates
from saddleback.ope.density_weights import BANDWIDTHS
from saddleback.ope.episode_sample import sample_episodes
from saddleback.ope.fold_sums import Rows
from saddleback.ope.joint_statistics import JointSums, SampledPolicy
from saddleback.ope.marginal_dr import fit_basis
from saddleback.ope.slope import slope
from saddleback.policies import Gaussian, Sampler

SMALL = np.array([[0.1, 0.02], [0.02, 0.15]])
"""Covariance of the target."""


def new(obs):
    return obs @ NEW.T


def pair(obs):
    """A Gaussian policy as a function that returns means and covariances."""
    return new(obs), np.tile(SMALL, (len(obs), 1, 1))


def draw(obs, rng):
    return new(obs) + rng.standard_normal((len(obs), 2)) @ np.linalg.cholesky(SMALL).T


@pytest.mark.parametrize("policy", [Gaussian(new, SMALL), new, pair], ids=["Σ", "0", "pair"])
def test_closed_form_is_exact_without_noise(policy):
    """Quadratic features contain Q, and each row satisfies the Bellman equation."""
    data = simulate(60, 12)
    sigma = np.zeros((2, 2)) if policy is new else SMALL
    truth = value(starts(data), NEW, sigma, 0.0).mean()
    result = sb.evaluate(
        sb.Log(data), {"new": policy}, gamma=GAMMA, features="monomials:2", methods=["fqe"]
    )
    lstd, fqe = result.estimates
    assert (lstd.method, fqe.method) == ("LSTD", "FQE")
    assert lstd.value == pytest.approx(truth, rel=1e-8)
    assert fqe.value == pytest.approx(truth, rel=1e-6)
    # V differs between starts, which is all of the error.
    spread = value(starts(data), NEW, sigma, 0.0).std(ddof=1) / np.sqrt(60)
    assert result.diagnoses[0].interval.error == pytest.approx(spread, rel=1e-6)


def test_monomials_are_exact_where_the_logged_states_are_far_apart():
    data = simulate(60, 40, spread=20.0)
    result = sb.evaluate(
        sb.Log(data), {"new": Gaussian(new, SMALL)}, gamma=GAMMA, features="monomials:2", methods=[]
    )
    truth = value(starts(data), NEW, SMALL, 0.0).mean()
    assert result.estimates[0].value == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("horizon", [1, 5])
def test_values_of_few_steps_are_exact_without_noise(horizon):
    data = simulate(60, horizon)
    log = sb.Log(data, time_limit="task")
    targets = as_continuous_targets({"new": Gaussian(new, SMALL)}, log)
    sample, _ = sample_episodes(log, targets, 10_000, horizon)
    bases = action_candidates(sample, None, True, targets[0])
    quadratic = next(basis for basis in bases if basis.name == "quadratic")
    fits = fit_basis(quadratic, Rows.of(sample, "new", GAMMA), horizon, (1e-12,), (1.0,))
    truth = value(starts(data), NEW, SMALL, 0.0, horizon).mean()
    assert fits.start[0].mean() == pytest.approx(truth, rel=1e-5)


def test_candidates_have_the_features_that_their_names_say():
    log = sb.Log(simulate(20, 5))
    targets = as_continuous_targets({"new": Gaussian(new, SMALL)}, log)
    sample, _ = sample_episodes(log, targets, 10_000, None)
    bases = action_candidates(sample, None, True, targets[0])
    waves = [basis for basis in bases if basis.name.startswith("random Fourier")]
    assert len({(basis.name, basis.view.name) for basis in bases}) == len(bases)
    assert len({basis.name.partition(",")[0] for basis in waves}) > 1
    for basis in waves:
        waves, bandwidth = basis.features.waves, basis.features.bandwidth
        kind = " by action" * isinstance(basis.features, FourierByAction)
        assert basis.name == f"random Fourier {waves}{kind}, bandwidth {bandwidth:.2g}"
    for basis in bases:
        size = basis.before(np.arange(3)).shape[1]
        assert basis.after(np.arange(3)).shape == (3, size)
        assert basis.start().shape == (20, size)


def test_sums_by_block_are_those_of_plain_loops():
    log = sb.Log(simulate(9, 4))
    targets = as_continuous_targets({"new": new}, log)
    sample, _ = sample_episodes(log, targets, 10_000, None)
    features = JointMonomials(JointScaling.of(sample.states, sample.action_values), 2)
    after, start = (targets[0].actions(seen) for seen in (sample.next_states, sample.starts))
    used = np.arange(len(sample.rewards)) % 5 != 3
    sums = JointSums(features, sample, GAMMA, (SampledPolicy("new", after, start, used),))
    block = np.array([0, 1, 2, 0, 0, 1, 2, 2, 0])
    actual = sums.by_block(block, 3)
    assert actual["b"].shape == (1, 1, 3, features.size)
    expected = {name: np.zeros_like(actual[name]) for name in ("A", "b", "M", "starts")}
    phi = features(sample.states, sample.action_values)
    following = features(sample.next_states, new(sample.next_states))
    for t, k in enumerate(block[sample.episode]):
        expected["M"] += np.outer(phi[t], phi[t])
        if used[t]:
            change = GAMMA * sample.continues[t] * following[t] - phi[t]
            expected["A"][0, 0, k] += np.outer(phi[t], change)
            expected["b"][0, 0, k] += sample.rewards[t] * phi[t]
    first = features(sample.starts, new(sample.starts))
    for e, k in enumerate(block):
        expected["starts"][0, k] += first[e]
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=1e-10, atol=1e-10)
    assert actual["steps"].tolist() == np.bincount(block[sample.episode]).tolist()
    assert actual["episodes"].tolist() == [4, 2, 3]


@pytest.mark.parametrize("chunk", [1 << 14, 5])
@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_scores_of_episodes_are_those_of_plain_loops(monkeypatch, chunk, ridge):
    """uᵀ(A_iθ + b_i) without the ridge's share, and the discounted TD errors, by the same sums."""
    monkeypatch.setattr(joint_statistics, "CHUNK", chunk)
    log = sb.Log(simulate(9, 4))
    (policy,) = targets = as_continuous_targets({"new": new}, log)
    sample, _ = sample_episodes(log, targets, 10_000, None)
    features = JointMonomials(JointScaling.of(sample.states, sample.action_values), 1)
    one = SampledPolicy.of(policy, features, sample)
    assert one.used.all()
    one = replace(one, used=np.arange(len(sample.rewards)) % 5 != 3)
    joint = JointSums(features, sample, GAMMA, (one, replace(one, name="same")))
    parts = joint.by_block(np.arange(9), 9)
    p, n = features.size, len(sample.rewards)
    M, A = parts["M"], parts["A"][0, 0].sum(axis=0)
    theta = np.linalg.solve(A - ridge * np.diag(np.diag(M)), -parts["b"][0, 0].sum(axis=0))
    start = parts["starts"][0].sum(axis=0) / 9
    u = np.linalg.solve((A - ridge * np.diag(np.diag(M))).T, 9 * start)
    monkeypatch.setattr(joint_statistics, "solve_adjoint", lambda *_: (theta, start, u))
    scores = joint.scores(None, sb.GES(0.0), 0, ridge)
    phi = features(sample.states, sample.action_values)
    following = features(sample.next_states, new(sample.next_states))
    score, discounted = np.zeros(9), np.zeros(9)
    for t in range(n):
        delta = sample.rewards[t] - phi[t] @ theta
        delta += GAMMA * sample.continues[t] * following[t] @ theta
        delta = delta if one.used[t] else 0.0
        own = sum(phi[t, j] ** 2 * u[j] * theta[j] for j in range(p))
        score[sample.episode[t]] += (phi[t] @ u) * delta - ridge * own
        discounted[sample.episode[t]] += GAMMA ** sample.step[t] * delta
    np.testing.assert_allclose(scores.score, score, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(scores.td_error_return, discounted, rtol=1e-8, atol=1e-9)
    first = features(sample.starts, new(sample.starts)) @ theta
    np.testing.assert_allclose(scores.first, first, rtol=1e-9)
    assert scores.value == pytest.approx(first.mean())


def test_the_logged_policy_takes_the_actions_of_the_log():
    """An action after a truncated episode is unknown, and so is the first of an empty one."""
    sample = SimpleNamespace(
        action_values=np.array([[1.0], [2.0], [4.0], [8.0], [16.0]]),
        starts=np.zeros((3, 2)), step=np.array([0, 1, 2, 0, 1]),
        episode=np.array([0, 0, 0, 2, 2]), last=np.array([0, 0, 1, 0, 1], dtype=bool),
        continues=np.array([1, 1, 1, 1, 0], dtype=bool),
    )  # fmt: skip
    one = SampledPolicy.logged(sample)
    assert one.used.tolist() == [True, True, False, True, True]
    assert one.start.mean[:, 0].tolist() == [1.0, (1.0 + 8.0) / 2, 8.0]
    assert one.after.mean[one.used & sample.continues, 0].tolist() == [2.0, 4.0, 16.0]
    assert not one.after.covariance.any()


def test_an_opinion_has_fewer_waves_than_an_estimate():
    log = sb.Log(simulate(20, 5))
    targets = as_continuous_targets({"new": Gaussian(new, SMALL)}, log)
    sample, _ = sample_episodes(log, targets, 10_000, None)
    opinion, estimate = (
        {(b.view.name, b.features.bandwidth, b.features.waves)
         for b in action_candidates(sample, None, thorough, targets[0])
         if isinstance(b.features, JointFourier)}
        for thorough in (False, True)
    )  # fmt: skip
    few, many = SIZES
    assert {waves for *_, waves in opinion} == {few}
    assert {waves for *_, waves in estimate} == {few, many}
    assert {(view, width, many) for view, width, _ in opinion} <= estimate


@pytest.mark.slow
def test_estimates_contain_the_value_of_a_noisy_problem():
    data = simulate(120, 20, noise=0.05, seed=1)
    policies = {"Gaussian": Gaussian(new, SMALL), "sure": new, "sampled": Sampler(draw)}
    result = sb.evaluate(sb.Log(data), policies, gamma=GAMMA, methods=[])
    truth = {
        "Gaussian": value(starts(data), NEW, SMALL, 0.05).mean(),
        "sure": value(starts(data), NEW, np.zeros((2, 2)), 0.05).mean(),
    }
    truth["sampled"] = truth["Gaussian"]
    for verdict, diagnosis in zip(result.verdicts, result.diagnoses, strict=True):
        assert abs(verdict.value - truth[verdict.target]) < 3 * diagnosis.interval.error
        low, high = verdict.interval_with_gap
        assert low < truth[verdict.target] < high
        assert verdict.trust == "usable", verdict.reason
    lstd = {e.target: e.value for e in result.estimates if e.method == "LSTD"}
    assert lstd["Gaussian"] == pytest.approx(truth["Gaussian"], rel=0.05)
    assert result.verdicts[0].improvement.outcome == "better"
    mu = value(starts(data), LOGGED, SIGMA, 0.05).mean()
    baseline = result.logged.interval
    assert abs(baseline.value - mu) < 3 * baseline.error


@pytest.mark.slow
def test_monte_carlo_error_is_in_the_interval():
    """Draws add noise to single episodes, and so to the standard error."""
    data, variances = simulate(60, 12), [2.0, 2.0]

    def spread(obs, rng):
        return new(obs) + np.sqrt(2.0) * rng.standard_normal((len(obs), 2))

    result = sb.evaluate(
        sb.Log(data), {"exact": Gaussian(new, variances), "drawn": Sampler(spread)}, gamma=GAMMA,
        features="monomials:2", methods=[],
    )  # fmt: skip
    exact, drawn = (diagnosis.interval for diagnosis in result.diagnoses)
    added = np.sqrt(drawn.error**2 - exact.error**2)
    assert added > 0.05 * exact.error
    assert abs(drawn.value - exact.value) < 4 * added


@pytest.mark.slow
def test_horizon_of_a_noisy_problem():
    data = simulate(80, 8, noise=0.05, seed=2)
    result = sb.evaluate(sb.Log(data), {"new": pair}, gamma=GAMMA, horizon=8, methods=[])
    truth = value(starts(data), NEW, SMALL, 0.05, 8).mean()
    low, high = result.verdicts[0].interval_with_gap
    assert low < truth < high
    assert [estimate.method for estimate in result.estimates] == ["Marginal DR"]


def test_density_ratios_are_those_of_the_densities():
    data = simulate(40, 3, noise=0.05, ends="terminated")
    result = sb.evaluate(
        sb.Log(data), {"new": pair}, gamma=GAMMA, features="monomials:2",
        methods=["pdis", "is", "pdwis", "wis", "dr", "wdr"],
    )  # fmt: skip
    states = np.column_stack([data["obs_0"], data["obs_1"]])
    actions = np.column_stack([data["action_0"], data["action_1"]])
    rho = density(actions, new(states), SMALL) / data["behavior_prob"]
    weights = np.cumprod(rho.reshape(40, 3), axis=1)
    reward = data["reward"].reshape(40, 3) * GAMMA ** np.arange(3)
    values = {e.method: e.value for e in result.estimates}
    assert values["PDIS"] == pytest.approx((weights * reward).sum(axis=1).mean(), rel=1e-9)
    shares = weights / weights.sum(axis=0)
    assert values["PDWIS"] == pytest.approx((shares * reward).sum(), rel=1e-9)
    assert {"IS", "WIS", "DR", "WDR"} <= set(values)


def test_kernel_ratios_and_their_bandwidth():
    """One decision, reward −a²: the kernel adds h² to the square of the action."""
    rng = np.random.default_rng(0)
    n = 4000
    s, a = rng.normal(size=n), rng.normal(size=n)
    data = {
        "episode_id": np.arange(n), "obs_0": s, "action_0": a, "reward": -((a - 0.5) ** 2),
        "terminated": np.ones(n, bool), "truncated": np.zeros(n, bool),
        "behavior_prob": np.exp(-0.5 * a**2) / np.sqrt(2 * np.pi),
    }  # fmt: skip
    result = sb.evaluate(
        sb.Log(data), {"new": lambda obs: np.full(len(obs), 0.5)}, gamma=0.9,
        features="monomials:2", methods=["pdis"],
    )  # fmt: skip
    kernel = result.estimates[1]
    assert kernel.method == "PDIS, kernel"
    scale = sb.features.Scaling.of(a[:, None]).scale[0]
    by_bandwidth = [
        (np.exp(-0.5 * ((a - 0.5) / (h * scale)) ** 2) / (h * scale * np.sqrt(2 * np.pi))
         / data["behavior_prob"] * data["reward"]).mean()
        for h in BANDWIDTHS
    ]  # fmt: skip
    assert np.isclose(by_bandwidth, kernel.value, rtol=1e-9).sum() == 1
    assert abs(kernel.value) < 0.2 < 0.5 < abs(by_bandwidth[-1])  # the value is 0


def test_slope_takes_the_last_estimate_that_agrees_with_all_before_it():
    rng = np.random.default_rng(0)
    for _ in range(200):
        values, widths = rng.normal(size=6), rng.uniform(0.1, 2.0, 6)
        order = np.argsort(-widths)
        k = 0
        while k < 5 and all(
            abs(values[order[k + 1]] - values[j]) <= widths[order[k + 1]] + (6**0.5 - 1) * widths[j]
            for j in order[: k + 1]
        ):
            k += 1
        assert slope(values, widths) == order[k]


@pytest.mark.statistical
def test_pendulum():
    """A pendulum that swings up, with torques as they are; its value is simulated."""
    world, gamma = Pendulum(), 0.97

    def torque(obs):
        cos, sin, speed = obs.T
        lack = 1 - cos - speed**2 / 30
        swing = 2 * np.sign(lack) * np.tanh(2 * speed)
        return np.clip(np.where(cos > 0.8, -8 * sin - 2 * speed, swing), -2, 2)[:, None]

    def run(episodes, steps, gain, deviation, seed):
        rng = np.random.default_rng(seed)
        states = world.begin(episodes, rng)
        for t in range(steps):
            seen = world.see(states)
            noise = rng.standard_normal((episodes, 1))
            actions = gain * torque(seen) + deviation * noise
            states, reward, _ = world.move(states, 1.0 + actions[:, 0] / 2, rng)
            yield t, seen, actions[:, 0], reward, world.see(states)

    returns = sum(gamma**t * reward for t, _, _, reward, _ in run(4000, 250, 0.9, 0.5, 0))
    columns = {f"{prefix}obs_{k}": [] for prefix in ("", "next_") for k in range(3)}
    columns |= {name: [] for name in ("episode_id", "action_0", "reward", "truncated")}
    for t, seen, action, reward, after in run(100, 100, 0.7, 1.0, 1):
        for k in range(3):
            columns[f"obs_{k}"].append(seen[:, k])
            columns[f"next_obs_{k}"].append(after[:, k])
        columns["episode_id"].append(np.arange(100))
        columns["action_0"].append(action)
        columns["reward"].append(reward)
        columns["truncated"].append(np.full(100, t == 99))
    data = {name: np.stack(parts, axis=1).ravel() for name, parts in columns.items()}
    data["terminated"] = np.zeros(10_000, bool)
    policy = Gaussian(lambda obs: 0.9 * torque(obs), 0.25)
    result = sb.evaluate(sb.Log(data), {"new": policy}, gamma=gamma)
    low, high = result.verdicts[0].interval_with_gap
    assert low < returns.mean() < high
    assert abs(result.verdicts[0].value - returns.mean()) < 0.25 * returns.std()


@pytest.mark.slow
def test_order_of_episodes_and_names_of_columns_do_not_matter():
    data = simulate(24, 6, noise=0.05)
    options = {"gamma": GAMMA, "methods": []}
    policies = {"exact": pair, "drawn": Sampler(draw)}
    first = sb.evaluate(sb.Log(data), policies, **options)
    back = np.concatenate([np.arange(144).reshape(24, 6)[k] for k in range(23, -1, -1)])
    table = (
        pa.table(data)
        .take(back)
        .rename_columns([{"action_0": "dose", "action_1": "rate"}.get(name, name) for name in data])
    )
    log = sb.Log(table, columns={"action_0": "dose", "action_1": "rate"})
    second = sb.evaluate(log, policies, threads=2, **options)
    for one, other in zip(first.verdicts, second.verdicts, strict=True):
        assert (one.value, one.low, one.gap) == pytest.approx(
            (other.value, other.low, other.gap), rel=1e-7
        )


@pytest.mark.slow
def test_actions_far_from_the_logged_ones_are_refused():
    result = sb.evaluate(
        sb.Log(simulate(60, 6)), {"far": lambda obs: new(obs) + 9.0}, gamma=GAMMA, methods=[]
    )
    gate = next(gate for gate in result.verdicts[0].gates if gate.code == "SUPPORT")
    assert (gate.level, gate.value) == ("refused", 1.0)


def test_densities_that_contradict_the_actions_are_refused():
    data = simulate(200, 6)
    wrong = data | {"behavior_prob": 3.0 * data["behavior_prob"]}
    for log, level in ((data, "usable"), (wrong, "refused")):
        result = sb.evaluate(sb.Log(log), pair, gamma=GAMMA, features="monomials:2", methods=[])
        gates = {gate.code: gate.level for gate in result.verdicts[0].gates}
        assert gates["PROPENSITIES"] == level


@pytest.mark.slow
def test_result_is_saved_and_shown():
    result = sb.evaluate(sb.Log(simulate(40, 6)), pair, gamma=GAMMA, path=True)
    assert "policy as evaluated: action_0 " in result.text
    assert "actions: action_0, action_1" in result.text
    page = sb.report.evaluation_page(result)
    assert "monomials of observation and action up to degree 2" in page
