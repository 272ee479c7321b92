"""The spectrum of Â and its sampling variation: stable, unstable, or undecidable.

The off-line update θ ← θ + α(Âθ + b̂) converges for small α iff all eigenvalues of Â, on the span of
the active features, have negative real part. Blocks of episodes are resampled, and the spectrum is
computed for each draw: the cloud. (A feature that is absent from a draw has the eigenvalue 0, which
does not count.) With many draws V̂ is solved for each, with a small ridge that makes it unique;
otherwise it is computed from the influence of the blocks, to first order.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress
from saddleback._typing import ComplexArray, FloatArray, IntArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.ope.sandwich import block_scores
from saddleback.ope.statistics import Statistics
from saddleback.rules import Rule

RIDGE = 1e-6
"""Smallest ridge of a draw."""

AGREEMENT = 0.975
"""Share of draws that must agree on stability."""

MAX_KEPT = 12
"""Eigenvalues kept per draw: those with the largest real parts."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of Â, and of its block resamples."""

    values: ComplexArray  # eigenvalues of Â, largest real part first
    cloud: ComplexArray  # the eigenvalues with the largest real parts of each draw, [draws, kept]
    drawn: FloatArray  # V̂ of each draw, [draws]; to first order if there are few draws

    @property
    def stable_draws(self) -> int:
        """Number of stable draws."""
        return int((self.cloud[:, 0].real < 0).sum())

    @property
    def outcome(self) -> str:
        """stable, unstable, or undecidable from this sample."""
        share = self.stable_draws / len(self.cloud)
        stable = bool(self.values[0].real < 0)
        if stable and share >= AGREEMENT:
            return "stable"
        if not stable and share <= 1 - AGREEMENT:
            return "unstable"
        return "undecidable"

    def bootstrap(self, level: float = 0.95) -> tuple[float, float]:
        """Return the percentile interval of V̂ over the draws.

        Blocks of episodes are resampled, so the interval is coarse if there are few blocks.
        """
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(self.drawn, [tail, 1.0 - tail])
        return float(low), float(high)

    def as_dict(self) -> dict[str, Any]:
        """Return the spectrum as plain data for JSON."""
        return {
            "outcome": self.outcome, "stable": self.stable_draws, "draws": len(self.cloud),
            "values": _pairs(self.values), "cloud": [_pairs(draw) for draw in self.cloud],
            "drawn": self.drawn.tolist(), "bootstrap": list(self.bootstrap()),
        }  # fmt: skip


def _pairs(values: ComplexArray) -> list[list[float]]:
    return [[value.real, value.imag] for value in values.tolist()]


def spectrum(
    sums: Statistics,
    rule: Rule,
    target: str,
    pool: Executor,
    *,
    ridge: float,
    draws: int,
    rng: int = 0,
    progress: Progress | None = None,
) -> Callable[[], Spectrum]:
    """Start resampling blocks of episodes, computing V̂ and the eigenvalues of Â for each draw.

    The work runs in the pool; the returned function waits for the result.
    """
    check_draws(draws)
    t, r = sums.index_of(rule, target)
    some, at = np.flatnonzero(sums.episodes > 0), sums.span.active
    if len(some) < 2:
        raise Undefined("bootstrap: all episodes are in one block; use more blocks.")
    generator = np.random.default_rng(rng)
    weights = [
        np.bincount(generator.choice(some, len(some)), minlength=len(sums.steps))
        for _ in range(draws)
    ]
    shrink = np.diag(np.diag(sums.M)[at] * max(ridge, RIDGE))

    value, scores = block_scores(sums, rule, target, ridge)

    def active_blocks() -> FloatArray:
        A = sums.A[t, r]
        active = A if len(at) == A.shape[1] else A[:, at[:, None], at]
        return np.asarray(active.reshape(len(A), -1))

    blocks = pool.submit(active_blocks)

    def compute(chunk: list[IntArray]) -> list[tuple[ComplexArray, float]]:
        results = []
        matrices = np.asarray(chunk, dtype=np.float64) @ blocks.result()
        for weight, A in zip(chunk, matrices.reshape(-1, len(at), len(at)), strict=True):
            drawn = value + float(weight[some] @ scores) / len(some)
            if draws >= MIN_SOLVED_DRAWS:
                theta = np.linalg.solve(A - shrink, -(weight @ sums.b[t, r][:, at]))
                start = weight @ sums.starts[t][:, at] / float(weight @ sums.episodes)
                drawn = float(theta @ start)
            values = _ordered(A)[:MAX_KEPT] / float(weight @ sums.steps)  # a mean, like Â
            results.append((values, drawn))
        return results

    full = pool.submit(lambda: _ordered(sums.means(rule, target)[0][np.ix_(at, at)]))
    chunks = range(0, draws, DRAWS_PER_JOB)
    parts = [pool.submit(compute, weights[k : k + DRAWS_PER_JOB]) for k in chunks]

    def wait() -> Spectrum:
        results = []
        for done, part in enumerate(parts, 1):
            results += part.result()
            if progress is not None:
                progress(done / len(parts))
        cloud = np.array([values for values, _ in results])
        return Spectrum(full.result(), cloud, np.array([value for _, value in results]))

    return wait


MIN_SOLVED_DRAWS = 100
"""Number of draws from which V̂ is solved for each, and their quantiles are shown."""

DRAWS_PER_JOB = 2
"""Draws per job of the pool."""


def check_draws(draws: int) -> None:
    """Raise if there are too few draws to estimate a spread, or more than could end."""
    if _validate.count("bootstrap", "draws", draws) < MIN_DRAWS:
        raise InvalidParameter(
            f"bootstrap: {draws} draws are too few to estimate a spread: use at least {MIN_DRAWS}."
        )
    if draws > MAX_DRAWS:
        raise InvalidParameter(
            f"bootstrap: {draws:,} draws are too many: use at most {MAX_DRAWS:,}."
        )


ZERO_TOLERANCE = 1e-9
"""Eigenvalues below this fraction of the largest count as 0.

Nearly collinear features have eigenvalues of 1e-11 and less, whose sign is rounding error.
"""

MIN_DRAWS, MAX_DRAWS = 20, 100_000
"""Smallest number of draws to estimate a spread from, and largest."""


def _ordered(A: FloatArray) -> ComplexArray:
    """Return eigenvalues with the largest real part first; those within rounding of 0 come last.

    Outside the span of the features all eigenvalues of A are 0, since it maps into the span.
    """
    z = np.asarray(np.linalg.eigvals(A), dtype=np.complex128)
    zero = np.abs(z) <= ZERO_TOLERANCE * np.abs(z).max(initial=0.0)
    z[zero] = 0.0
    return z[np.lexsort((z.imag, -z.real, zero))]
