"""Every page of the documentation says what its code prints, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

from pages import DOCS, PAGES, STORIES, Terminal, agrees, blocks, commands, printed
from saddleback.sweep import StudyError, read_study

ROOT = Path(__file__).parents[1]


def alone():
    """Blocks of pages whose blocks stand alone."""
    for page in PAGES:
        for block in blocks(page):
            if block.kind == "python":
                name = f"{page.relative_to(DOCS)}:{block.line}"
                yield pytest.param(block.code, block.output, id=name)


@pytest.mark.parametrize(("code", "output"), list(alone()))
def test_code_prints_what_the_page_says(code, output):
    assert printed(code, {"__name__": "page"}) == output


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
