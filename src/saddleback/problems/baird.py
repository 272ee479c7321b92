"""Baird's star (1995), in its two common versions."""

from __future__ import annotations

from typing import Literal

import numpy as np

from saddleback import _registry, _validate
from saddleback._typing import ArrayLike
from saddleback.finite_mdp import FiniteMDP
from saddleback.problem import Problem

DASHED, SOLID = 0, 1
FEATURES = ("paper", "classic")


def baird(
    gamma: float = 0.99,
    rewards: ArrayLike | None = None,
    *,
    features: Literal["paper", "classic"] = "paper",
) -> Problem:
    """Seven states; *solid* leads to the seventh, *dashed* to one of the other six.

    μ takes dashed with probability 6/7, so it visits all states equally; π always takes solid.

    Parameters
    ----------
    gamma
        Discount.
    rewards
        R[s, a] over states × (dashed, solid); zero by default.
    features
        ``"paper"``: action values, φ[s, a] of 16 entries as printed in the GES paper. The 14×16
        matrix has rank 14, so it is equivalent to a tabular representation and is not a
        counterexample.
        ``"classic"``: state values, x_i = 2e_i + e_8 for i ≤ 6 and x_7 = e_7 + 2e_8 as in Sutton &
        Barto §11.2, where off-policy TD(0) diverges.

    Examples
    --------
    >>> baird(features="classic")
    Problem(states=7, actions=2, gamma=0.99, continuing, state values, p=8)
    >>> int(np.linalg.matrix_rank(baird().Phi))
    14
    """
    _registry.check_name("features", features, FEATURES)
    P = np.zeros((7, 2, 7))
    P[:, DASHED, :6] = 1 / 6
    P[:, SOLID, 6] = 1.0
    if features == "classic":
        phi = np.zeros((7, 8))
        phi[:6, :6] = 2 * np.eye(6)
        phi[:6, 7] = 1.0
        phi[6, 6], phi[6, 7] = 1.0, 2.0
    else:
        phi = np.zeros((7, 2, 16))
        block = np.hstack([2 * np.eye(7), np.ones((7, 1))])
        phi[:, DASHED, :8] = phi[:, SOLID, 8:] = block
    R = np.zeros((7, 2)) if rewards is None else _validate.rewards("rewards", rewards, 7, 2)
    mdp = FiniteMDP(P, R, gamma)
    return Problem(mdp, phi, target=[[0.0, 1.0]] * 7, behaviour=[[6 / 7, 1 / 7]] * 7)
