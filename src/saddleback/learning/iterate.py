"""The expected (deterministic) iteration of a rule: its update with A, b and M in expectation."""

from __future__ import annotations

from collections.abc import Mapping

from saddleback import _validate
from saddleback._typing import ArrayLike
from saddleback.engine import ExpectedLearners, Metric, StepSize, record_points
from saddleback.errors import InvalidParameter
from saddleback.learning.run import Batch, Run, run_batches
from saddleback.system import System
from saddleback.theory import step_sizes


def iterate(
    system: System,
    *,
    alpha: StepSize | None = None,
    beta: StepSize | None = None,
    steps: int,
    theta0: ArrayLike = 0.0,
    omega0: ArrayLike = 0.0,
    record: int | ArrayLike | None = None,
    metrics: Mapping[str, Metric] | None = None,
    bound: float | None = None,
) -> Run:
    """Iterate the expected update of the system's rule.

        θ ← θ + α (td·(Aθ+b) − Tω)
        ω ← ω + β (dual·(Aθ+b) − Wω)

    with the coefficients of the rule's form, T and W of `System.coupling`, and both lines using the
    old θ and ω. For `ExpectedSarsa` this is the expected off-line update of the
    paper, for `GES` its primal-dual iteration.

    Parameters
    ----------
    system
        A system with its rule, e.g. ``System.exact(problem, rule)``.
    alpha, beta
        As in `learn`; by default the pair with the fastest convergence.
    theta0, omega0, record, metrics
        As in `learn`.
    bound
        As in `learn`, but applied to the weights θ and ω themselves.
    steps
        Number of iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> system = System.exact(problem, GES(0.5))
    >>> run = iterate(system, alpha=0.5, beta=0.5, steps=2000)
    >>> bool(np.allclose(run.theta, system.fixed_point))
    True
    """
    _validate.instance("iterate", "system", system, System)
    _validate.count("iterate", "steps", steps)
    if alpha is None:
        if beta is not None:
            raise InvalidParameter("iterate: give alpha as well, or neither alpha nor beta.")
        advice = step_sizes(system, method="mean")
        alpha, beta = advice.alpha, advice.beta
    batch = Batch(system.rule, system.p, alpha, beta, theta0, omega0, bound, system.fixed_point)
    learners = ExpectedLearners(
        (system.A, system.b, *system.coupling()), system.rule.form, batch.alpha, batch.beta,
        batch.theta, batch.omega, batch.bound,
    )  # fmt: skip
    batch.attach(learners, system.objectives if metrics is None else metrics)
    return run_batches([batch], record_points(steps, record), learners.advance)[0]
