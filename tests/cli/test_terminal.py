"""Every command in a real terminal: wide and narrow, with and without colours, interrupted.

Tests that capture output have no terminal, and miss effects that need one.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest

from helpers.docs_pages import blocks, commands, matches, run_python
from helpers.pseudo_terminal import SEQUENCE, assert_clean, example_folder, in_terminal
from saddleback.cli.group import COMMANDS

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX pseudo-terminals"),
    pytest.mark.slow,
]

README = Path(__file__).parents[2] / "README.md"
JUDGED = (0, 3, 4)
"""Exit statuses of an evaluation."""

LOG = ["car.parquet"]
TILES = ["--features", "tiles:4x2", "--low=-1.2,-0.07", "--high=0.6,0.07"]
TARGET = ["--target", "pump:0.8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a log, a result, statistics and results of a study."""
    folder = example_folder(tmp_path_factory.mktemp("terminal"))
    for words, statuses in (
        (["evaluate", *LOG, *TARGET, *TILES, "--save", "r.json"], JUDGED),
        (["stats", *LOG, *TARGET, *TILES, "--out", "car.stats"], (0,)),
        (["sweep", "study.toml", "--out", "done"], (0,)),
    ):
        assert_clean(in_terminal(*words, folder=folder), *statuses)
    return folder


CASES = {
    "help": (["--help"], 40, {}, (0,)),
    "version": (["--version"], 80, {}, (0,)),
    "help of a command": (["evaluate", "--help"], 160, {}, (0,)),
    "check": (["check", *LOG], 160, {}, (0,)),
    "check, narrow": (["check", *LOG, "--gamma", "0.9"], 40, {"NO_COLOR": "1"}, (0,)),
    "evaluate, narrow": (["evaluate", *LOG, *TARGET, *TILES], 40, {}, JUDGED),
    "evaluate": (["evaluate", *LOG, *TARGET], 80, {}, JUDGED),
    "evaluate, wide": (
        ["evaluate", *LOG, "--target", "policy.py:probs", "--target", "u=uniform", *TILES,
         "--method", "fqe", "--method", "is", "--path"], 160, {}, JUDGED,
    ),
    "evaluate, no colour": (["evaluate", *LOG, *TARGET, *TILES], 80, {"NO_COLOR": "1"}, JUDGED),
    "evaluate, propensities estimated": (
        ["evaluate", *LOG, *TARGET, *TILES, "--estimate-behaviour", "counts"], 80, {}, JUDGED,
    ),
    "evaluate, dumb": (["evaluate", *LOG, *TARGET, *TILES], 80, {"TERM": "dumb"}, JUDGED),
    "evaluate statistics": (["evaluate", "car.stats"], 80, {"FORCE_COLOR": "1"}, JUDGED),
    "evaluate, JSON": (["evaluate", "car.stats", "--json"], 80, {}, JUDGED),
    "explain": (["explain", "r.json"], 80, {"FORCE_COLOR": "1"}, (0,)),
    "explain, narrow": (["explain", "r.json"], 40, {}, (0,)),
    "explain, wide": (["explain", "r.json"], 160, {}, (0,)),
    "rank": (
        ["rank", *LOG, *TARGET, "--target", "u=uniform", *TILES], 160, {}, (0, 3, 4, 5)
    ),
    "rank, narrow": (["rank", "car.stats"], 40, {"TERM": "dumb"}, (0, 3, 4, 5)),
    "stats": (["stats", *LOG, *TARGET, *TILES, "--out", "again.stats"], 160, {}, (0,)),
    "merge": (["merge", "car.stats", "--out", "merged.stats"], 80, {}, (0,)),
    "analyse": (["analyse", "two_state", "--rule", "GES", "--out", "a.png"], 40, {}, (0,)),
    "analyse, dumb": (["analyse", "two_state", "--rule", "GES"], 160, {"TERM": "dumb"}, (0,)),
    "sweep": (["sweep", "study.toml", "--out", "new"], 40, {}, (0,)),
    "sweep, dumb": (["sweep", "study.toml", "--out", "dumb"], 80, {"TERM": "dumb"}, (0,)),
    "sweep, no colour": (["sweep", "study.toml", "--out", "plain"], 160, {"NO_COLOR": "1"}, (0,)),
    "sweep again": (["sweep", "study.toml", "--out", "done"], 80, {}, (0,)),
    "plan": (["sweep", "study.toml", "--plan"], 80, {}, (0,)),
    "report of a result": (["report", "r.json", "--out", "r.html"], 80, {}, (0,)),
    "report of a study": (["report", "done", "--out", "s.html"], 40, {}, (0,)),
    "explorer": (["explorer", "--out", "e.html"], 80, {}, (0,)),
    "paper": (["paper", "step-size", "--quick", "--out", "quick"], 80, {}, (0,)),
    "paper, narrow": (["paper", "table1", "--quick", "--out", "narrow"], 40, {}, (0,)),
    "unknown command": (["evaluat"], 80, {}, (2,)),
    "missing file": (["check", "none.parquet"], 40, {"FORCE_COLOR": "1"}, (2,)),
}  # fmt: skip


ANSWERED = ("evaluate", "evaluate, narrow", "rank", "explain", "explain, narrow")
"""Those of one question, whose first line is the answer."""

LONGEST = {40: 39, 80: 79, 160: 100}
"""Columns that text may fill, by the width of the terminal."""

FRESH = ("check", "evaluate", "rank", "sweep")
"""Cases that start a new interpreter."""


@pytest.mark.parametrize("name", CASES)
def test_a_command_succeeds_and_leaves_the_terminal_clean(folder, name):
    words, width, environment, statuses = CASES[name]
    session = in_terminal(*words, folder=folder, width=width, fresh=name in FRESH, **environment)
    assert_clean(session, *statuses)
    assert session.flat
    if "NO_COLOR" in environment or environment.get("TERM") == "dumb":
        assert not re.search(r"\x1b\[[0-9;]*3[0-7][0-9;]*m", session.written), "colours"
    if environment.get("TERM") == "dumb":
        assert "\x1b" not in session.written
    longest = max(map(len, session.lines))
    if name in ANSWERED:
        # The first command on a machine announces that it compiles.
        first = next(line for line in session.lines if not line.startswith("compiling kernels"))
        assert re.match("Better:|Worse:|Inconclusive:|No answer", first), session.text
        assert longest < width
    if words[0] == "explain":
        assert LONGEST[width] - 12 <= longest <= LONGEST[width], "the width is not used"


def test_every_command_is_tried():
    """The quickstart is run with the commands of the README."""
    assert {words[0] for words, *_ in CASES.values()} >= set(COMMANDS) - {"quickstart"}


def test_the_bar_stays_on_one_line(folder):
    session = in_terminal("sweep", "study.toml", "--out", "line", folder=folder, width=80)
    drawn = [SEQUENCE.sub("", line) for line in re.split(r"[\r\n]", session.written)]
    bars = [line for line in drawn if "%" in line and "━" in line]
    assert bars
    assert all(len(line) < 80 and re.search("sweep|starting", line) for line in bars)


def test_the_verdict_is_coloured_by_its_outcome(folder):
    words = ["explain", "r.json"]
    shown = in_terminal(*words, folder=folder)
    first = shown.written.split("\n")[0]
    assert re.match(r"\x1b\[(31|32|33)m", first), first
    plain = in_terminal(*words, folder=folder, NO_COLOR="1")
    assert not plain.coloured
    assert plain.text == shown.text


INTERRUPTED = {
    "evaluate": (["evaluate", *LOG, *TARGET], "━", "interrupted."),
    "evaluate, resampling": (
        ["evaluate", *LOG, *TARGET, *TILES, "--bootstrap", "5000"],
        "resampling", "interrupted.",
    ),
    "stats": (["stats", *LOG, *TARGET, *TILES, "--out", "x.stats"], "━", "interrupted."),
    "quickstart": (["quickstart", "--out", "q"], "2. What is", "interrupted."),
    "sweep": (["sweep", "long.toml", "--out", "long"], "━", "finished tasks are kept"),
    "paper": (["paper", "step-size", "--out", "p"], "tasks", "finished tasks are kept"),
}  # fmt: skip


@pytest.mark.parametrize("name", INTERRUPTED)
def test_ctrl_c_ends_a_command_with_130_and_a_line(folder, name):
    words, after, message = INTERRUPTED[name]
    study = (folder / "study.toml").read_text(encoding="utf-8")
    longer = study.replace("runs = 1", "runs = 200").replace("steps = 1000", "steps = 200_000")
    (folder / "long.toml").write_text(longer, encoding="utf-8")
    session = in_terminal(*words, folder=folder, interrupt=after, fresh=name in FRESH)
    assert_clean(session, 130)
    assert message in session.flat
    assert "error" not in session.flat
    assert session.text.count("interrupted") == 1
    assert session.seconds_after_interrupt < 15.0  # nothing that runs in threads is waited for


@pytest.mark.usefixtures("known_opinions")
def test_the_readme_runs_as_printed(tmp_path, monkeypatch):
    """From top to bottom, commands in a terminal: the first makes the log that the rest read."""
    monkeypatch.chdir(tmp_path)
    screens, names = {}, {"__name__": "page"}
    for block in blocks(README):
        if block.kind == "python":
            lines = run_python(block.code, names).splitlines()
            assert matches(lines, block.output.splitlines()), "\n".join(lines)
            continue
        for line, _ in commands(block):
            program, *words = shlex.split(line, comments=True)
            if program == "saddleback":
                session = in_terminal(*words, folder=tmp_path)
                assert_clean(session, 0)
                screens[words[0]] = session.flat
                assert max(map(len, session.lines)) <= 80
    for part in ("1. Is the log valid?", "no warnings. Ready.", "; the estimate is reliable.",
                 "3. Interpretation", "The candidate is", "explain"):  # fmt: skip
        assert part in screens["quickstart"]
    assert screens["quickstart"].count("Better: difference +") == 1
    assert sorted(path.name for path in (tmp_path / "saddleback-quickstart").glob("[a-z]*.*")) == [
        "policy.py", "report.html", "result.json", "visits.parquet",
    ]  # fmt: skip
    assert screens["check"].endswith("Ready.")
    assert re.match(r"Better: difference \+.*; the estimate is reliable\.", screens["evaluate"])
    assert (tmp_path / "result.html").exists()
