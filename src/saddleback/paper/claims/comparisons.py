"""Claims about the comparisons: step sizes, and GES against GQ, ABQ and GTB."""

from __future__ import annotations

import numpy as np

from saddleback.paper import Options
from saddleback.paper.claims import Claim, by_name, number, verdict
from saddleback.paper.comparison import Comparison, comparisons
from saddleback.paper.comparison_figures import case_title, small_titles
from saddleback.paper.step_size import by_schedule

COMPARED = ("GES", "GQ", "ABQ", "GTB")
"""The rules that the paper compares."""

SCHEDULE_HEADINGS = (
    "problem", "constant, paper's grid", "c/√t, paper's grid", "constant, tuned", "c/√t, tuned",
)  # fmt: skip

COMPARISON_HEADINGS = ("problem", "lowest for GES", *COMPARED, "ratio")


def schedule_claims(options: Options) -> list[Claim]:
    """Return the claims about constant steps against c/√t."""
    results = by_schedule(comparisons("step-size", options))
    errors = {
        key: float(result.mean_final("mspbe")[result.best("mspbe") or (0, 0)])
        for key, (_, result) in results.items()
    }
    claims = []
    for kind, lam in dict.fromkeys((kind, lam) for kind, lam, _ in results):
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
        compared = {name: results[name] for name in COMPARED}
        for metric, label in _labels(error_metric).items():
            best = {name: float(r.mean_final(metric).min()) for name, r in compared.items()}
            middle = {name: float(r.median_end(metric).min()) for name, r in compared.items()}
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
        spread = {name: float(np.std(r.curve("mspbe")[-1])) for name, r in compared.items()}
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
        diverged = {name: int((r.diverged > 0).sum()) for name, r in compared.items()}
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


def _ratio(results: Comparison, metric: str) -> float:
    """Error of the best other rule of the paper ÷ that of GES, each at its best setting."""
    best = [float(results[name].mean_final(metric).min()) for name in COMPARED]
    return min(best[1:]) / best[0]


def _comparisons(options: Options) -> dict[str, tuple[Comparison, str]]:
    """Return the comparisons as the paper ran them, each with the name of its value error."""
    cases: dict[str, tuple[Comparison, str]] = {}
    for name in ("two-state", "baird"):
        titles = small_titles(name)
        for (figure, title), results in zip(
            titles.items(), comparisons(name, options), strict=True
        ):
            if figure.startswith("paper"):
                cases[case_title(title, results)] = (results, "error")
    return cases | {"MountainCar": (comparisons("mountain-car", options)[0], "mse")}


def _advantage(cases: dict[str, tuple[Comparison, str]]) -> Claim:
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


def _empirical_mspbe(results: Comparison) -> Claim:
    """Compare the paper's empirical MSPBE of GES at θ = 0 with that of a reliable A."""
    own, empirical = (
        float(results["GES"].values[name][0, 0, 0, 0]) for name in ("mspbe", "mspbe_paper")
    )
    return Claim(
        "The empirical MSPBE, with Â from 5000 episodes, measures the MSPBE",
        f"For GES on MountainCar at θ = 0: {number(empirical, 3)} by that Â, {number(own, 3)} by "
        "an A from rollouts of π",
        verdict(bool(0.5 < empirical / own < 2.0)),
    )
