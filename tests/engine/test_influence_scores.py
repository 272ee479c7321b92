"""Scores of episodes, against the sums that define them."""

from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import problem_for
from saddleback.engine.influence_scores import InfluenceScores

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("sizes", [(60,), (25, 35)])
def test_scores_are_sums_over_the_steps_of_each_episode(ridge, sizes):
    problem = problem_for("GES", seed=3, states=4, features=3, termination=0.15)
    experience = sb.sample(problem, 60, rng=1)
    rng, rule = np.random.default_rng(0), sb.GES(0.7)
    theta, u = rng.normal(size=(2, problem.p))
    scores, deltas = InfluenceScores(theta, u, ridge), []
    streamer = sb.engine.FiniteSource(problem, experience).streamer([rule])
    begin = 0
    for size in sizes:
        steps = experience.part(slice(begin, begin + size))
        end = begin + size
        segment = SimpleNamespace(
            starts=steps.starts, index=np.arange(size), row_episode=np.cumsum(steps.starts),
            first_states=np.flatnonzero(steps.starts), begins_new_episode=bool(steps.starts[0]),
            continues_in_next=end < 60 and not experience.starts[end],
        )  # fmt: skip
        deltas.append(scores.add(streamer(steps)[0], segment))
        begin = end
    t, actions = sb.rules.terms(rule, problem), problem.mdp.n_actions
    influence, returns, errors = [], [], []
    for k in range(60):
        pair = experience.states[k] * actions + experience.actions[k]
        after = experience.next_states[k] * actions + experience.next_actions[k]
        phi, gamma = t.phi[pair], experience.discounts[k]
        if experience.starts[k]:
            influence.append(0.0)
            returns.append(0.0)
            e, power = np.zeros(problem.p), 1.0
        else:
            e = experience.discounts[k - 1] * t.kappa[pair] * e
        e = e + phi
        errors.append(experience.rewards[k] + theta @ (gamma * t.bootstrap[after] - phi))
        influence[-1] += u @ e * errors[-1] - ridge * np.sum(u * theta * phi**2)
        returns[-1] += power * errors[-1]
        power *= gamma
    assert len(influence) > 4
    np.testing.assert_allclose(np.concatenate(deltas), errors)
    np.testing.assert_allclose(scores.influence, influence)
    np.testing.assert_allclose(scores.td_error_return, returns)
