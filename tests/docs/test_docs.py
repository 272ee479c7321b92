"""The code on every page of the documentation prints the output shown, and links resolve."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from helpers.docs_pages import (
    DOCS,
    INDEPENDENT_PAGES,
    SEQUENTIAL_PAGES,
    Terminal,
    blocks,
    commands,
    matches,
    run_python,
)
from saddleback.ope import BANDIT_CHECKS, CHECKS
from saddleback.sweep import StudyError, read_study

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def independent_blocks():
    """Blocks of pages whose blocks are independent."""
    for page in INDEPENDENT_PAGES:
        for block in blocks(page):
            if block.kind == "python":
                name = f"{page.relative_to(DOCS)}:{block.line}"
                yield pytest.param(block.code, block.output, id=name)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "output"), list(independent_blocks()))
def test_code_prints_the_output_on_the_page(code, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_python(code, {"__name__": "page"}) == output


@pytest.mark.slow
@pytest.mark.usefixtures("known_opinions")
@pytest.mark.parametrize("page", SEQUENTIAL_PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_sequential_pages_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    terminal, names, ran = Terminal(tmp_path), {"__name__": "page"}, 0
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.kind == "python":
            lines = run_python(block.code, names).splitlines()
            assert matches(lines, block.output.splitlines()), where + "\n" + "\n".join(lines)
            ran += 1
            continue
        for command, expected in commands(block):
            output = terminal.type(command)
            if expected:
                assert matches(output, expected), f"{where}: {command}\n" + "\n".join(output)
                ran += 1
    assert ran, "a story without code"


def test_errors_in_a_study_are_those_shown_on_the_page(tmp_path, monkeypatch):
    """The study of the page runs; with the mistakes named there, it is refused as shown."""
    page = (DOCS / "learn" / "studies.md").read_text(encoding="utf-8")
    study = re.search(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1]
    expected = re.search(
        r"^\$ saddleback sweep study.toml\nerror: (.*?)^```", page, re.DOTALL | re.M
    )[1]
    monkeypatch.chdir(tmp_path)
    module = re.search(r"^```python\n(# mine\.py\n.*?)^```", page, re.DOTALL | re.MULTILINE)[1]
    Path("mine.py").write_text(module, encoding="utf-8")
    Path("study.toml").write_text(study, encoding="utf-8")
    assert len(read_study(Path("study.toml")).rules) == 4
    Path("study.toml").write_text(
        study.replace("alpha =", "alhpa =").replace("0.99]  ", "1.5]  "), encoding="utf-8"
    )
    with pytest.raises(StudyError) as raised:
        read_study(Path("study.toml"))
    assert f"{raised.value}\n" == expected


def test_an_ellipsis_matches_lines_only_at_its_position():
    assert matches(["a", "b", "c"], ["a", "…"])
    assert matches(["a", "b", "c"], ["…", "b", "c"])
    assert not matches(["a", "b", "c"], ["a", "…", "b"])
    assert not matches(["a", "b"], ["a"])
    assert not matches(["a"], ["a", "b"])


def test_every_figure_that_is_shown_is_made_by_make_figures():
    listed = re.search(r"SHOWN := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text())[1]
    listed = set(listed.replace("\\\n", " ").split())
    pages = [*INDEPENDENT_PAGES, *SEQUENTIAL_PAGES, README]
    shown = {
        name for page in pages for name in re.findall(r"figures/([\w-]+)\.png", page.read_text())
    }
    assert shown == {path.stem for path in (DOCS / "figures").glob("*.png")}
    assert shown <= listed


FIGURE = re.compile(r"!\[[^\]]*\]\([\w./]*figures/([\w-]+)\.png\)")
DRAWN = re.compile(r"`(?:saddleback paper|make) ([\w-]+)`")


@pytest.mark.parametrize(
    "page",
    [*INDEPENDENT_PAGES, *SEQUENTIAL_PAGES, README],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_figure_is_shown_with_its_command(page):
    """In the paragraph before or after; the figure's name begins with that of what draws it."""
    parts = page.read_text(encoding="utf-8").split("\n\n")
    for at, part in enumerate(parts):
        for figure in FIGURE.findall(part):
            beside = DRAWN.findall(" ".join(parts[max(at - 1, 0) : at + 2]).replace("\n", " "))
            assert any(figure.startswith(name) for name in beside), figure


@pytest.mark.parametrize(
    "page", [*INDEPENDENT_PAGES, *SEQUENTIAL_PAGES], ids=lambda page: str(page.relative_to(ROOT))
)
def test_imports_on_a_page_are_dependencies_or_have_an_install_command(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dependencies = {re.match(r"[\w-]+", need)[0] for need in project["dependencies"]} | {
        "saddleback"
    }
    installed = " ".join(re.findall(r"`pip install ([^`]+)`", page.read_text(encoding="utf-8")))
    for block in blocks(page):
        if block.kind == "python":
            for name in re.findall(r"^(?:import|from) (\w+)", block.code, re.MULTILINE):
                assert (
                    name in dependencies | sys.stdlib_module_names or name in installed.split()
                ), name


def test_every_benchmark_is_on_its_page_with_its_machine():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    page = (DOCS / "project" / "benchmarks.md").read_text(encoding="utf-8")
    targets = re.findall(r"^(\w+): \$\(DEV\)\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    script = r"(?:benchmarks/(?=\w+\.py)|-m benchmarks\.)(\w+)"
    scripts = {target: re.findall(script, does) for target, does in targets}
    scripts = {target: names for target, names in scripts.items() if names}
    required = {"bench", "advice", "states", "traces", "coverage", "verdicts", "accuracy"}
    assert set(scripts) >= required
    for target, names in scripts.items():
        assert f"| `make {target}` |" in page
        for name in names:
            file = ROOT / "benchmarks" / f"{name}.py"
            file = file if file.exists() else ROOT / "benchmarks" / name / "__main__.py"
            text = file.read_text(encoding="utf-8")
            assert re.search(r"^    (?:console\.)?print\(machine_line\(\)", text, re.MULTILINE), (
                name
            )
    assert "`benchmarks/scaling.py`" in page
    from benchmarks.machine import machine_line

    line = machine_line()
    assert re.fullmatch(r".+, \d+ cores, \d{4}-\d\d-\d\d; python \S+, .*numpy \S+, .*", line)


def test_numbers_on_pages_are_those_of_the_measurements():
    """If not, make numbers writes them."""
    sys.path.insert(0, str(DOCS))
    try:
        from fill_numbers import NUMBER, NUMBERS, fill, measurements, numbers, pages
        from fill_tables import TABLE, TABLES, fill_tables, tables
    finally:
        sys.path.remove(str(DOCS))
    measured, used, shown = numbers(), set(), set()
    measured_tables = tables(measurements())
    assert {"one learner", "tiles, s", "base, MB"} <= set(measured)
    assert {"accuracy", "verdicts"} <= set(measured_tables)
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert fill_tables(fill(text, measured), measured_tables) == text, page.name
        used |= {name for _, name in NUMBER.findall(text)}
        shown |= {name for _, name, _ in TABLE.findall(text)}
    assert used == set(NUMBERS)
    assert shown == set(TABLES)
    text = "(1.5<!--= λ -->, 3,000–4<!--= λ --> or 98%<!--= log, 1 -->)"
    assert NUMBER.sub("", fill(text, {"λ": "2"})) == "(,  or )"
    assert fill(text, {"λ": "2"}) == "(2<!--= λ -->, 2<!--= λ --> or 98%<!--= log, 1 -->)"
    assert NUMBER.sub("", "an AMD\xa0EPYC<!--= processor -->") == "an "
    rates = {"GES(0.9)": 9.4e9, "GQ(0.9)": 8.8e9}
    rows = [
        {"rule": rule, "dtype": "float64", "learners": 32_000, "rate": rates[rule]}
        for rule in rates
    ]
    by_lambda = {lam: {"us_per_step": 2.0 + lam} for lam in (0.0, 0.9)}
    measured = {"kernel": rows[:1], "further": rows[1:], "by_lambda": by_lambda}
    assert [NUMBERS[name][1](measured) for name in ("GQ, 64", "GPU, λ")] == ["9", "1.45"]


def test_tables_on_pages_are_made_from_measurements(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    from fill_tables import fill_tables, verdicts_by_family

    page = "a\n\n<!--= table x -->\n\n| old |\n\n<!--= end -->\n\nb"
    assert fill_tables(page, {"x": "| new |"}) == page.replace("old", "new")
    assert fill_tables(page, {}) == page
    one = {
        "verdicts": 6, "usable": 4, "usable, missed": 1, "good": 5, "good, not usable": 2,
        "half-width": 0.25, "usable at c": 3, "missed at c": 2,
    }  # fmt: skip
    rows = {
        "automatic, discrete": {"graph": one, "all discrete": one},
        "by hand, discrete": {"graph": one | {"half-width": None}},
        "statistics, own": {"own problems": one},
    }
    *_, row = verdicts_by_family({"rows": rows}).splitlines()
    assert row == "| graph | 8/12 | 2 | 10 | 6 | 0.25 | 6 | 4 |"


def test_older_results_do_not_replace_measurements(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    from fill_numbers import NUMBERS, copy_results

    def write(folder, file, date):
        (tmp_path / folder).mkdir(exist_ok=True)
        content = json.dumps({"machine": {"date": date}})
        (tmp_path / folder / f"{file}.json").write_text(content)

    for file, new, kept in (
        ("bench", "2026-01-02", "2026-01-03"),
        ("install", "2026-01-03", "2026-01-02"),
        ("scaling", "2026-01-03", None),
    ):
        write("results", file, new)
        if kept:
            write("kept", file, kept)
    assert copy_results(tmp_path / "results", tmp_path / "kept") == [
        "kept: bench.json of 2026-01-03; that in results is older"
    ]
    dates = {
        path.stem: json.loads(path.read_text())["machine"]["date"]
        for path in (tmp_path / "kept").iterdir()
    }
    assert dates == {"bench": "2026-01-03", "install": "2026-01-03", "scaling": "2026-01-03"}
    assert NUMBERS["make test, min"][1]({"seconds": {"make paper": 60.0}}) is None
    assert NUMBERS["make paper, min"][1]({"seconds": {"make paper": 60.0}}) == "1.0"


def table_after(page, heading):
    """Rows of the first table below a heading, cells without markup."""
    text = page.read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    rows = re.search(r"^\|.*\n\|[ -:|]+\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def test_the_advice_on_learners_is_what_its_table_shows():
    rows = table_after(DOCS / "learn" / "rules.md", "## Learners, off-policy")
    errors = {row[0]: tuple(float(cell.split(" (")[0]) for cell in row[1:3]) for row in rows}
    assert list(errors.values()) == sorted(errors.values(), key=lambda pair: pair[0])
    regularised = [name for name in errors if name.endswith(", regularised")]
    advised = ["Retrace, correction", "tree backup, correction"]
    assert len(regularised) == 3
    for half in (0, 1):
        rest = [e[half] for name, e in errors.items() if name not in [*regularised, *advised]]
        assert max(errors[name][half] for name in advised) <= min(rest)
        assert max(errors[name][half] for name in regularised) <= min(
            errors[name][half] for name in advised
        )


def test_the_advice_on_state_values_is_what_its_tables_show():
    page = DOCS / "learn" / "rules.md"
    text = page.read_text(encoding="utf-8")
    table = re.search(r"runs that diverged:\n\n(.*?)\n\n", text, re.DOTALL)[1].splitlines()[2:]
    assert len(table) == 7
    for row in table:
        _, gtd2, tdc, tdrc, tied, _ = (int(share) for share in re.findall(r"\((\d+)%\)", row))
        assert tied <= min(gtd2, tdc, tdrc), row
    star = {(row[0], row[1]): row for row in table_after(page, "## State values")}
    for gamma in (".99", ".9"):  # equal in the mean, and one of them scatters
        gtd2, tdc = star[gamma, "GTD2(0)"], star[gamma, "TDC(0)"]
        assert abs(float(gtd2[2]) / float(tdc[2]) - 1) < 1e-3
        low, high = (float(end) for end in tdc[4].split("–"))
        assert low < float(gtd2[3]) < high


def test_tests_that_a_page_names_exist():
    """A page may name a test as evidence; a renamed test must be renamed there too."""
    files = (ROOT / "tests").rglob("test_*.py")
    defined = {
        name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    for page in [*INDEPENDENT_PAGES, *SEQUENTIAL_PAGES]:
        named = set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")))
        assert named <= defined, f"{page.name}: {named - defined}"


def test_links_lead_somewhere():
    """To a file of the repository, and within it to a heading."""
    for page in [*INDEPENDENT_PAGES, *SEQUENTIAL_PAGES, *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if target.startswith("http"):
                continue
            path, _, heading = target.partition("#")
            other = (page.parent / path).resolve() if path else page
            assert other.exists(), f"{page.name}: {target}"
            if heading:
                titles = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = [
                    re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
                ]
                assert heading in slugs, f"{page.name}: {target}"


def codes():
    """Codes of problems that the library reports."""
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    return set(re.findall(r"\b[EW]1\d\d\b", source))


def test_every_error_code_has_its_heading_and_no_other_has():
    page = (DOCS / "evaluate" / "error-codes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### ([EW]\d+)$", page, re.MULTILINE)) == codes()


def test_every_check_is_described_with_its_thresholds():
    page = DOCS / "reference" / "checks.md"
    text = page.read_text(encoding="utf-8")
    every = dict.fromkeys([*CHECKS, *BANDIT_CHECKS])
    assert re.findall(r"^### ([A-Z-]+)$", text, re.MULTILINE) == [check.code for check in every]
    rows = re.findall(r"^\| \[([A-Z-]+)\]\(#[a-z-]+\) \|(.*?)\|(.*)\|$", text, re.MULTILINE)
    shown = {code: (doubtful.strip(), refused.strip()) for code, doubtful, refused in rows}
    for check in every:
        sign = "<" if check.good == "large" else ">"
        refused = "" if check.refused is None else f"{sign} {check.refused:g}"
        doubtful = "" if check.doubtful == check.refused else f"{sign} {check.doubtful:g}"
        assert shown[check.code] == (doubtful, refused)
