"""What is true on MountainCar: values of π and linear systems, by simulating π itself.

Importance traces above the λ ceiling have infinite variance, so an Â from experience of μ is mostly
noise. But A = E[φ(s, a) Σ_k (γλ)^k (γb_{k+1} − φ_k)ᵀ] with (s, a) from the visits of μ, and *π*
followed from there, has no ratios in it at all. Shorter or bounded traces need no such care.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from scipy.sparse import csr_array

from saddleback._typing import FloatArray
from saddleback.engine import Simulation, Sums
from saddleback.paper.comparison import Metrics
from saddleback.problems.mountain_car_rollouts import returns, rollouts
from saddleback.rules import GES, Expected, Importance, Rule, Saddle, Trace
from saddleback.system import System, linear_stability
from saddleback.theory import trace_radius

SPACING = 20
"""Steps of μ between two pairs from which rollouts begin."""


@dataclass(frozen=True)
class Effort:
    """How much simulation goes into the truth."""

    starts: int = 40_000
    """Rollouts of π behind the systems of importance traces."""
    steps: int = 1_200_000
    """Steps of μ behind the systems of bounded traces, and behind M."""
    pairs: int = 2000
    """State-action pairs at which values are compared, drawn from the visits of μ."""
    returns: int = 200
    """Rollouts of π for each of them."""


@dataclass(frozen=True, eq=False)
class ReferenceValues:
    """q^π at some pairs, with standard errors, and the features there."""

    phi: csr_array
    q: FloatArray
    error: FloatArray

    def mse(self, theta: FloatArray) -> FloatArray:
        """‖Φθ − q^π‖²/‖q^π‖² over the pairs, without what the errors of q^π would add."""
        rows = theta.reshape(-1, theta.shape[-1])
        gap = (self.phi @ rows.T).T.reshape(*theta.shape[:-1], -1) - self.q
        noise = float(np.mean(self.error**2))
        scale = float(np.mean(self.q**2)) - noise
        return np.asarray((np.mean(gap**2, axis=-1) - noise) / scale)


class Objective:
    """½‖Bθ + c‖² = ½ (Aθ+b)ᵀM⁺(Aθ+b), with B = M^(−½)A on the range of M."""

    def __init__(self, system: System, half: FloatArray) -> None:
        self._used = np.flatnonzero(system.A.any(axis=0))  # nearly a third of the tiles never are
        self._B, self._c = half @ system.A[:, self._used], half @ system.b

    def mspbe(self, theta: FloatArray) -> FloatArray:
        """The MSPBE of θ […, p]."""
        rows = theta.reshape(-1, theta.shape[-1])[:, self._used]
        gap = rows @ self._B.T + self._c
        return np.asarray(0.5 * np.einsum("ki,ki->k", gap, gap)).reshape(theta.shape[:-1])


def half_inverse(M: FloatArray) -> FloatArray:
    """M^(−½) on the range of M, [rank, p]."""
    values, vectors = np.linalg.eigh(M)
    kept = values > linear_stability.RTOL * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)


def reference_values(
    car: Simulation, effort: Effort, seed: np.random.SeedSequence
) -> ReferenceValues:
    """Simulate π from pairs that μ visits."""
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
    """The system as experience of μ gives it, without standard errors, which nobody asks for."""
    return replace(System.estimate(car, rule, steps=steps, rng=seed, batches=2), errors=None)


def fixed_point(system: System) -> FloatArray:
    """θ* of a system, found on the features that are ever active; the others have weight 0."""
    used = np.flatnonzero(system.A.any(axis=0) | (np.diag(system.M) > 0))
    part = np.ix_(used, used)
    inner = System(system.A[part], system.b[used], system.M[part], system.C[part], system.rule)
    theta = np.zeros(system.p)
    theta[used] = inner.fixed_point
    return theta


def gram(car: Simulation, steps: int, seed: np.random.SeedSequence) -> FloatArray:
    """M as the same experience gives it; it has nothing to do with the rule."""
    return from_experience(car, GES(0.0), steps, seed).M


def reference_system(
    car: Simulation,
    rule: Rule,
    effort: Effort,
    by_mu: np.random.SeedSequence,
    by_pi: np.random.SeedSequence,
) -> System:
    """The system of a rule with Â that can be trusted, whatever the trace."""
    if trace_radius(car, rule) < 1.0:
        return from_experience(car, rule, effort.steps, by_mu)
    M = gram(car, effort.steps, by_mu)
    A, b = _by_rollouts(car, rule, effort.starts, by_pi)
    return System(A, b, M, A.T + M, rule)


def _by_rollouts(
    car: Simulation, rule: Rule, starts: int, seed: np.random.SeedSequence
) -> tuple[FloatArray, FloatArray]:
    """A and b of an importance trace: only the first pair enters the trace, and π is followed."""
    lam = rule.trace.lam if isinstance(rule.trace, Importance) else 0.0
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
        sums = Sums(car.p, len(first))
        sums.add(columns)
        A += sums.moments().A * len(first)
        b += sums.moments().b * len(first)
    return A / starts, b / starts


Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class ThreadSafeCache(Generic[Key, Found]):
    """A function whose values are worked out once each, also where several threads ask.

    Examples
    --------
    >>> asked = []
    >>> square = ThreadSafeCache(lambda k: asked.append(k) or k * k)
    >>> square(3), square(3), asked
    (9, 9, [3])
    """

    def __init__(self, work: Callable[[Key], Found]) -> None:
        self._work, self._guard = work, threading.Lock()
        self._found: dict[Key, Future[Found]] = {}

    def __call__(self, key: Key) -> Found:
        """Return the value, waiting if another thread is at it."""
        with self._guard:
            first = key not in self._found
            future = self._found.setdefault(key, Future())
        if first:
            try:
                future.set_result(self._work(key))
            except BaseException as error:
                future.set_exception(error)
        return future.result()


class MountainCarReference:
    """Values of π, and systems of traces, trusted and as the paper estimates them.

    Saddle and correction forms of one trace share their system, so a trace is all that is asked.
    """

    def __init__(self, car: Simulation, effort: Effort, metric_steps: int, seed: int) -> None:
        def entropy(part: int) -> np.random.SeedSequence:
            return np.random.SeedSequence([seed, 99, part])

        def own(trace: Trace) -> Rule:
            return Rule(trace, Saddle(), Expected())

        self._values = ThreadSafeCache[None, ReferenceValues](
            lambda _: reference_values(car, effort, entropy(0))
        )
        self.system = ThreadSafeCache[Trace, System](
            lambda trace: reference_system(car, own(trace), effort, entropy(1), entropy(2))
        )
        half = ThreadSafeCache[tuple[int, int], FloatArray](
            lambda chosen: half_inverse(gram(car, chosen[0], entropy(chosen[1])))
        )
        self._objective = ThreadSafeCache[Trace, Objective](
            lambda trace: Objective(self.system(trace), half((effort.steps, 1)))
        )
        self._paper = ThreadSafeCache[Trace, Objective](
            lambda trace: Objective(
                from_experience(car, own(trace), metric_steps, entropy(3)), half((metric_steps, 3))
            )
        )

    @property
    def values(self) -> ReferenceValues:
        """q^π where it is compared."""
        return self._values(None)

    def metrics(self, rule: Rule, lam: float) -> Metrics:
        """MSE, the MSPBE of the rule itself, that of GES(λ), and the paper's of the rule itself."""
        return {
            "mse": self.values.mse,
            "mspbe": self._objective(rule.trace).mspbe,
            "mspbe_common": self._objective(GES(lam).trace).mspbe,
            "mspbe_paper": self._paper(rule.trace).mspbe,
        }
