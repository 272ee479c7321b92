"""What a study found, in a few rows: the best setting of each rule on each problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback.learning.best_setting import least, tail


def summary(rows: pa.Table, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each problem and rule the setting with the least final first metric.

    The mean over runs and the last tenth of the checkpoints; a setting that diverged in some run
    has none. The standard error is that over runs.

    Examples
    --------
    >>> rows = pa.table(
    ...     {
    ...         "problem": ["p"] * 4, "rule": ["GES(0)"] * 4, "run": [0, 1, 0, 1],
    ...         "alpha": [0.1, 0.1, 0.2, 0.2], "beta": [0.1] * 4, "point": [100] * 4,
    ...         "diverged_at": [-1, -1, -1, 40], "mspbe": [1.0, 3.0, 0.5, np.inf],
    ...     }
    ... )  # fmt: skip
    >>> (found,) = summary(rows, ["mspbe"])
    >>> found["best"], found["error"], found["alpha"], found["diverged"], found["settings"]
    (2.0, 1.0, 0.1, 1, 2)
    """
    metric = metrics[0]
    found = []
    for problem in pc.unique(rows["problem"]).to_pylist():
        mine = rows.filter(pc.equal(rows["problem"], problem))
        points = np.unique(mine["point"].to_numpy())
        end = points[-tail(len(points)) :]
        last = mine.filter(pc.is_in(mine["point"], pa.array(end)))
        for rule in pc.unique(last["rule"]).to_pylist():
            one = last.filter(pc.equal(last["rule"], rule))
            keys = ("alpha", "beta", "run", "point")
            order = one.sort_by([(key, "ascending") for key in keys])
            runs = len(pc.unique(one["run"]))
            values = order[metric].to_numpy().reshape(-1, runs, len(end)).mean(axis=2)
            order = order.take(np.arange(0, len(order), len(end)))
            gone = (order["diverged_at"].to_numpy().reshape(-1, runs) >= 0).any(axis=1)
            means = np.where(gone, np.inf, values.mean(axis=1))
            place = least(means)
            none = place is None
            best = 0 if place is None else place[0]
            error = np.nan if none or runs < 2 else values[best].std(ddof=1) / np.sqrt(runs)
            found.append(
                {
                    "problem": problem, "rule": rule, "settings": len(means),
                    "diverged": int(gone.sum()), "metric": metric,
                    "best": None if none else float(means[best]),
                    "error": None if none or runs < 2 else float(error),
                    "alpha": None if none else float(order["alpha"][best * runs].as_py()),
                    "beta": None if none else _number(order["beta"][best * runs].as_py()),
                }
            )  # fmt: skip
    return found


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
