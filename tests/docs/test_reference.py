"""The reference has every public name, and every public name shows how it is used."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import saddleback as sb

DOCS = Path(__file__).parents[2] / "docs"
PAGES = DOCS / "reference" / "api"
PUBLIC_PACKAGES = (
    "checks", "errors", "features", "learning", "log", "ope", "policies", "problems",
    "problems.synthetic_clinic", "report", "rules", "sweep", "system", "theory",
)  # fmt: skip
"""Packages whose names are public, besides those that `saddleback` itself has."""

INTERNAL = {
    "cuda": 'the engine\'s learners on a GPU; learn(device="cuda") is its interface',
    "engine": "streams and kernels, free to change for speed; its public parts are in saddleback",
    "ope.svrg_solver": "SVRG without its checks; saddleback.SVRG has them",
    "paper": "experiments of one paper, run by `saddleback paper`",
    "paper.claims": "the same",
    "plots": "the style of the figures",
    "cli": "the command line, whose contract is its help and its JSON",
}
"""Packages that are not public though other packages import from them, and why."""

DIRECTIVE = re.compile(
    r"^\.\. (?:auto(?:function|class|exception|data)|py:data):: saddleback\.(\S+)$", re.MULTILINE
)


def shown():
    """Names of the reference, each without its package, and how often it is there."""
    texts = [page.read_text("utf-8") for page in PAGES.glob("*.md")]
    names = [name for text in texts for name in DIRECTIVE.findall(text)]
    names += [name for text in texts if ".. named-rules::" in text for name in sb.rules.NAMED]
    assert len(names) == len(set(names)), "a name is in the reference twice"
    return names


def public():
    """Every public name with its value; a name of the top-level package is listed once, there."""
    top = [name for name in sb.__all__ if not inspect.ismodule(getattr(sb, name))]
    names = {name: getattr(sb, name) for name in top if name != "__version__"}
    for package in PUBLIC_PACKAGES:
        module = importlib.import_module(f"saddleback.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if names.get(name) is not value:
                names[f"{package}.{name}"] = value
    return names


def packages():
    """Every package and module that lists its names, or is a package, without ``saddleback.``."""
    for module in pkgutil.walk_packages(sb.__path__, "saddleback."):
        if module.name.rpartition(".")[2] == "__main__":
            continue
        if module.ispkg or hasattr(importlib.import_module(module.name), "__all__"):
            yield module.name.removeprefix("saddleback.")


def test_every_package_is_public_or_internal_for_a_reason():
    assert set(packages()) == set(PUBLIC_PACKAGES) | set(INTERNAL)
    assert not set(PUBLIC_PACKAGES) & set(INTERNAL)
    modules = {name for name in sb.__all__ if inspect.ismodule(getattr(sb, name))}
    assert modules <= set(PUBLIC_PACKAGES)


def test_the_design_page_lists_the_public_packages():
    page = (DOCS / "project" / "design.md").read_text(encoding="utf-8")
    section = re.search(r"^## What is public\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)[1]
    public_, internal = section.split("Internal")
    named = re.compile(r"`saddleback\.([\w.]+)`")
    assert set(named.findall(public_)) == set(PUBLIC_PACKAGES)
    packages = {name for name in INTERNAL if "." not in name}
    assert set(named.findall(internal)) - {"SVRG"} == packages


def test_the_design_page_lists_every_package_and_files_that_exist():
    page = (DOCS / "project" / "design.md").read_text(encoding="utf-8")
    section = re.search(r"^## Code\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)[1]
    package = Path(sb.__file__).parent
    paths = re.findall(r"`([\w/]+/\w+(?:\.py)?|\w+\.py)`", section)
    assert len(paths) > 50
    assert not [path for path in paths if not (package / path).exists()]
    listed = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^- (`.*?):", section, re.MULTILINE))))
    modules = {module.name for module in pkgutil.iter_modules(sb.__path__)}
    assert listed == {name for name in modules if not name.startswith("_")} - {"errors"}


IMPORTED = re.compile(r"^(?:>>> )?from saddleback\.([\w.]+) import (.+)$", re.MULTILINE)


def test_pages_import_public_names_only():
    """What a page shows may be relied upon."""
    for page in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for package, names in IMPORTED.findall(page.read_text(encoding="utf-8")):
            assert package in PUBLIC_PACKAGES, page
            listed = importlib.import_module(f"saddleback.{package}").__all__
            assert set(names.split(", ")) <= set(listed), page


def test_the_reference_has_every_public_name_and_no_other():
    assert set(shown()) == set(public())


def test_values_in_the_reference_are_those_of_the_library():
    directive = re.compile(r"^\.\. py:data:: saddleback\.(\S+)\n   :value: (.+)$", re.MULTILINE)
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    values = dict(directive.findall(text))
    assert values == {name: repr(public()[name]) for name in values}
    assert "system.LARGEST" in values


def called():
    """Functions and classes; of exceptions the base only, as one catches it."""
    for name, value in public().items():
        if inspect.isfunction(value) or inspect.isclass(value):
            error = inspect.isclass(value) and issubclass(value, Exception)
            if not error or value is sb.errors.SaddlebackError:
                yield pytest.param(value, id=name)


@pytest.mark.parametrize("value", list(called()))
def test_every_callable_has_an_example(value):
    assert ">>>" in (value.__doc__ or "")


def test_every_rule_has_its_equation():
    for name, rule in sb.rules.NAMED.items():
        assert re.search(r"^ {4,}.*[←=]", inspect.getdoc(rule), re.MULTILINE), name


NO_EQUATION = {
    "Bootstrap", "Experience", "Form", "Log", "Stream", "Trace", "Verdict", "as_target", "collect",
    "load_statistics", "sample", "save_statistics", "checks.check_features", "checks.check_log",
    "checks.check_rule",
    "checks.named_rules",
    "checks.typical_problem", "ope.default_rule", "features.Active", "features.Custom",
    "features.Features", "features.Identity", "features.OneHot", "learning.Best", "log.Behaviour",
    "log.BehaviourTarget", "log.Finding", "log.LogSample", "log.LogSummary", "log.Segment",
    "log.Target", "log.from_minari",
    "log.to_minari", "policies.check_coverage", "policies.named_columns", "policies.pump",
    "policies.table",
    "problems.Simulation",
    "problems.from_gymnasium", "problems.make", "problems.random_mdp", "problems.random_walk",
    "report.RuleResults", "report.StudyResults", "report.evaluation_page", "report.explorer_page",
    "report.read_results", "report.study_page", "report.write", "rules.as_rules",
    "rules.as_rule", "rules.make", "rules.make_with", "rules.named_rule", "rules.tabulate",
    "sweep.Case", "sweep.Plan", "sweep.Store", "sweep.Study", "sweep.plan", "sweep.read_study",
    "sweep.run_study", "sweep.summary", "system.load", "system.save", "theory.Advice",
    "theory.GapRun", "theory.Pair", "theory.Theorem2", "theory.analyse", "ope.Evaluation",
    "ope.Diagnosis", "ope.Estimate", "ope.Gate", "ope.Improvement",
    "ope.Baseline", "ope.Ranking",
    "ope.evaluate_statistics", "errors.SaddlebackError",
}  # fmt: skip
"""Records, files, contracts and collections: what computes nothing that a formula would say."""


@pytest.mark.parametrize("value", list(called()))
def test_every_name_that_computes_has_its_equation(value, request):
    name = request.node.callspec.id
    description = re.split(r"^Examples$", inspect.getdoc(value), flags=re.MULTILINE)[0]
    assert bool(re.search(r"[=←≤≥√Σ]", description)) != (name in NO_EQUATION)
