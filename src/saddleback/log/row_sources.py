"""Where a log comes from: Parquet files, Arrow tables, frames, or arrays; one after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saddleback._paths import expand_pattern, parquet_files
from saddleback.errors import InvalidParameter
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.schema import Layout, resolve

BATCH = 1 << 17
"""Rows read at a time."""

BROKEN = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError)
"""What reading a damaged file raises."""

METADATA = b"saddleback"
"""Key under which a file says what it knows of itself, as JSON."""


@dataclass(frozen=True)
class Part:
    """A file, or a table in memory, of a log."""

    name: str
    rows: int
    schema: Any
    table: Any = None

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return its rows in record batches."""
        if self.table is not None:
            chosen = self.table.select(list(columns)).combine_chunks()
            yield from chosen.to_batches(max_chunksize=BATCH)
            return
        try:
            # Without buffering ahead, which would hold the bytes of the whole file.
            with pq.ParquetFile(self.name, pre_buffer=False) as file:
                yield from file.iter_batches(batch_size=BATCH, columns=list(columns))
        except BROKEN as error:
            raise LogError([_unreadable(self.name, error)]) from None

    @property
    def metadata(self) -> dict[str, Any]:
        """What the part says of itself: gamma, actions, …"""
        words = (self.schema.metadata or {}).get(METADATA)
        try:
            found = json.loads(words) if words else {}
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def parts(data: Any) -> list[Part]:
    """Return the parts of a log, refusing what cannot be read; nothing but footers is read."""
    if isinstance(data, (str, os.PathLike)):
        data = [data]
    if (
        isinstance(data, (list, tuple))
        and data
        and all(isinstance(d, (str, os.PathLike)) for d in data)
    ):
        return _files([str(each) for each in data])
    table = as_table(data)
    return [Part("the table", table.num_rows, table.schema, table)]


def as_table(data: Any) -> Any:
    """Return an Arrow table of an Arrow, pandas or polars table, or a mapping of arrays."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, Mapping):
        columns = {str(name): _column(str(name), each) for name, each in data.items()}
        lengths = {name: len(each) for name, each in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidParameter(f"columns of a log must be of one length, got {lengths}.")
        return pa.table(columns)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            table = pa.table(data)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidParameter(f"the table cannot be read as Arrow: {error}.") from None
        if table.schema.metadata:  # pandas leaves notes to itself
            table = table.replace_schema_metadata(None)
        return table
    raise InvalidParameter(
        "a log is read from Parquet files, an Arrow table, a pandas or polars frame or a dict of "
        f"arrays, got {type(data).__name__}."
    )


def _column(name: str, given: Any) -> Any:
    """Return one column; a matrix becomes lists of fixed size."""
    if isinstance(given, (pa.Array, pa.ChunkedArray)):
        return given
    try:
        array = np.asarray(given)
        if array.ndim == 2:
            flat = pa.array(np.ascontiguousarray(array).ravel())
            return pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
        if array.ndim == 1 and array.dtype.kind != "O":
            return pa.array(array)
        return pa.array(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidParameter(f"column {name!r} of the log is not a column: {error}.") from None


def _files(names: Sequence[str]) -> list[Part]:
    found: list[Finding] = []
    paths: list[str] = []
    for name in names:
        matches = expand_pattern(name)
        if not matches:
            found.append(Finding("E190", f"no file matches {name!r}."))
        for match in matches:
            inside = parquet_files(match)
            if not inside:
                found.append(Finding("E190", f"the folder {match} holds no *.parquet files."))
            paths += inside
    seen: dict[str, str] = {}
    each: list[Part] = []
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            found.append(
                Finding("E192", f"{path} is given twice (as {seen[real]} too): name it once.")
            )
            continue
        seen[real] = path
        try:
            with pq.ParquetFile(path) as file:
                each.append(Part(path, file.metadata.num_rows, file.schema_arrow))
        except BROKEN as error:
            found.append(_unreadable(path, error))
    if found:
        raise LogError(found)
    return each


def _unreadable(path: str, error: Exception) -> Finding:
    if isinstance(error, FileNotFoundError):
        return Finding("E190", f"{path}: no such file.")
    if isinstance(error, (IsADirectoryError, PermissionError)):
        return Finding("E190", f"{path} cannot be read: {error.strerror or error}.")
    why = str(error).split("\n")[0].rstrip(".")
    return Finding(
        "E190",
        f"{path} cannot be read as Parquet: half-written, or another format? ({why}). Write it "
        "again, or leave it out.",
    )


def common_layout(
    each: Sequence[Part], observations: Sequence[str] | None, columns: Mapping[str, str]
) -> Layout:
    """Return the layout that all parts share, refusing parts that differ."""
    if not sum(part.rows for part in each):
        named = f"{each[0].name} has" if len(each) == 1 else f"all {len(each)} files have"
        raise LogError([Finding("E193", f"the log is empty: {named} no rows.")])
    layout, found = resolve(each[0].schema, observations, columns)
    if layout is None:
        raise LogError(found)
    for part in each[1:]:
        other, _ = resolve(part.schema, observations, columns)
        read = [*layout.read, *(other.read if other is not None else ())]
        differ = [
            f"{name} is {_type(each[0], name)} in the first, {_type(part, name)} in the second"
            for name in dict.fromkeys(read)
            if _type(part, name) != _type(each[0], name)
        ]
        if differ:
            found.append(
                Finding(
                    "E191",
                    f"{each[0].name} and {part.name} have different columns: "
                    f"{'; '.join(differ[:3])}{' …' if len(differ) > 3 else ''}. Files of one log "
                    "need the same columns.",
                )
            )
    for part in each[1:]:
        for name in ("actions", "gamma"):
            mine, first = part.metadata.get(name), each[0].metadata.get(name)
            if mine is not None and first is not None and mine != first:
                found.append(
                    Finding(
                        "E191",
                        f"{part.name} and {each[0].name} say different things of {name}: {mine} "
                        f"and {first}. Files of one log must agree.",
                    )
                )
    if found:
        raise LogError(found)
    return layout


def _type(part: Part, name: str) -> str:
    return str(part.schema.field(name).type) if name in part.schema.names else "missing"


def write_parts(each: Sequence[Part], path: Path, words: dict[str, Any]) -> Path:
    """Write all parts as one Parquet file, whole or not at all."""
    try:
        noted = json.dumps(words).encode()
    except TypeError as error:
        raise InvalidParameter(f"write: metadata must be plain values: {error}.") from None
    common = [
        column
        for column in each[0].schema
        if all(part.schema.get_field_index(column.name) >= 0 for part in each)
    ]
    schema = pa.schema(common, metadata={METADATA: noted})
    aside = path.with_name(f".{path.name}.part")
    try:
        with pq.ParquetWriter(aside, schema) as writer:
            for part in each:
                for batch in part.batches(schema.names):
                    plain = batch.cast(schema.remove_metadata())
                    writer.write_batch(plain.replace_schema_metadata(schema.metadata))
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise InvalidParameter(
            f"cannot write {path}: {error.strerror or error}. Choose another place."
        ) from None
    finally:
        aside.unlink(missing_ok=True)
    return path
