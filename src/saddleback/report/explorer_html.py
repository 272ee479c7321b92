"""The explorer of the deadly triad: sliders move its three legs, the spectrum and the iterates.

The page holds small exact problems as tables. It computes A, b, M, the eigenvalues, the expected
iteration and a sampled run itself; tests compare them with the library. Weights outside the span of
the features that μ visits never move, so the page works in an orthonormal basis of that span,
which keeps the non-zero eigenvalues, the errors and the norms.
"""

from __future__ import annotations

from typing import Any

from saddleback.problem import Problem
from saddleback.problems import baird, random_mdp, random_walk, two_state
from saddleback.report.explorer_charts import charts
from saddleback.report.page import page
from saddleback.report.theme import CONFIG
from saddleback.rules import make_with

THETA0 = 1.0
"""Initial value of all weights."""


def problems() -> dict[str, tuple[str, str, Problem, tuple[int, int]]]:
    """Problems by name: title, description, problem, and the two weights that are drawn."""
    return {
        "two_state": (
            "Two states",
            "Two states, two actions. π always goes right, μ tosses a coin, and the features "
            "double on the right: the smallest problem on which Expected Sarsa diverges.",
            two_state(rewards=[[1.0, -1.0], [0.5, 2.0]]), (0, 1),
        ),
        "baird": (
            "Baird's star, classic",
            "Seven states, eight features of state values. μ visits all states equally, π goes "
            "straight to the seventh. There are no rewards, so all values are 0.",
            baird(features="classic"), (0, 7),
        ),
        "baird_paper": (
            "Baird's star, as printed in the paper",
            "State-action features of rank 14 for 14 pairs: equivalent to a table, so nothing "
            "diverges for small step sizes, off-policy or not.",
            baird(), (0, 15),
        ),
        "random_walk": (
            "Random walk, off-policy",
            "A corridor of five states with three features. π mostly goes right, μ tosses a coin. "
            "Episodes end; the spectrum is complex but stays left of the axis.",
            random_walk(features="dependent", target_right=0.9), (0, 2),
        ),
        "random_mdp": (
            "Random MDP",
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
    """Return the data of a rule: the coefficients of its form, and its trace."""
    rule = make_with(name, 0.5)
    return {
        "name": name,
        "title": TITLES.get(name, name),
        "values": rule.values,
        "trace": type(rule.trace).__name__,
        "traced": name != "GTD",
        "emphatic": rule.emphasis is not None,
        "form": rule.form.coefficients._asdict(),
    }


def problem_table(problem: Problem) -> dict[str, Any]:
    """Return a problem as tables over pairs (s, a), states, and rows of features."""
    mdp = problem.mdp
    pairs = mdp.n_states * mdp.n_actions
    tables = {
        "P": mdp.P.reshape(pairs, -1),
        "ends": mdp.ends.reshape(pairs, -1),
        "rewards": mdp.rewards.reshape(pairs, -1),
        "r": mdp.R.ravel(),
        "start": mdp.start,
        "acting": mdp.acting,
        "pi": problem.target.ravel(),
        "mu": problem.behaviour.ravel(),
        "features": problem.Phi,
    }
    return {name: table.tolist() for name, table in tables.items()} | {
        "actions": mdp.n_actions, "episodic": mdp.episodic, "values": problem.values,
        "theta0": THETA0,
    }  # fmt: skip


def explorer_page() -> str:
    """Return the page.

    Examples
    --------
    >>> text = explorer_page()
    >>> len(text) < 4e6, "Expected Sarsa" in text
    (True, True)
    """
    shown = problems()
    data = {
        "config": CONFIG,
        "problems": {
            name: problem_table(problem) | {"title": title, "text": text, "shown": weights}
            for name, (title, text, problem, weights) in shown.items()
        },
        "rules": {name: rule_table(name) for name in RULES},
        "charts": charts(),
        "tour": TOUR,
    }
    return page(
        "explorer.html",
        ("algebra.js", "linear_system.js", "sampled_run.js", "explorer_text.js", "explorer.js"),
        data, title="Deadly-triad explorer", kind="explorer", sections=(),
        problems={name: title for name, (title, *_) in shown.items()}, tour=TOUR, sliders=SLIDERS,
    )  # fmt: skip


SLIDERS = (
    ("gamma", "γ", "bootstrapping", 0, 0.999, 0.001),
    ("x", "x", "off-policy data", 0, 1, 0.01),
    ("y", "y", "shared features", 0, 1, 0.01),
    ("lam", "λ", "trace (ζ of ABQ)", 0, 1, 0.001),
    ("alpha", "α", "step size of θ", -4, 1, 0.01),
    ("beta", "β", "step size of ω", -4, 1, 0.01),
)
"""Name, symbol, meaning, range and step; α and β are logarithms."""

TWO_STATE = {
    "problem": "two_state", "one": "ExpectedSarsa", "two": "GES", "gamma": 0.99, "lam": 0.5,
    "x": 1, "y": 1, "alpha": 0.2, "beta": 0.2, "steps": 1000,
}  # fmt: skip

TOUR: tuple[dict[str, Any], ...] = (
    {
        "title": "1. Stable",
        "text": "Little bootstrapping: γ is small, and every eigenvalue of A is left of the axis. "
        "Expected Sarsa(λ) converges, and so does GES(λ).",
        "set": TWO_STATE | {"gamma": 0.8},
    },
    {
        "title": "2. Expected Sarsa diverges",
        "text": "Above γ = 5/(6 − λ), here 0.909, one eigenvalue is right of the axis: no step "
        "size makes Expected Sarsa(λ) converge. GES(λ), with the same trace and step sizes, does.",
        "set": TWO_STATE,
    },
    {
        "title": "3. Less off-policy",
        "text": "The same γ, but μ is close to π: the eigenvalue is left of the axis again. It "
        "crosses near x = 0.15.",
        "set": TWO_STATE | {"x": 0.1},
    },
    {
        "title": "4. Closer to tabular",
        "text": "The same γ and μ, but the features are closer to a table, in which states share "
        "nothing: Expected Sarsa(λ) converges, slowly. The eigenvalue crosses near y = 0.52.",
        "set": TWO_STATE | {"y": 0.4, "steps": 10000},
    },
    {
        "title": "5. GES with too large a step",
        "text": "GES(λ) needs small step sizes. With these, its update has an eigenvalue outside "
        "the unit circle, and it diverges too. Decrease α and β, and it converges.",
        "set": TWO_STATE | {"alpha": 0.6, "beta": 0.6},
    },
    {
        "title": "6. Baird's star",
        "text": "The same for state values: a pair of eigenvalues crosses the axis near γ = 0.88. "
        "TD(0) diverges; TDC(0) converges slowly. Increase λ to move the pair back.",
        "set": TWO_STATE | {"problem": "baird", "one": "TD", "two": "TDC", "gamma": 0.95,
                            "lam": 0.0, "alpha": 0.5, "beta": 1.0, "steps": 10000},
    },
)  # fmt: skip
"""Settings of a tour of about a minute."""
