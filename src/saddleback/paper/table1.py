"""Table 1 of the paper, computed: fixed-point matrices, printed and correct, and measured rates.

Every algorithm runs on the same random problem with the step-size rule of its row. The scale of
the steps is tuned for each, and the rate is the slope of log E‖θ_T − θ*‖² against log T over the
last decade. This is the rate of the sampled update; the linear rate of the last row is that of the
expected iteration, so both are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.table import Table

from saddleback._progress import Progress
from saddleback._typing import FloatArray, IntArray
from saddleback.engine import Schedule
from saddleback.learning import iterate, learn
from saddleback.paper import Options
from saddleback.paper.averaged_iterates import averaged_td
from saddleback.paper.comparison import compute, stored, study_as_shipped, study_of
from saddleback.problem import Problem
from saddleback.problems import random_mdp, two_state
from saddleback.rules import GES, Rule
from saddleback.system import System
from saddleback.theory import MeanStability

POINTS = 21
"""Largest number of checkpoints."""


@dataclass(frozen=True)
class Table1Config:
    """Parameters of the study: the random problem, λ, and lengths, runs and scales of the steps."""

    gamma: float
    problem: int
    lam: float
    steps: int
    runs: int
    scales: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """A row of the table, with one exponent where a range is printed; see the study."""

    number: int
    algorithm: str
    rule: Rule
    schedule: str
    claimed: str
    slow: float
    fast: float
    offsets: tuple[float, ...]
    source: str = ""
    kernel: str = ""
    traced: bool = False
    blocks: bool = False
    averaged: bool = False

    @property
    def name(self) -> str:
        """The algorithm, and the paper of the claim."""
        return ", ".join(filter(None, (self.algorithm, self.source)))

    @property
    def on_policy(self) -> bool:
        """Whether the row evaluates μ."""
        return self.kernel == "μ" and not self.traced

    @classmethod
    def of(cls, setting: Mapping[str, Any], offsets: Sequence[float]) -> Row:
        """Return the row of a setting; the others of that row differ in the offset."""
        own = {one.name: setting[one.name] for one in fields(cls) if one.name in setting}
        return cls(**own | {"rule": Rule.parse(own["rule"]), "offsets": tuple(offsets)})


@cache
def table_rows() -> list[Row]:
    """Return the rows of the table."""
    return [
        Row.of({name: values[0] for name, values in table.items()}, table["offset"])
        for table in study_as_shipped("table1", quick=False).settings
    ]


def problem_of(row: Row, config: Table1Config) -> Problem:
    """Return the problem of a row: the same random dynamics, on-policy where it evaluates μ."""
    values: Any = row.rule.values
    return random_mdp(
        config.gamma, rng=config.problem, values=values, off_policy=0.0 if row.on_policy else 0.5
    )


def config_from(options: Options) -> Table1Config:
    """Return the configuration for the options."""
    return Table1Config(**study_of("table1", options).parameters)


def check(options: Options) -> int:
    """Return the size in bytes of the results of all runs while they are averaged."""
    config = config_from(options)
    return config.runs * len(config.scales) * POINTS * 8


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Measure the rate of every row; tabulate rates and matrices."""
    config = config_from(options)
    compute("table1", options)
    rows, results = table_rows(), stored("table1", options).table()
    table = Table(
        title="Table 1, computed",
        box=box.SIMPLE,
        title_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for heading in ("algorithm", "steps", "claimed", "as printed", "with t₀", "t₀"):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        printed, fair = best_slopes(results, row)
        measured = [f"T^{fit.slope:.2f}, {fit.error:.0e}" for fit in (printed, fair)]
        table.add_row(row.name, row.schedule, row.claimed, *measured, f"{fair.offset:g}")
    radius = _contraction(config)
    table.caption = (
        "Slope and last value of E‖θ_T − θ*‖² of the last iterate, best scale; T^0 is a floor. "
        "With t₀: steps c(t₀ + t)^−η, t₀ the best of "
        f"{', '.join(f'{t0:g}' for t0 in rows[0].offsets)}. Block-wise steps halve as blocks "
        "double, which is linear in blocks and T^-1 in samples. The error of the expected "
        f"iteration of GES shrinks by {radius[0]:.4f} per step with the best pair (measured: "
        f"{radius[1]:.4f})."
    )
    return [table, tabulate_matrices(config)], []


def mean_square_errors(
    offset: float, seed: int, progress: Progress | None, **given: Any
) -> dict[str, FloatArray]:
    """Return the mean square error of a row at the checkpoints, for each scale."""
    row = Row.of(given, [offset])
    config = Table1Config(**{one.name: given[one.name] for one in fields(Table1Config)})
    problem = problem_of(row, config)
    star = System.exact(problem, row.rule).fixed_point
    scales = np.array(config.scales)
    points = np.unique(np.geomspace(config.steps / 100, config.steps, POINTS).astype(np.int64))
    metric = {"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)}
    entropy = np.random.SeedSequence([seed, row.number])
    errors: FloatArray
    if row.blocks:
        errors, points = _blocks(row, config, problem, star, entropy)
    else:
        alpha, beta = (
            Schedule(scales * max(offset, 1.0) ** power, power, offset)
            for power in (row.slow, row.fast)
        )
        run = learn(
            row.rule, problem, alpha=alpha, beta=beta,
            steps=config.steps, runs=config.runs, rng=entropy, record=points, metrics=metric,
            progress=progress,
        )  # fmt: skip
        errors, points = run.curves["error"].mean(axis=1), run.recorded
    scale, step = np.broadcast_arrays(scales, points[:, None])
    columns = {"scale": scale.ravel(), "step": step.ravel(), "error": errors.ravel()}
    if row.averaged:
        with np.errstate(over="ignore", invalid="ignore"):  # of scales that diverge
            for name, independent in (("mean_independent", True), ("mean_chain", False)):
                columns[name] = averaged_td(
                    problem, scales, points, config.runs, entropy, star, independent
                ).ravel()
    return columns


def _blocks(
    row: Row, config: Table1Config, problem: Problem, star: FloatArray, seed: np.random.SeedSequence
) -> tuple[FloatArray, IntArray]:
    """Run blocks that double in length while the steps halve, each from the end of the last one."""
    scales, number = np.array(config.scales), 8
    first = config.steps // (2**number - 1)
    totals = np.zeros((number, len(scales)))
    for child in seed.spawn(config.runs):
        theta: FloatArray = np.zeros((len(scales), problem.p))
        for k, own in enumerate(child.spawn(number)):
            run = learn(
                row.rule, problem, alpha=0.5 * scales / 2**k, beta=0.5 * scales / 2**k,
                steps=first * 2**k, rng=own, theta0=theta, metrics={},
            )  # fmt: skip
            theta = run.theta
            error = np.sum((theta - star) ** 2, axis=-1)
            totals[k] += np.where(run.ok, error, np.inf) / config.runs
    return totals, np.cumsum(first * 2 ** np.arange(number))


class Slope(NamedTuple):
    """Slope over the last decade, and last error, of the scale with the smallest last error."""

    slope: float
    error: float
    offset: float


def best_slopes(results: pa.Table, row: Row) -> tuple[Slope, Slope]:
    """Return the slope as printed, and with the best offset, or of the mean of the iterates."""
    fits = [slope_of(results, row, "error", offset) for offset in row.offsets]
    if row.averaged:
        return fits[0], slope_of(results, row, "mean_independent")
    return fits[0], min(fits, key=lambda fit: fit.error)


def slope_of(results: pa.Table, row: Row, measure: str, offset: float = 0.0) -> Slope:
    """Return the slope of a measure of a row."""
    own = (pc.field("number") == row.number) & (pc.field("offset") == offset)
    return _slope(results.filter(own).to_pydict(), offset, measure)


def _slope(columns: dict[str, list[float]], offset: float, measure: str = "error") -> Slope:
    scale, step, error = (np.array(columns[name]) for name in ("scale", "step", measure))
    ends = {s: error[(scale == s) & (step == step.max())][0] for s in np.unique(scale)}
    best = min(ends, key=lambda s: ends[s] if np.isfinite(ends[s]) else np.inf)
    tail = (scale == best) & (step >= step.max() / 10)
    slope = np.polyfit(np.log(step[tail]), np.log(error[tail]), 1)[0]
    return Slope(float(slope), float(ends[best]), offset)


def _contraction(config: Table1Config) -> tuple[float, float]:
    """Return the predicted and measured factor per step of the expected iteration of GES."""
    system = System.exact(problem_of(table_rows()[-1], config), GES(config.lam))
    best = MeanStability(system).best()
    error = {"error": lambda theta: np.linalg.norm(theta - system.fixed_point, axis=-1)}
    curve = iterate(system, steps=100, record=1, metrics=error).curves["error"]
    return best.radius, float((curve[100] / curve[50]) ** (1 / 50))


def small_problem(row: Row, config: Table1Config) -> Problem:
    """Return the two-state problem with two features, for matrices that are easy to read."""
    base = two_state(config.gamma)
    features = base.features if row.rule.values == "action" else np.eye(2)
    target = base.behaviour if row.on_policy else base.target
    return Problem(base.mdp, features, target=target, behaviour=base.behaviour)


def printed_matrix(row: Row, problem: Problem, config: Table1Config) -> FloatArray:
    """Return ΦᵀΞ(I − γλP)⁻¹(γP^b − I)Φ with the kernels printed in the table."""
    mdp = problem.mdp
    lam = config.lam if row.traced else 0.0

    def on_rows(policy: FloatArray) -> FloatArray:
        if problem.values == "state":
            return np.asarray(np.einsum("sa,sat->st", policy, mdp.P))
        return np.asarray(
            np.einsum("sat,tb->satb", mdp.P, policy).reshape(len(problem.Phi), len(problem.Phi))
        )

    pi, mu = on_rows(problem.target), on_rows(problem.behaviour)
    unit, Phi = np.eye(len(problem.Phi)), problem.Phi
    bootstrap = mu if row.on_policy else pi
    inner = np.linalg.solve(
        unit - mdp.gamma * lam * (mu if row.kernel == "μ" else pi),
        (mdp.gamma * bootstrap - unit) @ Phi,
    )
    return np.asarray((Phi.T * problem.weights) @ inner)


def printed_holds(row: Row, config: Table1Config) -> bool:
    """Return whether the printed matrix, if any, is that of the rule, on both problems."""
    return not row.kernel or all(
        np.allclose(printed_matrix(row, problem, config), System.exact(problem, row.rule).A)
        for problem in (problem_of(row, config), small_problem(row, config))
    )


def matrices(config: Table1Config) -> list[tuple[str, str, str, str]]:
    """Return the printed formula of each algorithm, and both matrices on the small problem."""
    rows = {}
    for row in table_rows():
        if not row.kernel:
            continue
        resolvent = f"(I−γλP^{row.kernel})⁻¹" if row.traced else ""
        bootstrap = "π" if row.traced else row.kernel
        problem = small_problem(row, config)
        rows[row.algorithm] = (
            f"ΦᵀΞ{resolvent}(γP^{bootstrap}−I)Φ",
            format_matrix(printed_matrix(row, problem, config)),
            format_matrix(System.exact(problem, row.rule).A),
        )
    return [(name, *texts) for name, texts in rows.items()]


def format_matrix(matrix: FloatArray) -> str:
    """Write a small matrix, one line per row.

    Examples
    --------
    >>> print(format_matrix(np.array([[-0.25, 0.0], [1.0, -1.25]])))
    -0.250  0.000
     1.000 -1.250
    """
    return "\n".join(" ".join(f"{x + 0.0:6.3f}" for x in np.round(line, 3)) for line in matrix)


def tabulate_matrices(config: Table1Config) -> Table:
    """Return a table of the matrices."""
    table = Table(
        title=f"Fixed-point matrices, two-state problem, γ = {config.gamma:g}, λ = {config.lam:g}",
        box=box.SIMPLE, title_justify="left",
    )  # fmt: skip
    for heading in ("algorithm", "A as printed", "its value", "correct A"):
        table.add_column(heading, no_wrap=True)
    for line in matrices(config):
        table.add_row(*line)
    table.caption = (
        "Action values with the problem's features, state values with one "
        "feature per state; π = μ where the row evaluates μ."
    )
    return table
