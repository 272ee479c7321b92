"""``saddleback rank``: candidate policies compared with the logged one."""

from __future__ import annotations

import math
import sys
from typing import Any

import click

from saddleback._json import json_text
from saddleback.cli.cmd_evaluate import evaluate_files
from saddleback.cli.log_options import LogFiles, bandit_option, log_options
from saddleback.cli.options import (
    costs_option,
    horizon_option,
    json_option,
    quiet_option,
    ridge_option,
    rule_option,
)
from saddleback.cli.target_options import target_options
from saddleback.cli.terminal import echo, echo_lines, text_width

STATUS = {"better": 0, "inconclusive": 5, "doubtful": 4, "refused": 3}
"""Exit status by outcome."""


@click.command()
@log_options
@bandit_option
@target_options
@horizon_option
@rule_option
@ridge_option
@click.option(
    "--baseline", default="logged", show_default=True, metavar="logged|NUMBER",
    help="Value that a candidate must beat.",
)  # fmt: skip
@click.option(
    "--lower", "alpha", default=0.05, show_default=True, metavar="ALPHA",
    help="Family-wise error rate of the lower bounds.",
)  # fmt: skip
@costs_option
@quiet_option
@json_option
def command(
    log: LogFiles, baseline: str, alpha: float, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Rank candidate policies by a lower bound on their improvement over the logged policy.

    The bounds hold simultaneously for all candidates. FILE is a log, or one file from saddleback
    stats or merge. Exit status 0 if a usable candidate beats the baseline, 5 if none of the usable
    ones does, 4 if none is usable but some are doubtful, 3 if all are refused, 2 for invalid input.

    \b
    Examples:
      saddleback rank week.stats --lower 0.05 --json
      saddleback rank visits.parquet --target a=new.py:a --target b=new.py:b
    """
    if not 0 < alpha < 1:
        raise click.UsageError(
            f"--lower {alpha:g}: write an error rate between 0 and 1, such as 0.05."
        )
    number = None
    if baseline != "logged":
        try:
            number = float(baseline)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise click.UsageError(f"--baseline {baseline}: write logged, or a number.")
    evaluation = evaluate_files(log, quiet or as_json, **options)
    from saddleback.ope.ranking import rank

    ranking = rank(evaluation, alpha=alpha, baseline=number)
    if as_json:
        echo(json_text(ranking.as_dict()))
    else:
        echo_lines(ranking.lines(text_width()))
    sys.exit(STATUS[ranking.outcome])
