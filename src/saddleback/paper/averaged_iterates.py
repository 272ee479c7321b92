"""TD(0) with constant steps: the error of the mean of its iterates, which Table 1 is about.

With θ̄_T the mean of θ_1, …, θ_T, E‖θ̄_T − θ*‖² falls like 1/T if every step begins in a state drawn
from the stationary distribution. In one chain the mean keeps a bias in proportion to α.
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IntArray
from saddleback.problem import Problem


def averaged_td(
    problem: Problem,
    alphas: FloatArray,
    points: IntArray,
    runs: int,
    seed: np.random.SeedSequence,
    star: FloatArray,
    independent: bool = False,
) -> FloatArray:
    """Return E‖θ̄_T − θ*‖² of the mean θ̄_T of the iterates of TD(0) under μ, [points, α].

    Steps follow each other, or are ``independent``: each begins in a state drawn from the
    stationary distribution. The result is infinite or NaN where a step is too large.
    """
    mdp, rng = problem.mdp, np.random.default_rng(seed.spawn(1)[0])
    moves = np.cumsum((problem.behaviour[:, :, None] * mdp.P).reshape(len(mdp.P), -1), axis=1)
    stationary = np.cumsum(problem.weights)
    states = np.zeros(runs, dtype=np.int64)
    theta: FloatArray = np.zeros((runs, len(alphas), problem.p))
    total, errors, count = np.zeros_like(theta), [], 0
    for point in points:
        uniforms = rng.random((int(point) - count, runs))
        starts = rng.random(uniforms.shape if independent else (0, runs))
        _advance(
            uniforms, starts, moves, stationary, mdp.R, problem.Phi, mdp.gamma, alphas, states,
            theta, total,
        )  # fmt: skip
        count = int(point)
        errors.append(((total / count - star) ** 2).sum(axis=-1).mean(axis=0))
    return np.array(errors)


@compiled
def _advance(
    uniforms: FloatArray,
    starts: FloatArray,
    moves: FloatArray,
    stationary: FloatArray,
    rewards: FloatArray,
    Phi: FloatArray,
    gamma: float,
    alphas: FloatArray,
    states: IntArray,
    theta: FloatArray,
    total: FloatArray,
) -> None:
    """Take one step per row of ``uniforms`` in each run; ``starts`` draw the next states anew."""
    n_states, p = Phi.shape
    for t in range(len(uniforms)):
        for run in range(len(states)):
            s = states[run]
            move = np.searchsorted(moves[s], uniforms[t, run] * moves[s, -1], side="right")
            action, following = divmod(move, n_states)
            for k in range(len(alphas)):
                delta = rewards[s, action]
                for i in range(p):
                    delta += theta[run, k, i] * (gamma * Phi[following, i] - Phi[s, i])
                for i in range(p):
                    theta[run, k, i] += alphas[k] * delta * Phi[s, i]
                    total[run, k, i] += theta[run, k, i]
            if len(starts):
                drawn = starts[t, run] * stationary[-1]
                following = np.searchsorted(stationary, drawn, side="right")
            states[run] = following
