"""Reference values and linear systems on MountainCar, by simulation of π itself.

Importance traces above the λ ceiling have infinite variance, so an Â from experience of μ is mostly
noise. But A = E[φ(s, a) Σ_k (γλ)^k (γb_{k+1} − φ_k)ᵀ] with (s, a) from the visits of μ, and *π*
followed from there, has no importance ratios. Shorter or bounded traces can be estimated directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from saddleback._threads import ThreadSafeCache
from saddleback._typing import FloatArray
from saddleback.engine import ForwardMoments, Quadratic, Simulation
from saddleback.features import Tiles
from saddleback.paper.comparison import Metric
from saddleback.problems.mountain_car import HIGH, LOW, mountain_car, returns, rollouts
from saddleback.rules import GES, Expected, Rule, Saddle, Trace
from saddleback.system import System, linear_stability
from saddleback.theory import trace_radius

SPACING = 20
"""Steps of μ between two pairs at which rollouts start."""


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


@cache
def simulation(gamma: float, bins: int, tilings: int) -> Simulation:
    """Return MountainCar with tiles; the same object for the same arguments."""
    return mountain_car(gamma, features=Tiles(LOW, HIGH, bins=bins, tilings=tilings))


@dataclass(frozen=True, eq=False)
class ReferenceValues:
    """q^π at some pairs, with standard errors, and the features there."""

    phi: csr_array
    q: FloatArray
    error: FloatArray

    def mse(self, theta: FloatArray) -> FloatArray:
        """Return ‖Φθ − q^π‖²/‖q^π‖² over the pairs, corrected for the sampling error of q^π."""
        rows = theta.reshape(-1, theta.shape[-1])
        gap = (self.phi @ rows.T).T.reshape(*theta.shape[:-1], -1) - self.q
        noise = float(np.mean(self.error**2))
        scale = float(np.mean(self.q**2)) - noise
        return np.asarray((np.mean(gap**2, axis=-1) - noise) / scale)

    def quadratic_form(self, objective: str) -> Quadratic | None:
        """Return `mse` as a quadratic form, by name."""
        noise = float(np.mean(self.error**2))
        scale = float(np.mean(self.q**2)) - noise
        weights = np.full(len(self.q), 1.0 / len(self.q))
        return Quadratic(self.phi.toarray(), -self.q, weights, 1.0 / scale, -noise / scale)


class Objective:
    """½‖Bθ + c‖² = ½ (Aθ+b)ᵀM⁺(Aθ+b), with B = M^(−½)A on the range of M."""

    def __init__(self, system: System, half: FloatArray) -> None:
        self._used = np.flatnonzero(
            system.A.any(axis=0)
        )  # almost a third of the tiles are never active
        self._p = system.p
        self._B, self._c = half @ system.A[:, self._used], half @ system.b

    def mspbe(self, theta: FloatArray) -> FloatArray:
        """Return the MSPBE of θ […, p]."""
        rows = theta.reshape(-1, theta.shape[-1])[:, self._used]
        gap = rows @ self._B.T + self._c
        return np.asarray(0.5 * np.einsum("ki,ki->k", gap, gap)).reshape(theta.shape[:-1])

    def quadratic_form(self, objective: str) -> Quadratic | None:
        """Return `mspbe` as a quadratic form, by name."""
        H = np.zeros((len(self._B), self._p))
        H[:, self._used] = self._B
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


def from_experience(
    car: Simulation, rule: Rule, steps: int, seed: np.random.SeedSequence
) -> System:
    """Estimate a system from experience of μ, without standard errors."""
    return replace(System.estimate(car, rule, steps=steps, rng=seed, batches=2), errors=None)


def fixed_point(system: System) -> FloatArray:
    """Return θ* of a system, solved on the active features; the others get weight 0."""
    used = np.flatnonzero(system.A.any(axis=0) | (np.diag(system.M) > 0))
    part = np.ix_(used, used)
    inner = System(system.A[part], system.b[used], system.M[part], system.C[part], system.rule)
    theta = np.zeros(system.p)
    theta[used] = inner.fixed_point
    return theta


def gram(car: Simulation, steps: int, seed: np.random.SeedSequence) -> FloatArray:
    """Estimate M from the same experience; it does not depend on the rule."""
    return from_experience(car, GES(0.0), steps, seed).M


def reference_system(
    car: Simulation,
    rule: Rule,
    effort: Effort,
    by_mu: np.random.SeedSequence,
    by_pi: np.random.SeedSequence,
) -> System:
    """Return a reliable estimate of the system of a rule, for any trace."""
    follows_pi = not rule.trace.flow_uses_mu  # μκ is λπ, so π itself can be followed
    if trace_radius(car, rule) < 1.0 or not follows_pi:
        return from_experience(car, rule, effort.steps, by_mu)
    M = gram(car, effort.steps, by_mu)
    A, b = _by_rollouts(car, rule, effort.starts, by_pi)
    return System(A, b, M, A.T + M, rule)


def _by_rollouts(
    car: Simulation, rule: Rule, starts: int, seed: np.random.SeedSequence
) -> tuple[FloatArray, FloatArray]:
    """Estimate A and b of an importance trace by following π from pairs visited by μ."""
    lam = rule.trace.parameter or 0.0
    draw, simulate = (np.random.default_rng(child) for child in seed.spawn(2))
    steps, streamer = car.sampler(draw).take(SPACING * starts), car.streamer([rule])
    A, b = np.zeros((car.p, car.p)), np.zeros(car.p)
    for begin in range(0, starts, 2000):
        chosen = slice(SPACING * begin, SPACING * min(begin + 2000, starts), SPACING)
        piece = rollouts(
            car.target, steps.observations[chosen], steps.actions[chosen], car.gamma, simulate
        )
        first = piece.starts
        columns = streamer(piece)[0]._replace(
            decay=np.where(first, 0.0, car.gamma * lam), weight=first.astype(np.float64)
        )
        sums = ForwardMoments(car.p, len(first))
        sums.add(columns)
        A += sums.moments().A * len(first)
        b += sums.moments().b * len(first)
    return A / starts, b / starts


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
        self.system = ThreadSafeCache[Trace, System](
            lambda trace: reference_system(car, rule_of(trace), effort, entropy(1), entropy(2))
        )
        half = ThreadSafeCache[tuple[int, int], FloatArray](
            lambda chosen: half_inverse(gram(car, chosen[0], entropy(chosen[1])))
        )
        self.objective = ThreadSafeCache[Trace, Objective](
            lambda trace: Objective(self.system(trace), half((effort.steps, 1)))
        )
        self.paper_objective = ThreadSafeCache[Trace, Objective](
            lambda trace: Objective(
                from_experience(car, rule_of(trace), effort.sample, entropy(3)),
                half((effort.sample, 3)),
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
