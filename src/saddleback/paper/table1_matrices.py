"""The fixed-point matrices of Table 1, as printed and as true."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.table import Table

from saddleback._typing import FloatArray
from saddleback.paper.table1_rows import Choices, Row, problem_of, rows
from saddleback.problem import Problem
from saddleback.problems import two_state
from saddleback.system import System


def small_problem(row: Row, c: Choices) -> Problem:
    """The two-state problem with two features, on which a matrix can be read; its states alike."""
    given = two_state(c.gamma)
    features = given.features if row.rule.values == "action" else np.eye(2)
    target = given.behaviour if row.printed == "0, P^μ" else given.target
    return Problem(given.mdp, features, target=target, behaviour=given.behaviour)


def printed_matrix(row: Row, problem: Problem, c: Choices) -> FloatArray:
    """ΦᵀΞ(I − γλP)⁻¹(γP^b − I)Φ with the kernels that the table prints."""
    mdp = problem.mdp
    trace, kernel = row.printed.split(", ")
    lam = c.lam if trace == "λ" else 0.0

    def on_rows(policy: FloatArray) -> FloatArray:
        if problem.values == "state":
            return np.asarray(np.einsum("sa,sat->st", policy, mdp.P))
        return np.asarray(
            np.einsum("sat,tb->satb", mdp.P, policy).reshape(len(problem.Phi), len(problem.Phi))
        )

    pi, mu = on_rows(problem.target), on_rows(problem.behaviour)
    unit, Phi = np.eye(len(problem.Phi)), problem.Phi
    bootstrap = mu if trace == "0" and kernel == "P^μ" else pi
    inner = np.linalg.solve(
        unit - mdp.gamma * lam * (mu if kernel == "P^μ" else pi),
        (mdp.gamma * bootstrap - unit) @ Phi,
    )
    return np.asarray((Phi.T * problem.weights) @ inner)


def printed_holds(row: Row, c: Choices) -> bool:
    """Whether the matrix as printed is that of the rule, on the random problem and the small."""
    return all(
        np.allclose(printed_matrix(row, problem, c), System.exact(problem, row.rule).A)
        for problem in (problem_of(row, c), small_problem(row, c))
    )


def matrices(c: Choices) -> list[tuple[str, str, str, str]]:
    """For each algorithm the formula as printed, and both matrices on the small problem."""
    found = {}
    for row in rows(c.lam):
        trace, kernel = row.printed.split(", ")
        resolvent = f"(I−γλ{kernel})⁻¹" if trace == "λ" else ""
        bootstrap = "P^π" if trace == "λ" else kernel
        problem = small_problem(row, c)
        found[row.name.split(",")[0]] = (
            f"ΦᵀΞ{resolvent}(γ{bootstrap}−I)Φ",
            written(printed_matrix(row, problem, c)),
            written(System.exact(problem, row.rule).A),
        )
    return [(name, *each) for name, each in found.items()]


def written(matrix: FloatArray) -> str:
    """Write a small matrix, a row in each line.

    Examples
    --------
    >>> print(written(np.array([[-0.25, 0.0], [1.0, -1.25]])))
    -0.250  0.000
     1.000 -1.250
    """
    return "\n".join(" ".join(f"{x + 0.0:6.3f}" for x in np.round(line, 3)) for line in matrix)


def tabulate(c: Choices) -> Table:
    """Show the matrices."""
    table = Table(
        title=f"Fixed-point matrices, two-state problem, γ = {c.gamma:g}, λ = {c.lam:g}",
        box=box.SIMPLE, title_justify="left",
    )  # fmt: skip
    for heading in ("algorithm", "A as printed", "its value", "A, true"):
        table.add_column(heading, no_wrap=True)
    for line in matrices(c):
        table.add_row(*line)
    table.caption = (
        "Action values with the problem's features, state values with a "
        "feature for each state; π = μ where the row evaluates μ."
    )
    return table
