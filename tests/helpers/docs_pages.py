"""Pages of the documentation as programs: their blocks of code, and what they say these print."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from saddleback.cli.group import group

DOCS = Path(__file__).parents[2] / "docs"
STORIES = [
    *(
        DOCS / "evaluate" / f"{name}.md"
        for name in (
            "quickstart", "verdict", "log-format", "estimators", "large-logs",
            "missing-propensities",
        )
    ),
    DOCS / "learn" / "problems.md",
    DOCS / "learn" / "extending.md",
]  # fmt: skip
"""Pages whose blocks follow on each other: one program, in a folder of its own."""

PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts and p not in STORIES)
"""Pages whose blocks stand alone."""

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```(?:\n+```text\n(.*?)^```)?", re.DOTALL | re.M)


class Block(NamedTuple):
    """A block of code on a page."""

    kind: str
    code: str
    output: str
    line: int


def blocks(page):
    """Return the blocks of Python and of commands on a page."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text[: found.start()].count("\n") + 1
        yield Block(found[1], found[2], found[3] or "", line)


def printed(code, names):
    """Run Python and return what it prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "page", "exec"), names)
    return said.getvalue()


def commands(block):
    """Return each command of a block with the output that stands below it."""
    found = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found[-1][0].endswith("\\"):
            found[-1][0] = found[-1][0][:-1] + line.strip()
        else:
            found[-1][1].append(line)
    return found


class Terminal:
    """Runs ``saddleback …`` and ``echo $?`` as if typed, 80 columns wide; installs nothing."""

    def __init__(self, folder):
        self.folder, self.status = folder, 0

    def type(self, command):
        """Run a command and return the lines of its standard output."""
        if command == "echo $?":
            return [str(self.status)]
        program, *words = shlex.split(command, comments=True)
        if program == "pip":
            return []
        assert program == "saddleback", command
        with contextlib.chdir(self.folder):
            done = CliRunner(env={"COLUMNS": "80"}).invoke(group, words)
        assert done.exit_code in (0, 3, 4, 5), done.stderr
        self.status = done.exit_code
        return done.stdout.rstrip("\n").split("\n")


def agrees(lines, wanted):
    """Whether lines are those wanted, where a line ``…`` stands for any number of them."""
    if not wanted:
        return not lines
    if wanted[0] == "…":
        return any(agrees(lines[i:], wanted[1:]) for i in range(len(lines) + 1))
    return bool(lines) and lines[0] == wanted[0] and agrees(lines[1:], wanted[1:])
