"""The best default trace for closed-form policy evaluation. Run by ``make traces``.

Closed-form solutions from logs of several sizes, on problems whose truth is known: MountainCar with
the paper's policies, FrozenLake with one feature per state, and random MDPs with too few features.
Errors are root mean squares over logs: the relative error of V^π at the start, and the relative
error of Q^π weighted by the visits of μ. Writes ``results/traces.json``.
"""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
from machine import machine, machine_line
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

import saddleback as sb
from saddleback.features import Custom, OneHot
from saddleback.ope.lstd_solve import FeatureSpan
from saddleback.paper import mountain_car_reference as truth_of_car
from saddleback.problems.mountain_car import returns

BELOW = 0.95
"""λ of the importance trace ÷ the λ ceiling."""

FIXED = {
    "no trace": sb.GES(0.0),
    "Retrace(.5)": sb.GRetrace(0.5),
    "Retrace(.9)": sb.GRetrace(0.9),
    "Retrace(.99)": sb.GRetrace(0.99),
    "tree backup(.9)": sb.GTB(0.9),
    "tree backup(.99)": sb.GTB(0.99),
    "capped(.99), product ≤ 20": sb.Rule.parse("CappedImportance(0.99, cap=20)"),
    "capped(.99), product ≤ 50": sb.Rule.parse("CappedImportance(0.99, cap=50)"),
}
IMPORTANCE = "importance, λ ceiling × .95"


def mountain_car():
    """MountainCar: values by simulating π."""
    car = sb.problems.mountain_car()
    effort = truth_of_car.Effort(starts=0, steps=0, pairs=2000, returns=200, sample=0)
    values = truth_of_car.reference_values(car, effort, np.random.SeedSequence(2))
    rng = np.random.default_rng(3)
    start = np.column_stack([rng.uniform(-0.6, -0.4, 200_000), np.zeros(200_000)])
    action = rng.choice(3, p=car.target[0], size=len(start))
    value = float(returns(car.target, start, action, car.gamma, rng).mean())
    target = sb.policies.pump(0.8)
    return car, car.features, target, value, lambda theta: float(values.mse(theta)) ** 0.5


def finite(problem, features, phi):
    """A finite problem: values exactly."""
    q = problem.mdp.q(problem.target)
    value = float(problem.mdp.start @ (problem.target * q).sum(axis=1))
    weights = problem.pair_visits.ravel()

    def error(theta):
        gap = phi.reshape(len(weights), -1) @ theta - q.ravel()
        return float(np.sqrt((gap**2 @ weights) / (q.ravel() ** 2 @ weights)))

    return problem, features, problem.target, value, error


def frozen_lake(name):
    """FrozenLake with a feature for each state; π goes down or right, μ strays more."""
    env = gymnasium.make("FrozenLake-v1", map_name=name, is_slippery=True)
    mdp = sb.FiniteMDP.from_gymnasium(env, gamma=0.95)
    S, A = mdp.n_states, mdp.n_actions
    phi = np.eye(S * A).reshape(S, A, S * A)
    target = np.tile([0.05, 0.45, 0.45, 0.05], (S, 1))
    problem = sb.Problem(mdp, phi, target, np.tile([0.15, 0.35, 0.35, 0.15], (S, 1)))
    return finite(problem, OneHot(S), phi)


def random_mdp(seed):
    """A random episodic MDP of 12 states, 3 actions, and 9 random features for each action."""
    base = sb.problems.random_mdp(0.95, rng=seed, states=12, off_policy=0.7, termination=0.05)
    X = np.random.default_rng(seed).normal(size=(12, 9))
    phi = np.einsum("sf,ac->safc", X, np.eye(3)).reshape(12, 3, 27)
    problem = sb.Problem(base.mdp, phi, base.target, base.behaviour)
    return finite(problem, Custom(lambda obs: X[obs[:, 0].astype(int)], 9), phi)


def measure(problem, episodes, logs):
    """Return relative errors of V and Q for each trace, over logs."""
    source, features, target, value, q_error = problem
    gamma = source.gamma if hasattr(source, "gamma") else source.mdp.gamma
    errors = {name: [] for name in [*FIXED, IMPORTANCE]}
    for k in range(logs):
        log = sb.collect(source, episodes=episodes, rng=1000 * episodes + k)
        options = {"features": features, "gamma": gamma, "blocks": 1, "threads": 2}
        sums = sb.Statistics.of(log, list(FIXED.values()), target, **options)
        longest = sb.GES(min(1.0, BELOW * float(sums.ceilings[0])))
        extra = sb.Statistics.of(log, longest, target, **options)
        span = FeatureSpan(sums.system().M)
        for name in errors:
            one = extra.system() if name == IMPORTANCE else sums.system(FIXED[name])
            theta = span.solve(one.A, one.b).theta
            start = (extra if name == IMPORTANCE else sums).start()
            errors[name].append((float(theta @ start) / value - 1.0, q_error(theta)))
    return {
        name: [float(np.sqrt(np.mean(np.square(column)))) for column in zip(*pairs, strict=True)]
        for name, pairs in errors.items()
    }


def main():
    """Measure, print, write."""
    print(machine_line())
    car = mountain_car()
    cases = {
        "MountainCar, 500 episodes": ([car], 500, 20),
        "MountainCar, 5000 episodes": ([car], 5000, 5),
        "FrozenLake 4×4, 1000 episodes": ([frozen_lake("4x4")], 1000, 20),
        "FrozenLake 8×8, 5000 episodes": ([frozen_lake("8x8")], 5000, 10),
        "20 random MDPs, 100 episodes": ([random_mdp(s) for s in range(20)], 100, 10),
        "20 random MDPs, 1000 episodes": ([random_mdp(s) for s in range(20)], 1000, 5),
    }
    results = {}
    for case, (problems, episodes, logs) in track(cases.items(), "measuring", transient=True):
        measured = [measure(problem, episodes, logs) for problem in problems]
        results[case] = {
            name: np.median([errors[name] for errors in measured], axis=0).tolist()
            for name in measured[0]
        }
    table = Table(
        box=box.SIMPLE, title="relative error of V at the start / of Q weighted by the visits of μ"
    )
    table.add_column("trace")
    for case in results:
        table.add_column(case, justify="right")
    for name in [*FIXED, IMPORTANCE]:
        table.add_row(name, *(f"{v:.3f} / {q:.3f}" for v, q in (r[name] for r in results.values())))
    Console(width=140).print(table)
    geometric = {
        name: np.exp(
            np.mean([np.log(errors[name]) for errors in results.values()], axis=0)
        ).tolist()
        for name in [*FIXED, IMPORTANCE]
    }
    for name, (v, q) in geometric.items():
        print(f"geometric mean over cases  {name:28} {v:.4f} / {q:.4f}")
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), "cases": results, "geometric mean": geometric}
    Path("results/traces.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
