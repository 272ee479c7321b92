"""Importance-sampling estimators of q^π(s, a) from each pair, as in Appendix A: exact moments.

With horizon h, ratios ρ_k and returns from S_0 = s, A_0 = a under μ,

    ordinary:      ρ_{i:h−1} Σ_k γ^k R_{k+1}            per-decision:  Σ_k γ^k ρ_{i:k} R_{k+1}

The paper prints i = 0. Given the first action its ratio is a constant, so that both have the mean
ρ(s, a) q^π(s, a); unbiased is i = 1, where the empty product ρ_{1:0} is 1. All trajectories are
enumerated, so nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from saddleback._typing import FloatArray
from saddleback.policies import ratio
from saddleback.problem import Problem


class Path(NamedTuple):
    """A trajectory: its probability under μ after the first pair, ratios and rewards, [h]."""

    probability: float
    ratios: FloatArray
    rewards: FloatArray


def paths(problem: Problem, state: int, action: int, horizon: int) -> Iterator[Path]:
    """Enumerate the trajectories of μ from a pair, of ``horizon`` steps."""
    mdp, rho = problem.mdp, ratio(problem.target, problem.behaviour)
    if horizon == 0:
        yield Path(1.0, np.zeros(0), np.zeros(0))
        return
    first = [rho[state, action]], [mdp.R[state, action]]
    if horizon == 1:
        yield Path(1.0, *map(np.array, first))
        return
    for s, reached in enumerate(mdp.P[state, action]):
        for a, likely in enumerate(problem.behaviour[s]):
            if reached * likely > 0:
                for path in paths(problem, s, a, horizon - 1):
                    yield Path(
                        reached * likely * path.probability,
                        np.concatenate([first[0], path.ratios]),
                        np.concatenate([first[1], path.rewards]),
                    )


class EstimatorMoments(NamedTuple):
    """Mean and variance of an estimator at each pair, [S, A]."""

    mean: FloatArray
    variance: FloatArray


def estimator_moments(
    problem: Problem, horizon: int, *, per_decision: bool, first_ratio: bool
) -> EstimatorMoments:
    """Return mean and variance of an estimator from each pair; ``first_ratio`` includes ρ_0."""
    gamma, shape = problem.mdp.gamma, problem.mdp.R.shape
    mean, square = np.zeros(shape), np.zeros(shape)
    for s, a in np.ndindex(*shape):
        for path in paths(problem, s, a, horizon):
            ratios = path.ratios if first_ratio else np.concatenate([[1.0], path.ratios[1:]])
            products = np.cumprod(ratios)
            weights = products if per_decision else np.full(horizon, products[-1])
            value = float(weights * gamma ** np.arange(horizon) @ path.rewards)
            mean[s, a] += path.probability * value
            square[s, a] += path.probability * value**2
    return EstimatorMoments(mean, square - mean**2)


def values(problem: Problem, horizon: int) -> FloatArray:
    """Return q^π over a horizon, by backward induction, [S, A]."""
    mdp = problem.mdp
    q: FloatArray = np.zeros(mdp.R.shape)
    for _ in range(horizon):
        q = np.asarray(mdp.R + mdp.gamma * mdp.P @ (problem.target * q).sum(axis=1))
    return q


def lemma_error(problem: Problem, horizon: int) -> float:
    """Return the largest error of Lemma A.1 over pairs and times k.

    It says that E[ρ_{0:h−1} R_k] = E[ρ_{0:k−1} R_k].
    """
    largest = 0.0
    for s, a in np.ndindex(*problem.mdp.R.shape):
        gap = np.zeros(horizon)
        for path in paths(problem, s, a, horizon):
            products = np.cumprod(path.ratios)
            gap += path.probability * (products[-1] - products) * path.rewards
        largest = max(largest, float(np.abs(gap).max()))
    return largest
