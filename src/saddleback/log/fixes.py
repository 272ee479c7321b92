"""The fixes of errors in rows, chosen for a log: the option that helps, with its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from saddleback._registry import nearest
from saddleback.errors import ESTIMATE_PROPENSITIES, Fix
from saddleback.log.categories import sorted_names
from saddleback.log.diagnostics import Finding
from saddleback.log.likely_columns import (
    MAX_LISTED,
    PLACEHOLDER,
    listed_columns,
    order_column,
)
from saddleback.log.missing_columns import MissingColumns, likely_unused, map_propensities
from saddleback.log.row_checks import RowChecks
from saddleback.log.sorted_rows import SortedSource

if TYPE_CHECKING:
    from saddleback.log.log import Log

WITHOUT_DENSITIES = Fix(
    "Correct them, or use estimates that need no densities",
    "ignore_propensities", True, "Log(…, ignore_propensities=True)",
)  # fmt: skip
"""Fix of densities that are not valid; they are not estimated."""

ESTIMATE_ALL = replace(ESTIMATE_PROPENSITIES, advice="Replace all of them by estimates")
"""Fix of propensities of which none is positive."""


class Fixes:
    """Chooses the fixes of a log's errors, after its last row."""

    def __init__(self, log: Log, checks: RowChecks) -> None:
        self._log, self._checks = log, checks
        source = log.sources[0]  # with all columns, not only those that were sorted
        self._schema = (source.parts[0] if isinstance(source, SortedSource) else source).schema
        self._step = log.roles.names.get("step")
        self._time = order_column(self._schema, without=self._step)

    def applied(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings with the fixes of this log; rows out of order are one of them."""
        findings = self._one_hint_to_sort(findings)
        chosen = {
            "E101": self._smallest_propensity, "E102": self._propensities, "E104": self._densities,
            "E120": self._missing_values, "E121": self._incomplete_column, "E130": self._sort,
            "E131": self._split_episodes, "E132": self._early_flag, "E134": self._sort,
            "E145": self._unknown_action,
        }  # fmt: skip
        return [
            chosen[finding.code](finding) if finding.code in chosen else finding
            for finding in findings
        ]

    def _one_hint_to_sort(self, findings: Sequence[Finding]) -> list[Finding]:
        """Leave out what sorting the rows will settle, if they are not in order."""
        codes = {finding.code for finding in findings}
        settled: set[str] = set()
        if "E131" in codes and self._checks.misses_ids:
            settled = {"E131"}  # a row without an id splits an episode
        elif "E131" in codes and (self._step is None or codes & {"E130", "E134"}):
            settled = {"E130", "E132", "E134"} if self._can_sort else set()
        elif "E130" in codes:
            settled = {"E134", *(["E132"] if self._checks.goes_back else [])}
        return [finding for finding in findings if finding.code not in settled]

    @property
    def _can_sort(self) -> bool:
        return (self._step or self._time) is not None

    def _sort(self, finding: Finding) -> Finding:
        assert finding.fix is not None
        return replace(finding, fix=replace(finding.fix, value=self._step or self._time))

    def _split_episodes(self, finding: Finding) -> Finding:
        """Return the error of an episode in two blocks: not sorted, or an id that is used twice."""
        if self._step is not None and not self._checks.problems.codes & {"E130", "E134"}:
            advice = (
                "Each begins at step 0: give different episodes different ids, or remove the copy."
            )
            return _without_fix(finding, advice)
        if not self._can_sort:
            advice = "Give different episodes different ids, or add a time to sort the rows by"
            if set(self._schema.names) <= {*self._log.roles.all_columns}:
                return _without_fix(finding, f"{advice}.")
            advice = "Give different episodes different ids, or sort the rows by a time"
            return replace(finding, fix=Fix(advice, "order_by", PLACEHOLDER))
        return self._sort(finding)

    def _smallest_propensity(self, finding: Finding) -> Finding:
        assert finding.fix is not None
        if self._checks.propensities.exceeds_one:  # clipping from below is no help
            return replace(finding, fix=None)
        value = self._checks.propensities.suggested_min_prob
        if value is None:
            return self._densities(replace(finding, fix=ESTIMATE_ALL))
        return replace(finding, fix=replace(finding.fix, value=value))

    def _propensities(self, finding: Finding) -> Finding:
        if finding.fix is not None and finding.fix.parameter == "columns":
            name = self._log.roles.names["behavior_prob"]
            return replace(finding, fix=replace(finding.fix, value={"behavior_logp": name}))
        return self._densities(finding)

    def _densities(self, finding: Finding) -> Finding:
        """Densities are not estimated."""
        fix = finding.fix
        if fix is None or fix.parameter != "estimate_behaviour":
            return finding
        return replace(finding, fix=WITHOUT_DENSITIES) if self._log.roles.actions else finding

    def _missing_values(self, finding: Finding) -> Finding:
        """Dropping episodes is no help where most of them would go."""
        checks, roles = self._checks, self._log.roles
        reward = roles.names["reward"]
        of_reward = finding.message.startswith(f"{reward} is NaN in ")
        bad = checks.n_bad_episodes if of_reward else checks.n_bad_with_rewards
        few = 2 * bad <= checks.n_episodes
        if self._log.bandit and finding.fix is not None and finding.fix.parameter == "drop_bad":
            advice = "Fill in the value, or drop such rows"
            return replace(finding, fix=replace(finding.fix, advice=advice))
        if few or finding.fix is None or finding.fix.parameter != "drop_bad":
            return finding
        which = "The only episode has" if checks.n_episodes == 1 else "Most episodes have"
        message = f"{finding.message} {which} such rows."
        if of_reward:
            fix = Fix("If no reward was due there, fill in 0", "fill_reward", 0)
            return Finding("E120", message, fix)
        if finding.message.startswith((f"{reward} is infinite in ", f"{reward} is larger than ")):
            return Finding("E120", f"{message} Correct the log.")
        if (fix_without := self.without_incomplete()) is not None:
            return Finding("E120", message, fix_without)
        return Finding("E120", f"{message} Fill in the values.")

    def without_incomplete(self) -> Fix | None:
        """Return the fix that lists only observations that all rows have."""
        roles = self._log.roles
        complete = [
            name for name in roles.observations
            if not any(
                bad in (name, f"next_{name}") or bad.startswith(f"{name}=")
                for bad in self._checks.incomplete
            )
        ]  # fmt: skip
        if roles.as_list or not complete:
            return None
        advice = "Fill them in, or list only observations that have values"
        return Fix(advice, "observations", listed_columns(complete))

    def missing_flags(self, lacking: Sequence[str]) -> list[Finding]:
        """Return the errors of a log without columns that say how some of its episodes ended."""
        columns = MissingColumns(self._schema, self._log.roles.all_columns, None)
        return columns.standard(lacking, {})

    def missing_propensities(self) -> Fix:
        """Return the fix of a log without propensities: a column that has them, or estimates."""
        log = self._log
        likely = likely_unused("behavior_prob", self._schema, log.roles.all_columns)
        if likely is None or log.ignore_propensities:
            return ESTIMATE_PROPENSITIES
        return map_propensities(likely)

    def _incomplete_column(self, finding: Finding) -> Finding:
        fix = finding.fix
        if fix is None or fix.parameter == "episodes_end":
            return finding
        if fix.parameter == "order_by":
            return replace(
                finding, fix=None if self._time is None else replace(fix, value=self._time)
            )
        other = likely_unused("episode_id", self._schema, self._log.roles.all_columns)
        if other is None:
            return _without_fix(finding, "Fill it in.")
        return replace(finding, fix=replace(fix, value={"episode_id": other}))

    def _early_flag(self, finding: Finding) -> Finding:
        fix, log = finding.fix, self._log
        if fix is None or fix.parameter != "columns":
            return finding
        (flag,) = fix.value
        other = likely_unused(flag, self._schema, log.roles.all_columns)
        if other is not None:
            return replace(finding, fix=replace(fix, value={flag: other}))
        if self._time is not None and self._step is None and log.order_by is None:
            fix = Fix("If the rows are not in order, sort them", "order_by", self._time)
            return replace(finding, fix=fix)
        return replace(finding, fix=None)

    def _unknown_action(self, finding: Finding) -> Finding:
        log, unknown = self._log, self._checks.unknown_actions
        if None in unknown:
            return _without_fix(finding, "Fill it in, or remove these rows.")
        fix = finding.fix
        if {"mu", "pi"} & set(log.roles.tables) or fix is None:
            return _without_fix(finding, "Correct the log.")
        names = self._logged_names(list(map(str, unknown)))
        if len(names) > MAX_LISTED:
            new = f"{', '.join(map(repr, list(unknown)[:5]))}{', …' * (len(unknown) > 5)}"
            advice = f"Correct the log, or list all actions, {new} among them"
            return replace(finding, fix=replace(fix, advice=advice))
        fix = replace(fix, value=listed_columns(names))
        if {*log.action_names} <= {*names}:
            return replace(finding, fix=fix)
        fix = replace(fix, advice="List the actions of the log")  # not the log is wrong
        message = finding.message.partition(" Did you mean ")[0]
        return replace(finding, message=message, fix=fix)

    def _logged_names(self, unknown: Sequence[str]) -> list[str]:
        """Return the names of the actions with unknown ones in place of near ones never taken."""
        if not self._log.has_action_names:
            return list(sorted_names([*self._log.action_names, *unknown]))
        counts = zip(self._log.action_names, self._checks.action_counts, strict=True)
        never = [name for name, count in counts if not count]
        names = list(self._log.action_names)
        if len(never) == len(names):
            return list(sorted_names(unknown))
        for action in unknown:
            close = nearest(action, never)
            if close is None:
                names.append(action)
            else:
                names[names.index(close)] = action
                never.remove(close)
        return names


def _without_fix(finding: Finding, advice: str) -> Finding:
    """Return an error that no option helps, with what to do instead."""
    return replace(finding, message=f"{finding.message} {advice}", fix=None)
