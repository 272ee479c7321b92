"""Summary of a study: the best setting of each rule on each problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback.learning.best_setting import argmin_finite, tail_length


def summary(rows: pa.Table, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return, for each problem and rule, the setting with the smallest final value of a metric.

    The metric is the first one; its final value is the mean over runs and the last tenth of the
    checkpoints. Settings that diverged in any run are excluded. The standard error is over runs.

    Examples
    --------
    >>> rows = pa.table(
    ...     {
    ...         "problem": ["p"] * 4, "rule": ["GES(0)"] * 4, "run": [0, 1, 0, 1],
    ...         "alpha": [0.1, 0.1, 0.2, 0.2], "beta": [0.1] * 4, "point": [100] * 4,
    ...         "diverged_at": [-1, -1, -1, 40], "mspbe": [1.0, 3.0, 0.5, np.inf],
    ...     }
    ... )  # fmt: skip
    >>> (row,) = summary(rows, ["mspbe"])
    >>> row["best"], row["error"], row["alpha"], row["diverged"], row["settings"]
    (2.0, 1.0, 0.1, 1, 2)
    """
    metric = metrics[0]
    summaries = []
    for problem in pc.unique(rows["problem"]).to_pylist():
        on_problem = rows.filter(pc.equal(rows["problem"], problem))
        points = np.unique(on_problem["point"].to_numpy())
        end = points[-tail_length(len(points)) :]
        last = on_problem.filter(pc.is_in(on_problem["point"], pa.array(end)))
        for rule in pc.unique(last["rule"]).to_pylist():
            of_rule = last.filter(pc.equal(last["rule"], rule))
            keys = ("alpha", "beta", "run", "point")
            ordered = of_rule.sort_by([(key, "ascending") for key in keys])
            runs = len(pc.unique(of_rule["run"]))
            values = ordered[metric].to_numpy().reshape(-1, runs, len(end)).mean(axis=2)
            ordered = ordered.take(np.arange(0, len(ordered), len(end)))
            diverged = (ordered["diverged_at"].to_numpy().reshape(-1, runs) >= 0).any(axis=1)
            means = np.where(diverged, np.inf, values.mean(axis=1))
            index = argmin_finite(means)
            none = index is None
            best = 0 if index is None else index[0]
            error = np.nan if none or runs < 2 else values[best].std(ddof=1) / np.sqrt(runs)
            summaries.append(
                {
                    "problem": problem, "rule": rule, "settings": len(means),
                    "diverged": int(diverged.sum()), "metric": metric,
                    "best": None if none else float(means[best]),
                    "error": None if none or runs < 2 else float(error),
                    "alpha": None if none else float(ordered["alpha"][best * runs].as_py()),
                    "beta": None if none else _nan_to_none(ordered["beta"][best * runs].as_py()),
                }
            )  # fmt: skip
    return summaries


def _nan_to_none(value: float) -> float | None:
    return None if np.isnan(value) else value
