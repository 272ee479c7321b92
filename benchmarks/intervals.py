"""Coverage of 95% confidence intervals. Run by ``make coverage``.

Logs are generated repeatedly on problems whose truth is known, and every interval is compared with
its own estimand: the TD fixed point of the features for the closed form, V^π for weighted episodes.
Writes ``results/coverage.json``.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gymnasium
import numpy as np
from machine import machine, machine_line
from rich import box
from rich.console import Console
from rich.table import Table

import saddleback as sb
from saddleback.features import Custom, Identity, OneHot
from saddleback.ope import default_rule, doubly_robust, importance_sampling
from saddleback.ope.diagnosis import measure_statistics
from saddleback.ope.log_pass import EncodeOnce, read_log
from saddleback.ope.sandwich import interval_from_scores
from saddleback.ope.scoring_pass import ScoreReducer
from saddleback.problems.mountain_car import returns

RULE = default_rule()
METHODS = ("sandwich", "blocks", "IS", "PDIS", "WIS", "PDWIS", "DR", "WDR")
REPETITIONS = int(os.environ.get("COVERAGE_REPETITIONS", "1000"))


def frozen_lake():
    """FrozenLake 4×4, one feature per state: the fixed point is V^π."""
    mdp = sb.FiniteMDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), gamma=0.95)
    S, A = mdp.n_states, mdp.n_actions
    phi = np.eye(S * A).reshape(S, A, S * A)
    target = np.tile([0.05, 0.45, 0.45, 0.05], (S, 1))
    problem = sb.Problem(mdp, phi, target, np.tile([0.15, 0.35, 0.35, 0.15], (S, 1)))
    return finite(problem, OneHot(S))


def random_mdp(seed):
    """A random episodic MDP of 6 states with 4 random features for each of 3 actions."""
    base = sb.problems.random_mdp(0.9, rng=seed, off_policy=0.5, termination=0.1)
    X = np.random.default_rng(seed).normal(size=(6, 4))
    phi = np.einsum("sf,ac->safc", X, np.eye(3)).reshape(6, 3, 12)
    problem = sb.Problem(base.mdp, phi, base.target, base.behaviour)
    return finite(problem, Custom(lambda obs: X[obs[:, 0].astype(int)], 4))


def finite(problem, features):
    """Return the exact estimands of a finite problem."""
    theta = sb.System.exact(problem, RULE).fixed_point
    values = np.einsum("sa,sap,p->s", problem.target, problem.features, theta)
    q = problem.mdp.q(problem.target)
    truth = float(problem.mdp.start @ (problem.target * q).sum(axis=1))
    fixed = float(problem.mdp.start @ values)
    make = lambda n, seed: sb.collect(problem, episodes=n, rng=seed)  # noqa: E731
    return make, problem.target, features, problem.mdp.gamma, fixed, truth


def mountain_car():
    """MountainCar: the fixed point from 20,000 episodes, V^π from 200,000 simulated ones."""
    car = sb.problems.mountain_car()
    log = sb.collect(car, episodes=20_000, rng=12345)
    fixed = sb.LSTD(target="pump:0.8", features=car.features, gamma=0.99, rule=RULE).fit(log)
    rng = np.random.default_rng(3)
    start = np.column_stack([rng.uniform(-0.6, -0.4, 200_000), np.zeros(200_000)])
    action = rng.choice(3, p=car.target[0], size=len(start))
    truth = float(returns(car.target, start, action, 0.99, rng).mean())
    make = lambda n, seed: sb.collect(car, episodes=n, rng=seed)  # noqa: E731
    return make, "pump:0.8", car.features, 0.99, fixed.value(), truth


def digits():
    """A bandit on scikit-learn's digits: reward 1 if the action is the digit of the image."""
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression

    images, labels = load_digits(return_X_y=True)
    X = PCA(8, random_state=0).fit_transform(images / 16.0)
    X = np.column_stack([X, np.ones(len(X))])
    weak = LogisticRegression(C=0.01, max_iter=2000).fit(X[:300], labels[:300])
    mu = 0.5 * weak.predict_proba(X) + 0.05
    pi = LogisticRegression(max_iter=2000).fit(X, labels).predict_proba(X)
    reward = np.eye(10)[labels]
    truth = float((pi * reward).sum(axis=1).mean())
    M = np.einsum("na,nf,ng->afg", mu, X, X) / len(X)
    b = np.einsum("na,na,nf->af", mu, reward, X) / len(X)
    theta = np.linalg.solve(M, b[..., None])[..., 0]
    fixed = float((pi * (X @ theta.T)).sum(axis=1).mean())

    def make(n, seed):
        rng = np.random.default_rng(seed)
        row = rng.integers(len(X), size=n)
        action = (mu[row].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        columns = {"episode_id": np.arange(n), "action": action, "reward": reward[row, action]}
        columns |= {f"obs_{j}": X[row, j] for j in range(X.shape[1])}
        columns |= {"terminated": np.ones(n, dtype=bool), "truncated": np.zeros(n, dtype=bool)}
        columns |= {f"mu_{a}": mu[row, a] for a in range(10)}
        columns |= {f"pi_{a}": pi[row, a] for a in range(10)}
        return sb.Log(columns)

    return make, "columns", Identity(X.shape[1]), 0.0, fixed, truth


CASES = {
    "FrozenLake 4×4, 1000 episodes": (frozen_lake, (), 1000, REPETITIONS),
    "random MDP 0, 200 episodes": (random_mdp, (0,), 200, REPETITIONS),
    "random MDP 1, 200 episodes": (random_mdp, (1,), 200, REPETITIONS),
    "random MDP 2, 200 episodes": (random_mdp, (2,), 200, REPETITIONS),
    "digits, 1000 decisions": (digits, (), 1000, REPETITIONS),
    "MountainCar, 500 episodes": (mountain_car, (), 500, max(2, REPETITIONS // 10)),
}


def sandwich(log, sums, target, features):
    """Return the interval of the closed form, from one more pass over the log."""
    policy, once = sb.as_target(target, log, sums.setting.targets[0]), EncodeOnce(features)
    scores = ScoreReducer(sums, policy, once, RULE, 0.0)
    read_log(log, [scores], [policy], once)
    return interval_from_scores(scores.scores)


def repetition(case_setup, n, seed):
    """Return for each interval whether it covers its estimand, V^π, and its width."""
    make, target, features, gamma, fixed, truth = case_setup
    log = make(n, seed)
    options = {"features": features, "gamma": gamma, "allow_uncovered": True}
    sums = sb.Statistics.of(log, RULE, target, **options)
    blocks = measure_statistics(sums, RULE, sums.setting.targets[0], 0.0).interval
    intervals = {"sandwich": (sandwich(log, sums, target, features), fixed)}
    intervals |= {"blocks": (blocks, fixed)}
    plain = importance_sampling(log, target, gamma=gamma, allow_uncovered=True)
    robust = doubly_robust(log, target, **options)
    for result in (*plain.values(), *robust.values()):
        intervals |= {estimate.name: (estimate, truth) for estimate in result.estimates()}
    return {
        name: (i.low <= own <= i.high, i.low <= truth <= i.high, i.high - i.low)
        for name, (i, own) in intervals.items()
    }


def share(job):
    """Run some repetitions of a case; each process builds the problem once."""
    case, seeds = job
    build, arguments, n, _ = CASES[case]
    case_setup = build(*arguments)
    return [repetition(case_setup, n, seed) for seed in seeds]


def main():
    """Measure, print, write."""
    print(machine_line())
    results, started = {}, time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        jobs = [
            (case, list(range(k, many, 2))) for case, (*_, many) in CASES.items() for k in (0, 1)
        ]
        for (case, _), rows in zip(jobs, pool.map(share, jobs), strict=True):
            results.setdefault(case, []).extend(rows)
    table = Table(box=box.SIMPLE, title="95% CI: coverage of the estimand / of V^π (median width)")
    table.add_column("interval")
    content = {}
    for case in results:
        table.add_column(case, justify="right")
    for name in METHODS:
        row = []
        for case, rows in results.items():
            own, truth, width = np.array([one[name] for one in rows], dtype=float).T
            stats = [float(own.mean()), float(truth.mean()), float(np.median(width))]
            content.setdefault(case, {"repetitions": len(rows)})[name] = stats
            row.append(f"{stats[0]:.1%} / {stats[1]:.1%} ({stats[2]:.2g})")
        table.add_row(name, *row)
    Console(width=170).print(table)
    print(f"{time.perf_counter() - started:.0f} s")
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), **content}
    Path("results/coverage.json").write_text(
        json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
