"""The random walk of Sutton (1988), with the three feature sets of Sutton et al. (2009)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from saddleback import _registry, _validate
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.finite_mdp import FiniteMDP
from saddleback.problem import Problem

LEFT, RIGHT = 0, 1
FEATURES = ("tabular", "inverted", "dependent")


def random_walk(
    gamma: float = 1.0,
    rewards: tuple[float, float] = (0.0, 1.0),
    *,
    states: int = 5,
    features: Literal["tabular", "inverted", "dependent"] = "tabular",
    target_right: float = 0.5,
    behaviour_right: float = 0.5,
) -> Problem:
    """A random walk from the middle of a corridor, until it exits at either end.

    Parameters
    ----------
    gamma
        Discount.
    rewards
        Rewards for exiting on the left and on the right.
    states
        Length of the corridor (odd); a terminal state follows at each end.
    features
        State values, with rows of unit length. ``"tabular"``: one feature per state.
        ``"inverted"``: all features except the state's own, which generalise badly at full rank.
        ``"dependent"``: (states + 1)/2 features, all of them active in the middle state.
    target_right, behaviour_right
        Probability of a step to the right under π and μ; ½ each is the classic walk.

    Examples
    --------
    With fair steps the value is the probability of exiting on the right:

    >>> problem = random_walk()
    >>> problem.truth[:5] * 6
    array([1., 2., 3., 4., 5.])
    """
    _registry.check_name("features", features, FEATURES)
    if _validate.count("random_walk", "states", states) % 2 == 0 or states < 3:
        raise InvalidParameter(f"random_walk: states must be odd and >= 3, got {states}.")
    ends = {"left": states, "right": states + 1}
    P = np.zeros((states + 2, 2, states + 2))
    R = np.zeros_like(P)
    for s in range(states):
        P[s, LEFT, s - 1 if s > 0 else ends["left"]] = 1.0
        P[s, RIGHT, s + 1 if s < states - 1 else ends["right"]] = 1.0
    exits = _validate.floats("rewards", rewards)
    _validate.shape("rewards", exits, (2,))
    R[0, LEFT, ends["left"]], R[states - 1, RIGHT, ends["right"]] = exits
    start = np.zeros(states + 2)
    start[states // 2] = 1.0
    mdp = FiniteMDP(P, R, gamma, start=start, terminal=list(ends.values()))

    rows = _features(features, states)
    phi = np.vstack([rows, np.zeros((2, rows.shape[1]))])
    policies = [
        [[1 - right, right]] * (states + 2)
        for right in (
            _validate.unit("random_walk", "target_right", target_right),
            _validate.unit("random_walk", "behaviour_right", behaviour_right),
        )
    ]
    return Problem(mdp, phi, *policies)


def _features(kind: str, states: int) -> FloatArray:
    if kind == "tabular":
        return np.eye(states)
    if kind == "inverted":
        return np.asarray((1.0 - np.eye(states)) / np.sqrt(states - 1))
    middle = (states + 1) // 2
    rows = np.array(
        [[max(0, s - middle + 1) <= f <= min(s, middle - 1) for f in range(middle)]
         for s in range(states)],
        dtype=np.float64,
    )  # fmt: skip
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
