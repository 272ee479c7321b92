"""The documentation as it is built: without a warning, and without the network."""

import html
import itertools
import posixpath
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # the documentation is built

DOCS = Path(__file__).parents[2] / "docs"


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
    assert (out / "html" / "_static" / "mathjax" / "tex-svg.js").exists()
    pages = [*out.glob("html/**/*.html"), out / "html" / "llms.txt"]
    return {p.relative_to(out / "html").as_posix(): p.read_text(encoding="utf-8") for p in pages}


def test_every_page_is_built_and_listed_in_the_contents(site):
    pages = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    names = {str(path.relative_to(DOCS).with_suffix(".html")) for path in pages}
    assert names <= set(site)
    contents = set(re.findall(r'<a class="reference internal" href="([^"#]+)"', site["index.html"]))
    assert names - {"index.html"} <= contents


def test_no_page_loads_external_resources(site):
    external = re.compile(
        r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^>]*>"
    )
    for name, text in site.items():
        links = [link for link in external.findall(text) if 'rel="canonical"' not in link]
        assert not links, name


def test_formulas_are_typeset_from_a_bundled_file(site):
    page = site["reference/checks.html"]
    assert 'src="../_static/mathjax/tex-svg.js' in page
    assert r"\(1/(\phi^\top \hat M^{+} \phi)\)" in page
    assert not [name for name, text in site.items() if "$V^" in text]


def test_links_between_pages_lead_to_pages_and_places_that_exist(site):
    places = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in site.items()}
    count = 0
    for name, text in site.items():
        for page, _, place in re.findall(r'<a [^>]*href="([^":?#]*)(#([^"]+))?"', text):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), page))
            target = target if page else name
            if target.endswith(".html"):
                assert target in site, f"{name}: {page}"
                assert not place or html.unescape(place) in places[target], (
                    f"{name}: {page}#{place}"
                )
                count += 1
    assert count > 1000


def test_pages_name_the_address_of_the_last_release(site):
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    address = settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["site"]
    for name in ("index.html", "evaluate/quickstart.html"):
        assert f'<link rel="canonical" href="{address}/stable/{name}"' in site[name]
    text = site["llms.txt"]
    assert text.startswith("# saddleback\n\n> ")
    listed = re.findall(rf"^- \[[^\]]+\]\({address}/stable/([\w/-]+\.html)\): \S", text, re.M)
    assert set(listed) <= set(site)
    assert {"evaluate/quickstart.html", "reference/command-line.html"} <= set(listed)


NOTEBOOKS = {
    "log": ["Better: difference +", "LSTD, GRetrace(0.5)", "1000 patients: usable"],
    "study": ["GES(0)", "at α = ", "ExpectedSarsa(0)  α = 0.0003"],
    "deadly-triad": ["diverged at step 686", "stable in the mean for α = β &lt; 0.587"],
}
"""Notebooks, and parts of what they must show."""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_show_their_results(site, name):
    page = site[f"notebooks/{name}.html"]
    cells = page.count('<div class="cell docutils container">')
    assert cells == (DOCS / "notebooks" / f"{name}.md").read_text().count("```{code-cell}")
    source = (DOCS / "notebooks" / f"{name}.md").read_text()
    outputs = page.split("cell_output", 1)[1].split("</article>")[0]
    assert len(re.findall("<(?:img|svg) ", outputs)) >= max(1, source.count(".plot(")), "pictures"
    assert "Traceback" not in page
    for part in NOTEBOOKS[name]:
        assert part in page, part


def test_every_notebook_is_tested():
    assert {path.stem for path in (DOCS / "notebooks").glob("*.md")} == set(NOTEBOOKS)


def test_equations_keep_their_lines(site):
    """Docstrings indent equations; a browser must not run their lines together."""
    rules = site["reference/api/rules.html"]
    assert "e ← γλρ e + φ        δ = R + γ' θᵀ Σ_a π(a|S') φ(S',a) − θᵀφ\nω ←" in rules
    assert (
        "<em>"
        not in re.search(r'id="saddleback.GES".*?</dl>', rules, re.DOTALL)[0].split("<dd>")[1]
    )


DESCRIBED = re.compile(
    r'<dl class="py (?:data|attribute|property)">\s*<dt[^>]*id="(saddleback\.[^"]+)".*?</dt>\s*'
    r"<dd>(.*?)</dd>",
    re.DOTALL,
)


def test_fields_and_constants_have_their_own_descriptions(site):
    """Not those of their type, such as ``int([x]) -> integer``, nor of a named tuple."""
    descriptions = {
        name: html.unescape(" ".join(re.sub(r"<[^>]+>", "", text).split()))
        for page in site.values()
        for name, text in DESCRIBED.findall(page)
    }
    assert "Most features p" in descriptions["saddleback.system.LARGEST"]
    assert "semi-gradient" in descriptions["saddleback.rules.Coefficients.td"]
    assert "heart rate" in descriptions["saddleback.problems.synthetic_clinic.SIGNS"]
    types = {kind.__doc__.split(".")[0] for kind in (int, float, str, tuple, list, dict)}
    for name, text in descriptions.items():
        assert text, name
        assert "Alias for field number" not in text, name
        assert not any(" ".join(docstring.split())[:30] in text for docstring in types), name


def test_parameters_that_share_a_description_have_it_once(site):
    theory = site["reference/api/theory.html"]
    assert "<strong>alpha, beta</strong> – Constant step sizes;" in theory
    for page in site.values():
        descriptions = re.findall(
            r"<li><p><strong>[^<]+</strong> – (.*?)</li>\s*(?=<li>)", page, re.DOTALL
        )
        assert not [a for a, b in itertools.pairwise(descriptions) if a == b]


def test_every_name_has_its_own_address(site):
    for name, page in site.items():
        assert not re.findall(r'id="(saddleback\.[^"]*saddleback[^"]*)"', page), name
    assert 'id="saddleback.rules.NAMED"' in site["reference/api/rules.html"]


def test_names_in_docstrings_are_links(site):
    assert 'href="#saddleback.GES"' in site["reference/api/rules.html"]
    assert 'href="theory.html#saddleback.step_sizes"' in site["reference/api/learning.html"]
