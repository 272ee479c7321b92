"""The expected (deterministic) iteration of a rule: its update with A, b and M for samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike
from saddleback.engine import StepSize
from saddleback.learning.run import BOUND, Batch, Metric, Run, record_points
from saddleback.system import System


def iterate(
    system: System,
    *,
    alpha: StepSize,
    beta: StepSize | None = None,
    steps: int,
    theta0: ArrayLike = 0.0,
    omega0: ArrayLike = 0.0,
    record: int | ArrayLike | None = None,
    metrics: Mapping[str, Metric] | None = None,
    bound: float = BOUND,
) -> Run:
    """Iterate the expected update of the system's rule.

        θ ← θ + α (td·(Aθ+b) − saddle·Aᵀω − correction·Cω)
        ω ← ω + β (dual·(Aθ+b) − gram·Mω − shrink·ω)

    with the coefficients of the rule's form, C = E[γ'x eᵀ] (= Aᵀ + M without emphasis), and both
    lines using the old θ and ω. For `ExpectedSarsa` it is the expected off-line update of the
    paper, for `GES` its primal-dual iteration.

    Parameters
    ----------
    system
        A system with its rule, e.g. ``System.exact(problem, rule)``.
    alpha, beta, theta0, omega0, record, metrics, bound
        As in `learn`.
    steps
        Number of iterations.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> system = System.exact(problem, GES(0.5))
    >>> run = iterate(system, alpha=0.5, beta=0.5, steps=2000)
    >>> bool(np.allclose(run.theta, system.fixed_point))
    True
    """
    _validate.count("iterate", "steps", steps)
    batch = Batch(system.rule, system.p, alpha, beta, theta0, omega0, bound)
    td, saddle, correction, dual, gram, shrink = system.rule.form.coefficients
    to_theta = saddle * system.A + correction * system.C.T
    to_omega = gram * system.M + shrink * np.eye(system.p)
    theta, omega = batch.theta, batch.omega
    diverged_at = np.full(len(theta), -1, dtype=np.int64)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        for _ in range(count):
            done += 1
            update = system.residual(theta)
            alpha_t = batch.alpha.at(done)[:, None]
            beta_t = batch.beta.at(done)[:, None]
            new_theta = theta + alpha_t * (td * update - omega @ to_theta)
            new_omega = omega + beta_t * (dual * update - omega @ to_omega)
            size = np.maximum(np.abs(new_theta), np.abs(new_omega)).max(axis=1)
            within = (size <= bound) & (diverged_at < 0)
            theta[within], omega[within] = new_theta[within], new_omega[within]
            diverged_at[~within & (diverged_at < 0)] = done

    measured = system.objectives if metrics is None else metrics
    return batch.follow(record_points(steps, record), measured, advance, diverged_at)
