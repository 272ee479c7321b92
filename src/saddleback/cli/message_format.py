"""Messages of the library as the command line prints them: options for arguments, wrapped."""

from __future__ import annotations

import re
import textwrap

import click

from saddleback.cli.terminal import text_width

OPTION_PATTERNS = (
    (r"\bmin_prob=…", "--min-prob …"),
    (r'drop_bad="episode"', "--drop-bad"),
    (r"\bdrop_autoreset=True", "--drop-autoreset"),
    (r'time_limit="(\w+)"', r"--time-limit \1"),
    (r"columns=\{'(\w+)': …\}", r"--column \1=NAME"),
    (r"observations=\[…\]", "--obs …"),
    (r"actions=\[…\]", "--actions …"),
    (r"estimate_behaviour\(log\)( can estimate it)?", r"--estimate-behaviour counts"),
    (r"\ballow_uncovered=True", "--allow-uncovered"),
    (r"pass one, gamma=", "pass one, --gamma "),
    (r"\(blocks=(\d+)\)", r"(--blocks \1)"),
    (r"method 'svrg'", "--method svrg"),
    (r"hoose another output folder", "hoose another folder with --out"),
    (r"choose another output file", "choose another --out"),
    (r"in threads of this machine", "with --workers"),
    (r"Log\(…, behaviour=function\)", "Log(…, behaviour=function) in Python"),
)
"""Patterns of Python arguments in messages, and the corresponding options."""


def with_options(message: str) -> str:
    """Return a message with command-line options in place of Python arguments.

    Examples
    --------
    >>> with_options("E101 … Fix the log or pass min_prob=…")
    'E101 … Fix the log or pass --min-prob …'
    """
    for pattern, option in OPTION_PATTERNS:
        message = re.sub(pattern, option, message)
    return message


def wrap_message(message: str, first: int = 0) -> str:
    """Return a message with options, its lines wrapped to the width of the terminal.

    ``first`` columns of the first line are already in use.

    Examples
    --------
    >>> print(wrap_message("a log that is good\\n" + "word " * 20))
    a log that is good
    word word word word word word word word word word word word word word word word
      word word word word
    """
    lines = (" " * first + with_options(message)).split("\n")
    wrapped = (
        textwrap.fill(
            line,
            text_width(),
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )
    return "\n".join(wrapped)[first:]


def echo_message(message: str, err: bool = False) -> None:
    """Print a message with options, wrapped to the width of the terminal."""
    click.echo(wrap_message(message), err=err)
