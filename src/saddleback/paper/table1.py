"""Table 1 of the paper, computed: fixed-point matrices, printed and correct, and measured rates.

Every algorithm runs on the same random problem with the step-size rule of its row. The scale of
the steps is tuned for each, and the rate is the slope of log E‖θ_T − θ*‖² against log T over the
last decade. This is the rate of the sampled update; the linear rate of the last row is that of the
expected iteration, so both are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

from saddleback._progress import Progress
from saddleback._typing import FloatArray, IntArray
from saddleback.engine import Schedule
from saddleback.learning import iterate, learn
from saddleback.paper import Options, execute
from saddleback.paper.averaged_iterates import averaged_td
from saddleback.problem import Problem
from saddleback.problems import random_mdp, two_state
from saddleback.rules import GES, GTB, GTD, GTD2, TD, TDC, GRetrace, Rule, Sarsa
from saddleback.sweep import Store, Task, parquet_bytes
from saddleback.system import System
from saddleback.theory import MeanStability

POINTS = 21
"""Largest number of checkpoints."""


@dataclass(frozen=True)
class Table1Config:
    """Our choices where the paper leaves the protocol open."""

    gamma: float = 0.9
    problem: int = 0
    """Seed of the random problem."""
    lam: float = 0.3
    steps: int = 100_000
    runs: int = 20
    scales: tuple[float, ...] = tuple(2.0**j for j in range(-7, 4))
    """Scales c of the steps; the best one counts."""
    offsets: tuple[float, ...] = (0.0, 100.0, 10_000.0)
    """t₀ in c (t₀ + t)^−η. With 0, as printed, the first steps are by far the largest, and a c that
    is small enough for them is too small later. The fair version takes the best of these; its
    scales are those of the first step, c t₀^−η."""


@dataclass(frozen=True)
class Row:
    """A row of the table: α_t = c (t₀ + t)^−slow, β_t = c (t₀ + t)^−fast."""

    name: str
    rule: Rule
    steps: str
    claimed: str
    slow: float
    fast: float
    printed: str
    """λ and kernel of the printed fixed-point matrix; empty where none is printed."""
    blocks: bool = False
    averaged: bool = False
    """Whether the claim is about the mean of the iterates; then both are measured."""

    def offsets(self, config: Table1Config) -> tuple[float, ...]:
        """Return the values of t₀ to try; only 0 for steps that do not decay with t."""
        return config.offsets if self.slow and not self.blocks else (0.0,)


def table_rows(lam: float) -> list[Row]:
    """Return the rows of the table, with one exponent where a range is printed."""
    return [
        Row("TD(0), Korda", TD(0.0), "t^-½", "T^-½", 0.5, 0.5, "0, P^μ"),
        Row("TD(0), Dalal", TD(0.0), "t^-¾", "T^-¾", 0.75, 0.75, "0, P^μ"),
        Row("TD(0), Lakshm.", TD(0.0), "constant", "T^-1", 0.0, 0.0, "0, P^μ", averaged=True),
        Row("GTD(0), Dalal", GTD(), "t^-½, t^-¾", "T^-⅓", 0.5, 0.75, "0, P^π"),
        Row("GTD(0), Dalal 2", GTD(), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("GTD2, Dalal 2", GTD2(0.0), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("TDC, Dalal 2", TDC(0.0), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("GTB(λ)", GTB(lam), "1/t, 1/t", "T^-1", 1.0, 1.0, "λ, P^μ"),
        Row("GRetrace(λ)", GRetrace(lam), "1/t, 1/t", "T^-1", 1.0, 1.0, ""),
        Row("Sarsa", Sarsa(0.0), "1/t", "log³T/T", 1.0, 1.0, "0, P^μ"),
        Row("TDC, Xu", TDC(0.0), "blocks", "linear", 0.0, 0.0, "0, P^π", blocks=True),
        Row("TDC, Kaledin", TDC(0.0), "t^-½, 1/t", "T^-1", 0.5, 1.0, "0, P^π"),
        Row("GES(λ)", GES(lam), "constant", "linear", 0.0, 0.0, "λ, P^π"),
    ]


def problem_of(row: Row, config: Table1Config) -> Problem:
    """Return the problem of a row: the same random dynamics, on-policy where it evaluates μ."""
    on_policy = row.printed == "0, P^μ"
    values: Any = row.rule.values
    return random_mdp(
        config.gamma, rng=config.problem, values=values, off_policy=0.0 if on_policy else 0.5
    )


def config_from(options: Options) -> Table1Config:
    """Return the configuration for the options."""
    return options.apply(Table1Config(), "runs", runs=4, steps=5000)


def check(options: Options) -> int:
    """Return the size in bytes of the results of all runs while they are averaged."""
    config = config_from(options)
    return config.runs * len(config.scales) * POINTS * 8


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Measure the rate of every row; tabulate rates and matrices."""
    config = config_from(options)
    rows = table_rows(config.lam)
    tasks = [
        Task(shard_name(n, offset), partial(_measure, row, config, offset, [options.seed, n]))
        for n, row in enumerate(rows)
        for offset in row.offsets(config)
    ]
    study = {
        "experiment": "table1",
        "choices": vars(config),
        "rows": [vars(row) | {"rule": str(row.rule)} for row in rows],
        "seed": options.seed,
    }
    store = execute("table1", study, tasks, options)
    table = Table(
        title="Table 1, computed",
        box=box.SIMPLE,
        title_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for heading in ("algorithm", "steps", "claimed", "as printed", "with t₀", "t₀"):
        table.add_column(heading, no_wrap=True)
    for n, row in enumerate(rows):
        printed, fair = best_slopes(store, n, row, config)
        measured = [f"T^{fit.slope:.2f}, {fit.error:.0e}" for fit in (printed, fair)]
        table.add_row(row.name, row.steps, row.claimed, *measured, f"{fair.offset:g}")
    radius = _contraction(config)
    table.caption = (
        "Slope and last value of E‖θ_T − θ*‖² of the last iterate, best scale; T^0 is a floor. "
        "With t₀: steps "
        f"c(t₀ + t)^−η, t₀ the best of {', '.join(f'{t0:g}' for t0 in config.offsets)}. Block-wise "
        "steps halve as blocks double, which is linear in blocks and T^-1 in samples. The error of "
        f"the expected iteration of GES shrinks by {radius[0]:.4f} per step with the best pair "
        f"(measured: {radius[1]:.4f})."
    )
    return [table, tabulate_matrices(config)], []


def _measure(
    row: Row, config: Table1Config, offset: float, entropy: list[int], progress: Progress | None
) -> bytes:
    """Return the mean square error at the checkpoints, for each scale."""
    problem = problem_of(row, config)
    star = System.exact(problem, row.rule).fixed_point
    scales = np.array(config.scales)
    points = np.unique(np.geomspace(config.steps / 100, config.steps, POINTS).astype(np.int64))
    metric = {"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)}
    seed = np.random.SeedSequence(entropy)
    errors: FloatArray
    if row.blocks:
        errors, points = _blocks(row, config, problem, star, seed)
    else:
        alpha, beta = (
            Schedule(scales * max(offset, 1.0) ** power, power, offset)
            for power in (row.slow, row.fast)
        )
        run = learn(
            row.rule, problem, alpha=alpha, beta=beta,
            steps=config.steps, runs=config.runs, rng=seed, record=points, metrics=metric,
            progress=progress,
        )  # fmt: skip
        errors, points = run.curves["error"].mean(axis=1), run.recorded
    scale, step = np.broadcast_arrays(scales, points[:, None])
    columns = {"scale": scale.ravel(), "step": step.ravel(), "error": errors.ravel()}
    if row.averaged:
        with np.errstate(over="ignore", invalid="ignore"):  # of scales that diverge
            for name, independent in (("averaged", True), ("averaged_chain", False)):
                columns[name] = averaged_td(
                    problem, scales, points, config.runs, seed, star, independent
                ).ravel()
    return parquet_bytes(pa.table(columns))


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


def shard_name(row: int, offset: float) -> str:
    """Return the name of the results of a row."""
    return f"row{row:02d}-t{offset:g}"


def best_slopes(store: Store, n: int, row: Row, config: Table1Config) -> tuple[Slope, Slope]:
    """Return the slope as printed, and with the best offset, or of the mean of the iterates."""
    shards = {t0: store.shard(shard_name(n, t0)).to_pydict() for t0 in row.offsets(config)}
    fits = [_slope(columns, t0) for t0, columns in shards.items()]
    if row.averaged:
        return fits[0], _slope(shards[0.0], 0.0, "averaged")
    return fits[0], min(fits, key=lambda fit: fit.error)


def slope_of(store: Store, n: int, measure: str) -> Slope:
    """Return the slope of another measure of a row, without an offset."""
    return _slope(store.shard(shard_name(n, 0.0)).to_pydict(), 0.0, measure)


def _slope(columns: dict[str, list[float]], offset: float, measure: str = "error") -> Slope:
    scale, step, error = (np.array(columns[name]) for name in ("scale", "step", measure))
    ends = {s: error[(scale == s) & (step == step.max())][0] for s in np.unique(scale)}
    best = min(ends, key=lambda s: ends[s] if np.isfinite(ends[s]) else np.inf)
    tail = (scale == best) & (step >= step.max() / 10)
    slope = np.polyfit(np.log(step[tail]), np.log(error[tail]), 1)[0]
    return Slope(float(slope), float(ends[best]), offset)


def _contraction(config: Table1Config) -> tuple[float, float]:
    """Return the predicted and measured factor per step of the expected iteration of GES."""
    system = System.exact(problem_of(table_rows(config.lam)[-1], config), GES(config.lam))
    best = MeanStability(system).best()
    error = {"error": lambda theta: np.linalg.norm(theta - system.fixed_point, axis=-1)}
    curve = iterate(system, steps=100, record=1, metrics=error).curves["error"]
    return best.radius, float((curve[100] / curve[50]) ** (1 / 50))


def small_problem(row: Row, config: Table1Config) -> Problem:
    """Return the two-state problem with two features, for matrices that are easy to read."""
    base = two_state(config.gamma)
    features = base.features if row.rule.values == "action" else np.eye(2)
    target = base.behaviour if row.printed == "0, P^μ" else base.target
    return Problem(base.mdp, features, target=target, behaviour=base.behaviour)


def printed_matrix(row: Row, problem: Problem, config: Table1Config) -> FloatArray:
    """Return ΦᵀΞ(I − γλP)⁻¹(γP^b − I)Φ with the kernels printed in the table."""
    mdp = problem.mdp
    trace, kernel = row.printed.split(", ")
    lam = config.lam if trace == "λ" else 0.0

    def on_rows(policy: FloatArray) -> FloatArray:
        if problem.values == "state":
            return np.asarray(np.einsum("sa,sat->st", policy, mdp.P))
        return np.asarray(
            np.einsum("sat,tb->satb", mdp.P, policy).reshape(len(problem.Phi), len(problem.Phi))
        )

    pi, mu = on_rows(problem.target), on_rows(problem.behaviour)
    unit, Phi = np.eye(len(problem.Phi)), problem.Phi
    bootstrap = mu if trace == "0" and kernel == "P^μ" else pi
    inner = np.linalg.solve(
        unit - mdp.gamma * lam * (mu if kernel == "P^μ" else pi),
        (mdp.gamma * bootstrap - unit) @ Phi,
    )
    return np.asarray((Phi.T * problem.weights) @ inner)


def printed_holds(row: Row, config: Table1Config) -> bool:
    """Return whether the printed matrix, if any, is that of the rule, on both problems."""
    return not row.printed or all(
        np.allclose(printed_matrix(row, problem, config), System.exact(problem, row.rule).A)
        for problem in (problem_of(row, config), small_problem(row, config))
    )


def matrices(config: Table1Config) -> list[tuple[str, str, str, str]]:
    """Return the printed formula of each algorithm, and both matrices on the small problem."""
    rows = {}
    for row in table_rows(config.lam):
        if not row.printed:
            continue
        trace, kernel = row.printed.split(", ")
        resolvent = f"(I−γλ{kernel})⁻¹" if trace == "λ" else ""
        bootstrap = "P^π" if trace == "λ" else kernel
        problem = small_problem(row, config)
        rows[row.name.split(",")[0]] = (
            f"ΦᵀΞ{resolvent}(γ{bootstrap}−I)Φ",
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
