"""``saddleback stats``: sums over a log that add up with those of other logs."""

from __future__ import annotations

import logging
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback._progress import planned
from saddleback.cli.cmd_merge import plainly
from saddleback.cli.executor_options import check_outputs, one_place, resumable, typed, work_options
from saddleback.cli.log_options import as_json as json_text
from saddleback.cli.log_options import (
    corner,
    log_options,
    named,
    open_log,
    target_options,
)
from saddleback.cli.log_options import threads as cores
from saddleback.cli.message_format import tell
from saddleback.cli.progress import display

if TYPE_CHECKING:
    from saddleback.evaluation import Statistics

logger = logging.getLogger(__name__)


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
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@work_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    workers: int | None,
    dask: str | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Sum a log up for target policies and rules, in one pass; merge and evaluate later.

    Statistics of several days add up if features and all else agree: give the box of the features,
    --low and --high, since the range of each log differs. A log of many files is summed up in
    groups of them, in threads or on a cluster that sees the same files; groups that are finished
    are kept beside --out until all are, so the same command goes on where it was.

    \b
    Examples:
      saddleback stats day1.parquet --target new.py:probs --gamma 0.99 \\
          --features tiles:8x4 --low -1.2,-0.07 --high 0.6,0.07 --out day1.stats
      saddleback stats 'logs/2026-*.parquet' --target new.py:probs --gamma 0.99 \\
          --features hash:4096 --low 0,0 --high 1,1 --out year.stats --workers 8
      saddleback merge day1.stats day2.stats --out week.stats
      saddleback evaluate week.stats
    """
    from saddleback.evaluation import default_rule, save_statistics
    from saddleback.evaluation.feature_spec import box_known, parse_features
    from saddleback.log.behaviour_target import reserved
    from saddleback.log.diagnostics import refuse
    from saddleback.sweep import Summing, TaskProgress, cluster, sum_groups, threads
    from saddleback.verdict.approximation_gap import without_trace
    from saddleback.verdict.evaluate import discount

    if not targets:
        raise click.UsageError("Say for which policy: --target module.py:function.")
    reserved(named(targets))
    one_place(workers, dask)
    check_outputs(out, read=options["files"], own=(*targets, features))
    log = open_log(options)
    rate = discount(log, gamma)
    chosen = [parse_rule(each) for each in rules] or [default_rule()]
    chosen = list(dict.fromkeys([*chosen, *filter(None, map(without_trace, chosen))]))
    corners = corner(low, log, "low"), corner(high, log, "high")
    findings: list[Any] = []
    several = len(log.parts) > 1 or dask is not None
    with resumable() if several else nullcontext(), display(quiet) as progress:
        reading, summing = planned(progress, [("reading", 1.0), ("evaluating", 3.0)])
        if features is not None and box_known(features, *corners) and len(log.parts) > 1:
            chosen_features, summing = parse_features(features, log, None, *corners), progress
        else:
            card = log.card(rate, reading)
            refuse(card.findings)
            findings += card.findings
            chosen_features = parse_features(features, log, card, *corners)
        own = features if features is not None and ".py:" in features else chosen_features
        what = Summing(
            log, tuple(chosen), {name: anywhere(each) for name, each in named(targets).items()},
            anywhere(own) if isinstance(own, str) else own, rate, shared, blocks, allow_uncovered,
        )  # fmt: skip
        tasks = what.tasks()
        most = workers or cores()
        if len(tasks) == 1 and dask is None:
            sums = what.sum_up(log, most, summing)
            save_statistics(sums, out)
        else:
            kept = out.with_name(f"{out.name}.parts")

            def finish(merged: Statistics) -> None:
                save_statistics(merged, out)
                shutil.rmtree(kept)

            with threads(most) if dask is None else cluster(dask) as place:
                many = f"{len(tasks):,} group{'s' if len(tasks) > 1 else ''} of files"
                logger.info("%s on %s", many, place.words)
                sums = sum_groups(
                    what, tasks, kept, place, typed(),
                    lambda store: TaskProgress("stats", tasks, store, summing, "rows", place.note),
                    finish,
                )  # fmt: skip
    findings = list(dict.fromkeys((*findings, *sums.findings)))
    for each in findings[:SHOWN]:
        tell(str(each), err=True)
    if len(findings) > SHOWN:
        tell(f"and {len(findings) - SHOWN:,} more warnings like these.", err=True)
    if hasattr(chosen_features, "low") and low is None:
        tell(
            "note: the features' box is the range of this log; statistics of other logs merge with "
            "it only if --low and --high fix the box.", err=True,
        )  # fmt: skip
    click.echo(json_text(plainly(sums, out)) if as_json else f"{sums!r} -> {out}")


SHOWN = 20
"""Warnings that are told."""


def anywhere(spec: str) -> str:
    """Return ``module.py:name`` so that it is found from any folder; other words as they are."""
    path, colon, name = spec.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon and path.endswith(".py") else spec


def parse_rule(text: str) -> Any:
    """Return a rule from NAME or NAME:λ."""
    import inspect

    from saddleback import rules
    from saddleback._registry import known

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
