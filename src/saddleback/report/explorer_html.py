"""The explorer of the deadly triad: sliders move the spectrum of A, and the iterates with it.

The page holds the small exact problems as tables, and computes A, b, M, the eigenvalues and the
mean iteration itself; the library's own numbers are what it is tested against. Features that
depend on each other are first reduced to an orthonormal basis of what they span: weights outside it
never move, and what is left has the same non-zero eigenvalues, errors and norms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.problem import Problem
from saddleback.problems import baird, random_mdp, random_walk, two_state
from saddleback.report.explorer_charts import charts
from saddleback.report.page import page
from saddleback.report.theme import CONFIG
from saddleback.rules import NAMED, Rule

THETA0 = 1.0
"""First weights, all of them."""


def problems() -> dict[str, tuple[str, str, Problem, tuple[int, int]]]:
    """Problems by name: their title, a sentence on each, and which two weights are drawn."""
    return {
        "two_state": (
            "Two states",
            "Two states and two actions. π always goes right, μ tosses a coin, and the features "
            "double on the right: the smallest problem on which Expected Sarsa diverges.",
            two_state(rewards=[[1.0, -1.0], [0.5, 2.0]]), (0, 1),
        ),
        "baird": (
            "Baird's star, classic",
            "Seven states, eight features of state values. μ visits all states alike, π goes to "
            "the seventh at once. Without reward, so all values are 0.",
            baird(features="classic"), (0, 7),
        ),
        "baird_paper": (
            "Baird's star, as printed in the paper",
            "State-action features of rank 14 for 14 pairs: a table in disguise, so nothing "
            "diverges for small steps, off-policy or not.",
            baird(), (0, 15),
        ),
        "random_walk": (
            "Random walk, off-policy",
            "A corridor of five states with three features. π mostly goes right, μ tosses a coin. "
            "Episodes end, and the spectrum is complex but stays left.",
            random_walk(features="dependent", target_right=0.9), (0, 2),
        ),
        "random_mdp": (
            "A random problem",
            "Six states, three actions and four features, drawn at random with seed 1.",
            random_mdp(rng=1), (0, 1),
        ),
    }  # fmt: skip


RULES = (
    "ExpectedSarsa", "GES", "GQ", "GTB", "GRetrace", "ABQ", "TD", "GTD2", "TDC", "TDRC", "ETD",
    "GTD",
)  # fmt: skip
"""Rules on the page, those for action values first."""

TITLES = {"ExpectedSarsa": "Expected Sarsa"}


def rule_table(name: str) -> dict[str, Any]:
    """Return what the page must know of a rule: the coefficients of its form, and its trace."""
    made: Rule = NAMED[name]() if name == "GTD" else NAMED[name](0.5)
    return {
        "name": name,
        "title": TITLES.get(name, name),
        "values": made.values,
        "trace": type(made.trace).__name__,
        "traced": name != "GTD",
        "emphatic": made.emphasis is not None,
        "form": made.form.coefficients._asdict(),
    }


def problem_table(problem: Problem) -> dict[str, Any]:
    """Return a problem as tables over the states that μ visits, with features of full rank."""
    mdp, some = problem.mdp, problem.visits > 0
    actions = mdp.n_actions
    basis = span(problem)
    phi = problem.features if problem.values == "action" else problem.features[:, None, :]
    rows = (np.broadcast_to(phi, (mdp.n_states, actions, problem.p)) @ basis)[some]
    M = basis.T @ (problem.Phi.T * problem.weights) @ problem.Phi @ basis
    first = np.full(problem.p, THETA0)
    tables = {
        "staying": mdp.staying[some][:, :, some].reshape(-1, int(some.sum())),
        "pi": problem.target[some].ravel(),
        "mu": problem.behaviour[some].ravel(),
        "r": mdp.R[some].ravel(),
        "visits": problem.pair_visits[some].ravel(),
        "phi": rows.reshape(-1, rows.shape[-1]),
        "M": M,
        "inverse": np.linalg.inv(M),
        "basis": basis,
        "theta0": first @ basis,
        "outside": first - basis @ (first @ basis),
    }
    return {name: each.tolist() for name, each in tables.items()} | {"actions": actions}


def span(problem: Problem) -> FloatArray:
    """Orthonormal basis of what the features span where μ goes, [p, rank]; I if that is all."""
    seen = problem.Phi[problem.weights > 0]
    _, sizes, Vt = np.linalg.svd(seen)
    rank = int((sizes > 1e-10 * sizes[0]).sum())
    return np.eye(problem.p) if rank == problem.p else np.asarray(Vt[:rank].T)


def explorer_page() -> str:
    """Return the page.

    Examples
    --------
    >>> text = explorer_page()
    >>> len(text) < 4e6, "Expected Sarsa" in text
    (True, True)
    """
    found = problems()
    data = {
        "config": CONFIG,
        "problems": {
            name: problem_table(each) | {"title": title, "words": words, "values": each.values,
                                         "shown": shown}
            for name, (title, words, each, shown) in found.items()
        },
        "rules": {name: rule_table(name) for name in RULES},
        "charts": charts(),
        "tour": TOUR,
    }  # fmt: skip
    return page(
        "explorer.html",
        ("algebra.js", "linear_system.js", "explorer_text.js", "explorer.js"), data,
        title="The deadly triad, moved by hand", kind="explorer", sections=(),
        problems={name: title for name, (title, *_) in found.items()}, tour=TOUR,
    )  # fmt: skip


TOUR: tuple[dict[str, Any], ...] = (
    {
        "title": "1. Stable",
        "words": "γ is small: every eigenvalue of A is left of the axis. Off-line Expected "
        "Sarsa(λ) converges, and so does GES(λ).",
        "set": {"problem": "two_state", "one": "ExpectedSarsa", "two": "GES", "gamma": 0.8,
                "lam": 0.5, "alpha": 0.2, "beta": 0.2, "steps": 1000},
    },
    {
        "title": "2. Expected Sarsa diverges",
        "words": "Beyond γ = 5/(6 − λ), here 0.909, one eigenvalue is right of the axis. Move α as "
        "you like: no step size helps Expected Sarsa(λ). GES(λ), with the same trace and the same "
        "steps, still converges.",
        "set": {"problem": "two_state", "one": "ExpectedSarsa", "two": "GES", "gamma": 0.99,
                "lam": 0.5, "alpha": 0.2, "beta": 0.2, "steps": 1000},
    },
    {
        "title": "3. GES with too large a step",
        "words": "GES(λ) is safe for small steps only. With these its update has an eigenvalue "
        "outside the unit circle: it diverges too. Move α and β back, and it converges.",
        "set": {"problem": "two_state", "one": "ExpectedSarsa", "two": "GES", "gamma": 0.99,
                "lam": 0.5, "alpha": 0.6, "beta": 0.6, "steps": 1000},
    },
    {
        "title": "4. Baird's star",
        "words": "The same on state values: a pair of eigenvalues crosses the axis near γ = 0.88. "
        "TD(0) runs away, TDC(0) comes in, slowly. Move λ up to bring the pair back.",
        "set": {"problem": "baird", "one": "TD", "two": "TDC", "gamma": 0.95, "lam": 0.0,
                "alpha": 0.5, "beta": 1.0, "steps": 10000},
    },
)  # fmt: skip
"""What a teacher shows in a minute."""
