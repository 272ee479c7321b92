"""Where does GES lead? `make map` runs the studies beside this file and draws the map.

For every problem, λ, grid of step sizes and measure, each rule has its best of 121 settings, by
the mean over runs. The advantage of GES is the value of the best other rule ÷ that of GES; its 95%
interval resamples the runs, which share their random numbers. Runs that are there are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.machine import machine_line

from saddleback import plots
from saddleback._typing import FloatArray
from saddleback.sweep import RuleResults, read_results, read_study, run_study

FOLDER = Path(__file__).parent
STUDIES = ("small", "car")
LAMBDAS = ("0", "0.2", "0.4", "0.6", "0.8", "0.99")

MEASURES = {
    "mspbe": "own MSPBE", "mspbe_common": "MSPBE of GES", "error": "value error",
    "area": "area under the error",
}  # fmt: skip

LETTERS = {"GES": "G", "GQ": "Q", "ABQ": "A", "GTB": "T"}

DRAWS, SHOWN = 400, 2.0
"""Resamples of the runs, and the largest power of ten that has a colour."""


class Cell(NamedTuple):
    """Who leads in one case: the rule, and log₁₀ of the advantage of GES with its interval."""

    problem: str
    grid: str
    lam: str
    measure: str
    leader: str
    advantage: float
    low: float
    high: float
    values: dict[str, float]
    diverged: dict[str, int]

    @property
    def verdict(self) -> str:
        """ "ahead", "behind", or "even" where the interval has 0 in it."""
        return "ahead" if self.low > 0 else "behind" if self.high < 0 else "even"


def finals(result: RuleResults, measure: str) -> FloatArray:
    """Return the final value of each run and setting; infinite where diverged, [run, setting]."""
    if measure == "area":
        curves = result.values["error"]
        width = np.diff(result.points).astype(float)
        means = (curves[:, 1:] + curves[:, :-1]) / 2
        values = np.einsum("rtab,t->rab", means, width) / width.sum()
    else:
        values = result.final(measure)
    values = np.where(result.diverged_at >= 0, np.inf, values)
    return np.asarray(values.reshape(len(values), -1))


def best_of(final: FloatArray) -> FloatArray:
    """Return the values over runs of the setting with the smallest mean."""
    return np.asarray(final[:, np.argmin(final.mean(axis=0))])


def cell_of(case: str, results: dict[str, RuleResults], measure: str, rng: Any) -> Cell:
    """Compare GES with the others in one case."""
    grid, _, rest = case.partition("; ")
    lam, _, problem = rest.partition(", ")
    runs = {name: best_of(finals(result, measure)) for name, result in results.items()}
    means = {name: float(values.mean()) for name, values in runs.items()}
    rival = min((name for name in means if name != "GES"), key=lambda name: means[name])
    draws = rng.integers(len(runs["GES"]), size=(DRAWS, len(runs["GES"])))

    def log_ratio(rows: Any) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log10(runs[rival][rows].mean(axis=-1) / runs["GES"][rows].mean(axis=-1))
        return np.nan_to_num(ratio, nan=0.0, posinf=np.inf, neginf=-np.inf)

    low, high = np.quantile(np.clip(log_ratio(draws), -99, 99), (0.025, 0.975))
    return Cell(
        problem, grid, lam, measure, min(means, key=lambda name: means[name]),
        float(np.clip(log_ratio(slice(None)), -99, 99)), float(low), float(high), means,
        {name: int((result.diverged > 0).sum()) for name, result in results.items()},
    )  # fmt: skip


def cells_of(folder: Path, rng: Any) -> list[Cell]:
    """Read the cells of a study."""
    results = read_results(folder)
    labels = dict.fromkeys(rule.problem for rule in results.rules)
    return [
        cell_of(label, {rule.rule: rule for rule in results.on(label)}, measure, rng)
        for label in labels
        for measure in MEASURES
        if measure == "area" or measure in results.metrics
    ]


def draw(cells: list[Cell], out: Path) -> None:
    """Draw a panel for each measure: rows are problems and grids, columns λ."""
    rows = list(dict.fromkeys((cell.problem, cell.grid) for cell in cells))
    caption = (
        "Advantage of GES: value of the best of GQ, ABQ and GTB ÷ that of GES, each with its best "
        "of 121 settings. Purple: GES is ahead, orange: behind, up to a factor of 100. Letters: "
        "the rule that leads (G: GES, Q: GQ, A: ABQ, T: GTB), in capitals where the 95% interval "
        "over runs excludes 1."
    )
    with plots.style():
        figure, axes = plots.panels(
            1, len(MEASURES), 0.17 * len(rows), caption=caption, gap=(0.08, 0), left=2.55,
            top=0.25, sharey=True,
        )  # fmt: skip
        for ax, (measure, label) in zip(axes, MEASURES.items(), strict=True):
            table = np.full((len(rows), len(LAMBDAS)), np.nan)
            for cell in cells:
                if cell.measure == measure:
                    at = rows.index((cell.problem, cell.grid)), LAMBDAS.index(cell.lam)
                    table[at] = np.clip(cell.advantage, -SHOWN, SHOWN)
                    text, dark = LETTERS[cell.leader], abs(table[at]) > 0.7 * SHOWN
                    ax.text(
                        at[1], at[0], text if cell.verdict != "even" else text.lower(),
                        ha="center", va="center", fontsize=6, color="white" if dark else "black",
                    )  # fmt: skip
            ax.set_facecolor("#eeeeee")
            ax.imshow(table, cmap="PuOr", vmin=-SHOWN, vmax=SHOWN, aspect="auto")
            ax.grid(False)
            ax.set_xticks(range(len(LAMBDAS)), LAMBDAS, fontsize=6)
            ax.set_title(label, fontsize=7)
            ax.set(xlabel="λ")
        axes[0].set_yticks(range(len(rows)), [f"{p}; {g}" for p, g in rows], fontsize=6)
        plots.save(figure, out, "map")


def summary(cells: list[Cell]) -> list[str]:
    """Count, by problem and measure, where GES leads, and where it is behind."""
    lines = ["| problem | measure | GES ahead | even | behind | largest advantage | at |",
             "|---|---|---:|---:|---:|---:|---|"]  # fmt: skip
    for problem in dict.fromkeys(cell.problem for cell in cells):
        for measure, label in MEASURES.items():
            own = [c for c in cells if (c.problem, c.measure) == (problem, measure)]
            if not own:
                continue
            counts = [sum(c.verdict == kind for c in own) for kind in ("ahead", "even", "behind")]
            top = max(own, key=lambda c: c.advantage)
            lines.append(
                f"| {problem} | {label} | {counts[0]} | {counts[1]} | {counts[2]} | "
                f"{10**top.advantage:.3g} ({10**top.low:.3g} to {10**top.high:.3g}) | "
                f"{top.grid}, λ = {top.lam} |"
            )
    return lines


def main() -> None:
    """Run the studies, print the summary, and write map.json, map.md and the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    parser.add_argument("--out", type=Path, default=Path("results"))
    given = parser.parse_args()
    print(machine_line())
    begun, rng, cells = time.process_time(), np.random.default_rng(0), []
    for name in STUDIES:
        folder = given.out / f"map-{name}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        run_study(
            read_study(FOLDER / f"{name}.toml", quick=given.quick), folder, folder=FOLDER, workers=2
        )
        cells += cells_of(folder, rng)
    draw(cells, given.out)
    lines = summary(cells)
    content = [cell._asdict() | {"verdict": cell.verdict} for cell in cells]
    (given.out / "map.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    (given.out / "map.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    print("\n".join(lines))
    print(f"{len(cells)} cells; {time.process_time() - begun:.0f} s of computing")


if __name__ == "__main__":
    main()
