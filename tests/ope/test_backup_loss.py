"""Losses of predicting Bellman backups: against a plain regression, and what they are good for."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.families import FAMILIES

import saddleback as sb
from helpers.decision_logs import target
from helpers.logs import columns, mixed
from saddleback.features import Monomials, Scaling
from saddleback.log.target_policies import as_targets
from saddleback.ope.backup_loss import common_goals, excess, pilots, value_range
from saddleback.ope.candidates import Basis, candidates, views
from saddleback.ope.consensus import find_consensus
from saddleback.ope.diagnosis import _outside
from saddleback.ope.episode_sample import sample_episodes
from saddleback.ope.fold_sums import Rows
from saddleback.ope.hidden_state import relative_loss, share_of_history
from saddleback.ope.marginal_dr import fit_basis
from saddleback.ope.sandwich import Interval
from saddleback.ope.state_candidates import StateBasis


def sample_of(log, **options):
    return sample_episodes(log, as_targets({"new": target}, log), 10_000, **options)[0]


@pytest.mark.parametrize("horizon", [None, 3])
@pytest.mark.parametrize(("ridge", "pooling"), [(1e-4, 1.0), (0.1, 100.0)])
def test_losses_equal_those_of_a_plain_ridge_regression(horizon, ridge, pooling):
    sample = sample_of(sb.Log(mixed(3, d=2)))
    (view, *_) = views(sample)
    basis = Basis("linear", view, Monomials(Scaling.of(sample.states), 1))
    rows = Rows.of(sample, "new", 0.9)
    goals = np.random.default_rng(0).normal(size=(len(sample.rewards), 2))
    fits = fit_basis(basis, replace(rows, goals=goals[rows.order]), horizon, (ridge,), (pooling,))
    K, features = sample.n_actions, basis.encode(sample.states)
    m = features.shape[1]
    phi = np.zeros((len(features), K, m))
    phi[np.arange(len(phi)), sample.actions] = features
    phi = phi.reshape(len(phi), -1)
    squares = np.zeros(2)
    for fold in range(5):
        train = sample.folds[sample.episode] != fold
        M = phi[train].T @ phi[train]
        scale = np.diag(M).reshape(K, m).sum(axis=0) / K
        apart = np.kron(np.eye(K) - np.ones((K, K)) / K, np.diag(scale))
        alike = np.kron(np.ones((K, K)) / K, np.diag(scale * (np.arange(m) > 0)))
        M += ridge * (pooling * apart + alike)
        theta = np.linalg.solve(M, phi[train].T @ goals[train])
        squares += ((goals[~train] - phi[~train] @ theta) ** 2).sum(axis=0)
    assert np.allclose(fits.loss[0], squares / len(phi), rtol=1e-6)


def test_goals_are_rewards_and_their_sums_with_possible_next_values():
    sample = sample_of(sb.Log(columns([8] * 60, "terminated")))
    bases = list(candidates(sample, (20, 40), 60))
    both = Rows.of(sample, "new", 0.9), Rows.shared(sample, "new", 0.9)
    goals = common_goals(*both, bases, sample, 0.9, None)
    assert np.array_equal(goals[:, 0], sample.rewards)
    assert goals.shape[1] == 1 + len(pilots(bases)) > 4
    ended = ~sample.continues
    assert ended.any()
    assert (goals[ended] == sample.rewards[ended, None]).all()
    low, high = value_range(sample, 0.9, None)
    values = goals - sample.rewards[:, None]
    assert min(low, 0.0) <= values.min() < values.max() <= max(high, 0.0)
    kinds = [basis.kind[1] for basis in pilots(bases)]
    assert kinds == ["linear", "quadratic", "random Fourier", "cells"]
    for gamma, horizon in ((0.0, None), (0.9, 1)):  # without later values there are rewards alone
        assert common_goals(*both, bases, sample, gamma, horizon).shape[1] == 1


def test_goals_of_a_horizon_are_values_after_its_first_step_and_in_its_middle():
    """Rewards of 1: the values of 6 and of 3 further steps, whatever the fold."""
    data = columns([7] * 60, "truncated") | {"reward": np.ones(420)}
    sample = sample_of(sb.Log(data, time_limit="task"))
    bases = list(candidates(sample, (20, 40), 60))
    both = Rows.of(sample, "new", 1.0), Rows.shared(sample, "new", 1.0)
    goals = common_goals(*both, bases, sample, 1.0, 7)
    assert goals.shape[1] == 1 + 2 * len(pilots(bases))
    assert np.allclose(goals[:, 1::2], 7.0, rtol=0.02)
    assert np.allclose(goals[:, 2::2], 4.0, rtol=0.02)


def test_range_of_values():
    """A step costs 1, and there is at least one."""
    data = columns([5] * 20, "terminated") | {"reward": np.full(100, -1.0)}
    sample = sample_of(sb.Log(data))
    assert value_range(sample, 0.5, None) == (-2.0, -1.0)
    assert value_range(sample, 0.5, 2) == (-1.5, -1.0)
    assert value_range(sample, 1.0, 7) == (-7.0, -1.0)
    assert value_range(sample, 1.0, None) == (-100.0, -1.0)


def test_excess_is_that_over_the_best_of_each_goal_that_is_predicted():
    losses = np.array([[1.0, 9.0, np.nan], [10.0, 5.0, np.inf], [np.nan, 5.0, np.inf]])
    assert np.allclose(excess(losses[:2]), np.sqrt([(0 + 4) / 2, (9 + 0) / 2]))
    assert np.array_equal(excess(losses), [np.sqrt(2), np.sqrt(4.5), np.inf])
    assert np.array_equal(excess(losses[:, 2:]), np.zeros(3))


@pytest.mark.parametrize("reward", [1.0, 0.1, -3.0])
def test_goals_that_are_constant_do_not_tell_whether_the_history_predicts_more(reward):
    """Their losses are rounding errors, of any ratio."""
    varying = np.random.default_rng(0).normal(size=100)
    goals = np.column_stack([np.full(100, reward), varying])
    history, observation = np.array([[3e-17, 0.4]]), np.array([[7e-21, 1.0]])
    assert relative_loss(history, observation, goals) == pytest.approx(0.4, rel=1e-4)
    assert relative_loss(history[:, :1], observation[:, :1], goals[:, :1]) == 1.0


@pytest.mark.slow  # two logs of a board of 64 cells
def test_exact_features_lead_where_transitions_are_deterministic():
    """With few episodes no marginal ratio is in balance, but a feature per cell predicts backups.

    Before losses were heard, smooth features led here, and the error was 0.12.
    """
    case = FAMILIES["gridworld"].case("near", 0, 64)
    result = sb.evaluate(case.as_log(), case.target, gamma=case.gamma, methods=[])
    consensus = result.diagnoses[0].consensus
    leading = max(consensus.candidates, key=lambda one: one.primal)
    assert "cells" in leading.basis or "distinct values" in leading.basis
    assert abs(result.verdicts[0].value - case.truth) < 0.09


@pytest.mark.slow  # a task of 250 steps
def test_primals_with_impossible_values_have_no_weight():
    """Every step costs 1, so that no value is above −1; some candidates extrapolate to +20."""
    case = FAMILIES["graph-mc"].case("far", 2, 128)
    result = sb.evaluate(
        case.as_log(), case.target, gamma=case.gamma, methods=[], allow_uncovered=True
    )
    consensus = result.diagnoses[0].consensus
    own = [one for one in consensus.candidates if one.view == "observation"]
    impossible = [one for one in own if one.value > 10]
    assert impossible
    assert sum(one.primal for one in impossible) < 0.01


@pytest.mark.parametrize(
    ("value", "error", "distance"),
    [(5.0, 0.0, 0.0), (5.00001, 0.0, 0.0), (5.001, 0.0, 2e-4), (6.0, 0.0, 0.2), (6.0, 0.4, 0.04)],
)
def test_a_value_beyond_the_horizon_is_outside_the_range(value, error, distance):
    """Rewards of 1 for 5 steps."""
    interval = Interval(value, value, value, 0.95, error, "V^π", "", 60)
    counts = SimpleNamespace(rewards=(0.0, 1.0))
    assert _outside(interval, counts, 1.0, 300, 5) == pytest.approx(distance)
    assert _outside(interval, counts, 1.0, 300, None) == 0.0


@pytest.mark.parametrize("seed", [0, 1])
def test_the_history_leads_although_the_observation_predicts_rewards_exactly(seed):
    """The reward is the parity x of two observed bits; x' is probably 1 if an action is repeated.

    π repeats an action with probability 0.9² + 0.1² = 0.82, after which x' = 1 with probability
    0.9, so that x has the mean 0.82·0.9 + 0.18·0.1 = 0.756 from the third step on, and 0.5 before.
    """
    rng = np.random.default_rng(seed)
    E, T, gamma = 150, 10, 0.9
    actions = rng.integers(0, 2, (E, T))
    x = rng.integers(0, 2, (E, T))
    for t in range(2, T):
        repeated = actions[:, t - 1] == actions[:, t - 2]
        x[:, t] = rng.random(E) < np.where(repeated, 0.9, 0.1)
    bit = rng.integers(0, 2, (E, T))
    data = {
        "episode_id": np.repeat(np.arange(E), T), "obs_0": bit.ravel(),
        "obs_1": (bit ^ x).ravel(), "action": actions.ravel(), "reward": x.ravel().astype(float),
        "terminated": np.tile(np.arange(T) == T - 1, E), "truncated": np.zeros(E * T, bool),
    }  # fmt: skip
    log = sb.Log(data)
    policy = as_targets({"new": lambda seen: np.tile([0.1, 0.9], (len(seen), 1))}, log)
    consensus = find_consensus(
        sample_episodes(log, policy, 10_000)[0], "new", gamma, thorough=False
    )
    assert consensus.view == "history"
    means = np.append([0.5, 0.5], np.full(T - 2, 0.756))
    assert consensus.value == pytest.approx(means @ gamma ** np.arange(T), abs=5 * consensus.error)


@pytest.mark.slow
def test_the_history_leads_where_it_predicts_backups_clearly_better():
    """The first action decides the reward of the second step: 50 episodes are enough to see it."""
    case = FAMILIES["model-fail"].case("far", 1, 50)
    result = sb.evaluate(case.as_log(), case.target, gamma=case.gamma, methods=[])
    assert result.diagnoses[0].consensus.view == "history"
    assert abs(result.verdicts[0].value - case.truth) < 0.1 * case.spread
    assert result.verdicts[0].trust != "usable"


def test_the_history_does_not_lead_where_it_predicts_backups_much_worse():
    residuals, none = 5.0 + np.arange(100) % 2, np.zeros(100)
    assert share_of_history(residuals, none, residuals, 0.0, 1.2) > 0.99
    assert share_of_history(residuals, none, residuals, 0.0, 1.3) == 0.0


def test_the_history_does_not_lead_where_its_estimate_is_imprecise():
    noise = np.array([-1.0, 1.0] * 50)
    history = 0.5 + noise
    arguments = {"residuals": noise, "observation": 0.4 * noise, "history": history}
    assert not share_of_history(**arguments, dispersion=0.0, relative=0.9)
    assert share_of_history(**arguments, dispersion=0.0, relative=0.4)
    assert share_of_history(
        **arguments | {"history": 0.5 + 0.7 * noise}, dispersion=0.0, relative=0.9
    )
    assert share_of_history(**arguments, dispersion=0.2, relative=0.4)
    assert not share_of_history(**arguments, dispersion=0.3, relative=0.4)


@pytest.mark.parametrize(
    ("rewards", "gamma", "horizon", "expected"),
    [
        ((-2.0, 1.0), 0.5, None, (-4.0, 2.0)),
        ((-2.0, 1.0), 0.5, 3, (-3.5, 1.75)),
        ((1.0, 3.0), 0.5, None, (1.0, 6.0)),
        ((-3.0, -1.0), 1.0, 2, (-6.0, -1.0)),
        ((0.0, 1.0), 1.0, None, (0.0, 4.0)),
        ((-1.0, 0.0), 0.0, None, (-1.0, 0.0)),
    ],
)
def test_values_are_between_those_of_one_step_and_of_all(rewards, gamma, horizon, expected):
    sample = SimpleNamespace(rewards=np.array([*rewards, *rewards]))
    assert value_range(sample, gamma, horizon) == expected


def test_pilots_are_the_middle_ones_of_their_kind():
    def basis(name, view="observation", lam=0.0):
        return Basis(name, SimpleNamespace(name=view), None, lam=lam)

    bases = [
        basis("constant"), basis("random Fourier 10, bandwidth 1"), basis("linear"),
        basis("random Fourier 20, bandwidth 2"), basis("linear", "step"),
        basis("random Fourier 30, bandwidth 4"), basis("linear, λ 0.9", lam=0.9),
        basis("7 cells", "features"), basis("9 cells"),
    ]  # fmt: skip
    weighted = StateBasis("weighted linear", SimpleNamespace(name="observation"), None)
    bases.append(weighted)
    chosen = ["random Fourier 20, bandwidth 2", "linear", "7 cells", "9 cells"]
    assert [one.name for one in pilots(bases)] == chosen


@pytest.mark.parametrize(("horizon", "steps"), [(None, [0]), (2, [0]), (3, [0, 1]), (8, [0, 4])])
def test_goals_are_clipped_to_what_is_possible(monkeypatch, horizon, steps):
    """Values that are not finite are left out; sums with 0 are always possible."""
    module = importlib.import_module("saddleback.ope.backup_loss")
    sample = SimpleNamespace(rewards=np.array([1.0, 2.0, 1.5]))
    calls = []

    def fitted(basis, rows, horizon, ridges, pooling, *, steps):
        calls.append((basis.name, rows, ridges, pooling, steps))
        values = {"linear": [9.0, -3.0, 99.0], "7 cells": [np.inf, 1.0, 1.0]}[basis.name]
        return SimpleNamespace(following=np.array(values)[None, :, None])

    monkeypatch.setattr(module, "fit_basis", fitted)
    bases = [Basis(name, SimpleNamespace(name="features"), None) for name in ("linear", "7 cells")]
    high = value_range(sample, 0.5, horizon)[1]
    goals = common_goals("own", "shared", bases, sample, 0.5, horizon)
    expected = [[r, r + v] for r, v in ((1.0, high), (2.0, 0.0), (1.5, high))]
    assert goals.tolist() == expected
    assert calls == [(basis.name, "own", (1e-3,), (1.0,), steps) for basis in bases]
    with_pool = common_goals("own", "shared", bases, sample, 0.5, horizon, SimpleNamespace(map=map))
    assert np.array_equal(with_pool, goals)
    sample.rewards = -sample.rewards
    low = value_range(sample, 0.5, horizon)[0]
    least = [[r, r + v] for r, v in ((-1.0, 0.0), (-2.0, max(-3.0, low)), (-1.5, 0.0))]
    assert common_goals("own", "shared", bases, sample, 0.5, horizon).tolist() == least


def test_goals_of_shared_features_have_one_penalty(monkeypatch):
    module = importlib.import_module("saddleback.ope.backup_loss")
    calls = []

    def fitted(basis, rows, horizon, ridges, pooling, *, steps):
        calls.append((rows, ridges, pooling))
        return SimpleNamespace(following=np.zeros((1, 2, 1)))

    monkeypatch.setattr(module, "fit_basis", fitted)
    shared = SimpleNamespace(
        name="linear, shared", view=SimpleNamespace(name="observation"), lam=0.0, kind=("s", "l"),
        is_shared=True, is_weighted=False,
    )  # fmt: skip
    common_goals("own", "shared", [shared], SimpleNamespace(rewards=np.ones(2)), 0.5, None)
    assert calls == [("shared", (1e-3,), (100.0,))]


def scores_of(mean, spread, n=100):
    """Scores of n episodes of this mean and standard deviation."""
    return mean + spread * np.where(np.arange(n) % 2, 1.0, -1.0)


def decides(*, change=0.0, spread=1.0, own=1.0, residual=0.0, dispersion=0.0, relative=1.0):
    """Return the share of the estimate by the history."""
    observation = scores_of(3.0, own)
    history = observation + change + scores_of(0.0, spread) - scores_of(0.0, own)
    return share_of_history(scores_of(residual, 1.0), observation, history, dispersion, relative)


ERROR = 1 / 99**0.5
"""Standard error of 100 scores of standard deviation 1."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # What the duals find, in standard errors.
        ({"residual": 3.01 * ERROR}, True), ({"residual": -3.01 * ERROR}, True),
        ({"residual": 2.99 * ERROR}, False), ({"residual": 0.0}, False),
        ({"residual": 3.01 * ERROR, "relative": 1.25}, True),
        ({"residual": 9.0, "relative": 1.26}, False),
        # A history that predicts more: its loss, precision, and how much it changes.
        ({"change": 0.5, "relative": 0.94, "own": 0.51}, True),
        ({"change": 0.5, "relative": 0.95, "own": 0.51}, False),
        ({"change": 0.5, "relative": 0.94, "own": 0.49}, False),
        ({"change": 0.5, "relative": 0.51, "own": 0.49}, False),
        ({"change": 0.5, "relative": 0.49, "own": 0.49}, True),
        ({"change": 0.5, "relative": 0.50, "own": 0.49}, False),
        ({"change": 0.5, "relative": 0.4, "dispersion": 0.249}, True),
        ({"change": -0.5, "relative": 0.4, "dispersion": 0.249}, True),
        ({"change": 0.5, "relative": 0.4, "dispersion": 0.251}, False),
        ({"change": 2.01 * ERROR, "relative": 0.4, "own": 0.0}, True),
        ({"change": 1.99 * ERROR, "relative": 0.4, "own": 0.0}, False),
    ],
)  # fmt: skip
def test_what_the_history_must_show_to_be_preferred(options, expected):
    assert decides(**options) == expected


@pytest.mark.parametrize("change", [0.5, -0.5, 0.25])
@pytest.mark.parametrize("dispersion", [0.0, 0.1])
def test_of_an_imprecise_change_the_share_beyond_noise_counts(change, dispersion):
    """That of the windowed ratios: nothing up to two standard errors, nearly all of large ones."""
    options = {"change": change, "own": 0.4, "dispersion": dispersion, "relative": 0.9}
    changes = change + scores_of(0.0, 1.0 - 0.4)
    noise = np.hypot(changes.std(ddof=1) / 10.0, dispersion)
    expected = max(0.0, 1.0 - (2.0 * noise / change) ** 2)
    assert decides(**options, residual=4 * ERROR) == pytest.approx(expected)
    assert decides(**options, residual=2 * ERROR) == 0.0
    assert decides(**options | {"own": 0.6}, residual=4 * ERROR) == 1.0
    assert decides(**options | {"relative": 0.4}, residual=4 * ERROR) == 1.0


def test_scores_that_do_not_vary_are_sure():
    same = np.zeros(5)
    assert share_of_history(same, same, same, 0.0, 1.0) == 0.0
    assert share_of_history(same + 1e-9, same, same, 0.0, 1.0) == 1.0


def test_losses_are_compared_by_the_best_candidate_as_shares_of_the_variance():
    rng = np.random.default_rng(0)
    goals = rng.normal(size=(30, 4)) * [1.0, 2.0, 1e-4, 0.0] + [0.0, 5.0, 1.0, 3.0]
    history, observation = rng.exponential(size=(5, 4)), rng.exponential(size=(3, 4))
    history[0, 0], observation[1, 1] = np.nan, np.inf
    shares = [1e-6, 1e-6]
    for k in range(3):  # the last goal does not vary
        for view, one in enumerate((history, observation)):
            best = min(x for x in one[:, k] if np.isfinite(x))
            shares[view] += best / goals[:, k].var() / 3
    assert relative_loss(history, observation, goals) == pytest.approx(shares[0] / shares[1])
    observation[:, 2] = np.inf  # of a goal without a loss nothing is known
    first = relative_loss(history[:, :2], observation[:, :2], goals[:, :2])
    assert relative_loss(history, observation, goals) == pytest.approx(first)


@pytest.mark.parametrize("size", [1.0, 100.0])
@pytest.mark.parametrize(("spread", "varies"), [(1.1e-6, True), (0.9e-6, False)])
def test_goals_that_vary_by_less_than_a_millionth_do_not_count(spread, varies, size):
    goals = np.column_stack([size * (1.0 + spread * np.where(np.arange(40) % 2, 1.0, -1.0))])
    ratio = relative_loss(np.full((1, 1), 0.0), np.full((1, 1), 1.0), goals)
    assert ratio == pytest.approx(1e-6 * (size * spread) ** 2 if varies else 1.0, rel=1e-3)
