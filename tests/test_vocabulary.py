"""Names are terms of the field: words that carry no meaning as names are banned.

Run as a program, ``python tests/test_vocabulary.py src/saddleback/log``, it lists violations.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "saddleback"
CHECKED = (PACKAGE, ROOT / "tests", ROOT / "benchmarks")

BANNED = frozenset(
    [
        "told",
        "known",
        "tells",
        "telling",
        "said",
        "says",
        "saying",
        "spoken",
        "heard",
        "asked",
        "asking",
        "found",
        "finds",
        "each",
        "held",
        "holding",
        "whole",
        "mine",
        "ours",
        "alone",
        "plainly",
        "anywhere",
        "enough",
        "chance",
        "beyond",
        "behind",
        "along",
        "but",
        "again",
        "twice",
        "strangers",
        "give_back",
        "summed",
        "looks",
        "wide",
        "settle",
        "sound",
        "made",
        "wanted",
        "often",
        "there",
        "here",
        "then",
        "thing",
        "things",
        "helped",
        "explained",
        "ceilinged",
        "unheard",
        "goes_on",
        "none_empty",
        "one_place",
        "word",
        "manieth",
    ]
)
"""Participles, pronouns and verbs of speech; a name is a term one would search for."""

ALLOWED: dict[str, set[str]] = {}
"""Banned names still in use, by path from the root. Entries are removed, never added."""


def names(tree: ast.AST):
    """Every name that a module defines: functions, classes, arguments, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno


def banned_names(path: Path):
    """Banned names that a module defines: (line, name)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sorted({(line, name) for name, line in names(tree) if name.strip("_").lower() in BANNED})


def modules():
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def checked():
    """Every module of the package, the tests and the benchmarks."""
    return [path for folder in CHECKED for path in sorted(folder.rglob("*.py"))]


@pytest.mark.parametrize("path", checked(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_are_terms_of_the_field(path):
    allowed = ALLOWED.get(path.relative_to(ROOT).as_posix(), set())
    used = {name.strip("_").lower() for _, name in banned_names(path)}
    assert used - allowed == set()
    assert allowed - used == set(), "no longer needed: remove it from ALLOWED"


def test_no_two_modules_share_a_name():
    """Except ``__init__``, and problems that share a name with an experiment of the paper."""
    counts = Counter(path.stem for path in modules())
    shared = {name for name, count in counts.items() if count > 1}
    assert shared == {"__init__", "baird", "mountain_car", "two_state"}


def test_no_two_classes_share_a_name():
    classes = Counter(
        node.name
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


if __name__ == "__main__":
    for start in map(Path, sys.argv[1:]):
        for path in sorted(start.rglob("*.py")) if start.is_dir() else [start]:
            for line, name in banned_names(path):
                print(f"{path}:{line}: {name}")
