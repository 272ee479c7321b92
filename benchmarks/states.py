"""Rules for off-policy state values: TD, GTD2, TDC, TDRC and ETD where the truth is known.

Run by ``make states``; writes ``results/states.json`` and ``results/states.md``. First Baird's star
with the step sizes of Sutton & Barto, expected and in single runs. Then every rule with its best
step sizes: chosen on one half of the runs and judged on the other, to avoid selection bias.
λ = 0 throughout.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from machine import machine, machine_line
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

import saddleback as sb

STAR = np.array([1, 1, 1, 1, 1, 1, 10, 1.0])
"""Initial weights on Baird's star, as in Sutton & Barto."""

RULES = {
    "TD(0)": sb.TD(0.0),
    "GTD2(0)": sb.GTD2(0.0),
    "TDC(0)": sb.TDC(0.0),
    "TDRC(0)": sb.TDRC(0.0),
    "TDRC(0), β = α": sb.TDRC(0.0),
    "ETD(0)": sb.ETD(0.0),
}
ALPHAS, RATIOS = 2.0 ** np.arange(-14, 1), 2.0 ** np.arange(-5, 6)
STEPS, RUNS = 20_000, 40
LONG, MANY = 200_000, 50
SHOWN = (0.25, 0.5, 0.75)


def star(gamma):
    """Return Baird's star with its classic features and initial weights."""
    return sb.problems.baird(gamma, features="classic"), STAR


def cases():
    """Return the problems with their initial weights, by name."""
    walk = {"target_right": 0.6, "behaviour_right": 0.4}
    problems = {f"Baird's star, γ = {gamma:g}": [star(gamma)] for gamma in (0.99, 0.9)}
    for kind in ("tabular", "inverted", "dependent"):
        problems[f"random walk, {kind}"] = [(sb.problems.random_walk(features=kind, **walk), 0.0)]
    problems["Boyan's chain"] = [
        (sb.problems.boyan_chain(target_skip=0.7, behaviour_skip=0.4), 0.0)
    ]
    random_problems = [
        sb.problems.random_mdp(0.9, rng=k, values="state", off_policy=0.6) for k in range(20)
    ]
    problems["20 random MDPs"] = [(problem, 0.0) for problem in random_problems]
    return problems


def at_fixed_steps(gamma, rule):
    """Return the final RMS value error, expected and over runs, at α = 0.005 and β = 0.05."""
    problem, theta0 = star(gamma)
    system = sb.System.exact(problem, sb.TD(0.0))  # the same weighting of states for all
    metrics = {"mse": system.mse_absolute, "mspbe": system.mspbe}
    options = {"alpha": 0.005, "beta": 0.05, "theta0": theta0, "steps": LONG, "metrics": metrics}
    run = sb.learn(rule, problem, runs=MANY, rng=0, record=LONG, threads=2, **options)
    expected = sb.iterate(sb.System.exact(problem, rule), record=LONG, **options)
    error = np.sqrt(run.curves["mse"][-1])
    return {
        "expected": float(np.sqrt(expected.curves["mse"][-1])),
        "quartiles": np.quantile(error, SHOWN, method="nearest").tolist(),
        "range": [float(error.min()), float(error.max())],
        "mspbe": float(np.median(run.curves["mspbe"][-1])),
        "diverged": int((~run.ok).sum()),
    }


def at_best_steps(name, problem, theta0, seed):
    """Return the value errors with the best pair ÷ those of the initial weights, and divergences.

    The error is the root of the mean square over the last tenth of the run.
    """
    rule = RULES[name]
    ratios = RATIOS if rule.form.has_dual and "β = α" not in name else np.ones(1)
    alpha, ratio = (grid.ravel() for grid in np.meshgrid(ALPHAS, ratios))
    system = sb.System.exact(problem, sb.TD(0.0))
    points = np.linspace(0.9 * STEPS, STEPS, 5).astype(int)
    run = sb.learn(
        rule, problem, alpha=alpha, beta=alpha * ratio, theta0=theta0, steps=STEPS, runs=RUNS,
        rng=seed, threads=2, record=points, metrics={"mse": system.mse_absolute},
    )  # fmt: skip
    first = system.mse_absolute(np.broadcast_to(theta0, problem.p))
    error = np.sqrt(run.curves["mse"].mean(axis=0) / first)
    half = RUNS // 2
    chosen = int(error[:half].mean(axis=0).argmin())
    return error[half:, chosen], float((~run.ok).mean()), [alpha[chosen], ratio[chosen]]


def smallest_error(problem, theta0):
    """Return the smallest error of any weights ÷ that of the initial ones."""
    system = sb.System.exact(problem, sb.TD(0.0))
    weight = np.sqrt(problem.weights)
    truth = problem.truth
    best = np.linalg.lstsq(weight[:, None] * problem.Phi, weight * truth, rcond=None)[0]
    first = system.mse_absolute(np.broadcast_to(theta0, problem.p))
    return float(np.sqrt(system.mse_absolute(best) / first))


def fixed_step_results():
    """Return the results on Baird's star with fixed step sizes, and the rows of their table."""
    names = [name for name in RULES if "=" not in name]
    results, rows = {}, []
    for gamma in track((0.99, 0.9), "Baird's star", transient=True):
        results[f"{gamma:g}"] = {name: at_fixed_steps(gamma, RULES[name]) for name in names}
        for name, result in results[f"{gamma:g}"].items():
            low, middle, high = (f"{value:.3g}" for value in result["quartiles"])
            ends = (f"{value:.3g}" for value in result["range"])
            rows.append(
                [f"{gamma:g}", name, f"{result['diverged']}", f"{result['expected']:.5g}", middle,
                 f"{low} to {high}", " to ".join(ends), f"{result['mspbe']:.1e}"]
            )  # fmt: skip
    return results, rows


def tuned_results():
    """Return the results of each rule with its best step sizes, and their two tables."""
    results, errors, diverged = {}, [], []
    for case, several in track(cases().items(), "tuning", transient=True):
        results[case] = {}
        for name in RULES:
            runs = [at_best_steps(name, *one, seed) for seed, one in enumerate(several)]
            # Over runs of one problem, or over the medians of several problems.
            error = runs[0][0] if len(runs) == 1 else np.array([np.median(e) for e, *_ in runs])
            results[case][name] = {
                "quartiles": np.quantile(error, SHOWN, method="nearest").tolist(),
                "diverged": float(np.mean([lost for _, lost, _ in runs])),
                "pairs": [pair for *_, pair in runs],
                "errors": [float(np.median(e)) for e, *_ in runs],
            }
        lowest = float(np.median([smallest_error(*one) for one in several]))
        results[case]["least"] = lowest
        rows = [results[case][name] for name in RULES]
        errors.append([case, *map(cell, rows), f"{lowest:.2g}" if lowest > 1e-9 else "0"])
        diverged.append([case, *(f"{row['diverged']:.0%}" for row in rows)])
    return results, errors, diverged


def cell(result):
    """Write median and quartiles."""
    low, middle, high = (f"{value:.2g}" for value in result["quartiles"])
    return f"{middle} ({low}–{high})"


def print_table(console, title, headings, rows):
    """Print a table; return it in Markdown."""
    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    lines = [title, "", *(f"| {' | '.join(row)} |" for row in [headings, *rows]), ""]
    return [*lines[:3], "| --- " * len(headings) + "|", *lines[3:]]


def wins(results):
    """Return the number of random problems where a rule has a lower median error than another."""
    errors = {name: np.array(results["20 random MDPs"][name]["errors"]) for name in RULES}
    return [
        [
            name,
            *("" if other == name else str(int((own < errors[other]).sum())) for other in RULES),
        ]
        for name, own in errors.items()
    ]


def main():
    """Measure, print, write."""
    console = Console(width=180)
    console.print(machine_line(), highlight=False)
    at_fixed, rows = fixed_step_results()
    lines = print_table(
        console,
        f"Baird's star, α = .005, β = .05, {LONG:,} steps, {MANY} runs: RMS value error",
        ["γ", "rule", "diverged", "expected", "median", "quartiles", "all runs", "MSPBE, median"],
        rows,
    )
    best, rows, diverged = tuned_results()
    lines += print_table(
        console,
        f"Value error ÷ that of θ₀ after {STEPS:,} steps, best step sizes: median (quartiles)",
        ["problem", *RULES, "lowest possible"],
        rows,
    )
    lines += print_table(
        console, "Share of settings and runs that diverged", ["problem", *RULES], diverged
    )
    lines += print_table(
        console,
        "Number of 20 random MDPs where the row's rule has a lower error than the column's",
        ["", *RULES],
        wins(best),
    )
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), "fixed": at_fixed, "tuned": best}
    Path("results/states.json").write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    Path("results/states.md").write_text("\n".join([machine_line(), "", *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
