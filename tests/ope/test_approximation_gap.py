"""Estimates of the bias of the fixed point."""

from __future__ import annotations

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import (
    FOURIER,
    always,
    random_decisions,
    table_log,
    target,
)
from helpers.intervals import interval_from_blocks, score_episodes
from helpers.logs import columns, mixed
from saddleback.features import Custom, OneHot
from saddleback.log import as_target
from saddleback.ope.approximation_gap import (
    Gap,
    ResidualProblem,
    gap_allowance,
    ridge_gap,
    trace_gap,
    unvisited_gap,
)
from saddleback.ope.log_pass import EncodeOnce, read_log
from saddleback.ope.partition import Cells
from saddleback.ope.sandwich import Interval


def test_inactive_features_get_the_value_of_other_actions():
    """Brute force: set Q of actions never taken to the mean of the others, and solve again."""
    states, actions = [0, 1, 2, 0, 1, 2, 0, 1], [0, 0, 1, 1, 0, 1, 0, 0]
    rewards = [1.0, 2.0, 3.0, -1.0, 0.5, 2.0, 4.0, 1.0]
    log = table_log(states, actions, rewards, [3, 3, 2])
    rule, pi, gamma = sb.GES(0.0), np.array([0.4, 0.6]), 0.9
    sums = sb.Statistics.of(log, rule, always(*pi), features=OneHot(3), gamma=gamma)
    name = sums.setting.targets[0]
    theta = sums.solve(rule, name).theta

    def q(fill):
        """Solve for Q by the mean of what followed each pair, with others filled in."""
        taken = {}
        for t, (s, a) in enumerate(zip(states, actions, strict=True)):
            over = t in (2, 5, 7)
            taken.setdefault((s, a), []).append((rewards[t], None if over else states[t + 1]))
        A, b = np.eye(6), np.zeros(6)
        for s in range(3):
            for a in range(2):
                k = 2 * s + a
                if (s, a) not in taken:
                    b[k] = fill.get((s, a), 0.0)
                    continue
                for reward, after in taken[s, a]:
                    b[k] += reward / len(taken[s, a])
                    if after is not None:
                        A[k, 2 * after : 2 * after + 2] -= gamma * pi / len(taken[s, a])
        return np.linalg.solve(A, b)

    plain = q({})
    np.testing.assert_allclose(theta, plain, atol=1e-10)
    start = np.mean([np.outer(np.eye(3)[s], pi).ravel() for s in (0, 0, 0)], axis=0)
    filled = q({(1, 1): plain[2], (2, 0): plain[5]})
    expected = abs((filled - plain) @ start)
    assert expected > 0.1
    assert unvisited_gap(sums, rule, name, theta, 0.0) == pytest.approx(expected, rel=1e-9)


def test_the_unvisited_gap_is_zero_if_all_features_are_active():
    log = random_decisions(0, episodes=100)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.5, 0.5), features=OneHot(5), gamma=0.9)
    theta = sums.solve(sb.GES(0.0), 0).theta
    assert unvisited_gap(sums, sb.GES(0.0), sums.setting.targets[0], theta, 0.0) == 0.0


def test_the_trace_gap_is_the_change_without_a_trace():
    """Against a solution with the sums of λ = 0 alone; None where there is nothing to compare."""
    log, pi = sb.Log(mixed(4, d=2)), always(0.2, 0.3, 0.5)
    features = sb.features.Fourier((-3.0, -3.0), (3.0, 3.0), order=1)

    def sums_of(*rules):
        return sb.Statistics.of(log, list(rules), pi, features=features, gamma=0.9)

    def value_of(sums, rule):
        return float(sums.solve(rule, name).theta @ sums.start(name))

    both = sums_of(sb.GES(0.8), sb.GES(0.0))
    name = both.setting.targets[0]
    value = value_of(both, sb.GES(0.8))
    expected = abs(value - value_of(sums_of(sb.GES(0.0)), sb.GES(0.0)))
    assert expected > 1e-3
    assert trace_gap(both, sb.GES(0.8), name, value, 0.0) == pytest.approx(expected, rel=1e-9)
    assert trace_gap(both, sb.GES(0.0), name, value, 0.0) is None
    assert trace_gap(sums_of(sb.GES(0.8)), sb.GES(0.8), name, value, 0.0) is None


def test_a_gap_is_the_largest_of_its_parts():
    assert Gap().value == 0.0
    assert Gap(unvisited=0.5, residual=None, self_check=2.0, agreement=1.0).value == 2.0
    assert Gap(residual=0.5, hidden=2.0).value == 2.0
    assert Gap(residual=3.0).parts == {
        "unvisited": None, "residual": 3.0, "trace": None, "ridge": None, "self_check": None,
        "agreement": None, "consensus": None, "hidden": None,
        "allowance": None,
    }  # fmt: skip


def residual_of(log, policy, features, gamma, rule, most=64, segment=None):
    """Return V̂ and the residual problem's value, as diagnosing does."""
    if segment is not None:
        log = log.with_options(segment=segment)
    sums = sb.Statistics.of(log, rule, policy, features=features, gamma=gamma)
    cells = EncodeOnce(Cells.of(log.sample().states, most))
    chosen = as_target(policy, log, sums.setting.targets[0])
    residual = ResidualProblem(cells, chosen, log.n_actions, gamma)
    (scored,) = score_episodes(
        log, sums, [chosen], features=features, rule=rule, ridge=0.0, on_deltas=residual.add
    )
    return scored.value, residual.value()


@pytest.mark.parametrize("seed", range(4))
def test_the_residual_finds_what_poor_features_miss(seed):
    """With a cell for each state, V̂ and the value of its TD errors add up to V^π."""
    problem = sb.problems.random_mdp(0.9, rng=seed, off_policy=0.5, termination=0.2)
    truth = float(problem.mdp.start @ (problem.target * problem.mdp.q(problem.target)).sum(axis=1))
    poor = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    log = sb.collect(problem, episodes=3000, rng=seed)
    value, gap = residual_of(log, problem.target, poor, 0.9, sb.GES(0.0))
    exact = sb.Statistics.of(log, sb.GES(0.0), problem.target, features=OneHot(6), gamma=0.9)
    assert abs(value + gap - truth) < 4 * interval_from_blocks(exact).error


def test_the_residual_of_exact_features_is_zero():
    log = random_decisions(2, episodes=300)
    _, gap = residual_of(log, always(0.3, 0.7), OneHot(5), 0.9, sb.GES(0.0))
    assert abs(gap) < 1e-6


@pytest.mark.kernel
def test_the_residual_does_not_depend_on_segmentation():
    log = sb.Log(mixed(3))
    one, two = (
        residual_of(log, target, FOURIER, 0.9, sb.GRetrace(0.5), most=8, segment=segment)
        for segment in (1 << 16, 3)
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_the_allowance_is_twice_what_needs_no_log():
    assert gap_allowance(1.0, 0.5, -0.25) == 3.5
    assert gap_allowance(1.0, None, None) == 2.0


def test_the_ridge_gap_widens_an_interval_to_that_without_the_ridge():
    def interval(low, high):
        return Interval(0.0, low, high, 0.95, 1.0, "", "", 9)

    own = interval(-1.0, 2.0)
    for low, high, gap in (
        (-1.5, 2.25, 0.5), (-1.25, 2.75, 0.75), (-0.5, 1.0, 0.0), (-4.0, 1.0, 3.0),
    ):  # fmt: skip
        assert ridge_gap(own, interval(low, high)) == gap
    assert np.isnan(ridge_gap(own, interval(np.nan, 3.0)))


def test_a_gap_of_unknown_size_is_unknown():
    assert np.isnan(Gap(unvisited=1.0, trace=np.nan).value)
    assert Gap(unvisited=0.0).value == 0.0


@pytest.mark.parametrize("shared", [False, True])
def test_shared_features_are_not_filled_in(shared):
    """Weights of inactive features move to the mean of active ones, which are solved again."""
    states, actions = [0, 1, 2, 0, 1, 2, 0, 1], [0, 0, 1, 1, 0, 2, 0, 0]
    log = table_log(states, actions, np.arange(8.0), [3, 3, 2], K=3)
    rule, ridge = sb.GES(0.4), 0.05
    sums = sb.Statistics.of(
        log, rule, always(0.4, 0.5, 0.1), features=OneHot(4), gamma=0.9, shared=shared
    )
    name, n = sums.setting.targets[0], 8
    theta = sums.solve(rule, name, ridge).theta
    copies = 4 if shared else 3
    squares = np.diag(sums.M).reshape(4, copies)
    z = np.zeros((4, copies))
    for k in range(3):  # the fourth feature is never active
        active = [a for a in range(3) if squares[k, a] > 0]
        weight = sum(squares[k, a] for a in active)
        mean = sum(squares[k, a] * theta.reshape(4, copies)[k, a] for a in active) / weight
        for a in range(3):
            z[k, a] = 0.0 if a in active else mean
    A, b = sums.A[0, 0].sum(axis=0) / n, sums.b[0, 0].sum(axis=0) / n
    solved = sums.span.solve(A, b + A @ z.ravel(), ridge).theta + z.ravel()
    expected = abs((solved - theta) @ sums.start(name))
    assert expected > 0.01
    assert unvisited_gap(sums, rule, name, theta, ridge) == pytest.approx(expected)


def test_features_of_states_are_not_filled_in():
    log = table_log([0, 1, 0, 1], [0, 1, 1, 0], np.ones(4), [2, 2])
    rule = sb.ETD(0.0)
    sums = sb.Statistics.of(log, rule, always(0.5, 0.5), features=OneHot(3), gamma=0.9)
    theta = sums.solve(rule, 0).theta
    assert unvisited_gap(sums, rule, sums.setting.targets[0], theta, 0.0) == 0.0


@pytest.mark.kernel
def test_the_residual_problem_is_a_regression_of_errors_in_cells():
    """One episode at a time; of a truncated one, the next value is that of the cell it led to."""
    data = columns([3, 1, 4, 2, 5], ["terminated", "truncated"] * 2 + ["truncated"], d=1)
    data = {name: part for name, part in data.items() if name != "obs_1"}
    log = sb.Log(data, segment=4)
    cells = Cells.of(log.sample().states, 4)

    def policy(x):
        return np.column_stack(
            [0.2 + 0.1 * (x[:, 0] > 0), 0.5 - 0.1 * (x[:, 0] > 0), 0.3 + 0 * x[:, 0]]
        )

    chosen = as_target(policy, log, "new")
    residual = ResidualProblem(EncodeOnce(cells), chosen, 3, 0.9)
    deltas = np.random.default_rng(0).normal(size=15)

    class Adds:
        done = 0

        def add(self, batch):
            n = len(batch.segment)
            residual.add(batch, deltas[self.done : self.done + n])
            self.done += n
            return ()

    read_log(log, [Adds()], [chosen])
    x, after = data["obs_0"], data["next_obs_0"]
    p = 12

    def phi(point, weights):
        out = np.zeros((4, 3))
        out[cells.find(np.array([[point]]))[0]] = weights
        return out.ravel()

    def pi(point):
        return policy(np.array([[point]]))[0]

    A, b, M, start = np.zeros((p, p)), np.zeros(p), np.zeros((p, p)), np.zeros(p)
    for t in range(15):
        now = phi(x[t], np.eye(3)[data["action"][t]])
        last = t == 14 or data["episode_id"][t + 1] != data["episode_id"][t]
        following = np.zeros(p)
        if not last or data["truncated"][t]:
            point = after[t] if last else x[t + 1]
            following = 0.9 * phi(point, pi(point))
        A += np.outer(now, following - now) / 15
        b += deltas[t] * now / 15
        M += np.outer(now, now) / 15
        if t == 0 or data["episode_id"][t - 1] != data["episode_id"][t]:
            start += phi(x[t], pi(x[t])) / 5
    active = np.diag(M) > 0
    ridged = (A - 1e-4 * np.diag(np.diag(M)))[np.ix_(active, active)]
    eta = np.linalg.solve(ridged, -b[active])
    assert residual.value() == pytest.approx(eta @ start[active], rel=1e-7)
