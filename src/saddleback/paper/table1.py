"""Table 1 of the paper, computed: fixed points as printed and as true, and measured rates.

Every algorithm runs on the same random problem with the step-size rule its row names. The scale of
the steps is tuned for each, and the rate is the slope of log E‖θ_T − θ*‖² against log T over the
last decade. That is what a single run of single samples does; the last row's linear rate is that of
the expected iteration, so both are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

from saddleback._typing import FloatArray, IntArray
from saddleback.engine import Schedule
from saddleback.learning import iterate, learn
from saddleback.paper import Options, execute
from saddleback.problem import Problem
from saddleback.problems import random_mdp
from saddleback.rules import GES, GTB, GTD, GTD2, TD, TDC, Rule, Sarsa
from saddleback.sweep import Task
from saddleback.system import System
from saddleback.theory import MeanStability

POINTS = 21
"""When errors are measured, at most."""


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open, and what we chose."""

    gamma: float = 0.9
    problem: int = 0
    """Seed of the random problem."""
    lam: float = 0.3
    steps: int = 300_000
    runs: int = 20
    scales: tuple[float, ...] = tuple(2.0**j for j in range(-7, 4))
    """Scales c of the steps; the best of them counts."""


@dataclass(frozen=True)
class Row:
    """A row of the table: α_t = c t^−slow, β_t = c t^−fast."""

    name: str
    rule: Rule
    steps: str
    claimed: str
    slow: float
    fast: float
    printed: str
    blocks: bool = False


def rows(lam: float) -> list[Row]:
    """The table, with an exponent wherever a range is printed."""
    return [
        Row("TD(0), Korda", TD(0.0), "t^-½", "T^-½", 0.5, 0.5, "0, P^μ"),
        Row("TD(0), Dalal", TD(0.0), "t^-¾", "T^-¾", 0.75, 0.75, "0, P^μ"),
        Row("TD(0), Lakshm.", TD(0.0), "constant", "T^-1", 0.0, 0.0, "0, P^μ"),
        Row("GTD(0), Dalal", GTD(), "t^-½, t^-¾", "T^-⅓", 0.5, 0.75, "0, P^π"),
        Row("GTD(0), Dalal 2", GTD(), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("GTD2, Dalal 2", GTD2(0.0), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("TDC, Dalal 2", TDC(0.0), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("GTB(λ)", GTB(lam), "1/t, 1/t", "T^-1", 1.0, 1.0, "λ, P^μ"),
        Row("Sarsa", Sarsa(0.0), "1/t", "log³T/T", 1.0, 1.0, "0, P^μ"),
        Row("TDC, Xu", TDC(0.0), "blocks", "linear", 0.0, 0.0, "0, P^π", blocks=True),
        Row("TDC, Kaledin", TDC(0.0), "t^-½, 1/t", "T^-1", 0.5, 1.0, "0, P^π"),
        Row("GES(λ)", GES(lam), "constant", "linear", 0.0, 0.0, "λ, P^π"),
    ]


def problem_of(row: Row, c: Choices) -> Problem:
    """The same random dynamics for every row; on-policy where the row evaluates μ."""
    own = row.printed == "0, P^μ"
    values: Any = row.rule.values
    return random_mdp(c.gamma, rng=c.problem, values=values, off_policy=0.0 if own else 0.5)


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
        Task(f"row{n:02d}", lambda row=row, n=n: _measure(row, c, [options.seed, n]))  # type: ignore[misc]
        for n, row in enumerate(listed)
    ]
    study = {
        "experiment": "table1",
        "choices": vars(c),
        "rows": [vars(row) | {"rule": str(row.rule)} for row in listed],
        "seed": options.seed,
    }
    store = execute("table1", study, tasks, options)
    table = Table(title="Table 1, computed", box=box.SIMPLE, title_justify="left")
    for heading in ("algorithm", "steps", "claimed", "measured", "error at T", "A as printed"):
        table.add_column(heading)
    for n, row in enumerate(listed):
        found = store.shard(f"row{n:02d}").to_pydict()
        slope, final = best_slope(found)
        table.add_row(
            row.name, row.steps, row.claimed, f"T^{slope:.2f}", f"{final:.1e}",
            "true" if printed_holds(row, c) else "false",
        )  # fmt: skip
    radius = _geometric(c)
    table.caption = (
        "E‖θ_T − θ*‖² of single runs, last iterate, best scale; T^0 is a floor. Block-wise steps "
        "halve as blocks double, which is linear in blocks and T^-1 in samples. The expected "
        f"iteration of GES shrinks by {radius[0]:.4f} a step with the best pair (counted: "
        f"{radius[1]:.4f})."
    )
    return [table], []


def _measure(row: Row, c: Choices, entropy: list[int]) -> pa.Table:
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
        found = learn(
            row.rule, problem, alpha=Schedule(scales, row.slow), beta=Schedule(scales, row.fast),
            steps=c.steps, runs=c.runs, rng=seed, record=points, metrics=metric,
        )  # fmt: skip
        errors, points = found.curves["error"].mean(axis=1), found.recorded
    scale, step = np.broadcast_arrays(scales, points[:, None])
    return pa.table({"scale": scale.ravel(), "step": step.ravel(), "error": errors.ravel()})


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


def best_slope(found: dict[str, list[float]]) -> tuple[float, float]:
    """Slope over the last decade, and last error, of the scale that ends best."""
    scale, step, error = (np.array(found[name]) for name in ("scale", "step", "error"))
    ends = {s: error[(scale == s) & (step == step.max())][0] for s in np.unique(scale)}
    best = min(ends, key=lambda s: ends[s] if np.isfinite(ends[s]) else np.inf)
    mine = (scale == best) & (step >= step.max() / 10)
    slope = np.polyfit(np.log(step[mine]), np.log(error[mine]), 1)[0]
    return float(slope), float(ends[best])


def printed_holds(row: Row, c: Choices) -> bool:
    """Whether ΦᵀΞ(I − γλP)⁻¹(γP^b − I)Φ as printed is the matrix of the rule."""
    problem = problem_of(row, c)
    mdp = problem.mdp
    trace, kernel = row.printed.split(", ")
    lam = c.lam if trace == "λ" else 0.0

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
    exact = System.exact(problem, row.rule).A
    return bool(np.allclose((Phi.T * problem.weights) @ inner, exact))


def _geometric(c: Choices) -> tuple[float, float]:
    """Predicted and counted factor a step of the expected iteration of GES."""
    system = System.exact(problem_of(rows(c.lam)[-1], c), GES(c.lam))
    best = MeanStability(system).best()
    error = {"error": lambda theta: np.linalg.norm(theta - system.fixed_point, axis=-1)}
    found = iterate(system, steps=100, record=1, metrics=error).curves["error"]
    return best.radius, float((found[100] / found[50]) ** (1 / 50))
