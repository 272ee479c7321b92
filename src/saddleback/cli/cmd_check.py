"""``saddleback check``: what a log holds, and all that is wrong with it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from saddleback._json import json_text
from saddleback._progress import part_of
from saddleback.cli.log_options import log_options, open_log
from saddleback.cli.message_format import as_typed, tell
from saddleback.cli.progress import display
from saddleback.cli.terminal import text_width

if TYPE_CHECKING:
    from saddleback.log import Finding


@click.command()
@log_options
@click.option("--gamma", type=float, help="Discount it is meant for, to be checked too.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(gamma: float | None, quiet: bool, as_json: bool, **options: Any) -> None:
    """Print the data card of a log and every problem found, with its rows and the fix.

    FILE is Parquet: one row for each decision, with episode_id, step, obs_0 …, action, reward,
    terminated, truncated, next_obs_0 … where truncated, and behavior_prob. Exit status 2 if there
    are errors.

    \b
    Examples:
      saddleback check visits.parquet --gamma 0.97
      saddleback check "logs/*.parquet" --obs hr,bp --actions none,low,high
    """
    from saddleback import _validate

    if gamma is not None:
        _validate.unit("check", "gamma", gamma)
    from saddleback.log import LogError

    try:
        with display(quiet or as_json) as progress:
            progress(0.0, "reading")
            card = open_log(options).card(gamma, part_of(progress, 0.0, 1.0, "reading"))
    except LogError as error:
        if not as_json:
            raise
        click.echo(json_text(HEAD | {"findings": _plain(error.findings)}))
        sys.exit(2)
    if as_json:
        plain = {name: getattr(card, name) for name in card.__dataclass_fields__}
        plain |= {
            "low": card.low.tolist(), "high": card.high.tolist(),
            "findings": _plain(card.findings),
        }  # fmt: skip
        click.echo(json_text(HEAD | plain))
    else:
        for line in card.text.splitlines():
            click.echo("\n".join(textwrap.wrap(line, text_width(), subsequent_indent="  ")))
        for each in card.findings:
            tell(str(each))
        counts = len(card.errors), len(card.findings) - len(card.errors)
        said = [f"{n} {what}{'' if n == 1 else 's'}" for n, what in zip(counts, KINDS, strict=True)]
        if not card.findings:
            click.echo("no warnings. Ready.")
        else:
            ready = "Not usable as it is." if card.errors else "Ready."
            click.echo(f"{', '.join(s for s, n in zip(said, counts, strict=True) if n)}. {ready}")
    if card.errors:
        sys.exit(2)


HEAD = {"kind": "saddleback check", "schema": 1}
"""With which its JSON begins."""

KINDS = ("error", "warning")


def _plain(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Return findings as plain data, with options as they are typed."""
    return [{"code": each.code, "message": as_typed(each.message)} for each in findings]
