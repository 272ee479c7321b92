"""Standard problems with known solutions: dynamics, features, π and μ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saddleback import _registry
from saddleback.engine import Simulation
from saddleback.problem import Problem
from saddleback.problems.baird import baird
from saddleback.problems.boyan_chain import boyan_chain
from saddleback.problems.from_gymnasium import from_gymnasium
from saddleback.problems.mountain_car import mountain_car
from saddleback.problems.random_mdp import random_mdp
from saddleback.problems.random_walk import random_walk
from saddleback.problems.two_state import two_state

NAMED: dict[str, Callable[..., Problem]] = {
    constructor.__name__: constructor
    for constructor in (two_state, baird, random_walk, boyan_chain, random_mdp)
}
"""Finite problems by name."""


def make(name: str, **parameters: Any) -> Problem:
    """Build a problem from its name, as the command line and study files do.

    Examples
    --------
    >>> make("two_state", gamma=0.9)
    Problem(states=2, actions=2, gamma=0.9, continuing, action values, p=2)
    """
    return _registry.build("problem", name, NAMED, parameters)


__all__ = [
    "NAMED",
    "Simulation",
    "baird",
    "boyan_chain",
    "from_gymnasium",
    "make",
    "mountain_car",
    "random_mdp",
    "random_walk",
    "two_state",
]
