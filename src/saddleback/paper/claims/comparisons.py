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
from saddleback.paper.claims import Claim, listed, verdict
from saddleback.paper.comparison import ComparisonResults

FOUR = ("GES", "GQ", "ABQ", "GTB")
"""The rules that the paper compares."""


def schedule_claims(options: Options) -> list[Claim]:
    """Constant steps against c/√t."""
    store = results_of("step-size", options)
    cases = step_size.plan(step_size.config_from(options), options.seed)
    found = {}
    for (kind, lam, name), case in cases.items():
        results = case.results(store)
        i, j = results.best(0, "mspbe")
        found[kind, lam, name] = float(results.final(0, "mspbe")[i, j])
    claims = []
    for kind, lam in dict.fromkeys((kind, lam) for kind, lam, _ in cases):
        own, other, wide, fair = (found[key] for key in found if key[:2] == (kind, lam))
        claims.append(
            Claim(
                f"A constant step converges significantly faster than 1/√t ({kind}, λ = {lam:g})",
                f"best MSPBE on the paper's grid: constant {own:.1e}, c/√t {other:.1e}; both "
                f"tuned: constant {wide:.1e}, c/√t {fair:.1e}",
                verdict(own < 0.5 * other, wide < 0.5 * fair),
                "step-size",
            )
        )
    return claims


def comparison_claims(options: Options) -> list[Claim]:
    """GES against GQ, ABQ and GTB on the three domains, as the paper ran them."""
    cases: dict[str, tuple[ComparisonResults, str]] = {}
    for name, recipe in (("two-state", two_state), ("baird", baird)):
        config = small_comparison.apply_options(recipe.COMPARISON, options)
        store = results_of(name, options)
        for title, case in small_comparison.plan(name, recipe.make, config, options).items():
            if case.name.startswith("paper"):
                cases[title] = (case.results(store), "error")
    plans = mountain_car.plan(mountain_car.config_from(options), options)
    store = results_of("mountain-car", options)
    cases["MountainCar"] = (plans[0].results(store), "mse")
    claims: list[Claim] = []
    lead: dict[str, float] = {}
    for title, (results, error) in cases.items():
        index = {name: list(results.comparison.rules).index(name) for name in FOUR}
        figure = "mountain-car-paper-curves" if title == "MountainCar" else ""
        readings = {"mspbe": "own MSPBE", "mspbe_common": "MSPBE of GES", error: "value error"}
        for metric, label in readings.items():
            best = {name: float(results.final(k, metric).min()) for name, k in index.items()}
            middle = {name: float(results.median(k, metric).min()) for name, k in index.items()}
            lead[f"{title} ({label})"] = min(v for n, v in best.items() if n != "GES") / best["GES"]
            claims.append(
                Claim(
                    f"{title}: GES learns fastest ({label})",
                    f"best of 121 settings, mean over runs: {listed(best)}; median over runs: "
                    f"{listed(middle)}",
                    verdict(
                        best["GES"] <= min(best.values()), middle["GES"] <= min(middle.values())
                    ),
                    figure,
                )
            )
        spread = {name: float(np.std(results.curve(k, "mspbe")[-1])) for name, k in index.items()}
        claims.append(
            Claim(
                f"{title}: GES has the lowest variance",
                "standard deviation over runs of the last MSPBE of the best setting: "
                + listed(spread),
                verdict(spread["GES"] <= min(spread.values())),
                figure,
            )
        )
        gone = {name: int((results.diverged(k) > 0).sum()) for name, k in index.items()}
        claims.append(
            Claim(
                f"{title}: GES is the most robust to step sizes",
                "settings of 121 that diverged in some run: "
                + ", ".join(f"{name} {count}" for name, count in gone.items()),
                verdict(gone["GES"] <= min(gone.values())),
                "mountain-car-paper-distribution" if title == "MountainCar" else "",
            )
        )
    claims.append(
        Claim(
            "The advantage of GES is slight on the small problems and large on MountainCar",
            "error of the best other rule over that of GES (above 1 is an advantage): "
            + listed(lead),
            verdict(all(value > 1 for value in lead.values())),
        )
    )
    own, theirs = (cases["MountainCar"][0].rule(0, name) for name in ("mspbe", "mspbe_paper"))
    claims.append(
        Claim(
            "The empirical MSPBE, with Â from 5000 episodes, measures the MSPBE",
            f"of GES on MountainCar at θ = 0: {theirs[0, 0, 0, 0]:.3g} by that Â, "
            f"{own[0, 0, 0, 0]:.3g} by an A from rollouts of π",
            verdict(bool(0.5 < theirs[0, 0, 0, 0] / own[0, 0, 0, 0] < 2.0)),
        )
    )
    return claims
