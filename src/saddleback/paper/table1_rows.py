"""The rows of Table 1: algorithms, their step sizes, and what the paper claims of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from saddleback.problem import Problem
from saddleback.problems import random_mdp
from saddleback.rules import GES, GTB, GTD, GTD2, TD, TDC, Rule, Sarsa


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open, and what we chose."""

    gamma: float = 0.9
    problem: int = 0
    """Seed of the random problem."""
    lam: float = 0.3
    steps: int = 300_000
    runs: int = 20
    scales: tuple[float, ...] = tuple(2.0**j for j in range(-7, 4))
    """Scales c of the steps; the best of them counts."""
    offsets: tuple[float, ...] = (0.0, 100.0, 10_000.0)
    """t₀ in c (t₀ + t)^−η. The table prints 0, with which the first steps are by far the largest,
    and a c that they can bear is too small later. The fair version takes the best of these; its
    scales are those of the first step, c t₀^−η."""


@dataclass(frozen=True)
class Row:
    """A row of the table: α_t = c (t₀ + t)^−slow, β_t = c (t₀ + t)^−fast."""

    name: str
    rule: Rule
    steps: str
    claimed: str
    slow: float
    fast: float
    printed: str
    blocks: bool = False

    def offsets(self, c: Choices) -> tuple[float, ...]:
        """What t₀ may be; steps that do not decay with t have none."""
        return c.offsets if self.slow and not self.blocks else (0.0,)


def rows(lam: float) -> list[Row]:
    """The table, with an exponent wherever a range is printed."""
    return [
        Row("TD(0), Korda", TD(0.0), "t^-½", "T^-½", 0.5, 0.5, "0, P^μ"),
        Row("TD(0), Dalal", TD(0.0), "t^-¾", "T^-¾", 0.75, 0.75, "0, P^μ"),
        Row("TD(0), Lakshm.", TD(0.0), "constant", "T^-1", 0.0, 0.0, "0, P^μ"),
        Row("GTD(0), Dalal", GTD(), "t^-½, t^-¾", "T^-⅓", 0.5, 0.75, "0, P^π"),
        Row("GTD(0), Dalal 2", GTD(), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("GTD2, Dalal 2", GTD2(0.0), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("TDC, Dalal 2", TDC(0.0), "t^-.9, t^-.6", "T^-.9", 0.9, 0.6, "0, P^π"),
        Row("GTB(λ)", GTB(lam), "1/t, 1/t", "T^-1", 1.0, 1.0, "λ, P^μ"),
        Row("Sarsa", Sarsa(0.0), "1/t", "log³T/T", 1.0, 1.0, "0, P^μ"),
        Row("TDC, Xu", TDC(0.0), "blocks", "linear", 0.0, 0.0, "0, P^π", blocks=True),
        Row("TDC, Kaledin", TDC(0.0), "t^-½, 1/t", "T^-1", 0.5, 1.0, "0, P^π"),
        Row("GES(λ)", GES(lam), "constant", "linear", 0.0, 0.0, "λ, P^π"),
    ]


def problem_of(row: Row, c: Choices) -> Problem:
    """The same random dynamics for every row; on-policy where the row evaluates μ."""
    own = row.printed == "0, P^μ"
    values: Any = row.rule.values
    return random_mdp(c.gamma, rng=c.problem, values=values, off_policy=0.0 if own else 0.5)
