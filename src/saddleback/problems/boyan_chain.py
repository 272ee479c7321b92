"""Boyan's chain (2002), whose values the features represent exactly."""

from __future__ import annotations

import numpy as np

from saddleback import _validate
from saddleback.errors import InvalidParameter
from saddleback.finite_mdp import FiniteMDP
from saddleback.problem import Problem

STEP, SKIP = 0, 1


def boyan_chain(
    gamma: float = 1.0,
    rewards: tuple[float, float] = (-3.0, -2.0),
    *,
    states: int = 13,
    target_skip: float = 0.5,
    behaviour_skip: float = 0.5,
) -> Problem:
    """A walk along a chain to its end, one state (*step*) or two (*skip*) at a time.

    The state value is interpolated between every fourth state. With the classic choices, both
    actions equally likely and γ = 1, v(n) = −2n for the state n steps from the end, and the
    weights are (−24, −16, −8, 0), as published.

    Parameters
    ----------
    gamma
        Discount.
    rewards
        Reward of an ordinary move, and of the move from the second-to-last state.
    states
        Length of the chain, 4k + 1; the last state is terminal.
    target_skip, behaviour_skip
        Probability of *skip* under π and μ; ½ each is the classic chain.

    Examples
    --------
    >>> problem = boyan_chain()
    >>> problem.truth[:3]
    array([-24., -22., -20.])
    """
    if _validate.count("boyan_chain", "states", states) % 4 != 1 or states < 5:
        raise InvalidParameter(f"boyan_chain: states must be 4k + 1 and >= 5, got {states}.")
    last = states - 1
    P = np.zeros((states, 2, states))
    moves = _validate.floats("rewards", rewards)
    _validate.shape("rewards", moves, (2,))
    R = np.full((states, 2), moves[0])
    R[last - 1] = moves[1]
    for s in range(states):
        P[s, STEP, min(s + 1, last)] = 1.0
        P[s, SKIP, min(s + 2, last)] = 1.0
    start = np.zeros(states)
    start[0] = 1.0
    mdp = FiniteMDP(P, R, gamma, start=start, terminal=[last])

    knots = np.arange(0, states, 4)
    phi = np.maximum(0.0, 1.0 - np.abs(np.arange(states)[:, None] - knots) / 4)
    policies = [
        [[1 - skip, skip]] * states
        for skip in (
            _validate.unit("boyan_chain", "target_skip", target_skip),
            _validate.unit("boyan_chain", "behaviour_skip", behaviour_skip),
        )
    ]
    return Problem(mdp, phi, *policies)
