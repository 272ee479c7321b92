"""The commands, by a static table, so that ``--help`` loads none of them."""

from __future__ import annotations

import errno
import importlib
import sys
from typing import Any

import click

from saddleback import __version__
from saddleback._registry import check_name
from saddleback.cli.completion import completed
from saddleback.cli.progress import messages_shown
from saddleback.errors import SaddlebackError, UnknownName

COMMANDS = {
    "quickstart": "From a log to an answer, on a made-up log, in seconds.",
    "check": "What a log holds, and all that is wrong with it.",
    "evaluate": "The value of a policy, from a log, and whether to trust it.",
    "explain": "Tell a saved result again.",
    "rank": "Many policies against the logged one, from a log.",
    "stats": "Sum a log up, to merge and evaluate later.",
    "merge": "Add the statistics of several logs up.",
    "analyse": "Is a rule stable on a problem, and with which step sizes?",
    "sweep": "A study: rules, problems, step sizes, runs; kept and resumed.",
    "report": "Results as a page for the browser.",
    "explorer": "The deadly triad, moved by hand in a browser.",
    "paper": "Run the paper's experiments; figures and tables.",
}
"""Name and one-line help of each command, in the order people meet them."""

JOBS = {
    "quickstart": "First",
    "check": "You have a log and a candidate policy",
    "stats": "Logs that grow, larger than memory",
    "analyse": "Rules on problems you know",
}
"""Headings of the list of commands, each before the command that it names."""


class LazyGroup(click.Group):
    """A group whose commands live in modules of the same name, loaded when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command's module."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"saddleback.cli.cmd_{cmd_name}")
        module.command.short_help = COMMANDS[cmd_name]  # what a shell shows beside the name
        return completed(module.command, **getattr(module, "WORDS", {}))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest."""
        try:
            check_name("command", args[0], COMMANDS)
        except UnknownName as error:
            raise click.UsageError(str(error), ctx) from None
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, job by job, without loading anything."""
        jobs: list[tuple[str, list[tuple[str, str]]]] = []
        for name, help_line in COMMANDS.items():
            if name in JOBS:
                jobs.append((JOBS[name], []))
            jobs[-1][1].append((name, help_line))
        width = max(map(len, COMMANDS))
        for job, rows in jobs:
            with formatter.section(job):
                formatter.write_dl([(name.ljust(width), line) for name, line in rows])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; bad input is a sentence and exit status 2, Ctrl-C is 130."""
        from saddleback.cli.message_format import fitted, tell

        try:
            with messages_shown():
                return super().invoke(ctx)
        except click.UsageError as error:
            said = fitted(error.format_message(), first=len("Error: "))
            raise click.UsageError(said, error.ctx) from None
        except SaddlebackError as error:
            tell(f"error: {error}", err=True)
            sys.exit(2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader has gone: click knows what to do
                raise
            place = f"{error.filename}: " if error.filename else ""
            tell(f"error: {place}{error.strerror or error}.", err=True)
            sys.exit(2)
        except (KeyboardInterrupt, click.Abort):
            kept = "; finished tasks are kept" if ctx.invoked_subcommand == "paper" else ""
            click.echo(f"interrupted{kept}.", err=True)
            sys.exit(130)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="saddleback %(version)s")
def group() -> None:
    """Off-policy evaluation: how good is a policy, judged by another's data?

    \b
    Examples:
      saddleback quickstart
      saddleback check visits.parquet --gamma 0.97
      saddleback evaluate visits.parquet --target new.py:probs --gamma 0.97
      saddleback analyse two_state --gamma 0.999 --lam 0.9 --rule GES
      saddleback sweep study.toml --plan
      saddleback paper all

    \b
    Exit status:
      0    done; of evaluate: usable; of rank: a candidate beats the baseline
      2    bad usage, bad data, or a file that cannot be read or written
      3    evaluate: an answer is refused; rank: all are
      4    evaluate: an answer is doubtful; rank: none is usable
      5    rank: some are usable, but none beats the baseline
      130  interrupted

    Each command has its own help: saddleback evaluate --help.
    """
