"""``saddleback merge``: statistics of several logs as if of one."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write."
)
def command(files: tuple[str, ...], out: Path) -> None:
    """Add statistics of several logs up; refused if they differ in setting, or overlap.

    \b
    Example:
      saddleback merge day1.stats day2.stats --out week.stats
    """
    from saddleback.evaluation import load_statistics, save_statistics

    merged = reduce(lambda one, other: one.merge(other), map(load_statistics, files))
    save_statistics(merged, out)
    click.echo(f"{merged!r} -> {out}")
