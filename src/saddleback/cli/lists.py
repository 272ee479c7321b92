"""Lists as values of options: commas between the names, quotes as in CSV, completed from the log.

``hr,"pressure, mean"`` are two names. Quotes are needed only around a name that contains a comma or
a quote, or begins with a space; a quote within quotes is written twice.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from saddleback.errors import SaddlebackError

FIELD = re.compile(r' *+(?:"((?:[^"]|"")*)"([^,"]*)|(?!")([^,]*))(?:(,)|\Z)')
"""A field in quotes, and what follows them; one without; and the comma after it."""


def split_list(text: str) -> list[str]:
    """Return the fields of a list; raises ``ValueError`` if quotes are not around a field.

    Examples
    --------
    >>> split_list('hr, "pressure, mean","5"" pipe"')
    ['hr', 'pressure, mean', '5" pipe']
    >>> split_list('"alive, well"=1,died=-1')
    ['alive, well=1', 'died=-1']
    """
    fields, more, end = [], True, 0
    while more:
        match = FIELD.match(text, end)
        if match is None:
            odd = text.count('"') % 2
            raise ValueError("a quote is not closed" if odd else "a quote follows a closed one")
        quoted, rest, plain, comma = match.groups()
        if quoted is None:
            fields.append(plain)
        else:  # spaces may follow it
            fields.append(quoted.replace('""', '"') + (rest if rest.strip(" ") else ""))
        more, end = comma is not None, match.end()
    return fields


def join_list(names: Iterable[str]) -> str:
    """Return the text of which `split_list` returns the names.

    Examples
    --------
    >>> print(join_list(["hr", "pressure, mean", '5" pipe', " x"]))
    hr,"pressure, mean","5"" pipe"," x"
    """
    return ",".join(map(_quoted, names))


def _quoted(name: str) -> str:
    needed = name[:1] in ("", " ") or set(',"') & set(name)
    return '"' + name.replace('"', '""') + '"' if needed else name


# The base class is generic, but not at run time in the lowest supported version of click.
class ListType(click.ParamType):  # type: ignore[type-arg]
    """A list of names."""

    name = "list"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        """Return the names."""
        if not isinstance(value, str):
            return value
        try:
            return split_list(value) if value else []
        except ValueError as error:
            option = "" if parameter is None else f"{parameter.opts[0]} "
            raise click.UsageError(
                f"{option}{value}: {error}. Write names that contain a comma in quotes: "
                """'hr,"pressure, mean"'."""
            ) from None

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the last name of the list from the columns of the log."""
        if parameter.name == "actions":
            return []
        for text in (incomplete, f'{incomplete}"'):  # which may end in quotes
            try:
                *before, _ = split_list(text)
                break
            except ValueError:
                continue
        else:
            return []
        texts = [join_list([*before, name]) for name in _columns(context) if name not in before]
        return [CompletionItem(_typed(text)) for text in texts if text.startswith(incomplete)]


LIST = ListType()


def complete_column(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a column, after ROLE= if the option maps a role to it."""
    role, equals, name = incomplete.rpartition("=")
    return [
        CompletionItem(_typed(f"{role}{equals}{column}"))
        for column in _columns(context)
        if column.startswith(name)
    ]


def _columns(context: click.Context) -> list[str]:
    """Return the columns of the first file on the command line."""
    from saddleback.log.row_sources import open_sources

    try:
        return list(open_sources(list(context.params.get("files") or ())[:1])[0].schema.names)
    except (SaddlebackError, OSError):
        return []


def _typed(text: str) -> str:
    """Return a text as bash inserts it: other shells, and an open quote, quote it themselves."""
    if os.environ.get("_SADDLEBACK_COMPLETE") != "bash_complete":
        return text
    current = os.environ.get("COMP_WORDS", "").rpartition("\n")[2]
    return text if current[:1] in ("'", '"') else shlex.quote(text)
