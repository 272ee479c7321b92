"""The commands, by a static table, so that ``--help`` loads none of them."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from saddleback import __version__
from saddleback._names import known
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
    "explorer": "The deadly triad, moved by hand in a browser.",
    "paper": "Run the paper's experiments; figures and tables.",
    "report": "Results as a page for the browser.",
}
"""Name and one-line help of each command, in the order people meet them."""


class LazyGroup(click.Group):
    """A group whose commands live in modules of the same name, loaded when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command's module."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"saddleback.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest."""
        try:
            known("command", args[0], COMMANDS)
        except UnknownName as error:
            raise click.UsageError(str(error), ctx) from None
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without loading anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; bad input is one line and exit status 2, Ctrl-C is 130."""
        try:
            return super().invoke(ctx)
        except SaddlebackError as error:
            from saddleback.commands.typed import as_typed

            click.echo(f"error: {as_typed(str(error))}", err=True)
            sys.exit(2)
        except KeyboardInterrupt:
            kept = "; what is finished is kept" if ctx.invoked_subcommand == "paper" else ""
            click.echo(f"interrupted{kept}.", err=True)
            sys.exit(130)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="saddleback %(version)s")
def group() -> None:
    """Off-policy evaluation with linear function approximation.

    \b
    Examples:
      saddleback quickstart
      saddleback check visits.parquet --gamma 0.97
      saddleback evaluate visits.parquet --target new.py:probs --gamma 0.97
      saddleback analyse two_state --gamma 0.999 --lam 0.9 --rule GES
      saddleback paper all
    """
