"""How close does the advice on step sizes come to the best of a grid?

Run by ``make advice``; writes ``results/advice.json`` and ``results/advice.png``. On random
problems 121 pairs and the advised one learn from the same experience, many times over. The best
pair of the grid is chosen on one half of the runs and judged on the other, so that it gains nothing
by luck.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from machine import told
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

import saddleback as sb
from saddleback import plots

PROBLEMS, RUNS = 25, 100
ALPHAS, RATIOS = 2.0 ** -np.arange(1, 12), 2.0 ** np.arange(-5, 6)
console = Console()


def random_problem(seed):
    """Return a problem of random size, discount and distance between the policies."""
    rng = np.random.default_rng(seed)
    return sb.problems.random_mdp(
        rng.choice([0.5, 0.8, 0.9, 0.95]), rng=seed, states=int(rng.integers(3, 9)),
        actions=int(rng.integers(2, 4)), features=int(rng.integers(2, 5)),
        off_policy=rng.uniform(0.2, 0.8),
    )  # fmt: skip


def measure(problem, rule, steps, seed):
    """Return the error with the advice over that of the best pair, and how many runs diverged."""
    advice = sb.step_sizes(problem, rule, steps=steps)
    alpha, ratio = (grid.ravel() for grid in np.meshgrid(ALPHAS, RATIOS))
    star = sb.System.exact(problem, rule).fixed_point
    run = sb.learn(
        rule, problem, alpha=np.append(alpha, advice.alpha),
        beta=np.append(alpha * ratio, advice.beta), steps=steps, runs=RUNS, rng=seed, threads=2,
        record=steps, metrics={"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)},
    )  # fmt: skip
    error = run.curves["error"][-1]
    chosen = error[: RUNS // 2, :-1].mean(axis=0).argmin()
    judged = error[RUNS // 2 :].mean(axis=0)
    return judged[-1] / judged[chosen], int((~run.ok[:, -1]).sum()), int((~run.ok[:, :-1]).sum())


def main():
    """Measure, print, draw, write."""
    print(told())
    out = Path("results")
    out.mkdir(exist_ok=True)
    cases = [
        (name, lam, steps)
        for name in ("GES", "GQ")
        for lam in (0.0, 0.3)
        for steps in (1000, 10_000)
    ]
    found = {case: [] for case in cases}
    for case in track(cases, description="advice", console=console):
        name, lam, steps = case
        for seed in range(PROBLEMS):
            problem = random_problem(seed)
            found[case].append(measure(problem, sb.rules.NAMED[name](lam), steps, seed))
    table = Table(
        title=f"Error with the advised pair / best of 121 pairs, {PROBLEMS} random problems",
        box=box.SIMPLE,
    )
    for heading in ("rule", "steps", "median", "90 %", "largest", "diverged: advice", "grid"):
        table.add_column(heading, justify="right")
    summary = []
    for (name, lam, steps), rows in found.items():
        ratio, lost, grid = np.array(rows).T
        quantiles = np.quantile(ratio, [0.5, 0.9, 1.0])
        shares = lost.sum() / (PROBLEMS * RUNS), grid.sum() / (PROBLEMS * RUNS * 121)
        table.add_row(
            f"{name}({lam:g})", f"{steps:,}", *(f"{q:.2f}" for q in quantiles),
            f"{shares[0]:.1%}", f"{shares[1]:.1%}",
        )  # fmt: skip
        summary.append(
            {
                "rule": name,
                "lam": lam,
                "steps": steps,
                "ratios": ratio.tolist(),
                "diverged": shares[0],
            }
        )
    console.print(table)
    everything = np.concatenate([np.array(rows)[:, 0] for rows in found.values()])
    console.print(f"all cases: median {np.median(everything):.3f}")
    (out / "advice.json").write_text(json.dumps(summary, indent=1) + "\n")
    with plots.style():
        figure, ax = plt.subplots(figsize=(4.6, 2.8))
        for case, rows in found.items():
            ratio = np.sort(np.array(rows)[:, 0])
            colour = plots.COLOURS["blue" if case[0] == "GES" else "orange"]
            ax.plot(
                ratio, (np.arange(PROBLEMS) + 1) / PROBLEMS, color=colour,
                ls="-" if case[1] == 0 else "--", lw=1.6 if case[2] == 1000 else 0.8,
                label=f"{case[0]}({case[1]:g}), {case[2]:,} steps",
            )  # fmt: skip
        ax.axvline(1, color=plots.COLOURS["black"], lw=0.8)
        ax.set(
            xlabel="error with the advice / best of 121 pairs", ylabel="share of problems",
            title="Advice on step sizes against a grid search", xlim=(0, 2), ylim=(0, 1.02),
        )  # fmt: skip
        ax.legend(fontsize=6)
        plots.save(figure, out, "advice")


if __name__ == "__main__":
    main()
