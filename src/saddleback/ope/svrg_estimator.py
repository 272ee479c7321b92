"""`SVRG`: the fixed point of a log without matrices, as the saddle point of its samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from saddleback._progress import Progress
from saddleback._typing import RNG, FloatArray
from saddleback.engine import copies_of
from saddleback.log import Log
from saddleback.ope.estimator import Estimator
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_pass import compute_statistics
from saddleback.ope.svrg_solver import Samples, solve


@dataclass(eq=False, kw_only=True)
class SVRG(Estimator):
    """The fixed point Âθ + b̂ = 0 by variance-reduced steps on the saddle point of the log.

    No matrix is p × p: use it for features too numerous to factorise. The method, and the data on
    which it converges quickly, are described in ``saddleback.ope.svrg_solver``.

    Parameters
    ----------
    ridge
        η: solve with Â − η·diag M̂ instead.
    tolerance, epochs
        Stop at this relative residual, or after this number of passes.
    rng
        Seed of the order of the samples.

    Attributes
    ----------
    samples_
        The samples so far.
    residuals_
        ‖Âθ + b̂‖ / ‖b̂‖, scaled by feature sizes, after each epoch.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> from saddleback.features import OneHot
    >>> from saddleback.log import collect
    >>> two = problems.two_state(0.5, rewards=[[1, -1], [0.5, 2]])
    >>> log = collect(two, steps=5000, rng=0)
    >>> options = dict(target=two.target, features=OneHot(2), gamma=0.5, rule=GES(0.0))
    >>> SVRG(**options, rng=0).fit(log).outcome_
    'ok'
    """

    ridge: float = 0.0
    tolerance: float = 1e-10
    epochs: int = 200
    rng: RNG = None
    samples_: list[Samples] = field(default_factory=list, init=False, repr=False)
    residuals_: FloatArray = field(default_factory=lambda: np.zeros(0), init=False, repr=False)

    def fit(self, log: Any, progress: Progress | None = None) -> Self:
        """Learn from a log, discarding earlier data."""
        self.samples_ = []
        return super().fit(log, progress)

    def _add_statistics(self, log: Log, progress: Progress | None) -> None:
        parts: list[Samples] = []
        unsplit = log.with_options(
            segment=log.rows + 1
        )  # so that the trace of an episode is not cut
        copies = copies_of(log.n_actions, self.effective_rule.values, self.shared).shape[1]
        p = int(self.features.size * copies)
        sums = Statistics(
            **compute_statistics(
                unsplit, [self.effective_rule], self.target, features=self.features,
                gamma=self.gamma, shared=self.shared, blocks=1,
                allow_uncovered=self.allow_uncovered, threads=1, progress=progress,
                sink=lambda columns: parts.append(Samples.of(columns, p)),
            )
        )  # fmt: skip
        self.statistics_ = sums if self.statistics_ is None else self.statistics_.merge(sums)
        self.samples_ = [Samples.concatenate([*self.samples_, *parts])]
        self.start_ = self.statistics_.start()

    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        solution = solve(
            self.samples_[0], tolerance=self.tolerance, epochs=self.epochs, ridge=self.ridge,
            rng=self.rng,
            progress=None if progress is None else lambda k, _: progress(min(1.0, k / self.epochs)),
        )  # fmt: skip
        self.theta_, self.outcome_ = solution.theta, solution.outcome
        self.residuals_ = solution.residuals
        steps, _ = self.samples_[0].phi.shape
        active = len(np.unique(self.samples_[0].phi.indices))
        if self.outcome_ == "ok" and active > steps and not self.ridge:
            self.outcome_ = (
                f"solved, but not uniquely: {active:,} features for {steps:,} steps, so "
                "predictions depend on the order of the steps. Use a ridge."
            )
