"""Roles of the columns of a log.

    episode_id  step  obs_0…|obs|phi_0…  action|action_0…  reward  terminated  truncated
    next_obs_0…  behavior_prob|behavior_logp  mu_0…  pi_0… next_pi_0…

Other names are declared once: ``observations`` lists the columns of the observation, and
``columns`` maps standard names to the names in the log.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from saddleback._registry import check_name
from saddleback.errors import Fix
from saddleback.log.column_types import (
    EXPECTED,
    FITS,
    FLAGS,
    content,
    is_action,
    is_number,
    is_text,
)
from saddleback.log.diagnostics import Finding
from saddleback.log.likely_columns import listed_columns, without_column
from saddleback.log.missing_columns import OPTIONAL, MissingColumns, list_columns

REQUIRED = ("episode_id", "action", "reward", "terminated", "truncated")


@dataclass(frozen=True)
class ColumnRoles:
    """Columns of a log by their role."""

    names: Mapping[str, str]  # name in the log of each standard column it has
    # Columns of the observation, and of the observation that followed a truncated last row.
    observations: tuple[str, ...]
    next_observations: tuple[str, ...]
    as_list: bool  # whether the observation is one column of fixed-size lists
    dimensions: int  # number of entries of an observation, categories not counted
    are_features: bool  # whether the columns are features, ``phi_…``
    categorical: tuple[str, ...] = ()  # columns of the observation that are categories
    # Columns of each table of probabilities, such as ``mu``, ``pi`` and ``next_pi``; of continuous
    # actions only ``action``.
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    actions: tuple[str, ...] = ()  # columns of a continuous action; empty if actions are discrete

    @property
    def all_columns(self) -> list[str]:
        """All columns that are read."""
        columns = [*self.names.values(), *self.observations, *self.next_observations]
        return [*columns, *(name for table in self.tables.values() for name in table)]

    def without_propensities(self) -> ColumnRoles:
        """Return the roles without the columns of propensities."""
        names = {k: v for k, v in self.names.items() if not k.startswith("behavior_")}
        tables = {k: v for k, v in self.tables.items() if k not in ("mu", "next_mu")}
        return replace(self, names=names, tables=tables)


def numbered(names: Sequence[str], prefix: str) -> tuple[str, ...]:
    """Return the columns prefix_0, prefix_1, … in order, up to the first gap."""
    columns: list[str] = []
    while f"{prefix}_{len(columns)}" in names:
        columns.append(f"{prefix}_{len(columns)}")
    return tuple(columns)


def resolve(
    schema: Any,
    observations: Sequence[str] | None,
    columns: Mapping[str, str],
    optional: Sequence[str] = (),
    categorical: Sequence[str] = (),
    unused: Sequence[str] = (),
    text_rewards: bool = False,
) -> tuple[ColumnRoles | None, list[Finding]]:
    """Identify the columns of an Arrow schema; None and the errors if that fails.

    ``optional`` are required columns that the log may lack, ``categorical`` columns of the
    observation that are categories, besides those of text, and ``unused`` roles not to look for.
    With ``text_rewards``, rewards may be text.
    """
    for name in columns:
        if not re.fullmatch(r"action_[0-9]+", name):
            check_name("standard column", name, [*REQUIRED, *OPTIONAL])
    available = list(schema.names)
    if repeated := [name for name, count in Counter(available).items() if count > 1]:
        message = f"the log has several columns {repeated[0]!r}. Remove or rename all but one."
        return None, [Finding("E105", message)]
    errors: list[Finding] = []
    actions = _continuous_actions(schema, columns, errors)
    if actions:
        optional = [*optional, "action"]
        columns = {role: name for role, name in columns.items() if role != "action"}
    names = _standard_columns(schema, columns)
    names = {role: name for role, name in names.items() if role not in unused}
    required = {*REQUIRED, *(role for role in columns if not role.startswith("action_"))}
    required -= {*names} | ({*optional} - {*columns})
    missing = MissingColumns(schema, names.values(), observations)
    lacking = [role for role in (*REQUIRED, *OPTIONAL) if role in required]
    errors += missing.standard(lacking, columns)
    if {"behavior_prob", "behavior_logp"} <= set(names):
        message = "the log has both behavior_prob and behavior_logp: remove one of them."
        errors.append(Finding("E102", message))
    observed, next_columns, as_list, are_features = _observation_columns(
        available, observations, missing, errors
    )
    dimensions = len(observed)
    if as_list:
        dimensions = getattr(schema.field(observed[0]).type, "list_size", 0)
    categories = _categorical_columns(schema, observed, as_list, categorical, errors)
    _check_observation_types(
        schema, observed, next_columns, as_list, dimensions, categories, errors
    )
    for role, fits in FITS.items():
        if role in names and not fits(kind := schema.field(names[role]).type):
            if is_text(kind) and (role in FLAGS or (role == "reward" and text_rewards)):
                continue
            if role in FLAGS and role in optional and pa.types.is_null(kind):
                continue
            message = f"column {names[role]!r} contains {content(kind)}; {EXPECTED[role]}."
            errors.append(Finding("E143", message, _fix_of_type(role, names[role], kind)))
    prefixes = ["mu", "pi", "next_mu", "next_pi"]
    if observed and not observations:
        prefixes += ["obs", "phi"]
    for prefix in prefixes:
        _check_gaps(prefix, available, errors)
    tables = {"action": actions} if actions else _probability_tables(schema, observed, errors)
    if errors:
        if not ({"behavior_prob", "behavior_logp"} & {*names} or "mu" in tables):
            errors += missing.propensities()
        return None, errors
    roles = ColumnRoles(
        names,
        observed,
        next_columns,
        as_list,
        dimensions,
        are_features,
        categories,
        tables,
        actions,
    )
    return roles, []


def _fix_of_type(role: str, name: str, kind: Any) -> Fix | None:
    """Return the argument that helps where a standard column has another type, if there is one."""
    if role == "step" and (pa.types.is_temporal(kind) or pa.types.is_floating(kind)):
        return Fix("Sort the rows by it", "order_by", name)
    if role in FLAGS and pa.types.is_null(kind):
        advice = "Or read missing flags as false, and say how episodes without one ended"
        return Fix(advice, "episodes_end", role)
    if role == "action" and pa.types.is_floating(kind):
        return Fix("If it is continuous, map it so", "columns", {"action_0": name})
    return None


def _continuous_actions(
    schema: Any, columns: Mapping[str, str], errors: list[Finding]
) -> tuple[str, ...]:
    """Return the columns of a continuous action; none if there is a column of discrete ones."""
    if "action_0" not in columns and columns.get("action", "action") in schema.names:
        return ()
    names: list[str] = []
    while (name := columns.get(role := f"action_{len(names)}", role)) in schema.names:
        names.append(name)
    for role in sorted(columns):
        if role.startswith("action_") and columns[role] not in names:
            message = f"column {columns[role]!r}, given as {role}, is missing. "
            errors.append(Finding("E100", message + list_columns(schema.names)))
    if names and not any(role.startswith("action_") for role in columns):
        _check_gaps("action", schema.names, errors)
    for name in names:
        kind = schema.field(name).type
        if not is_number(kind):
            message = f"column {name!r} contains {content(kind)}; continuous actions are numbers."
            errors.append(Finding("E143", message))
    return tuple(names)


def _categorical_columns(
    schema: Any,
    observed: tuple[str, ...],
    as_list: bool,
    declared: Sequence[str],
    errors: list[Finding],
) -> tuple[str, ...]:
    """Return the columns of the observation that are categories: of text, or declared."""
    for name in declared:
        if name not in observed or as_list:
            listed = ", ".join(observed)
            message = f"categorical column {name!r} is not one of the observation: {listed}."
            fix = None
            if name in schema.names and not as_list:
                fix = Fix("List it as an observation", "observations", [*observed, name])
            elif close := difflib.get_close_matches(name, observed, n=1):
                right = [close[0] if one == name else one for one in declared]
                fix = Fix(f"Did you mean {close[0]!r}? Write", "categorical", right)
            errors.append(Finding("E100", message, fix))
    text = [name for name in observed if not as_list and is_text(schema.field(name).type)]
    return tuple(name for name in observed if name in text or name in declared)


def _standard_columns(schema: Any, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the name in the log of each standard column it has.

    A column that is mapped to one role does not have another one by its name.
    """
    names = {
        role: columns.get(role, role)
        for role in (*REQUIRED, *OPTIONAL)
        if role in columns or role not in columns.values()
    }
    if "action" in names and names["action"] == columns.get("action_0"):
        del names["action"]  # it is continuous
    return {role: name for role, name in names.items() if name in schema.names}


def _check_observation_types(
    schema: Any,
    observed: tuple[str, ...],
    next_columns: tuple[str, ...],
    as_list: bool,
    dimensions: int,
    categories: tuple[str, ...],
    errors: list[Finding],
) -> None:
    """Report observation columns that are not numbers, categories, or lists of numbers."""
    for name in (*observed, *next_columns):
        kind = schema.field(name).type
        if name.removeprefix("next_" if name in next_columns else "") in categories and (
            is_action(kind) or (name in next_columns and pa.types.is_null(kind))
        ):
            continue
        if as_list:
            fits = pa.types.is_fixed_size_list(kind) and is_number(kind.value_type)
            if not fits or kind.list_size != dimensions:
                size = str(dimensions) if dimensions else "n"
                errors.append(
                    Finding(
                        "E142",
                        f"column {name!r} contains {content(kind)}: observations must be "
                        f"fixed-size lists of numbers, pa.list_(pa.float64(), {size}), or columns "
                        "obs_0, obs_1, …",
                    )
                )
        elif not is_number(kind) and not (name in next_columns and pa.types.is_null(kind)):
            errors.append(
                Finding(
                    "E142",
                    f"observation column {name!r} contains {content(kind)}: convert it to numbers.",
                    without_column(name.removeprefix("next_"), observed),
                )
            )


def _probability_tables(
    schema: Any, observed: tuple[str, ...], errors: list[Finding]
) -> dict[str, tuple[str, ...]]:
    """Return the columns of every table prefix_0, prefix_1, … of numbers."""
    tables = {}
    for prefix in sorted({m[1] for n in schema.names if (m := re.fullmatch(r"(.+)_0", n))}):
        if prefix in ("obs", "next_obs", "phi", "next_phi", "action"):
            continue
        columns = numbered(schema.names, prefix)
        numeric = all(is_number(schema.field(name).type) for name in columns)
        if numeric and not set(columns) & set(observed):
            tables[prefix] = columns
    for prefix, columns in tables.items():
        current = tables.get(prefix.removeprefix("next_"))
        if current is not None and len(current) != len(columns):
            errors.append(
                Finding(
                    "E141",
                    f"{prefix}_* has {len(columns)} columns, but {prefix.removeprefix('next_')}_* "
                    f"has {len(current)}: both need one per action.",
                )
            )
    return tables


def _observation_columns(
    available: list[str],
    observations: Sequence[str] | None,
    missing: MissingColumns,
    errors: list[Finding],
) -> tuple[tuple[str, ...], tuple[str, ...], bool, bool]:
    """Return the columns of s and s', whether s is a list column, and whether it is features."""
    if observations is not None:
        errors += missing.listed(observations)
        observed = tuple(name for name in observations if name in available)
        return observed, _next_columns(observed, available, errors), False, False
    for prefix in ("obs", "phi"):
        if observed := numbered(available, prefix):
            return observed, _next_columns(observed, available, errors), False, prefix == "phi"
    if "obs" in available:
        return ("obs",), _next_columns(("obs",), available, errors), True, False
    errors.append(missing.observations())
    return (), (), False, False


def _check_gaps(prefix: str, available: Sequence[str], errors: list[Finding]) -> None:
    """Report a gap in the columns prefix_0, prefix_1, …"""
    numbers = {int(m[1]) for n in available if (m := re.fullmatch(rf"{prefix}_([0-9]+)", n))}
    missing = set(range(max(numbers, default=-1))) - numbers
    if missing:
        fix = None
        names = [f"{prefix}_{k}" for k in sorted(numbers)]
        if prefix == "obs":
            fix = Fix("If there are no others, list them", "observations", listed_columns(names))
        elif prefix == "action":
            roles = {f"action_{k}": name for k, name in enumerate(names)}
            roles = {role: name for role, name in roles.items() if role != name}
            fix = Fix("If there are no others, map them", "columns", roles)
        errors.append(
            Finding(
                "E100",
                f"column '{prefix}_{min(missing)}' is missing, but '{prefix}_{max(numbers)}' "
                "exists. Number the columns from 0 without gaps.",
                fix,
            )
        )


def _next_columns(
    observed: tuple[str, ...], available: Sequence[str], errors: list[Finding]
) -> tuple[str, ...]:
    """Return the columns of the next observation: all of them, or none."""
    names = tuple(f"next_{name}" for name in observed)
    missing = [name for name in names if name not in available]
    if missing and len(missing) < len(names):
        other = next(name for name in names if name in available)
        errors.append(
            Finding(
                "E100",
                f"column {missing[0]!r} is missing, but {other!r} exists. Add it, or remove all "
                "columns of the next observation.",
                Fix(
                    "Or list only observations that have one",
                    "observations",
                    listed_columns(n for n in observed if f"next_{n}" in available),
                ),
            )
        )
    return () if missing else names
