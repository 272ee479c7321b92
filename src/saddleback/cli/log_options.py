"""Options of the commands that read logs, and the log that they describe."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from saddleback.cli.files import file_kind, holds_result, statistics_files
from saddleback.cli.lists import LIST, complete_column
from saddleback.cli.options import together
from saddleback.cli.progress import write_line
from saddleback.cli.terminal import echo
from saddleback.errors import InvalidParameter

if TYPE_CHECKING:
    from saddleback.log import Behaviour, Log

SETTINGS = (
    "observations", "categorical", "actions", "columns", "order_by", "episodes_end", "fill_reward",
    "reward_values", "min_prob", "drop_bad", "drop_autoreset", "time_limit", "bandit",
)  # fmt: skip
"""Options that are parameters of `saddleback.Log`."""


@dataclass(frozen=True)
class LogFiles:
    """The files of a command, and how to read them as a log."""

    files: tuple[str, ...]
    settings: dict[str, Any]
    estimate_behaviour: Literal["counts", "logistic", "boosting"] | None

    def open(self) -> Log:
        """Open the log; estimate its propensities if that was requested."""
        for name in self.files:
            if file_kind(name) == "statistics":
                raise InvalidParameter(
                    f"{name} holds statistics, not a log: use saddleback evaluate, rank or merge."
                )
            if holds_result(name):
                raise InvalidParameter(
                    f"{name} holds a result, not a log: use saddleback explain {name}."
                )
        from saddleback.log import Log, estimate_behaviour

        log = Log(list(self.files), **self.settings)
        if self.estimate_behaviour is None:
            return log
        behaviour = estimate_behaviour(log, self.estimate_behaviour)
        _print_calibration(behaviour)
        return behaviour.log

    def statistics_file(self, allowed: Container[str]) -> str | None:
        """Return the file if it holds statistics; refuse several, and options for logs.

        ``allowed`` are the parameters that do not depend on the log.
        """
        files = statistics_files(self.files)
        if not files:
            return None
        if len(self.files) > 1:
            raise click.UsageError(
                "Only one statistics file can be evaluated: merge them first with saddleback merge."
            )
        context = click.get_current_context()
        for parameter in context.command.params:
            name = str(parameter.name)
            source = context.get_parameter_source(name)
            if source == click.core.ParameterSource.COMMANDLINE and name not in allowed:
                raise click.UsageError(
                    f"{parameter.opts[-1]} applies to logs only; it is fixed in a statistics file."
                )
        return files[0]


def _parse_columns(
    context: Any, parameter: Any, mappings: tuple[str, ...]
) -> dict[str, str] | None:
    """Return names of columns by role."""
    columns = {}
    for mapping in mappings:
        role, separator, name = mapping.partition("=")
        if not separator:
            raise click.UsageError(f"--column {mapping}: write ROLE=NAME, such as reward=cost.")
        columns[role] = name
    return columns or None


def _parse_values(
    context: Any, parameter: Any, lists: tuple[list[str], ...]
) -> dict[str, float] | None:
    """Return numbers by the text that they stand for.

    Examples
    --------
    >>> _parse_values(None, None, (["alive, well=1"], ["died=-1"]))
    {'alive, well': 1.0, 'died': -1.0}
    """
    values: dict[str, float] = {}
    for pair in (pair for pairs in lists for pair in pairs or [""]):
        text, separator, number = pair.rpartition("=")
        try:
            values[text] = float(number if separator else "")
        except ValueError:
            raise click.UsageError(
                f"--reward-values {pair or repr(pair)}: write TEXT=NUMBER, such as "
                """died=-1,discharged=1; a text with a comma in quotes: '"alive, well"=1'."""
            ) from None
    return values or None


OPTIONS = together(
    click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path()),
    click.option(
        "--obs", "observations", type=LIST, metavar="NAME,…",
        help="Observation columns: hr,bp,lactate; with commas in quotes: 'hr,\"a, b\"'.",
    ),
    click.option(
        "--categorical", type=LIST, metavar="NAME,…",
        help="Observation columns of codes that are categories; text always is.",
    ),
    click.option(
        "--actions", type=LIST, metavar="NAME,…",
        help="Action names, in order: none,low,high.",
    ),
    click.option(
        "--column", "columns", multiple=True, metavar="ROLE=NAME", callback=_parse_columns,
        shell_complete=complete_column,
        help="Map a standard column to yours: reward=cost (repeatable).",
    ),
    click.option(
        "--order-by", metavar="COLUMN", shell_complete=complete_column,
        help="Sort the rows of each episode by this; they need not be adjacent.",
    ),
    click.option(
        "--episodes-end", type=click.Choice(["terminated", "truncated"]),
        help="How episodes end whose last row has no flag.",
    ),
    click.option(
        "--fill-reward", type=float, metavar="R", help="Reward where it is missing: 0."
    ),
    click.option(
        "--reward-values", multiple=True, type=LIST, callback=_parse_values, metavar="TEXT=R,…",
        help="Reward of each value that is text: died=-1,discharged=1 (repeatable).",
    ),
    click.option("--min-prob", type=float, help="Clip propensities from below at this."),
    click.option(
        "--drop-bad", flag_value="episode", help="Drop episodes with NaN or infinities."
    ),
    click.option(
        "--drop-autoreset", is_flag=True, help="Drop rows left by automatic resets."
    ),
    click.option(
        "--time-limit", type=click.Choice(["artifact", "task"]), default="artifact",
        show_default=True,
        help="Whether truncation is an artifact of logging or part of the task.",
    ),
    click.option(
        "--estimate-behaviour", type=click.Choice(["counts", "logistic", "boosting"]),
        help="Estimate propensities that are missing with this model.",
    ),
)  # fmt: skip
"""The options for reading a log."""


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading a log; pass them on as one argument, ``log``.

    Announces the files before anything heavy is loaded.
    """

    @functools.wraps(command)
    def with_log(files: tuple[str, ...], estimate_behaviour: Any, **options: Any) -> Any:
        if not options.get("quiet"):
            announce("reading", files)
        settings = {name: options.pop(name) for name in SETTINGS if name in options}
        return command(log=LogFiles(files, settings, estimate_behaviour), **options)

    return OPTIONS(with_log)


bandit_option = click.option(
    "--bandit", is_flag=True,
    help="Each row is a decision of its own: no episodes, ends or discount needed.",
)  # fmt: skip


def announce(verb: str, files: Sequence[str]) -> None:
    """Announce on standard error which files are processed, before anything heavy is loaded.

    On a terminal the progress bar does so, and leaves nothing above the answer.
    """
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    echo(f"{verb} {files[0]}{more} …", err=True)


def _print_calibration(behaviour: Behaviour) -> None:
    """Print the calibration of estimated propensities on held-out episodes."""
    write_line(f"propensities estimated: {behaviour.description};")
    write_line("  calibration on held-out episodes:")
    for row in behaviour.calibration.to_pylist():
        if row["pairs"]:
            predicted = f"{row['from']:.1f}-{row['to']:.1f}: predicted {row['estimated']:.3f}"
            write_line(f"  {predicted}, observed {row['taken']:.3f} (n = {row['pairs']:,})")
