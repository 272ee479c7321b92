"""``saddleback explain``: a saved result in full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from saddleback.cli.files import file_kind
from saddleback.cli.log_options import announce
from saddleback.cli.terminal import echo_lines, text_width
from saddleback.errors import InvalidParameter


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> None:
    """Show a saved result in full, with every check.

    FILE was written by saddleback evaluate --save or --json. Nothing is recomputed.

    \b
    Examples:
      saddleback evaluate visits.parquet --target new.py:probs --save new.json
      saddleback explain new.json
    """
    announce("reading", [str(file)])
    result = read_result(file)
    from saddleback.ope.distribution_text import distribution_lines
    from saddleback.ope.text_report import verbose_lines

    lines = verbose_lines(result, text_width())
    if "distributions" in result or "missing_models" in result:
        lines += distribution_lines(result, text_width())
    echo_lines(lines)


def read_result(path: Path) -> dict[str, Any]:
    """Return a saved result; refuse any other file, naming its kind."""
    fix = "give a file written by saddleback evaluate --save."
    kind = file_kind(path)
    if kind is not None:
        raise InvalidParameter(
            f"{path} holds {kind}, not a result. Use saddleback evaluate {path} --report FILE."
        )
    try:
        result: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"{path} is not JSON ({error}): {fix}") from None
    field = result.get("kind") if isinstance(result, dict) else None
    if field != "saddleback evaluation":
        content = field if isinstance(field, str) and field and len(field) < 80 else "other JSON"
        raise InvalidParameter(f"{path} holds {content}: {fix}")
    schema = result.get("schema")
    from saddleback.ope.result_schema import SCHEMA, digest, find_damage

    if type(schema) is int and schema > SCHEMA:
        raise InvalidParameter(
            f"{path} has schema {schema}, written by a newer saddleback; this version reads "
            f"{SCHEMA}. Update: pip install -U saddleback."
        )
    readable = type(schema) is int and schema == SCHEMA
    reason = find_damage(result) if readable else f"its schema is {schema!r}, not {SCHEMA}"
    if reason is None and result.get("digest") != digest(result):
        reason = "its content does not match its digest"
    if reason is not None:
        raise InvalidParameter(f"{path} is damaged: {reason}. Evaluate again with --save.")
    return dict(result)
