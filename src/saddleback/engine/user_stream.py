"""User-supplied streams: every number that a kernel reads, validated once.

For experience that no problem or simulation describes. All validation is done here; the kernels
check nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.engine.sources import Replay
from saddleback.engine.stream_columns import Columns, SparseRows
from saddleback.errors import InvalidNumbers, InvalidParameter, InvalidShape, RuleMismatch
from saddleback.rules import Rule


@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """T steps of experience, as numbers for one rule; a source for `learn` and `System.estimate`.

    Attributes
    ----------
    columns
        The steps, as the kernels read them.
    p
        Number of features.
    corrected
        Whether the stream has the correction x of each step.

    Examples
    --------
    Two steps on the features of two states, in one episode:

    >>> from saddleback import GES, System
    >>> stream = Stream.of(
    ...     phi=[[1.0, 0.0], [0.0, 1.0]],
    ...     bootstrap=[[0.0, 1.0], [0.0, 0.0]],
    ...     rewards=[0.0, 1.0],
    ...     discounts=[0.9, 0.0],
    ...     decay=[0.0, 0.45],
    ... )
    >>> stream
    Stream(steps=2, p=2)
    >>> System.estimate(stream, GES(0.5), batches=2).A
    array([[-0.5  ,  0.225],
           [ 0.   , -0.5  ]])
    """

    columns: Columns
    p: int
    corrected: bool = False
    one_at_a_time: ClassVar[bool] = False

    @classmethod
    def of(
        cls,
        *,
        phi: Any,
        bootstrap: Any,
        rewards: ArrayLike,
        discounts: ArrayLike,
        decay: ArrayLike,
        weight: ArrayLike = 1.0,
        correction: Any = None,
        starts: ArrayLike = False,
    ) -> Self:
        """Validate and pack the steps e ← c e + w φ, δ = R + γ'θᵀb − θᵀφ.

        Parameters
        ----------
        phi, bootstrap, correction
            φ, b and x of each step, [T, p]: arrays or SciPy sparse matrices. Without a
            correction, x = 0; only rules of the correction form (GQ, TDC, …) use it.
        rewards, discounts
            R and γ' of each step, [T].
        decay, weight
            c = γκ and w of each step, numbers or [T]. The discount in c is the previous step's.
        starts
            Which steps begin an episode, [T]; there c is taken as 0.
        """
        features = {"phi": phi, "bootstrap": bootstrap}
        if correction is not None:
            features["correction"] = correction
        sparse = {name: _sparse(name, values) for name, values in features.items()}
        steps, p = sparse["phi"].shape
        if not steps or not p:
            raise InvalidShape("Stream: phi is empty; give at least one step and one feature.")
        for name, table in sparse.items():
            if table.shape != (steps, p):
                raise InvalidShape(
                    f"Stream: {name} must have shape [{steps}, {p}] like phi, got "
                    f"{list(table.shape)}."
                )
        numbers = {"rewards": rewards, "discounts": discounts, "decay": decay, "weight": weight}
        column = {name: _column(name, values, steps) for name, values in numbers.items()}
        for name, high in (("discounts", 1.0), ("decay", np.inf)):
            for t in np.flatnonzero((column[name] < 0) | (column[name] > high))[:1]:
                raise InvalidParameter(
                    f"Stream: {name}[{t}] is {column[name][t]:g}, outside [0, {high:g}]."
                )
        column["decay"][_column("starts", starts, steps) != 0.0] = 0.0
        rows = _rows(sparse["phi"])
        next_rows = _rows(sparse["bootstrap"], sparse.get("correction"))
        binary = bool((rows.values[0] == 1.0).all())
        return cls(
            Columns(
                rows.first, rows.column, np.ones(1) if binary else rows.values[0],
                next_rows.first, next_rows.column, next_rows.values[0], next_rows.values[1],
                column["rewards"], column["discounts"], column["decay"], column["weight"],
            ),
            p,
            correction is not None,
        )  # fmt: skip

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.columns.reward)

    def part(self, steps: slice) -> Columns:
        """Return the columns of a slice of the steps."""
        bounds = slice(steps.start, steps.stop + 1)
        c = self.columns
        return c._replace(
            phi_from=c.phi_from[bounds], next_from=c.next_from[bounds], reward=c.reward[steps],
            discount=c.discount[steps], decay=c.decay[steps], weight=c.weight[steps],
        )  # fmt: skip

    def sampler(self, rng: np.random.Generator) -> Replay:
        """Return the steps, in order."""
        return Replay(self)

    def streamer(self, rules: Sequence[Rule]) -> Callable[[Columns], list[Columns]]:
        """Return a function that gives every rule the same stream; only their forms differ."""
        for rule in rules:
            if rule.form.coefficients.hybrid or (rule.form.true_online and rule.form.has_dual):
                raise RuleMismatch(f"{rule} needs a second trace, and this stream has one only.")
            if rule.form.coefficients.correction and not self.corrected:
                raise RuleMismatch(
                    f"{rule} needs the correction x of each step, and this stream has none: "
                    "build it with Stream.of(…, correction=…)."
                )
        return lambda columns: [columns] * len(rules)

    def __repr__(self) -> str:
        return f"Stream(steps={self.steps}, p={self.p})"


def _column(name: str, values: ArrayLike, steps: int) -> FloatArray:
    """Return a validated column of length ``steps``; a number is repeated."""
    column = _validate.floats(f"Stream: {name}", values)
    if column.ndim == 0:
        column = np.full(steps, column)
    _validate.shape(f"Stream: {name}", column, (steps,))
    _validate.finite(f"Stream: {name}", column)
    return column


def _sparse(name: str, values: Any) -> Any:
    """Return a validated table in compressed rows, without duplicate indices."""
    table: Any = values
    if scipy.sparse.issparse(values):
        if table.ndim != 2 or table.dtype.kind not in "fiub":
            raise InvalidShape(
                f"Stream: {name} must be a table [T, p] of numbers, got {table.ndim} dimensions of "
                f"{table.dtype}."
            )
        table = table.tocsr(copy=True).astype(np.float64)
        if (np.diff(table.indptr) < 0).any():
            raise InvalidShape(f"Stream: the row pointers of {name} must not decrease.")
    else:
        dense = _validate.floats(f"Stream: {name}", values)
        _validate.shape(f"Stream: {name}", dense, ("T", "p"))
        table = scipy.sparse.csr_array(dense)
    for kind, wrong in (
        (InvalidParameter, (table.indices < 0) | (table.indices >= table.shape[1])),
        (InvalidNumbers, ~np.isfinite(table.data)),
    ):
        for at in np.flatnonzero(wrong)[:1]:
            t = int(np.searchsorted(table.indptr, at, side="right")) - 1
            index, value = table.indices[at], table.data[at]
            raise kind(
                f"Stream: {name} of step {t} has the value {value:g} at feature {index}; features "
                f"run from 0 to {table.shape[1] - 1}, and values must be finite."
            )
    if table.shape[1] >= 1 << 32:
        raise InvalidParameter(f"Stream: {table.shape[1]} features are too many for an index.")
    table.sum_duplicates()
    return table


def _rows(table: Any, other: Any = None) -> SparseRows:
    """Return one or two tables as sparse rows over the union of their entries."""
    if other is None:
        values = np.stack([table.data, np.zeros_like(table.data)])
        return SparseRows(table.indptr.astype(np.uint64), table.indices.astype(np.uint32), values)
    either = abs(table) + abs(other)
    row = np.repeat(np.arange(either.shape[0]), np.diff(either.indptr))
    values = np.stack([np.asarray(part[row, either.indices]).ravel() for part in (table, other)])
    return SparseRows(either.indptr.astype(np.uint64), either.indices.astype(np.uint32), values)
