"""Arrays and their metadata in one ``.npz`` file, with a schema number and a digest.

Metadata are JSON text in the member ``words``; nothing is pickled. The member ``digest`` is a hash
of the rest, so a file that was changed after it was written is rejected.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np

from saddleback._json import invalid_place
from saddleback._paths import check_writable, output_file
from saddleback.errors import InvalidParameter, RuleRequired, SaddlebackError

Loaded = TypeVar("Loaded")

METADATA = "words"
"""Name of the array that holds the metadata."""

DIGEST = "digest.npy"
"""Member of the archive that holds the digest of all others."""

MAX_BYTES = 2**34
"""Largest size of all arrays of a file."""

HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[Any, ...]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Readers of the shape, order and type of an array, by version of the format."""

READ_ERRORS = (
    LookupError, ValueError, TypeError, AttributeError, EOFError, NotImplementedError,
    RecursionError, MemoryError, zipfile.BadZipFile, zlib.error, msgspec.ValidationError,
)  # fmt: skip
"""Exceptions that a damaged file may raise; every `SaddlebackError` of ``build`` is among them."""


def write(
    path: Path, metadata: dict[str, Any], arrays: dict[str, Any], compress: bool = True
) -> None:
    """Write arrays and metadata atomically: a reader sees the complete file or none."""
    check_writable(path)
    with output_file(path) as file:
        pack(file, metadata, arrays, compress)


def pack(
    file: IO[bytes], metadata: dict[str, Any], arrays: dict[str, Any], compress: bool = True
) -> None:
    """Write arrays and metadata to an open file, which is read back to compute the digest."""
    save = np.savez_compressed if compress else np.savez
    members: dict[str, Any] = {METADATA: np.array(json.dumps(metadata)), **arrays}
    save(file, **members)
    with zipfile.ZipFile(file, "a") as archive:
        text = io.BytesIO()
        np.save(text, np.array(_digest(archive)))
        # Without a timestamp: the same content gives the same file.
        archive.writestr(zipfile.ZipInfo(DIGEST), text.getvalue())


def _digest(archive: zipfile.ZipFile) -> str:
    """Return a hash of the names, sizes and checksums of all members but the digest."""
    lines = (f"{member.filename} {member.file_size} {member.CRC}" for member in archive.infolist())
    listed = sorted(line for line in lines if not line.startswith(f"{DIGEST} "))
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """Refuse arrays that are larger than their members, or than memory, before they are read."""
    if sum(member.file_size for member in archive.infolist()) > MAX_BYTES:
        raise InvalidParameter(f"its arrays are larger than {MAX_BYTES / 2**30:.0f} GB")
    for member in archive.infolist():
        with archive.open(member) as file:
            shape, _, dtype = HEADERS[np.lib.format.read_magic(file)](file)
            size = math.prod(shape) * dtype.itemsize
            if size != member.file_size - file.tell() and not dtype.hasobject:
                raise InvalidParameter(f"{member.filename} is not as large as its header says")


def read(
    path: str | os.PathLike[str],
    schema: int,
    content: str,
    build: Callable[[dict[str, Any], dict[str, Any]], Loaded],
) -> Loaded:
    """Read a file that `write` wrote and return ``build(arrays, metadata)``.

    Parameters
    ----------
    path
        The file.
    schema
        The only schema number accepted.
    content
        Expected content of the file, for messages: "a system", "statistics".
    build
        Turns arrays and metadata into the result; its errors are reported as a damaged file.
    """
    try:
        with Path(path).open("rb") as raw:
            with zipfile.ZipFile(raw) as archive:
                digest = _digest(archive)
                _check_sizes(archive)
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        metadata = json.loads(str(arrays.pop(METADATA)))
        recorded = str(arrays.pop("digest", None))
        version = metadata["schema"]
        if type(version) is not int:
            raise InvalidParameter(f"its schema is {version!r}")
        if version == schema:
            if digest != recorded:
                raise InvalidParameter("its content does not match its digest")
            return build(arrays, metadata)
    except RuleRequired:
        raise
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror or error}.") from None
    except READ_ERRORS as error:
        reason = f": {error}".rstrip(".") if isinstance(error, SaddlebackError) else ""
        if isinstance(error, msgspec.ValidationError):
            reason = f": {invalid_place(error)}"
        raise InvalidParameter(
            f"{path} is not {content} saved by saddleback, or is damaged{reason}."
        ) from None
    by, fix = ("a newer", "Update: pip install -U saddleback.")
    if version < schema:
        by, fix = ("an older", "Create the file again.")
    raise InvalidParameter(
        f"{path} has schema {version}, written by {by} saddleback; this version "
        f"reads {schema}. {fix}"
    )
