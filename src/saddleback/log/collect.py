"""Collect logs from Gymnasium environments, simulations and finite problems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback import _validate
from saddleback._typing import RNG, BoolArray, FloatArray, IntArray
from saddleback.engine import Chunker, Experience, Simulation, Trajectory, TransitionSampler
from saddleback.errors import InvalidParameter
from saddleback.log.binary_files import new_parquet
from saddleback.log.log import Log
from saddleback.log.policy_query import query_policy
from saddleback.log.row_source import log_table
from saddleback.policies import Policy
from saddleback.problem import Problem

FLUSH = 1 << 16
"""Number of steps of an environment that are buffered before they are written."""


def collect(
    source: Any,
    policy: Policy | None = None,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    limit: int | None = None,
    rng: RNG = None,
    out: str | os.PathLike[str] | None = None,
) -> Log:
    """Follow a policy and log every decision with its probabilities.

    Parameters
    ----------
    source
        A Gymnasium environment with discrete actions; a simulation such as
        ``problems.mountain_car()`` or a finite problem, which include a behaviour policy.
    policy
        μ for an environment: a function from observations [n, d] to probabilities [n, K].
    episodes, steps
        Number of episodes or of steps; exactly one of them.
    limit
        Truncate episodes after this number of steps; the next observation is logged.
    rng
        Seed or generator.
    out
        Write to this Parquet file in constant memory instead of returning a table in memory.

    Examples
    --------
    >>> from saddleback import problems
    >>> log = collect(problems.mountain_car(), episodes=20, rng=0)
    >>> print(log.summary().text)
    2,640 rows, 20 episodes (mean 132)   terminated 20   truncated 0
    actions, share of rows   0 0.436   1 0.0106   2 0.553
    reward  min -1  mean -1  max -1
    behavior_prob  min 0.01  median 0.98   OK: order, flags, no NaN
    """
    if (episodes is None) == (steps is None):
        raise InvalidParameter("collect: pass either episodes=… or steps=…")
    count = _validate.count(
        "collect", "episodes" if steps is None else "steps", episodes if steps is None else steps
    )
    max_length = None if limit is None else _validate.count("collect", "limit", limit)
    generator = _validate.generator(rng)[0]
    if isinstance(source, (Problem, Simulation)):
        if policy is not None:
            raise InvalidParameter(
                "collect: a problem or simulation includes a behaviour policy; do not pass policy."
            )
        if max_length is not None and steps is not None:
            raise InvalidParameter(
                "collect: for a problem or simulation, limit=… requires episodes=… rather than "
                "steps=…"
            )
        tables = _simulate(source, count, steps is None, max_length, generator)
    elif hasattr(source, "step") and hasattr(source, "reset"):
        if policy is None or not callable(policy):
            raise InvalidParameter(
                "collect: an environment needs a policy, a function from observations [n, d] to "
                f"probabilities [n, K]; got {policy!r}."
            )
        tables = _run_environment(source, policy, count, steps is None, max_length, generator)
    else:
        raise InvalidParameter(
            "collect: source must be a Gymnasium environment, a simulation or a finite problem, "
            f"got {type(source).__name__}."
        )
    if out is None:
        return Log(pa.concat_tables(tables))
    return Log(_write(tables, Path(out)))


def _table(
    episode: IntArray,
    step: IntArray,
    observations: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    terminated: BoolArray,
    truncated: BoolArray,
    next_observations: FloatArray,
    mu: FloatArray,
) -> Any:
    """Return the columns of a log, with the next observation of truncated rows only."""
    following = np.where(truncated[:, None], next_observations, np.nan)
    return log_table({
        "episode_id": episode, "step": step, "obs": observations,
        "action": actions.astype(np.int32), "reward": rewards, "terminated": terminated,
        "truncated": truncated, "next_obs": following,
        "behavior_prob": mu[np.arange(len(mu)), actions], "mu": mu,
    })  # fmt: skip


def _simulate(
    source: Problem | Simulation,
    count: int,
    by_episode: bool,
    limit: int | None,
    rng: np.random.Generator,
) -> Iterator[Any]:
    """Return tables of the experience of a problem or simulation."""
    if isinstance(source, Problem):
        if by_episode and not source.mdp.episodic:
            raise InvalidParameter("collect: this problem has no episodes; pass steps=… instead.")
        chunks = Chunker(TransitionSampler(source, rng))
    else:
        chunks = Chunker(source.sampler(rng))
    episode, length, done = -1, 0, 0
    for chunk in chunks.episodes(count) if by_episode else chunks.steps(count):
        observations, next_observations, mu = _observations(source, chunk)
        n = len(chunk.rewards)
        index = np.arange(n)
        start = np.maximum.accumulate(np.where(chunk.starts, index, -1))
        step = np.where(start >= 0, index - start, index + length)
        ended = np.zeros(n, dtype=np.bool_)
        ended[:-1] = chunk.starts[1:]
        # A chunk may end inside an episode; the next one then does not start a new one.
        ended[-1] = chunk.discounts[-1] == 0.0
        done += n
        if not by_episode and done == count:
            ended[-1] = True
        terminated = ended & (chunk.discounts == 0.0)
        last = ended if limit is None else ended | (step == limit - 1)
        episodes = episode + np.cumsum(chunk.starts)
        table = _table(
            episodes, step, observations, chunk.actions, chunk.rewards, terminated,
            last & ~terminated, next_observations, mu,
        )  # fmt: skip
        yield table if limit is None else table.filter(pa.array(step < limit))
        episode, length = int(episodes[-1]), int(step[-1]) + 1


def _observations(
    source: Problem | Simulation, chunk: Experience | Trajectory
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return observations, next observations, and μ."""
    if isinstance(chunk, Experience):
        states, next_states = chunk.states, chunk.next_states
        mu = source.behaviour[states]
        return states[:, None].astype(float), next_states[:, None].astype(float), mu
    table = source.behaviour if chunk.behaviour is None else chunk.behaviour
    return chunk.observations, chunk.next_observations, table[chunk.kinds]


def _run_environment(
    env: Any,
    policy: Policy,
    count: int,
    by_episode: bool,
    limit: int | None,
    rng: np.random.Generator,
) -> Iterator[Any]:
    """Return tables of the steps of an environment."""
    space = getattr(env, "action_space", None)
    actions, first = getattr(space, "n", None), getattr(space, "start", None)
    if actions is None or first is None:
        raise InvalidParameter(
            f"collect: the environment's action space must be Discrete, got {space!r}."
        )
    rows: list[Any] = []
    episode = done = 0
    seed: int | None = int(rng.integers(2**31))
    while (episode if by_episode else done) < count:
        raw, _ = env.reset(seed=seed)
        seed, step, over = None, 0, False
        while not over:
            observation = _as_vector(raw)
            mu = query_policy("behaviour", policy, observation[None], int(actions))[0]
            cumulative = np.cumsum(mu)
            uniform = rng.random() * cumulative[-1]
            action = int(np.searchsorted(cumulative, uniform, side="right"))
            raw, reward, terminated, truncated, _ = env.step(int(first) + action)
            done, step = done + 1, step + 1
            stop = step == limit or (not by_episode and done == count)
            over = bool(terminated or truncated or stop)
            rows.append((
                episode, step - 1, observation, action, float(reward), bool(terminated),
                over and not terminated, _as_vector(raw), mu,
            ))  # fmt: skip
        episode += 1
        if len(rows) >= FLUSH:
            yield _table(*map(np.array, zip(*rows, strict=True)))
            rows = []
    if rows:
        yield _table(*map(np.array, zip(*rows, strict=True)))


def _as_vector(observation: Any) -> FloatArray:
    try:
        return np.atleast_1d(np.asarray(observation, dtype=np.float64)).ravel()
    except (TypeError, ValueError):
        raise InvalidParameter(
            "collect: observations must be arrays of numbers of fixed size, got "
            f"{type(observation).__name__}. Flatten them: "
            "gymnasium.wrappers.FlattenObservation(env)."
        ) from None


def _write(tables: Iterator[Any], path: Path) -> Path:
    first = next(tables)
    with new_parquet(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
    return path
