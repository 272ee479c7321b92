"""Every claim of the paper beside what we measured, as a page.

Verdicts follow from the numbers by the rules stated in this file, and the numbers come from the
stores of the other experiments, or are computed exactly on the spot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table

from saddleback._typing import FloatArray
from saddleback.learning import iterate
from saddleback.mdp import FiniteMDP
from saddleback.paper import (
    Options,
    baird,
    mountain_car,
    small,
    stability,
    step_size,
    table1,
    two_state,
)
from saddleback.paper.comparison import Results
from saddleback.problem import Problem
from saddleback.problems import baird as baird_problem
from saddleback.problems import random_mdp
from saddleback.problems import two_state as two_state_problem
from saddleback.rules import GES, ExpectedSarsa
from saddleback.sweep import Store
from saddleback.sweep.store import write_whole
from saddleback.system import System
from saddleback.theory import MeanStability, mean_square, projected_descent, theorem2

REWARDS = ((1.0, -1.0), (0.5, 2.0))
FOUR = ("GES", "GQ", "ABQ", "GTB")
"""The rules that the paper compares."""

PRINTED_PROOF_HOLDS = False
"""Of Theorems 3 and 4: the first has no valid proof, and the second needs conditions that Algorithm
1 does not meet (docs/theory.md). So at best they are reproduced in part."""

YES, PART, NO = "reproduced", "reproduced in part", "not reproduced"


@dataclass(frozen=True)
class Claim:
    """One claim, what we found, and the verdict."""

    claim: str
    found: str
    verdict: str
    figure: str = ""


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Collect the claims, write the page."""
    claims = [claim for section in SECTIONS for claim in section(options)]
    path = options.out / "reproduction.md"
    write_whole(path, page(claims).encode())
    table = Table(title="The paper's claims", box=box.SIMPLE, title_justify="left")
    table.add_column("claim")
    table.add_column("verdict", no_wrap=True)
    for claim in claims:
        table.add_row(claim.claim, claim.verdict)
    return [table], [path]


def page(claims: list[Claim]) -> str:
    """Lay the claims out in Markdown."""
    counts = {verdict: sum(c.verdict == verdict for c in claims) for verdict in (YES, PART, NO)}
    lines = [
        "# What reproduces, and what does not",
        "",
        "Written by `saddleback paper all` from its results; do not edit. Each claim of *On",
        "Convergence of Gradient Expected Sarsa(λ)* stands beside our measurement. The choices",
        "that fill gaps in the protocol are in the recipes, `src/saddleback/paper/`; the",
        "statements of the theory are treated one by one in [theory.md](theory.md).",
        "",
        f"Of {len(claims)} claims {counts[YES]} are reproduced, {counts[PART]} in part and "
        f"{counts[NO]} not.",
        "",
        "| | claim | what we found | verdict |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| {n} | {c.claim} | {c.found} | **{c.verdict}** |" for n, c in enumerate(claims, 1)]
    shown = list(dict.fromkeys(c.figure for c in claims if c.figure))
    lines += ["", "## Figures", ""]
    for figure in shown:
        numbers = ", ".join(str(n) for n, c in enumerate(claims, 1) if c.figure == figure)
        lines += [f"Claims {numbers}:", "", f"![{figure}](figures/{figure}.png)", ""]
    return "\n".join(lines)


def _verdict(*holds: bool) -> str:
    """All, some or none."""
    return YES if all(holds) else PART if any(holds) else NO


def exact_claims(options: Options) -> list[Claim]:
    """Claims about matrices, which need no sampling."""
    unstable = System.exact(two_state_problem(0.999), ExpectedSarsa(0.0))
    run = iterate(unstable, alpha=0.1, steps=2000, theta0=1.0)
    found = [
        Claim(
            "Off-line Expected Sarsa(λ) can be unstable",
            f"two-state, γ = .999, λ = 0: largest real part {unstable.spectrum[0].real:.4f}; "
            f"iterates {run.outcome}",
            _verdict(not unstable.stable, not bool(run.ok)),
            "stability",
        )
    ]
    gamma, lam = 0.9, 0.4
    A = System.exact(two_state_problem(gamma), ExpectedSarsa(lam)).A
    printed = np.array(
        [[(6 * gamma - gamma * lam - 5) / (2 * (1 - gamma * lam)), 0], [1.5 * gamma, -2.5]]
    )
    threshold = max(abs(stability.boundary(v) - 5 / (6 - v)) for v in (0.0, 0.5))
    found.append(
        Claim(
            "Example 1: the matrix A, unstable for γ > 5/(6−λ)",
            f"threshold holds to {threshold:.0e}; the printed A is off by up to "
            f"{np.abs(printed - A).max():.2f} at γ = .9, λ = .4, and its eigenvalue 5/2 is −5/4",
            _verdict(threshold < 1e-6, bool(np.allclose(printed, A))),
            "stability",
        )
    )
    singular = System.exact(baird_problem(0.9, np.ones((7, 2))), ExpectedSarsa(0.0))
    ended = iterate(singular, alpha=1.0, steps=20_000)
    residual = float(np.abs(singular.residual(ended.theta)).max())
    found.append(
        Claim(
            "Theorem 1: stable if and only if Spec(A) ⊂ C₋",
            "holds for regular A, with another step size than printed; on Baird's star A is "
            f"singular (rank {singular.rank} of {singular.p}) and the update still converges "
            f"(residual {residual:.0e})",
            _verdict(not unstable.stable, residual > 1e-6),
        )
    )
    problem = two_state_problem(gamma)
    P = np.einsum("sat,tb->satb", problem.mdp.P, problem.target).reshape(4, 4)
    left, right = problem.Phi.T * problem.weights, (gamma * P - np.eye(4)) @ problem.Phi
    powers = [left @ np.linalg.matrix_power(gamma * lam * P, k) @ right for k in range(21)]
    gaps = [float(np.abs(np.sum(powers[: t + 1], axis=0) - A).max()) for t in (0, 20)]
    found.append(
        Claim(
            "The estimators Â_t, b̂_t, M̂_t are unbiased",
            f"E[Â_t] misses A by {gaps[0]:.2g} at t = 0 and {gaps[1]:.0e} at t = 20: unbiased in "
            "the limit, and not given θ_t, ω_t",
            _verdict(gaps[0] < 1e-9, gaps[1] < 1e-6),
        )
    )
    system = System.exact(random_mdp(0.9, rng=0), GES(0.3))
    theta = np.random.default_rng(options.seed).normal(size=(100, system.p))
    off = np.abs(system.saddle(theta, system.best_dual(theta)) - system.mspbe(theta)).max()
    found.append(
        Claim(
            "The MSPBE is the maximum of Ψ over ω; its minimiser is the saddle point",
            f"largest difference over 100 random θ: {off:.0e}",
            _verdict(bool(off < 1e-9)),
        )
    )
    return found


def rate_claims(options: Options) -> list[Claim]:
    """Theorems 2, 3 and 4."""
    problem, rule = two_state_problem(0.5, REWARDS), GES(0.4)
    bound = theorem2(System.exact(problem, rule))
    only = np.ones((1, 1))
    simplest = Problem(FiniteMDP([[only[0]]], only, gamma=0.9), only[None], only, only)
    worst = _worst_factors(System.exact(simplest, rule))
    sampled = mean_square(problem, rule, alpha=bound.alpha, beta=bound.beta)
    silent = mean_square(two_state_problem(0.5), rule, alpha=0.02, beta=0.02)
    early, late = silent.curve([400, 800], theta0=1.0)
    floors = [mean_square(problem, rule, alpha=a, beta=a).floor for a in (0.04, 0.02, 0.01)]
    gap = projected_descent(
        problem, GES(0.0), theta_radius=2.0, omega_radius=2.0, steps=100_000, runs=50,
        rng=options.seed, record=[10_000, 30_000],
    )  # fmt: skip
    slope = float(np.polyfit(np.log(gap.steps), np.log(gap.gap.mean(axis=1)), 1)[0])
    high = np.quantile(gap.gap, 0.95, axis=1)
    return [
        Claim(
            "Theorem 2: a linear rate, deterministic iteration",
            f"one state, one action, γ = .9, worst of 1000 starts: with norms D shrinks to "
            f"{worst[0]:.4f} a step, promised {worst[2]:.4f}; with squares, as printed, only to "
            f"{worst[1]:.4f}",
            _verdict(worst[0] <= worst[2], worst[1] <= worst[2]),
            "theory",
        ),
        Claim(
            "Theorem 2: a linear rate of Algorithm 1 with its step sizes, non-zero reward",
            f"the second moments grow by {sampled.radius:.2f} a step: they diverge",
            _verdict(sampled.stable),
        ),
        Claim(
            "A linear rate of Algorithm 1 with small constant steps, zero reward",
            f"E‖θ−θ*‖² falls from {early:.1e} at 400 steps to {late:.1e} at 800: linear, exactly "
            "because there is no noise at θ*",
            _verdict(bool(late < 1e-3 * early)),
        ),
        Claim(
            "A linear rate of Algorithm 1 with constant steps, non-zero reward",
            f"it ends at a floor: {floors[0]:.4f}, {floors[1]:.4f}, {floors[2]:.4f} at α = β = "
            ".04, .02, .01",
            _verdict(max(floors) < 1e-9),
            "theory",
        ),
        Claim(
            "Theorem 3: a geometric part and a floor proportional to α",
            f"floors halve with α (ratios {floors[0] / floors[1]:.2f}, {floors[1] / floors[2]:.2f})"
            "; the printed proof does not hold, so its constants bound nothing",
            _verdict(abs(floors[1] / floors[2] - 2) < 0.2, PRINTED_PROOF_HOLDS),
            "theory",
        ),
        Claim(
            "Theorem 4: the primal-dual gap falls like C√(5/T) in the mean",
            f"slope {slope:.2f} on log axes, {gap.gap[-1].mean():.3f} against a bound of "
            f"{gap.bound[-1]:.2f}; with projection, averages and independent samples, which "
            "Algorithm 1 does not have, and C with its root",
            _verdict(bool(gap.gap[-1].mean() <= gap.bound[-1]), PRINTED_PROOF_HOLDS),
            "theory",
        ),
        Claim(
            "Theorem 4: and with high probability",
            f"95 % of 50 runs are below {high[-1]:.3f}, the bound is "
            f"{gap.high_probability_bound(0.05)[-1]:.1f}; under the same conditions",
            _verdict(bool(high[-1] <= gap.high_probability_bound(0.05)[-1]), PRINTED_PROOF_HOLDS),
            "theory",
        ),
    ]


def _worst_factors(system: System) -> tuple[float, float, float]:
    """Largest D_1/D_0 over random starts with norms, and with squares; and what is promised."""
    bound, p = theorem2(system), system.p
    step = MeanStability(system).mean_map(bound.alpha, bound.beta)
    z = np.random.default_rng(0).normal(size=(1000, 2 * p))
    z[:, p:] *= bound.nu

    def distances(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = np.linalg.norm(z[:, :p], axis=1)
        y = np.linalg.norm(z[:, p:] - system.best_dual(system.fixed_point + z[:, :p]), axis=1)
        return bound.nu * x + y, bound.nu * x**2 + y**2

    before, after = distances(z), distances(z @ step.T)
    norms, squares = (float((new / old).max()) for new, old in zip(after, before, strict=True))
    return norms, squares, bound.contraction


def table_claims(options: Options) -> list[Claim]:
    """Each row of Table 1, from its store."""
    store = Store.load(options.out / "table1")
    c = table1.chosen(options)
    claims = []
    for n, row in enumerate(table1.rows(c.lam)):
        slope, final = table1.best_slope(store.shard(f"row{n:02d}").to_pydict())
        exponent = {"linear": np.inf, "log³T/T": 1.0, "T^-1": 1.0, "T^-½": 0.5, "T^-¾": 0.75}
        claimed = exponent.get(row.claimed, 1 / 3 if "⅓" in row.claimed else 0.9)
        matrix = table1.printed_holds(row, c)
        claims.append(
            Claim(
                f"Table 1, {row.name} with steps {row.steps}: {row.claimed}",
                f"measured T^{slope:.2f} (error {final:.1e} at T = {c.steps:,}, best of scales up "
                f"to {max(c.scales):g}, no offset in t); the fixed-point matrix as printed is "
                f"{'right' if matrix else 'wrong'}",
                _verdict(-slope >= 0.9 * claimed, matrix),
            )
        )
    return claims


def schedule_claims(options: Options) -> list[Claim]:
    """Constant steps against c/√t."""
    store = Store.load(options.out / "step-size")
    cases = step_size.plan(step_size.chosen(options), options.seed)
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
                _verdict(own < 0.5 * other, wide < 0.5 * fair),
                "step-size",
            )
        )
    return claims


def comparison_claims(options: Options) -> list[Claim]:
    """GES against GQ, ABQ and GTB on the three domains, as the paper ran them."""
    cases: dict[str, tuple[Results, str]] = {}
    for name, recipe in (("two-state", two_state), ("baird", baird)):
        c = small.chosen(recipe.COMPARISON, options)
        store = Store.load(options.out / name)
        for title, case in small.plan(name, recipe.make, c, options).items():
            if case.name.startswith("paper"):
                cases[title] = (case.results(store), "error")
    plans = mountain_car.plan(mountain_car.chosen(options), options)
    store = Store.load(options.out / "mountain-car")
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
                    f"best of 121 settings, mean over runs: {_listed(best)}; median over runs: "
                    f"{_listed(middle)}",
                    _verdict(
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
                + _listed(spread),
                _verdict(spread["GES"] <= min(spread.values())),
                figure,
            )
        )
        gone = {name: int((results.diverged(k) > 0).sum()) for name, k in index.items()}
        claims.append(
            Claim(
                f"{title}: GES is the most robust to step sizes",
                "settings of 121 that diverged in some run: "
                + ", ".join(f"{name} {count}" for name, count in gone.items()),
                _verdict(gone["GES"] <= min(gone.values())),
                "mountain-car-paper-distribution" if title == "MountainCar" else "",
            )
        )
    claims.append(
        Claim(
            "The advantage of GES is slight on the small problems and large on MountainCar",
            "error of the best other rule over that of GES (above 1 is an advantage): "
            + _listed(lead),
            _verdict(all(value > 1 for value in lead.values())),
        )
    )
    own, theirs = (cases["MountainCar"][0].rule(0, name) for name in ("mspbe", "mspbe_paper"))
    claims.append(
        Claim(
            "The empirical MSPBE, with Â from 5000 episodes, measures the MSPBE",
            f"of GES on MountainCar at θ = 0: {theirs[0, 0, 0, 0]:.3g} by that Â, "
            f"{own[0, 0, 0, 0]:.3g} by an A from rollouts of π",
            _verdict(bool(0.5 < theirs[0, 0, 0, 0] / own[0, 0, 0, 0] < 2.0)),
        )
    )
    return claims


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2g}" for name, value in values.items())


SECTIONS: tuple[Callable[[Options], list[Claim]], ...] = (
    exact_claims, rate_claims, table_claims, schedule_claims, comparison_claims,
)  # fmt: skip
