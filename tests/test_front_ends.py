"""The library speaks data: options, printing and exit statuses belong to the command line."""

import ast
import pickle
import re
from pathlib import Path

import click
import pytest

from saddleback.cli.group import COMMANDS, group
from saddleback.cli.messages import as_option
from saddleback.errors import Fix, InvalidParameter
from saddleback.log import Finding, LogError

ROOT = Path(__file__).parents[1] / "src" / "saddleback"

OPTION = re.compile(r"(?<!var\()(?<![\w-])--[a-z][a-z-]*(?![a-z-]*:)")
"""An option; not a custom property of CSS, ``var(--name)`` or ``--name:``."""

MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in ROOT.rglob("*.py")
    if "cli" not in path.relative_to(ROOT).parts
)


def front_end_code(source):
    """Return lines of options in strings, calls of print and uses of sys.argv and sys.exit."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            lines += [node.lineno] * bool(OPTION.search(node.value))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("print", "exit"):
            lines.append(node.lineno)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "sys":
            lines += [node.lineno] * (node.attr in ("argv", "exit"))
        elif isinstance(node, ast.Raise) and node.exc is not None:  # catching it is fine
            lines += [node.lineno] * ("SystemExit" in ast.unparse(node.exc))
    return lines


def test_front_end_code_is_recognised():
    options = '"pass --min-prob 0.1"\n"(--bootstrap 20)"\n"""Of ``--quick``."""'
    assert front_end_code(options) == [1, 2, 3]
    statements = "print(1)\nsys.argv\nsys.exit(2)\nraise SystemExit"
    assert sorted(front_end_code(statements)) == [1, 2, 3, 4]
    assert not front_end_code('"var(--ink)"\n":root { --blue: red }"\n"a -- b"\n"x--y"')


@pytest.mark.parametrize("module", MODULES)
def test_options_printing_and_exit_statuses_are_in_the_command_line_only(module):
    lines = front_end_code((ROOT / module).read_text(encoding="utf-8"))
    assert not lines


FIXES = [
    ("check", Fix("Clip", "min_prob", 0.1), "Clip: min_prob=0.1.", "Clip: --min-prob 0.1."),
    ("check", Fix("Clip", "min_prob"), "Clip: min_prob=…", "Clip: --min-prob …"),
    ("check", Fix("Drop", "drop_bad", "episode"), 'Drop: drop_bad="episode".', "Drop: --drop-bad."),
    ("check", Fix("Map", "columns", {"step": "t"}), 'Map: columns={"step": "t"}.',
     "Map: --column step=t."),
    ("rank", Fix("List", "actions", ["a", "b"]), 'List: actions=["a", "b"].',
     "List: --actions a,b."),
    ("evaluate", Fix("Solve", "methods", ["svrg"]), 'Solve: methods=["svrg"].',
     "Solve: --method svrg."),
    ("rank", Fix("Use", "blocks", 20), "Use: blocks=20.", "Use: saddleback stats --blocks 20."),
    ("check", Fix("Pass", "behaviour", "…", "Log(…, behaviour=f)"), "Pass: Log(…, behaviour=f).",
     "Pass: Log(…, behaviour=f) in Python."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fix", "python", "option"), FIXES)
def test_a_fix_is_worded_by_each_front_end(name, fix, python, option):
    assert str(fix) == python
    with click.Context(group.get_command(click.Context(group), name), info_name=name):
        assert as_option(fix) == option
    error = InvalidParameter("no.", fix)
    assert (str(error), error.render(as_option)) == (f"no. {python}", f"no. {as_option(fix)}")


def test_the_parameter_of_every_fix_is_an_option_or_has_code():
    context = click.Context(group)
    options = {p.name for name in COMMANDS for p in group.get_command(context, name).params}
    for module in MODULES:
        for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
            is_fix = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Fix"
            if is_fix and len(node.args) in (2, 3):  # without code
                assert node.args[1].value in options, (module, node.lineno)


def test_errors_keep_their_fix_between_processes():
    fix = Fix("Clip", "min_prob", 0.1)
    for error in (InvalidParameter("no.", fix), LogError(Finding("E101", "no.", fix))):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))
    assert copy.findings == error.findings
    assert str(error) == "E101 no. Clip: min_prob=0.1."
