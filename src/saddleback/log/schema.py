"""Which column of a log is what.

    episode_id  step  obs_0…|obs|phi_0…  action  reward  terminated  truncated
    next_obs_0…  behavior_prob|behavior_logp  mu_0…  pi_0… next_pi_0…

Names of one's own are given once: ``observations`` lists the columns of the observation, and
``columns`` says how the others are called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from saddleback._registry import check_name
from saddleback.log.diagnostics import Finding

REQUIRED = ("episode_id", "action", "reward", "terminated", "truncated")
OPTIONAL = ("step", "behavior_prob", "behavior_logp")
HINTS = {
    "episode_id": "number the episodes, rows of one next to each other",
    "action": "the action taken, 0 … K−1 or a name",
    "reward": "the reward that followed the action",
    "terminated": "True on the row that ended the task, else False",
    "truncated": "True on the last row of an episode that was cut short, else False",
}


@dataclass(frozen=True)
class Layout:
    """Columns of a log by their role.

    Attributes
    ----------
    names
        The user's name of each standard column that is there.
    observations, next_observations
        Columns of the observation, and of the one that followed a truncated last row.
    as_list
        Whether the observation is one column of fixed-size lists.
    dimensions
        Entries of an observation.
    given
        Whether the columns are features themselves, ``phi_…``.
    tables
        Columns of each table of probabilities, such as ``mu`` and ``pi`` and ``next_pi``.
    """

    names: Mapping[str, str]
    observations: tuple[str, ...]
    next_observations: tuple[str, ...]
    as_list: bool
    dimensions: int
    given: bool
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def read(self) -> list[str]:
        """All columns that are read."""
        each = [*self.names.values(), *self.observations, *self.next_observations]
        return [*each, *(column for columns in self.tables.values() for column in columns)]

    def without_propensities(self) -> Layout:
        """Return the layout of a log whose propensities are left unread."""
        names = {k: v for k, v in self.names.items() if not k.startswith("behavior_")}
        tables = {k: v for k, v in self.tables.items() if k not in ("mu", "next_mu")}
        return replace(self, names=names, tables=tables)


def numbered(names: Sequence[str], prefix: str) -> tuple[str, ...]:
    """Return the columns prefix_0, prefix_1, … in order, as far as they go without a gap."""
    found: list[str] = []
    while f"{prefix}_{len(found)}" in names:
        found.append(f"{prefix}_{len(found)}")
    return tuple(found)


def resolve(
    schema: Any, observations: Sequence[str] | None, columns: Mapping[str, str]
) -> tuple[Layout | None, list[Finding]]:
    """Find the columns in an Arrow schema; None if something needed is missing."""
    for name in columns:
        check_name("standard column", name, [*REQUIRED, *OPTIONAL])
    there = list(schema.names)
    found: list[Finding] = []
    names = {}
    for role in (*REQUIRED, *OPTIONAL):
        name = columns.get(role, role)
        if name in there:
            names[role] = name
        elif role in REQUIRED or role in columns:
            listed = ", ".join(there[:12]) + (", …" if len(there) > 12 else "")
            fix = f"Add it ({HINTS[role]}), or" if role in HINTS else "Add it, or"
            found.append(
                Finding(
                    "E100",
                    f"column {name!r} is missing. {fix} say which column it is: "
                    f"columns={{{role!r}: …}}. There are: {listed}.",
                )
            )
    if {"behavior_prob", "behavior_logp"} <= set(names):
        found.append(
            Finding("E102", "both behavior_prob and behavior_logp are there: drop one of them.")
        )
    seen, following, as_list, given = _observed(there, observations, found)
    dimensions = len(seen)
    if as_list:
        dimensions = getattr(schema.field(seen[0]).type, "list_size", 0)
        for name in (*seen, *following):
            kind = schema.field(name).type
            fits = pa.types.is_fixed_size_list(kind) and _is_number(kind.value_type)
            if not fits or kind.list_size != dimensions:
                wanted = str(dimensions) if dimensions else "n"
                found.append(
                    Finding(
                        "E142",
                        f"column {name!r} holds {_kind(kind)}: an observation must be a list of "
                        f"numbers of fixed size, pa.list_(pa.float64(), {wanted}), or columns "
                        "obs_0, obs_1, …",
                    )
                )
    for name in () if as_list else (*seen, *following):
        kind = schema.field(name).type
        if not _is_number(kind) and not (name in following and pa.types.is_null(kind)):
            found.append(
                Finding(
                    "E142",
                    f"observation column {name!r} holds {_kind(kind)}, not numbers. Encode it as "
                    "numbers (one column for each category), or leave it out of observations=[…].",
                )
            )
    for role, fits in (
        ("reward", _is_number), ("behavior_prob", _is_number), ("behavior_logp", _is_number),
        ("step", pa.types.is_integer), ("terminated", _is_flag), ("truncated", _is_flag),
        ("action", _is_action), ("episode_id", _is_id),
    ):  # fmt: skip
        if role in names and not fits(schema.field(names[role]).type):
            kind = _kind(schema.field(names[role]).type)
            found.append(Finding("E143", f"column {names[role]!r} holds {kind}; {WANTED[role]}."))
    for prefix in ("mu", "pi", "next_mu", "next_pi", *(() if observations else ("obs", "phi"))):
        _gaps(prefix, there, found)
    tables = {}
    for prefix in sorted({m[1] for n in there if (m := re.fullmatch(r"(.+)_0", n))}):
        if prefix in ("obs", "next_obs", "phi", "next_phi"):
            continue
        each = numbered(there, prefix)
        if all(_is_number(schema.field(n).type) for n in each) and not set(each) & set(seen):
            tables[prefix] = each
    for prefix, each in tables.items():
        whole = tables.get(prefix.removeprefix("next_"))
        if whole is not None and len(whole) != len(each):
            found.append(
                Finding(
                    "E141",
                    f"{prefix}_* has {len(each)} columns, {prefix.removeprefix('next_')}_* has "
                    f"{len(whole)}: one for each action in both.",
                )
            )
    if found:
        return None, found
    return Layout(names, seen, following, as_list, dimensions, given, tables), []


WANTED = {
    "reward": "rewards must be numbers",
    "behavior_prob": "probabilities must be numbers",
    "behavior_logp": "log-probabilities must be numbers",
    "step": "steps must be whole numbers 0 … T−1",
    "terminated": "flags must be True or False",
    "truncated": "flags must be True or False",
    "action": "actions must be whole numbers 0 … K−1 or names; continuous actions are not "
    "supported",
    "episode_id": "episodes must be whole numbers or text",
}


def _observed(
    there: list[str], observations: Sequence[str] | None, found: list[Finding]
) -> tuple[tuple[str, ...], tuple[str, ...], bool, bool]:
    """Return the columns of s and s', whether s is a list, and whether s is features."""
    if observations is not None:
        for name in observations:
            if name not in there:
                found.append(
                    Finding("E100", f"observation column {name!r} is missing. {_near(name, there)}")
                )
        seen = tuple(name for name in observations if name in there)
        return seen, _following(seen, there, found), False, False
    for prefix in ("obs", "phi"):
        if seen := numbered(there, prefix):
            return seen, _following(seen, there, found), False, prefix == "phi"
    if "obs" in there:
        return ("obs",), _following(("obs",), there, found), True, False
    found.append(
        Finding(
            "E100",
            "there is no observation: name its columns obs_0, obs_1, …, or phi_0, phi_1, … for "
            f"features, or list them: observations=[…]. There are: {', '.join(there)}.",
        )
    )
    return (), (), False, False


def _gaps(prefix: str, there: Sequence[str], found: list[Finding]) -> None:
    """Notice that prefix_0, prefix_1, … do not go on to the last of them."""
    numbers = {int(m[1]) for n in there if (m := re.fullmatch(rf"{prefix}_([0-9]+)", n))}
    missing = set(range(max(numbers, default=-1))) - numbers
    if missing:
        found.append(
            Finding(
                "E100",
                f"column '{prefix}_{min(missing)}' is missing, though '{prefix}_{max(numbers)}' is "
                "there. Number the columns from 0 without gaps.",
            )
        )


def _following(
    seen: tuple[str, ...], there: Sequence[str], found: list[Finding]
) -> tuple[str, ...]:
    """Return the columns of the next observation: all of them, or none."""
    names = tuple(f"next_{name}" for name in seen)
    missing = [name for name in names if name not in there]
    if missing and len(missing) < len(names):
        other = next(name for name in names if name in there)
        found.append(
            Finding(
                "E100",
                f"column {missing[0]!r} is missing, though {other!r} is there. Add it, or leave "
                "all of the next observation out.",
            )
        )
    return () if missing else names


def _near(name: str, there: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, there, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(there)}."


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    )


def _is_flag(kind: Any) -> bool:
    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind))


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text, or categories of text."""
    types = pa.types
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_action(kind: Any) -> bool:
    return bool(_is_id(kind) or pa.types.is_boolean(kind))


def _is_id(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_id(kind.value_type)
    return bool(pa.types.is_integer(kind) or is_text(kind))


def _kind(kind: Any) -> str:
    if pa.types.is_null(kind):
        return "nothing"
    return "text" if is_text(kind) else str(kind)
