"""Names of actions or categories that differ only in case or spaces, such as ICU and icu."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from saddleback.log.diagnostics import Finding

if TYPE_CHECKING:
    from saddleback.log.log import Log

MAX_SHOWN = 3
"""Number of groups of names in a message."""


def similar_names(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of names that are equal except for case and spaces.

    Examples
    --------
    >>> similar_names(["ER", "er ", "icu"])
    [['ER', 'er ']]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(" ".join(name.casefold().split()), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def similar_name_findings(log: Log) -> list[Finding]:
    """Return a warning for each column with such names, unless they were declared."""
    columns = {}
    if log.has_text_actions and not log.has_action_names:
        columns[f"column {log.roles.names['action']!r}"] = log.action_names
    declared = log.categorical if isinstance(log.categorical, Mapping) else {}
    for name, values in log.categories.items():
        if name not in declared:
            columns[f"observation column {name!r}"] = values
    findings = []
    for column, values in columns.items():
        groups = similar_names(values)
        if groups:
            shown = "; ".join(" and ".join(map(repr, group)) for group in groups[:MAX_SHOWN])
            message = (
                f"{column} contains {shown}{'; …' * (len(groups) > MAX_SHOWN)}, which differ only "
                "in case or spaces. If they mean the same, give them one name."
            )
            findings.append(Finding("W159", message))
    return findings
