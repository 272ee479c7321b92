"""Columns whose numbers are text only for their symbols, such as 60% or € 12.00."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from saddleback.log.diagnostics import Finding
from saddleback.log.row_source import RowSource
from saddleback.log.text_rewards import different_texts

ROLES = ("reward", "behavior_prob", "behavior_logp")
"""Standard columns of numbers."""

CURRENCY = r"(?:[€$£¥]|EUR|USD|GBP)?"
NUMBER = rf"\s*{CURRENCY}\s*[-+]?\s*{CURRENCY}\s*[0-9][0-9.,\s]*\s*(?:%|{CURRENCY})\s*"
"""A number with a currency or a percent sign, as a pattern."""


def with_symbols(
    findings: Sequence[Finding], sources: Sequence[RowSource], columns: Mapping[str, str]
) -> list[Finding]:
    """Return errors about columns; those of numbers with symbols say so.

    ``columns`` are names in the log of standard columns.
    """
    changed = list(findings)
    for role in ROLES:
        name = columns.get(role, role)
        start = f"column {name!r} contains text; "
        for k, finding in enumerate(findings):
            if finding.code == "E143" and finding.message.startswith(start):
                example = _example(different_texts(sources, name))
                if example is not None:
                    rest = finding.message.removeprefix(start)
                    message = f"column {name!r} contains text, such as {example!r}; {rest}"
                    changed[k] = Finding("E143", f"{message} {_repair(role, example)}")
    return changed


def _example(texts: Sequence[str]) -> str | None:
    """Return the first text with a symbol if all are numbers, with or without one.

    Examples
    --------
    >>> _example(["€ -0.10", "€ 12.00"]), _example(["60%", "often"]), _example(["0", "1"])
    ('€ -0.10', None, None)
    """
    if not all(re.fullmatch(NUMBER, text) for text in texts):
        return None
    return next((text for text in texts if re.search(r"[%€$£¥A-Z]", text)), None)


def _repair(role: str, example: str) -> str:
    if "%" not in example:
        return "Remove the currency."
    return "Remove the percent signs" + (", and divide by 100." if role == "behavior_prob" else ".")
