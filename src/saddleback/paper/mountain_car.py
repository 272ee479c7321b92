"""MSPBE and MSE on MountainCar over 121 pairs of step sizes, and the MSE of the fixed points.

The paper's comparison at λ = γ = 0.99 with its grid, then again below the λ ceiling with β/α from
2⁻⁵ to 2⁵; and the fixed points themselves, of reliable systems and of least squares.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from rich import box
from rich.table import Table

from saddleback._progress import split_progress
from saddleback._typing import FloatArray
from saddleback.paper import Options, comparison, comparison_figures
from saddleback.paper.estimated_system import fixed_point, from_experience
from saddleback.paper.mountain_car_reference import reference, simulation
from saddleback.rules import Rule

METRICS = {"mse": "MSE", "mspbe": "own MSPBE", "mspbe_common": "MSPBE of GES"}

TITLES = {"paper": "MountainCar", "usual": "MountainCar"}
"""Titles of the cases by the names of their figures."""

FIXED_POINTS = "mountain-car-fixed-points"
"""Name of the study of the fixed points."""

FIXED_POINT_HEADINGS = ("rule", "trusted A, b", "standard error", "least squares, 5000 episodes")
"""Columns of the table of fixed points."""

COSTS = [(FIXED_POINTS, 10.0), ("mountain-car", 95.0)]
"""Approximate seconds of the fixed points and of the comparisons."""


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return comparison.check("mountain-car", options)


def prepare(options: Options) -> None:
    """Compute what is missing of the fixed points and both comparisons.

    The fixed points have few tasks, which keep all threads busy only beside other experiments.
    """
    for (name, _), progress in zip(COSTS, split_progress(options.progress, COSTS), strict=True):
        comparison.compute(name, replace(options, progress=progress))


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run both comparisons and the fixed points; draw and tabulate."""
    prepare(options)
    own = replace(options, progress=None)
    tables, paths = comparison_figures.compare("mountain-car", own, METRICS, TITLES)
    return [*tables, tabulate_fixed_points(fixed_points(options))], paths


def fixed_point_errors(
    method: str, rules: list[str], sample: int, seed: int, number: int = 0, **settings: Any
) -> dict[str, Any]:
    """Return the MSE of the fixed points of rules: of trusted systems, or of least squares.

    Trusted ones have a standard error, the MSE that their noise adds, and the error of q^π.
    """
    car = simulation(settings["gamma"], settings["bins"], settings["tilings"])
    truth = reference(car, {"sample": sample, "seed": seed, **settings})
    chosen = [Rule.parse(rule) for rule in rules]
    if method == "least squares":
        rng = np.random.SeedSequence([seed, 97, number])
        systems = from_experience(car, chosen, sample, rng)
        return {
            "rule": [str(rule) for rule in chosen],
            "mse": [float(truth.values.mse(fixed_point(system))) for system in systems],
        }
    measured = [truth.estimate(rule.trace).mse(truth.values) for rule in chosen]
    return {
        "rule": [str(rule) for rule in chosen],
        "mse": [own.value for own in measured],
        "error": [own.error for own in measured],
        "added": [own.added for own in measured],
        "error_of_q": float(np.sqrt(truth.values.noise)),
    }


class FixedPoints(NamedTuple):
    """MSE of the fixed points of rules.

    Attributes
    ----------
    rules, trusted, errors
        The rules, the MSE of their trusted systems, and its standard error.
    added, error_of_q
        Largest MSE that noise of A and b adds, and the standard error of q^π (rms).
    least_squares
        MSE of least squares, [seed, rule].
    """

    rules: list[str]
    trusted: FloatArray
    errors: FloatArray
    added: float
    error_of_q: float
    least_squares: FloatArray

    def cells(self) -> list[tuple[str, str, str, str]]:
        """Return rule, MSE, its standard error, and the MSE of least squares, as text."""
        quartiles = np.quantile(self.least_squares, (0.25, 0.5, 0.75), axis=0).T
        return [
            (rule, f"{mse:.5f}", f"{error:.5f}", f"{middle:.4f} ({low:.4f}–{high:.4f})")
            for rule, mse, error, (low, middle, high) in zip(
                self.rules, self.trusted, self.errors, quartiles, strict=True
            )
        ]


def fixed_points(options: Options) -> FixedPoints:
    """Read the results of the study of fixed points."""
    rows = comparison.stored(FIXED_POINTS, options).table()
    trusted, others = (
        rows.filter(pc.field("method") == method) for method in ("trusted", "least squares")
    )
    first = {name: trusted[name].to_numpy() for name in ("mse", "error", "added", "error_of_q")}
    rules = trusted["rule"].to_pylist()
    return FixedPoints(
        rules, first["mse"], first["error"], first["added"].max(), first["error_of_q"][0],
        others["mse"].to_numpy().reshape(-1, len(rules)),
    )  # fmt: skip


def tabulate_fixed_points(results: FixedPoints) -> Table:
    """Return a table of the errors of fixed points."""
    table = Table(
        title="MountainCar: MSE of the fixed points", box=box.SIMPLE, title_justify="left"
    )
    for heading in FIXED_POINT_HEADINGS:
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for row in results.cells():
        table.add_row(*row)
    table.caption = (
        f"Least squares: median and quartiles of {len(results.least_squares)} seeds. q^π by "
        f"simulation, standard error {results.error_of_q:.2f} (rms). Noise of A and b adds at most "
        f"{results.added:.5f} to the MSE."
    )
    table.caption_justify = "left"
    return table
