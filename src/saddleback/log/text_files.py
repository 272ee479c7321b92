"""CSV, TSV and JSON lines as sources of rows.

A file is read in blocks of whole lines, each parsed by Arrow. Types are inferred from all blocks
when the file is opened, so that a value far down the file cannot contradict them later.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.file_format import FileFormat, extension_finding, open_bytes
from saddleback.log.row_source import READ_ERRORS, RowSource, reading, unreadable

BLOCK = 1 << 24
"""Number of bytes parsed at a time."""

MAX_BLOCKS = 8
"""Number of blocks in which quotes must close; after that they are taken as characters."""


@dataclass(frozen=True, eq=False)
class TextSource(RowSource):
    """A CSV file, or a file with one JSON object per line."""

    format: FileFormat = field(default_factory=lambda: FileFormat("csv"))  # format and compression
    # Characters between fields, and in numbers, of CSV.
    delimiter: str = ","
    decimal: str = "."

    @property
    def kind(self) -> str:
        """Format, for messages."""
        return self.format.name

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches, block by block."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        for line, block in self.blocks():
            try:
                table = self._parse(block, schema).select(columns).cast(schema)
                table.validate(full=True)  # such as that text is UTF-8
            except READ_ERRORS as error:
                raise self._error(error, line, block, schema) from None
            yield from table.combine_chunks().to_batches()

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Return blocks of whole lines, and the number of the first line of each."""
        compression = self.format.compression
        with reading(self.name, self.kind), open_bytes(self.name, compression) as stream:
            yield from self._whole_lines(stream)

    def _whole_lines(self, stream: Any) -> Iterator[tuple[int, bytes]]:
        line, rest = 1, b""
        skip_header = self.format.kind == "csv"
        while data := stream.read(BLOCK):
            rest += data
            if skip_header and b"\n" in rest:
                header, lines = _split_header(rest)
                rest, line, skip_header = rest[header:], 1 + lines, False
            end = self._end_of_lines(rest)
            if rest[:end].strip():
                yield line, rest[:end]
            line += rest.count(b"\n", 0, end)
            rest = rest[end:]
        if rest.strip() and not skip_header:
            yield line, rest

    def _end_of_lines(self, block: bytes) -> int:
        """Return the end of the last complete line: in CSV, one that is not inside quotes."""
        end = block.rfind(b"\n") + 1
        if self.format.kind == "json" or len(block) > MAX_BLOCKS * BLOCK:
            return end
        quotes = block.count(b'"', 0, end)
        while quotes % 2 and end:
            previous = block.rfind(b"\n", 0, end - 1) + 1
            quotes -= block.count(b'"', previous, end)
            end = previous
        return end

    def _parse(self, block: bytes, schema: Any = None, threads: bool = True) -> Any:
        """Parse a block; infer the types of its columns unless a schema is given."""
        buffer = pa.BufferReader(block)
        if self.format.kind == "json":
            behaviour = "infer" if schema is None else "ignore"
            if schema is not None:
                schema = pa.schema([column.with_type(_as_list(column.type)) for column in schema])
            return pyarrow.json.read_json(
                buffer,
                pyarrow.json.ReadOptions(use_threads=threads, block_size=len(block) + 1),
                pyarrow.json.ParseOptions(
                    explicit_schema=schema, unexpected_field_behavior=behaviour
                ),
            )
        return pyarrow.csv.read_csv(
            buffer,
            pyarrow.csv.ReadOptions(
                use_threads=threads, block_size=len(block) + 1, column_names=self.schema.names
            ),
            pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            pyarrow.csv.ConvertOptions(
                strings_can_be_null=True,
                decimal_point=self.decimal,
                include_columns=None if schema is None else schema.names,
                column_types=schema,
            ),
        )

    def _error(self, error: Exception, line: int, block: bytes, schema: Any) -> LogError:
        """Return the error of a block with the number of the line that caused it."""
        if self.format.kind == "csv":
            try:  # rows are counted by one thread only
                self._parse(block, schema, threads=False)
            except READ_ERRORS as repeated:
                error = repeated
        text = str(error)
        row = re.search(r"[Rr]ow #?(\d+)", text)
        if row is not None:
            line += int(row[1]) - (self.format.kind == "csv")
        reason = re.sub(r"^(CSV|JSON) parse error: |Row #\d+: | in row \d+", "", text)
        return LogError(unreadable(self.name, self.kind, f"line {line:,}: {reason}"))


def open_text(path: str, detected: FileFormat) -> TextSource:
    """Open a text file: read it once to count its rows and to infer its types."""
    source = TextSource(path, 0, pa.schema([]), extension_finding(path, detected), detected)
    if detected.kind == "csv":
        source = _with_header(source)
    fields: dict[int | str, tuple[str, Any]] = {}
    sizes: dict[str, set[int]] = {}
    rows = 0
    for line, block in source.blocks():
        try:
            table = source._parse(block)
            names = table.column_names  # raises an error if they are not UTF-8
        except READ_ERRORS as error:
            raise source._error(error, line, block, None) from None
        rows += table.num_rows
        for i, (name, column) in enumerate(zip(names, table.columns, strict=True)):
            if pa.types.is_binary(column.type):
                reason = f"line {line:,} or below: column {name!r} is not UTF-8"
                raise LogError(unreadable(path, source.kind, reason))
            if pa.types.is_list(column.type):
                sizes.setdefault(name, set()).update(
                    pc.unique(pc.list_value_length(column)).drop_null().to_pylist()
                )
            key = i if detected.kind == "csv" else name  # names of CSV columns may be repeated
            _, so_far = fields.get(key, (name, pa.null()))
            fields[key] = (name, common_type(so_far, column.type))
    if rows:
        schema = [(name, _fixed_size(kind, sizes.get(name))) for name, kind in fields.values()]
        source = replace(source, rows=rows, schema=pa.schema(schema))
    return source


def common_type(one: Any, other: Any) -> Any:
    """Return the type of a column whose parts have two types.

    Examples
    --------
    >>> common_type(pa.int64(), pa.float64()), common_type(pa.null(), pa.bool_())
    (DataType(double), DataType(bool))
    >>> common_type(pa.int64(), pa.string())
    DataType(string)
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (one, other)):
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(common_type(one.value_type, other.value_type))
    times = [kind for kind in (one, other) if pa.types.is_timestamp(kind)]
    if len(times) + sum(map(pa.types.is_date, (one, other))) == 2:
        zones = {kind.tz for kind in times}
        if len(zones) == 1 and len(times) == 2:
            return pa.timestamp("ns", zones.pop())
        if zones == {None}:
            return times[0]
    return pa.string()


def with_common_types(sources: Sequence[RowSource]) -> list[RowSource]:
    """Give the text files of a log the same types: those of its binary files, if there are any."""
    types: dict[str, Any] = {}
    for source in sources:
        if not isinstance(source, TextSource):
            types = dict(zip(source.schema.names, source.schema.types, strict=True)) | types
    fixed = set(types)
    texts = [source for source in sources if isinstance(source, TextSource)]
    for source in texts:
        for name, kind in zip(source.schema.names, source.schema.types, strict=True):
            if name not in fixed:
                types[name] = common_type(types.get(name, pa.null()), kind)
    return [
        replace(source, schema=pa.schema([(n, types[n]) for n in source.schema.names]))
        if isinstance(source, TextSource) else source
        for source in sources
    ]  # fmt: skip


def _with_header(source: TextSource) -> TextSource:
    """Return a CSV source with the names of its columns, and its delimiter and decimal point."""
    with reading(source.name, source.kind):
        with open_bytes(source.name, source.format.compression) as stream:
            start = stream.read(BLOCK)
        end, _ = _split_header(start)
        header = start[:end].decode("utf-8-sig").strip("\r\n")
    bare = re.sub(r'"[^"]*"', "", header)
    delimiter = max(",\t;|", key=bare.count)
    comma = rb'(^|;)"?-?\d+,\d+"?(;|\r?\n|$)'
    decimal = "," if delimiter == ";" and re.search(comma, start[end:], re.MULTILINE) else "."
    with reading(source.name, source.kind, csv.Error):  # such as a field of megabytes
        names = next(csv.reader(io.StringIO(header), delimiter=delimiter), [])
    if len(names) > 1 and sum(map(_is_number, names)) > len(names) / 2:
        message = f"{source.name} has no header: its first line must name the columns."
        raise LogError(Finding("E190", message))
    schema = pa.schema([(name.strip(), pa.null()) for name in names])
    return replace(source, schema=schema, delimiter=delimiter, decimal=decimal)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[-+]?[0-9.,]+(e[-+]?[0-9]+)?\s*", text, re.IGNORECASE) is not None


def _split_header(start: bytes) -> tuple[int, int]:
    """Return where the first line that is not empty ends, and its number."""
    end, lines = 0, 0
    while end < len(start):
        following = start.find(b"\n", end) + 1 or len(start)
        lines += 1
        line, end = start[end:following], following
        if line.removeprefix(b"\xef\xbb\xbf").strip():
            break
    return end, lines


def _fixed_size(kind: Any, sizes: set[int] | None) -> Any:
    """Return the type of a column of lists, of a fixed size if all have the same length."""
    if not pa.types.is_list(kind) or sizes is None or len(sizes) != 1:
        return kind
    return pa.list_(kind.value_type, next(iter(sizes)))


def _as_list(kind: Any) -> Any:
    """Return the type that JSON has instead of lists of a fixed size."""
    return pa.list_(kind.value_type) if pa.types.is_fixed_size_list(kind) else kind
