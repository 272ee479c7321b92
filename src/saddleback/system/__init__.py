"""Linear systems of rules: fixed points, stability, objectives and operators."""

from saddleback.system.io import load, save
from saddleback.system.linear_stability import Stability
from saddleback.system.operators import bellman, lambda_operator, projection
from saddleback.system.system import LARGEST, System

__all__ = [
    "LARGEST",
    "Stability",
    "System",
    "bellman",
    "lambda_operator",
    "load",
    "projection",
    "save",
]
