"""The problems and rules of the explorer, built with the library."""

from __future__ import annotations

import numpy as np

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


def interpolated(problem, off_policy=1.0, shared=1.0):
    """Return a problem between on-policy and off-policy, and between tabular and its features.

    With x = ``off_policy`` and y = ``shared`` in [0, 1],

        μ_x = (1 − x) π + x μ        Φ_y = (1 − y) [I 0] + y [Φ 0].

    I has a column for each row of Φ in whose state actions are taken (a one-hot encoding), and the
    narrower of the two matrices is padded with columns of zeros. x = y = 1 is the problem itself.

    Examples
    --------
    >>> problem = problems.two_state()
    >>> interpolated(problem, off_policy=0.0).on_policy
    True
    >>> interpolated(problem, shared=0.0).features.reshape(4, 4)
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """
    behaviour = (1 - off_policy) * problem.target + off_policy * problem.behaviour
    if shared == 1.0:
        return sb.Problem(problem.mdp, problem.features, problem.target, behaviour)
    per_state = 1 if problem.values == "state" else problem.mdp.n_actions
    tabular = np.eye(len(problem.Phi))[:, np.repeat(problem.mdp.acting, per_state)]
    columns = max(tabular.shape[1], problem.p)
    one_hot, own = (
        np.pad(matrix, ((0, 0), (0, columns - matrix.shape[1])))
        for matrix in (tabular, problem.Phi)
    )
    features = ((1 - shared) * one_hot + shared * own).reshape(
        *problem.features.shape[:-1], columns
    )
    return sb.Problem(problem.mdp, features, problem.target, behaviour)


def named_rule(rule, lam):
    return sb.GTD() if rule == "GTD" else sb.rules.NAMED[rule](lam)


def applicable_rules(problem):
    kind = MAKE[problem](0.5).values
    return [
        name for name in explorer_html.RULES if explorer_html.rule_table(name)["values"] == kind
    ]
