"""Line numbers of the keys of a TOML file, for error messages."""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]
"""Keys and indices that lead to a value: ("rule", 0, "lam")."""

TABLE = re.compile(r"\s*(\[{1,2})\s*([\w.\-]+)\s*\]")
KEY = re.compile(r"\s*([\w\-]+)\s*(?:=|\.)")
TOKEN = re.compile(r"""#.*|\"{3}|'{3}|"(?:\\.|[^"\\])*"|'[^']*'|[\[\]{}]""")


def key_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line number of every table and key of a TOML file.

    Examples
    --------
    >>> key_lines("seed = 1\n[[rule]]\nname = 'GES'\n[[rule]]\nlam = [\n0.5,\n]\n")
    {('seed',): 1, ('rule', 0): 2, ('rule',): 2, ('rule', 0, 'name'): 3, ('rule', 1): 4,
     ('rule', 1, 'lam'): 5}
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[str, int] = {}
    path: KeyPath = ()
    quote, depth = "", 0  # open at the start of a line, inside a multi-line value
    for number, line in enumerate(text.split("\n"), 1):
        if not quote and not depth:
            if table := TABLE.match(line):
                first, *rest = table[2].split(".")
                if table[1] == "[[":
                    counts[first] = counts.get(first, -1) + 1
                path = (first, *([counts[first]] if first in counts else []), *rest)
                lines.setdefault(path, number)
                lines.setdefault((first,), number)
            elif key := KEY.match(line):
                lines.setdefault((*path, key[1]), number)
        quote, depth = _open_at_end(line, quote, depth)
    return lines


def _open_at_end(line: str, quote: str, depth: int) -> tuple[str, int]:
    """Return the open quote, and the number of open brackets, at the end of a line."""
    if quote:
        _, closing, line = line.partition(quote)
        if not closing:
            return quote, depth
    for token in TOKEN.finditer(line):
        if token[0] in ('"""', "'''"):
            return _open_at_end(line[token.end() :], token[0], depth)
        depth += (token[0] in "[{") - (token[0] in "]}")
    return "", depth
