"""Random damage to bytes, texts and nested data."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

ODD_VALUES = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**70), 0.5, 1e308, -1e-320, float("nan"),
    float("inf"), "", "x", "\u202e", "[/red]", "a" * 10_000, [], [[]], [None], {}, {"x": 1},
    [1, 2, 3], ["a", "a"], "1", "true",
)  # fmt: skip
"""Values of other types, empty, huge or not finite."""

ODD_TOML = (
    "1e999", "-1", "0", "nan", "inf", "''", "'x'", "[]", "{}", "[[1]]", "true", "9" * 22, "0.5",
)  # fmt: skip


def damage_bytes(rng: np.random.Generator, content: bytes) -> tuple[str, bytes]:
    """Return what was done, and the damaged content."""
    place = int(rng.integers(len(content) + 1))
    size = int(min(len(content) - place, 2 ** rng.integers(0, 10)))
    noise = rng.integers(0, 256, size, dtype=np.uint8).tobytes()
    kind = ("flip", "cut", "zeros", "noise", "insert", "delete", "repeat")[rng.integers(7)]
    before, inside, after = content[:place], content[place : place + size], content[place + size :]
    if kind == "flip":
        place = min(place, len(content) - 1)
        flipped = bytes([content[place] ^ 1 << int(rng.integers(8))])
        return f"flip a bit at {place}", content[:place] + flipped + content[place + 1 :]
    other = {
        "cut": before,
        "zeros": before + bytes(size) + after,
        "noise": before + noise + after,
        "insert": before + noise + inside + after,
        "delete": before + after,
        "repeat": before + inside + inside + after,
    }[kind]
    return f"{kind} {size} bytes at {place}", other


def change_text(rng: np.random.Generator, text: str) -> tuple[str, str]:
    """Return what was done, and a text with another character, token or line."""
    lines = text.split("\n")
    row = int(rng.integers(len(lines)))
    kind = ("character", "value", "remove line", "repeat line", "move line")[rng.integers(5)]
    if kind == "character" or (kind == "value" and "=" not in lines[row]):
        place = int(rng.integers(len(text)))
        letter = "\0\n\"'[]{}=#.,-0123456789eEaxλ\u202e"[rng.integers(29)]
        return f"{letter!r} at {place}", text[:place] + letter + text[place + 1 :]
    if kind == "value":
        lines[row] = lines[row].partition("=")[0] + "= " + ODD_TOML[rng.integers(len(ODD_TOML))]
    elif kind == "remove line":
        del lines[row]
    elif kind == "repeat line":
        lines.insert(row, lines[row])
    else:
        lines.insert(int(rng.integers(len(lines))), lines.pop(row))
    return f"{kind} {row}", "\n".join(lines)


def change_data(rng: np.random.Generator, plain: Any) -> tuple[str, Any]:
    """Return what was done, and nested data with one place replaced, removed or repeated."""
    plain = copy.deepcopy(plain)
    holder, path = plain, ""
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = keys[rng.integers(len(keys))]
        path += f".{key}"
        inner = holder[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.2:
            break
        holder = inner
    kind = ("replace", "replace", "remove", "repeat")[rng.integers(4)]
    if kind == "remove":
        del holder[key]
    elif kind == "repeat":
        holder[key] = [inner, inner]
    else:
        holder[key] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
    return f"{kind} {path}", plain
