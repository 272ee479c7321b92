"""``saddleback stats``: mergeable statistics of a log."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path

import click

from saddleback._json import json_text
from saddleback._progress import split_progress
from saddleback.cli.cmd_merge import statistics_summary
from saddleback.cli.files import check_outputs
from saddleback.cli.log_options import LogFiles, log_options
from saddleback.cli.messages import as_option, echo_message
from saddleback.cli.options import (
    check_executor_options,
    command_line,
    default_threads,
    executor_options,
    json_option,
    resumable,
)
from saddleback.cli.progress import display
from saddleback.cli.target_options import (
    RULE,
    absolute_spec,
    check_targets,
    target_options,
)
from saddleback.cli.terminal import echo

logger = logging.getLogger(__name__)


@click.command()
@log_options
@target_options
@click.option(
    "--rule", "rules", multiple=True, metavar=RULE,
    help="Rule to compute statistics for (repeatable).  [default: GRetrace:0.5]",
)  # fmt: skip
@click.option(
    "--blocks", default=20, show_default=True, type=click.IntRange(min=1),
    help="Blocks of episodes, for confidence intervals.",
)  # fmt: skip
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@executor_options
@json_option
def command(
    log: LogFiles,
    targets: dict[str, str],
    gamma: float | None,
    features: str | None,
    low: tuple[float, ...] | None,
    high: tuple[float, ...] | None,
    shared: bool,
    allow_uncovered: bool,
    rules: tuple[str, ...],
    blocks: int,
    out: Path,
    workers: int | None,
    dask: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compute mergeable statistics of a log in one pass, to merge and evaluate later.

    Statistics of several logs can be merged if their settings agree; fix the box of the features
    with --low and --high, since the range of each log differs. A log of many files is processed in
    chunks, in threads or on a cluster that sees the same files. Finished chunks are kept next to
    --out until all are complete, so an interrupted command can be resumed.

    \b
    Examples:
      saddleback stats day1.parquet --target new.py:probs --gamma 0.99 \\
          --features tiles:8x4 --low -1.2,-0.07 --high 0.6,0.07 --out day1.stats
      saddleback stats 'logs/2026-*.parquet' --target new.py:probs --gamma 0.99 \\
          --features hash:4096 --low 0,0 --high 1,1 --out year.stats --workers 8
      saddleback merge day1.stats day2.stats --out week.stats
      saddleback evaluate week.stats
    """
    from saddleback.log.behaviour_target import check_name_not_reserved
    from saddleback.ope import default_rule, save_statistics
    from saddleback.ope.evaluate import discount
    from saddleback.ope.feature_spec import as_features, box_known
    from saddleback.rules import as_rules
    from saddleback.sweep import ChunkedStatistics, cluster, run_chunks, threads

    check_targets(targets)
    check_name_not_reserved(targets)
    check_executor_options(workers, dask)
    check_outputs(out, inputs=log.files, specs=(*targets.values(), features))
    data = log.open()
    rate = discount(data, gamma)
    chosen = as_rules(rules or [default_rule()])
    chosen = list(dict.fromkeys([*chosen, *filter(None, (r.with_lambda(0.0) for r in chosen))]))
    several = len(data.sources) > 1 or dask is not None
    with resumable() if several else nullcontext(), display(quiet) as progress:
        reading, computing = split_progress(progress, [("reading", 1.0), ("evaluating", 3.0)])
        if features is not None and box_known(features, low, high) and len(data.sources) > 1:
            chosen_features, computing = as_features(features, data, None, low, high), progress
        else:
            chosen_features = as_features(features, data, data.sample(reading), low, high)
        custom = features if features is not None and ".py:" in features else chosen_features
        job = ChunkedStatistics(
            data, tuple(chosen),
            {name: absolute_spec(spec) for name, spec in targets.items()},
            absolute_spec(custom) if isinstance(custom, str) else custom, rate, shared, blocks,
            allow_uncovered,
        )  # fmt: skip
        tasks = job.tasks()
        count = workers or default_threads()
        if len(tasks) == 1 and dask is None:
            statistics = job.compute(data, count, computing)
            save_statistics(statistics, out)
        else:
            chunks = out.with_name(f"{out.name}.parts")
            with threads(count) if dask is None else cluster(dask) as executor:
                size = f"{len(tasks):,} chunk{'s' if len(tasks) > 1 else ''} of files"
                logger.info("%s on %s", size, executor.description)
                statistics = run_chunks(
                    job, tasks, chunks, executor, command_line(), computing, out
                )
    findings = statistics.findings
    for finding in findings[:MAX_WARNINGS]:
        echo_message(finding.render(as_option), err=True)
    if len(findings) > MAX_WARNINGS:
        echo_message(f"and {len(findings) - MAX_WARNINGS:,} more warnings.", err=True)
    if features is None or not box_known(features, low, high):
        echo_message(
            "note: the features are scaled to this log; for statistics of other logs that can be "
            f"merged with these, give the same: --features {out}.", err=True,
        )  # fmt: skip
    echo(json_text(statistics_summary(statistics, out)) if as_json else f"{statistics!r} -> {out}")


MAX_WARNINGS = 20
"""Largest number of warnings printed."""
