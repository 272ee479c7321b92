"""The distribution of the return as a table of text, rendered from saved data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from saddleback.ope.number_format import decimals, number
from saddleback.ope.return_distribution import MODEL, WEIGHTED
from saddleback.ope.text_report import WIDTH, Line, wrap

HEADINGS = ("", "target", "95% CI", "logged")


def distribution_lines(plain: dict[str, Any], width: int = WIDTH) -> list[Line]:
    """Return quantiles and CVaR of all targets as lines."""
    shown = [line for one in plain.get("distributions", ()) for line in _table(plain, one, width)]
    for target in dict.fromkeys(one["target"] for one in plain["estimates"]):
        for origin, reason in missing_distributions(plain, target):
            head = f"{_title(plain, target, origin)}: "
            shown += ["", *wrap(head, f"none, since {reason}.", "  ", width)]
    return list(map(Line, shown))


def missing_distributions(plain: dict[str, Any], target: str) -> list[tuple[str, str]]:
    """Return which distributions a target does not have, weighted or of a model, and why."""
    of_target = [one for one in plain.get("distributions", ()) if one["target"] == target]
    methods = {one.get("method", WEIGHTED) for one in of_target}
    missing = []
    if WEIGHTED not in methods:
        unit = "decisions" if plain.get("bandit") else "episodes"
        missing.append(("weighted", f"no estimate weighs {unit} by propensities"))
    if (reason := plain.get("missing_models", {}).get(target)) is not None:
        missing.append((MODEL, reason))
    return missing


def distribution_rows(distribution: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return quantiles and CVaR as rows of text: name, value, interval, logged policy.

    Examples
    --------
    >>> half = {"level": 0.5, "value": 2.0, "low": 1.5, "high": None, "logged": 1.75}
    >>> rows = distribution_rows({"quantiles": [half], "cvar": half | {"level": 0.05, "high": 2.5}})
    >>> rows[0]
    ('5% worst, mean (CVaR)', '2.00', '[1.50, 2.50]', '1.75')
    >>> rows[1]
    ('50% quantile', '2', '[1.5, ∞]', '1.75')
    """
    named = [(f"{distribution['cvar']['level']:.0%} worst, mean (CVaR)", distribution["cvar"])]
    named += [(f"{one['level']:.0%} quantile", one) for one in distribution["quantiles"]]
    return [(name, *_cells(one, decimals(one))) for name, one in named]


def _cells(one: dict[str, Any], places: int | None) -> tuple[str, str, str]:
    """Return value, interval and value of the logged policy as text."""
    low, high = _end(one["low"], places, "−∞"), _end(one["high"], places, "∞")
    return number(one["value"], places), f"[{low}, {high}]", number(one["logged"], places)


def _end(value: float | None, places: int | None, infinite: str) -> str:
    return infinite if value is None else number(value, places)


def _table(plain: dict[str, Any], distribution: dict[str, Any], width: int) -> Iterator[str]:
    title = _title(plain, distribution["target"], origin(distribution))
    rows = [(title, *HEADINGS[1:])]
    rows += [(f"  {row[0]}", *row[1:]) for row in distribution_rows(distribution)]
    lines = _aligned(rows)
    if max(map(len, lines)) > width:  # of a long name
        lines = [title, *_aligned([HEADINGS, *rows[1:]])]
    yield ""
    for line in lines:
        yield from wrap("", line, " " * 4, width)
    notes = [distribution_note(distribution)]
    for note in filter(None, notes):
        yield from wrap("  ", note, "  ", width)


def _aligned(rows: list[tuple[str, str, str, str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    return [
        f"{name:<{widths[0]}}  {value:>{widths[1]}}  {interval:<{widths[2]}}  {logged}".rstrip()
        for name, value, interval, logged in rows
    ]


def _title(plain: dict[str, Any], target: str, origin: str) -> str:
    outcome = "reward" if plain.get("bandit") else "return"
    several = len({one["target"] for one in plain["estimates"]}) > 1
    whose = f" under {target}" if several else ""
    return f"Distribution of the {outcome}{whose}, {origin}"


def origin(distribution: dict[str, Any]) -> str:
    """Return what a distribution was computed from."""
    return MODEL if distribution.get("method") == MODEL else "weighted"


def distribution_note(distribution: dict[str, Any]) -> str:
    """Return why a distribution is unreliable or incomplete, and what its logged values are."""
    note = distribution.get("note", "")
    if note and origin(distribution) == MODEL:
        capitalised = f"{note[0].upper()}{note[1:]}"
        return f"{capitalised if distribution['reliable'] else f'unreliable: {note}'}."
    reasons = [note] if note else []
    if not distribution["reliable"]:
        size = number(distribution["ess"], 0)
        reasons.append(f"unreliable: a few importance weights dominate (ESS {size})")
    if not distribution["comparable"]:
        reasons.append("episodes were truncated: returns are those of the logged steps")
    return "; ".join(reasons) + "." if reasons else ""
