"""Files of a command: what the inputs hold, and whether the outputs can be written.

Loads nothing heavy.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from saddleback._json import saved_kind
from saddleback._paths import check_writable, expand_pattern, log_files
from saddleback.errors import Fix, InvalidParameter

PAGE_SUFFIXES = (".html", ".htm")


def check_outputs(
    *files: str | os.PathLike[str] | None,
    page: Path | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
    specs: Iterable[str | None] = (),
) -> None:
    """Refuse, before any work, to overwrite an input or to write where that is impossible.

    Parameters
    ----------
    files, page
        Output files, None if not requested; the name of an HTML page must end in .html.
    inputs
        Input files; folders and patterns stand for the files of a log.
    specs
        Policies and features; ``module.py:name`` names an input file, too.
    """
    read = [
        file for name in inputs for path in expand_pattern(str(name)) for file in log_files(path)
    ]
    modules = [spec.rpartition(":")[0] for spec in specs if spec is not None]
    read += [path for path in modules if path.endswith(".py")]
    outputs = [Path(file) for file in (*files, page) if file is not None]
    for out in outputs:
        if any(Path(file).exists() and out.exists() and out.samefile(file) for file in read):
            raise InvalidParameter(f"{out} is also an input file; choose a different output.")
    if page is not None and page.name and page.suffix not in PAGE_SUFFIXES and not page.is_dir():
        raise InvalidParameter(f"cannot write {page}: the name of a page must end in .html.")
    if len({out.resolve() for out in outputs}) < len(outputs):
        raise InvalidParameter(f"{outputs[0]} is given for two outputs; choose different files.")
    for out in outputs:
        check_writable(out, ".html" if out == page else "")


def prepare_folder(out: Path) -> None:
    """Create the output folder and check that it is writable, before any computation."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InvalidParameter(
            f"cannot write into {out}: {error.strerror}.", Fix("Choose another folder", "out")
        ) from None


def file_kind(path: str | os.PathLike[str]) -> str | None:
    """Return "a log" or "statistics", even for a truncated file; None for any other file."""
    try:
        with Path(path).open("rb") as file:
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
    has_suffix = Path(path).suffix == ".stats"
    return "statistics" if has_suffix or magic == b"PK\3\4" else None


def holds_result(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a saved result, as `saddleback explain` reads it."""
    try:
        with Path(path).open("rb") as file:
            return saved_kind(file.read(1000)) == "evaluation"
    except OSError:
        return False


def statistics_files(files: Sequence[str]) -> list[str]:
    """Return the files that hold statistics; a missing file is judged by its suffix."""
    return [
        name for name in files
        if file_kind(name) == "statistics" or (name.endswith(".stats") and not Path(name).exists())
    ]  # fmt: skip
