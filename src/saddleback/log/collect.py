"""Making logs: from Gymnasium environments, from our simulators, and from finite problems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saddleback import _validate
from saddleback._typing import RNG, BoolArray, FloatArray, IntArray
from saddleback.engine import Chunker, Experience, Sampler, Simulation, Trajectory
from saddleback.errors import InvalidParameter
from saddleback.log.log import Log
from saddleback.log.policy_query import ask
from saddleback.policies import Policy
from saddleback.problem import Problem

FLUSH = 1 << 16
"""Steps of an environment that are held before they are written."""


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
        ``problems.mountain_car()`` or a finite problem, which have a behaviour policy of their own.
    policy
        μ for an environment: a function from observations [n, d] to probabilities [n, K].
    episodes, steps
        How many, either of them.
    limit
        Cut episodes after so many steps; the observation that follows is logged.
    rng
        Seed or generator.
    out
        Write to this Parquet file as it goes, in constant memory, rather than into memory.

    Examples
    --------
    >>> from saddleback import problems
    >>> log = collect(problems.mountain_car(), episodes=20, limit=120, rng=0)
    >>> print(log.card().text)
    2,201 rows, 20 episodes (mean 110)   terminated 8   truncated 12 (12 with next_obs)
    actions, share of rows   0 0.503   1 0.0104   2 0.487
    reward  min -1  mean -1  max -1
    behavior_prob  min 0.01  median 0.98   OK: order, flags, NaN
    """
    if (episodes is None) == (steps is None):
        raise InvalidParameter("collect: say how many, either episodes=… or steps=…")
    count = _validate.count(
        "collect", "episodes" if steps is None else "steps", episodes if steps is None else steps
    )
    longest = None if limit is None else _validate.count("collect", "limit", limit)
    generator = _validate.generator(rng)[0]
    if isinstance(source, (Problem, Simulation)):
        if policy is not None:
            raise InvalidParameter(
                "collect: a problem or simulation has its own behaviour policy; leave policy out."
            )
        if longest is not None and steps is not None:
            raise InvalidParameter(
                "collect: episodes of a problem or simulation are cut after they were made; with "
                "limit=… say how many episodes, not steps."
            )
        rows = _simulated(source, count, steps is None, longest, generator)
    elif hasattr(source, "step") and hasattr(source, "reset"):
        if policy is None or not callable(policy):
            raise InvalidParameter(
                "collect: an environment needs a policy, a function from observations [n, d] to "
                f"probabilities [n, K]; got {policy!r}."
            )
        rows = _stepped(source, policy, count, steps is None, longest, generator)
    else:
        raise InvalidParameter(
            "collect: source must be a Gymnasium environment, a simulation or a finite problem, "
            f"got {type(source).__name__}."
        )
    if out is None:
        return Log(pa.concat_tables(rows))
    return Log(_write(rows, Path(out)))


def _table(
    episode: IntArray,
    step: IntArray,
    observations: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    terminated: BoolArray,
    truncated: BoolArray,
    following: FloatArray,
    mu: FloatArray,
) -> Any:
    """Return the columns of a log; the next observation only where an episode was cut."""
    columns: dict[str, Any] = {"episode_id": episode, "step": step}
    columns |= {f"obs_{j}": column for j, column in enumerate(observations.T)}
    columns |= {
        "action": actions.astype(np.int32), "reward": rewards, "terminated": terminated,
        "truncated": truncated,
    }  # fmt: skip
    for j, column in enumerate(following.T):
        columns[f"next_obs_{j}"] = pa.array(column, mask=~truncated)
    columns["behavior_prob"] = mu[np.arange(len(mu)), actions]
    columns |= {f"mu_{a}": column for a, column in enumerate(mu.T)}
    return pa.table(columns)


def _simulated(
    source: Problem | Simulation,
    count: int,
    whole: bool,
    limit: int | None,
    rng: np.random.Generator,
) -> Iterator[Any]:
    """Return tables of a simulation's own experience."""
    if isinstance(source, Problem):
        if whole and not source.mdp.episodic:
            raise InvalidParameter("collect: this problem has no episodes; give steps instead.")
        pieces = Chunker(Sampler(source, rng))
    else:
        pieces = Chunker(source.sampler(rng))
    episode, length, done = -1, 0, 0
    for piece in pieces.episodes(count) if whole else pieces.steps(count):
        observations, following, mu = _seen(source, piece)
        n = len(piece.rewards)
        number = np.arange(n)
        begun = np.maximum.accumulate(np.where(piece.starts, number, -1))
        step = np.where(begun >= 0, number - begun, number + length)
        ended = np.zeros(n, dtype=np.bool_)
        ended[:-1] = piece.starts[1:]
        # A piece may end within an episode; the next one says so by not starting one.
        ended[-1] = piece.discounts[-1] == 0.0
        done += n
        if not whole and done == count:
            ended[-1] = True
        over = ended & (piece.discounts == 0.0)
        cut = ended if limit is None else ended | (step == limit - 1)
        numbers = episode + np.cumsum(piece.starts)
        table = _table(
            numbers, step, observations, piece.actions, piece.rewards, over, cut & ~over,
            following, mu,
        )  # fmt: skip
        yield table if limit is None else table.filter(pa.array(step < limit))
        episode, length = int(numbers[-1]), int(step[-1]) + 1


def _seen(
    source: Problem | Simulation, piece: Experience | Trajectory
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return observations, those that follow, and μ."""
    if isinstance(piece, Experience):
        states, following = piece.states, piece.next_states
        mu = source.behaviour[states]
        return states[:, None].astype(float), following[:, None].astype(float), mu
    table = source.behaviour if piece.behaviour is None else piece.behaviour
    return piece.observations, piece.next_observations, table[piece.kinds]


def _stepped(
    env: Any, policy: Policy, count: int, whole: bool, limit: int | None, rng: np.random.Generator
) -> Iterator[Any]:
    """Return tables of steps of an environment."""
    space = getattr(env, "action_space", None)
    actions, first = getattr(space, "n", None), getattr(space, "start", None)
    if actions is None or first is None:
        raise InvalidParameter(
            f"collect: the environment's action space must be Discrete, got {space!r}."
        )
    rows: list[Any] = []
    episode = done = 0
    seed: int | None = int(rng.integers(2**31))
    while (episode if whole else done) < count:
        seen, _ = env.reset(seed=seed)
        seed, step, over = None, 0, False
        while not over:
            observation = _vector(seen)
            mu = ask("behaviour", policy, observation[None], int(actions))[0]
            edges = np.cumsum(mu)
            action = int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))
            seen, reward, terminated, truncated, _ = env.step(int(first) + action)
            done, step = done + 1, step + 1
            full = step == limit or (not whole and done == count)
            over = bool(terminated or truncated or full)
            rows.append((
                episode, step - 1, observation, action, float(reward), bool(terminated),
                over and not terminated, _vector(seen), mu,
            ))  # fmt: skip
        episode += 1
        if len(rows) >= FLUSH:
            yield _table(*map(np.array, zip(*rows, strict=True)))
            rows = []
    if rows:
        yield _table(*map(np.array, zip(*rows, strict=True)))


def _vector(observation: Any) -> FloatArray:
    try:
        return np.atleast_1d(np.asarray(observation, dtype=np.float64)).ravel()
    except (TypeError, ValueError):
        raise InvalidParameter(
            "collect: an observation must be numbers of fixed size, got "
            f"{type(observation).__name__}; flatten it: gymnasium.wrappers.FlattenObservation(env)."
        ) from None


def _write(tables: Iterator[Any], path: Path) -> Path:
    aside = path.with_name(f".{path.name}.part")
    try:
        first = next(tables)
        with pq.ParquetWriter(aside, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise InvalidParameter(f"cannot write {path}: {error.strerror or error}.") from None
    finally:
        aside.unlink(missing_ok=True)
    return path
