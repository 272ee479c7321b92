"""Parquet and Arrow (Feather) files as sources of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from saddleback._paths import output_file
from saddleback.log import row_source
from saddleback.log.file_format import FileFormat, extension_finding
from saddleback.log.row_source import RowSource, reading


@dataclass(frozen=True, eq=False)
class ParquetSource(RowSource):
    """A Parquet file."""

    kind = "Parquet"

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        with open_parquet(self.name) as file:
            for batch in file.iter_batches(batch_size=row_source.BATCH, columns=list(columns)):
                batch.validate(full=True)  # such as that text is UTF-8
                yield batch

    def last(self, column: str) -> Any:
        """Return the last value of a column; reads only its last row group."""
        with open_parquet(self.name) as file:
            groups = file.num_row_groups
            values = file.read_row_group(groups - 1, columns=[column])[column] if groups else []
        return values[-1].as_py() if len(values) else None


@dataclass(frozen=True, eq=False)
class ArrowSource(RowSource):
    """An Arrow file, such as Feather, or a stream of Arrow batches in a file."""

    kind = "Arrow"
    is_stream: bool = False

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        fields = [self.schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(fields))
        for batch in _arrow_batches(self.name, self.is_stream, options):
            yield batch.select(list(columns))


def open_parquet_source(path: str, detected: FileFormat) -> RowSource:
    """Open a Parquet file; reads only its footer."""
    with open_parquet(path) as file:
        schema = file.schema_arrow
        list(schema.names)  # raises an error if they are not text
        return ParquetSource(
            path, file.metadata.num_rows, schema, extension_finding(path, detected)
        )


def open_arrow_source(path: str, detected: FileFormat) -> RowSource:
    """Open an Arrow file; counts its rows."""
    is_stream = detected.kind == "stream"
    nothing = pa.ipc.IpcReadOptions(included_fields=[0])
    rows = sum(batch.num_rows for batch in _arrow_batches(path, is_stream, nothing))
    with _open_arrow(path, is_stream) as reader:
        schema = reader.schema
        list(schema.names)
    return ArrowSource(path, rows, schema, extension_finding(path, detected), is_stream)


def _arrow_batches(path: str, is_stream: bool, options: Any) -> Iterator[Any]:
    with _open_arrow(path, is_stream, options) as reader:
        batches = (
            iter(reader) if is_stream else map(reader.get_batch, range(reader.num_record_batches))
        )
        for batch in batches:
            batch.validate(full=True)
            yield batch


@contextmanager
def _open_arrow(path: str, is_stream: bool, options: Any = None) -> Iterator[Any]:
    opener = pa.ipc.open_stream if is_stream else pa.ipc.open_file
    with reading(path, "Arrow"), pa.OSFile(path) as file, opener(file, options=options) as reader:
        yield reader


@contextmanager
def open_parquet(name: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file without buffering ahead, which would load all of it."""
    with (
        reading(name, "Parquet"),
        pq.ParquetFile(name, pre_buffer=False, page_checksum_verification=True) as file,
    ):
        yield file


@contextmanager
def new_parquet(path: Path, schema: Any) -> Iterator[pq.ParquetWriter]:
    """Write a Parquet file, atomically, with checksums of its pages."""
    with (
        output_file(path) as file,
        pq.ParquetWriter(file, schema, write_page_checksum=True) as writer,
    ):
        yield writer
