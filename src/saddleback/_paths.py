"""Paths: glob expansion, checks before writing, and atomic writes. Loads nothing heavy."""

from __future__ import annotations

import glob
import os
from pathlib import Path

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


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file so that it exists complete or not at all, even after a crash."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # makes the new name durable, too
    finally:
        os.close(folder)
