"""Where things are in a TOML file, so that a complaint can name the line."""

from __future__ import annotations

import re

Place = tuple[str | int, ...]
"""Keys that lead to something: ("rule", 0, "lam")."""

TABLE = re.compile(r"\s*(\[{1,2})\s*([\w.\-]+)\s*\]")
KEY = re.compile(r"\s*([\w\-]+)\s*(?:=|\.)")


def lines(text: str) -> dict[Place, int]:
    r"""Return the line of every table and key of a TOML file, by its place.

    Examples
    --------
    >>> lines("seed = 1\n[[rule]]\nname = 'GES'\n[[rule]]\nlam = 0.5\n")
    {('seed',): 1, ('rule', 0): 2, ('rule', 0, 'name'): 3, ('rule', 1): 4, ('rule', 1, 'lam'): 5}
    """
    found: dict[Place, int] = {}
    counts: dict[str, int] = {}
    at: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if table := TABLE.match(line):
            first, *rest = table[2].split(".")
            if table[1] == "[[":
                counts[first] = counts.get(first, -1) + 1
            at = (first, *([counts[first]] if first in counts else []), *rest)
            found.setdefault(at, number)
        elif key := KEY.match(line):
            found.setdefault((*at, key[1]), number)
    return found
