"""Logs with continuous actions, and the policies they can be evaluated for: input and errors."""

from __future__ import annotations

import numpy as np
import pytest

import saddleback as sb
from helpers.linear_quadratic import GAMMA, simulate
from saddleback.errors import InvalidParameter, UnknownName
from saddleback.log import LogError
from saddleback.log.continuous_targets import as_continuous_targets
from saddleback.policies import Gaussian, Sampler, named_columns

DATA = simulate(20, 4)
OWN = np.random.default_rng(0)


def actions(policy, states=((1.0, 1.0),) * 3):
    states = np.array(states)
    return as_continuous_targets({"new": policy}, sb.Log(DATA))[0].actions(states)


def zero(obs):
    return np.zeros((len(obs), 2))


def test_summary_names_the_columns_and_their_ranges():
    log = sb.Log(DATA)
    assert repr(log) == "Log(rows=80, observation=2, continuous action=2)"
    summary = log.summary()
    assert [name for name, *_ in summary.action_range] == ["action_0", "action_1"]
    low, high = DATA["action_0"].min(), DATA["action_0"].max()
    assert summary.action_range[0][1:] == (low, high)
    assert f"continuous actions   action_0 {low:.4g} to {high:.4g}" in summary.text
    assert summary.propensity == (
        DATA["behavior_prob"].min(), pytest.approx(np.median(DATA["behavior_prob"])),
    )  # fmt: skip


def test_written_log_is_the_same(tmp_path):
    path = sb.Log(DATA).write(tmp_path / "log.parquet", gamma=GAMMA)
    log = sb.Log(path)
    assert log.has_continuous_actions
    assert log.summary().action_range == sb.Log(DATA).summary().action_range


@pytest.mark.parametrize(
    ("covariance", "expected"),
    [
        (0.5, 0.5 * np.eye(2)),
        ([0.5, 1.0], np.diag([0.5, 1.0])),
        ([[1.0, 0.2], [0.2, 1.0]], [[1.0, 0.2], [0.2, 1.0]]),
        (lambda obs: np.tile([0.5, 1.0], (len(obs), 1)), np.diag([0.5, 1.0])),
        (lambda obs: np.tile(np.eye(2), (len(obs), 1, 1)), np.eye(2)),
    ],
    ids=["number", "variances", "matrix", "function of variances", "function of matrices"],
)
def test_forms_of_a_covariance(covariance, expected):
    matrices = actions(Gaussian(zero, covariance)).covariance
    assert np.array_equal(matrices, np.broadcast_to(expected, (3, 2, 2)))


def test_a_policy_that_writes_is_named():
    def centred(obs):
        obs -= 1.0
        return obs

    with pytest.raises(InvalidParameter, match="target 'new' policy: centred writes into the o"):
        actions(centred)


def test_columns_by_name():
    @named_columns
    def swapped(obs):
        return np.column_stack([obs["obs_1"], obs["obs_0"]])

    assert actions(swapped, np.array([[1.0, 2.0]])).mean.tolist() == [[2.0, 1.0]]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda obs: np.zeros((len(obs), 3)), r"returned shape \(\d+, 3\); expected \(n, 2\)"),
        (lambda obs: np.full((len(obs), 2), np.nan), "gives NaN or infinite actions for"),
        (lambda obs: obs["x"], "policy failed: IndexError"),
        (Gaussian(zero, -1.0), "a covariance that is not symmetric and ≥ 0"),
        (Gaussian(zero, [[1.0, 0.5], [0.0, 1.0]]), "a covariance that is not symmetric"),
        (Gaussian(zero, np.eye(3)), r"expected variances \(2\) or matrices \(2, 2\)"),
        (Sampler(lambda obs, rng: np.zeros(3)), r"returned shape \(3,\)"),
    ],
    ids=["shape", "NaN", "failure", "negative", "asymmetric", "size", "sampler"],
)
def test_wrong_policies_are_refused(policy, message):
    with pytest.raises(LogError, match=message):
        sb.evaluate(sb.Log(DATA), {"new": policy}, gamma=GAMMA)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "uniform"}, "'uniform' is a policy of discrete actions"),
        ({"target": 3}, "must be a function from observations .* got int"),
        ({"target": {}}, "no target policy: pass at least one"),
        ({"target": {1: zero}}, "names of target policies must be strings, got 1"),
        ({"features": "tiles:8x4"}, "monomials:2, random-fourier:100, or module.py:function"),
        ({"features": lambda obs, actions: obs[0]}, "must return \\[2, size\\]"),
        ({"rule": "GES:0"}, "rule is for discrete actions"),
        ({"target": Sampler(lambda obs, rng: OWN.normal(size=(len(obs), 2)))}, "same generator"),
        ({"target": lambda obs: obs - obs.mean(axis=0)}, "treat each row alone"),
    ],
)
def test_wrong_options_are_refused(options, message):
    options = {"target": zero, "gamma": GAMMA} | options
    with pytest.raises(InvalidParameter, match=message):
        sb.evaluate(sb.Log(DATA), **options)


def test_methods_that_are_not_for_continuous_actions():
    with pytest.raises(UnknownName, match="Known: fqe, is, pdis, wis, pdwis, dr, wdr"):
        sb.evaluate(sb.Log(DATA), zero, gamma=GAMMA, methods=["svrg"])


def test_methods_that_need_densities():
    bare = {name: column for name, column in DATA.items() if name != "behavior_prob"}
    assert any("no densities" in str(f) for f in sb.Log(bare).summary().findings)
    with pytest.raises(InvalidParameter, match="'pdis' needs the densities"):
        sb.evaluate(sb.Log(bare), zero, gamma=GAMMA, methods=["pdis"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action_1": np.full(80, np.nan)}, "action_1 is NaN in"),
        ({"action_0": np.full(80, "left")}, "'action_0' contains text; continuous actions are"),
        ({"action_3": np.zeros(80)}, "column 'action_2' is missing, but 'action_3' exists"),
        ({"behavior_prob": np.zeros(80)}, "behavior_prob is 0 on"),
    ],
)
def test_wrong_logs_are_refused(change, message):
    with pytest.raises(LogError, match=message):
        sb.evaluate(sb.Log(DATA | change), zero, gamma=GAMMA)


def test_a_column_of_numbers_is_told_how_to_be_named():
    data = {name: column for name, column in DATA.items() if not name.startswith("action_")}
    with pytest.raises(LogError, match="those of continuous actions are named action_0"):
        sb.Log(data | {"action": DATA["action_0"]})
    with pytest.raises(LogError, match="action_0, action_1, … if it is continuous"):
        sb.Log(data)


def test_what_needs_discrete_actions_says_so():
    log = sb.Log(DATA)
    with pytest.raises(InvalidParameter, match="continuous actions"):
        sb.estimate_behaviour(log)
    with pytest.raises(InvalidParameter, match="continuous actions"):
        sb.importance_sampling(log, zero, gamma=GAMMA)
    with pytest.raises(InvalidParameter, match="names discrete actions"):
        sb.Log(DATA, actions=["a", "b"])


def test_bad_episodes_are_dropped():
    broken = DATA["action_0"].copy()
    broken[5] = np.inf
    log = sb.Log(DATA | {"action_0": broken}, drop_bad="episode")
    assert log.summary().episodes == 19
