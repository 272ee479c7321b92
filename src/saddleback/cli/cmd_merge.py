"""``saddleback merge``: combined statistics of several logs."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback._json import json_text
from saddleback.cli.files import check_outputs
from saddleback.cli.log_options import announce
from saddleback.cli.options import json_option
from saddleback.cli.target_options import RULE
from saddleback.cli.terminal import echo

if TYPE_CHECKING:
    from saddleback.ope import Statistics


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path())
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@click.option(
    "--rule", "rules", multiple=True, metavar=RULE,
    help="Rule of your own that the statistics are for (repeatable).",
)  # fmt: skip
@json_option
def command(files: tuple[str, ...], out: Path, rules: tuple[str, ...], as_json: bool) -> None:
    """Combine statistics from several logs.

    The result equals the statistics of all logs together. Statistics with different settings, or
    of logs that share episodes, are refused.

    \b
    Examples:
      saddleback merge day1.stats day2.stats --out week.stats
      saddleback merge week1.stats week2.stats --out month.stats --json
    """
    check_outputs(out, inputs=files)
    announce("merging", files)
    from saddleback.ope import load_statistics, save_statistics

    loaded = (load_statistics(file, rules) for file in files)
    merged = reduce(lambda first, second: first.merge(second), loaded)
    save_statistics(merged, out)
    if as_json:
        echo(json_text(statistics_summary(merged, out)))
    else:
        echo(f"{merged!r} -> {out}")


def statistics_summary(statistics: Statistics, out: Path) -> dict[str, Any]:
    """Return a summary of saved statistics as JSON data."""
    setting = statistics.setting
    return {
        "kind": "saddleback statistics",
        "schema": 1,
        "file": str(out),
        "steps": int(statistics.steps.sum()),
        "episodes": int(statistics.episodes.sum()),
        "p": statistics.p,
        "gamma": setting.gamma,
        "rules": [str(rule) for rule in setting.rules],
        "targets": list(setting.targets),
        "features": setting.features,
    }
