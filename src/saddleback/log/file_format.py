"""The format of a file, recognised by its content."""

from __future__ import annotations

import bz2
import gzip
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from saddleback._json import saved_kind
from saddleback._paths import usual_format
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.row_source import reading

NAMES = {
    "parquet": "Parquet", "arrow": "Arrow", "stream": "Arrow", "csv": "CSV", "json": "JSON lines",
    "hdf5": "HDF5",
}  # fmt: skip
"""Formats, and their names in messages."""

MAGIC = {
    b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "stream",
    b"\x89HDF\r\n\x1a\n": "hdf5",
}  # fmt: skip
"""First bytes of each binary format."""

COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
"""First bytes of compressed files."""

REFUSED = {
    b"PK\3\4": ("a zip archive or an Excel workbook", "Extract it, or save the sheet as CSV."),
    b"FEA1": ("Feather version 1", "Write it again with a current version of Arrow."),
    b"SQLite format 3": ("an SQLite database", "Export the table as CSV or Parquet."),
    b"\xff\xfe": ("UTF-16 text", "Save it as UTF-8."),
    b"\xfe\xff": ("UTF-16 text", "Save it as UTF-8."),
}
"""First bytes of formats that are not read, and what to do instead."""

SAMPLE = 1 << 16
"""Number of bytes by which a text file is recognised."""


@dataclass(frozen=True)
class FileFormat:
    """Format and compression of a file."""

    kind: str
    compression: str | None = None

    @property
    def name(self) -> str:
        """The format as text.

        Examples
        --------
        >>> FileFormat("csv", "gzip").name
        'CSV (gzip)'
        """
        return NAMES[self.kind] + (f" ({self.compression})" if self.compression else "")


def recognise(path: str) -> FileFormat:
    """Return the format of a file by its content; by its extension if that is inconclusive.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.parquet"
    ...     _ = path.write_text('{"episode_id": 1, "reward": 0.5}')
    ...     recognise(str(path)).name
    'JSON lines'
    """
    usual = usual_format(path)[0]
    if os.path.exists(path) and not os.path.isfile(path):
        what = "a folder" if os.path.isdir(path) else "a pipe or a device, and a log is read twice"
        raise LogError(Finding("E190", f"{path} is {what}: name a file."))
    with reading(path, NAMES[usual or "parquet"]):
        with open(path, "rb") as file:
            start = file.read(SAMPLE)
        compression = next((c for magic, c in COMPRESSED.items() if start.startswith(magic)), None)
        if compression is not None:
            with open_bytes(path, compression) as stream:
                start = stream.read(SAMPLE)
    kind = next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), None)
    if kind is not None:
        if compression is not None:
            message = f"{path} is a compressed {NAMES[kind]} file: decompress it first."
            raise LogError(Finding("E190", message))
        return FileFormat(kind)
    for magic, (content, fix) in REFUSED.items():
        if start.startswith(magic):
            raise LogError(Finding("E190", f"{path} is {content}, which is not read. {fix}"))
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        fix = 'Write one object per line: frame.to_json(path, orient="records", lines=True).'
        raise LogError(Finding("E190", f"{path} is a JSON array, which is not read. {fix}"))
    if (saved := saved_kind(text)) is not None:
        result = "a result" if saved == "evaluation" else f"a saddleback {saved}"
        raise LogError(Finding("E190", f"{path} holds {result}, not a log."))
    if re.match(rb'\{\s*("|\})', text):
        return FileFormat("json", compression)
    if usual == "csv" or _looks_like_csv(text):
        return FileFormat("csv", compression)
    return FileFormat(usual or "parquet", compression)


def extension_finding(path: str, detected: FileFormat) -> tuple[Finding, ...]:
    """Return a warning if the extension of a file stands for another format."""
    kind, compression = usual_format(path)
    usual = FileFormat(kind or detected.kind, compression)
    if usual.name == detected.name:
        return ()
    message = f"{path} is {detected.name}, not {usual.name}, and is read as such. Rename it."
    return (Finding("W195", message),)


def open_bytes(path: str, compression: str | None) -> Any:
    """Open a file for reading bytes, decompressed."""
    opener: dict[str | None, Callable[..., Any]] = {
        None: open, "gzip": gzip.open, "bz2": bz2.open,
    }  # fmt: skip
    if compression in opener:
        return opener[compression](path, "rb")
    return pa.input_stream(path, compression=compression)


def _looks_like_csv(text: bytes) -> bool:
    """Whether the first line of a text has several fields, and all of it is UTF-8."""
    if b"\0" in text or not re.search(rb"[,;\t|]", text.split(b"\n")[0]):
        return False
    try:
        text[: text.rfind(b"\n") + 1].decode()
    except UnicodeDecodeError:
        return False
    return True
