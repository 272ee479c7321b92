"""Strategies of damage to bytes, texts and nested data, and how one draws from a seed."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

SIZE = 8192
"""Number of bytes that a strategy draws from: the most that Hypothesis reads."""


@functools.lru_cache(32)
def _drawing(strategy: st.SearchStrategy[Any]) -> tuple[Callable[[bytes], Any], list[Any]]:
    """Return a function that draws a value from bytes, and the list that it puts it into."""
    drawn: list[Any] = []

    @settings(database=None)
    @given(strategy)
    def collect(value: Any) -> None:
        drawn.append(value)

    return collect.hypothesis.fuzz_one_input, drawn


def generated(strategy: st.SearchStrategy[Any], *seed: int) -> Any:
    """Return the value that a strategy generates from a seed."""
    draw, drawn = _drawing(strategy)
    bits = np.random.default_rng(seed)
    while not drawn:  # a strategy may reject what it draws
        draw(bits.bytes(SIZE))
    return drawn.pop()


def between(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers spread evenly; the floats of Hypothesis are mostly tiny or simple."""
    return st.integers(0, 10**6).map(lambda k: low + (high - low) * k / 10**6)


ODD_VALUES = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**70), 0.5, 1e308, -1e-320, float("nan"),
    float("inf"), "", "x", "\u202e", "[/red]", "a" * 10_000, [], [[]], [None], {}, {"x": 1},
    [1, 2, 3], ["a", "a"], "1", "true",
)  # fmt: skip
"""Values of other types, empty, huge or not finite."""

ODD_TOML = (
    "1e999", "-1", "0", "nan", "inf", "''", "'x'", "[]", "{}", "[[1]]", "true", "9" * 22, "0.5",
    "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "0x10", "1_000", "{ x = [{}] }",
)  # fmt: skip

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
"""Any nested data."""

ODD = st.sampled_from(ODD_VALUES) | PLAIN


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> tuple[str, bytes]:
    """What was done, and the damaged content."""
    place = draw(st.integers(0, len(content)))
    size = min(len(content) - place, 2 ** draw(st.integers(0, 9)))
    kinds = ("flip", "cut", "zeros", "noise", "insert", "delete", "repeat")
    kind = draw(st.sampled_from(kinds))
    before, inside, after = content[:place], content[place : place + size], content[place + size :]
    if kind == "flip":
        place = min(place, len(content) - 1)
        flipped = bytes([content[place] ^ 1 << draw(st.integers(0, 7))])
        return f"flip a bit at {place}", content[:place] + flipped + content[place + 1 :]
    if kind in ("noise", "insert"):
        noise = draw(st.binary(min_size=size, max_size=size))
    other = {
        "cut": lambda: before,
        "zeros": lambda: before + bytes(size) + after,
        "noise": lambda: before + noise + after,
        "insert": lambda: before + noise + inside + after,
        "delete": lambda: before + after,
        "repeat": lambda: before + inside + inside + after,
    }[kind]()
    return f"{kind} {size} bytes at {place}", other


@st.composite
def changed_text(draw: st.DrawFn, text: str) -> tuple[str, str]:
    """What was done, and a text with another character, token or line."""
    lines = text.split("\n")
    row = draw(st.integers(0, len(lines) - 1))
    kinds = ("character", "value", "remove line", "repeat line", "move line")
    kind = draw(st.sampled_from(kinds))
    if kind == "character" or (kind == "value" and "=" not in lines[row]):
        place = draw(st.integers(0, len(text) - 1))
        letter = draw(st.sampled_from("\0\n\"'[]{}=#.,-0123456789eEaxλ\u202e") | st.characters())
        return f"{letter!r} at {place}", text[:place] + letter + text[place + 1 :]
    if kind == "value":
        lines[row] = lines[row].partition("=")[0] + "= " + draw(st.sampled_from(ODD_TOML))
    elif kind == "remove line":
        del lines[row]
    elif kind == "repeat line":
        lines.insert(row, lines[row])
    else:
        lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(row))
    return f"{kind} {row}", "\n".join(lines)


@st.composite
def changed_data(draw: st.DrawFn, plain: Any) -> tuple[str, Any]:
    """What was done, and nested data with one place replaced, removed or repeated."""
    if not isinstance(plain, (dict, list)) or not plain:
        return "replace all", draw(ODD)
    plain = copy.deepcopy(plain)
    holder, path = plain, ""
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = draw(st.sampled_from(keys))
        path += f".{key}"
        inner = holder[key]
        if not isinstance(inner, (dict, list)) or not inner or draw(st.integers(0, 4)) == 0:
            break
        holder = inner
    kind = draw(st.sampled_from(("replace", "replace", "remove", "repeat")))
    if kind == "remove":
        del holder[key]
    elif kind == "repeat":
        holder[key] = [inner, inner]
    else:
        holder[key] = draw(ODD)
        kind = f"{holder[key]!r:.50} for"
    return f"{kind} {path}", plain
