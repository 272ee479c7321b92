"""Reference values and linear systems on MountainCar: what the learners are measured against.

The systems of importance traces come from rollouts of π (`rollout_systems`); the others, whose
traces are bounded, from experience of μ. Both know their sampling error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from saddleback._threads import ThreadSafeCache
from saddleback._typing import FloatArray
from saddleback.engine import Quadratic, Simulation
from saddleback.features import Tiles
from saddleback.paper.comparison import Metric
from saddleback.paper.estimated_system import (
    EstimatedSystem,
    ReferenceValues,
    from_experience,
    with_noise,
)
from saddleback.paper.rollout_systems import rollout_systems
from saddleback.problems.mountain_car import HIGH, LOW, mountain_car, returns
from saddleback.rules import GES, Expected, Rule, Saddle, Trace
from saddleback.system import System, linear_stability

LAMBDAS = (0.3, 0.5, 0.6, 0.7, 0.99)
"""λ whose systems share their rollouts; another λ has rollouts of its own, which are the same."""


class Effort(NamedTuple):
    """Amount of simulation for the reference; the study gives the numbers."""

    starts: int
    """Rollouts of π for the systems of importance traces."""
    steps: int
    """Steps of μ for the systems of bounded traces, and for M."""
    pairs: int
    """State-action pairs at which values are compared, sampled from the visits of μ."""
    returns: int
    """Rollouts of π from each of them."""
    sample: int
    """Steps of μ for the paper's Monte Carlo estimates Â, b̂, M̂."""


def simulation(gamma: float, bins: int, tilings: int) -> Simulation:
    """Return MountainCar with tiles; the same object for the same arguments, however passed."""
    return _SIMULATIONS((gamma, bins, tilings))


def _new_simulation(key: tuple[float, int, int]) -> Simulation:
    gamma, bins, tilings = key
    return mountain_car(gamma, features=Tiles(LOW, HIGH, bins=bins, tilings=tilings))


_SIMULATIONS = ThreadSafeCache[tuple[float, int, int], Simulation](_new_simulation)


BLOCK = 128
"""Rows of a triangular matrix that are multiplied at a time, without the zeros before them."""


class Objective:
    """½‖Rθ + c‖² = ½ (Aθ+b)ᵀM⁺(Aθ+b), with QR = M^(−½)A on the range of M and c = QᵀM^(−½)b."""

    def __init__(self, system: System, half: FloatArray) -> None:
        # Almost a third of the tiles are never active.
        self._used = np.flatnonzero(system.A.any(axis=0))
        self._p = system.p
        Q, self._R = np.linalg.qr(half @ system.A[:, self._used])
        self._c = Q.T @ (half @ system.b)

    def mspbe(self, theta: FloatArray) -> FloatArray:
        """Return the MSPBE of θ […, p]."""
        rows = theta.reshape(-1, theta.shape[-1])[:, self._used]
        squares = np.zeros(len(rows))
        for begin in range(0, len(self._R), BLOCK):
            part = slice(begin, begin + BLOCK)
            gap = rows[:, begin:] @ self._R[part, begin:].T + self._c[part]
            squares += np.einsum("ki,ki->k", gap, gap)
        return 0.5 * squares.reshape(theta.shape[:-1])

    def quadratic_form(self, objective: str) -> Quadratic | None:
        """Return `mspbe` as a quadratic form, by name."""
        H = np.zeros((len(self._R), self._p))
        H[:, self._used] = self._R
        return Quadratic(H, self._c, np.ones(len(H)), 0.5)


def half_inverse(M: FloatArray) -> FloatArray:
    """Return M^(−½) on the range of M, [rank, p]."""
    values, vectors = np.linalg.eigh(M)
    kept = values > linear_stability.RTOL * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)


def reference_values(
    car: Simulation, effort: Effort, seed: np.random.SeedSequence
) -> ReferenceValues:
    """Simulate π from pairs visited by μ."""
    draw, simulate = (np.random.default_rng(child) for child in seed.spawn(2))
    steps = car.sampler(draw).take(100 * effort.pairs)
    chosen = slice(None, None, 100)  # far enough apart to be nearly independent
    states, actions = steps.observations[chosen], steps.actions[chosen]
    gains = returns(
        car.target,
        np.repeat(states, effort.returns, axis=0),
        np.repeat(actions, effort.returns),
        car.gamma,
        simulate,
    ).reshape(-1, effort.returns)
    error = gains.std(axis=1, ddof=1) / np.sqrt(effort.returns)
    return ReferenceValues(csr_array(car.phi(states, actions)), gains.mean(axis=1), error)


def gram(car: Simulation, steps: int, seed: np.random.SeedSequence) -> FloatArray:
    """Estimate M from the same experience; it does not depend on the rule."""
    return from_experience(car, [GES(0.0)], steps, seed)[0].M


def by_rollouts(trace: Trace) -> bool:
    """Whether μκ is λπ with λ > 0, so that π itself can be followed."""
    return not trace.flow_uses_mu and bool(trace.parameter)


class MountainCarReference:
    """Metrics of learners: values of π, and systems of traces, reliable and as in the paper.

    Each part is computed once, when first needed. The saddle and correction forms of one trace
    share their system, so the trace is enough to identify it.
    """

    def __init__(self, car: Simulation, effort: Effort, seed: int) -> None:
        def entropy(part: int) -> np.random.SeedSequence:
            return np.random.SeedSequence([seed, 99, part])

        def rule_of(trace: Trace) -> Rule:
            return Rule(trace, Saddle(), Expected())

        self._values = ThreadSafeCache[None, ReferenceValues](
            lambda _: reference_values(car, effort, entropy(0))
        )
        follow = ThreadSafeCache[tuple[float, ...], dict[float, EstimatedSystem]](
            lambda lambdas: rollout_systems(car, lambdas, effort.starts, entropy(2))
        )

        def estimate(trace: Trace) -> EstimatedSystem:
            if by_rollouts(trace):
                lam = float(trace.parameter or 0.0)
                return follow(LAMBDAS if lam in LAMBDAS else (lam,))[lam]
            return with_noise(car, rule_of(trace), effort.steps, entropy(1))

        half = ThreadSafeCache[tuple[str, int], FloatArray](
            lambda chosen: half_inverse(
                follow(LAMBDAS)[LAMBDAS[0]].system.M  # that of every λ
                if chosen[0] == "rollouts"
                else gram(car, chosen[1], entropy(1 if chosen[0] == "steps" else 3))
            )
        )

        def objective(trace: Trace) -> Objective:
            kind = ("rollouts", 0) if by_rollouts(trace) else ("steps", effort.steps)
            return Objective(self.estimate(trace).system, half(kind))

        self.estimate = ThreadSafeCache[Trace, EstimatedSystem](estimate)
        self.objective = ThreadSafeCache[Trace, Objective](objective)
        self.paper_objective = ThreadSafeCache[Trace, Objective](
            lambda trace: Objective(
                from_experience(car, [rule_of(trace)], effort.sample, entropy(3))[0],
                half(("sample", effort.sample)),
            )
        )

    @property
    def values(self) -> ReferenceValues:
        """q^π at the pairs of the comparison."""
        return self._values(None)


_REFERENCES = ThreadSafeCache[tuple[Simulation, Effort, int], MountainCarReference](
    lambda key: MountainCarReference(*key)
)


def reference(car: Simulation, settings: Mapping[str, Any]) -> MountainCarReference:
    """Return the reference of a study, computed once."""
    effort = Effort(*(settings[name] for name in Effort._fields))
    return _REFERENCES((car, effort, settings["seed"]))


def mse(problem: Simulation, rule: Rule, **settings: Any) -> Metric:
    """Mean square error of the values ÷ their mean square."""
    return reference(problem, settings).values.mse


def mspbe(problem: Simulation, rule: Rule, **settings: Any) -> Metric:
    """MSPBE of the rule, with a reliable system."""
    return reference(problem, settings).objective(rule.trace).mspbe


def mspbe_common(problem: Simulation, rule: Rule, **settings: Any) -> Metric:
    """MSPBE of GES, which is the same function of θ for every rule."""
    return reference(problem, settings).objective(GES(settings["lam"]).trace).mspbe


def mspbe_paper(problem: Simulation, rule: Rule, **settings: Any) -> Metric:
    """MSPBE of the rule as the paper measures it, with Â, b̂ and M̂ from experience."""
    return reference(problem, settings).paper_objective(rule.trace).mspbe
