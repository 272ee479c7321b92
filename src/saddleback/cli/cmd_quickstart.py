"""``saddleback quickstart``: from a log to an answer, on a made-up log, in a few seconds."""

from __future__ import annotations

from pathlib import Path

import click

from saddleback.cli.terminal import text_width
from saddleback.errors import InvalidParameter

POLICY = '''\
"""A candidate policy: treat earlier, with low doses."""

import numpy as np


def earlier(signs):
    """From signs (hr, bp, lactate) [n, 3] to probabilities of none, low and high [n, 3]."""
    sick = (signs[:, 2] > 3.0)[:, None]
    return np.where(sick, [0.15, 0.6, 0.25], [0.4, 0.5, 0.1])
'''


@click.command()
@click.option(
    "--out", default="saddleback-quickstart", show_default=True, metavar="FOLDER",
    type=click.Path(path_type=Path), help="Where to write the files.",
)  # fmt: skip
def command(out: Path) -> None:
    """Make a log up, check it, evaluate a policy on it, and tell what it means.

    The log is of a made-up clinic: signs of patients, a dose each hour, and how it ended.

    \b
    Examples:
      saddleback quickstart
    """
    click.echo("A made-up clinic: 2,000 patients, and each hour no dose, a low or a high one.")
    click.echo("The log shows what is done now. Would it be better to treat earlier?\n")
    from saddleback.log import Log
    from saddleback.paper import prepare
    from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic

    prepare(out)
    log, policy, result, page = (
        out / name for name in ("visits.parquet", "policy.py", "result.json", "report.html")
    )
    ours = policy.exists() and policy.read_text(encoding="utf-8", errors="replace") == POLICY
    for each in (log, policy, result, page):
        if each.exists() and not ours:
            raise InvalidParameter(f"{each} is not of a quickstart: choose another folder, --out.")
    Log(clinic(2000, rng=0), observations=SIGNS, actions=DOSES).write(log, gamma=0.97)
    policy.write_text(POLICY, encoding="utf-8")
    obs = ",".join(SIGNS)
    _run("1. Is the log sound?", "check", str(log), "--obs", obs, "--quiet")
    pages = _pages()
    look = ("--report", str(page)) if pages else ()
    _run(
        "2. What would the candidate have been worth, and can that be trusted?",
        "evaluate", str(log), "--obs", obs, "--target", f"{policy}:earlier", "--features", "rbf:64",
        "--save", str(result), *look, "--quiet",
    )  # fmt: skip
    click.echo("3. What it means")
    click.echo(_meaning(result))
    click.echo(f"\nAgain, with every check:\n$ saddleback explain {result}")
    if pages:
        click.echo(f"\nAnd as a page, to open in a browser: {page}")
    else:
        click.echo("\nAnd as a page for the browser, with pip install 'saddleback[report]'.")


def _pages() -> bool:
    """Whether pages for the browser can be written."""
    from saddleback.report import ready

    try:
        ready()
    except InvalidParameter:
        return False
    return True


def _run(title: str, *words: str) -> None:
    """Show a command, and run it."""
    from saddleback.cli.group import group

    click.echo(f"{title}\n$ saddleback {_broken(words)}\n")
    try:
        group.main(list(words), prog_name="saddleback", standalone_mode=False)
    except SystemExit as status:
        if status.code == INTERRUPTED:
            raise
        click.echo(f"\n(exit status {status.code}: {MEANS.get(str(status.code), 'bad input')})")
    click.echo()


INTERRUPTED = 130
"""Exit status of a command that was interrupted."""

MEANS = {"0": "usable", "3": "refused", "4": "doubtful"}


def _broken(words: tuple[str, ...]) -> str:
    """Return a command as it is typed, in lines that fit."""
    lines, now = [], ""
    for word in (each for each in words if each != "--quiet"):
        if len(now) + len(word) > 60:
            lines.append(now)
            now = ""
        now = f"{now} {word}".strip()
    return " \\\n    ".join([*lines, now])


def _meaning(path: Path) -> str:
    """Tell the verdict in plain sentences."""
    import json
    import textwrap

    from saddleback.verdict.number_format import decimals, number, span

    (verdict,) = json.loads(path.read_text(encoding="utf-8"))["verdicts"]
    improvement = verdict["improvement"]
    places = decimals(verdict)
    low, high = verdict["interval_with_gap"]
    text = (
        f"Patients under the present policy returned {number(improvement['baseline'], places)} on "
        f"average. Under the candidate they would have returned "
        f"{number(verdict['value'], places)} (bias-adjusted 95% CI "
        f"{span(low, high, places)}). The estimate is {verdict['trust']} "
        f"({verdict['reason']}), and the candidate is {improvement['outcome']}. The least data is "
        f"for {verdict['weakest']}."
    )
    return "\n".join(textwrap.wrap(text, text_width()))
