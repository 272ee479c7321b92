"""Sources of the rows of a log: Parquet files, Arrow tables, data frames or arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saddleback._json import invalid_place
from saddleback._paths import expand_pattern, output_file, parquet_files
from saddleback.errors import InvalidParameter
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.schema import ColumnRoles, resolve

BATCH = 1 << 15
"""Number of rows read at a time."""

READ_ERRORS = (pa.ArrowException, OSError, UnicodeError)
"""Exceptions that a damaged file raises."""

METADATA = b"saddleback"
"""Key of the schema metadata that holds the metadata of a log, as JSON."""


class LogMetadata(msgspec.Struct):
    """The part of the metadata of a log that is used; anything else may be added to it."""

    actions: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    gamma: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


@dataclass(frozen=True)
class RowSource:
    """A file or a table in memory that holds rows of a log."""

    name: str
    rows: int
    schema: Any
    table: Any = None

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        if self.table is not None:
            selected = self.table.select(list(columns)).combine_chunks()
            yield from selected.to_batches(max_chunksize=BATCH)
            return
        rows = 0
        with open_parquet(self.name) as file:
            for batch in file.iter_batches(batch_size=BATCH, columns=list(columns)):
                batch.validate(full=True)  # such as that text is UTF-8
                yield batch
                rows += batch.num_rows
        if rows != self.rows:
            problem = f"it holds {rows:,} of the {self.rows:,} rows that its footer lists"
            raise LogError(_unreadable(self.name, problem))

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the log: gamma, actions, …"""
        text = (self.schema.metadata or {}).get(METADATA)
        if not text:
            return {}
        try:
            metadata: dict[str, Any] = json.loads(text)
            problem = metadata_problem(metadata)
        except (ValueError, RecursionError):
            problem = "it is not JSON"
        if problem:
            message = f"the metadata of {self.name} are not those of a log: {problem}."
            fix = "Write the file again, or remove its metadata under the key saddleback."
            raise LogError(Finding("E194", f"{message} {fix}"))
        return metadata


def metadata_problem(metadata: Any) -> str:
    """Return what is wrong with the metadata of a log, or nothing.

    Examples
    --------
    >>> metadata_problem({"gamma": 2})
    'gamma: expected `float` <= 1.0'
    """
    try:
        names = msgspec.convert(metadata, LogMetadata).actions or []
        "".join(names).encode()
    except msgspec.ValidationError as error:
        return invalid_place(error)
    except UnicodeEncodeError:
        return "actions: a name is not text"
    return "" if len(set(names)) == len(names) else "actions: a name occurs twice"


@contextmanager
def open_parquet(name: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; report what a damaged one raises as an error of the log."""
    try:
        # Without buffering ahead, which would load the entire file.
        with pq.ParquetFile(name, pre_buffer=False, page_checksum_verification=True) as file:
            yield file
    except READ_ERRORS as error:
        raise LogError(_unreadable(name, error)) from None


@contextmanager
def new_parquet(path: Path, schema: Any) -> Iterator[pq.ParquetWriter]:
    """Write a Parquet file, atomically, with checksums of its pages."""
    with (
        output_file(path) as file,
        pq.ParquetWriter(file, schema, write_page_checksum=True) as writer,
    ):
        yield writer


def open_sources(data: Any) -> list[RowSource]:
    """Return the sources of a log; reads only the footers of files, and reports unreadable ones."""
    if isinstance(data, (str, os.PathLike)):
        data = [data]
    if (
        isinstance(data, (list, tuple))
        and data
        and all(isinstance(d, (str, os.PathLike)) for d in data)
    ):
        return _open_files([str(name) for name in data])
    table = as_table(data)
    return [RowSource("the table", table.num_rows, table.schema, table)]


def as_table(data: Any) -> Any:
    """Convert an Arrow, pandas or polars table, or a mapping of arrays, to an Arrow table."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, Mapping):
        columns = {str(name): _as_column(str(name), values) for name, values in data.items()}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidParameter(f"columns of a log must have the same length, got {lengths}.")
        return pa.table(columns)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            table = pa.table(data)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidParameter(f"the table cannot be converted to Arrow: {error}.") from None
        if table.schema.metadata:  # pandas stores its own
            table = table.replace_schema_metadata(None)
        return table
    raise InvalidParameter(
        "a log must be Parquet files, an Arrow table, a pandas or polars DataFrame, or a dict of "
        f"arrays; got {type(data).__name__}."
    )


def _as_column(name: str, values: Any) -> Any:
    """Return one column; a matrix becomes fixed-size lists."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    try:
        array = np.asarray(values)
        if array.ndim == 2:
            flat = pa.array(np.ascontiguousarray(array).ravel())
            return pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
        if array.ndim == 1 and array.dtype.kind != "O":
            return pa.array(array)
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidParameter(f"column {name!r} cannot be converted to Arrow: {error}.") from None


def _open_files(names: Sequence[str]) -> list[RowSource]:
    errors: list[Finding] = []
    paths: list[str] = []
    for name in names:
        matches = expand_pattern(name)
        if not matches:
            errors.append(Finding("E190", f"no file matches {name!r}."))
        for match in matches:
            files = parquet_files(match)
            if not files:
                errors.append(Finding("E190", f"the folder {match} contains no *.parquet files."))
            paths += files
    seen: dict[str, str] = {}
    sources: list[RowSource] = []
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            errors.append(
                Finding("E192", f"{path} is given twice (also as {seen[real]}): list it once.")
            )
            continue
        seen[real] = path
        try:
            with open_parquet(path) as file:
                schema = file.schema_arrow
                list(schema.names)  # raises an error if they are not text
                sources.append(RowSource(path, file.metadata.num_rows, schema))
        except LogError as error:
            errors += error.findings
    if errors:
        raise LogError(*errors)
    return sources


def _unreadable(path: str, error: Exception | str) -> Finding:
    if isinstance(error, FileNotFoundError):
        return Finding("E190", f"{path}: no such file.")
    if isinstance(error, (IsADirectoryError, PermissionError)):
        return Finding("E190", f"{path} cannot be read: {error.strerror or error}.")
    reason = str(error).split("\n")[0].rstrip(".")
    fix = "It may be incomplete or in another format: write it again, or leave it out."
    if path.lower().endswith(".csv"):
        fix = "Convert CSV files first: pandas.read_csv(…).to_parquet(…)."
    return Finding("E190", f"{path} cannot be read as Parquet ({reason}). {fix}")


def common_roles(
    sources: Sequence[RowSource], observations: Sequence[str] | None, columns: Mapping[str, str]
) -> ColumnRoles:
    """Return the column roles that all sources share; sources that differ are errors."""
    first = sources[0]
    if not sum(source.rows for source in sources):
        named = f"{first.name} has" if len(sources) == 1 else f"all {len(sources)} files have"
        raise LogError(Finding("E193", f"the log is empty: {named} no rows."))
    roles, errors = resolve(first.schema, observations, columns)
    if roles is None:
        raise LogError(*errors)
    for source in sources[1:]:
        other, _ = resolve(source.schema, observations, columns)
        read = [*roles.all_columns, *(other.all_columns if other is not None else ())]
        differences = [
            f"{name} is {_type(first, name)} in the first, {_type(source, name)} in the second"
            for name in dict.fromkeys(read)
            if _type(source, name) != _type(first, name)
        ]
        if differences:
            errors.append(
                Finding(
                    "E191",
                    f"{first.name} and {source.name} have different columns: "
                    f"{'; '.join(differences[:3])}{' …' if len(differences) > 3 else ''}. Files of "
                    "one log need the same columns.",
                )
            )
    for source in sources[1:]:
        for name in ("actions", "gamma"):
            value, expected = source.metadata.get(name), first.metadata.get(name)
            if value is not None and expected is not None and value != expected:
                errors.append(
                    Finding(
                        "E191",
                        f"{source.name} and {first.name} have different metadata for {name}: "
                        f"{value} and {expected}. All files of a log must agree.",
                    )
                )
    if errors:
        raise LogError(*errors)
    return roles


def _type(source: RowSource, name: str) -> str:
    indices = source.schema.get_all_field_indices(name)
    return " and ".join(str(source.schema.field(i).type) for i in indices) or "missing"


def write_sources(sources: Sequence[RowSource], path: Path, metadata: dict[str, Any]) -> Path:
    """Write all sources to one Parquet file, atomically."""
    try:
        encoded = json.dumps(metadata).encode()
    except TypeError as error:
        raise InvalidParameter(f"write: metadata must be serialisable as JSON: {error}.") from None
    if problem := metadata_problem(json.loads(encoded)):
        raise InvalidParameter(f"write: invalid metadata: {problem}.")
    common = [
        column
        for column in sources[0].schema
        if all(source.schema.get_field_index(column.name) >= 0 for source in sources)
    ]
    schema = pa.schema(common, metadata={METADATA: encoded})
    with new_parquet(path, schema) as writer:
        for source in sources:
            for batch in source.batches(schema.names):
                rows = batch.cast(schema.remove_metadata())
                writer.write_batch(rows.replace_schema_metadata(schema.metadata))
    return path
