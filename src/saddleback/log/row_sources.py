"""Open the sources of the rows of a log: files, Arrow tables, data frames or arrays."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._paths import expand_pattern, log_files
from saddleback._registry import nearest
from saddleback.errors import Fix, InvalidParameter
from saddleback.log.binary_files import new_parquet, open_arrow_source, open_parquet_source
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.file_format import recognise
from saddleback.log.hdf5_files import open_hdf5_source
from saddleback.log.likely_columns import SIMILAR, listed_columns
from saddleback.log.queries import open_query
from saddleback.log.row_source import METADATA, RowSource, metadata_problem
from saddleback.log.schema import ColumnRoles, Declared, resolve
from saddleback.log.text_files import open_text, with_common_types

INDEX = r"__index_level_\d+__"
"""Name of the index of a pandas frame without one, which is no column."""


@dataclass(frozen=True, eq=False)
class TableSource(RowSource):
    """A table in memory."""

    table: Any = None

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        yield from self.table.select(list(columns)).combine_chunks().to_batches()


OPENERS = {
    "parquet": open_parquet_source, "arrow": open_arrow_source, "stream": open_arrow_source,
    "csv": open_text, "json": open_text, "hdf5": open_hdf5_source,
}  # fmt: skip
"""Function that opens a file of each format."""


def open_sources(data: Any) -> list[RowSource]:
    """Return the sources of a log, and report unreadable ones.

    Of binary files only the footers are read; text files are read once, to infer their types.
    """
    if isinstance(data, (str, os.PathLike, RowSource)):
        data = [data]
    if isinstance(data, (list, tuple)) and data:
        if all(isinstance(part, RowSource) for part in data):
            return list(data)
        if all(isinstance(part, (str, os.PathLike)) for part in data):
            return _open_files([str(name) for name in data])
    query = open_query(data)
    if query is not None:
        return [query]
    table = as_table(data)
    return [TableSource("the table", table.num_rows, table.schema, table=table)]


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
        index = [name for name in table.column_names if re.fullmatch(INDEX, name)]
        table = table.drop_columns(index) if index else table
        if table.schema.metadata:  # pandas stores its own
            table = table.replace_schema_metadata(None)
        return table
    raise InvalidParameter(
        "a log must be files (Parquet, Arrow, CSV, JSON lines, HDF5), an Arrow table, a pandas or "
        f"polars frame, a DuckDB relation, or a dict of arrays; got {type(data).__name__}."
    )


def _as_column(name: str, values: Any) -> Any:
    """Return one column; a matrix becomes fixed-size lists."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    try:
        mask = np.ma.getmaskarray(values).ravel() if isinstance(values, np.ma.MaskedArray) else None
        array = np.asarray(values)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if array.ndim == 2:
            flat = pa.array(np.ascontiguousarray(array).ravel(), mask=mask)
            return pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
        if array.ndim == 1 and (array.dtype.kind != "O" or mask is not None):
            return pa.array(array, mask=mask)
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidParameter(f"column {name!r} cannot be converted to Arrow: {error}.") from None


def _open_files(names: Sequence[str]) -> list[RowSource]:
    errors: list[Finding] = []
    paths: list[str] = []
    for name in names:
        if "\0" in name:
            raise InvalidParameter(f"{name!r} cannot be the name of a file.")
        matches = expand_pattern(name)
        if not matches:
            errors.append(Finding("E190", f"no file matches {name!r}."))
        for match in matches:
            files = log_files(match)
            if not files:
                message = f"the folder {match} contains no files of a log, such as *.parquet."
                errors.append(Finding("E190", message))
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
            detected = recognise(path)
            sources.append(OPENERS[detected.kind](path, detected))
        except LogError as error:
            errors += error.findings
    if errors:
        raise LogError(*errors)
    return with_common_types(sources)


def common_roles(sources: Sequence[RowSource], declared: Declared) -> ColumnRoles:
    """Return the column roles that all sources share; sources that differ are errors."""
    first = sources[0]
    if not sum(source.rows for source in sources):
        named = f"{first.name} has" if len(sources) == 1 else f"all {len(sources)} files have"
        raise LogError(Finding("E193", f"the log is empty: {named} no rows."))
    roles, errors = resolve(first.schema, declared)
    if roles is None:
        raise LogError(*errors)
    for source in sources[1:]:
        other, _ = resolve(source.schema, declared)
        read = [*roles.all_columns, *(other.all_columns if other is not None else ())]
        different = [
            name for name in dict.fromkeys(read) if _type(source, name) != _type(first, name)
        ]
        differences = [
            f"{name} is {_type(first, name)} in the first, {_type(source, name)} in the second"
            f"{_similar_column(name, first, source)}"
            for name in different
        ]
        if differences:
            errors.append(
                Finding(
                    "E191",
                    f"{first.name} and {source.name} have different columns: "
                    f"{'; '.join(differences[:3])}{' …' if len(differences) > 3 else ''}. Files of "
                    "one log need the same columns.",
                    _common_observations(sources, roles, different),
                )
            )
    for source in sources[1:]:
        for name in ("actions", "observations", "gamma"):
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


def _common_observations(
    sources: Sequence[RowSource], roles: ColumnRoles, different: Sequence[str]
) -> Fix | None:
    """Return the fix that lists the observations of all files, if only those differ."""
    groups = {*roles.observations, *roles.next_observations}
    if roles.as_list or not {*different} <= groups:
        return None
    common = [
        name for name in roles.observations
        if len({_type(source, name) for source in sources}) == 1
    ]  # fmt: skip
    if not common:
        return None
    return Fix("Or list those that all have", "observations", listed_columns(common))


def _similar_column(name: str, first: RowSource, second: RowSource) -> str:
    """Return which column a source has instead of one that it lacks, as text."""
    lacking, other = (first, second) if name not in first.schema.names else (second, first)
    others = [one for one in lacking.schema.names if one not in other.schema.names]
    close = nearest(name, others, SIMILAR) if name not in lacking.schema.names else None
    return "" if close is None else f", which has {close!r}"


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
