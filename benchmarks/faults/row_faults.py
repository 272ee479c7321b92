"""Faults of rows, as functions that draw a fault from Hypothesis and put it into columns.

A fault is something that a log can be known to suffer from: rows out of order, lost or repeated,
values missing or impossible, flags and ids in the wrong place. Values that are merely wrong, such
as rewards in another unit, make another log, and are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from .mutations import between

Columns = dict[str, Any]

NUMBERS = st.sampled_from(("hr", "bp", "lactate", "reward", "behavior_prob"))
FLAGS = st.sampled_from(("terminated", "truncated"))
NOISE = st.integers(0, 2**32 - 1).map(np.random.default_rng)
"""Generators of values for many rows."""


def take(data: Columns, rows: Any) -> Columns:
    return {name: column[rows] for name, column in data.items()}


def all_rows(data: Columns) -> Any:
    return np.arange(len(data["reward"]))


def some(draw: st.DrawFn, data: Columns, most: int = 20) -> Any:
    """Draw a few different rows, in order."""
    rows = st.integers(0, len(data["reward"]) - 1)
    return np.sort(draw(st.lists(rows, min_size=1, max_size=most, unique=True)))


def episode(draw: st.DrawFn, data: Columns) -> Any:
    """Draw an episode; return its rows."""
    ids = np.unique(data["episode_id"])
    return np.flatnonzero(data["episode_id"] == ids[draw(st.integers(0, len(ids) - 1))])


def changed(data: Columns, name: str, rows: Any, values: Any) -> Columns:
    column = data[name].copy()
    column[rows] = values
    return data | {name: column}


def none_at_all(draw: st.DrawFn, data: Columns) -> Columns:
    return data


def all_shuffled(draw: st.DrawFn, data: Columns) -> Columns:
    return take(data, draw(NOISE).permutation(len(data["reward"])))


def episodes_shuffled(draw: st.DrawFn, data: Columns) -> Columns:
    order = draw(NOISE).permutation(data["episode_id"].max() + 1)
    return take(data, np.argsort(order[data["episode_id"]], kind="stable"))


def two_rows_exchanged(draw: st.DrawFn, data: Columns) -> Columns:
    order, row = all_rows(data), st.integers(0, len(data["reward"]) - 1)
    pair = draw(st.lists(row, min_size=2, max_size=2, unique=True))
    order[pair] = order[pair[::-1]]
    return take(data, order)


def episode_reversed(draw: st.DrawFn, data: Columns) -> Columns:
    order, rows = all_rows(data), episode(draw, data)
    order[rows] = rows[::-1]
    return take(data, order)


def rows_lost(draw: st.DrawFn, data: Columns) -> Columns:
    return take(data, np.delete(all_rows(data), some(draw, data)))


def rows_repeated(draw: st.DrawFn, data: Columns) -> Columns:
    return take(data, np.sort(np.append(all_rows(data), some(draw, data))))


def end_lost(draw: st.DrawFn, data: Columns) -> Columns:
    return take(data, slice(0, len(data["reward"]) - draw(st.integers(1, 49))))


def beginning_lost(draw: st.DrawFn, data: Columns) -> Columns:
    return take(data, slice(draw(st.integers(1, 49)), None))


def episode_repeated(draw: st.DrawFn, data: Columns) -> Columns:
    return take(data, np.append(all_rows(data), episode(draw, data)))


def number_missing(draw: st.DrawFn, data: Columns) -> Columns:
    return changed(data, draw(NUMBERS), some(draw, data), np.nan)


def number_infinite(draw: st.DrawFn, data: Columns) -> Columns:
    value = draw(st.sampled_from((np.inf, -np.inf)))
    return changed(data, draw(NUMBERS), some(draw, data), value)


def column_missing(draw: st.DrawFn, data: Columns) -> Columns:
    return data | {draw(NUMBERS): np.full(len(data["reward"]), np.nan)}


def flag_too_early(draw: st.DrawFn, data: Columns) -> Columns:
    return changed(data, draw(FLAGS), some(draw, data), True)


def flags_cleared(draw: st.DrawFn, data: Columns) -> Columns:
    return data | {draw(FLAGS): np.zeros(len(data["reward"]), dtype=bool)}


def flags_inverted(draw: st.DrawFn, data: Columns) -> Columns:
    name = draw(FLAGS)
    return data | {name: ~data[name]}


def step_shifted(draw: st.DrawFn, data: Columns) -> Columns:
    shift = draw(st.sampled_from((-1, 1, 10**9, 2**62)))
    rows = episode(draw, data) if draw(st.booleans()) else slice(None)
    return changed(data, "step", rows, data["step"][rows] + shift)


def step_changed(draw: st.DrawFn, data: Columns) -> Columns:
    return changed(data, "step", some(draw, data), draw(st.integers(-5, 59)))


def episodes_joined(draw: st.DrawFn, data: Columns) -> Columns:
    ids = data["episode_id"]
    number = draw(st.integers(1, int(ids.max())))
    return data | {"episode_id": np.where(ids == number, number - 1, ids)}


def episode_split(draw: st.DrawFn, data: Columns) -> Columns:
    rows = episode(draw, data)
    later = rows[draw(st.integers(0, len(rows) - 1)) :]
    return changed(data, "episode_id", later, draw(st.sampled_from((10**6, 2**62, -1))))


def id_of_another_episode(draw: st.DrawFn, data: Columns) -> Columns:
    return changed(data, "episode_id", some(draw, data), draw(st.integers(0, 199)))


def ids_equal(draw: st.DrawFn, data: Columns) -> Columns:
    return data | {"episode_id": np.zeros(len(data["reward"]), dtype=np.int64)}


def ids_huge(draw: st.DrawFn, data: Columns) -> Columns:
    """Ids beyond 2^53 that differ by less than a float of double precision shows."""
    ids, least = data["episode_id"].astype(np.uint64), (2**53, 2**63, 2**64 - 999)
    return data | {"episode_id": ids + np.uint64(draw(st.sampled_from(least)))}


def ids_of_another_kind(draw: st.DrawFn, data: Columns) -> Columns:
    ids = data["episode_id"]
    kinds = ("float64", "float16", "str", "S8", "M8[D]", "m8[ns]", "bool", "uint8", "complex")
    return data | {"episode_id": ids.astype(draw(st.sampled_from(kinds)))}


def action_unknown(draw: st.DrawFn, data: Columns) -> Columns:
    names = data["action"].astype(object)
    other = draw(st.sampled_from(("HIGH", "high ", "", "hihg", "3", "\u202elow", None, "NaN")))
    return changed(data | {"action": names}, "action", some(draw, data), other)


def actions_numbered(draw: st.DrawFn, data: Columns) -> Columns:
    numbers = np.searchsorted(np.array(["high", "low", "none"]), data["action"])
    kind = draw(st.sampled_from((int, float, np.uint8, np.float16)))
    return data | {"action": (numbers + draw(st.sampled_from((-1, 0, 1, 0.5)))).astype(kind)}


def propensity_impossible(draw: st.DrawFn, data: Columns) -> Columns:
    value = draw(st.sampled_from((0.0, -0.1, 1.5, 30.0, -0.0, 1 + 1e-6)))
    return changed(data, "behavior_prob", some(draw, data), value)


def propensities_in_percent(draw: st.DrawFn, data: Columns) -> Columns:
    return data | {"behavior_prob": 100 * data["behavior_prob"]}


def propensities_logarithmic(draw: st.DrawFn, data: Columns) -> Columns:
    return data | {"behavior_prob": np.log(data["behavior_prob"])}


def propensities_constant(draw: st.DrawFn, data: Columns) -> Columns:
    return data | {"behavior_prob": np.full(len(data["reward"]), draw(between(0.01, 1.0)))}


def next_observation_partly_lost(draw: st.DrawFn, data: Columns) -> Columns:
    rows = np.flatnonzero(data["truncated"])
    return changed(data, "next_hr", rows, np.nan) if len(rows) else all_shuffled(draw, data)


def reward_a_sentinel(draw: st.DrawFn, data: Columns) -> Columns:
    value = draw(st.sampled_from((-9999.0, 999999.0, -3.5e33, 1e20, -1e308)))
    return changed(data, "reward", some(draw, data), value)


def sign_a_sentinel(draw: st.DrawFn, data: Columns) -> Columns:
    rows = draw(NOISE).random(len(data["reward"])) < draw(between(0.001, 0.6))
    return changed(data, draw(st.sampled_from(("hr", "bp", "lactate"))), rows, -9999.0)


def propensity_tiny(draw: st.DrawFn, data: Columns) -> Columns:
    value = draw(st.sampled_from((1e-9, 1e-20, 5e-324)))
    return changed(data, "behavior_prob", some(draw, data, 3), value)


def rewards_in_another_unit(draw: st.DrawFn, data: Columns) -> Columns:
    rows = some(draw, data, 6)
    noise = draw(NOISE).normal(size=len(rows))
    return changed(data, "reward", rows, 1e4 * (data["reward"][rows] + noise))


def last_rows_lost(draw: st.DrawFn, data: Columns) -> Columns:
    last = np.flatnonzero(data["terminated"] | data["truncated"])
    lost = draw(NOISE).choice(last, draw(st.integers(1, len(last) - 1)), replace=False)
    return take(data, np.delete(all_rows(data), lost))


def nothing_left(draw: st.DrawFn, data: Columns) -> Columns:
    return take(data, slice(0, draw(st.integers(0, 2))))


ROW_FAULTS = (
    none_at_all, all_shuffled, episodes_shuffled, two_rows_exchanged, episode_reversed, rows_lost,
    rows_repeated, end_lost, beginning_lost, episode_repeated, number_missing, number_infinite,
    column_missing, flag_too_early, flags_cleared, flags_inverted, step_shifted, step_changed,
    episodes_joined, episode_split, id_of_another_episode, ids_equal, ids_huge, ids_of_another_kind,
    action_unknown, actions_numbered, propensity_impossible, propensities_in_percent,
    propensities_logarithmic, propensities_constant, next_observation_partly_lost,
    reward_a_sentinel, sign_a_sentinel, propensity_tiny, rewards_in_another_unit, last_rows_lost,
    nothing_left,
)  # fmt: skip
