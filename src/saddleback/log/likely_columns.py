"""Columns that probably have a role in a log, by their names and types, for the fixes of errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from saddleback._registry import nearest
from saddleback.errors import Fix
from saddleback.log.column_types import is_text

NAMES = {
    "episode_id": {
        "admission", "encounter", "episode", "hadm", "icustay", "journey", "patient", "rollout",
        "session", "stay", "subject", "trajectory", "trial", "visit",
    },
    "action": {
        "action", "ad", "advert", "arm", "choice", "decision", "dose", "drug", "intervention",
        "item", "medication", "offer", "therapy", "treatment", "variant",
    },
    "reward": {
        "bought", "click", "clicked", "clicks", "conversion", "converted", "cost", "outcome",
        "payoff", "profit", "purchase", "purchased", "revenue", "reward", "rewards", "score",
        "utility",
    },
    "behavior_prob": {"prob", "probability", "propensity", "pscore"},
    "behavior_logp": {"logp", "logprob", "logprobs"},
    "terminated": {"dead", "death", "died", "done", "ended", "terminal", "terminals", "terminated"},
    "truncated": {
        "censored", "timeout", "timeouts", "transferred", "truncated", "withdrawn", "withdrew",
    },
    "step": {"step", "timestep"},
}  # fmt: skip
"""Words in the names of columns that have a role."""

OTHERS = {
    "behavior_prob": {
        "churn", "click", "conversion", "death", "default", "disease", "event", "mortality",
        "outcome", "readmission", "relapse", "risk", "sepsis", "survival", "target",
    },
}  # fmt: skip
"""Words in the names of columns that do not have a role, although they contain a word for it."""

IDS = {"customer", "id", "ids", "index", "key", "name", "user", "uuid"}
"""Words in the names of columns that tell rows or persons apart."""

TIMES = {
    "time", "timestamp", "timestep", "charttime", "date", "day", "hour", "minute", "second", "step",
    "t", "seq", "sequence",
}  # fmt: skip
"""Words in the names of columns that tell the time."""

SIMILAR = 0.82
"""Similarity above which a name is taken as a misspelt one."""

PLACEHOLDER = "NAME"
"""What a fix shows where several columns may be meant, and none of them is likely."""

MAX_PLACEHOLDERS = 6
"""Largest number of placeholders in a fix."""

MAX_LISTED = 30
"""Largest number of columns that a fix lists."""


def words(name: str) -> set[str]:
    """Return the words of a name, in lower case.

    Examples
    --------
    >>> sorted(words("chartTime_hours2"))
    ['chart', 'hours', 'time']
    """
    return set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))


def likely_column(role: str, name: str, columns: Sequence[str]) -> str | None:
    """Return the column that probably has a role: a similar name, or one with a word for it.

    Examples
    --------
    >>> likely_column("reward", "reward", ["hr", "outcome_30d"])
    'outcome_30d'
    >>> likely_column("reward", "rewrad", ["outcome", "reward"])
    'reward'
    >>> likely_column("behavior_prob", "behavior_prob", ["death_prob", "prob_treated"])
    'prob_treated'
    """
    named = (
        column for column in columns
        if NAMES.get(role, set()) & words(column) and not OTHERS.get(role, set()) & words(column)
    )  # fmt: skip
    return nearest(name, columns, SIMILAR) or next(named, None)


def order_column(schema: Any, *, without: str | None = None) -> str | None:
    """Return the column that rows are probably to be ordered by, a time; None if there is none.

    The column ``without`` is none of them.

    Examples
    --------
    >>> order_column(pa.schema([("age", pa.int64()), ("chart_time", pa.int64())]))
    'chart_time'
    """
    times = [column.name for column in schema if pa.types.is_temporal(column.type)]
    times += [
        column.name for column in schema
        if TIMES & words(column.name)
        and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    ]  # fmt: skip
    times += [c.name for c in schema if is_text(c.type) and (TIMES | {"at"}) & words(c.name)]
    return next((name for name in times if name != without), None)


def listed_columns(columns: Iterable[str]) -> list[str]:
    """Return the columns that a fix lists, the rest as an ellipsis."""
    names = list(columns)
    return [*names[:MAX_LISTED], *["…"] * (len(names) > MAX_LISTED)]


def chosen_columns(count: int, names: Sequence[str]) -> Fix | None:
    """Return the fix that lists a number of columns, those of known ``names`` if they are all."""
    if len(names) != count:
        names = [PLACEHOLDER] * count if count <= MAX_PLACEHOLDERS else []
    return Fix(f"List {count} columns", "observations", list(names)) if names else None


def without_column(name: str, observations: Sequence[str]) -> Fix | None:
    """Return the fix that lists all observations but one; None if there are no others.

    Examples
    --------
    >>> print(without_column("note", ["hr", "note"]))
    Or list the observations without it: observations=["hr"].
    """
    others = [other for other in observations if other != name]
    if not others:
        return None
    return Fix("Or list the observations without it", "observations", listed_columns(others))
