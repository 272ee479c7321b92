"""Systems of importance traces on MountainCar, by following π from pairs that μ visits.

Importance traces above the λ ceiling have infinite variance, so an Â from experience of μ is mostly
noise. But (I − γλP)⁻¹(γP − I) = −I + γ(1−λ) Σ_k (γλ)^k P^(k+1), so with (s, a) from the visits of μ
and *π* followed from there, there are no importance ratios at all:

    A = −M + γ(1−λ) E[φ(s, a) Σ_k (γλ)^k φ̄(s_{k+1})ᵀ]        b = E[φ(s, a) Σ_k (γλ)^k R_{k+1}]

φ̄(s) = Σ_a π(a|s) φ(s, a). Averaging over the actions and taking M from the same pairs removes most
of the variance of the direct mean of Σ_k (γλ)^k (γφ̄_{k+1} − φ_k). All λ share their rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray
from saddleback.engine import Simulation
from saddleback.features.base import encode
from saddleback.paper.estimated_system import EstimatedSystem, fixed_point
from saddleback.problems.mountain_car import rollouts
from saddleback.rules import GES
from saddleback.system import System

SPACING = 20
"""Steps of μ between two pairs at which rollouts start."""

PIECE = 2000
"""Rollouts that are simulated at a time."""

GROUP = 50
"""Consecutive rollouts whose residuals are added up in a row of the noise."""

CHECKED = 20_000
"""Rollouts from which the noise is computed."""

NEGLIGIBLE = 1e-12
"""Weights (γλ)^k below this are left out."""


class Piece(NamedTuple):
    """Rollouts of π: features of the first pairs, and the states that follow.

    Attributes
    ----------
    pairs
        Active features of the first pair of each rollout, [n, tilings].
    starts, over
        Whether a step begins a rollout, and whether it ends one, [steps].
    tiles, kinds
        Active tiles of the next state, and the row of π there, [steps, tilings] and [steps].
    """

    pairs: IndexArray
    starts: BoolArray
    over: BoolArray
    tiles: IndexArray
    kinds: IntArray


def pieces(car: Simulation, starts: int, seed: np.random.SeedSequence) -> Iterator[Piece]:
    """Simulate π from pairs visited by μ; the same seed gives the same rollouts."""
    draw, simulate = (
        np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, k)))
        for k in range(2)
    )
    sampler, actions = car.sampler(draw), car.target.shape[1]
    for begin in range(0, starts, PIECE):
        steps = sampler.take(SPACING * min(PIECE, starts - begin))
        chosen = slice(None, None, SPACING)
        states, taken = steps.observations[chosen], steps.actions[chosen]
        path = rollouts(car.target, states, taken, car.gamma, simulate)
        tiles, _ = encode(car.features, path.next_observations)
        own, _ = encode(car.features, states)
        pairs = own * np.uint32(actions) + taken[:, None].astype(np.uint32)
        yield Piece(pairs, path.starts, path.discounts == 0.0, tiles, path.next_kinds)


def rollout_systems(
    car: Simulation, lambdas: Sequence[float], starts: int, seed: np.random.SeedSequence
) -> dict[float, EstimatedSystem]:
    """Estimate the systems of importance traces with each λ, from the same rollouts of π."""
    lam, tiles = np.array(lambdas), car.p // car.target.shape[1]
    visits = np.zeros((len(lam), car.p, 2 * tiles))
    b, M = np.zeros((len(lam), car.p)), np.zeros((car.p, car.p))
    for piece in pieces(car, starts, seed):
        _add(*piece, car.gamma * lam, visits, b, M)
    M /= starts
    systems = {}
    for k, value in enumerate(lambdas):
        # Visits to (tile, row of π), each spread over the actions.
        following = np.einsum("ftk,ka->fta", visits[k].reshape(car.p, tiles, 2), car.target)
        A = car.gamma * (1 - value) * following.reshape(car.p, car.p) / starts - M
        systems[value] = System(A, b[k] / starts, M, A.T + M, GES(value))
    thetas = {value: fixed_point(system) for value, system in systems.items()}
    rows: dict[float, list[FloatArray]] = {value: [] for value in lambdas}
    checked = min(starts, CHECKED)
    for piece in pieces(car, checked, seed):
        for value, theta in thetas.items():
            rows[value] += _residuals(piece, car, value, theta)
    scale = 1.0 / np.sqrt(starts * checked)
    return {
        value: EstimatedSystem(system, thetas[value], scale * np.array(rows[value]))
        for value, system in systems.items()
    }


def errors_of(piece: Piece, car: Simulation, lam: float, theta: FloatArray) -> FloatArray:
    """Return Σ_k (γλ)^k δ_k of each rollout for weights θ, whose mean times φ(s, a) is Aθ + b."""
    first = np.flatnonzero(piece.starts)
    age = np.arange(len(piece.starts)) - np.repeat(first, np.diff([*first, len(piece.starts)]))
    weights = (car.gamma * lam) ** age
    by_action = theta.reshape(-1, car.target.shape[1])[piece.tiles].sum(axis=1)
    value = np.where(piece.over, 0.0, (by_action * car.target[piece.kinds]).sum(axis=1))
    ahead = np.add.reduceat(weights * (car.gamma * (1 - lam) * value - 1.0), first)
    return np.asarray(ahead - theta[piece.pairs].sum(axis=1))


def _residuals(piece: Piece, car: Simulation, lam: float, theta: FloatArray) -> list[FloatArray]:
    """Return sums of φ(s, a) times the error over groups of rollouts."""
    errors = errors_of(piece, car, lam, theta)
    sums = np.zeros((-(-len(errors) // GROUP), car.p))
    group = np.arange(len(errors)) // GROUP
    np.add.at(sums, (group[:, None], piece.pairs), errors[:, None])
    return list(sums)


@compiled
def _add(
    pairs: IndexArray,
    starts: BoolArray,
    over: BoolArray,
    tiles: IndexArray,
    kinds: IntArray,
    decay: FloatArray,
    visits: FloatArray,
    b: FloatArray,
    M: FloatArray,
) -> None:
    """Add the discounted visits and rewards (−1 per step) of each rollout to rows of its pair."""
    total = np.zeros(visits.shape[2])
    touched = np.zeros(visits.shape[2], dtype=np.int64)
    begin = 0
    for i in range(len(pairs)):
        end = begin + 1
        while end < len(starts) and not starts[end]:
            end += 1
        for k in range(len(decay)):
            weight, gain, n = 1.0, 0.0, 0
            for t in range(begin, end):
                gain -= weight
                if over[t]:
                    break
                for j in tiles[t]:
                    index = 2 * j + kinds[t]
                    if total[index] == 0.0:
                        touched[n] = index
                        n += 1
                    total[index] += weight
                weight *= decay[k]
                if weight < NEGLIGIBLE:
                    break
            for j in pairs[i]:
                b[k, j] += gain
                for q in range(n):
                    visits[k, j, touched[q]] += total[touched[q]]
            for q in range(n):
                total[touched[q]] = 0.0
        for j in pairs[i]:
            for m in pairs[i]:
                M[j, m] += 1.0
        begin = end
