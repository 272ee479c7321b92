"""Every page of the documentation says what its code prints, and its links lead somewhere."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from helpers.docs_pages import DOCS, PAGES, STORIES, Terminal, agrees, blocks, commands, printed
from saddleback.sweep import StudyError, read_study

ROOT = Path(__file__).parents[2]


def alone():
    """Blocks of pages whose blocks stand alone."""
    for page in PAGES:
        for block in blocks(page):
            if block.kind == "python":
                name = f"{page.relative_to(DOCS)}:{block.line}"
                yield pytest.param(block.code, block.output, id=name)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "output"), list(alone()))
def test_code_prints_what_the_page_says(code, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert printed(code, {"__name__": "page"}) == output


@pytest.mark.slow
@pytest.mark.parametrize("page", STORIES, ids=lambda page: str(page.relative_to(DOCS)))
def test_stories_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    terminal, names, ran = Terminal(tmp_path), {"__name__": "page"}, 0
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.kind == "python":
            assert printed(block.code, names) == block.output, where
            ran += 1
            continue
        for command, wanted in commands(block):
            said = terminal.type(command)
            if wanted:
                assert agrees(said, wanted), f"{where}: {command}\n" + "\n".join(said)
                ran += 1
    assert ran, "a story without code"


def test_a_study_with_mistakes_is_told_what_the_page_says(tmp_path, monkeypatch):
    """The study of the page runs; with the mistakes it names, it is refused in these words."""
    page = (DOCS / "sweeps.md").read_text(encoding="utf-8")
    study = re.search(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1]
    said = re.search(r"^\$ saddleback sweep study.toml\nerror: (.*?)^```", page, re.DOTALL | re.M)[
        1
    ]
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "import saddleback as sb\ndef chain(length): return sb.problems.two_state(1 - 1 / length)\n"
    )
    Path("study.toml").write_text(study, encoding="utf-8")
    assert len(read_study(Path("study.toml")).rules) == 4
    Path("study.toml").write_text(study.replace("alpha =", "alhpa =").replace("0.99]  ", "1.5]  "))
    with pytest.raises(StudyError) as raised:
        read_study(Path("study.toml"))
    assert f"{raised.value}\n" == said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "status", "told"),
    [
        (DOCS / "logs.md", 4, "COVERAGE 94.9% of what the target does rests on at least 10 rows"),
    ],
    ids=["logs.md"],
)
def test_the_first_commands_run_on_the_file_that_the_code_writes(
    page, status, told, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, output, *_ = next(block[1:] for block in blocks(page) if block.kind == "python")
    promised = [line[2:] for line in code.splitlines() if line.startswith("# ")]
    assert printed(code, {"__name__": "page"}).splitlines() == (output.splitlines() or promised)
    assert [path.name for path in tmp_path.iterdir()] == ["car.parquet"]
    terminal = Terminal(tmp_path)
    block = next(each for each in blocks(page) if "$ saddleback check car.parquet" in each.code)
    typed = [command for command, _ in commands(block) if "car.parquet" in command]
    assert [command.split()[1] for command in typed] == ["check", "evaluate"]
    terminal.type(typed[0])
    assert terminal.status == 0
    said = " ".join(" ".join(terminal.type(typed[1])).split())
    assert terminal.status == status
    assert told in said


def test_the_ellipsis_stands_for_lines_only_where_it_is():
    assert agrees(["a", "b", "c"], ["a", "…"])
    assert agrees(["a", "b", "c"], ["…", "b", "c"])
    assert not agrees(["a", "b", "c"], ["a", "…", "b"])
    assert not agrees(["a", "b"], ["a"])
    assert not agrees(["a"], ["a", "b"])


def test_every_figure_that_is_shown_is_made_by_make_figures():
    made = re.search(r"SHOWN := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text())[1]
    made = set(made.replace("\\\n", " ").split())
    pages = [*PAGES, *STORIES, ROOT / "README.md"]
    shown = {
        name for page in pages for name in re.findall(r"figures/([\w-]+)\.png", page.read_text())
    }
    assert shown == {path.stem for path in (DOCS / "figures").glob("*.png")}
    assert shown <= made


FIGURE = re.compile(r"!\[[^\]]*\]\([\w./]*figures/([\w-]+)\.png\)")
DRAWN = re.compile(r"`(?:saddleback paper|make) ([\w-]+)`")


@pytest.mark.parametrize(
    "page", [*PAGES, *STORIES, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_figure_has_its_command_beside_it(page):
    """In the paragraph before or after; the figure's name begins with that of what draws it."""
    parts = page.read_text(encoding="utf-8").split("\n\n")
    for at, part in enumerate(parts):
        for figure in FIGURE.findall(part):
            beside = DRAWN.findall(" ".join(parts[max(at - 1, 0) : at + 2]).replace("\n", " "))
            assert any(figure.startswith(name) for name in beside), figure


@pytest.mark.parametrize("page", [*PAGES, *STORIES], ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_imports_comes_with_saddleback_or_the_page_says_how(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = {re.match(r"[\w-]+", need)[0] for need in project["dependencies"]} | {"saddleback"}
    told = " ".join(re.findall(r"`pip install ([^`]+)`", page.read_text(encoding="utf-8")))
    for block in blocks(page):
        if block.kind == "python":
            for name in re.findall(r"^(?:import|from) (\w+)", block.code, re.MULTILINE):
                assert name in ours | sys.stdlib_module_names or name in told.split(), name


def test_every_benchmark_is_on_its_page_and_says_where_it_ran():
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    targets = re.findall(r"^(\w+): \$\(DEV\)\n((?:\t.*\n)+)", made, re.MULTILINE)
    scripts = {target: re.findall(r"benchmarks/(\w+\.py)", does) for target, does in targets}
    scripts = {target: names for target, names in scripts.items() if names}
    assert set(scripts) >= {"bench", "advice", "states", "traces", "coverage", "verdicts"}
    for target, names in scripts.items():
        assert f"| `make {target}` |" in page
        for name in names:
            text = (ROOT / "benchmarks" / name).read_text(encoding="utf-8")
            assert re.search(r"^    (?:console\.)?print\(machine_line\(\)", text, re.MULTILINE), name
    assert "scaling.md" in page
    from benchmarks.machine import machine_line

    line = machine_line()
    assert re.fullmatch(r".+, \d+ cores, \d{4}-\d\d-\d\d; python \S+, .*numpy \S+, .*", line)


def table_after(page, heading):
    """Rows of the first table below a heading, cells without markup."""
    text = page.read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    rows = re.search(r"^\|.*\n\|[ -:|]+\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def test_the_advice_on_learners_is_what_its_table_shows():
    rows = table_after(DOCS / "choosing.md", "## Learners, off-policy")
    errors = {row[0]: (float(row[1]), float(row[3])) for row in rows}
    assert list(errors.values()) == sorted(errors.values(), key=lambda each: each[0])
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
    page = DOCS / "choosing.md"
    text = page.read_text(encoding="utf-8")
    diverged = re.search(r"runs that diverged:\n\n(.*?)\n\n", text, re.DOTALL)[1].splitlines()
    for row in diverged[2:]:
        _, _, gtd2, tdc, tdrc, tied, _ = (cell.strip(" %") for cell in row.strip("|").split("|"))
        assert int(tied) <= min(int(gtd2), int(tdc), int(tdrc)), row
    star = {(row[0], row[1]): row for row in table_after(page, "## State values")}
    for gamma in (".99", ".9"):  # equal in the mean, and one of them scatters
        gtd2, tdc = star[gamma, "GTD2(0)"], star[gamma, "TDC(0)"]
        assert abs(float(gtd2[3]) / float(tdc[3]) - 1) < 1e-3
        low, high = (float(end) for end in tdc[6].split(" to "))
        assert low < float(gtd2[4]) < high


def test_links_lead_somewhere():
    """To a file of the repository, and within it to a heading."""
    for page in [*PAGES, *STORIES, *ROOT.glob("*.md")]:
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
