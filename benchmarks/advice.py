"""Advised step sizes against the best of a grid.

Run by ``make advice``; writes ``results/advice.json`` and ``results/advice.png``. On random
problems, 121 pairs and the advised one learn from the same experience in many runs. The best pair
of the grid is chosen on one half of the runs and judged on the other, to avoid selection bias.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from machine import machine_line
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
    """Return the error with the advice ÷ that of the best pair, and numbers of diverged runs."""
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
    print(machine_line())
    out = Path("results")
    out.mkdir(exist_ok=True)
    cases = [
        (name, lam, steps)
        for name in ("GES", "GQ")
        for lam in (0.0, 0.3)
        for steps in (1000, 10_000)
    ]
    results = {case: [] for case in cases}
    for case in track(cases, description="advice", console=console):
        name, lam, steps = case
        for seed in range(PROBLEMS):
            problem = random_problem(seed)
            results[case].append(measure(problem, sb.rules.NAMED[name](lam), steps, seed))
    table = Table(
        title=f"Error with the advised pair ÷ best of 121 pairs, {PROBLEMS} random problems",
        box=box.SIMPLE,
    )
    for heading in ("rule", "steps", "median", "90%", "largest", "diverged: advice", "grid"):
        table.add_column(heading, justify="right")
    summary = []
    for (name, lam, steps), rows in results.items():
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
    ratios = np.concatenate([case["ratios"] for case in summary])
    console.print(f"all cases: median {np.median(ratios):.3f}")
    (out / "advice.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    draw(summary, out)


def draw(summary, out):
    """Draw the distribution of the ratios over problems, a panel for each number of steps."""
    budgets = sorted({case["steps"] for case in summary})
    caption = (
        f"Mean square error with the advised pair of step sizes ÷ that of the best of 121 pairs "
        f"(α = 2⁻¹¹ to 2⁻¹, β/α = 2⁻⁵ to 2⁵), on {PROBLEMS} random problems; {RUNS} runs each. The "
        "best pair is chosen on half of the runs and judged on the other half, as is the advice."
    )
    with plots.style():
        figure, axes = plots.panels(
            1, len(budgets), 1.9, caption=caption, gap=(0.2, 0.0), sharey=True
        )
        highest = max(max(case["ratios"]) for case in summary)
        for ax, steps in zip(axes, budgets, strict=True):
            for case in summary:
                if case["steps"] == steps:
                    ratios = np.sort(case["ratios"])
                    ax.step(
                        [0, *ratios, 1.05 * highest],
                        [*np.arange(len(ratios) + 1) / len(ratios), 1.0], where="post",
                        color=plots.COLOURS["blue" if case["rule"] == "GES" else "orange"],
                        ls="-" if case["lam"] == 0 else (0, (3, 1)),
                        label=f"{case['rule']}({case['lam']:g})",
                    )  # fmt: skip
            ax.axvline(1, color=plots.COLOURS["black"], lw=0.8)
            better = np.mean([r < 1 for c in summary if c["steps"] == steps for r in c["ratios"]])
            ax.set(
                title=f"{steps:,} steps: the advice is better in {better:.0%} of cases",
                xlabel="error with the advice ÷ best of the grid", xlim=(0.25, 1.05 * highest),
                ylim=(0, 1.02),
            )  # fmt: skip
            ax.set_xticks(np.arange(0.5, 1.05 * highest, 0.5))
            ax.legend(loc="lower right")
        axes[0].set(ylabel="fraction of problems")
        plots.save(figure, out, "advice")


if __name__ == "__main__":
    main()
