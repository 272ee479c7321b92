"""Situations for the verdict: their truth is true."""

import numpy as np
import pytest
from benchmarks.situations import situation
from benchmarks.situations.setups import clinic, lake, table
from benchmarks.situations.worlds import follow

import saddleback as sb


def gains(world, policy, gamma, episodes, rng):
    """Discounted returns of complete episodes."""
    rows = follow(world, policy, episodes, rng)
    assert not rows.truncated.any()
    return np.bincount(rows.episode, weights=gamma**rows.step * rows.rewards)


@pytest.mark.statistical
@pytest.mark.parametrize("build", [table, clinic])
@pytest.mark.parametrize("seed", range(3))
def test_truth_is_the_mean_return(build, seed):
    setup = build(np.random.default_rng(seed))
    for policy, value in zip((setup.pi, setup.mu), setup.values, strict=True):
        returns = gains(setup.world, policy, setup.gamma, 4000, np.random.default_rng(seed + 100))
        assert abs(returns.mean() - value) < 4 * returns.std() / np.sqrt(4000)


def test_values_are_those_of_the_library():
    """Of the same table, as a finite MDP."""
    setup = table(np.random.default_rng(5), makers=(lake,))
    P, S = setup.world.P, len(setup.world.P)
    on = P[:, :, :S].sum(axis=2, keepdims=True)
    inside = np.where(on > 0, P[:, :, :S] / np.where(on > 0, on, 1), np.eye(S)[:, None])
    ends = np.broadcast_to(1 - on, inside.shape)
    mdp = sb.FiniteMDP(
        inside, (P * setup.world.R).sum(axis=2), setup.gamma, terminal=ends,
        start=setup.world.start,
    )  # fmt: skip
    met = setup.world.visits(setup.pi.table) > 0
    actual, expected = setup.world.q(setup.pi.table, setup.gamma), mdp.q(setup.pi.table)
    np.testing.assert_allclose(actual[met], expected[met], atol=1e-10)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(3))
def test_tables_are_visited_as_often_as_computed(seed):
    setup = table(np.random.default_rng(seed))
    rows = setup.rows(np.random.default_rng(seed))
    S, K = setup.world.sizes
    seen = np.zeros((S, K))
    np.add.at(seen, (rows.states[:, 0].astype(int), rows.actions), 1)
    expected = setup.episodes * setup.world.visits(setup.mu.table)
    frequent = expected > 100
    assert frequent.any()
    np.testing.assert_allclose(seen[frequent], expected[frequent], rtol=0.5)


def test_good_situations_have_mild_ratios():
    for seed in range(5):
        columns = situation("good, tabular", seed).log.data
        for name in [name for name in columns if name.startswith("pi_")]:
            assert (columns[name] / columns[name.replace("pi", "mu")]).max() < 5
