"""``saddleback merge``: statistics of several logs as if of one."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback._json import json_text
from saddleback.cli.executor_options import check_outputs
from saddleback.cli.log_options import announce

if TYPE_CHECKING:
    from saddleback.evaluation import Statistics


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path())
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(files: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Add statistics of several logs up; refused if they differ in setting, or overlap.

    \b
    Examples:
      saddleback merge day1.stats day2.stats --out week.stats
      saddleback merge week1.stats week2.stats --out month.stats --json
    """
    check_outputs(out, read=files)
    announce("adding up", files)
    from saddleback.evaluation import load_statistics, save_statistics

    merged = reduce(lambda one, other: one.merge(other), map(load_statistics, files))
    save_statistics(merged, out)
    if as_json:
        click.echo(json_text(plainly(merged, out)))
    else:
        click.echo(f"{merged!r} -> {out}")


def plainly(merged: Statistics, out: Path) -> dict[str, Any]:
    """Return what was written, and of what it is the sum."""
    setting = merged.setting
    return {
        "kind": "saddleback statistics",
        "schema": 1,
        "file": str(out),
        "steps": int(merged.steps.sum()),
        "episodes": int(merged.episodes.sum()),
        "p": merged.p,
        "gamma": setting.gamma,
        "rules": [str(rule) for rule in setting.rules],
        "targets": list(setting.targets),
        "features": setting.features,
    }
