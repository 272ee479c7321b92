"""The logs that all tools read, and the true values.

Each log is written twice: as Parquet, and as plain arrays for tools that want arrays. In the arrays
the policy is a table of two rows, chosen by whether one column of the observation is positive: the
direction of motion of a car; on the lake, where π is the same everywhere, both rows are equal.
"""

from __future__ import annotations

import gymnasium
import numpy as np

import saddleback as sb
from saddleback.features import OneHot
from saddleback.problems.mountain_car import returns

SIMULATED = 200_000
"""Episodes behind the truths of MountainCar."""

CASES = {
    "car": "MountainCar, 500 episodes, γ = 0.99",
    "lake": "FrozenLake 4×4, 1000 episodes, γ = 0.95",
}


def problem(case):
    """Return problem, features, target for saddleback, and γ of a case."""
    if case == "car":
        car = sb.problems.mountain_car()
        return car, car.features, "pump:0.8", 0.99
    mdp = sb.FiniteMDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), gamma=0.95)
    S, A = mdp.n_states, mdp.n_actions
    target = np.tile([0.05, 0.45, 0.45, 0.05], (S, 1))
    behaviour = np.tile([0.15, 0.35, 0.35, 0.15], (S, 1))
    phi = np.eye(S * A).reshape(S, A, S * A)
    return sb.Problem(mdp, phi, target, behaviour), OneHot(S), target, 0.95


def truth(case, policy):
    """Return the value of a policy, given as a table: exactly, or by simulation for the car."""
    source, *_, gamma = problem(case)
    if case == "lake":
        return float(source.mdp.start @ (policy * source.mdp.q(policy)).sum(axis=1))
    rng = np.random.default_rng(3)
    start = np.column_stack([rng.uniform(-0.6, -0.4, SIMULATED), np.zeros(SIMULATED)])
    action = rng.choice(3, p=policy[0], size=SIMULATED)  # at rest the first row holds
    return float(returns(policy, start, action, gamma, rng).mean())


def greedy(policy):
    """Return the policy that always takes the likeliest action, the first of equals."""
    return np.eye(policy.shape[1])[policy.argmax(axis=1)]


def write(case, folder):
    """Write the log of a case in both forms; return its sizes and the truths of π and greedy π."""
    source, _, _, gamma = problem(case)
    log = sb.collect(source, episodes=500 if case == "car" else 1000, rng=0)
    log.write(folder / f"{case}.parquet", gamma=gamma)
    columns = log.data.to_pydict()
    if case == "car":
        seen = np.column_stack([columns["obs_0"], columns["obs_1"]]) / (1.2, 0.07)
    else:
        seen = np.eye(source.mdp.n_states)[np.array(columns["obs_0"], dtype=int)]
    ended = np.array(columns["terminated"])
    if ended.sum() != len(set(columns["episode_id"])):
        raise SystemExit(f"{case}: some episodes did not end; the peers are given whole ones only.")
    np.savez(
        folder / f"{case}.npz",
        observations=seen.astype(np.float32),
        action=np.array(columns["action"], dtype=np.int64),
        reward=np.array(columns["reward"]),
        terminated=ended,
        behaviour=np.array(columns["behavior_prob"]),
        policy=source.target[:2],
        column=1,
        gamma=gamma,
    )
    lengths = np.diff(np.flatnonzero(ended), prepend=-1)
    return {
        "rows": log.rows,
        "episodes": len(lengths),
        "longest": int(lengths.max()),
        "truth": {"π": truth(case, source.target), "greedy π": truth(case, greedy(source.target))},
    }
