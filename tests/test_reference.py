"""The reference has every public name, and every public name shows how it is used."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import saddleback as sb

PAGES = Path(__file__).parents[1] / "docs" / "api"
ROOMS = (
    "checks", "errors", "evaluation", "features", "learning", "log", "policies", "problems",
    "rules", "sweep", "system", "theory", "verdict",
)  # fmt: skip
"""Packages whose names are public, besides those that `saddleback` itself has."""

DIRECTIVE = re.compile(
    r"^\.\. (?:auto(?:function|class|exception|data)|py:data):: saddleback\.(\S+)$", re.MULTILINE
)


def shown():
    """Names of the reference, each without its package, and how often it is there."""
    found = [n for page in PAGES.glob("*.md") for n in DIRECTIVE.findall(page.read_text("utf-8"))]
    assert len(found) == len(set(found)), "a name is in the reference twice"
    return found


def public():
    """Every public name with what it stands for; what the package itself has counts there."""
    top = [name for name in sb.__all__ if not inspect.ismodule(getattr(sb, name))]
    names = {name: getattr(sb, name) for name in top if name != "__version__"}
    for room in ROOMS:
        module = importlib.import_module(f"saddleback.{room}")
        for name in module.__all__:
            thing = getattr(module, name)
            if names.get(name) is not thing:
                names[f"{room}.{name}"] = thing
    return names


def test_every_module_that_is_public_is_walked():
    modules = {name for name in sb.__all__ if inspect.ismodule(getattr(sb, name))}
    assert modules <= set(ROOMS)


def test_the_reference_has_every_public_name_and_no_other():
    assert set(shown()) == set(public())


def called():
    """Functions and classes; of exceptions the base only, as one catches it."""
    for name, thing in public().items():
        if inspect.isfunction(thing) or inspect.isclass(thing):
            error = inspect.isclass(thing) and issubclass(thing, Exception)
            if not error or thing is sb.errors.SaddlebackError:
                yield pytest.param(thing, id=name)


@pytest.mark.parametrize("thing", list(called()))
def test_every_name_one_calls_shows_how(thing):
    assert ">>>" in (thing.__doc__ or "")


def test_every_rule_has_its_equation():
    for name, rule in sb.rules.NAMED.items():
        assert re.search(r"^ {4,}.*[←=]", inspect.getdoc(rule), re.MULTILINE), name
