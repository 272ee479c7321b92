"""Errors of d3rlpy's FQE and SCOPE-RL's estimators on one log, in their own environment.

They get the same log as saddleback, as arrays. Where the task has a horizon, the step is part of
the observation and the last step ends the episode, since neither package knows horizons. States
of finite problems are indicators, other columns are scaled to at most 1.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from .families import FAMILIES
from .peers import environments
from .tree_fqe import steps_of

CASES = {
    ("cartpole-50", "far", 200): (2, 5_000),
    ("mountain-car", "far", 200): (1, 20_000),
    ("graph", "far", 256): (0, 5_000),
    ("model-win", "far", 200): (0, 5_000),
}
"""The column whose sign decides what π does, and gradient steps of FQE: a small budget.

d3rlpy copies Q to its targets every 100 steps, so this is 50 or 200 applications of the Bellman
operator: as many as CartPole has steps, and most of those of an episode of the car. More would not
be better everywhere: without discount, FQE of CartPole-50 rises to 110 after 10,000 steps, with the
step in the observation, and to 102 without it.
"""

FOLDER, TOOL = Path("results") / "peers", "scope-rl"
"""Environments, and the one used, which has d3rlpy too."""

WORKER = Path(__file__).parent / "peers" / "run_accuracy.py"
SOURCES = (
    "errors_of_peers.py", "peers/run_accuracy.py", "peers/fitted.py", "peers/run_scope_rl.py",
    "peers/environments.py", "families/family.py", "families/classic_control.py",
    "families/finite.py", "families/truths.json", "situations/worlds.py",
)  # fmt: skip
"""Files that results depend on."""


def is_installed():
    """Whether the environment of the packages exists."""
    return TOOL not in environments.missing(FOLDER)


def as_arrays(case, column, steps):
    """Return a log as the arrays that the packages read."""
    rows, ended = case.log, case.log["terminated"]
    seen = rows["observations"]
    if seen.shape[1] == 1:
        seen = (seen == np.unique(seen)).astype(float)
    seen = seen / np.maximum(np.abs(seen).max(axis=0), 1e-12)
    if case.horizon is not None:
        seen = np.column_stack([seen, steps_of(case) / case.horizon])
        ended = ended | rows["truncated"]
    elif rows["truncated"].any():
        raise ValueError("episodes were cut; the packages are given whole ones only")
    pi, positive = case.target(rows["observations"]), seen[:, column] > 0
    policy = np.array([pi[positive == side][0] for side in (False, True)])
    if not np.array_equal(policy[positive.astype(int)], pi):
        raise ValueError(f"π depends on more than the sign of column {column}")
    return {
        "observations": seen.astype(np.float32), "action": rows["actions"].astype(np.int64),
        "reward": rows["rewards"], "terminated": ended, "behaviour": rows["propensities"],
        "policy": policy, "column": column, "gamma": case.gamma, "steps": steps,
    }  # fmt: skip


def errors_of_peers(name, level, n, seed):
    """Return the errors by method on one log, the seconds of FQE, and versions."""
    case = FAMILIES[name].case(level, seed, n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.npz"
        np.savez(path, **as_arrays(case, *CASES[name, level, n]))
        python = environments.python(FOLDER, TOOL)
        command = [python, "-W", "ignore", WORKER, path]
        process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"{WORKER.name} failed:\n{process.stderr[-2000:]}")
    output = json.loads(process.stdout.splitlines()[-1])
    values = output.pop("values")
    return {"errors": {method: value - case.truth for method, value in values.items()}} | output
