"""From Arrow record batches to NumPy rows, in pieces that know where they are in the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.log.diagnostics import Place
from saddleback.log.schema import ColumnRoles, is_text

TABLES = dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class DecodedRows:
    """Consecutive rows of a log.

    Attributes
    ----------
    first
        Number of the first row in the log.
    ids
        Episode of each row, as an Arrow array.
    starts
        Whether a row begins an episode: its id differs from that of the row before.
    position
        Steps since the episode began, counted.
    step
        Steps as written, or None.
    observations, next_observations
        [n, d]; the latter is None where there are no such columns, NaN where nothing is written.
    actions
        Index of the action, −1 where it is none of the known ones.
    rewards, terminated, truncated
        As written.
    propensity
        μ of the action taken, or None.
    tables
        Tables of probabilities [n, K] by name, ``mu``, ``pi``, ``next_pi``, …
    odd
        What does not fit into the columns above: which rows of a column are empty, by its role,
        and the actions that are none.
    """

    first: int
    ids: Any
    starts: BoolArray
    position: IntArray
    step: IntArray | None
    observations: FloatArray
    next_observations: FloatArray | None
    actions: IntArray
    rewards: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    propensity: FloatArray | None
    tables: TABLES
    odd: dict[str, Any]

    def __len__(self) -> int:
        return len(self.rewards)

    def place(self, i: int) -> Place:
        """Episode and step of a row, in words."""
        episode = self.ids[int(i)].as_py()
        if episode is None:
            return None, self.first + int(i)
        step = self.position[i] if self.step is None else self.step[i]
        return episode, int(step)

    def places(self, which: Sequence[int] | IntArray) -> list[Place]:
        """Episodes and steps of a few rows."""
        return [self.place(int(i)) for i in which[:3]]

    def part(self, which: Any) -> DecodedRows:
        """Return some of the rows: a slice, or a mask."""
        ids = self.ids[which] if isinstance(which, slice) else self.ids.filter(pa.array(which))
        shift = (which.start or 0) if isinstance(which, slice) else 0
        cut: dict[str, Any] = {
            name: None if (value := getattr(self, name)) is None else value[which]
            for name in ARRAYS
        }
        tables = {name: table[which] for name, table in self.tables.items()}
        return DecodedRows(self.first + shift, ids, **cut, tables=tables, odd={})


ARRAYS = tuple(field.name for field in fields(DecodedRows))[2:-2]
"""Fields that are arrays, or None."""


def join(one: DecodedRows | None, other: DecodedRows) -> DecodedRows:
    """Return rows and the rows that follow them as one."""
    if one is None or not len(one):
        return other
    both: dict[str, Any] = {
        name: None if (value := getattr(one, name)) is None
        else np.concatenate([value, getattr(other, name)])
        for name in ARRAYS
    }  # fmt: skip
    tables = {
        name: np.concatenate([table, other.tables[name]]) for name, table in one.tables.items()
    }
    ids = pa.concat_arrays([one.ids, other.ids])
    return DecodedRows(one.first, ids, **both, tables=tables, odd={})


class Decoder:
    """Turns consecutive record batches into rows, carrying what a batch hands the next."""

    def __init__(
        self,
        roles: ColumnRoles,
        actions: Sequence[str] | None,
        n_actions: int,
        tables: Iterable[str],
    ) -> None:
        self._roles, self._actions, self._n_actions = roles, actions, n_actions
        self._tables = [name for name in tables if name in roles.tables]
        self._row, self._last, self._length = 0, None, 0

    def __call__(self, batch: Any) -> DecodedRows:
        """Decode the next batch."""
        names, roles = self._roles.names, self._roles
        ids = decode_dictionary(batch.column(names["episode_id"]))
        starts = self._begin(ids)
        number = np.arange(len(ids))
        begun = np.maximum.accumulate(np.where(starts, number, -1))
        position = np.where(begun >= 0, number - begun, number + self._length)
        odd: dict[str, Any] = {}
        step = None
        if "step" in names:
            written = _floats(batch.column(names["step"]))
            step = np.where(np.isnan(written), -1, written).astype(np.int64)
        for role in ("step", "terminated", "truncated"):
            if role in names and batch.column(names[role]).null_count:
                odd[role] = batch.column(names[role]).is_null().to_numpy(zero_copy_only=False)
        prob = None
        if "behavior_prob" in names:
            prob = _floats(batch.column(names["behavior_prob"]))
        elif "behavior_logp" in names:
            with np.errstate(over="ignore"):
                prob = np.exp(_floats(batch.column(names["behavior_logp"])))
        following = roles.next_observations
        rows = DecodedRows(
            first=self._row,
            ids=ids,
            starts=starts,
            position=position,
            step=step,
            observations=self._matrix(batch, roles.observations),
            next_observations=self._matrix(batch, following) if following else None,
            actions=self._action(batch.column(names["action"]), odd),
            # A copy: Arrow's own memory is read-only, which to kernels is another type.
            rewards=_floats(batch.column(names["reward"])).copy(),
            terminated=_flags(batch.column(names["terminated"])),
            truncated=_flags(batch.column(names["truncated"])),
            propensity=prob,
            tables={name: self._matrix(batch, roles.tables[name]) for name in self._tables},
            odd=odd,
        )
        self._row += len(ids)
        self._last = ids[-1].as_py()
        self._length = int(position[-1]) + 1
        return rows

    def _begin(self, ids: Any) -> BoolArray:
        """Whether each row's episode differs from that of the row before."""
        starts = np.ones(len(ids), dtype=np.bool_)
        if len(ids) > 1:
            changed = pc.not_equal(ids[1:], ids[:-1])
            starts[1:] = changed.fill_null(True).to_numpy(zero_copy_only=False)
        if self._last is not None:
            starts[0] = ids[0].as_py() != self._last
        return starts

    def _matrix(self, batch: Any, columns: tuple[str, ...]) -> FloatArray:
        if self._roles.as_list and columns in (
            self._roles.observations, self._roles.next_observations
        ):  # fmt: skip
            return _lists(batch.column(columns[0]), self._roles.dimensions)
        found = np.empty((batch.num_rows, len(columns)))
        for j, name in enumerate(columns):
            found[:, j] = _floats(batch.column(name))
        return found

    def _action(self, column: Any, odd: dict[str, Any]) -> IntArray:
        """Index of each action; −1 for what is not one, and the first few of those."""
        column = decode_dictionary(column)
        if not is_text(column.type):
            whole = _floats(column)
            legal = (whole >= 0) & (whole < self._n_actions)
            found = np.where(legal, whole, -1).astype(np.int64)
        else:
            known = pa.array(self._actions or [], type=pa.large_string())
            index = pc.index_in(column, value_set=known, skip_nulls=True).fill_null(-1)
            found = np.asarray(index.to_numpy(zero_copy_only=False), dtype=np.int64)
        wrong = np.flatnonzero(found < 0)
        if len(wrong):
            odd["action"] = [column[int(i)].as_py() for i in wrong[:1]]
        return found


def decode_dictionary(column: Any) -> Any:
    """Return a column without dictionary encoding, and text in its usual form."""
    if pa.types.is_dictionary(column.type):
        values = decode_dictionary(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    return column.cast(pa.large_string()) if is_text(column.type) else column


def _floats(column: Any) -> FloatArray:
    """Return numbers as float64, NaN where nothing is written."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _flags(column: Any) -> BoolArray:
    """Return flags; nothing written is False."""
    if column.null_count:
        column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.bool_)


def _lists(column: Any, size: int) -> FloatArray:
    """Return fixed-size lists as a matrix, NaN where a list is missing."""
    found = np.full((len(column), size), np.nan)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    found[there] = _floats(column.flatten()).reshape(-1, size)
    return found
