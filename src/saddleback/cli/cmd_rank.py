"""``saddleback rank``: candidate policies compared with the logged one."""

from __future__ import annotations

import math
import sys
from typing import Any

import click

from saddleback._json import json_text
from saddleback.cli.cmd_evaluate import evaluate_log, refuse_log_options
from saddleback.cli.file_kinds import statistics_files
from saddleback.cli.log_options import log_options
from saddleback.cli.target_options import RULE, target_options
from saddleback.cli.terminal import echo_lines, text_width


@click.command()
@log_options
@target_options
@click.option(
    "--rule", metavar=RULE,
    help="Rule whose TD fixed point LSTD solves for.  [default: GRetrace:0.5]",
)  # fmt: skip
@click.option("--ridge", default=0.0, help="Ridge, relative to the scale of each feature.")
@click.option(
    "--baseline", default="logged", show_default=True, metavar="logged|NUMBER",
    help="Value that a candidate must beat.",
)  # fmt: skip
@click.option(
    "--lower", "alpha", default=0.05, show_default=True, metavar="ALPHA",
    help="Family-wise error rate of the lower bounds.",
)  # fmt: skip
@click.option("--lower-is-better", is_flag=True, help="Rewards are costs.")
@click.option("--quiet", is_flag=True, help="Do not show progress.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    rule: str | None,
    ridge: float,
    baseline: str,
    alpha: float,
    lower_is_better: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Rank candidate policies by a lower bound on their improvement over the logged policy.

    The bounds hold simultaneously for all candidates. FILE is Parquet, or one file from saddleback
    stats or merge. Exit status 0 if a usable candidate beats the baseline, 5 if none of the usable
    ones does, 4 if none is usable but some are doubtful, 3 if all are refused, 2 for invalid input.

    \b
    Examples:
      saddleback rank week.stats --lower 0.05 --json
      saddleback rank visits.parquet --target a=new.py:a --target b=new.py:b
    """
    from saddleback.ope import evaluate_statistics, load_statistics
    from saddleback.ope.ranking import rank

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
    saved = statistics_files(options["files"])
    if saved:
        refuse_log_options(len(options["files"]), STATISTICS_OPTIONS)
        evaluation = evaluate_statistics(
            load_statistics(saved[0], rule), rule, ridge, lower_is_better=lower_is_better
        )
    else:
        evaluation = evaluate_log(
            options, quiet=quiet or as_json, rule=rule, ridge=ridge,
            lower_is_better=lower_is_better,
        )  # fmt: skip
    ranking = rank(evaluation, alpha=alpha, baseline=number)
    if as_json:
        click.echo(json_text(ranking.as_dict()))
    else:
        echo_lines(ranking.lines(text_width()))
    sys.exit(ranking.status)


STATISTICS_OPTIONS = (
    "files", "rule", "ridge", "baseline", "alpha", "lower_is_better", "quiet", "as_json",
)  # fmt: skip
"""Options allowed with a statistics file."""
