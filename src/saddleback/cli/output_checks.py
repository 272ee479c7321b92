"""Checks of output files before any work: no input is overwritten, and every path is writable."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from saddleback._paths import check_writable, expand_pattern, parquet_files
from saddleback.errors import InvalidParameter

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
        Policies and features; ``[NAME=]module.py:name`` names an input file, too.
    """
    read = [
        file
        for name in inputs
        for path in expand_pattern(str(name))
        for file in parquet_files(path)
    ]
    read += [file for spec in specs if spec is not None for file in _modules(spec)]
    outputs = [Path(file) for file in (*files, page) if file is not None]
    for out in outputs:
        if any(os.path.exists(file) and out.exists() and out.samefile(file) for file in read):
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
            f"cannot write into {out}: {error.strerror}. Choose another folder with --out."
        ) from None


def _modules(spec: str) -> list[str]:
    """Return the Python file of a spec, with or without a name in front of it."""
    path = spec.rpartition(":")[0]
    return [file for file in (path, path.partition("=")[2]) if file.endswith(".py")]
