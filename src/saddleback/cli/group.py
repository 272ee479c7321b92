"""The command group: a static table of commands, so that ``--help`` imports none of them."""

from __future__ import annotations

import errno
import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from saddleback import __version__
from saddleback._registry import check_name
from saddleback.cli.completion import add_completion
from saddleback.cli.progress import close_display, messages_shown
from saddleback.cli.terminal import echo
from saddleback.errors import SaddlebackError, UnknownName

COMMANDS = {
    "quickstart": "Guided tour on synthetic data (under a minute).",
    "check": "Summarise and validate a log.",
    "evaluate": "Estimate a policy's value, and judge the estimate.",
    "explain": "Show a saved result, with every check.",
    "rank": "Rank policies against the logged one.",
    "stats": "Precompute mergeable statistics of a log.",
    "merge": "Combine statistics from several logs.",
    "analyse": "Stability, rate and step sizes of a rule on a problem.",
    "sweep": "Run a resumable study of rules, problems and step sizes.",
    "report": "Write results as an HTML page.",
    "explorer": "Write an interactive deadly-triad demo (HTML).",
    "paper": "Reproduce the experiments of the GES paper.",
}
"""Name and one-line help of each command, in the order of the list."""

HEADINGS = {
    "quickstart": "Getting started",
    "check": "Evaluation of a policy from a log",
    "stats": "Large or growing logs",
    "analyse": "Analysis of known problems",
}
"""Headings of the list of commands, by the first command under each."""


class LazyGroup(click.Group):
    """A group whose commands are imported from ``cmd_NAME`` modules when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"saddleback.cli.cmd_{cmd_name}")
        module.command.short_help = COMMANDS[cmd_name]  # shown by shell completion
        return add_completion(module.command, **getattr(module, "COMPLETIONS", {}))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the closest name."""
        try:
            check_name("command", args[0], COMMANDS)
        except UnknownName as error:
            raise click.UsageError(str(error), ctx) from None
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table under its headings, without importing any command."""
        sections: list[tuple[str, list[tuple[str, str]]]] = []
        for name, help_line in COMMANDS.items():
            if name in HEADINGS:
                sections.append((HEADINGS[name], []))
            sections[-1][1].append((name, help_line))
        width = max(map(len, COMMANDS))
        for heading, rows in sections:
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, line in rows])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; bad input prints one sentence and exits with 2, Ctrl-C with 130."""
        from saddleback.cli.messages import as_option, echo_message, wrap_message

        try:
            with messages_shown(), _interrupted_imports():
                return super().invoke(ctx)
        except click.UsageError as error:
            message = wrap_message(error.format_message(), first=len("Error: "))
            raise click.UsageError(message, error.ctx) from None
        except SaddlebackError as error:
            echo_message(f"error: {error.render(as_option)}", err=True)
            sys.exit(2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of the pipe has gone: click handles it
                raise
            path = f"{error.filename}: " if error.filename else ""
            echo_message(f"error: {path}{error.strerror or error}.", err=True)
            sys.exit(2)
        except MemoryError as error:
            reason = f" ({error})" if str(error) else ""
            echo_message(f"error: not enough memory{reason}. Use fewer features.", err=True)
            sys.exit(2)
        except (KeyboardInterrupt, click.Abort):
            close_display()
            kept = "; finished tasks are kept" if ctx.invoked_subcommand == "paper" else ""
            echo(f"interrupted{kept}.", err=True)
            sys.exit(130)


@contextmanager
def _interrupted_imports() -> Iterator[None]:
    """Raise KeyboardInterrupt for any error after Ctrl-C: one during an import may become that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _cite(ctx: click.Context, parameter: click.Parameter, name: str | None) -> None:
    """Print the citations of a file, of a folder, or of the software if the name is empty."""
    if name is None or ctx.resilient_parsing:
        return
    from saddleback.cli.cite import citations

    try:
        echo(citations(Path(name) if name else None))
    except SaddlebackError as error:
        echo(f"error: {error}", err=True)
        ctx.exit(2)
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="saddleback %(version)s")
@click.option(
    "--cite", metavar="[RESULT]", is_flag=False, flag_value="", is_eager=True, expose_value=False,
    callback=_cite, help="Print BibTeX for the methods of a result or study.",
)  # fmt: skip
def group() -> None:
    """Estimate a policy's value from data logged under another policy.

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
      0    success; evaluate: all estimates usable; rank: a candidate beats
           the baseline
      2    invalid usage or data, or a file that cannot be read or written
      3    evaluate: an estimate is refused; rank: all are refused
      4    evaluate: an estimate is doubtful; rank: none is usable
      5    rank: some are usable, but none beats the baseline
      130  interrupted

    Help for a command: saddleback evaluate --help.
    """
