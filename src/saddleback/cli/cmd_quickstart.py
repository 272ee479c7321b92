"""``saddleback quickstart``: a guided tour on a synthetic log."""

from __future__ import annotations

from pathlib import Path

import click

from saddleback._paths import output_file
from saddleback.cli.files import prepare_folder
from saddleback.cli.terminal import echo, text_width
from saddleback.errors import InvalidParameter

POLICY = '''\
"""A candidate policy: treat earlier, with low doses."""

import numpy as np


def earlier(signs):
    """Map signs (hr, bp, lactate) [n, 3] to probabilities of none, low and high [n, 3]."""
    sick = (signs[:, 2] > 3.0)[:, None]
    return np.where(sick, [0.15, 0.6, 0.25], [0.4, 0.5, 0.1])
'''


@click.command()
@click.option(
    "--out", default="saddleback-quickstart", show_default=True, metavar="FOLDER",
    type=click.Path(path_type=Path), help="Folder for the files.",
)  # fmt: skip
def command(out: Path) -> None:
    """Generate a synthetic log, check it, evaluate a policy on it, and explain the result.

    The log is of a synthetic clinic: patients' signs, an hourly dose, and the outcome.

    \b
    Examples:
      saddleback quickstart
    """
    echo("A synthetic clinic: 2,000 patients, given no, a low or a high dose every hour.")
    echo("The log records current practice. Would earlier treatment be better?\n")
    from saddleback.log import Log
    from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic

    prepare_folder(out)
    log, policy, result, page = (
        out / name for name in ("visits.parquet", "policy.py", "result.json", "report.html")
    )
    rerun = policy.exists() and policy.read_text(encoding="utf-8", errors="replace") == POLICY
    for path in (log, policy, result, page):
        if path.exists() and not rerun:
            raise InvalidParameter(
                f"{path} exists and is not from a quickstart: choose another folder with --out."
            )
    Log(clinic(2000, rng=0), observations=SIGNS, actions=DOSES).write(log, gamma=0.97)
    with output_file(policy) as file:
        file.write(POLICY.encode())
    obs = ",".join(SIGNS)
    _run("1. Is the log valid?", "check", str(log), "--obs", obs, "--quiet")
    has_reports = _can_write_pages()
    report = ("--report", str(page)) if has_reports else ()
    _run(
        "2. What is the value of the candidate, and can the estimate be trusted?",
        "evaluate", str(log), "--obs", obs, "--target", f"{policy}:earlier",
        "--save", str(result), *report, "--quiet",
    )  # fmt: skip
    echo("3. Interpretation")
    echo(_interpretation(result))
    echo(f"\nTo see every check:\n$ saddleback explain {result}")
    if has_reports:
        echo(f"\nReport, to open in a browser: {page}")
    else:
        echo("\nFor a report in the browser: pip install 'saddleback[report]'.")


def _can_write_pages() -> bool:
    """Whether the packages for HTML pages are installed."""
    from saddleback.report import ready

    try:
        ready()
    except InvalidParameter:
        return False
    return True


def _run(title: str, *arguments: str) -> None:
    """Print a command, and run it."""
    from saddleback.cli.group import group

    echo(f"{title}\n$ saddleback {_wrapped(arguments)}\n")
    try:
        group.main(list(arguments), prog_name="saddleback", standalone_mode=False)
    except SystemExit as status:
        if status.code == INTERRUPTED:
            raise
        echo(f"\n(exit status {status.code}: {OUTCOMES.get(str(status.code), 'invalid input')})")
    echo()


INTERRUPTED = 130
"""Exit status of a command that was interrupted."""

OUTCOMES = {"0": "usable", "3": "refused", "4": "doubtful"}


def _wrapped(arguments: tuple[str, ...]) -> str:
    """Return a command line without --quiet, continued over several lines if it is long.

    An option and its value stay on one line.

    Examples
    --------
    >>> print(_wrapped(("evaluate", "log.parquet", "--obs", "a" * 30, "--save", "b" * 20)))
    evaluate log.parquet --obs aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \\
        --save bbbbbbbbbbbbbbbbbbbb
    """
    parts: list[str] = []
    for argument in (argument for argument in arguments if argument != "--quiet"):
        if parts and parts[-1].startswith("--") and not argument.startswith("--"):
            parts[-1] += f" {argument}"
        else:
            parts.append(argument)
    lines, line = [], ""
    for part in parts:
        if line and len(line) + len(part) > 60:
            lines.append(line)
            line = ""
        line = f"{line} {part}".strip()
    return " \\\n    ".join([*lines, line])


def _interpretation(path: Path) -> str:
    """Return the verdict in plain sentences."""
    import json
    import textwrap

    from saddleback.ope.number_format import decimals, number, span

    (verdict,) = json.loads(path.read_text(encoding="utf-8"))["verdicts"]
    improvement = verdict["improvement"]
    places = decimals(verdict)
    low, high = verdict["interval_with_gap"]
    text = (
        f"Under the logged policy the mean return is "
        f"{number(improvement['baseline'], places)}. Under the candidate it would be "
        f"{number(verdict['value'], places)} (bias-adjusted 95% CI "
        f"{span(low, high, places)}). The estimate is {verdict['trust']}: {verdict['reason']}. "
        f"The candidate is {improvement['outcome']}. The region with the least data: "
        f"{verdict['weakest']}."
    )
    return "\n".join(textwrap.wrap(text, text_width()))
