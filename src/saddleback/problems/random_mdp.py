"""Random problems, for tests and for general statements."""

from __future__ import annotations

from typing import Literal

import numpy as np

from saddleback import _registry, _validate
from saddleback._typing import RNG
from saddleback.errors import InvalidParameter
from saddleback.finite_mdp import FiniteMDP
from saddleback.problem import Problem

VALUES = ("action", "state")


def random_mdp(
    gamma: float = 0.9,
    *,
    rng: RNG = None,
    states: int = 6,
    actions: int = 3,
    features: int = 4,
    values: Literal["action", "state"] = "action",
    off_policy: float = 1.0,
    termination: float = 0.0,
) -> Problem:
    """An ergodic MDP with Gaussian rewards and features, and two random policies.

    Parameters
    ----------
    gamma
        Discount.
    rng
        Seed or generator; the same seed gives the same problem.
    states, actions, features
        Sizes S, A and p.
    values
        Whether the features describe action values [s, a, p] or state values [s, p].
    off_policy
        Distance between π and μ: at 0 they are equal, at 1 independent. μ takes every action with
        probability at least 1/(2A).
    termination
        If positive, the problem is episodic: every step ends the episode with this probability,
        and the next one starts in a random state.

    Examples
    --------
    >>> random_mdp(rng=1)
    Problem(states=6, actions=3, gamma=0.9, continuing, action values, p=4)
    """
    for name, size in (("states", states), ("actions", actions), ("features", features)):
        _validate.count("random_mdp", name, size)
    _registry.check_name("values", values, VALUES)
    _validate.unit("random_mdp", "off_policy", off_policy)
    if _validate.unit("random_mdp", "termination", termination) == 1:
        raise InvalidParameter(f"random_mdp: termination must be < 1, got {termination!r}.")
    generator, _ = _validate.generator(rng)
    P = generator.dirichlet(np.ones(states), size=(states, actions))
    R = generator.normal(size=(states, actions))
    mu = 0.5 / actions + 0.5 * generator.dirichlet(np.ones(actions), size=states)
    other = generator.dirichlet(np.ones(actions), size=states)
    pi = mu + off_policy * (other - mu)
    rows = (states, actions) if values == "action" else (states,)
    phi = generator.normal(size=(*rows, features))
    ends = np.full_like(P, termination) if termination else None
    return Problem(FiniteMDP(P, R, gamma, terminal=ends), phi, target=pi, behaviour=mu)
