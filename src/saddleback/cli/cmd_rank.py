"""``saddleback rank``: many candidate policies against the logged one."""

from __future__ import annotations

import math
import sys
from typing import Any

import click

from saddleback.cli.cmd_evaluate import of_log, only_for_logs
from saddleback.cli.cmd_stats import parse_rule
from saddleback.cli.log_options import as_json as json_text
from saddleback.cli.log_options import log_options, statistics_in, target_options
from saddleback.cli.terminal import echo_lines, text_width


@click.command()
@log_options
@target_options
@click.option(
    "--rule", metavar="NAME[:λ]", help="Whose fixed point to solve for.  [default: GRetrace:0.5]"
)
@click.option("--ridge", default=0.0, help="Ridge, relative to the size of each feature.")
@click.option(
    "--baseline", default="logged", show_default=True, metavar="logged|NUMBER",
    help="What a candidate must beat.",
)  # fmt: skip
@click.option(
    "--lower", "alpha", default=0.05, show_default=True, metavar="ALPHA",
    help="Chance that any lower bound claims too much.",
)  # fmt: skip
@click.option("--lower-is-better", is_flag=True, help="Rewards are costs.")
@click.option("--quiet", is_flag=True, help="No progress.")
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
    """Rank candidate policies by how much better they are than the logged one, at least.

    The bounds hold for all candidates at once. FILE is Parquet, or one file of saddleback stats or
    merge. Exit status 0 if a usable candidate beats the baseline, 5 if no usable one does,
    4 if none is usable but some are doubtful, 3 if all are refused, 2 for bad input.

    \b
    Examples:
      saddleback rank week.stats --lower 0.05 --json
      saddleback rank visits.parquet --target a=new.py:a --target b=new.py:b
    """
    from saddleback.evaluation import load_statistics
    from saddleback.verdict import evaluate_statistics
    from saddleback.verdict.ranking import rank

    if not 0 < alpha < 1:
        raise click.UsageError(f"--lower {alpha:g}: write a chance between 0 and 1, such as 0.05.")
    number = None
    if baseline != "logged":
        try:
            number = float(baseline)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise click.UsageError(f"--baseline {baseline}: write logged, or a number to beat.")
    chosen = None if rule is None else parse_rule(rule)
    sums = statistics_in(options["files"])
    if sums:
        only_for_logs(len(options["files"]), FOR_STATISTICS)
        found = evaluate_statistics(
            load_statistics(sums[0]), chosen, ridge, lower_is_better=lower_is_better
        )
    else:
        found = of_log(
            options, quiet=quiet or as_json, rule=chosen, ridge=ridge,
            lower_is_better=lower_is_better,
        )  # fmt: skip
    ranking = rank(found, alpha=alpha, baseline=number)
    if as_json:
        click.echo(json_text(ranking.as_dict()))
    else:
        echo_lines(ranking.lines(text_width()))
    sys.exit(ranking.status)


FOR_STATISTICS = (
    "files", "rule", "ridge", "baseline", "alpha", "lower_is_better", "quiet", "as_json",
)  # fmt: skip
"""What may be said of statistics."""
