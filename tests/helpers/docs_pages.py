"""Pages of the documentation as programs: their blocks of code with the expected output."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from saddleback.cli.group import group

DOCS = Path(__file__).parents[2] / "docs"
SEQUENTIAL_PAGES = [
    *(
        DOCS / "evaluate" / f"{name}.md"
        for name in (
            "quickstart", "verdict", "log-format", "estimators", "large-logs",
            "missing-propensities", "bandits", "continuous-actions", "messy-tables",
            "finite-horizons",
        )
    ),
    DOCS / "learn" / "problems.md",
    DOCS / "learn" / "extending.md",
]  # fmt: skip
"""Pages whose blocks form one program, run in a separate folder."""

INDEPENDENT_PAGES = sorted(
    p for p in DOCS.rglob("*.md") if "_build" not in p.parts and p not in SEQUENTIAL_PAGES
)
"""Pages whose blocks run independently."""

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
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        yield Block(match[1], match[2], match[3] or "", line)


def run_python(code, names):
    """Run Python and return what it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "page", "exec"), names)
    return output.getvalue()


def commands(block):
    """Return each command of a block with the output shown below it."""
    listed = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            listed.append([line[2:], []])
        elif listed[-1][0].endswith("\\"):
            listed[-1][0] = listed[-1][0][:-1] + line.strip()
        else:
            listed[-1][1].append(line)
    return listed


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


def matches(lines, expected):
    """Whether lines are as expected, where a line ``…`` stands for any number of them."""
    if not expected:
        return not lines
    if expected[0] == "…":
        return any(matches(lines[i:], expected[1:]) for i in range(len(lines) + 1))
    return bool(lines) and lines[0] == expected[0] and matches(lines[1:], expected[1:])
