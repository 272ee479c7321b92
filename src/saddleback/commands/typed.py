"""What a message of the library says in Python, as it is typed on the command line."""

from __future__ import annotations

import re

import click

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
    (r"\(blocks=1\)", "(--blocks 1)"),
    (r"method 'svrg'", "--method svrg"),
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


def tell(message: str, err: bool = False) -> None:
    """Print a message as it would be typed, in lines that fit a terminal."""
    text = as_typed(message)
    click.echo(click.formatting.wrap_text(text, 79, subsequent_indent="  "), err=err)
