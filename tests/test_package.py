"""Wheel and sdist: their metadata, equal bytes from every build, and their own tests."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling import build
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import saddleback as sb

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ADDRESS = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["address"]


@pytest.fixture(scope="module")
def metadata():
    return ProjectMetadata(str(ROOT), PluginManager()).core


def test_the_page_of_the_package_index_has_no_relative_links(metadata):
    assert metadata.readme_content_type == "text/markdown"
    targets = re.findall(r"\]\(([^)\s]+)\)", metadata.readme)
    assert len(targets) > 10
    for target in targets:
        assert target.startswith(("https://", "#")), target
    assert f"]({ADDRESS}/raw/HEAD/docs/figures/evaluation-page.png)" in metadata.readme
    assert f"]({ADDRESS}/blob/HEAD/docs/index.md)" in metadata.readme
    assert metadata.readme.startswith("# saddleback")


def test_links_of_the_package_lead_to_the_address(metadata):
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(metadata.urls)
    assert all(link.startswith(ADDRESS) for link in metadata.urls.values())


def test_the_address_is_written_once():
    """Everything else that links to the project reads it from pyproject.toml."""
    host = ADDRESS.removeprefix("https://")
    built = "PKG-INFO"  # in an sdist
    files = [p for p in ROOT.glob("*") if p.is_file() and p.name != built] + [
        p for folder in ("src", "docs", ".github") for p in (ROOT / folder).rglob("*")
        if p.suffix in {".py", ".md", ".toml", ".yml", ".yaml", ".html"} and "_build" not in p.parts
    ]  # fmt: skip
    assert [p.name for p in files if host.encode() in p.read_bytes()] == ["pyproject.toml"]


def test_licence_citation_and_types_are_in_the_repository(metadata):
    assert metadata.license_expression == "Apache-2.0"
    assert (ROOT / "src/saddleback/py.typed").exists()
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {sb.__version__}" in citation
    assert "On Convergence of Gradient Expected Sarsa" in citation
    assert sb.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_all_has_every_extra_but_the_one_for_a_gpu():
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(re.split(r"[\[\],]", everything)[1:-1]) == set(extras) - {"all", "cuda"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist."""
    return build_both(tmp_path_factory.mktemp("dist"))


def build_both(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return [folder / make(str(folder)) for make in (build.build_wheel, build.build_sdist)]


@pytest.mark.slow
def test_two_builds_have_equal_bytes(built, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    for one, other in zip(built, build_both(tmp_path), strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_the_wheel_passes_the_tests_of_the_sdist_outside_of_the_repository(built, tmp_path):
    wheel, sdist = built
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.glob("saddleback-*")
    (folder / "src").rename(tmp_path / "unused")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow",
         "tests/test_finite_mdp.py"],  # compiles nothing
        cwd=folder, env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^\d{2,} passed", done.stdout, re.MULTILINE)
