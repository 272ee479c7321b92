"""Table 1 of the paper, computed: fixed points as printed and as true, and measured rates.

Every algorithm runs on the same random problem with the step-size rule its row names. The scale of
the steps is tuned for each, and the rate is the slope of log E‖θ_T − θ*‖² against log T over the
last decade. That is what a single run of single samples does; the last row's linear rate is that of
the expected iteration, so both are given.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

from saddleback._progress import Progress
from saddleback._typing import FloatArray, IntArray
from saddleback.engine import Schedule
from saddleback.learning import iterate, learn
from saddleback.paper import Options, execute
from saddleback.paper.table1_matrices import tabulate
from saddleback.paper.table1_rows import Choices, Row, problem_of, rows
from saddleback.problem import Problem
from saddleback.rules import GES
from saddleback.sweep import Store, Task, parquet_bytes
from saddleback.system import System
from saddleback.theory import MeanStability

POINTS = 21
"""When errors are measured, at most."""


def chosen(options: Options) -> Choices:
    """Apply the options to the choices."""
    c = replace(Choices(), steps=5000, runs=4) if options.quick else Choices()
    return c if options.runs is None else replace(c, runs=options.runs)


def check(options: Options) -> int:
    """Return how many bytes the results of all runs are while they are averaged."""
    c = chosen(options)
    return c.runs * len(c.scales) * POINTS * 8


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Measure every row, tabulate."""
    c = chosen(options)
    listed = rows(c.lam)
    tasks = [
        Task(shard(n, offset), partial(_measure, row, c, offset, [options.seed, n]))
        for n, row in enumerate(listed)
        for offset in row.offsets(c)
    ]
    study = {
        "experiment": "table1",
        "choices": vars(c),
        "rows": [vars(row) | {"rule": str(row.rule)} for row in listed],
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
    for n, row in enumerate(listed):
        printed, fair = best_slopes(store, n, row, c)
        measured = [f"T^{each.slope:.2f}, {each.error:.0e}" for each in (printed, fair)]
        table.add_row(row.name, row.steps, row.claimed, *measured, f"{fair.offset:g}")
    radius = _geometric(c)
    table.caption = (
        "Slope and last value of E‖θ_T − θ*‖² of single runs, last iterate, best scale; T^0 is a "
        "floor. With t₀: steps "
        f"c(t₀ + t)^−η, t₀ the best of {', '.join(f'{t0:g}' for t0 in c.offsets)}. Block-wise "
        "steps halve as blocks double, which is linear in blocks and T^-1 in samples. The expected "
        f"iteration of GES shrinks by {radius[0]:.4f} a step with the best pair (counted: "
        f"{radius[1]:.4f})."
    )
    return [table, tabulate(c)], []


def _measure(
    row: Row, c: Choices, offset: float, entropy: list[int], progress: Progress | None
) -> bytes:
    """Mean square error at points of time, for each scale."""
    problem = problem_of(row, c)
    star = System.exact(problem, row.rule).fixed_point
    scales = np.array(c.scales)
    points = np.unique(np.geomspace(c.steps / 100, c.steps, POINTS).astype(np.int64))
    metric = {"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)}
    seed = np.random.SeedSequence(entropy)
    errors: FloatArray
    if row.blocks:
        errors, points = _blocks(row, c, problem, star, seed)
    else:
        alpha, beta = (
            Schedule(scales * max(offset, 1.0) ** power, power, offset)
            for power in (row.slow, row.fast)
        )
        found = learn(
            row.rule, problem, alpha=alpha, beta=beta,
            steps=c.steps, runs=c.runs, rng=seed, record=points, metrics=metric,
            progress=progress,
        )  # fmt: skip
        errors, points = found.curves["error"].mean(axis=1), found.recorded
    scale, step = np.broadcast_arrays(scales, points[:, None])
    return parquet_bytes(
        pa.table({"scale": scale.ravel(), "step": step.ravel(), "error": errors.ravel()})
    )


def _blocks(
    row: Row, c: Choices, problem: Problem, star: FloatArray, seed: np.random.SeedSequence
) -> tuple[FloatArray, IntArray]:
    """Blocks that double in length while the steps halve, each from where the last one ended."""
    scales, number = np.array(c.scales), 8
    first = c.steps // (2**number - 1)
    totals = np.zeros((number, len(scales)))
    for child in seed.spawn(c.runs):
        theta: FloatArray = np.zeros((len(scales), problem.p))
        for k, own in enumerate(child.spawn(number)):
            found = learn(
                row.rule, problem, alpha=0.5 * scales / 2**k, beta=0.5 * scales / 2**k,
                steps=first * 2**k, rng=own, theta0=theta, metrics={},
            )  # fmt: skip
            theta = found.theta
            error = np.sum((theta - star) ** 2, axis=-1)
            totals[k] += np.where(found.ok, error, np.inf) / c.runs
    return totals, np.cumsum(first * 2 ** np.arange(number))


class Slope(NamedTuple):
    """Slope over the last decade, and last error, of the scale that ends best."""

    slope: float
    error: float
    offset: float


def shard(row: int, offset: float) -> str:
    """Name of the results of a row."""
    return f"row{row:02d}-t{offset:g}"


def best_slopes(store: Store, n: int, row: Row, c: Choices) -> tuple[Slope, Slope]:
    """As printed, without an offset, and with the best offset."""
    found = [_slope(store.shard(shard(n, t0)).to_pydict(), t0) for t0 in row.offsets(c)]
    return found[0], min(found, key=lambda each: each.error)


def _slope(found: dict[str, list[float]], offset: float) -> Slope:
    scale, step, error = (np.array(found[name]) for name in ("scale", "step", "error"))
    ends = {s: error[(scale == s) & (step == step.max())][0] for s in np.unique(scale)}
    best = min(ends, key=lambda s: ends[s] if np.isfinite(ends[s]) else np.inf)
    mine = (scale == best) & (step >= step.max() / 10)
    slope = np.polyfit(np.log(step[mine]), np.log(error[mine]), 1)[0]
    return Slope(float(slope), float(ends[best]), offset)


def _geometric(c: Choices) -> tuple[float, float]:
    """Predicted and counted factor a step of the expected iteration of GES."""
    system = System.exact(problem_of(rows(c.lam)[-1], c), GES(c.lam))
    best = MeanStability(system).best()
    error = {"error": lambda theta: np.linalg.norm(theta - system.fixed_point, axis=-1)}
    found = iterate(system, steps=100, record=1, metrics=error).curves["error"]
    return best.radius, float((found[100] / found[50]) ** (1 / 50))
