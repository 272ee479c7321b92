"""The two-state counterexample of Touati et al. (2018), Example 1 of the GES paper."""

from __future__ import annotations

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike
from saddleback.finite_mdp import FiniteMDP
from saddleback.problem import Problem

RIGHT, LEFT = 0, 1


def two_state(gamma: float = 0.99, rewards: ArrayLike | None = None) -> Problem:
    """Two states; *right* leads to the second, *left* to the first, from either state.

    π always goes right, μ goes either way with probability ½. The features are φ(s₁,right) = (1,0),
    φ(s₂,right) = (2,0), φ(s₁,left) = (0,1), φ(s₂,left) = (0,2). All pairs are equally likely, and

        A₁₁ = (6γ − γλ − 5) / (4(1 − γλ))        A₂₂ = −5/4        A₁₂ = 0

    for importance traces: off-line Expected Sarsa(λ) is unstable exactly when γ > 5/(6−λ).

    Parameters
    ----------
    gamma
        Discount.
    rewards
        R[s, a] over states × (right, left); zero by default, as in the paper.

    Examples
    --------
    >>> two_state(gamma=0.9)
    Problem(states=2, actions=2, gamma=0.9, continuing, action values, p=2)
    """
    P = np.zeros((2, 2, 2))
    P[:, RIGHT, 1] = 1.0
    P[:, LEFT, 0] = 1.0
    phi = np.zeros((2, 2, 2))
    phi[:, RIGHT, 0] = phi[:, LEFT, 1] = (1.0, 2.0)
    R = np.zeros((2, 2)) if rewards is None else _validate.rewards("rewards", rewards, 2, 2)
    mdp = FiniteMDP(P, R, gamma)
    return Problem(mdp, phi, target=[[1.0, 0.0]] * 2, behaviour=[[0.5, 0.5]] * 2)
