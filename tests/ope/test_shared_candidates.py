"""Features shared by all actions."""

import numpy as np
import pytest

from helpers.decision_logs import target
from helpers.logs import mixed
from saddleback import Log
from saddleback.log.target_policies import as_targets
from saddleback.ope.episode_sample import FOLDS, sample_episodes
from saddleback.ope.fold_sums import Rows
from saddleback.ope.marginal_dr import fit_basis
from saddleback.ope.shared_candidates import shared_candidates


@pytest.fixture(scope="module")
def sample():
    log = Log(mixed(3))
    return sample_episodes(log, as_targets({"new": target}, log), 4000)[0]


@pytest.fixture(scope="module")
def bases(sample):
    return list(shared_candidates(sample, "new", limit=60, max_waves=20))


def by_definition(basis, points, action):
    """φ(s, a) as in the module's docstring, from the draws of the basis."""
    waves = basis.encode
    x = waves.scaling(points)
    indicator = np.tile(np.eye(len(basis.phases))[action], (len(x), 1))
    waves = np.sqrt(2) * np.cos(x @ waves.frequencies + basis.phases[action] + waves.offsets)
    return np.column_stack([np.ones(len(x)), x, indicator, waves])


def test_expectations_are_sums_over_actions(sample, bases):
    assert len({basis.view.name for basis in bases}) == 3
    for basis in bases:
        rows = np.arange(len(sample.rewards))
        before, after, start = basis.before(rows), basis.after(rows), basis.start()
        actions = range(sample.n_actions)
        for features, points, pi in (
            (before, basis.view.before, np.eye(sample.n_actions)[sample.actions]),
            (after, basis.view.after, sample.next_pi["new"]),
            (start, basis.view.start, sample.start_pi["new"]),
        ):
            expected = sum(pi[:, [a]] * by_definition(basis, points, a) for a in actions)
            assert np.allclose(features, expected, atol=1e-6)  # waves have single precision


def test_weights_by_action_give_the_same_values(sample, bases):
    for basis in bases:
        p = basis.start().shape[1]
        theta = np.random.default_rng(0).normal(size=(5, p))
        blocks = basis.by_action(theta, sample.n_actions)
        encoded = basis.encode(basis.view.before)
        for a in range(sample.n_actions):
            expected = by_definition(basis, basis.view.before, a) @ theta[2]
            assert np.allclose(encoded @ blocks[2, a], expected, atol=1e-5)


def test_many_actions_have_more_of_them(sample, bases):
    few = list(shared_candidates(sample, "new", limit=600, max_waves=20))
    assert len(few) < len(bases)
    assert "linear, shared" in [basis.name for basis in bases]


def test_traces_are_those_of_tree_backup(sample):
    gamma, lam = 0.9, 0.7
    *_, basis = (
        one for one in shared_candidates(sample, "new", limit=60, max_waves=20, lam=lam) if one.lam
    )
    assert basis.name == "linear, shared, λ 0.7"
    fits = fit_basis(basis, Rows.shared(sample, "new", gamma), None, (1e-12,), (1.0,))
    n = len(sample.rewards)
    phi, after, first = basis.before(np.arange(n)), basis.after(np.arange(n)), basis.start()
    after = gamma * sample.continues[:, None] * after
    z = np.zeros((n, phi.shape[1]))
    for t in range(n):
        z[t] = phi[t]
        if sample.step[t]:
            pi = sample.next_pi["new"][t - 1]
            z[t] += gamma * lam * pi[sample.actions[t]] * z[t - 1]
    for k in range(FOLDS):
        own = sample.folds[sample.episode] == k
        A, b = z[~own].T @ (phi - after)[~own], z[~own].T @ sample.rewards[~own]
        theta = np.linalg.lstsq(A, b, rcond=1e-9)[0]
        x = first[sample.folds != k].sum(axis=0)
        u = np.linalg.lstsq(A.T, x, rcond=1e-9)[0]
        delta = sample.rewards - (phi - after) @ theta
        assert np.allclose(fits.delta[0, own, 0], delta[own], atol=1e-5)
        assert np.allclose(fits.ratio[0, own, 0], (z @ u)[own], atol=1e-5)
    none = shared_candidates(sample, "new", limit=60, max_waves=20)
    assert not any(one.lam for one in none)
