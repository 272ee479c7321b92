"""Claims about the comparisons: step sizes, and GES against GQ, ABQ and GTB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from saddleback.paper import Options
from saddleback.paper.claims import Claim, by_name, number, verdict
from saddleback.paper.comparison import Comparison, comparisons
from saddleback.paper.comparison_figures import case_title, small_titles
from saddleback.paper.step_size import PROBLEMS, results_of
from saddleback.sweep import RuleResults

COMPARED = ("GES", "GQ", "ABQ", "GTB")
"""The rules that the paper compares."""

SCHEDULE_HEADINGS = (
    "problem", "constant, paper's grid", "c/√t, paper's grid", "constant, tuned", "c/√t, tuned",
)  # fmt: skip

COMPARISON_HEADINGS = ("problem", "lower for GES", *COMPARED, "GES is ahead of", "ratio")


def schedule_claims(options: Options) -> list[Claim]:
    """Return the claims about constant steps against c/√t."""
    results = results_of(options, comparisons)
    claims = []
    for problem, lam in dict.fromkeys((problem, lam) for problem, lam, _ in results):
        best = [
            level(own, "mspbe") for key, (_, own) in results.items() if key[:2] == (problem, lam)
        ]
        constant, decaying, tuned_constant, tuned_decaying = best
        name = f"{PROBLEMS[problem]}, λ = {lam:g}"
        claims.append(
            Claim(
                f"A constant step converges significantly faster than 1/√t ({name})",
                f"best MSPBE on the paper's grid: constant {constant}, c/√t {decaying}; both "
                f"tuned: constant {tuned_constant}, c/√t {tuned_decaying}",
                verdict(_far_below(constant, decaying), _far_below(tuned_constant, tuned_decaying)),
                "step-size",
                (name, *map(str, best)),
            )
        )
    return claims


def _far_below(one: Level, other: Level) -> bool:
    """Whether both mean and median are less than half."""
    return one.mean < 0.5 * other.mean and one.quartiles[1] < 0.5 * other.quartiles[1]


class Level(NamedTuple):
    """Final values of a rule over runs: mean of the setting with the best mean, and quartiles.

    ``quartiles`` are those of the setting with the best median, which can be another.
    """

    mean: float
    quartiles: tuple[float, float, float]

    @property
    def spread(self) -> float:
        """Range between the quartiles."""
        return self.quartiles[2] - self.quartiles[0] if np.isfinite(self.quartiles[2]) else np.inf

    def ahead_of(self, other: Level) -> bool:
        """Whether mean and median are both lower."""
        return self.mean < other.mean and self.quartiles[1] < other.quartiles[1]

    def __str__(self) -> str:
        low, middle, high = map(number, self.quartiles)
        return f"{number(self.mean)}; {middle} ({low}–{high})"


def level(result: RuleResults, metric: str) -> Level:
    """Return the level of a rule; a run that diverged counts as infinite."""
    final = np.where(result.diverged_at >= 0, np.inf, result.final(metric))
    final = final.reshape(len(final), -1)
    with np.errstate(invalid="ignore"):  # between two infinities
        quartiles = np.quantile(final, (0.25, 0.5, 0.75), axis=0)
    quartiles[np.isnan(quartiles)] = np.inf
    best = quartiles[:, np.argmin(quartiles[1])]
    mean = float(result.mean_final(metric).min())
    return Level(mean, (float(best[0]), float(best[1]), float(best[2])))


def comparison_claims(options: Options) -> list[Claim]:
    """Return the claims about GES against GQ, ABQ and GTB on the three problems."""
    claims: list[Claim] = []
    for problem, title, results, error_metric in _comparisons(options):
        place = title, problem
        curves, distribution = (
            f"mountain-car-paper-{kind}" if problem == "MountainCar" else ""
            for kind in ("curves", "distribution")
        )
        compared = {name: results[name] for name in COMPARED}
        for metric, label in _labels(error_metric).items():
            levels = {name: level(result, metric) for name, result in compared.items()}
            ahead = {name: levels["GES"].ahead_of(levels[name]) for name in COMPARED[1:]}
            claims.append(
                _claim(
                    place, label, "GES learns fastest", {n: str(x) for n, x in levels.items()},
                    ahead, curves, number(_ratio(results, metric)),
                )
            )  # fmt: skip
        errors = {name: level(result, error_metric) for name, result in compared.items()}
        ahead = {name: errors["GES"].spread < errors[name].spread for name in COMPARED[1:]}
        spreads = {name: number(own.spread) for name, own in errors.items()}
        claims.append(
            _claim(place, "spread", "GES has the lowest variance", spreads, ahead, curves)
        )
        diverged = {name: int((r.diverged > 0).sum()) for name, r in compared.items()}
        ahead = {name: diverged["GES"] < diverged[name] for name in COMPARED[1:]}
        counts = {name: str(count) for name, count in diverged.items()}
        claims.append(
            _claim(place, "diverged", "GES is the most robust", counts, ahead, distribution)
        )
    return claims


def _claim(
    place: tuple[str, str],
    label: str,
    claim: str,
    values: dict[str, str],
    ahead: dict[str, bool],
    figure: str,
    ratio: str = "",
) -> Claim:
    """Return a claim about GES against three other rules: in part if against some of them.

    ``place`` is the title of the comparison, and its problem for the table.
    """
    beaten = ", ".join(name for name, better in ahead.items() if better) or "none"
    title, problem = place
    return Claim(
        f"{title}: {claim} ({label})",
        ", ".join(f"{name} {value}" for name, value in values.items())
        + f"; GES is ahead of {beaten}",
        verdict(*ahead.values()),
        figure,
        (problem, label, *values.values(), beaten, ratio),
    )


def summary_claims(options: Options) -> list[Claim]:
    """Return the claims about all problems together, and about the paper's own metric."""
    cases = _comparisons(options)
    return [
        _advantage(cases),
        _easy_problems({case.problem: case.results for case in cases}),
        _empirical_mspbe(cases[-1].results),
    ]


def _labels(error_metric: str) -> dict[str, str]:
    """Metrics of a comparison, and their labels."""
    return {
        "mspbe_paper": "empirical MSPBE",
        "mspbe": "own MSPBE",
        "mspbe_common": "MSPBE of GES",
        error_metric: "value error",
    }


def _ratio(results: Comparison, metric: str) -> float:
    """Error of the best other rule of the paper ÷ that of GES, each at its best setting."""
    best = [float(results[name].mean_final(metric).min()) for name in COMPARED]
    return min(best[1:]) / best[0]


class PaperCase(NamedTuple):
    """A comparison as the paper ran it, with the name of its value error."""

    problem: str
    title: str
    results: Comparison
    error_metric: str


def _comparisons(options: Options) -> list[PaperCase]:
    """Return the comparisons as the paper ran them; the last one is MountainCar."""
    cases = []
    for name in ("two-state", "baird"):
        titles = small_titles(name)
        for (figure, title), results in zip(
            titles.items(), comparisons(name, options), strict=True
        ):
            if figure.startswith("paper"):
                cases.append(PaperCase(title, case_title(title, results), results, "error"))
    results = comparisons("mountain-car", options)[0]
    return [*cases, PaperCase("MountainCar", "MountainCar", results, "mse")]


def _advantage(cases: Sequence[PaperCase]) -> Claim:
    """Compare GES with the best other rule, over all problems and metrics."""
    claim = "The advantage of GES is slight on the small problems and large on MountainCar"
    ratios = {
        f"{case.title} ({label})": _ratio(case.results, metric)
        for case in cases
        for metric, label in _labels(case.error_metric).items()
    }
    highest = number(max(ratios.values()))
    return Claim(
        claim,
        "error of the best other rule ÷ that of GES (above 1 is an advantage): " + by_name(ratios),
        verdict(all(ratio > 1 for ratio in ratios.values())),
        cells=(claim, f"The largest ratio above is {highest}; an advantage would be above 1"),
    )


def _easy_problems(cases: dict[str, Comparison]) -> Claim:
    """Compare the settings that never diverged on the small problems and on MountainCar."""
    shares = {
        problem: float(np.mean([results.on_grid(results[name].diverged) == 0 for name in COMPARED]))
        for problem, results in cases.items()
    }
    small = [share for problem, share in shares.items() if problem != "MountainCar"]
    return Claim(
        "The two small problems are easy: many gradient TD algorithms converge on them",
        "Settings of the four rules that diverged in no run: "
        + ", ".join(f"{share:.0%} ({problem})" for problem, share in shares.items()),
        verdict(min(small) > 0.5, min(small) > shares["MountainCar"]),
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
