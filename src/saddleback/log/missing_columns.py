"""Errors about columns that a log lacks, each with the option that helps this log."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from saddleback._display import join_names
from saddleback._registry import nearest
from saddleback.errors import Fix
from saddleback.log.column_types import FITS, FLAGS, is_number, is_text
from saddleback.log.diagnostics import Finding
from saddleback.log.likely_columns import (
    IDS,
    PLACEHOLDER,
    SIMILAR,
    TIMES,
    likely_column,
    listed_columns,
    words,
)

HINTS = {
    "episode_id": "one id per episode, its rows adjacent",
    "action": "the action taken, 0 … K−1 or a name; action_0, action_1, … if it is continuous",
    "reward": "the reward after the action",
    "terminated": "True on the row that ended the task, False elsewhere",
    "truncated": "True on the last row of an episode that was cut short, False elsewhere",
}
"""What the required columns contain."""

OPTIONAL = ("step", "behavior_prob", "behavior_logp")
"""Standard columns that a log may lack."""

STANDARD = r"\(.*|next_.*|obs|(obs|phi|mu|pi|action)_[0-9]+"
"""Names of standard columns that come in groups, and, in brackets, of those that are added."""

BANDIT = Fix("If each row is a decision of its own, say so", "bandit", True)
"""Fix of a log without episodes."""


class MissingColumns:
    """Reports missing columns, and which of the others may be meant.

    ``names`` are the columns that have a role already, and ``observations`` those that are listed.
    """

    def __init__(
        self, schema: Any, names: Collection[str], observations: Sequence[str] | None
    ) -> None:
        self._schema = schema
        taken = {*names, *(observations or ())}
        self._free = [
            name for name in schema.names
            if name not in taken and not re.fullmatch(STANDARD, name)
        ]  # fmt: skip
        self._is_listed = False
        self._missing: Sequence[str] = ()

    def standard(self, roles: Sequence[str], columns: Mapping[str, str]) -> list[Finding]:
        """Return an error for each standard column that is missing."""
        self._missing = roles
        flags = [role for role in FLAGS if role in roles and role not in columns]
        findings = []
        for role in roles:
            if role in flags and self.likely(role) is None:
                continue
            flags = [flag for flag in flags if flag != role]
            findings.append(self._one(role, columns.get(role, role)))
        return [*findings, *([self._flags(flags)] if flags else [])]

    def propensities(self) -> list[Finding]:
        """Return a warning if a column probably has the propensities, but is not mapped."""
        name = self.likely("behavior_prob")
        if name is None:
            return []
        return [Finding("W106", "the log has no propensities.", map_propensities(name))]

    def _one(self, role: str, name: str) -> Finding:
        content = f" ({HINTS[role]})" if role in HINTS else ""
        columns = self._mapping(role, name)
        message = f"column {name!r} is missing.{self._all()}"
        if columns == {role: role}:
            advice = f"Do not map it: {role!r} is there."
            return Finding("E100", f"{message} {advice}")
        if columns is None:
            return Finding("E100", f"{message} Add it{content}.")
        self._free = [column for column in self._free if column not in columns.values()]
        return Finding("E100", message, Fix(f"Add it{content}, or map it", "columns", columns))

    def _mapping(self, role: str, name: str) -> dict[str, str] | None:
        """Return which column to map to a role; a placeholder if several may be meant, or None."""
        fitting = self._fitting(role)
        if name != role and (close := nearest(name, self._free, SIMILAR)):
            return {role: close}
        if likely := likely_column(role, name, fitting):
            return {role: likely}
        if role == "action":
            matches = [re.fullmatch("action_([0-9]+)", name) for name in self._schema.names]
            numbers = sorted(int(match[1]) for match in matches if match)
            if numbers:  # counted from 1
                return {f"action_{k}": f"action_{number}" for k, number in enumerate(numbers)}
            real = self._of_type(pa.types.is_floating)
            likely = likely_column(role, name, real)
            if likely or (real and not fitting):
                return {"action_0": likely or PLACEHOLDER}
        if role == "reward" and (likely := likely_column(role, name, self._of_type(is_text))):
            return {role: likely}
        return {role: PLACEHOLDER} if fitting else None

    def _flags(self, missing: Sequence[str]) -> Finding:
        """Return the error of flags for which no column may be meant."""
        both = len(missing) == 2
        message = (
            "columns 'terminated' and 'truncated' are missing, which tell how episodes end."
            if both
            else f"column {missing[0]!r} is missing ({HINTS[missing[0]]})."
        )
        advice = (
            "If all end in the same way, terminated or truncated" if both
            else "If all other episodes end in this way"
        )  # fmt: skip
        advice = f"Add or map {'them' if both else 'it'}. {advice}"
        return Finding("E100", message + self._all(), Fix(advice, "episodes_end", missing[0]))

    def likely(self, role: str) -> str | None:
        """Return the column without a role that probably has this one."""
        return likely_column(role, role, self._fitting(role))

    def _fitting(self, role: str) -> list[str]:
        """Return the columns without a role that have its type; only steps may be a time."""
        fitting = self._of_type(FITS[role])
        return fitting if role == "step" else [n for n in fitting if not TIMES & words(n)]

    def _of_type(self, fits: Callable[[Any], bool]) -> list[str]:
        """Return the columns without a role that have a type."""
        return [name for name in self._free if fits(self._schema.field(name).type)]

    def observations(self) -> Finding:
        """Return the error of a log without columns that are recognised as observations."""
        message = f"no observation columns found.{self._all()}"
        likely = self._likely_observations()
        if not likely:
            advice = "Name them obs_0, obs_1, …, or phi_0, phi_1, … if they are features."
            return Finding("E100", f"{message} {advice}")
        advice = (
            "Name them obs_0, obs_1, … (phi_0, phi_1, … for features), or list those that were "
            "known before the action"
        )
        return Finding("E100", message, Fix(advice, "observations", listed_columns(likely)))

    def _likely_observations(self) -> list[str]:
        """Return columns of numbers or text that are neither a time nor likely to have a role.

        Without any, a column of lists of numbers.
        """
        left = [name for name in self._schema.names if re.fullmatch("(obs|phi)_[0-9]+", name)]
        if left:
            return left
        left = list(self._free)
        for role in (*self._missing, *OPTIONAL):
            likely = likely_column(role, role, left)
            left = [name for name in left if name != likely]
        return [
            name for name in left
            if (is_number(kind := self._schema.field(name).type) or is_text(kind))
            and not (TIMES | IDS | ({"at"} if is_text(kind) else set())) & words(name)
        ] or [name for name in left if _is_vector(self._schema.field(name).type)][:1]  # fmt: skip

    def listed(self, observations: Sequence[str]) -> list[Finding]:
        """Return an error if some of the columns that are listed as observations are missing."""
        missing = [name for name in observations if name not in self._schema.names]
        if not missing:
            return []
        meant = {name: nearest(name, self._schema.names) for name in missing}
        plural, verb = ("s", "are") if len(missing) > 1 else ("", "is")
        message = f"observation column{plural} {', '.join(map(repr, missing))} {verb} missing."
        right = [meant.get(name, name) for name in observations]
        right = [name for name in dict.fromkeys(right) if name is not None]
        certain = all(meant.values())
        message += "" if certain else self._all()
        advice = f"Leave out {', '.join(repr(name) for name in missing if meant[name] is None)}"
        if certain:
            advice = f"Did you mean {' and '.join(map(repr, meant.values()))}? Write"
        fix = Fix(advice, "observations", right) if right else None
        return [Finding("E100", message, fix)]

    def _all(self) -> str:
        """Return which columns the log has, at most thirty; once is enough."""
        if self._is_listed:
            return ""
        self._is_listed = True
        return f" {list_columns(self._schema.names)}"


def _is_vector(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and is_number(kind.value_type))


def map_propensities(name: str) -> Fix:
    """Return the fix of a log whose propensities are in a column of another name."""
    return Fix("If this column has them, map it", "columns", {"behavior_prob": name})


def likely_unused(role: str, schema: Any, used: Collection[str]) -> str | None:
    """Return a column that is not used, and probably has a role; None if there is none."""
    return MissingColumns(schema, used, None).likely(role)


def list_columns(available: Sequence[str]) -> str:
    """Return which columns the log has, at most thirty; without added ones, in brackets."""
    listed = [name for name in available if not name.startswith("(")]
    return f"The log has {join_names(listed[:30])}{', …' if len(listed) > 30 else '.'}"


def with_bandit_hint(findings: Sequence[Finding]) -> list[Finding]:
    """Return errors about columns; where none may hold the ids of episodes, with another fix.

    How episodes end is then not asked for yet.
    """
    for finding in findings:
        if finding.code == "E100" and finding.message.startswith("column 'episode_id' is missing."):
            likely = finding.fix is not None and finding.fix.value != {"episode_id": PLACEHOLDER}
            if not likely:
                advice = f"Add it ({HINTS['episode_id']}), or map it. {BANDIT.advice}"
                message = finding.message.removesuffix(f" Add it ({HINTS['episode_id']}).")
                hinted = Finding("E100", message, replace(BANDIT, advice=advice))
                return [
                    hinted if one is finding else one
                    for one in findings
                    if one.fix is None or one.fix.parameter != "episodes_end"
                ]
    return list(findings)
