"""``saddleback explain``: a saved result, told again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from saddleback.cli.log_options import announce, kind_of
from saddleback.cli.terminal import echo_lines, text_width
from saddleback.errors import InvalidParameter

SCHEMA = 1
"""Version of saved results that is read."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> None:
    """Tell a saved result again, with everything that was looked at.

    FILE is what saddleback evaluate --save or --json wrote. Nothing is computed anew.

    \b
    Examples:
      saddleback evaluate visits.parquet --target new.py:probs --save new.json
      saddleback explain new.json
    """
    announce("reading", [str(file)])
    found = read_result(file)
    from saddleback.verdict.text_report import verbose_lines

    echo_lines(verbose_lines(found, text_width()))


def read_result(path: Path) -> dict[str, Any]:
    """Return a saved result, or say what the file is instead."""
    give = "give what saddleback evaluate --save wrote."
    kind = kind_of(path)
    if kind is not None:
        raise InvalidParameter(
            f"{path} holds {kind}, not a result: saddleback evaluate {path} --report FILE."
        )
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"{path} is not JSON ({error}): {give}") from None
    said = found.get("kind") if isinstance(found, dict) else None
    if said != "saddleback evaluation":
        what = said if isinstance(said, str) and len(said) < 80 else "something else"
        raise InvalidParameter(f"{path} holds {what or 'something else'}: {give}")
    schema = found.get("schema")
    if type(schema) is int and schema > SCHEMA:
        raise InvalidParameter(
            f"{path} has schema {schema}, written by a newer saddleback; this one reads {SCHEMA}. "
            "Update it: pip install --upgrade saddleback."
        )
    from saddleback.verdict.result_schema import find_damage

    known = type(schema) is int and schema == SCHEMA
    wrong = find_damage(found) if known else f"its schema is {schema!r}, not {SCHEMA}"
    if wrong is not None:
        raise InvalidParameter(f"{path} is damaged: {wrong}. Evaluate again with --save.")
    return dict(found)
