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
    "report", "rules", "sweep", "system", "theory", "verdict",
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


NO_EQUATION = {
    "Bootstrap", "Experience", "Form", "Log", "Stream", "Trace", "Verdict", "as_target", "collect",
    "load_statistics", "sample", "save_statistics", "checks.check_rule", "checks.named_rules",
    "checks.typical_problem", "evaluation.default_rule", "features.Active", "features.Custom",
    "features.Features", "features.Given", "features.OneHot", "features.Tiles", "log.Behaviour",
    "log.Card", "log.Finding", "log.Observed", "log.Piece", "log.Target", "log.from_minari",
    "log.to_minari", "policies.check_coverage", "policies.pump", "policies.table",
    "problems.from_gymnasium", "problems.make", "problems.random_mdp", "problems.random_walk",
    "report.evaluation_page", "report.explorer_page", "report.read_results", "report.study_page",
    "report.write", "rules.each_rule", "rules.is_rule", "rules.make", "rules.tabulate",
    "sweep.Case", "sweep.Plan", "sweep.Store", "sweep.Study", "sweep.plan", "sweep.read_study",
    "sweep.run_study", "sweep.summary", "system.load", "system.save", "theory.Advice",
    "theory.GapRun", "theory.Pair", "theory.Theorem2", "theory.analyse", "verdict.Evaluation",
    "verdict.Diagnosis", "verdict.Estimate", "verdict.Gate", "verdict.Improvement",
    "verdict.Logged", "verdict.Ranking",
    "verdict.of_statistics", "errors.SaddlebackError",
}  # fmt: skip
"""Records, files, contracts and collections: what computes nothing that a formula would say."""


@pytest.mark.parametrize("thing", list(called()))
def test_every_name_that_computes_has_its_equation(thing, request):
    name = request.node.callspec.id
    told = re.split(r"^Examples$", inspect.getdoc(thing), flags=re.MULTILINE)[0]
    assert bool(re.search(r"[=←≤≥√Σ]", told)) != (name in NO_EQUATION)
