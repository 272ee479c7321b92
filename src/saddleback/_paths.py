"""Files: which ones a name stands for, and whether one can be written. Loads nothing heavy."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from saddleback.errors import InvalidParameter


def matching(name: str) -> list[str]:
    """Return the files and folders that a name stands for: itself, or those that it matches.

    Examples
    --------
    >>> matching("day1.parquet"), matching("nowhere/*.parquet")
    (['day1.parquet'], [])
    """
    return sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else [name]


def within(name: str) -> list[str]:
    """Return the Parquet files of a folder; of a file that alone."""
    if not os.path.isdir(name):
        return [name]
    return sorted(map(str, Path(name).glob("*.parquet")))


def writable(path: Path, ending: str = "") -> None:
    """Refuse, before any work, a path that no file can be written to.

    ``ending`` is what its name would usually end in.

    Examples
    --------
    >>> writable(Path(""))
    Traceback (most recent call last):
    ...
    saddleback.errors.InvalidParameter: cannot write '.': give the file a name.
    """
    if not path.name:
        raise InvalidParameter(f"cannot write {str(path)!r}: give the file a name.")
    try:
        if path.is_dir():
            raise InvalidParameter(
                f"cannot write {path}: it is a folder. Name a file, such as {path / 'new'}{ending}."
            )
        if not path.parent.is_dir():
            raise InvalidParameter(
                f"cannot write {path}: there is no folder {path.parent}. Make it first."
            )
        behind = path.resolve()  # of a link, which may lead to nothing yet
        there = behind.exists()
        if there and not behind.is_file():  # a device or a pipe, which opening would change
            return
        with behind.open("ab"):
            pass
        if not there:
            behind.unlink()
    except OSError as error:
        raise InvalidParameter(
            f"cannot write {path}: {error.strerror}. Choose another place."
        ) from None
