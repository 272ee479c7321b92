"""Paths: glob expansion, checks before writing, and atomic writes. Loads nothing heavy."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from saddleback.errors import InvalidParameter

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def expand_pattern(name: str) -> list[str]:
    """Return the paths that match a glob pattern; the name itself if a file has it.

    Examples
    --------
    >>> expand_pattern("day1.parquet"), expand_pattern("nowhere/*.parquet")
    (['day1.parquet'], [])
    """
    if os.path.lexists(name) or not glob.has_magic(name):
        return [name]
    return sorted(glob.glob(name, recursive=True))


FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow",
    ".ipc": "arrow", ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".txt": "csv", ".jsonl": "json",
    ".ndjson": "json", ".json": "json", ".hdf5": "hdf5", ".h5": "hdf5",
}  # fmt: skip
"""Format of a log by the extension of its file."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Compression of a file by its last extension."""


def usual_format(name: str) -> tuple[str | None, str | None]:
    """Return the format and the compression that the extension of a file stands for.

    Examples
    --------
    >>> usual_format("visits.csv.gz"), usual_format("visits.stats")
    (('csv', 'gzip'), (None, None))
    """
    stem, suffix = os.path.splitext(name.lower())
    compression = COMPRESSIONS.get(suffix)
    if compression is not None:
        suffix = os.path.splitext(stem)[1]
    return FORMATS.get(suffix), compression


def log_files(name: str) -> list[str]:
    """Return the files of a log in a folder, or a list of the file itself.

    These are its Parquet files; if there are none, all files with an extension in `FORMATS`. Hidden
    files, such as those of macOS, are left out.
    """
    if not os.path.isdir(name):
        return [name]
    files = [file for file in sorted(glob.glob(f"{glob.escape(name)}/*")) if os.path.isfile(file)]
    parquet = [file for file in files if file.endswith(".parquet")]
    return parquet or [file for file in files if usual_format(file)[0] is not None]


def check_writable(path: Path, suffix: str = "") -> None:
    """Refuse, before any work, a path to which no file can be written.

    ``suffix`` is the usual file extension, for the suggestion in the message.

    Examples
    --------
    >>> check_writable(Path(""))
    Traceback (most recent call last):
    ...
    saddleback.errors.InvalidParameter: cannot write '.': give the file a name.
    """
    if not path.name:
        raise InvalidParameter(f"cannot write {str(path)!r}: give the file a name.")
    try:
        if path.is_dir():
            raise InvalidParameter(
                f"cannot write {path}: it is a folder. Name a file, such as {path / 'new'}{suffix}."
            )
        if not path.parent.is_dir():
            raise InvalidParameter(
                f"cannot write {path}: there is no folder {path.parent}. Create it first."
            )
        resolved = path.resolve()  # a link may point to a file that does not exist yet
        if resolved.exists():
            if not resolved.is_file():  # opening would change a device or a pipe
                return
            with resolved.open("ab"):
                pass
        with _part_file(resolved):
            pass
    except OSError as error:
        raise InvalidParameter(
            f"cannot write {path}: {error.strerror}. Choose another path."
        ) from None


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces ``path`` when the block ends: complete, or not at all.

    Until then it is ``.NAME.….part`` beside it; those of processes that were killed are removed. A
    link stays a link to the file it names; a device or a pipe is written to directly. If anything
    fails, what was there before is still there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answer.txt"
    ...     with atomic_file(path) as file:
    ...         _ = file.write(b"42")
    ...     path.read_text(), [entry.name for entry in path.parent.iterdir()]
    ('42', ['answer.txt'])
    """
    target = path.resolve()
    existed = target.exists()
    if existed and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    with _part_file(target) as (part, file):
        yield file
        if existed:
            shutil.copymode(target, part)
        file.flush()
        os.fsync(file.fileno())
        if os.name == "nt":  # cannot rename an open file
            file.close()
        part.replace(target)
    if os.name != "nt":  # makes the new name durable, too; Windows opens no folders
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def _part_file(target: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Open a hidden file beside ``target``, locked until the block ends; remove abandoned ones.

    An abandoned file is one without a lock: its process has ended. The name is random, so that two
    processes that write the same file do not mix their content.
    """
    for abandoned in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with suppress(OSError):  # in use, or removed by another process
            if os.name == "nt":
                abandoned.unlink()  # fails while it is open
            elif fcntl is not None:
                with abandoned.open("r+b") as unlocked:
                    fcntl.flock(unlocked, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    abandoned.unlink()
    part, file = _open_locked(target)
    try:
        with file:
            yield part, file
    except (Exception, KeyboardInterrupt):
        part.unlink(missing_ok=True)
        raise
    part.unlink(missing_ok=True)


def _open_locked(target: Path) -> tuple[Path, IO[bytes]]:
    """Open a new hidden file beside ``target`` and lock it."""
    while True:
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        file = part.open("x+b")
        if fcntl is not None:
            with suppress(OSError):  # where files cannot be locked, none is removed either
                fcntl.flock(file, fcntl.LOCK_EX)
        if part.exists():  # not removed by another process before it was locked
            return part, file
        file.close()


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file so that it exists complete or not at all, even after a crash."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def output_file(path: Path) -> Iterator[IO[bytes]]:
    """`atomic_file` for a file that a user names: an error of the disk is an `InvalidParameter`."""
    if "\0" in str(path):
        raise InvalidParameter(f"cannot write {str(path)!r}: a name has no zero bytes.")
    try:
        with atomic_file(path) as file:
            yield file
    except OSError as error:
        raise InvalidParameter(
            f"cannot write {path}: {error.strerror or error}. Choose another path."
        ) from None
