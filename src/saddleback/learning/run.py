"""`Run`, the result of running a rule, and the bookkeeping shared by all ways of running."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from saddleback import _registry, _validate
from saddleback._display import Tabular, card_html, html_table
from saddleback._progress import Progress
from saddleback._typing import ArrayLike, BoolArray, FloatArray, IntArray
from saddleback.engine import Metric, StepSize, as_schedule
from saddleback.errors import InvalidParameter, InvalidShape, Undefined
from saddleback.learning.best_setting import Best, best_setting, tail_length
from saddleback.rules import Rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOUND = 1e6
"""Factor over initial and fixed-point weights beyond which a learner has diverged."""

MAX_METRICS = 8
"""Largest number of metrics in a ``repr``."""

Scalar = TypeVar("Scalar", np.float64, np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Run(Tabular):
    """The result of running one rule with one or many step sizes.

    ``…`` stands for the common shape of the step sizes, () for a single one; with ``runs``, θ, ω,
    curves and outcomes have an axis for them before it.

    `to_pandas` and `to_polars` have one row per recorded point, run and setting, with the columns
    ``rule``, ``recorded``, ``updates``, ``run``, ``setting``, ``alpha``, ``beta`` (NaN if the rule
    has no ω), ``diverged_at``, and one per metric.

    Attributes
    ----------
    rule
        The rule.
    theta, omega
        Final weights […, p]; of a diverged learner, those before it exceeded the bound.
    alpha, beta
        The step sizes (scales of the schedules), broadcast together, […].
    recorded
        Points at which curves were recorded, in steps, or in episodes, [n].
    updates
        Number of updates at those points, [n], or [n, runs].
    curves
        Values of each metric, [n, …]; infinity after a learner diverged.
    diverged_at
        Update at which a learner exceeded the bound, −1 if it never did, […].
    bound
        The bound.
    seed
        Seed of the experience: ``rng=run.seed`` repeats the run, even if no seed was given. None if
        a generator was passed in or nothing was sampled.

    Examples
    --------
    >>> from saddleback import GES, learn, problems
    >>> problem = problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
    >>> run = learn(GES(0.3), problem, alpha=[0.01, 0.02], beta=0.02, steps=2000, rng=0)
    >>> run
    Run(GES(0.3), updates=2000, settings=(2,), p=2, diverged=0 of 2)
      best mspbe: 0.17 with alpha=0.01, beta=0.02
      best mse_absolute: 31 with alpha=0.01, beta=0.02
    >>> run.curves["mspbe"].shape, run.outcome.tolist()
    ((101, 2), ['ok', 'ok'])
    >>> run.best("mspbe").alpha, run.to_pandas().shape
    (0.01, (202, 10))
    """

    rule: Rule
    theta: FloatArray
    omega: FloatArray
    alpha: FloatArray
    beta: FloatArray
    recorded: IntArray
    updates: IntArray
    curves: Mapping[str, FloatArray]
    diverged_at: IntArray
    bound: float
    seed: np.random.SeedSequence | None = None

    @property
    def ok(self) -> BoolArray:
        """Settings that stayed within the bound, […]."""
        return np.asarray(self.diverged_at < 0)

    @property
    def outcome(self) -> Any:
        """``"ok"`` or ``"diverged at step t"``; for many settings an array […] of such strings."""
        shape = self.diverged_at.shape
        texts = ["ok" if t < 0 else f"diverged at step {t}" for t in self.diverged_at.flat]
        return np.array(texts).reshape(shape) if shape else texts[0]

    @property
    def runs(self) -> int | None:
        """Number of independent runs; None if the results have no axis for them."""
        return len(self.diverged_at) if self.diverged_at.ndim > self.alpha.ndim else None

    def best(self, metric: str | None = None) -> Best:
        """Return the setting with the smallest final metric, such as ``run.best("mspbe")``.

        The final metric is the mean over runs and the last tenth of the recorded points. Settings
        that diverged in any run are excluded.

        Parameters
        ----------
        metric
            Name of a curve; by default the first.

        Examples
        --------
        >>> from saddleback import GES, learn, problems
        >>> problem = problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
        >>> options = dict(alpha=[0.01, 0.02], beta=0.02, steps=2000, rng=0)
        >>> best = learn(GES(0.3), problem, **options).best("mspbe")
        >>> best.alpha, best.index
        (0.01, (0,))
        """
        name = self._metric(metric)
        values = self.curve(name)
        final = values[-tail_length(len(values)) :].mean(axis=0)
        diverged = self.diverged_at.reshape(final.shape) >= 0
        beta = self.beta if self.rule.form.has_dual else np.full(self.alpha.shape, np.nan)
        best = best_setting(name, final, diverged, self.alpha, beta)
        if best is None:
            count = int(diverged.any(axis=0).sum())
            raise Undefined(
                f"no setting of {self.rule.display_name} has a finite {name!r} at the end: "
                f"{count} of {self.alpha.size} diverged. Use smaller step sizes. The metrics "
                f"are {', '.join(self.curves)}."
            )
        return best

    def curve(self, metric: str | None = None) -> FloatArray:
        """Return the values of a metric, always with an axis for runs, [n, runs, …]."""
        name = self._metric(metric)
        full = (len(self.recorded), self.runs or 1, *self.alpha.shape)
        if self.curves[name].size != np.prod(full):
            raise InvalidParameter(
                f"metric {name!r} has several values per setting; use run.curves[{name!r}]."
            )
        return self.curves[name].reshape(full)

    def _metric(self, name: str | None) -> str:
        if not self.curves:
            raise Undefined("no metrics were recorded: pass metrics={name: function of θ}.")
        return (
            next(iter(self.curves))
            if name is None
            else _registry.check_name("metric", name, self.curves)
        )

    def plot(
        self,
        metric: str | None = None,
        *,
        index: int | tuple[int, ...] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the learning curve of the best setting; of several runs, median and quartiles.

        Parameters
        ----------
        metric
            Name of a curve; by default the first.
        index
            Index of another setting to draw, among the step sizes.
        ax
            Axes to draw into; by default a new figure. Draw several runs into one to compare them.

        Examples
        --------
        >>> from saddleback import GES, GQ, learn, problems
        >>> problem = problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
        >>> options = dict(alpha=[0.01, 0.02], beta=0.02, steps=2000, rng=0)
        >>> ax = None
        >>> for run in learn([GES(0.3), GQ(0.3)], problem, **options):
        ...     ax = run.plot("mspbe", ax=ax)
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['GES(0.3), α = 0.01, β = 0.02', 'GQ(0.3), α = 0.01, β = 0.02']
        """
        from saddleback.plots.result_plots import learning_curve  # imports matplotlib

        return learning_curve(self, self._metric(metric), index, ax)

    def _columns(self) -> dict[str, Any]:
        return run_columns(self)

    def _bests(self) -> list[Best | str]:
        """Return the best setting by each scalar metric, or the metric's name if there is none."""
        bests: list[Best | str] = []
        for name in self.curves:
            try:
                bests.append(self.best(name))
            except Undefined:
                bests.append(name)
            except InvalidParameter:
                continue
        return bests

    def __repr__(self) -> str:
        updates = int(self.updates[-1].sum())
        runs = "" if self.runs is None else f"runs={self.runs}, "
        lines = [
            f"Run({self.rule.display_name}, updates={updates}, {runs}settings={self.alpha.shape}, "
            f"p={self.theta.shape[-1]}, diverged={int((~self.ok).sum())} of {self.ok.size})"
        ]
        for best in self._bests()[:MAX_METRICS]:
            if isinstance(best, str):
                lines.append(f"  best {best}: none, all diverged")
            else:
                beta = "" if best.beta is None else f", beta={best.beta:.3g}"
                lines.append(
                    f"  best {best.metric}: {best.value:.2g} with alpha={best.alpha:.3g}{beta}"
                )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts = {
            "updates": f"{int(self.updates[-1].sum()):,}"
            + (f" in {self.runs} runs" if self.runs else ""),
            "settings": " × ".join(map(str, self.alpha.shape)) or 1,
            "features": self.theta.shape[-1],
            "diverged": f"{int((~self.ok).sum())} of {self.ok.size}",
        }
        rows = [
            (best, "all diverged", "", "") if isinstance(best, str) else
            (best.metric, f"{best.value:.4g}", f"{best.alpha:.4g}",
             "" if best.beta is None else f"{best.beta:.4g}")
            for best in self._bests()
        ]  # fmt: skip
        note = "best setting by the mean over runs and the last tenth of the recorded points"
        table = html_table(["metric", "value", "α", "β"], rows, note) if rows else ""
        return card_html(f"Run of {self.rule.display_name}", facts, table)


def run_columns(run: Run) -> dict[str, Any]:
    """Return a run in long form, by point, run and setting."""
    runs, size = run.runs or 1, run.alpha.size
    full = (len(run.recorded), runs, size)

    def column(values: Any) -> Any:
        return np.broadcast_to(values, full).ravel()

    dual = run.rule.form.has_dual
    table = {
        "rule": [run.rule.display_name] * int(np.prod(full)),
        "recorded": column(run.recorded[:, None, None]),
        "updates": column(run.updates.reshape(len(run.recorded), -1, 1)),
        "run": column(np.arange(runs)[:, None]),
        "setting": column(np.arange(size)),
        "alpha": column(run.alpha.ravel()),
        "beta": column(run.beta.ravel() if dual else np.nan),
        "diverged_at": column(run.diverged_at.reshape(runs, size)),
    }
    for name, values in run.curves.items():
        parts = values.reshape(*full, -1)
        several = parts.shape[-1] > 1
        for k in range(parts.shape[-1]):
            table[f"{name}_{k}" if several else name] = parts[..., k].ravel()
    return table


class LearnersProtocol(Protocol):
    """The part of learners that a batch uses to record metrics."""

    done: int

    @property
    def diverged_at(self) -> IntArray:
        """Update at which each learner diverged, or −1."""

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """θ and ω, [K, p]."""

    def measure(
        self, metrics: Mapping[str, Metric], shape: tuple[int, ...]
    ) -> Mapping[str, ArrayLike]:
        """Metrics of θ in the shape of the settings, by name."""


class Batch:
    """Step sizes, initial weights and curves of a run, with the settings in one flat axis."""

    def __init__(
        self,
        rule: Rule,
        p: int,
        alpha: StepSize,
        beta: StepSize | None,
        theta0: ArrayLike,
        omega0: ArrayLike,
        bound: float | None,
        fixed_point: FloatArray,
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        if dtype not in (np.float64, np.float32, "float64", "float32"):
            raise InvalidParameter(f"dtype must be float64 or float32, got {dtype!r}.")
        self.dtype = np.dtype(dtype)
        if beta is None and rule.form.has_dual:
            raise InvalidParameter(f"{rule} has a dual variable ω: give its step size, beta=…")
        steps = [as_schedule("alpha", alpha), as_schedule("beta", 0.0 if beta is None else beta)]
        try:
            scales = np.broadcast_arrays(*(s.scale for s in steps))
        except ValueError:
            raise InvalidShape(
                f"alpha of shape {list(steps[0].scale.shape)} and beta of shape "
                f"{list(steps[1].scale.shape)} do not broadcast together."
            ) from None
        self.rule, self.shape = rule, scales[0].shape
        self.alpha, self.beta = (
            replace(s, scale=np.ravel(scale).copy()) for scale, s in zip(scales, steps, strict=True)
        )
        self.theta = self._weights("theta0", theta0, p)
        self.omega = self._weights("omega0", omega0, p)
        if bound is None:
            bound = BOUND * max(1.0, np.abs(fixed_point).max(), np.abs(self.theta).max())
        self.bound = _validate.positive(rule, "bound", bound)
        if self.bound > float(np.finfo(self.dtype).max):
            raise InvalidParameter(f"bound {self.bound:g} is beyond the range of {self.dtype}.")

    def _weights(self, name: str, value: ArrayLike, p: int) -> FloatArray:
        initial = _validate.floats(name, value)
        _validate.finite(name, initial)
        try:
            full = np.broadcast_to(initial, (*self.shape, p))
        except ValueError:
            raise InvalidShape(
                f"{name} must broadcast to {[*self.shape, p]} (settings, features), "
                f"got {list(initial.shape)}."
            ) from None
        return full.reshape(-1, p).astype(self.dtype)

    def shaped(self, flat: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Return an array [K, …] in the shape of the settings."""
        return flat.reshape(self.shape + flat.shape[1:])

    def attach(self, learners: LearnersProtocol, metrics: Mapping[str, Metric]) -> None:
        """Set the learners and the metrics to record."""
        _check_metrics(metrics)
        self._learners, self._metrics = learners, metrics
        self._curves: dict[str, list[ArrayLike]] = {name: [] for name in metrics}
        self._updates: list[int] = []

    @property
    def has_metrics(self) -> bool:
        """Whether there are metrics to record."""
        return bool(self._metrics)

    def record(self) -> None:
        """Add a point to every curve."""
        self._updates.append(self._learners.done)
        if not self._metrics:
            return
        for name, values in self._learners.measure(self._metrics, self.shape).items():
            if np.shape(values)[: len(self.shape)] != self.shape:
                raise InvalidShape(
                    f"metric {name!r} must return an array whose shape begins with "
                    f"{list(self.shape)}, one entry per setting; got {list(np.shape(values))}."
                )
            self._curves[name].append(values)

    def run(self, points: IntArray, seed: np.random.SeedSequence | None = None) -> Run:
        """Return the result, with metrics recorded at ``points``."""
        theta, omega = (self.shaped(weights).copy() for weights in self._learners.weights())
        updates, diverged_at = np.array(self._updates), self.shaped(self._learners.diverged_at)
        curves = {name: np.array(values) for name, values in self._curves.items()}
        over = (diverged_at >= 0) & (diverged_at <= updates.reshape(-1, *(1 for _ in self.shape)))
        for curve in curves.values():
            curve[over] = np.inf
        return Run(
            rule=self.rule,
            theta=theta,
            omega=omega,
            alpha=self.shaped(self.alpha.scale),
            beta=self.shaped(self.beta.scale),
            recorded=points,
            updates=updates,
            curves=curves,
            diverged_at=diverged_at,
            bound=self.bound,
            seed=seed,
        )


def _check_metrics(metrics: object) -> None:
    """Refuse anything but a mapping from names to functions."""
    if not isinstance(metrics, Mapping) or not all(callable(m) for m in metrics.values()):
        raise InvalidParameter(f"metrics must map names to functions of θ, got {metrics!r}.")


def run_batches(
    batches: Sequence[Batch],
    points: IntArray,
    advance: Callable[[int], object],
    seed: np.random.SeedSequence | None = None,
    progress: Progress | None = None,
) -> list[Run]:
    """Advance from point to point, and record the metrics of every batch at each."""
    for before, point in zip(np.concatenate([[0], points[:-1]]), points, strict=True):
        if point > before:
            advance(int(point - before))
        for batch in batches:
            batch.record()
        if progress is not None:
            progress(float(point / points[-1]))
    return [batch.run(points, seed) for batch in batches]


def stack(runs: Sequence[Run], seed: np.random.SeedSequence | None) -> Run:
    """Return independent runs of the same settings as one, with a new axis."""
    return replace(
        runs[0],
        theta=np.stack([run.theta for run in runs]),
        omega=np.stack([run.omega for run in runs]),
        updates=np.stack([run.updates for run in runs], axis=1),
        curves={
            name: np.stack([run.curves[name] for run in runs], axis=1) for name in runs[0].curves
        },
        diverged_at=np.stack([run.diverged_at for run in runs]),
        seed=seed,
    )


def unstack(run: Run) -> list[Run]:
    """Return the runs that `stack` put together."""
    return [
        replace(
            run,
            theta=run.theta[r],
            omega=run.omega[r],
            updates=run.updates[:, r],
            curves={name: curve[:, r] for name, curve in run.curves.items()},
            diverged_at=run.diverged_at[r],
        )
        for r in range(len(run.diverged_at))
    ]
