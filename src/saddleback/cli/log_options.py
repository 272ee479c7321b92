"""Options that all commands on logs share."""

from __future__ import annotations

import functools
import json
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from saddleback._json import plain
from saddleback.errors import InvalidParameter

if TYPE_CHECKING:
    from saddleback.log import Behaviour, Log


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments that say how to read a log, and say at once that it is read."""

    @functools.wraps(command)
    def announced(**options: Any) -> Any:
        if not options.get("quiet"):
            announce("reading", options["files"])
        return command(**options)

    for add in reversed(
        [
            click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path()),
            click.option("--obs", help="Columns of the observation: hr,bp,lactate."),
            click.option("--actions", help="Names of the actions in order: none,low,high."),
            click.option(
                "--column",
                multiple=True,
                metavar="ROLE=NAME",
                help="Another name of a column: reward=cost.",
            ),
            click.option("--min-prob", type=float, help="Raise smaller propensities to this."),
            click.option("--drop-bad", is_flag=True, help="Drop episodes with NaN or infinities."),
            click.option(
                "--drop-autoreset", is_flag=True, help="Drop rows left by automatic resets."
            ),
            click.option(
                "--time-limit",
                type=click.Choice(["artifact", "task"]),
                default="artifact",
                show_default=True,
                help="Whether a truncated episode would have gone on.",
            ),
            click.option(
                "--estimate-behaviour",
                type=click.Choice(["counts", "logistic"]),
                help="Estimate propensities that were not logged.",
            ),
        ]
    ):
        announced = add(announced)
    return announced


def announce(verb: str, files: Sequence[str]) -> None:
    """Say on standard error what is done with which files, before anything heavy is loaded.

    On a terminal the bar does that, and leaves nothing above the answer.
    """
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    click.echo(f"{verb} {files[0]}{more} …", err=True)


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Say what kind of file this is if it is a log or statistics, whole or cut short."""
    try:
        with open(path, "rb") as file:
            first = file.read(4)
        if first == b"PAR1":
            return "a log"
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as found:
                return "statistics" if "active.npy" in found.namelist() else None
    except zipfile.BadZipFile:
        pass
    except OSError:
        return None
    named = os.path.splitext(path)[1] == ".stats"
    return "statistics" if named or first == b"PK\3\4" else None


def statistics_in(files: Sequence[str]) -> list[str]:
    """Return those of the files that hold statistics, or would by their name if they were there."""
    return [
        name for name in files
        if kind_of(name) == "statistics" or (name.endswith(".stats") and not os.path.exists(name))
    ]  # fmt: skip


LOG_OPTIONS = (
    "files",
    "obs",
    "actions",
    "column",
    "min_prob",
    "drop_bad",
    "drop_autoreset",
    "time_limit",
    "estimate_behaviour",
)


def open_log(options: dict[str, Any]) -> Log:
    """Open the log that the options describe, taking them out of ``options``."""
    given = {name: options.pop(name) for name in LOG_OPTIONS}
    for name in given["files"]:
        if kind_of(name) == "statistics":
            raise InvalidParameter(
                f"{name} holds statistics, not a log: saddleback evaluate, rank and merge read "
                "them."
            )
    from saddleback.log import Log, estimate_behaviour

    columns = {}
    for each in given["column"]:
        role, found, name = each.partition("=")
        if not found:
            raise click.UsageError(f"--column {each}: write ROLE=NAME, such as reward=cost.")
        columns[role] = name
    log = Log(
        list(given["files"]),
        observations=given["obs"].split(",") if given["obs"] else None,
        columns=columns or None,
        actions=given["actions"].split(",") if given["actions"] else None,
        min_prob=given["min_prob"],
        drop_bad="episode" if given["drop_bad"] else None,
        drop_autoreset=given["drop_autoreset"],
        time_limit=given["time_limit"],
    )
    if given["estimate_behaviour"]:
        found = estimate_behaviour(log, given["estimate_behaviour"])
        _calibrated(found)
        return found.log
    return log


def _calibrated(found: Behaviour) -> None:
    """Say how well estimated propensities fit, on episodes that they were not fitted to."""
    click.echo(f"propensities estimated: {found.how}; on episodes held out,", err=True)
    for row in found.calibration.to_pylist():
        if row["pairs"]:
            said = f"{row['from']:.1f}-{row['to']:.1f}: estimated {row['estimated']:.3f}"
            click.echo(f"  {said}, taken {row['taken']:.3f} ({row['pairs']:,} pairs)", err=True)


def as_json(value: Any) -> str:
    """Return JSON text that any parser reads."""
    return json.dumps(plain(value), ensure_ascii=False, indent=1, allow_nan=False)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments that say what is evaluated, and with which features."""
    for add in reversed(
        [
            click.option(
                "--target",
                "targets",
                multiple=True,
                metavar="[NAME=]POLICY",
                help="module.py:function, columns[:PREFIX], uniform, always:ACTION, "
                "pump:PROBABILITY, logged; again for several.",
            ),
            click.option("--gamma", type=float, help="Discount.  [default: the log's own]"),
            click.option(
                "--features",
                help="tiles:8x8, hash:4096, rbf:200, fourier:3, polynomial:2, "
                "states, given, module.py:name.  [default: by the columns]",
            ),
            click.option("--low", help="Lower corner of the features' box: -1.2,-0.07."),
            click.option("--high", help="Upper corner.  [default: the range of the log]"),
            click.option("--shared", is_flag=True, help="Add features that all actions share."),
            click.option(
                "--allow-uncovered",
                is_flag=True,
                help="Warn where the target takes actions that the log never takes.",
            ),
        ]
    ):
        command = add(command)
    return command


TARGET_OPTIONS = (
    "targets",
    "gamma",
    "features",
    "low",
    "high",
    "shared",
    "allow_uncovered",
)


def named(targets: tuple[str, ...]) -> dict[str, str]:
    """Return target policies by name."""
    found: dict[str, str] = {}
    for each in targets:
        name, equals, policy = each.partition("=")
        is_name = equals and not set("/.:") & set(name)
        key, value = (name, policy) if is_name else (os.path.basename(each), each)
        if key in found:
            raise click.UsageError(f"--target {each}: the name {key!r} is taken already.")
        found[key] = value
    return found


def corner(text: str | None, log: Log, name: str) -> Any:
    """Return a corner of a box from text."""
    if text is None:
        return None
    import numpy as np

    try:
        found = np.array([float(each) for each in text.split(",")])
    except ValueError:
        raise click.UsageError(f"--{name} {text}: write numbers, -1.2,-0.07.") from None
    if len(found) != log.dimensions:
        raise click.UsageError(
            f"--{name} {text}: {len(found)} numbers for observations of {log.dimensions} entries."
        )
    return found


def threads() -> int:
    """How many threads to use: as many as there are cores."""
    return os.cpu_count() or 1
