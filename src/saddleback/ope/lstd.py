"""`LSTD`: the fixed point of a rule, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

from saddleback._progress import Progress
from saddleback.log import Log
from saddleback.ope.estimator import Estimator
from saddleback.ope.lstd_solve import FeatureSpan


@dataclass(eq=False, kw_only=True)
class LSTD(Estimator):
    """The fixed point Âθ + b̂ = 0 of a rule, in closed form: LSTD(λ) with any trace.

    There is no step size to choose, and one pass over the log suffices. With a ``ridge`` η, the
    matrix is Â − η·diag M̂.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=1000, rng=0)
    >>> estimator = LSTD(target="pump:0.8", features=car.features, gamma=0.99).fit(log)
    >>> estimator.outcome_, round(estimator.value(), 1), estimator.predict([[-0.5, 0.0]]).round(0)
    ('ok', -77.5, array([[-78., -77., -71.]]))
    """

    ridge: float = 0.0

    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        assert self.statistics_ is not None
        system = self.statistics_.system()
        solution = FeatureSpan(system.M).solve(system.A, system.b, self.ridge)
        self.theta_, self.outcome_ = solution.theta, solution.outcome
