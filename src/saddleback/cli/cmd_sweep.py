"""``saddleback sweep``: a study of rules, problems and step sizes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from datetime import time as time_of_day
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback._display import visible
from saddleback._json import json_text
from saddleback._progress import si_number
from saddleback.cli.options import (
    check_executor_options,
    command_line,
    default_threads,
    executor_options,
    json_option,
    resumable,
)
from saddleback.cli.progress import display, format_duration
from saddleback.cli.terminal import echo

if TYPE_CHECKING:
    import pyarrow as pa

    from saddleback.sweep import Plan

SHOWN = 20
"""Rows of the results of a function in the terminal."""


@click.command()
@click.argument("study", metavar="STUDY.toml", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="Folder for the results.  [default: results/NAME, for NAME.toml]",
)  # fmt: skip
@click.option(
    "--plan", "only_plan", is_flag=True, help="Estimate time, memory and disk; run nothing."
)
@click.option(
    "--device", type=click.Choice(["cpu", "cuda", "auto"]),
    help="Learn on the CPU, on a GPU, or where it is faster.  [default: that of the study, or cpu]",
)  # fmt: skip
@executor_options
@json_option
def command(
    study: Path,
    out: Path | None,
    only_plan: bool,
    device: str | None,
    workers: int | None,
    dask: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run every rule with every step size on every problem of a study.

    A study may name a function instead, which is called with every setting.

    Each finished task is stored as a Parquet file. After an interruption, a crash or a full disk,
    the same command resumes and runs only the missing tasks. docs/learn/studies.md describes
    the format of STUDY.toml.

    \b
    Examples:
      saddleback sweep study.toml --plan
      saddleback sweep study.toml --workers 4
      saddleback sweep study.toml --device cuda
      saddleback sweep study.toml --dask tcp://10.0.0.5:8786 --out results/big
    """
    check_executor_options(workers, dask)
    if not quiet:
        echo(f"reading {study} …", err=True)
    from saddleback.sweep import plan, read_study, run_study, summary

    chosen = read_study(study)
    chosen = replace(chosen, device=device or chosen.device)
    threads = workers or default_threads()
    if only_plan:
        cost = plan(chosen, study.parent, threads)
        echo(_plan_json(cost, threads) if as_json else _plan_text(cost, threads))
        return
    folder = out or Path("results") / study.stem
    with resumable(), display(quiet) as progress:
        store = run_study(
            chosen, folder, folder=study.parent, workers=threads, dask=dask,
            command=command_line(), progress=progress,
        )  # fmt: skip
    if chosen.function:
        _show_calls(store.table(), folder, as_json)
        return
    rows = summary(store.table(), chosen.metrics)
    if as_json:
        head = {"kind": "saddleback sweep", "schema": 1, "out": str(folder)}
        echo(json_text(head | {"best": rows}))
        return
    from rich.console import Console

    for case in chosen.cases:
        Console().print(_table([row for row in rows if row["problem"] == case.label]))
    echo("Mean over runs and the last tenth of the checkpoints; settings that diverged in")
    echo("any run are excluded.")
    echo(f"{folder}/shards/*.parquet")


def _show_calls(rows: pa.Table, folder: Path, as_json: bool) -> None:
    """Print the results of a function: all as JSON, or the first ones as a table."""
    if as_json:
        head = {"kind": "saddleback sweep", "schema": 1, "out": str(folder)}
        echo(json_text(head | {"rows": rows.to_pylist()}, _as_text))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for name in rows.column_names:
        table.add_column(escape(visible(name, keep="")))
    for row in rows.slice(0, SHOWN).to_pylist():
        table.add_row(*(escape(visible(_cell(value), keep="")) for value in row.values()))
    Console().print(table)
    if rows.num_rows > SHOWN:
        echo(f"The first {SHOWN} of {rows.num_rows:,} rows.")
    echo(f"{folder}/shards/*.parquet")


def _as_text(value: Any) -> str:
    """Return a value that JSON has no type for as text: dates in ISO format, bytes in base 16."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value.isoformat() if isinstance(value, (date, time_of_day)) else value)


def _cell(value: Any) -> str:
    return _short(value) if value is None or isinstance(value, float) else str(value)


def _plan_json(cost: Plan, workers: int) -> str:
    from dataclasses import asdict

    head = {"kind": "saddleback plan", "schema": 1}
    return json_text(head | asdict(cost) | {"workers": workers})


def _plan_text(cost: Plan, workers: int) -> str:
    """Return the estimated cost of a study as text."""
    wall = max(cost.seconds / workers, cost.longest)
    mean = cost.seconds / cost.tasks
    per_task = format_duration(mean) if mean >= 1 else "under a second"
    on = f"in {workers} thread{'s' if workers > 1 else ''}", " each", "per thread"
    if cost.device:
        wall, on = cost.seconds, (f"on {cost.device}", "", "there")
    return "\n".join(
        [
            f"learners       {cost.learners:,}",
            f"learner-steps  {si_number(cost.learner_steps)}",
            f"tasks          {cost.tasks:,}, {per_task} each, the longest "
            f"{format_duration(cost.longest)}",
            f"time           about {format_duration(wall)} {on[0]}, at {si_number(cost.rate)} "
            f"learner-steps/s{on[1]}",
            f"memory         about {si_number(cost.memory)}B {on[2]}, plus "
            f"{si_number(cost.shared)}B shared",
            f"disk           about {si_number(cost.disk)}B",
        ]
    )


def _table(rows: list[dict[str, Any]]) -> Any:
    """Return a table of the best setting of each rule."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    def shown(name: str) -> str:
        return escape(visible(name, keep=""))

    table = Table(title=shown(rows[0]["problem"]), box=box.SIMPLE, title_justify="left")
    table.add_column("rule")
    for heading in ("diverged", f"smallest {shown(rows[0]['metric'])}", "± s.e.", "α", "β"):
        table.add_column(heading, justify="right")
    for row in rows:
        numbers = (_short(row[name]) for name in ("best", "error", "alpha", "beta"))
        diverged = f"{row['diverged']} of {row['settings']}"
        table.add_row(shown(row["rule"]), diverged, *numbers)
    return table


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
