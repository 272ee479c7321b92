"""Finite MDPs and chains: exact values, distributions, and Gymnasium's tables."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saddleback as sb
from saddleback import FiniteMDP, Problem, System, markov_chain, problems, sample


@given(seed=st.integers(0, 10**6), n=st.integers(1, 8))
@settings(max_examples=50, deadline=None)
def test_stationary_distribution(seed, n):
    P = np.random.default_rng(seed).dirichlet(np.full(n, 0.3), size=n) * 0.99 + 0.01 / n
    d = markov_chain.stationary(P)
    np.testing.assert_allclose(d @ P, d, rtol=1e-12)
    assert d.sum() == pytest.approx(1.0)


def test_nearly_reducible_chain_is_exact():
    """Two states that hardly ever change places: an eigen-solver loses what elimination keeps."""
    slow = 1e-14
    P = np.array([[1 - slow, slow], [3 * slow, 1 - 3 * slow]])
    np.testing.assert_allclose(markov_chain.stationary(P), [0.75, 0.25], rtol=1e-15)


def test_transient_states_and_periodic_chains():
    P = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    share, classes = markov_chain.long_run(P, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(share, [0.0, 0.5, 0.5])
    assert len(classes) == 1


def test_values_satisfy_their_equations():
    problem = problems.random_mdp(rng=1, termination=0.1)
    mdp, pi = problem.mdp, problem.target
    q, v = mdp.q(pi), mdp.v(pi)
    np.testing.assert_allclose((pi * q).sum(axis=1), v)
    np.testing.assert_allclose(q, mdp.R + 0.9 * 0.9 * mdp.P @ v)


def test_rewards_may_depend_on_the_next_state():
    P = np.array([[[0.25, 0.75]], [[1.0, 0.0]]])
    R = np.array([[[4.0, 8.0]], [[1.0, 100.0]]])
    mdp = FiniteMDP(P, R, gamma=0.0)
    np.testing.assert_allclose(mdp.R, [[7.0], [1.0]])
    only = np.ones((2, 1))
    seen = sample(Problem(mdp, np.eye(2), only, only), 500, rng=0)
    np.testing.assert_array_equal(seen.rewards, R[seen.states, 0, seen.next_states])


def test_start_and_default_start():
    mdp = problems.random_walk().mdp
    np.testing.assert_array_equal(mdp.start, np.eye(7)[2])
    free = FiniteMDP(mdp.P, mdp.rewards, 1.0, terminal=[5, 6])
    np.testing.assert_allclose(free.start, [0.2] * 5 + [0, 0])


@pytest.mark.parametrize("terminal", [[2], np.array([False, False, True])], ids=["index", "mask"])
def test_terminal_states_by_index_or_mask(terminal):
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = 1  # the terminal row may be anything, here zeros
    mdp = FiniteMDP(P, [[1.0], [2.0], [np.nan]], 1.0, start=[1, 0, 0], terminal=terminal)
    np.testing.assert_allclose(mdp.v(np.ones((3, 1))), [3.0, 2.0, 0.0])


def test_visits_agree_with_sampling():
    problem = problems.random_walk(target_right=0.7, behaviour_right=0.4)
    seen = sample(problem, 300_000, rng=2)
    shares = np.bincount(seen.states, minlength=7) / len(seen)
    np.testing.assert_allclose(shares, problem.visits, atol=0.004)
    assert (shares[5:] == 0).all()
    assert seen.starts[0]
    np.testing.assert_array_equal(seen.starts[1:], seen.discounts[:-1] == 0)
    np.testing.assert_array_equal(
        seen.states[1:][~seen.starts[1:]], seen.next_states[:-1][~seen.starts[1:]]
    )
    np.testing.assert_array_equal(
        seen.actions[1:][~seen.starts[1:]], seen.next_actions[:-1][~seen.starts[1:]]
    )


def test_transitions_can_terminate():
    """A state may be entered both by the last step of an episode and by an ordinary one."""
    P = np.full((2, 1, 2), 0.5)
    ends = np.zeros((2, 1, 2))
    ends[0, 0, 1] = 0.5
    mdp = FiniteMDP(P, [[1.0], [1.0]], 1.0, start=[1.0, 0.0], terminal=ends)
    assert mdp.episodic
    assert mdp.acting.all()
    # v0 = 1 + ½v0 + ¼v1,  v1 = 1 + ½v0 + ½v1
    np.testing.assert_allclose(mdp.v(np.ones((2, 1))), [6.0, 8.0])
    only = np.ones((2, 1))
    seen = sample(Problem(mdp, np.eye(2), only, only), 100_000, rng=3)
    assert np.diff(np.flatnonzero(seen.starts)).mean() == pytest.approx(6.0, rel=0.05)


# Gymnasium.


@pytest.mark.parametrize(
    ("name", "states", "actions"),
    [("FrozenLake-v1", 16, 4), ("Taxi-v4", 500, 6), ("CliffWalking-v1", 48, 4)],
)
def test_gymnasium_tables_are_read_completely(name, states, actions):
    env = gymnasium.make(name)
    mdp = FiniteMDP.from_gymnasium(env, gamma=0.99)
    assert (mdp.n_states, mdp.n_actions, mdp.episodic) == (states, actions, True)
    np.testing.assert_allclose(mdp.start, env.unwrapped.initial_state_distrib)
    listing = env.unwrapped.P
    for s in np.flatnonzero(mdp.acting)[:: max(1, states // 50)]:
        for a in range(actions):
            expected = sum(p * float(r) for p, _, r, _ in listing[s][a])
            ending = sum(p for p, _, _, over in listing[s][a] if over)
            assert mdp.R[s, a] == pytest.approx(expected)
            assert (mdp.P * mdp.ends)[s, a].sum() == pytest.approx(ending)


def test_frozen_lake_values_by_simulation():
    """The exact value of the random policy against Gymnasium's own episodes."""
    env = gymnasium.make("FrozenLake-v1")
    mdp = FiniteMDP.from_gymnasium(env, gamma=0.99)
    uniform = np.full((16, 4), 0.25)
    exact = mdp.v(uniform)[0]
    rng = np.random.default_rng(0)
    core, returns = env.unwrapped, []
    core.reset(seed=0)
    for _ in range(4000):
        core.reset()
        over, discount, total = False, 1.0, 0.0
        while not over:
            _, reward, over, _, _ = core.step(int(rng.integers(4)))
            total += discount * float(reward)
            discount *= 0.99
        returns.append(total)
    assert abs(np.mean(returns) - exact) < 4 * np.std(returns) / np.sqrt(len(returns))
    np.testing.assert_allclose(mdp.v(uniform)[~mdp.acting], 0.0)


def test_cliff_walking_shortest_safe_path():
    """Up, eleven times right, down: −13 undiscounted, by arithmetic."""
    mdp = FiniteMDP.from_gymnasium(gymnasium.make("CliffWalking-v1"), gamma=1.0)
    up, right, down = 0, 1, 2
    path = np.zeros((48, 4))
    path[:, up] = 1.0
    path[24:36] = np.eye(4)[right]
    path[35] = np.eye(4)[down]
    path[:24] = np.eye(4)[down]
    assert mdp.v(path)[36] == pytest.approx(-13.0)


def test_repeated_successors_are_summed_with_their_rewards():
    class Lottery:
        P: ClassVar = {
            0: {0: [(0.25, 1, 4.0, False), (0.25, 1, 0.0, True), (0.5, 0, 1.0, False)]},
            1: {0: [(1.0, 0, 2.0, False)]},
        }

    mdp = FiniteMDP.from_gymnasium(Lottery(), gamma=0.5)
    np.testing.assert_allclose(mdp.P[0, 0], [0.5, 0.5])
    np.testing.assert_allclose(mdp.rewards[0, 0], [1.0, 2.0])
    np.testing.assert_allclose(mdp.ends[0, 0], [0.0, 0.5])


def test_no_action_is_taken_in_states_that_no_episode_reaches():
    """Taxi's delivered states are entered only by the last step: value 0, and no bar to γ = 1."""
    mdp = FiniteMDP.from_gymnasium(gymnasium.make("Taxi-v4"), gamma=1.0)
    assert mdp.acting.sum() == 400
    uniform = np.full((500, 6), 1 / 6)
    assert (mdp.v(uniform)[~mdp.acting] == 0).all()
    assert (mdp.v(uniform)[mdp.acting] < 0).all()


def test_unreachable_states_do_not_prevent_undiscounted_values():
    P = np.zeros((4, 1, 4))
    P[0, 0, 1] = P[1, 0, 1] = P[2, 0, 3] = 1.0
    mdp = FiniteMDP(P, np.ones((4, 1)), 1.0, start=[0, 0, 1, 0], terminal=[3])
    only = np.ones((4, 1))
    np.testing.assert_array_equal(mdp.v(only), [np.nan, np.nan, 1.0, 0.0])
    problem = Problem(mdp, np.eye(4), only, only)
    system = System.exact(problem, sb.TD(1.0))
    assert system.mse(system.fixed_point) == pytest.approx(0.0, abs=1e-20)


def test_an_unreachable_terminal_state_leaves_the_chain_continuing():
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 0] = 1.0
    mdp = FiniteMDP(P, np.zeros((3, 1)), 0.9, terminal=[2])
    problem = Problem(mdp, np.eye(3), np.ones((3, 1)), np.ones((3, 1)))
    assert problem.note == ""
    np.testing.assert_allclose(problem.visits, [0.5, 0.5, 0.0])


def test_absorption_counts_every_path_into_a_class():
    """0 → {1} or {2, 3}, entered in two places: the share of a class is the sum over them."""
    P = np.array([[0, 0.4, 0.5, 0.1], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], dtype=float)
    share, _ = markov_chain.long_run(P, np.array([1.0, 0, 0, 0]))
    np.testing.assert_allclose(share, [0.0, 0.4, 0.3, 0.3])


def test_a_bandit_is_an_mdp_with_one_step():
    """Every transition ends: one-step episodes, and v = r."""
    mdp = FiniteMDP(np.full((2, 2, 2), 0.5), [[1, 2], [3, 4]], 1.0, terminal=np.ones((2, 2, 2)))
    np.testing.assert_allclose(mdp.v(np.full((2, 2), 0.5)), [1.5, 3.5])


def test_policies_of_terminal_states_do_not_matter():
    walk = problems.random_walk()
    pi = np.array(walk.target)
    pi[5:] = 0.0
    changed = Problem(walk.mdp, walk.features, pi, pi)
    assert changed.on_policy
    np.testing.assert_allclose(changed.truth, walk.truth)


def test_taxi_has_an_exact_system():
    mdp = FiniteMDP.from_gymnasium(gymnasium.make("Taxi-v4"), gamma=0.9)
    uniform = np.full((500, 6), 1 / 6)
    phi = np.random.default_rng(5).normal(size=(500, 6, 8))
    problem = Problem(mdp, phi, uniform, uniform)
    system = System.exact(problem, sb.GES(0.9))
    assert system.outcome == "ok"
    assert system.stable
