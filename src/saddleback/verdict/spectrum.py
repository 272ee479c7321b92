"""The spectrum of Â, and how much of it is the sample's: stable, unstable, or not to be decided.

The off-line update θ ← θ + α(Âθ + b̂) converges for small α iff all eigenvalues of Â, on the span of
the features that were met, have negative real part. Blocks of episodes are drawn anew, and the
spectrum found again: the cloud. (A draw that leaves a feature out has the eigenvalue 0 for it,
which does not count.) V̂ of a draw is solved for again if there are many of them, with a small ridge
that makes it unique, else it is found by the scores of the blocks, to first order.
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
from saddleback.evaluation.sandwich import block_scores
from saddleback.evaluation.statistics import Statistics
from saddleback.rules import Rule

RIDGE = 1e-6
"""Least ridge of a draw."""

SURE = 0.975
"""Share of the draws that must agree."""

KEPT = 12
"""Eigenvalues of each draw that are kept: those with the largest real parts."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of Â, and of Â drawn anew.

    Attributes
    ----------
    values
        Of Â itself, largest real part first.
    cloud
        Of each draw those with the largest real parts, [draws, kept].
    drawn
        V̂ of each draw, [draws]: by scores if they are few, see the module.
    """

    values: ComplexArray
    cloud: ComplexArray
    drawn: FloatArray

    @property
    def agree(self) -> int:
        """How many draws are stable."""
        return int((self.cloud[:, 0].real < 0).sum())

    @property
    def word(self) -> str:
        """stable, unstable, or undecidable from this sample."""
        share = self.agree / len(self.cloud)
        here = bool(self.values[0].real < 0)
        if here and share >= SURE:
            return "stable"
        if not here and share <= 1 - SURE:
            return "unstable"
        return "undecidable"

    def bootstrap(self, level: float = 0.95) -> tuple[float, float]:
        """Return the interval of V̂ between quantiles of the draws.

        Whole blocks of episodes are drawn, so it is as coarse as they are few.
        """
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(self.drawn, [tail, 1.0 - tail])
        return float(low), float(high)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {
            "word": self.word, "stable": self.agree, "draws": len(self.cloud),
            "values": _pairs(self.values), "cloud": [_pairs(each) for each in self.cloud],
            "drawn": self.drawn.tolist(), "bootstrap": list(self.bootstrap()),
        }  # fmt: skip


def _pairs(values: ComplexArray) -> list[list[float]]:
    return [[each.real, each.imag] for each in values.tolist()]


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
    """Begin to draw blocks of episodes anew, for V̂ and the eigenvalues of Â each time.

    The work is done by the pool, while other things can be done; what is returned waits for it.
    """
    enough_draws(draws)
    t, r = sums.place(rule, target)
    some, at = np.flatnonzero(sums.episodes > 0), sums.span.active
    if len(some) < 2:
        raise Undefined("bootstrap: all episodes are in one block; sum up in more blocks.")
    generator = np.random.default_rng(rng)
    weights = [
        np.bincount(generator.choice(some, len(some)), minlength=len(sums.steps))
        for _ in range(draws)
    ]
    shrink = np.diag(np.diag(sums.M)[at] * max(ridge, RIDGE))

    value, scores = block_scores(sums, rule, target, ridge)
    blocks = pool.submit(lambda: sums.A[t, r][:, at[:, None], at])

    def some_draws(mine: list[IntArray]) -> list[tuple[ComplexArray, float]]:
        found = []
        for weight in mine:
            A = np.tensordot(weight, blocks.result(), axes=1)
            drawn = value + float(weight[some] @ scores) / len(some)
            if draws >= MANY:
                theta = np.linalg.solve(A - shrink, -(weight @ sums.b[t, r][:, at]))
                start = weight @ sums.starts[t][:, at] / float(weight @ sums.episodes)
                drawn = float(theta @ start)
            found.append((_ordered(A)[:KEPT] / float(weight @ sums.steps), drawn))  # as Â: a mean
        return found

    whole = pool.submit(_ordered, sums.system(rule, target).A[np.ix_(at, at)])
    parts = [pool.submit(some_draws, weights[k : k + PART]) for k in range(0, draws, PART)]

    def wait() -> Spectrum:
        each = []
        for done, part in enumerate(parts, 1):
            each += part.result()
            if progress is not None:
                progress(done / len(parts))
        cloud = np.array([values for values, _ in each])
        return Spectrum(whole.result(), cloud, np.array([value for _, value in each]))

    return wait


MANY = 100
"""Draws from which V̂ is solved for again in each, and their quantiles are shown."""

PART = 10
"""Draws that are made in one go."""


def enough_draws(draws: int) -> None:
    """Refuse fewer draws than a spread can be taken of."""
    if _validate.count("bootstrap", "draws", draws) < FEWEST:
        raise InvalidParameter(
            f"bootstrap: {draws} draws are too few to say anything of a spread: at least {FEWEST}."
        )


NOTHING = 1e-9
"""Share of the largest eigenvalue below which one counts as 0: half a billion steps would not tell.

Features that are nearly collinear have eigenvalues of 1e-11 and less, of either sign by rounding.
"""

FEWEST = 20
"""Fewest draws of which a spread is taken."""


def _ordered(A: FloatArray) -> ComplexArray:
    """Eigenvalues with the largest real part first; what rounding leaves of 0 is 0, and comes last.

    Beside those on the span of the features A has only zeros, since it maps into the span.
    """
    z = np.asarray(np.linalg.eigvals(A), dtype=np.complex128)
    zero = np.abs(z) <= NOTHING * np.abs(z).max(initial=0.0)
    z[zero] = 0.0
    return z[np.lexsort((z.imag, -z.real, zero))]
