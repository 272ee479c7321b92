"""Rows sorted by episode, and within each episode by a column such as a timestamp.

Up to `MEMORY_ROWS` rows are sorted in memory. More are first distributed to temporary files, each
with all rows of a range of episodes, which are then sorted one at a time: only one of them is in
memory. The files are removed with the log.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback._registry import nearest
from saddleback._typing import IntArray
from saddleback.errors import Fix, InvalidParameter
from saddleback.log.column_types import content, decode_dictionary, is_text
from saddleback.log.continued_episodes import ContinuedEpisodes
from saddleback.log.diagnostics import Finding, LogError, describe_rows, format_rows
from saddleback.log.likely_columns import SIMILAR, order_column
from saddleback.log.row_source import RowSource

MEMORY_ROWS = 1 << 20
"""Largest number of rows that are sorted at a time, unless there are more than `MAX_FILES` times
as many, or one episode is longer."""

MAX_FILES = 250
"""Largest number of temporary files."""

ROW = "(row)"
"""Name of the column that holds the number of a row in the log, while rows are sorted."""

SAMPLE = 100_000
"""Number of episode ids that determine the ranges of the files."""


@dataclass(frozen=True, eq=False)
class SortedSource(RowSource):
    """The rows of other sources, sorted by episode and by another column.

    Rows with equal values keep their order.

    Examples
    --------
    >>> from saddleback.log import Log
    >>> rows = {
    ...     "episode_id": [2, 1, 2, 1], "at": [9, 5, 8, 4], "obs_0": [1.0, 2.0, 3.0, 4.0],
    ...     "action": [0, 1, 0, 1], "reward": [1, 2, 3, 4],
    ... }
    >>> log = Log(rows, order_by="at", episodes_end="terminated")
    >>> [segment.rewards.tolist() for segment in log.segments()]
    [[4.0, 2.0], [3.0, 1.0]]
    """

    parts: tuple[RowSource, ...] = ()
    # The columns to sort by.
    episode: str = "episode_id"
    order: str = "step"
    _state: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, parts: Sequence[RowSource], columns: Sequence[str], episode: str, order: str
    ) -> SortedSource:
        """Return some columns of the sources, sorted."""
        first = parts[0]
        if order not in first.schema.names:
            message = f"column {order!r}, by which rows are to be ordered, is missing."
            other = nearest(order, first.schema.names, SIMILAR) or order_column(first.schema)
            raise LogError(_bad_order("E100", message, "", other))
        if not _has_order(first, order):
            values = next(first.batches([order])).column(0)
            raise LogError(_not_ordered(first.schema, order, values))
        names = list(dict.fromkeys([*columns, order]))
        empty = pa.RecordBatch.from_pylist([], first.schema)
        schema = _without_dictionaries(empty.select(names)).schema
        rows = sum(part.rows for part in parts)
        return cls(first.name, rows, schema, (), tuple(parts), episode, order)

    def __reduce__(self) -> Any:
        fields = (self.name, self.rows, self.schema, (), self.parts, self.episode, self.order)
        return SortedSource, fields  # another process sorts again

    @property
    def kind(self) -> str:
        """Format, for messages."""
        return self.parts[0].kind

    @property
    def files(self) -> list[str]:
        """Paths of the files."""
        return [file for part in self.parts for file in part.files]

    def absolute(self) -> RowSource:
        """Return the source with absolute paths."""
        parts = tuple(part.absolute() for part in self.parts)
        return SortedSource(self.name, self.rows, self.schema, (), parts, self.episode, self.order)

    def warnings(self) -> list[Finding]:
        """Return findings about the sources, and about rows whose order is not determined."""
        findings = [finding for part in self.parts for finding in part.warnings()]
        if "continued" in self._state:
            findings += self._state["continued"].findings()
        n_ties = self._state.get("ties", 0)
        if n_ties:
            message = (
                f"{format_rows(n_ties)} have the same {self.order} as another row of their "
                "episode; they keep the order of the log."
            )
            findings.append(Finding("W135", message))
        return findings

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the sorted rows as record batches."""
        if "tables" not in self._state:
            self._state["ties"] = 0
            self._state["continued"] = ContinuedEpisodes([part.name for part in self.parts])
            self._state["tables"] = self._sort()
        for table in self._state["tables"]:
            if isinstance(table, Path):
                with pa.OSFile(str(table)) as file, pa.ipc.open_file(file) as reader:
                    for i in range(reader.num_record_batches):
                        yield reader.get_batch(i).select(list(columns))
            else:
                yield from table.select(list(columns)).to_batches()

    def row_number(self, number: int) -> int:
        """Return the number of a row before rows were sorted."""
        first = 0
        for batch in self.read([ROW]):
            if number < first + batch.num_rows:
                return int(batch.column(0)[number - first].as_py())
            first += batch.num_rows
        raise IndexError(number)

    def _sort(self) -> list[Any]:
        """Return tables, or files of them, that hold all rows in order."""
        if self.rows <= MEMORY_ROWS:
            return [self._sorted_table(pa.Table.from_batches(self._batches(), self._with_row))]
        folder = Path(tempfile.mkdtemp(prefix="saddleback-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            paths = self._distribute(folder)
            for path in paths:
                with pa.OSFile(str(path)) as file:
                    table = self._sorted_table(pa.ipc.open_file(file).read_all())
                with _new_file(path, self._with_row) as writer:
                    writer.write_table(table, max_chunksize=MEMORY_ROWS // 16)
        except OSError as error:
            raise InvalidParameter(
                f"cannot sort {self.rows:,} rows in {folder}: {error.strerror or error}. Set "
                "the environment variable TMPDIR to a folder with more space."
            ) from None
        return paths

    @property
    def _with_row(self) -> Any:
        """The schema with the numbers of the rows."""
        return self.schema.append(pa.field(ROW, pa.int64()))

    def _batches(self) -> Iterator[Any]:
        at = 0
        for part in self.parts:
            for batch in part.batches(self.schema.names):
                numbers = pa.array(np.arange(at, at + batch.num_rows))
                columns = [*_without_dictionaries(batch).columns, numbers]
                yield pa.RecordBatch.from_arrays(columns, schema=self._with_row)
                at += batch.num_rows

    def _distribute(self, folder: Path) -> list[Path]:
        """Write each range of episodes to a file of its own, in the order of the log."""
        n_files = min(MAX_FILES, -(-self.rows // MEMORY_ROWS))
        limits = self._limits(n_files)
        paths = [folder / f"{i}.arrow" for i in range(len(limits) + 1)]
        with ExitStack() as stack:
            writers = [stack.enter_context(_new_file(path, self._with_row)) for path in paths]
            for batch in self._batches():
                index = _range_index(batch.column(self.episode), limits)
                order = np.argsort(index, kind="stable")
                batch, index = batch.take(pa.array(order)), index[order]
                starts = np.flatnonzero(np.diff(index, prepend=-1))
                for start, end in zip(starts, [*starts[1:], len(index)], strict=True):
                    writers[int(index[start])].write_batch(batch.slice(start, end - start))
        return paths

    def _limits(self, n_files: int) -> list[Any]:
        """Return the ids at which the ranges of the files begin, from a sample of the rows."""
        stride, skip, ids = max(1, self.rows // SAMPLE), 0, []
        for part in self.parts:
            for batch in part.batches([self.episode]):
                values = decode_dictionary(batch.column(0))
                ids += values.take(pa.array(range(skip, len(values), stride))).to_pylist()
                skip = (skip - len(values)) % stride
        ids = sorted(value for value in ids if value is not None)
        return sorted({ids[i * len(ids) // n_files] for i in range(1, n_files)} if ids else ())

    def _sorted_table(self, table: Any) -> Any:
        """Sort all rows of some episodes; count the rows whose order is not determined."""
        order = table[self.order]
        if is_text(order.type):
            order = _as_times(order)
            if order is None:
                values = table[self.order].combine_chunks()
                raise LogError(_not_ordered(self.parts[0].schema, self.order, values))
        missing = table[ROW].filter(pc.is_null(order, nan_is_null=True))
        if len(missing):
            rows = describe_rows(len(missing), [(None, n) for n in missing[:3].to_pylist()])
            message = f"{self.order} has no value in {rows}: they cannot be ordered."
            other = order_column(self.parts[0].schema, without=self.order)
            raise LogError(_bad_order("E121", message, "Fill in the values", other))
        keys = pa.table({"episode": table[self.episode], "order": order})
        index = pc.sort_indices(keys, [("episode", "ascending"), ("order", "ascending")])
        keys = keys.take(index)
        if len(keys) > 1:
            ties = pc.and_(
                *(pc.equal(keys[name][1:], keys[name][:-1]) for name in ("episode", "order"))
            )
            self._state["ties"] += int(pc.sum(ties).as_py() or 0)
        table = table.take(index).combine_chunks()
        ends = np.cumsum([part.rows for part in self.parts])
        files = np.searchsorted(ends, table[ROW].to_numpy(), side="right")
        self._state["continued"].add(*(key.combine_chunks() for key in keys.columns), files)
        return table


def _has_order(source: RowSource, name: str) -> bool:
    """Whether rows can be ordered by a column: of text, by the first rows."""
    kind = source.schema.field(name).type
    if is_text(kind):
        first = next(iter(source.batches([name])), None)
        return first is None or _as_times(first.column(0)) is not None
    types = pa.types
    return bool(types.is_temporal(kind) or types.is_integer(kind) or types.is_floating(kind))


def _as_times(column: Any) -> Any:
    """Return text such as 2026-04-03 10:00 as times; None if it has another format.

    Dates with dots begin with the day; with slashes they may be of either kind.
    """
    text = column.cast(pa.large_string())
    text = pc.replace_substring_regex(text, r"^(\d\d)\.(\d\d)\.(\d{4})\b", r"\3-\2-\1")
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def _not_ordered(schema: Any, order: str, values: Any) -> Finding:
    """Return the error of a column of a type or text that rows cannot be ordered by."""
    kind = schema.field(order).type
    text = next(iter(_not_times(values)), None) if is_text(kind) else None
    message = (
        f"column {order!r} contains {content(kind) if text is None else repr(text)}: rows can be "
        "ordered by numbers, dates or times such as 2026-04-03 10:00 or 03.04.2026 10:00."
    )
    if text is not None and re.search(r"\d/\d", text):
        message += " With slashes, the month may come before the day or after it."
    return _bad_order("E143", message, "Convert it", order_column(schema, without=order))


def _not_times(values: Any) -> Iterator[str]:
    """Return the different texts that are no times, in the order of the rows."""
    for text in pc.unique(decode_dictionary(values).drop_null()).to_pylist():
        if _as_times(pa.array([text])) is None:
            yield text


def _bad_order(code: str, message: str, repair: str, other: str | None) -> Finding:
    """Return the error of a column that rows cannot be ordered by, with another that may do."""
    if other is None:
        return Finding(code, f"{message} {repair}." if repair else message)
    advice = f"{repair}, or sort by another column" if repair else "Sort by another column"
    return Finding(code, message, Fix(advice, "order_by", other))


def _range_index(ids: Any, limits: list[Any]) -> IntArray:
    """Return the number of the range that each id falls into; missing ids are in the last."""
    encoded = decode_dictionary(ids).dictionary_encode()
    ranges = [bisect_right(limits, value) for value in encoded.dictionary.to_pylist()]
    index = encoded.indices.fill_null(len(ranges)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*ranges, len(limits)])[index], dtype=np.int64)


def _without_dictionaries(batch: Any) -> Any:
    """Return a batch without dictionary encoding, which may differ between batches.

    Text is ``large_string``, since views of text cannot be sorted.
    """
    columns = [
        decode_dictionary(column)
        if pa.types.is_dictionary(column.type) or is_text(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names, metadata=batch.schema.metadata)


def _new_file(path: Path, schema: Any) -> Any:
    return pa.ipc.new_file(str(path), schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
