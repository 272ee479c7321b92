"""`RowSource`: a file, a table or a query that holds rows of a log, read in batches."""

from __future__ import annotations

import difflib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from saddleback._json import invalid_place
from saddleback.log.diagnostics import Finding, LogError

BATCH = 1 << 14
"""Number of rows read at a time."""

READ_ERRORS = (pa.ArrowException, OSError, UnicodeError, EOFError, zlib.error)
"""Exceptions that a damaged file raises."""

METADATA = b"saddleback"
"""Key of the schema metadata that holds the metadata of a log, as JSON."""


class LogMetadata(msgspec.Struct):
    """The part of the metadata of a log that is used; anything else may be added to it."""

    actions: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    observations: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    gamma: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    estimated: str | None = None


@dataclass(frozen=True, eq=False)
class RowSource:
    """A file, a table or a query that holds rows of a log."""

    name: str  # path of the file, or a description
    rows: int
    schema: Any  # Arrow schema of the columns
    # Warnings about the source itself, such as a wrong file extension.
    findings: tuple[Finding, ...] = ()

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches of any size."""
        raise NotImplementedError

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches of at most `BATCH` rows; fails if rows are missing."""
        rows = 0
        for batch in self.read(columns):
            for start in range(0, batch.num_rows, BATCH):
                yield batch.slice(start, BATCH)
            rows += batch.num_rows
        if rows != self.rows:
            raise LogError(
                unreadable(self.name, self.kind, f"it holds {rows:,} of {self.rows:,} rows")
            )

    def last(self, column: str) -> Any:
        """Return the last value of a column, or None if there are no rows."""
        values = None
        for batch in self.batches([column]):
            values = batch.column(0) if batch.num_rows else values
        return None if values is None else values[-1].as_py()

    def row_number(self, number: int) -> int:
        """Return the number in the log, from 0, of a row that is read."""
        return number

    def warnings(self) -> list[Finding]:
        """Return findings about the source itself, after it was read."""
        return list(self.findings)

    @property
    def files(self) -> list[str]:
        """Paths of the files."""
        return [self.name]

    def absolute(self) -> RowSource:
        """Return the source with absolute paths."""
        return replace(self, name=os.path.abspath(self.name))

    @property
    def kind(self) -> str:
        """Format, for messages."""
        return "a table"

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


def log_table(columns: Mapping[str, Any]) -> Any:
    """Return columns of a log as a table: of a matrix one for each entry, and unknown states null.

    Examples
    --------
    >>> import numpy as np
    >>> log_table({"reward": np.zeros(2), "next_obs": np.array([[np.nan], [1.0]])}).to_pydict()
    {'reward': [0.0, 0.0], 'next_obs_0': [None, 1.0]}
    """
    arrays = {}
    for name, values in columns.items():
        entries = {name: values}
        if values.ndim > 1:
            entries = {f"{name}_{j}": column for j, column in enumerate(values.T)}
        for entry, column in entries.items():
            arrays[entry] = pa.array(column, from_pandas=name.startswith("next_"))
    return pa.table(arrays)


def metadata_problem(metadata: Any) -> str:
    """Return what is wrong with the metadata of a log, or nothing.

    Examples
    --------
    >>> metadata_problem({"gamma": 2})
    'gamma: expected `float` <= 1.0'
    """
    try:
        used = msgspec.convert(metadata, LogMetadata)
        for key in ("actions", "observations"):
            names = getattr(used, key) or []
            try:
                "".join(names).encode()
            except UnicodeEncodeError:
                return f"{key}: a name is not text"
            if len(set(names)) < len(names):
                return f"{key}: a name occurs twice"
    except msgspec.ValidationError as error:
        return invalid_place(error)
    return ""


def _similar_file(path: str) -> str:
    """Return a question about the file that was probably meant, if there is one."""
    folder, name = os.path.split(path)
    try:
        files = [file for file in os.listdir(folder or ".") if file != name]  # a link to nothing
    except OSError:
        return f" There is no folder {folder}." if folder else ""
    close = difflib.get_close_matches(name, files, n=1, cutoff=0.75)
    return f" Did you mean {os.path.join(folder, close[0])}?" if close else ""


@contextmanager
def reading(path: str, kind: str, *others: type[Exception]) -> Iterator[None]:
    """Report `READ_ERRORS`, and ``others`` that a damaged file raises, as an error of the log."""
    try:
        yield
    except LogError:
        raise
    except (*READ_ERRORS, *others) as error:
        raise LogError(unreadable(path, kind, error)) from None


def unreadable(path: str, kind: str, error: Exception | str) -> Finding:
    """Return the error of a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return Finding("E190", f"{path}: no such file.{_similar_file(path)}")
    if isinstance(error, (IsADirectoryError, PermissionError)):
        return Finding("E190", f"{path} cannot be read: {error.strerror or error}.")
    reason = str(error).split("\n")[0].rstrip(".")
    fix = "It may be incomplete or in another format: write it again, or leave it out."
    if reason.endswith("is not UTF-8") or isinstance(error, UnicodeDecodeError):
        fix = "Save it as UTF-8."
    return Finding("E190", f"{path} cannot be read as {kind} ({reason}). {fix}")
