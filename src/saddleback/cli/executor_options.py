"""Where work is done and written to, and what is said when it is interrupted."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from saddleback._paths import check_writable, expand_pattern, parquet_files
from saddleback.errors import InvalidParameter


def work_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where work is done."""
    for add in (
        click.option("--quiet", is_flag=True, help="No progress."),
        click.option(
            "--dask", metavar="ADDRESS", help="Work on the cluster of this Dask scheduler."
        ),
        click.option(
            "--workers", type=click.IntRange(min=1), metavar="N",
            help="Threads to work in; results do not depend on it.  [default: one a core]",
        ),
    ):  # fmt: skip
        command = add(command)
    return command


def one_place(workers: int | None, dask: str | None) -> None:
    """Refuse two places to work, and none."""
    if dask is not None and workers is not None:
        raise click.UsageError("Give --workers or --dask, not both.")
    if dask is not None and not dask.strip():
        raise click.UsageError("--dask is empty: give the address of a scheduler, tcp://HOST:8786.")


PAGE = (".html", ".htm")
"""What the name of a page ends in."""


def check_outputs(
    *files: str | os.PathLike[str] | None,
    page: Path | None = None,
    read: Iterable[str | os.PathLike[str]] = (),
    own: Iterable[str | None] = (),
) -> None:
    """Refuse, before any work, to write over what is read, or where nothing can be written.

    Parameters
    ----------
    files, page
        What is to be written, None if it is not; the name of a page ends in .html.
    read
        What is read; folders and patterns stand for the files of a log.
    own
        Policies and features: ``[NAME=]module.py:name`` is read from a file, too.
    """
    inputs = [
        file for name in read for each in expand_pattern(str(name)) for file in parquet_files(each)
    ]
    inputs += [file for word in own if word is not None for file in _modules(word)]
    outs = [Path(each) for each in (*files, page) if each is not None]
    for out in outs:
        if any(os.path.exists(each) and out.exists() and out.samefile(each) for each in inputs):
            raise InvalidParameter(f"{out} is what is read: write to another file.")
    if page is not None and page.name and page.suffix not in PAGE and not page.is_dir():
        raise InvalidParameter(f"cannot write {page}: a page is a file that ends in .html.")
    if len({out.resolve() for out in outs}) < len(outs):
        raise InvalidParameter(f"{outs[0]} is named for two things: write to two files.")
    for out in outs:
        check_writable(out, ".html" if out == page else "")


def _modules(word: str) -> list[str]:
    """Return the Python file that a word names, with a name before it or not."""
    path = word.rpartition(":")[0]
    return [each for each in (path, path.partition("=")[2]) if each.endswith(".py")]


def typed() -> str:
    """Return the command as it was typed."""
    return shlex.join(["saddleback", *sys.argv[1:]])


@contextmanager
def resumable() -> Iterator[None]:
    """On Ctrl-C say that nothing is lost and how to go on, and leave at once."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"interrupted; finished tasks are kept. Resume with:\n  {typed()}", err=True)
        sys.exit(130)  # threads are not waited for: a shard is whole or absent
