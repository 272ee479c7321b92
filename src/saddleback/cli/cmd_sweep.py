"""``saddleback sweep``: a study of rules, problems and step sizes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback._json import json_text
from saddleback.cli.executor_options import one_place, resumable, typed, work_options
from saddleback.cli.progress import display, span

if TYPE_CHECKING:
    from saddleback.sweep import Plan


@click.command()
@click.argument("study", metavar="STUDY.toml", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="Folder of the results.  [default: results/ and the name of the study's file]",
)  # fmt: skip
@click.option("--plan", "only_plan", is_flag=True, help="Say what it will take, and run nothing.")
@work_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    study: Path,
    out: Path | None,
    only_plan: bool,
    workers: int | None,
    dask: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run every rule with every step size on every problem of a study.

    Results are kept task by task in a folder of Parquet files. Interrupted, killed or out of disk,
    the same command goes on where it was, and does only what is missing. STUDY.toml says what to
    run; docs/sweeps.md describes it.

    \b
    Examples:
      saddleback sweep study.toml --plan
      saddleback sweep study.toml --workers 4
      saddleback sweep study.toml --dask tcp://10.0.0.5:8786 --out results/big
    """
    one_place(workers, dask)
    if not quiet:
        click.echo(f"reading {study} …", err=True)
    from saddleback.sweep import plan, read_study, run_study, summary

    chosen = read_study(study)
    threads = workers or os.cpu_count() or 1
    if only_plan:
        found = plan(chosen, study.parent)
        click.echo(_plan_json(found, threads) if as_json else _told(found, threads))
        return
    folder = out or Path("results") / study.stem
    with resumable(), display(quiet) as progress:
        store = run_study(
            study, folder, workers=threads, dask=dask, command=typed(), progress=progress
        )
    rows = summary(store.table(), chosen.metrics)
    if as_json:
        head = {"kind": "saddleback sweep", "schema": 1, "out": str(folder)}
        click.echo(json_text(head | {"best": rows}))
        return
    from rich.console import Console

    for case in chosen.cases:
        Console().print(_table([row for row in rows if row["problem"] == case.label]))
    click.echo("Mean over runs and the last tenth of the checkpoints; settings that diverged in")
    click.echo("some run do not count.")
    click.echo(f"{folder}/shards/*.parquet")


def _plan_json(found: Plan, workers: int) -> str:
    from dataclasses import asdict

    head = {"kind": "saddleback plan", "schema": 1}
    return json_text(head | asdict(found) | {"workers": workers})


def _told(found: Plan, workers: int) -> str:
    """Say what a study will take."""
    from saddleback.sweep.task_progress import si_number

    wall = max(found.seconds / workers, found.longest)
    each = span(found.seconds / found.tasks) if found.seconds >= found.tasks else "under a second"
    return "\n".join(
        [
            f"learners       {found.learners:,}",
            f"learner-steps  {si_number(found.learner_steps)}",
            f"tasks          {found.tasks:,}, {each} each, the longest {span(found.longest)}",
            f"time           about {span(wall)} in {workers} thread{'s' if workers > 1 else ''}, "
            f"at {si_number(found.rate)} learner-steps/s each",
            f"memory         about {si_number(found.memory)}B for each thread, and "
            f"{si_number(found.shared)}B for all",
            f"disk           about {si_number(found.disk)}B",
        ]
    )


def _table(rows: list[dict[str, Any]]) -> Any:
    """Tabulate the best setting of each rule."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(rows[0]["problem"]), box=box.SIMPLE, title_justify="left")
    table.add_column("rule")
    for heading in ("diverged", f"least {rows[0]['metric']}", "± error", "α", "β"):
        table.add_column(heading, justify="right")
    for row in rows:
        numbers = (_short(row[name]) for name in ("best", "error", "alpha", "beta"))
        gone = f"{row['diverged']} of {row['settings']}"
        table.add_row(row["rule"], gone, *numbers)
    return table


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
