"""Options that several commands share, and resumption after Ctrl-C."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from saddleback.cli.progress import close_display
from saddleback.cli.terminal import echo

quiet_option = click.option("--quiet", is_flag=True, help="Do not show progress.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
rule_option = click.option(
    "--rule", metavar="NAME[:λ]",
    help="Rule whose TD fixed point LSTD solves for.  [default: GRetrace:0.5]",
)  # fmt: skip
ridge_option = click.option(
    "--ridge", default=0.0, help="Ridge, relative to the scale of each feature."
)
horizon_option = click.option(
    "--horizon", type=click.IntRange(min=1), metavar="H",
    help="Steps after which the task ends.  [default: none, or the time limit of the task]",
)  # fmt: skip
costs_option = click.option("--lower-is-better", is_flag=True, help="Rewards are costs.")


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options to a command, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


executor_options = together(
    click.option(
        "--workers", type=click.IntRange(min=1), metavar="N",
        help="Number of threads; does not affect results.  [default: one per core]",
    ),
    click.option("--dask", metavar="ADDRESS", help="Run on the cluster of this Dask scheduler."),
    quiet_option,
)  # fmt: skip
"""--workers, --dask and --quiet."""


def default_threads() -> int:
    """Return the number of cores."""
    return os.cpu_count() or 1


def check_executor_options(workers: int | None, dask: str | None) -> None:
    """Refuse --workers together with --dask, and an empty address."""
    if dask is not None and workers is not None:
        raise click.UsageError("Give --workers or --dask, not both.")
    if dask is not None and not dask.strip():
        raise click.UsageError("--dask is empty: give the address of a scheduler, tcp://HOST:8786.")


def command_line() -> str:
    """Return the command line as it was typed; bytes that are not text as escapes."""
    typed = shlex.join(["saddleback", *sys.argv[1:]])
    return typed.encode(errors="backslashreplace").decode()


@contextmanager
def resumable() -> Iterator[None]:
    """On Ctrl-C print how to resume, and exit at once."""
    try:
        yield
    except KeyboardInterrupt:
        close_display()
        echo(f"interrupted; finished tasks are kept. Resume with:\n  {command_line()}", err=True)
        sys.exit(130)  # threads are not waited for: a shard is complete or absent
