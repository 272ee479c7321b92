"""How often features were active, and how much of them a target would switch on."""

from __future__ import annotations

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray


@compiled
def count_visits(phi_index: IndexArray, visits: FloatArray) -> None:
    """Count the steps on which each feature was active."""
    for j in range(len(phi_index)):
        visits[phi_index[j]] += 1.0


@compiled
def count_mass(next_index: IndexArray, next_b: FloatArray, mass: FloatArray) -> None:
    """Add up |b| of each feature, the bootstrap of the states that were met."""
    for j in range(len(next_index)):
        mass[next_index[j]] += abs(next_b[j])
