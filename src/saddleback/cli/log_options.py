"""Options shared by the commands that read logs."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from saddleback.cli.file_kinds import file_kind
from saddleback.cli.progress import write_line
from saddleback.errors import InvalidParameter

if TYPE_CHECKING:
    from saddleback.log import Behaviour, Log


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading a log, and announce the files before they are read."""

    @functools.wraps(command)
    def announced(**options: Any) -> Any:
        if not options.get("quiet"):
            announce("reading", options["files"])
        return command(**options)

    for add in reversed(
        [
            click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path()),
            click.option("--obs", "observations", help="Observation columns: hr,bp,lactate."),
            click.option("--actions", help="Action names, in order: none,low,high."),
            click.option(
                "--column",
                "columns",
                multiple=True,
                metavar="ROLE=NAME",
                help="Map a standard column to yours: reward=cost (repeatable).",
            ),
            click.option("--min-prob", type=float, help="Clip propensities from below at this."),
            click.option("--drop-bad", is_flag=True, help="Drop episodes with NaN or infinities."),
            click.option(
                "--drop-autoreset", is_flag=True, help="Drop rows left by automatic resets."
            ),
            click.option(
                "--time-limit",
                type=click.Choice(["artifact", "task"]),
                default="artifact",
                show_default=True,
                help="Whether truncation is an artifact of logging or part of the task.",
            ),
            click.option(
                "--estimate-behaviour",
                type=click.Choice(["counts", "logistic"]),
                help="Estimate propensities with this model, instead of any logged ones.",
            ),
        ]
    ):
        announced = add(announced)
    return announced


def announce(verb: str, files: Sequence[str]) -> None:
    """Announce on standard error which files are processed, before anything heavy is loaded.

    On a terminal the progress bar does so, and leaves nothing above the answer.
    """
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    click.echo(f"{verb} {files[0]}{more} …", err=True)


LOG_OPTIONS = (
    "files",
    "observations",
    "actions",
    "columns",
    "min_prob",
    "drop_bad",
    "drop_autoreset",
    "time_limit",
    "estimate_behaviour",
)


def open_log(options: dict[str, Any]) -> Log:
    """Open the log that the options describe, removing them from ``options``."""
    values = {name: options.pop(name) for name in LOG_OPTIONS}
    for name in values["files"]:
        if file_kind(name) == "statistics":
            raise InvalidParameter(
                f"{name} holds statistics, not a log: use saddleback evaluate, rank or merge."
            )
    from saddleback.log import Log, estimate_behaviour

    columns = {}
    for mapping in values["columns"]:
        role, separator, name = mapping.partition("=")
        if not separator:
            raise click.UsageError(f"--column {mapping}: write ROLE=NAME, such as reward=cost.")
        columns[role] = name
    log = Log(
        list(values["files"]),
        observations=values["observations"].split(",") if values["observations"] else None,
        columns=columns or None,
        actions=values["actions"].split(",") if values["actions"] else None,
        min_prob=values["min_prob"],
        drop_bad="episode" if values["drop_bad"] else None,
        drop_autoreset=values["drop_autoreset"],
        time_limit=values["time_limit"],
    )
    if values["estimate_behaviour"]:
        behaviour = estimate_behaviour(log, values["estimate_behaviour"])
        _print_calibration(behaviour)
        return behaviour.log
    return log


def _print_calibration(behaviour: Behaviour) -> None:
    """Print the calibration of estimated propensities on held-out episodes."""
    write_line(f"propensities estimated: {behaviour.description};")
    write_line("  calibration on held-out episodes:")
    for row in behaviour.calibration.to_pylist():
        if row["pairs"]:
            predicted = f"{row['from']:.1f}-{row['to']:.1f}: predicted {row['estimated']:.3f}"
            write_line(f"  {predicted}, observed {row['taken']:.3f} (n = {row['pairs']:,})")


def default_threads() -> int:
    """Return the number of cores."""
    return os.cpu_count() or 1
