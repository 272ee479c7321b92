"""Rules as plain dictionaries, for files and fingerprints.

A part of a rule is written as the name of its class and its fields. Only the parts that
`saddleback.rules` defines can be read back.
"""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from typing import Any

from saddleback import rules
from saddleback.errors import InvalidParameter
from saddleback.rules.rule import Rule

PARTS = ("trace", "form", "bootstrap", "emphasis")


def rule_to_dict(rule: Rule) -> dict[str, Any]:
    """Describe a rule by its parts, for `rule_from_dict`."""
    description: dict[str, Any] = {part: _part_to_dict(getattr(rule, part)) for part in PARTS}
    return description | {"label": rule.label} if rule.label else description


def rule_from_dict(description: dict[str, Any]) -> Rule:
    """Build the rule that `rule_to_dict` described."""
    parts = {part: _part_from_dict(description[part]) for part in PARTS}
    return Rule(**parts, label=description.get("label", ""))


def _part_to_dict(part: Any) -> dict[str, Any] | None:
    """Describe a part of a rule by its class and fields."""
    if part is None:
        return None
    kind = type(part).__name__
    if getattr(rules, kind, None) is not type(part):
        raise InvalidParameter(
            f"{part!r} is a custom part of a rule and cannot be serialised; save the arrays "
            "instead."
        )
    return {"kind": kind, **asdict(part)}


def _part_from_dict(description: dict[str, Any] | None) -> Any:
    """Build a part of a rule from its description."""
    if description is None:
        return None
    values = dict(description)
    kind: Any = getattr(rules, values.pop("kind"), None)
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise ValueError(f"unknown part of a rule: {description}")
    names = {field.name for field in fields(kind)}
    return kind(
        **{n: tuple(v) if isinstance(v, list) else v for n, v in values.items() if n in names}
    )
