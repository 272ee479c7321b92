"""``saddleback check``: summary and validation of a log."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from saddleback._json import json_text
from saddleback._progress import part_of
from saddleback.cli.files import check_outputs
from saddleback.cli.log_options import LogFiles, bandit_option, log_options
from saddleback.cli.messages import as_option, echo_message
from saddleback.cli.options import json_option, quiet_option
from saddleback.cli.progress import display
from saddleback.cli.terminal import echo, text_width
from saddleback.errors import with_fix

if TYPE_CHECKING:
    from saddleback.log import Finding, LogSummary


@click.command()
@log_options
@bandit_option
@click.option("--gamma", type=float, help="Discount to validate the log against.")
@click.option(
    "--fix", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the log as the options repair it, as Parquet.",
)  # fmt: skip
@quiet_option
@json_option
def command(
    log: LogFiles, gamma: float | None, fix: Path | None, quiet: bool, as_json: bool
) -> None:
    """Summarise a log and list every problem with row numbers and a fix.

    FILE is Parquet, Arrow, CSV or JSON lines with one row per decision: episode_id, step, obs_0 …,
    action (action_0 … if it is continuous), reward, terminated, truncated, next_obs_0 … where
    truncated, and behavior_prob; with --bandit obs_0 …, action, reward and behavior_prob. Exit
    status 2 if there are errors.

    \b
    Examples:
      saddleback check visits.parquet --gamma 0.97
      saddleback check "logs/*.parquet" --obs hr,bp --actions none,low,high
      saddleback check visits.csv --obs hr,bp --order-by charted_at \\
          --episodes-end terminated --fill-reward 0 --fix visits.parquet
    """
    from saddleback import _validate

    if gamma is not None:
        _validate.unit("check", "gamma", gamma)
    check_outputs(fix, inputs=log.files)
    from saddleback.log import LogError

    try:
        with display(quiet or as_json) as progress:
            progress(0.0, "reading")
            opened = log.open()
            summary = opened.summary(gamma, part_of(progress, 0.0, 1.0, "reading"))
            if fix is not None and not summary.errors:
                opened.write_repaired(fix, **({} if gamma is None else {"gamma": gamma}))
    except LogError as error:
        if not as_json:
            raise
        echo(json_text(HEADER | {"findings": _as_data(error.findings)}))
        sys.exit(2)
    if as_json:
        data = {name: getattr(summary, name) for name in summary.__dataclass_fields__}
        data |= {
            "low": summary.low.tolist(), "high": summary.high.tolist(),
            "altered": asdict(summary.altered), "findings": _as_data(summary.findings),
        }  # fmt: skip
        echo(json_text(HEADER | data))
    else:
        for line in summary.text.splitlines():
            echo("\n".join(textwrap.wrap(line, text_width(), subsequent_indent="  ")))
        for finding in summary.findings:
            echo_message(finding.render(as_option))
        errors, warnings = len(summary.errors), len(summary.findings) - len(summary.errors)
        counts = [_count(errors, "error")] * bool(errors)
        counts += [_count(warnings, "warning")] * bool(warnings)
        if not summary.findings:
            echo("no warnings. Ready.")
        else:
            ready = "Fix the errors before use." if summary.errors else "Ready."
            echo(f"{', '.join(counts)}. {ready}")
        if fix is not None:
            for line in _repairs(log, summary) if not summary.errors else ["nothing was written."]:
                echo_message(line)
    if summary.errors:
        sys.exit(2)


HEADER = {"kind": "saddleback check", "schema": 1}
"""First fields of the JSON output."""


def _repairs(log: LogFiles, summary: LogSummary) -> list[str]:
    """Return what was done to the log before it was written."""
    done = [f"rows sorted by episode and {log.settings['order_by']}"] * bool(
        log.settings["order_by"]
    )
    values = log.settings["reward_values"]
    if values:
        listed = ", ".join(f"{text} = {number:g}" for text, number in values.items())
        done.append(f"rewards read from text: {listed}")
    done += summary.altered.repairs
    return [f"wrote {summary.rows:,} rows:", *(f"  {line}" for line in done or ["nothing changed"])]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _as_data(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Return findings as JSON data, their fixes as options."""
    return [
        {"code": finding.code, "message": with_fix(finding.message, finding.fix, as_option)}
        for finding in findings
    ]
