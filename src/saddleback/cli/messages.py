"""Messages of the library as the command line prints them: fixes as options, lines wrapped."""

from __future__ import annotations

import re
import shlex
import textwrap
from typing import Any

import click

from saddleback._display import visible
from saddleback.cli.lists import LIST, join_list
from saddleback.cli.terminal import echo, text_width
from saddleback.errors import Fix


def as_option(fix: Fix) -> str:
    """Return a fix with the option that has its parameter, in this command or another.

    Examples
    --------
    >>> as_option(Fix("Map the column", "columns", {"reward": "…"}))
    'Map the column: saddleback check --column reward=…'
    >>> as_option(Fix("Pass it as a function", "behaviour"))
    'Pass it as a function: behaviour=… in Python.'
    """
    from saddleback.cli.group import COMMANDS, group

    context = click.get_current_context(silent=True) or click.Context(group)
    current = context.invoked_subcommand or context.info_name
    for name in sorted(COMMANDS, key=lambda name: name != current):
        command = group.get_command(context, name)
        for option in command.params if command is not None else ():
            if isinstance(option, click.Option) and (
                option.name == fix.parameter or f"--{fix.parameter}" in option.opts
            ):
                caller = "" if name == current else f"saddleback {name} "
                flag = option.opts[0]
                values = [] if option.is_flag else _as_texts(fix.value, option.type is LIST)
                without = "without " if fix.value is False else ""
                return fix.text(
                    f"{without}{caller}{' '.join(f'{flag} {value}' for value in values) or flag}"
                )
    code = str(fix).removeprefix(f"{fix.advice}: ").removesuffix(".")
    return fix.text(f"{code} in Python")


def _as_texts(value: Any, is_list: bool) -> list[str]:
    """Return a value as it is typed after an option, which takes a list or one at a time.

    Examples
    --------
    >>> print(*_as_texts({"died": -1, "alive, well": 1}, is_list=True))
    'died=-1,"alive, well=1"'
    >>> _as_texts({"action_0": "dose", "action_1": "rate"}, is_list=False)
    ['action_0=dose', 'action_1=rate']
    """
    if isinstance(value, dict):
        value = [f"{name}={text}" for name, text in value.items()]
    texts = list(map(str, value)) if isinstance(value, list) else [str(value)]
    return list(map(_quoted, [join_list(texts)] if is_list else texts))


def _quoted(text: str) -> str:
    """Return a text as a shell reads it; an ellipsis needs no quotes."""
    bare = text.replace("…", "x")
    return text if shlex.quote(bare) == bare else shlex.quote(text)


def wrap_message(message: str, first: int = 0) -> str:
    """Return a message with its lines wrapped to the width of the terminal.

    ``first`` columns of the first line are already in use.

    Examples
    --------
    >>> print(wrap_message("a log that is good\\n" + "word " * 20))
    a log that is good
    word word word word word word word word word word word word word word word word
      word word word word
    """
    lines = (
        textwrap.fill(
            line,
            text_width(),
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in (" " * first + _joined(visible(message))).split("\n")
    )
    return "\n".join(lines)[first:].replace(JOINED, " ")


JOINED = "\x1f"
"""A space at which no line is broken, as it belongs to the value of an option."""


def _joined(message: str) -> str:
    return QUOTED_VALUE.sub(lambda match: match[0].replace(" ", JOINED), message)


QUOTED_VALUE = re.compile(r"""--[a-z-]+ '[^']*'(?:"'"'[^']*')*""")
"""An option and its value in quotes."""


def echo_message(message: str, err: bool = False) -> None:
    """Print a message, wrapped to the width of the terminal."""
    echo(wrap_message(message), err=err)
