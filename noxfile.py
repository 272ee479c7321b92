"""Checks and tests on any system: ``pipx run nox``, or ``python -m nox --session quick``.

Each session creates its environment, with the pinned versions of constraints.txt. The Makefile runs
the same sessions in the one environment it keeps (``nox --no-venv``).
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import nox
from nox.virtualenv import PassthroughEnv

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests"]

PROJECT = nox.project.load_toml("pyproject.toml")
QUICK = "not (slow or statistical or browser or cluster)"
WORKERS = ("-n", "auto", "--dist", "worksteal")
PINNED = ("--constraint", "constraints.txt")

FORMATS = {
    "github-workflows": sorted(map(str, Path(".github/workflows").glob("*.yml"))),
    "github-issue-forms": [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"],
    "dependabot": [".github/dependabot.yml"],
    "compose-spec": ["compose.yaml"],
    "citation-file-format": ["CITATION.cff"],
}
"""Files by the schema they follow."""

# One thread for linear algebra: the matrices are small, and the tests already run in parallel.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["PYTHONUTF8"] = "1"  # tests write text; the package names the encoding of every file


def prepare(session: nox.Session, *versions: str, groups: tuple[str, ...] = ("dev",)) -> None:
    """Install the package, its extras and tools, unless the environment has them already."""
    if not isinstance(session.virtualenv, PassthroughEnv):
        tools = nox.project.dependency_groups(PROJECT, *groups)
        session.install(*versions, "--editable", ".[plots]", *tools)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, import layers, and files whose format others define."""
    prepare(session, *PINNED)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    for schema, files in FORMATS.items():
        session.run("check-jsonschema", "--quiet", "--builtin-schema", f"vendor.{schema}", *files)


@nox.session
def tests(session: nox.Session) -> None:
    """Everything: examples, suite, and the kernel tests again with the compiler off."""
    prepare(session, *PINNED, groups=("dev", "docs"))
    examples(session)
    suite(session)
    kernels(session)


@nox.session(default=False)
def examples(session: nox.Session) -> None:
    """Examples in docstrings; they compile most kernels, which other tests load from disk."""
    prepare(session, *PINNED)
    session.run("pytest", "-q", "src")


@nox.session(default=False)
def suite(session: nox.Session) -> None:
    """The complete suite, which builds the documentation."""
    prepare(session, *PINNED, groups=("dev", "docs"))
    session.run("pytest", "-q", *WORKERS, "--durations=25", "tests", *session.posargs)


@nox.session(default=False)
def kernels(session: nox.Session) -> None:
    """The kernel tests with the compiler off, and their coverage."""
    prepare(session, *PINNED)
    files = [
        str(path) for path in sorted(Path("tests").rglob("*.py"))
        if "mark.kernel" in path.read_text(encoding="utf-8")
    ]  # fmt: skip
    off = {"NUMBA_DISABLE_JIT": "1"}
    chosen = "kernel and not statistical"  # those take many steps
    session.run("coverage", "run", "-m", "pytest", "-q", "-m", chosen, *files, env=off)
    session.run("coverage", "report", "--fail-under=100", "--skip-covered")


@nox.session(default=False)
def quick(session: nox.Session) -> None:
    """Tests without a mark for slow ones."""
    prepare(session, *PINNED)
    session.run("pytest", "-q", *WORKERS, "-m", QUICK, *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation, in docs/_build/html; a warning is an error."""
    prepare(session, *PINNED, groups=("dev", "docs"))
    options = ("-E", "-W", "--keep-going", "-q", "-b", "html")
    session.run("sphinx-build", *options, "docs", "docs/_build/html", *session.posargs)


@nox.session(default=False)
def links(session: nox.Session) -> None:
    """Links to other sites; those between pages are checked by the build and the suite."""
    prepare(session, *PINNED, groups=("dev", "docs"))
    session.run("sphinx-build", "-q", "-b", "linkcheck", "docs", "docs/_build/links")


@nox.session(default=False)
def package(session: nox.Session) -> None:
    """The quick tests of the sdist, outside of this folder, on the wheel."""
    folder = Path(session.create_tmp()).resolve()
    session.install("hatchling")
    session.run("hatchling", "build", "--directory", str(folder / "dist"))
    (wheel,), (sdist,) = ((folder / "dist").glob(kind) for kind in ("*.whl", "*.tar.gz"))
    shutil.unpack_archive(sdist, folder, filter="data")
    tools = nox.project.dependency_groups(PROJECT, "dev")
    session.install(*PINNED, f"{wheel}[plots]", *tools)
    session.chdir(folder / sdist.name.removesuffix(".tar.gz"))
    session.run("pytest", "-q", *WORKERS, "-m", QUICK, *(session.posargs or ["tests"]))


def floors() -> list[str]:
    """Return the lowest supported version of every dependency, as exact requirements."""
    project = PROJECT["project"]
    extras = {**project["optional-dependencies"], "all": [], "cuda": []}
    needs = [*project["dependencies"], *(need for extra in extras.values() for need in extra)]
    return [re.sub(r"\[.*\]", "", need).replace(">=", "==") for need in needs]


@nox.session(python="3.11", default=False)
def lowest(session: nox.Session) -> None:
    """The quick tests with the lowest supported version of Python and every dependency."""
    prepare(session, *floors())
    ignored = ("-W", "ignore::DeprecationWarning")  # of old versions among themselves
    session.run("pytest", "-q", *WORKERS, *ignored, "-m", QUICK, *session.posargs)


@nox.session(python="3.14", default=False)
def newest(session: nox.Session) -> None:
    """The quick tests with the newest version of Python and every dependency."""
    prepare(session, "--upgrade")
    session.run("pytest", "-q", *WORKERS, "-m", QUICK, *session.posargs)
