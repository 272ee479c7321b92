"""Claims about the comparisons: step sizes, and GES against GQ, ABQ and GTB."""

from __future__ import annotations

import numpy as np

from saddleback.paper import (
    Options,
    baird,
    mountain_car,
    results_of,
    small_comparison,
    step_size,
    two_state,
)
from saddleback.paper.claims import Claim, by_name, number, verdict
from saddleback.paper.comparison import ComparisonResults

COMPARED = ("GES", "GQ", "ABQ", "GTB")
"""The rules that the paper compares."""

SCHEDULE_HEADINGS = (
    "problem", "constant, paper's grid", "c/√t, paper's grid", "constant, tuned", "c/√t, tuned",
)  # fmt: skip

COMPARISON_HEADINGS = ("problem", "lowest for GES", *COMPARED, "ratio")


def schedule_claims(options: Options) -> list[Claim]:
    """Return the claims about constant steps against c/√t."""
    store = results_of("step-size", options)
    cases = step_size.plan(step_size.config_from(options), options.seed)
    errors = {}
    for (kind, lam, name), case in cases.items():
        results = case.results(store)
        i, j = results.best(0, "mspbe")
        errors[kind, lam, name] = float(results.final(0, "mspbe")[i, j])
    claims = []
    for kind, lam in dict.fromkeys((kind, lam) for kind, lam, _ in cases):
        best = [errors[key] for key in errors if key[:2] == (kind, lam)]
        constant, decaying, tuned_constant, tuned_decaying = best
        claims.append(
            Claim(
                f"A constant step converges significantly faster than 1/√t ({kind}, λ = {lam:g})",
                f"best MSPBE on the paper's grid: constant {number(constant)}, c/√t "
                f"{number(decaying)}; both tuned: constant {number(tuned_constant)}, c/√t "
                f"{number(tuned_decaying)}",
                verdict(constant < 0.5 * decaying, tuned_constant < 0.5 * tuned_decaying),
                "step-size",
                (f"{kind}, λ = {lam:g}", *(number(error) for error in best)),
            )
        )
    return claims


def comparison_claims(options: Options) -> list[Claim]:
    """Return the claims about GES against GQ, ABQ and GTB on the three problems."""
    cases = _comparisons(options)
    claims: list[Claim] = []
    for title, (results, error_metric) in cases.items():
        short = title.partition(", λ")[0]
        curves, distribution = (
            f"mountain-car-paper-{kind}" if title == "MountainCar" else ""
            for kind in ("curves", "distribution")
        )
        index = {name: list(results.comparison.rules).index(name) for name in COMPARED}
        for metric, label in _labels(error_metric).items():
            best = {name: float(results.final(k, metric).min()) for name, k in index.items()}
            middle = {name: float(results.median(k, metric).min()) for name, k in index.items()}
            both = (f"{number(best[name])} ({number(middle[name])})" for name in COMPARED)
            claims.append(
                Claim(
                    f"{title}: GES learns fastest ({label})",
                    f"best of 121 settings, mean over runs: {by_name(best)}; median over runs: "
                    f"{by_name(middle)}",
                    verdict(
                        best["GES"] <= min(best.values()), middle["GES"] <= min(middle.values())
                    ),
                    curves,
                    (short, label, *both, number(_ratio(results, metric))),
                )
            )
        spread = {name: float(np.std(results.curve(k, "mspbe")[-1])) for name, k in index.items()}
        claims.append(
            Claim(
                f"{title}: GES has the lowest variance",
                "standard deviation over runs of the last MSPBE of the best setting: "
                + by_name(spread),
                verdict(spread["GES"] <= min(spread.values())),
                curves,
                (short, "deviation", *(number(value) for value in spread.values()), ""),
            )
        )
        diverged = {name: int((results.diverged(k) > 0).sum()) for name, k in index.items()}
        claims.append(
            Claim(
                f"{title}: GES is the most robust to step sizes",
                "settings of 121 that diverged in some run: "
                + ", ".join(f"{name} {count}" for name, count in diverged.items()),
                verdict(diverged["GES"] <= min(diverged.values())),
                distribution,
                (short, "diverged", *map(str, diverged.values()), ""),
            )
        )
    return claims


def summary_claims(options: Options) -> list[Claim]:
    """Return the claims about all problems together, and about the paper's own metric."""
    cases = _comparisons(options)
    return [_advantage(cases), _empirical_mspbe(cases["MountainCar"][0])]


def _labels(error_metric: str) -> dict[str, str]:
    """Metrics of a comparison, and their labels."""
    return {"mspbe": "own MSPBE", "mspbe_common": "MSPBE of GES", error_metric: "value error"}


def _ratio(results: ComparisonResults, metric: str) -> float:
    """Error of the best other rule of the paper ÷ that of GES, each at its best setting."""
    rules = list(results.comparison.rules)
    best = [float(results.final(rules.index(name), metric).min()) for name in COMPARED]
    return min(best[1:]) / best[0]


def _comparisons(options: Options) -> dict[str, tuple[ComparisonResults, str]]:
    """Return the comparisons as the paper ran them, each with the name of its value error."""
    cases: dict[str, tuple[ComparisonResults, str]] = {}
    for name, recipe in (("two-state", two_state), ("baird", baird)):
        config = small_comparison.apply_options(recipe.COMPARISON, options)
        store = results_of(name, options)
        for title, case in small_comparison.plan(name, recipe.make, config, options).items():
            if case.name.startswith("paper"):
                cases[title] = (case.results(store), "error")
    plans = mountain_car.plan(mountain_car.config_from(options), options)
    store = results_of("mountain-car", options)
    return cases | {"MountainCar": (plans[0].results(store), "mse")}


def _advantage(cases: dict[str, tuple[ComparisonResults, str]]) -> Claim:
    """Compare GES with the best other rule, over all problems and metrics."""
    claim = "The advantage of GES is slight on the small problems and large on MountainCar"
    ratios = {
        f"{title} ({label})": _ratio(results, metric)
        for title, (results, error_metric) in cases.items()
        for metric, label in _labels(error_metric).items()
    }
    highest = number(max(ratios.values()))
    return Claim(
        claim,
        "error of the best other rule ÷ that of GES (above 1 is an advantage): " + by_name(ratios),
        verdict(all(ratio > 1 for ratio in ratios.values())),
        cells=(claim, f"The largest ratio above is {highest}; an advantage would be above 1"),
    )


def _empirical_mspbe(results: ComparisonResults) -> Claim:
    """Compare the paper's empirical MSPBE of GES at θ = 0 with that of a reliable A."""
    own, empirical = (float(results.rule(0, name)[0, 0, 0, 0]) for name in ("mspbe", "mspbe_paper"))
    return Claim(
        "The empirical MSPBE, with Â from 5000 episodes, measures the MSPBE",
        f"For GES on MountainCar at θ = 0: {number(empirical, 3)} by that Â, {number(own, 3)} by "
        "an A from rollouts of π",
        verdict(bool(0.5 < empirical / own < 2.0)),
    )
