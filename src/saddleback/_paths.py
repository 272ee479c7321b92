"""Paths: glob expansion, checks before writing, and atomic writes. Loads nothing heavy."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from saddleback.errors import InvalidParameter


def expand_pattern(name: str) -> list[str]:
    """Return the paths that match a glob pattern; a name without wildcards is returned as it is.

    Examples
    --------
    >>> expand_pattern("day1.parquet"), expand_pattern("nowhere/*.parquet")
    (['day1.parquet'], [])
    """
    return sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else [name]


def parquet_files(name: str) -> list[str]:
    """Return the Parquet files in a folder, or a list of the file itself."""
    if not os.path.isdir(name):
        return [name]
    return sorted(map(str, Path(name).glob("*.parquet")))


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
        existed = resolved.exists()
        if existed and not resolved.is_file():  # opening would change a device or a pipe
            return
        with resolved.open("ab"):
            pass
        if not existed:
            resolved.unlink()
    except OSError as error:
        raise InvalidParameter(
            f"cannot write {path}: {error.strerror}. Choose another path."
        ) from None


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces ``path`` when the block ends: complete, or not at all.

    Until then it is ``.NAME.part`` beside it; a file that a killed process left is overwritten. A
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
    temporary = target.with_name(f".{target.name}.part")
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        with temporary.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except (Exception, KeyboardInterrupt):
        temporary.unlink(missing_ok=True)
        raise
    if os.name != "nt":  # makes the new name durable, too; Windows opens no folders
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file so that it exists complete or not at all, even after a crash."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def output_file(path: Path) -> Iterator[IO[bytes]]:
    """`atomic_file` for a file that a user names: an error of the disk is an `InvalidParameter`."""
    try:
        with atomic_file(path) as file:
            yield file
    except OSError as error:
        raise InvalidParameter(
            f"cannot write {path}: {error.strerror or error}. Choose another path."
        ) from None
