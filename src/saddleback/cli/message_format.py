"""What a message of the library says in Python, as it is typed on the command line."""

from __future__ import annotations

import re
import textwrap

import click

from saddleback.cli.terminal import text_width

TYPED = (
    (r"pass min_prob=…", "pass --min-prob …"),
    (r'drop_bad="episode"', "--drop-bad"),
    (r"pass drop_autoreset=True", "pass --drop-autoreset"),
    (r'time_limit="(\w+)"', r"--time-limit \1"),
    (r"columns=\{'(\w+)': …\}", r"--column \1=NAME"),
    (r"observations=\[…\]", "--obs …"),
    (r"actions=\[…\]", "--actions …"),
    (r"estimate_behaviour\(log\)( can estimate (it|them all))?", r"--estimate-behaviour counts"),
    (r"use DM only \(allow_uncovered\)", "evaluate all the same (--allow-uncovered)"),
    (r"give one, gamma=", "give one, --gamma "),
    (r"\(blocks=(\d+)\)", r"(--blocks \1)"),
    (r"method 'svrg'", "--method svrg"),
    (r"hoose another output folder", "hoose another folder with --out"),
    (r"choose another output file", "choose another --out"),
    (r"in threads of this machine", "with --workers"),
    (r"Log\(…, behaviour=function\)", "Log(…, behaviour=function) in Python"),
)


def as_typed(message: str) -> str:
    """Return a message with options in place of arguments.

    Examples
    --------
    >>> as_typed("E101 … Fix the log or pass min_prob=…")
    'E101 … Fix the log or pass --min-prob …'
    """
    for python, typed in TYPED:
        message = re.sub(python, typed, message)
    return message


def fitted(message: str, first: int = 0) -> str:
    """Return a message as it would be typed, each of its lines broken so that it fits a terminal.

    ``first`` columns are taken already in the first line.

    Examples
    --------
    >>> print(fitted("a log that is good\\n" + "word " * 20))
    a log that is good
    word word word word word word word word word word word word word word word word
      word word word word
    """
    lines = (" " * first + as_typed(message)).split("\n")
    broken = (
        textwrap.fill(
            line,
            text_width(),
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )
    return "\n".join(broken)[first:]


def tell(message: str, err: bool = False) -> None:
    """Print a message as it would be typed, in lines that fit a terminal."""
    click.echo(fitted(message), err=err)
