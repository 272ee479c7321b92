"""How well each basis predicts Bellman backups: a regression on goals that are the same for all.

A goal is y = r + γ E_π q(s', ·), with q of a pilot: one basis of each kind, fitted on other
episodes. That goals do not depend on the basis makes held-out squared errors comparable: those of
a basis on its own backups would favour flat values, whose noise is small. Where transitions are
nearly deterministic, losses tell features that represent values exactly from those that smooth over
them, even if no marginal ratio is in balance.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np

from saddleback._typing import FloatArray
from saddleback.ope.candidates import GIVEN, OBSERVATION, Basis, middle_of_each_kind
from saddleback.ope.episode_sample import EpisodeSample
from saddleback.ope.fold_sums import Rows
from saddleback.ope.marginal_dr import POOLING, fit_basis

RIDGE = 1e-3
"""Ridge of the pilots."""


def value_range(sample: EpisodeSample, gamma: float, horizon: int | None) -> tuple[float, float]:
    """Return the lowest and highest value possible with the logged rewards.

    An episode has one step or more; without discount and horizon, at most as many as the sample.
    """
    steps = len(sample.rewards) if horizon is None else horizon
    endless = horizon is None and gamma < 1
    total = 1.0 / (1.0 - gamma) if endless else float((gamma ** np.arange(steps)).sum())
    low, high = float(sample.rewards.min()), float(sample.rewards.max())
    return low * total if low < 0 else low, high * total if high > 0 else high


def pilots(bases: Sequence[Basis]) -> list[Basis]:
    """Return the middle one of each kind of basis, such as the random Fourier features.

    They are functions of the observation: goals that only the history could predict would make it
    seem to be needed.
    """
    return middle_of_each_kind(
        basis
        for basis in bases
        if basis.view.name in (OBSERVATION, GIVEN)
        and basis.name != "constant" and not basis.lam and not basis.is_weighted
    )  # fmt: skip


def common_goals(
    rows: Rows,
    shared: Rows,
    bases: Sequence[Basis],
    sample: EpisodeSample,
    gamma: float,
    horizon: int | None,
    pool: Executor | None = None,
) -> FloatArray:
    """Return the goals of all rows, [n, P]: rewards, and sums with the next values of the pilots.

    Of a task with a horizon, values after its first step and in its middle, but not after its last,
    where there are none. They are clipped to what is possible.
    """
    low, high = value_range(sample, gamma, horizon)
    steps = sorted({0, 0 if horizon is None else max(0, min(horizon // 2, horizon - 2))})

    def next_values(basis: Basis) -> FloatArray:
        own, pooling = (shared, POOLING[1:]) if basis.is_shared else (rows, POOLING[:1])
        values: FloatArray = fit_basis(
            basis, own, horizon, (RIDGE,), pooling, steps=steps
        ).following[0]
        return values

    goals = [sample.rewards[:, None]]
    chosen = pilots(bases) if gamma and horizon != 1 else []
    for values in map(next_values, chosen) if pool is None else pool.map(next_values, chosen):
        if np.isfinite(values).all():
            goals.append(goals[0] + np.clip(values.astype(float), min(low, 0.0), max(high, 0.0)))
    return np.column_stack(goals)


def excess(losses: FloatArray) -> FloatArray:
    """Return the root of the squared error beyond that of the best, mean over goals, [N].

    Goals that no candidate predicts do not count.

    Examples
    --------
    >>> excess(np.array([[1.0, 2.0, np.nan], [1.0, 2.0 + 2.0, np.inf], [np.inf, 2.0, np.nan]]))
    array([ 0.,  1., inf])
    """
    finite = np.where(np.isfinite(losses), losses, np.inf)
    finite = finite[:, np.isfinite(finite.min(axis=0))]
    if not finite.size:
        return np.zeros(len(losses))
    return np.asarray(np.sqrt((finite - finite.min(axis=0)).mean(axis=1)))
