"""Simulate the values of continuous families: ``python -m benchmarks.families.truths [NAME …]``.

Episodes are added until standard errors of both values are at most ``PRECISION`` standard
deviations of a return under μ, ``ROUGH`` for families held out. Writes ``truths.json``, where
families that are not named keep their values.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from ..held_out import HELD_OUT
from ..situations.worlds import LONGEST, Table, simulated_returns
from . import FAMILIES
from .family import TRUTHS, stored

PRECISION, BATCH = 0.005, 20_000
ROUGH, SMALL_BATCH = 0.01, 10_000


def simulate(family, level, instance):
    """Return the values of one problem."""
    task, rng = family.task(level, instance), family.rng(2, family.levels.index(level), instance)
    precision, batch = (ROUGH, SMALL_BATCH) if family.name in HELD_OUT else (PRECISION, BATCH)
    returns = {"pi": np.empty(0), "mu": np.empty(0)}
    while True:
        for name, gains in returns.items():
            policy, limit = task.policy(getattr(task, name)), task.horizon or LONGEST
            more = simulated_returns(task.world, policy, task.gamma, rng, batch, limit)
            returns[name] = np.append(gains, more)
        spread = returns["mu"].std()
        errors = [gains.std() / np.sqrt(len(gains)) for gains in returns.values()]
        if max(errors) <= precision * spread:
            break
    values = {
        "truth": returns["pi"].mean(), "truth_error": errors[0],
        "baseline": returns["mu"].mean(), "spread": spread,
    }  # fmt: skip
    return {name: float(f"{value:.7g}") for name, value in values.items()}


def main(names):
    """Simulate, print, write."""
    families = FAMILIES | HELD_OUT
    for name in names or families:
        family = families[name]
        if isinstance(family.task(family.levels[0]).world, Table):
            continue
        begun, instances = time.perf_counter(), range(family.instances)
        simulated = {lev: [simulate(family, lev, k) for k in instances] for lev in family.levels}
        stored()[name] = simulated
        print(f"{name}, {time.perf_counter() - begun:.1f} s")
        for level, values in simulated.items():
            print(f"  {level}: {values}")
    kept = {name: stored()[name] for name in families if name in stored()}
    TRUTHS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
