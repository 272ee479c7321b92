"""Oracles are independent of the package that they check."""

import ast
from pathlib import Path

import pytest

from oracles import naive
from saddleback.rules import NAMED

ORACLES = sorted((Path(__file__).parent / "oracles").glob("*.py"))


def imported(path):
    """Return the top-level names that a module imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else str(node.module).partition(".")[0])
    return names


@pytest.mark.parametrize("path", ORACLES, ids=lambda path: path.stem)
def test_oracles_import_nothing_but_numpy_and_the_standard_library(path):
    assert imported(path) <= {"itertools", "math", "numpy"}


def test_every_named_rule_has_an_oracle():
    assert set(NAMED) <= set(naive.ALGORITHMS)


def test_there_are_oracles_to_check():
    assert {path.stem for path in ORACLES} >= {"importance_sampling", "naive", "statistics"}
