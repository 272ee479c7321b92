"""A family of decision problems: levels of mismatch between two policies, and logs of any size.

A family builds a `Task` for each level. A task is a world as in `benchmarks.situations.worlds`,
what is observed of its states, μ, π and the discount; both policies are functions of observations.
Values of worlds with finitely many states are exact, others are simulated in advance and stored in
``truths.json``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import saddleback as sb

from ..situations.worlds import LONGEST, Policy, Table, follow

TRUTHS = Path(__file__).with_name("truths.json")

SHARES = {"near": 0.3, "mid": 0.6, "far": 1.0}
"""Levels of families where π is a mixture of μ and another policy: the share of the latter."""


def everything(states):
    """Observe the state itself."""
    return states


@dataclass(frozen=True, eq=False)
class Task:
    """A problem with two policies.

    Attributes
    ----------
    world
        Starts episodes and advances them; a `Table` is solved exactly.
    mu, pi
        Behaviour and target: functions from observations [n, d] to probabilities [n, K].
    gamma
        Discount.
    horizon
        Number of steps after which the task is over; None if there is no such limit.
    limit
        Number of steps after which the log is cut although the task would continue.
    see
        Function from states to observations.
    estimated
        How propensities are estimated from the log, "counts" or "logistic"; None if it has them.
    """

    world: Any
    mu: Policy
    pi: Policy
    gamma: float
    horizon: int | None = None
    limit: int = LONGEST
    see: Callable[[np.ndarray], np.ndarray] = everything
    estimated: str | None = None

    def policy(self, policy: Policy) -> Policy:
        """Return a policy as a function of states."""
        return policy if self.see is everything else lambda states: policy(self.see(states))


@dataclass(frozen=True)
class Values:
    """V^π and its standard error, V^μ, and the standard deviation of a return under μ."""

    truth: float
    truth_error: float
    baseline: float
    spread: float


@dataclass(frozen=True, eq=False)
class Case:
    """A log of a family, the policy to evaluate, and its true value.

    Attributes
    ----------
    log
        Arrays by name: observations [rows, d], actions, rewards, propensities of the actions,
        next_observations [rows, d], terminated, truncated, episode_id. Episodes that reach the
        ``horizon`` are truncated.
    target
        π as a function from observations to probabilities [rows, actions].
    gamma, horizon
        Discount, and the number of steps of the task if it is limited.
    truth, truth_error
        V^π over the distribution of first states, and its standard error, 0 if exact.
    baseline, spread
        V^μ, and the standard deviation of a discounted return under μ.
    actions
        Number of actions.
    estimated
        How the propensities were estimated, if they were.
    """

    log: Mapping[str, np.ndarray]
    target: Policy
    gamma: float
    horizon: int | None
    truth: float
    truth_error: float
    baseline: float
    spread: float
    actions: int
    estimated: str | None = None

    def as_log(self, **options) -> sb.Log:
        """Return the rows as a log; ``options`` are those of `saddleback.Log`."""
        limit = "artifact" if self.horizon is None else "task"
        names = [str(a) for a in range(self.actions)]
        log = sb.Log(self._columns(), **({"time_limit": limit, "actions": names} | options))
        return sb.estimate_behaviour(log, self.estimated).log if self.estimated else log

    def _columns(self):
        rows = self.log
        columns = {"episode_id": rows["episode_id"]}
        columns |= {f"obs_{j}": x for j, x in enumerate(rows["observations"].T)}
        columns |= {"action": rows["actions"], "reward": rows["rewards"]}
        columns |= {flag: rows[flag] for flag in ("terminated", "truncated")}
        if rows["truncated"].any():
            for j, x in enumerate(rows["next_observations"].T):
                columns[f"next_obs_{j}"] = np.where(rows["truncated"], x, np.nan)
        return columns if self.estimated else columns | {"behavior_prob": rows["propensities"]}


@dataclass(frozen=True, eq=False)
class Family:
    """Problems of one kind, with policies at several distances.

    Attributes
    ----------
    name
        Its name in ``FAMILIES``.
    build
        Function from the value of a level and a generator to a task.
    variants
        Value of each level, by the name of the level, from the least to the largest mismatch.
    sizes
        Suggested numbers of episodes.
    continuous
        Whether states are continuous.
    instances
        Number of different problems of a level; a case has the one with number seed modulo this.
    """

    name: str
    build: Callable[[Any, np.random.Generator], Task]
    variants: Mapping[str, Any]
    sizes: tuple[int, ...] = (100, 300, 1000)
    continuous: bool = True
    instances: int = 1
    _tasks: dict[tuple[str, int], Task] = field(default_factory=dict)

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, from the least to the largest mismatch."""
        return tuple(self.variants)

    @property
    def group(self) -> str:
        """Name of the families with a similar world, which should be left out together."""
        return self.name.partition("-")[0]

    def rng(self, *seeds: int) -> np.random.Generator:
        """Return a generator of this family."""
        return np.random.default_rng([zlib.crc32(self.name.encode()), *seeds])

    def task(self, level: str, seed: int = 0) -> Task:
        """Return the problem of a level; the levels of a seed have the same world."""
        key = level, seed % self.instances
        if key not in self._tasks:
            self._tasks[key] = self.build(self.variants[level], self.rng(key[1]))
        return self._tasks[key]

    def values(self, level: str, seed: int = 0) -> Values:
        """Return the values of the policies: exact, or those stored."""
        task = self.task(level, seed)
        if isinstance(task.world, Table):
            return exact_values(task)
        try:
            return Values(**stored()[self.name][level][seed % self.instances])
        except (KeyError, IndexError):
            raise KeyError(
                f"{TRUTHS.name} has no values of {self.name!r} at level {level!r}. Add them: "
                f"python -m benchmarks.families.truths {self.name}"
            ) from None

    def case(self, level: str, seed: int, episodes: int) -> Case:
        """Follow μ through some episodes."""
        task, values = self.task(level, seed), self.values(level, seed)
        rng = self.rng(1, self.levels.index(level), seed, episodes)
        rows = follow(task.world, task.policy(task.mu), episodes, rng, task.horizon or task.limit)
        log = {
            "observations": task.see(rows.states), "actions": rows.actions,
            "rewards": rows.rewards, "propensities": rows.mu[np.arange(len(rows)), rows.actions],
            "next_observations": task.see(rows.following), "terminated": rows.terminated,
            "truncated": rows.truncated, "episode_id": rows.episode,
        }  # fmt: skip
        case = Case(
            log, task.pi, task.gamma, task.horizon, **vars(values), actions=rows.mu.shape[1],
            estimated=task.estimated,
        )  # fmt: skip
        if task.estimated:
            guess = case.as_log().behaviour(log["observations"])
            log["propensities"] = np.asarray(guess)[np.arange(len(rows)), rows.actions]
        return case


@cache
def stored() -> dict[str, Any]:
    """Return the simulated values of all families."""
    return json.loads(TRUTHS.read_text(encoding="utf-8")) if TRUTHS.exists() else {}


@cache
def exact_values(task: Task) -> Values:
    """Return the values of two policies in a world with finitely many states."""
    (truth, _), (baseline, spread) = (exact_moments(task, p) for p in (task.pi, task.mu))
    return Values(truth, 0.0, baseline, spread)


def exact_moments(task: Task, policy: Policy) -> tuple[float, float]:
    """Return mean and standard deviation of a return of a policy, by backward recursion."""
    world, gamma = task.world, task.gamma
    S = len(world.P)
    probability = task.policy(policy)(np.arange(S, dtype=float)[:, None])
    joint = probability[:, :, None] * world.P
    reward = np.broadcast_to(world.R, joint.shape)
    on, on_reward = joint[:, :, :S].sum(axis=1), (joint * reward)[:, :, :S].sum(axis=1)
    mean, square = (joint * reward).sum(axis=(1, 2)), (joint * reward**2).sum(axis=(1, 2))
    v, second = np.zeros(S), np.zeros(S)
    for _ in range(task.horizon or 100_000):
        before = v
        second = square + world.noise**2 + 2 * gamma * on_reward @ v + gamma**2 * on @ second
        v = mean + gamma * on @ v
        if task.horizon is None and np.abs(v - before).max() < 1e-12:
            break
    value = float(world.start @ v)
    return value, float(np.sqrt(world.start @ second - value**2))
