"""Decode Arrow record batches into NumPy rows that know their position in the log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.log.categories import one_hot
from saddleback.log.column_types import FLAGS, decode_dictionary, is_text
from saddleback.log.decision_rows import ADDED
from saddleback.log.diagnostics import MAX_LOCATIONS, Finding, Location, LogError
from saddleback.log.row_locations import EpisodePositions
from saddleback.log.row_source import RowSource
from saddleback.log.text_rewards import decode_rewards

if TYPE_CHECKING:
    from saddleback.log.log import Log

YES, NO = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
"""Words for flags, in any case."""

TABLES = dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class DecodedRows:
    """Consecutive rows of a log."""

    first: int  # number of the first row in the log
    ids: Any  # episode of each row, as an Arrow array
    # Whether a row begins an episode: its id differs from that of the previous row.
    starts: BoolArray
    position: IntArray  # steps since the episode began, counted
    step: IntArray | None  # step numbers of the log, or None
    # [n, d]; the latter is None without such columns, and NaN where the value is missing.
    observations: FloatArray
    next_observations: FloatArray | None
    # Index of the action, −1 if it is not a known action; 0 if actions are continuous.
    actions: IntArray
    rewards: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    propensity: FloatArray | None  # μ of the logged action, or None
    # Tables of probabilities [n, K] by name, ``mu``, ``pi``, ``next_pi``, …; continuous actions are
    # the table ``action``.
    tables: TABLES
    # Values that the arrays cannot represent: by role, which rows of a column are missing, and the
    # unknown actions.
    invalid: dict[str, Any]
    are_decisions: bool = False  # whether each row is an episode, which the log gives no id

    def __len__(self) -> int:
        return len(self.rewards)

    def location(self, i: int) -> Location:
        """Return the episode and step of a row; None and its number if it has no episode."""
        episode = self.ids[int(i)].as_py()
        if episode is None or self.are_decisions:
            return None, self.first + int(i)
        step = self.position[i] if self.step is None else self.step[i]
        return episode, int(step)

    def locations(self, indices: Sequence[int] | IntArray) -> list[Location]:
        """Return the episodes and steps of the first few of some rows."""
        return [self.location(int(i)) for i in indices[:MAX_LOCATIONS]]

    def select(self, index: Any) -> DecodedRows:
        """Return some of the rows, given as a slice or a mask."""
        ids = self.ids[index] if isinstance(index, slice) else self.ids.filter(pa.array(index))
        shift = (index.start or 0) if isinstance(index, slice) else 0
        arrays: dict[str, Any] = {
            name: None if (value := getattr(self, name)) is None else value[index]
            for name in ARRAYS
        }
        tables = {name: table[index] for name, table in self.tables.items()}
        return DecodedRows(
            self.first + shift, ids, **arrays, tables=tables, invalid={},
            are_decisions=self.are_decisions,
        )  # fmt: skip


ARRAYS = tuple(field.name for field in fields(DecodedRows))[2:-3]
"""Fields that are arrays, or None."""


def join(one: DecodedRows | None, other: DecodedRows) -> DecodedRows:
    """Concatenate rows with the rows that follow them."""
    if one is None or not len(one):
        return other
    arrays: dict[str, Any] = {
        name: None if (value := getattr(one, name)) is None
        else np.concatenate([value, getattr(other, name)])
        for name in ARRAYS
    }  # fmt: skip
    tables = {
        name: np.concatenate([table, other.tables[name]]) for name, table in one.tables.items()
    }
    ids = pa.concat_arrays([one.ids, other.ids])
    return DecodedRows(
        one.first, ids, **arrays, tables=tables, invalid={}, are_decisions=one.are_decisions
    )


class Decoder:
    """Decodes consecutive record batches; remembers the last episode of the previous batch."""

    def __init__(self, log: Log, tables: Iterable[str]) -> None:
        self._roles, self._actions = log.roles, log.action_names
        self._numbers_are_names = action_numbers(self._actions) is not None
        self._tables = [name for name in tables if name in log.roles.tables]
        self._categories, self._reward_values = log.categories, log.reward_values
        self._row, self._positions = 0, EpisodePositions()

    def __call__(self, batch: Any) -> DecodedRows:
        """Decode the next batch."""
        names, roles = self._roles.names, self._roles
        ids = decode_dictionary(batch.column(names["episode_id"]))
        starts, position = self._positions.add(ids)
        invalid: dict[str, Any] = {}
        step = None
        if "step" in names:
            numbers = batch.column(names["step"]).cast(pa.int64(), safe=False)  # 2^63 is negative
            step = numbers.fill_null(-1).to_numpy()
        for role in ("step", "terminated", "truncated"):
            if role in names and batch.column(names[role]).null_count:
                invalid[role] = batch.column(names[role]).is_null().to_numpy(zero_copy_only=False)
        propensity = None
        if "behavior_prob" in names:
            propensity = as_floats(batch.column(names["behavior_prob"]))
        elif "behavior_logp" in names:
            with np.errstate(over="ignore"):
                propensity = np.exp(as_floats(batch.column(names["behavior_logp"])))
        next_columns = roles.next_observations
        rows = DecodedRows(
            first=self._row,
            ids=ids,
            starts=starts,
            position=position,
            step=step,
            observations=self._matrix(batch, roles.observations),
            next_observations=self._matrix(batch, next_columns) if next_columns else None,
            actions=self._actions_of(batch, invalid),
            # A copy: Arrow's memory is read-only, which compiled kernels treat as another type.
            rewards=self._rewards(batch.column(names["reward"])).copy(),
            terminated=decode_flags(batch, names.get("terminated")),
            truncated=decode_flags(batch, names.get("truncated")),
            propensity=propensity,
            tables={name: self._matrix(batch, roles.tables[name]) for name in self._tables},
            invalid=invalid,
            are_decisions=names["episode_id"] == ADDED["episode_id"],
        )
        self._row += len(ids)
        return rows

    def decisions(self, batch: Any) -> tuple[FloatArray, IntArray]:
        """Return observations and actions of a batch, where both are valid."""
        states = self._matrix(batch, self._roles.observations)
        actions = self._actions_of(batch, {})
        valid = np.isfinite(states).all(axis=1) & (actions >= 0)
        return (states, actions) if valid.all() else (states[valid], actions[valid])

    def _rewards(self, column: Any) -> FloatArray:
        rewards = decode_rewards(column, self._reward_values)
        return as_floats(column) if rewards is None else rewards

    def _matrix(self, batch: Any, columns: tuple[str, ...]) -> FloatArray:
        if columns in (self._roles.observations, self._roles.next_observations):
            if self._roles.as_list:
                return _list_matrix(batch.column(columns[0]), self._roles.dimensions)
            if self._categories:
                return self._encoded(batch, columns)
        matrix = np.empty((batch.num_rows, len(columns)))
        for j, name in enumerate(columns):
            matrix[:, j] = as_floats(batch.column(name))
        return matrix

    def _encoded(self, batch: Any, columns: tuple[str, ...]) -> FloatArray:
        """Return observations of which some columns are categories."""
        is_next = columns != self._roles.observations
        parts = []
        for name, column in zip(columns, self._roles.observations, strict=True):
            values, names = batch.column(name), self._categories.get(column)
            parts.append(
                as_floats(values)[:, None]
                if names is None
                else one_hot(values, names, keep_missing=is_next)
            )
        return np.hstack(parts)

    def _actions_of(self, batch: Any, invalid: dict[str, Any]) -> IntArray:
        """Return the index of each action; 0 if actions are continuous."""
        if self._roles.actions:
            return np.zeros(batch.num_rows, dtype=np.int64)
        return self._action_indices(batch.column(self._roles.names["action"]), invalid)

    def _action_indices(self, column: Any, invalid: dict[str, Any]) -> IntArray:
        """Return the index of each action, −1 if it is unknown; note the unknown ones."""
        column = decode_dictionary(column)
        if not is_text(column.type) and not self._numbers_are_names:
            values = as_floats(column)
            legal = (values >= 0) & (values < len(self._actions))
            indices = np.where(legal, values, -1).astype(np.int64)
        else:
            names = pa.array(self._actions, type=pa.large_string())
            texts = column.cast(pa.large_string())
            matches = pc.index_in(texts, value_set=names, skip_nulls=True).fill_null(-1)
            indices = np.asarray(matches.to_numpy(zero_copy_only=False), dtype=np.int64)
        unknown = np.flatnonzero(indices < 0)
        if len(unknown):
            invalid["action"] = pc.unique(column.take(pa.array(unknown))).to_pylist()
        return indices


def action_numbers(names: Sequence[str]) -> list[int] | None:
    """Return the numbers of actions whose names are integers, but not 0 … K−1; else None.

    Examples
    --------
    >>> action_numbers(["0", "1", "10"]), action_numbers(["0", "1"]), action_numbers(["low"])
    ([0, 1, 10], None, None)
    """
    if list(names) == list(map(str, range(len(names)))):
        return None
    if not all(re.fullmatch(r"0|-?[1-9][0-9]{0,17}", name) for name in names):
        return None
    return [int(name) for name in names]


def as_floats(column: Any) -> FloatArray:
    """Return numbers as float64, NaN where the value is missing."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def decode_flags(batch: Any, name: str | None) -> BoolArray:
    """Return flags, False where the value or the column is missing."""
    if name is None:
        return np.zeros(batch.num_rows, dtype=np.bool_)
    column = batch.column(name)
    if pa.types.is_null(column.type):
        return np.zeros(batch.num_rows, dtype=np.bool_)
    if is_text(column.type):
        column = _flags_of_text(decode_dictionary(column), name)
    if column.null_count:
        column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    flags = np.asarray(column.to_numpy(zero_copy_only=False))
    for value in flags[(flags != 0) & (flags != 1)][:1]:
        raise _not_a_flag(name, int(value))
    return flags.astype(np.bool_)


def without_needless_flags(
    findings: Sequence[Finding], sources: Sequence[RowSource], columns: Mapping[str, str]
) -> list[Finding]:
    """Return errors about columns, without that of a flag if the other ends all episodes."""
    kept = {
        flag: [one for one in findings if not one.message.startswith(f"column {flag!r} is missing")]
        for flag in FLAGS
    }
    missing = [flag for flag, others in kept.items() if len(others) < len(findings)]
    if len(missing) != 1:
        return list(findings)
    others = kept[missing[0]]
    (present,) = {*FLAGS} - {*missing}
    names = [columns.get(role, role) for role in ("episode_id", present)]
    if not {*names} <= {*sources[0].schema.names}:
        return list(findings)
    every, ended = set[Any](), set[Any]()
    try:
        for source in sources:
            for batch in source.batches(names):
                ids = decode_dictionary(batch.column(0))
                every.update(pc.unique(ids).to_pylist())
                ended.update(pc.unique(ids.filter(decode_flags(batch, names[1]))).to_pylist())
    except (LogError, pa.ArrowException):  # columns that have errors of their own
        return list(findings)
    return others if every == ended else list(findings)


def _flags_of_text(column: Any, name: str) -> Any:
    """Return flags for words such as yes and no."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    true = pc.is_in(words, pa.array(YES, words.type))
    is_flag = pc.or_(true, pc.is_in(words, pa.array(NO, words.type)))
    unknown = column.drop_null().filter(pc.invert(is_flag.filter(column.is_valid())))
    if len(unknown):
        raise _not_a_flag(name, unknown[0].as_py())
    return pc.if_else(column.is_valid(), true, None)


def _not_a_flag(name: str, value: str | int) -> LogError:
    message = f"column {name!r} contains {value!r}; flags must be true or false"
    return LogError(Finding("E143", f"{message}, yes or no, or 1 or 0."))


def _list_matrix(column: Any, size: int) -> FloatArray:
    """Return fixed-size lists as a matrix, NaN where a list is missing."""
    matrix = np.full((len(column), size), np.nan)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    matrix[valid] = as_floats(column.flatten()).reshape(-1, size)
    return matrix
