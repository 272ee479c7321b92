"""Options that say where work is done, and what is said when it is interrupted."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click


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
    """Refuse two places to work."""
    if dask is not None and workers is not None:
        raise click.UsageError("Give --workers or --dask, not both.")


def apart(out: str | os.PathLike[str] | None, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to write over what is read."""
    if out is None or not os.path.exists(out):
        return
    for each in inputs:
        if os.path.exists(each) and os.path.samefile(each, out):
            raise click.UsageError(f"{out} is what is read: write to another file.")


def typed() -> str:
    """Return the command as it was typed."""
    return shlex.join(["saddleback", *sys.argv[1:]])


@contextmanager
def resumable() -> Iterator[None]:
    """On Ctrl-C say that nothing is lost and how to go on, and leave at once."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"interrupted; what is finished is kept. Go on with:\n  {typed()}", err=True)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # Threads cannot be stopped, and need not be waited for: a shard is whole or absent.
        os._exit(130)
