"""Where things are in a TOML file, so that a complaint can name the line."""

from __future__ import annotations

import re

Place = tuple[str | int, ...]
"""Keys that lead to something: ("rule", 0, "lam")."""

TABLE = re.compile(r"\s*(\[{1,2})\s*([\w.\-]+)\s*\]")
KEY = re.compile(r"\s*([\w\-]+)\s*(?:=|\.)")
TOKEN = re.compile(r"""#.*|\"{3}|'{3}|"(?:\\.|[^"\\])*"|'[^']*'|[\[\]{}]""")


def lines(text: str) -> dict[Place, int]:
    r"""Return the line of every table and key of a TOML file, by its place.

    Examples
    --------
    >>> lines("seed = 1\n[[rule]]\nname = 'GES'\n[[rule]]\nlam = [\n0.5,\n]\n")
    {('seed',): 1, ('rule', 0): 2, ('rule',): 2, ('rule', 0, 'name'): 3, ('rule', 1): 4,
     ('rule', 1, 'lam'): 5}
    """
    found: dict[Place, int] = {}
    counts: dict[str, int] = {}
    at: Place = ()
    quote, depth = "", 0  # of a value that goes on from line to line
    for number, line in enumerate(text.split("\n"), 1):
        if not quote and not depth:
            if table := TABLE.match(line):
                first, *rest = table[2].split(".")
                if table[1] == "[[":
                    counts[first] = counts.get(first, -1) + 1
                at = (first, *([counts[first]] if first in counts else []), *rest)
                found.setdefault(at, number)
                found.setdefault((first,), number)
            elif key := KEY.match(line):
                found.setdefault((*at, key[1]), number)
        quote, depth = _open(line, quote, depth)
    return found


def _open(line: str, quote: str, depth: int) -> tuple[str, int]:
    """Return which quotes, and how many brackets, are open at the end of a line."""
    if quote:
        _, ended, line = line.partition(quote)
        if not ended:
            return quote, depth
    for token in TOKEN.finditer(line):
        if token[0] in ('"""', "'''"):
            return _open(line[token.end() :], token[0], depth)
        depth += (token[0] in "[{") - (token[0] in "]}")
    return "", depth
