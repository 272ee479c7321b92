"""A store of results as a sweep leaves it: made-up curves of three rules on two problems."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

EVIL = "<img src=x onerror='window.hacked=1'>(0.5)"
RULES = ("GES(0)", "GES(0.9)", EVIL)
LAMBDAS = dict(zip(RULES, (0.0, 0.9, 0.5), strict=True))
ALPHAS, RATIOS, POINTS, RUNS = (0.01, 0.1, 0.4), (0.25, 1.0), tuple(range(0, 210, 10)), 3


def rows(problem, run, seed=0):
    """Curves that fall from 1 to different levels; the largest α diverges in run 1."""
    rng = np.random.default_rng([seed, run, len(problem)])
    table = []
    for rule in RULES:
        for alpha in ALPHAS:
            for ratio in RATIOS:
                diverges = alpha == 0.4 and run == 1 and rule != "GES(0)"
                floor = alpha * (1 + ratio) * (1 + 0.2 * rng.random()) * (2 if rule == EVIL else 1)
                for point in POINTS:
                    value = floor + np.exp(-alpha * point)
                    value = np.inf if diverges and point >= 100 else value
                    table.append({
                        "problem": problem, "rule": rule, "name": rule.partition("(")[0],
                        "lam": LAMBDAS[rule], "run": run, "point": point,
                        "updates": point, "alpha": alpha, "beta": alpha * ratio,
                        "diverged_at": 95 if diverges else -1,
                        "mspbe": value, "norm": 3 * value,
                    })  # fmt: skip
    return pa.Table.from_pylist(table)


STUDY = {"name": "a <b>sweep</b>", "seed": 7, "steps": 200}
