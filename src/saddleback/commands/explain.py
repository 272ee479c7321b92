"""``saddleback explain``: a saved result, told again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from saddleback.commands._logs import announce


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def command(file: str) -> None:
    """Tell a saved result again, with everything that was looked at.

    FILE is what saddleback evaluate --save or --json wrote. Nothing is computed anew.

    \b
    Examples:
      saddleback evaluate visits.parquet --target new.py:probs --save new.json
      saddleback explain new.json
    """
    found = read_result(Path(file))
    announce("reading", [file])
    from saddleback.verdict.words import explained

    click.echo(explained(found))


def read_result(path: Path) -> dict[str, Any]:
    """Return a saved result, or say what the file is instead."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise click.UsageError(
            f"{path} is not JSON ({error}): give what saddleback evaluate --save wrote."
        ) from None
    kind = found.get("kind") if isinstance(found, dict) else None
    if kind != "saddleback evaluation":
        raise click.UsageError(
            f"{path} holds {kind or 'something else'}: give what saddleback evaluate --save wrote."
        )
    if found.get("schema") != 1:
        raise click.UsageError(
            f"{path} has schema {found.get('schema')}, this saddleback reads 1: use a newer one."
        )
    missing = [name for name in NEEDED if found.get(name) is None]
    if missing:
        raise click.UsageError(
            f"{path} is damaged: it says nothing of {missing[0]}. Evaluate again with --save."
        )
    return dict(found)


NEEDED = (
    "gamma", "features", "p", "rule", "actions", "steps", "episodes", "propensities",
    "lambda_ceiling", "estimates", "paths", "verdicts", "warnings",
)  # fmt: skip
"""What every result has."""
