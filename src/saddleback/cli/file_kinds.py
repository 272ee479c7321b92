"""Recognition of logs and statistics by the content of a file. Loads nothing heavy."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence


def file_kind(path: str | os.PathLike[str]) -> str | None:
    """Return "a log" or "statistics", even for a truncated file; None for any other file."""
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
        if magic == b"PAR1":
            return "a log"
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return "statistics" if "active.npy" in archive.namelist() else None
    except zipfile.BadZipFile:
        pass
    except OSError:
        return None
    has_suffix = os.path.splitext(path)[1] == ".stats"
    return "statistics" if has_suffix or magic == b"PK\3\4" else None


def statistics_files(files: Sequence[str]) -> list[str]:
    """Return the files that hold statistics; a missing file is judged by its suffix."""
    return [
        name for name in files
        if file_kind(name) == "statistics" or (name.endswith(".stats") and not os.path.exists(name))
    ]  # fmt: skip
