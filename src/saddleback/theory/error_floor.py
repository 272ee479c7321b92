"""The error floor of small constant step sizes, from the long-run covariance of the noise.

To first order in α, z = (θ − θ*, ω) is an Ornstein–Uhlenbeck process about 0 whose covariance C
solves, with r = β/α,

    G C + C Gᵀ + α Σ = 0        G = [[td·A, −T], [r·dual·A, −r·W]]        Σ = Σ_∞ ⊗ (td, r·dual)

with Σ_∞ the long-run covariance of e_t δ_t(θ*), exact or from batches (`noise_covariance`).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from saddleback.errors import Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.system import System
from saddleback.system.system import as_system
from saddleback.theory.covariance import noise_covariance
from saddleback.theory.mean_stability import MeanStability


def small_step_floor(
    source: Problem | System,
    rule: Rule | str | None = None,
    *,
    alpha: float,
    beta: float | None = None,
) -> float:
    """E‖θ − θ*‖² in the long run, to first order in the step sizes: the trace of the θ-block of C,

        G C + C Gᵀ + α Σ = 0        G = [[td·A, −T], [r·dual·A, −r·W]]        r = β/α

    (T and W as in `MeanStability`; Σ from `noise_covariance`).

    Parameters
    ----------
    source, rule
        A finite problem with a rule, or an estimated system that kept its batches.
    alpha, beta
        Constant step sizes.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> round(small_step_floor(problem, GES(0.0), alpha=0.001, beta=0.001), 6)
    0.000592
    """
    system = as_system("small_step_floor", source, rule)
    covariance = noise_covariance(source, rule)
    mean = MeanStability(system)
    c, p = system.rule.form.coefficients, system.p
    steps = np.repeat([alpha, beta or 0.0], p)[: mean.dimension]
    drift = mean.mean_map(alpha, beta) - np.eye(mean.dimension)
    gain = np.kron(np.array([c.td, c.dual])[: mean.dimension // p], np.ones(p)) * steps
    noise = np.outer(gain, gain) * np.tile(covariance, (mean.dimension // p,) * 2)
    if mean.singular:
        # On the range of the drift; directions in its null space do not change.
        basis = np.linalg.svd(drift)[0][:, : mean.rank]
        drift, noise = basis.T @ drift @ basis, basis.T @ noise @ basis
    else:
        basis = np.eye(mean.dimension)
    if np.linalg.eigvals(drift).real.max() >= 0:
        raise Undefined(
            f"there is no stationary error: the mean of {system.rule} does not converge with "
            f"β/α = {(beta or 0.0) / alpha:g}."
        )
    C = basis @ solve_continuous_lyapunov(drift, -noise) @ basis.T
    return float(np.trace(C[:p, :p]))
