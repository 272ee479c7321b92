"""Faults of rows, as functions of the columns of a log and a generator.

A fault is something that a log can be known to suffer from: rows out of order, lost or repeated,
values missing or impossible, flags and ids in the wrong place. Values that are merely wrong, such
as rewards in another unit, make another log, and are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Columns = dict[str, Any]
RNG = np.random.Generator

NUMBERS = ("hr", "bp", "lactate", "reward", "behavior_prob")


def take(data: Columns, rows: Any) -> Columns:
    return {name: column[rows] for name, column in data.items()}


def some(data: Columns, rng: RNG, most: int = 20) -> Any:
    """Return a few different rows, in order."""
    n = len(data["reward"])
    return np.sort(rng.choice(n, int(rng.integers(1, most + 1)), replace=False))


def episode(data: Columns, rng: RNG) -> Any:
    """Return the rows of one episode."""
    ids = np.unique(data["episode_id"])
    return np.flatnonzero(data["episode_id"] == ids[rng.integers(len(ids))])


def changed(data: Columns, name: str, rows: Any, values: Any) -> Columns:
    column = data[name].copy()
    column[rows] = values
    return data | {name: column}


def none_at_all(data: Columns, rng: RNG) -> Columns:
    return data


def all_shuffled(data: Columns, rng: RNG) -> Columns:
    return take(data, rng.permutation(len(data["reward"])))


def episodes_shuffled(data: Columns, rng: RNG) -> Columns:
    order = rng.permutation(data["episode_id"].max() + 1)
    return take(data, np.argsort(order[data["episode_id"]], kind="stable"))


def two_rows_exchanged(data: Columns, rng: RNG) -> Columns:
    order = np.arange(len(data["reward"]))
    one, other = rng.choice(len(order), 2, replace=False)
    order[[one, other]] = order[[other, one]]
    return take(data, order)


def episode_reversed(data: Columns, rng: RNG) -> Columns:
    order, rows = np.arange(len(data["reward"])), episode(data, rng)
    order[rows] = rows[::-1]
    return take(data, order)


def rows_lost(data: Columns, rng: RNG) -> Columns:
    return take(data, np.delete(np.arange(len(data["reward"])), some(data, rng)))


def rows_repeated(data: Columns, rng: RNG) -> Columns:
    order = np.sort(np.append(np.arange(len(data["reward"])), some(data, rng)))
    return take(data, order)


def end_lost(data: Columns, rng: RNG) -> Columns:
    return take(data, slice(0, len(data["reward"]) - int(rng.integers(1, 50))))


def beginning_lost(data: Columns, rng: RNG) -> Columns:
    return take(data, slice(int(rng.integers(1, 50)), None))


def episode_repeated(data: Columns, rng: RNG) -> Columns:
    return take(data, np.append(np.arange(len(data["reward"])), episode(data, rng)))


def number_missing(data: Columns, rng: RNG) -> Columns:
    return changed(data, NUMBERS[rng.integers(5)], some(data, rng), np.nan)


def number_infinite(data: Columns, rng: RNG) -> Columns:
    values = (np.inf, -np.inf)[rng.integers(2)]
    return changed(data, NUMBERS[rng.integers(5)], some(data, rng), values)


def column_missing(data: Columns, rng: RNG) -> Columns:
    return data | {NUMBERS[rng.integers(5)]: np.full(len(data["reward"]), np.nan)}


def flag_too_early(data: Columns, rng: RNG) -> Columns:
    return changed(data, ("terminated", "truncated")[rng.integers(2)], some(data, rng), True)


def flags_cleared(data: Columns, rng: RNG) -> Columns:
    cleared = np.zeros(len(data["reward"]), dtype=bool)
    name = ("terminated", "truncated")[rng.integers(2)]
    return data | {name: cleared}


def flags_inverted(data: Columns, rng: RNG) -> Columns:
    name = ("terminated", "truncated")[rng.integers(2)]
    return data | {name: ~data[name]}


def step_shifted(data: Columns, rng: RNG) -> Columns:
    shift = (-1, 1, 10**9)[rng.integers(3)]
    rows = episode(data, rng) if rng.random() < 0.5 else slice(None)
    return changed(data, "step", rows, data["step"][rows] + shift)


def step_changed(data: Columns, rng: RNG) -> Columns:
    return changed(data, "step", some(data, rng), rng.integers(-5, 60))


def episodes_joined(data: Columns, rng: RNG) -> Columns:
    number = int(rng.integers(1, data["episode_id"].max() + 1))
    ids = data["episode_id"]
    return data | {"episode_id": np.where(ids == number, number - 1, ids)}


def episode_split(data: Columns, rng: RNG) -> Columns:
    rows = episode(data, rng)
    return changed(data, "episode_id", rows[int(rng.integers(len(rows))) :], 10**6)


def id_of_another_episode(data: Columns, rng: RNG) -> Columns:
    return changed(data, "episode_id", some(data, rng), int(rng.integers(200)))


def ids_equal(data: Columns, rng: RNG) -> Columns:
    return data | {"episode_id": np.zeros(len(data["reward"]), dtype=np.int64)}


def action_unknown(data: Columns, rng: RNG) -> Columns:
    names = data["action"].astype(object)
    other = ("HIGH", "high ", "", "hihg", "3", "\u202elow")[rng.integers(6)]
    return changed(data | {"action": names}, "action", some(data, rng), other)


def actions_numbered(data: Columns, rng: RNG) -> Columns:
    numbers = np.searchsorted(np.array(["high", "low", "none"]), data["action"])
    return data | {"action": numbers + int(rng.integers(-1, 3))}


def propensity_impossible(data: Columns, rng: RNG) -> Columns:
    value = (0.0, -0.1, 1.5, 30.0)[rng.integers(4)]
    return changed(data, "behavior_prob", some(data, rng), value)


def propensities_in_percent(data: Columns, rng: RNG) -> Columns:
    return data | {"behavior_prob": 100 * data["behavior_prob"]}


def propensities_logarithmic(data: Columns, rng: RNG) -> Columns:
    return data | {"behavior_prob": np.log(data["behavior_prob"])}


def propensities_constant(data: Columns, rng: RNG) -> Columns:
    return data | {"behavior_prob": np.full(len(data["reward"]), rng.uniform(0.01, 1.0))}


def next_observation_partly_lost(data: Columns, rng: RNG) -> Columns:
    rows = np.flatnonzero(data["truncated"])
    return changed(data, "next_hr", rows, np.nan) if len(rows) else all_shuffled(data, rng)


def reward_a_sentinel(data: Columns, rng: RNG) -> Columns:
    value = (-9999.0, 999999.0, -3.5e33, 1e20)[rng.integers(4)]
    return changed(data, "reward", some(data, rng), value)


def sign_a_sentinel(data: Columns, rng: RNG) -> Columns:
    rows = rng.random(len(data["reward"])) < rng.uniform(0.001, 0.6)
    return changed(data, ("hr", "bp", "lactate")[rng.integers(3)], rows, -9999.0)


def propensity_tiny(data: Columns, rng: RNG) -> Columns:
    value = (1e-9, 1e-20, 5e-324)[rng.integers(3)]
    return changed(data, "behavior_prob", some(data, rng, 3), value)


def rewards_in_another_unit(data: Columns, rng: RNG) -> Columns:
    rows = some(data, rng, 6)
    return changed(data, "reward", rows, 1e4 * (data["reward"][rows] + rng.normal(size=len(rows))))


def last_rows_lost(data: Columns, rng: RNG) -> Columns:
    last = np.flatnonzero(data["terminated"] | data["truncated"])
    lost = rng.choice(last, int(rng.integers(1, len(last))), replace=False)
    return take(data, np.delete(np.arange(len(data["reward"])), lost))


def nothing_left(data: Columns, rng: RNG) -> Columns:
    return take(data, slice(0, int(rng.integers(0, 3))))


ROW_FAULTS = (
    none_at_all, all_shuffled, episodes_shuffled, two_rows_exchanged, episode_reversed, rows_lost,
    rows_repeated, end_lost, beginning_lost, episode_repeated, number_missing, number_infinite,
    column_missing, flag_too_early, flags_cleared, flags_inverted, step_shifted, step_changed,
    episodes_joined, episode_split, id_of_another_episode, ids_equal, action_unknown,
    actions_numbered, propensity_impossible, propensities_in_percent, propensities_logarithmic,
    propensities_constant, next_observation_partly_lost, reward_a_sentinel, sign_a_sentinel,
    propensity_tiny, rewards_in_another_unit, last_rows_lost, nothing_left,
)  # fmt: skip
