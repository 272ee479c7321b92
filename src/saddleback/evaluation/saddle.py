"""The fixed point of a log without matrices: the saddle point of its samples, by SVRG."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from saddleback._typing import RNG, FloatArray
from saddleback.engine import LoggedStreamer, check_logged, copies_of
from saddleback.evaluation.estimator import Estimator
from saddleback.evaluation.setting import fit
from saddleback.evaluation.statistics import add_start
from saddleback.evaluation.svrg import Samples, solve
from saddleback.log import Log
from saddleback.log.log import Progress


@dataclass(eq=False, kw_only=True)
class SVRG(Estimator):
    """The fixed point Âθ + b̂ = 0 by variance-reduced steps on the log's own saddle point.

    Nothing is p × p: for features too many to factorise. See `saddleback.evaluation.svrg` for the
    method, and for which data it converges quickly.

    Parameters
    ----------
    ridge
        η: solve with Â − η·diag M̂ instead.
    tolerance, epochs
        Stop at this relative residual, or after so many passes.
    rng
        Seed of the order in which samples are taken.

    Attributes
    ----------
    samples_, episodes_
        The samples so far, and of how many episodes.
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
    episodes_: int = field(default=0, init=False, repr=False)
    residuals_: FloatArray = field(default_factory=lambda: np.zeros(0), init=False, repr=False)

    def fit(self, log: Any, progress: Progress | None = None) -> Self:
        """Learn from a log, forgetting what was learned before."""
        self.samples_, self.episodes_ = [], 0
        return super().fit(log, progress)

    def _sum(self, log: Log, progress: Progress | None) -> None:
        rule = self.chosen
        fit(log, self.features)
        known = "mu" in log.layout.tables or log.behaviour is not None
        check_logged(rule, rule.values, bool(log.propensity), known)
        copies = copies_of(log.n_actions, rule.values, self.shared)
        p = int(self.features.size * copies.shape[1])
        streamer = LoggedStreamer(self.features, [rule], copies, self.gamma)
        start, parts, episodes = np.zeros((1, p)), [*self.samples_], self.episodes_
        if self.start_ is not None:
            start[0] = episodes * self.start_
        whole = log.but(segment=log.rows + 1)  # traces of an episode are kept together
        for piece in whole.pieces(self._target.tables, progress):
            pi = self._target.probabilities(piece, log.n_actions)
            columns = streamer(piece, pi, piece.propensity, piece.tables.get("mu"))[0]
            parts.append(Samples.of(columns, p))
            first = piece.first_states
            active = self.features.encode(piece.observations[first])
            add_start(active, pi[first] @ copies, np.zeros(len(first), dtype=np.int64), start)
            episodes += len(first)
        self.samples_, self.episodes_ = [Samples.concatenate(parts)], episodes
        self.start_ = start[0] / max(1, episodes)

    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        found = solve(
            self.samples_[0], tolerance=self.tolerance, epochs=self.epochs, ridge=self.ridge,
            rng=self.rng,
        )  # fmt: skip
        self.theta_, self.residuals_, self.outcome_ = found.theta, found.residuals, found.outcome
