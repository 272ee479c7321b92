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
from typing import Any, NamedTuple

import pyarrow as pa

from saddleback._display import join_names
from saddleback._registry import check_name
from saddleback.errors import Fix
from saddleback.log.column_types import (
    EXPECTED,
    FITS,
    FLAGS,
    content,
    is_action,
    is_list,
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


class Declared(NamedTuple):
    """What was declared about the columns of a log."""

    observations: Sequence[str] | None  # columns of the observation, if they are listed
    columns: Mapping[str, str]  # names in the log of standard columns
    optional: Sequence[str] = ()  # required columns that the log may lack
    categorical: Sequence[str] = ()  # columns of the observation that are categories, besides text
    unused: Sequence[str] = ()  # roles not to look for
    text_rewards: bool = False  # whether rewards may be text


def resolve(schema: Any, declared: Declared) -> tuple[ColumnRoles | None, list[Finding]]:
    """Identify the columns of an Arrow schema; None and the errors if that fails."""
    for name in declared.columns:
        if not re.fullmatch(r"action_[0-9]+", name):
            check_name("standard column", name, [*REQUIRED, *OPTIONAL])
    if repeated := [name for name, count in Counter(schema.names).items() if count > 1]:
        message = f"the log has several columns {repeated[0]!r}. Remove or rename all but one."
        return None, [Finding("E105", message)]
    resolver = _Resolver(schema)
    roles = resolver.roles(declared)
    return (None if resolver.errors else roles), resolver.errors


class _Resolver:
    """Identifies the columns of an Arrow schema, and collects errors."""

    def __init__(self, schema: Any) -> None:
        self._schema, self._names = schema, list(schema.names)
        self.errors: list[Finding] = []

    def _add(self, code: str, message: str, fix: Fix | None = None) -> None:
        self.errors.append(Finding(code, message, fix))

    def _type(self, name: str) -> Any:
        return self._schema.field(name).type

    def roles(self, declared: Declared) -> ColumnRoles:
        """Return the roles of all columns, which hold if there are no errors."""
        observations, columns, optional, categorical, unused, text_rewards = declared
        actions = self._continuous_actions(columns)
        if actions:
            optional = [*optional, "action"]
            columns = {role: name for role, name in columns.items() if role != "action"}
        names = self._standard_columns(columns)
        names = {role: name for role, name in names.items() if role not in unused}
        required = {*REQUIRED, *(role for role in columns if not role.startswith("action_"))}
        required -= {*names} | ({*optional} - {*columns})
        missing = MissingColumns(self._schema, names.values(), observations)
        lacking = [role for role in (*REQUIRED, *OPTIONAL) if role in required]
        absent = missing.standard(lacking, columns)
        # It is needed only if the other flag does not end every episode, which the rows tell.
        may_lack = len(lacking) == 1 and lacking[0] in FLAGS and lacking[0] not in columns
        self.errors += [] if may_lack else absent
        if {"behavior_prob", "behavior_logp"} <= set(names):
            message = "the log has both behavior_prob and behavior_logp: remove one of them."
            self._add("E102", message)
        observed, as_list, are_features = self._observation_columns(observations, missing)
        next_columns = self._next_columns(observed)
        dimensions = len(observed)
        if as_list:
            dimensions = getattr(self._type(observed[0]), "list_size", 0)
        categories = self._categorical_columns(observed, as_list, categorical)
        self._check_observation_types(
            observed, next_columns, categories, dimensions if as_list else None
        )
        for role, fits in FITS.items():
            if role in names and not fits(kind := self._type(names[role])):
                if is_text(kind) and (role in FLAGS or (role == "reward" and text_rewards)):
                    continue
                if role in FLAGS and role in optional and pa.types.is_null(kind):
                    continue
                message = f"column {names[role]!r} contains {content(kind)}; {EXPECTED[role]}."
                self._add("E143", message, _fix_of_type(role, names[role], kind))
        prefixes = ["mu", "pi", "next_mu", "next_pi"]
        if observed and not observations:
            prefixes += ["obs", "phi"]
        for prefix in prefixes:
            self._check_gaps(prefix)
        tables = {"action": actions} if actions else self._probability_tables(observed)
        has_propensities = {"behavior_prob", "behavior_logp"} & {*names} or "mu" in tables
        if self.errors and may_lack:
            self.errors = [*absent, *self.errors]
        if self.errors and not has_propensities:
            self.errors += missing.propensities()
        return ColumnRoles(
            names, observed, next_columns, as_list, dimensions, are_features, categories, tables,
            actions,
        )  # fmt: skip

    def _continuous_actions(self, columns: Mapping[str, str]) -> tuple[str, ...]:
        """Return the columns of a continuous action; none if there is one of discrete actions."""
        if "action_0" not in columns and columns.get("action", "action") in self._names:
            return ()
        names: list[str] = []
        while (name := columns.get(role := f"action_{len(names)}", role)) in self._names:
            names.append(name)
        for role in sorted(columns):
            if role.startswith("action_") and columns[role] not in names:
                message = f"column {columns[role]!r}, given as {role}, is missing. "
                self._add("E100", message + list_columns(self._names))
        if names and not any(role.startswith("action_") for role in columns):
            self._check_gaps("action")
        for name in names:
            kind = self._type(name)
            if not is_number(kind):
                actual = content(kind)
                self._add(
                    "E143", f"column {name!r} contains {actual}; continuous actions are numbers."
                )
        return tuple(names)

    def _standard_columns(self, columns: Mapping[str, str]) -> dict[str, str]:
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
        return {role: name for role, name in names.items() if name in self._names}

    def _observation_columns(
        self, observations: Sequence[str] | None, missing: MissingColumns
    ) -> tuple[tuple[str, ...], bool, bool]:
        """Return the columns of s, whether it is a list column, and whether it is features."""
        if observations is not None:
            self.errors += missing.listed(observations)
            observed = tuple(name for name in observations if name in self._names)
            return observed, len(observed) == 1 and is_list(self._type(observed[0])), False
        for prefix in ("obs", "phi"):
            if observed := numbered(self._names, prefix):
                return observed, False, prefix == "phi"
        if "obs" in self._names:
            return ("obs",), True, False
        self.errors.append(missing.observations())
        return (), False, False

    def _next_columns(self, observed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of the next observation: all of them, or none."""
        names = tuple(f"next_{name}" for name in observed)
        missing = [name for name in names if name not in self._names]
        if missing and len(missing) < len(names):
            other = next(name for name in names if name in self._names)
            both = listed_columns(n for n in observed if f"next_{n}" in self._names)
            self._add(
                "E100",
                f"column {missing[0]!r} is missing, but {other!r} exists. Add it, or remove all "
                "columns of the next observation.",
                Fix("Or list only observations that have one", "observations", both),
            )
        return () if missing else names

    def _categorical_columns(
        self, observed: tuple[str, ...], as_list: bool, declared: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the columns of the observation that are categories: of text, or declared."""
        for name in declared:
            if name not in observed or as_list:
                listed = join_names(observed)
                message = f"categorical column {name!r} is not one of the observation: {listed}."
                fix = None
                if name in self._names and not as_list:
                    fix = Fix("List it as an observation", "observations", [*observed, name])
                elif close := difflib.get_close_matches(name, observed, n=1):
                    right = [close[0] if one == name else one for one in declared]
                    fix = Fix(f"Did you mean {close[0]!r}? Write", "categorical", right)
                self._add("E100", message, fix)
        text = [name for name in observed if not as_list and is_text(self._type(name))]
        return tuple(name for name in observed if name in text or name in declared)

    def _check_observation_types(
        self,
        observed: tuple[str, ...],
        next_columns: tuple[str, ...],
        categories: tuple[str, ...],
        list_size: int | None,
    ) -> None:
        """Report observation columns that are not numbers, categories, or lists of numbers."""
        for name in (*observed, *next_columns):
            kind, is_next = self._type(name), name in next_columns
            unknown = is_next and pa.types.is_null(kind)
            if name.removeprefix("next_" if is_next else "") in categories and (
                is_action(kind) or unknown
            ):
                continue
            if list_size is not None:
                fits = pa.types.is_fixed_size_list(kind) and is_number(kind.value_type)
                if not fits or kind.list_size != list_size:
                    self._add(
                        "E142",
                        f"column {name!r} contains {content(kind)}: observations must be "
                        f"fixed-size lists of numbers, pa.list_(pa.float64(), {list_size or 'n'}), "
                        "or columns obs_0, obs_1, …",
                    )
            elif not is_number(kind) and not unknown:
                self._add(
                    "E142",
                    f"observation column {name!r} contains {content(kind)}: convert it to numbers.",
                    without_column(name.removeprefix("next_"), observed),
                )

    def _probability_tables(self, observed: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the columns of every table prefix_0, prefix_1, … of numbers."""
        tables = {}
        for prefix in sorted({m[1] for n in self._names if (m := re.fullmatch(r"(.+)_0", n))}):
            if prefix in ("obs", "next_obs", "phi", "next_phi", "action"):
                continue
            columns = numbered(self._names, prefix)
            numeric = all(is_number(self._type(name)) for name in columns)
            if numeric and not set(columns) & set(observed):
                tables[prefix] = columns
        for prefix, columns in tables.items():
            current = tables.get(prefix.removeprefix("next_"))
            if current is not None and len(current) != len(columns):
                self._add(
                    "E141",
                    f"{prefix}_* has {len(columns)} columns, but {prefix.removeprefix('next_')}_* "
                    f"has {len(current)}: both need one per action.",
                )
        return tables

    def _check_gaps(self, prefix: str) -> None:
        """Report a gap in the columns prefix_0, prefix_1, …"""
        numbers = {int(m[1]) for n in self._names if (m := re.fullmatch(rf"{prefix}_([0-9]+)", n))}
        missing = set(range(max(numbers, default=-1))) - numbers
        if missing:
            fix = None
            names = [f"{prefix}_{k}" for k in sorted(numbers)]
            if prefix == "obs":
                fix = Fix(
                    "If there are no others, list them", "observations", listed_columns(names)
                )
            elif prefix == "action":
                roles = {f"action_{k}": name for k, name in enumerate(names)}
                roles = {role: name for role, name in roles.items() if role != name}
                fix = Fix("If there are no others, map them", "columns", roles)
            self._add(
                "E100",
                f"column '{prefix}_{min(missing)}' is missing, but '{prefix}_{max(numbers)}' "
                "exists. Number the columns from 0 without gaps.",
                fix,
            )


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
