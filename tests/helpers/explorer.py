"""The problems and rules of the explorer, built with the library."""

from __future__ import annotations

import saddleback as sb
from saddleback import problems
from saddleback.report import explorer_html

MAKE = {
    "two_state": lambda g: problems.two_state(g, rewards=[[1.0, -1.0], [0.5, 2.0]]),
    "baird": lambda g: problems.baird(g, features="classic"),
    "baird_paper": problems.baird,
    "random_walk": lambda g: problems.random_walk(g, features="dependent", target_right=0.9),
    "random_mdp": lambda g: problems.random_mdp(g, rng=1),
}


def named_rule(rule, lam):
    return sb.GTD() if rule == "GTD" else sb.rules.NAMED[rule](lam)


def applicable_rules(problem):
    kind = MAKE[problem](0.5).values
    return [
        name for name in explorer_html.RULES if explorer_html.rule_table(name)["values"] == kind
    ]
