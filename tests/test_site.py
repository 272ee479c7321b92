"""The documentation as it is built: without a warning, and without the network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the pages, built by the same command as ``make docs``."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-E", "-W", "--keep-going", "-q", "-b", "html",
         "-d", str(out / "doctrees"), str(DOCS), str(out / "html")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {str(p.relative_to(out / "html")): p.read_text() for p in out.glob("html/**/*.html")}


def test_every_page_is_built_and_listed_in_the_contents(site):
    pages = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    names = {str(path.relative_to(DOCS).with_suffix(".html")) for path in pages}
    assert names <= set(site)
    contents = set(re.findall(r'<a class="reference internal" href="([^"#]+)"', site["index.html"]))
    assert names - {"index.html"} <= contents


def test_no_page_asks_for_anything_from_elsewhere(site):
    asked = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^>]*>")
    for name, text in site.items():
        assert not asked.findall(text), name


def test_equations_keep_their_lines(site):
    """Docstrings indent equations; a browser must not run their lines together."""
    rules = site["api/rules.html"]
    assert "e ← γλρ e + φ        δ = R + γ' θᵀ Σ_a π(a|S') φ(S',a) − θᵀφ\nω ←" in rules
    assert (
        "<em>"
        not in re.search(r'id="saddleback.GES".*?</dl>', rules, re.DOTALL)[0].split("<dd>")[1]
    )


def test_names_in_docstrings_are_links(site):
    assert 'href="#saddleback.GES"' in site["api/rules.html"]
    assert 'href="theory.html#saddleback.step_sizes"' in site["api/learning.html"]
