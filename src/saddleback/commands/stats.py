"""``saddleback stats``: sums over a log that add up with those of other logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from saddleback.commands._logs import (
    corner,
    discount,
    log_options,
    named,
    open_log,
    reading,
    target_options,
    threads,
)
from saddleback.commands.typed import tell


@click.command()
@log_options
@target_options
@click.option(
    "--rule", "rules", multiple=True, metavar="NAME[:λ]",
    help="Rule to sum up for, again for several.  [default: GRetrace:0.5]",
)  # fmt: skip
@click.option(
    "--blocks", default=20, show_default=True, type=click.IntRange(min=1),
    help="Blocks of episodes in which sums are kept.",
)  # fmt: skip
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write."
)
@click.option("--quiet", is_flag=True, help="No progress.")
def command(
    targets: tuple[str, ...],
    gamma: float | None,
    features: str | None,
    low: str | None,
    high: str | None,
    shared: bool,
    allow_uncovered: bool,
    rules: tuple[str, ...],
    blocks: int,
    out: Path,
    quiet: bool,
    **options: Any,
) -> None:
    """Sum a log up for target policies and rules, in one pass; merge and evaluate later.

    Statistics of several days add up if features and all else agree: give the box of the features,
    --low and --high, since the range of each log differs.

    \b
    Examples:
      saddleback stats day1.parquet --target new.py:probs --gamma 0.99 \\
          --features tiles:8x4 --low -1.2,-0.07 --high 0.6,0.07 --out day1.stats
      saddleback merge day1.stats day2.stats --out week.stats
      saddleback evaluate week.stats
    """
    from saddleback.evaluation import Statistics, default_rule, save_statistics
    from saddleback.evaluation.spec import features_of
    from saddleback.log import Observed
    from saddleback.log.as_logged import NAME, reserved
    from saddleback.log.findings import refuse
    from saddleback.paper import prepare
    from saddleback.verdict.gap import without_trace

    if not targets:
        raise click.UsageError("Say for which policy: --target module.py:function.")
    reserved(named(targets))
    prepare(out.parent)
    log = open_log(options)
    rate = discount(log, gamma)
    chosen = [parse_rule(each) for each in rules] or [default_rule()]
    chosen = list(dict.fromkeys([*chosen, *filter(None, map(without_trace, chosen))]))
    with reading("checking", quiet) as progress:
        card = log.card(rate, progress)
    refuse(card.findings)
    found = features_of(features, log, card, corner(low, log, "low"), corner(high, log, "high"))
    with reading("summing", quiet) as progress:
        sums = Statistics.of(
            log, chosen, named(targets) | {NAME: Observed.of(log)}, features=found, gamma=rate,
            shared=shared, blocks=blocks,
            allow_uncovered=allow_uncovered, threads=threads(), progress=progress,
        )  # fmt: skip
    save_statistics(sums, out)
    for each in dict.fromkeys((*card.findings, *sums.findings)):
        tell(str(each), err=True)
    if hasattr(found, "low") and low is None:
        click.echo(
            "note: the features' box is the range of this log; statistics of other logs merge with "
            "it only if --low and --high fix the box.", err=True,
        )  # fmt: skip
    click.echo(f"{sums!r} -> {out}")


def parse_rule(text: str) -> Any:
    """Return a rule from NAME or NAME:λ."""
    import inspect

    from saddleback import rules
    from saddleback._names import known

    name, _, number = text.partition(":")
    known("rule", name, rules.NAMED)
    takes = inspect.signature(rules.NAMED[name]).parameters
    parameter = next((n for n in ("lam", "zeta") if n in takes), None)
    if parameter is None:
        if number:
            raise click.UsageError(f"--rule {text}: {name} takes no λ.")
        return rules.make(name)
    try:
        value = float(number or 0.0)
    except ValueError:
        raise click.UsageError(f"--rule {text}: {number!r} is not a number.") from None
    return rules.make(name, **{parameter: value})
