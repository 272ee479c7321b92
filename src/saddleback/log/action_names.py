"""Names of the actions of a log: as declared, or all that occur, in order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from saddleback._display import join_names
from saddleback.errors import Fix, InvalidParameter
from saddleback.log.arrow_decode import as_floats
from saddleback.log.categories import sorted_names
from saddleback.log.column_types import decode_dictionary, is_text
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.likely_columns import PLACEHOLDER
from saddleback.log.row_source import RowSource

if TYPE_CHECKING:
    from saddleback.log.log import Log

MAX_ACTIONS = 10_000
"""Largest number of actions of a log."""


def action_name_findings(log: Log) -> list[Finding]:
    """Return errors if the names of the actions do not fit the columns."""
    if log.has_continuous_actions:
        columns = ", ".join(log.roles.actions)
        if log.actions is not None:
            raise InvalidParameter(
                f"actions names discrete actions, but the log has continuous ones, {columns}: "
                "leave it out."
            )
        if log.behaviour is not None:
            raise InvalidParameter(
                f"behaviour gives probabilities, but the log has continuous actions, "
                f"{columns}. Add the density of the logged action as behavior_prob."
            )
        return []
    tables = {t: len(c) for t, c in log.roles.tables.items() if t in ("mu", "pi")}
    names = log.declared_actions
    if names is not None:
        return [
            Finding(
                "E141",
                f"{table}_* has {size} columns, but {len(names)} actions are named "
                f"({join_names(map(str, names))}).",
                Fix("Name one per column", "actions", listed(_exactly(size, names))),
            )
            for table, size in tables.items()
            if size != len(names)
        ]
    column = log.roles.names["action"]
    if tables and is_text(log.sources[0].schema.field(column).type):
        table, size = next(iter(tables.items()))
        names = listed(_exactly(size, logged_actions(log)))
        return [
            Finding(
                "E147",
                f"column {column!r} contains text, but {table}_0, {table}_1, … are numbered.",
                Fix("List the actions in that order, such as", "actions", names),
            )
        ]
    return []


def with_whole_actions(
    findings: Sequence[Finding], sources: Sequence[RowSource], name: str
) -> list[Finding]:
    """Return errors about columns; that of whole numbers of another type as actions, with theirs.

    pandas stores integers so if some are missing.
    """
    start = re.compile(
        rf"column {re.escape(repr(name))} contains (double|float|halffloat); actions"
    )
    matches = [start.match(one.message) for one in findings]
    if not any(matches):
        return list(findings)
    count = 0
    for source in sources:
        for batch in source.batches([name]):
            values = as_floats(batch.column(0))
            values = values[np.isfinite(values)]
            count += len(values)
            if (values % 1.0 != 0).any():
                return list(findings)
    if not count:
        return list(findings)
    return [
        one if match is None else replace(
            one,
            message=f"column {name!r} contains whole numbers as {match[1]}. If they are numbers of "
            "actions, convert them to integers, and fill in those that are missing.",
        )
        for one, match in zip(findings, matches, strict=True)
    ]  # fmt: skip


def logged_actions(log: Log) -> tuple[str, ...]:
    """Return the actions in the column of actions: 0, 1, … or all names, in order."""
    name = log.roles.names["action"]
    values: set[Any] = set()
    for source in log.sources:
        for batch in source.batches([name]):
            values |= set(pc.unique(decode_dictionary(batch.column(name))).to_pylist())
            if len(values) > MAX_ACTIONS + 1:  # with None; to be refused
                break
    values.discard(None)
    if log.has_text_actions:
        return sorted_names(values)
    n_actions = int(max(values, default=-1)) + 1
    if n_actions > MAX_ACTIONS:
        message = (
            f"column {name!r} contains {n_actions - 1:,}: integer actions must be 0 … K−1, "
            f"with K at most {MAX_ACTIONS:,}, unless they are listed."
        )
        names = listed([str(value) for value in sorted(values)])
        fix = Fix("Correct it, convert the column to text, or list the actions", "actions", names)
        raise LogError(Finding("E145", message, fix))
    return tuple(map(str, range(n_actions)))


def _exactly(size: int, names: Sequence[str]) -> list[str]:
    """Return the first names, or all of them and placeholders."""
    return [*map(str, names[:size]), *[PLACEHOLDER] * (size - len(names))]


def listed(names: Sequence[str]) -> list[str]:
    """Return names for a message, at most twelve."""
    return [*names[:12], *["…"] * (len(names) > 12)]


def check_list_of_names(parameter: str, names: Sequence[str] | None) -> None:
    """Raise an error unless names are a list without duplicates."""
    if names is None:
        return
    if isinstance(names, str):
        raise InvalidParameter(
            f"{parameter} must be a list of names, got {names!r}. Write {names.split(',')}."
        )
    if isinstance(names, Mapping) or not hasattr(names, "__getitem__"):  # such as a set
        raise InvalidParameter(
            f"{parameter} must be a list of names in their order, got {type(names).__name__}."
        )
    if not len(names):
        raise InvalidParameter(f"{parameter} must be a list of names; it is empty.")
    duplicates = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if duplicates:
        raise InvalidParameter(f"{parameter} contains {duplicates[0]!r} twice.")
