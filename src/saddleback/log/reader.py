"""One validated pass over a log: check rows, fill in propensities, split into segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from saddleback._display import join_names
from saddleback._progress import Progress
from saddleback._typing import FloatArray, IntArray
from saddleback.errors import Fix
from saddleback.log.action_names import listed
from saddleback.log.altered_rows import AlteredRows
from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.categories import are_numbers
from saddleback.log.column_types import FLAGS
from saddleback.log.diagnostics import Finding
from saddleback.log.fixes import Fixes
from saddleback.log.named_columns import with_columns
from saddleback.log.policy_query import check_policy_rows, query_policy
from saddleback.log.propensity_models import CrossFittedPolicy, row_ids
from saddleback.log.row_checks import RowChecks
from saddleback.log.segmentation import Segment, Segmenter
from saddleback.log.similar_names import similar_name_findings
from saddleback.log.summary import LogSummary, undiscounted_error
from saddleback.policies import Policy

if TYPE_CHECKING:
    from saddleback.log.log import Log


class LogReader:
    """One validated pass over a log: checks rows, fills in propensities, splits into segments.

    With ``keep``, the segments stay in memory, and can be iterated again.
    """

    def __init__(self, log: Log, tables: Sequence[str] = (), *, keep: bool = False) -> None:
        self._log, self.tables = log, frozenset(tables)
        self._kept: list[Segment] | None = None
        self._keep, self._clipped, self._filled, self._estimated = keep, 0, 0, 0
        self._task = log.time_limit == "task"
        self.checks, self.segmenter = RowChecks(log), Segmenter(log)
        self._used = RowChecks(log) if self.segmenter.drops else None

    def segments(self, progress: Progress | None = None) -> Iterator[Segment]:
        """Return the segments of the log; from memory if they were kept."""
        if self._kept is not None:
            done = 0
            for segment in self._kept:
                yield segment
                done += len(segment.rows)
                if progress is not None:
                    progress(min(1.0, done / self._log.rows))
            return
        kept: list[Segment] = []
        for segment in self._read(progress):
            if self._keep:
                kept.append(segment)
            yield segment
        self._kept = kept if self._keep else None

    def _read(self, progress: Progress | None) -> Iterator[Segment]:
        """Decode, check and split the rows of all sources."""
        log = self._log
        names = dict.fromkeys(("action" if log.roles.actions else "mu", *sorted(self.tables)))
        tables = [table for name in names for table in (name, f"next_{name}")]
        decode = log.decoder(tables)
        columns = [
            *log.roles.names.values(), *log.roles.observations, *log.roles.next_observations,
            *(column for table in tables for column in log.roles.tables.get(table, ())),
        ]  # fmt: skip
        done = 0
        for source in log.sources:
            for batch in source.batches(list(dict.fromkeys(columns))):
                if batch.num_rows:
                    yield from self._add(decode(batch))
                    done += batch.num_rows
                    if progress is not None:
                        progress(done / log.rows)
        yield from self._until_error(self.segmenter.finish())

    @property
    def altered(self) -> AlteredRows:
        """What was dropped, cut or clipped, after the last segment."""
        split = self.segmenter
        return AlteredRows(
            rows=self.checks.n_rows, episodes=self.checks.n_episodes,
            terminated=split.terminated if self._log.episodes_end is None else split.logged_ends,
            stops=split.stops, lost=split.lost, bad_episodes=split.bad_episodes,
            bad_rows=split.bad_rows, reset_rows=split.reset_rows, clipped=self._clipped,
            outlying=self.checks.outlying_rows, filled=self._filled, marked=split.marked,
            estimated=self._estimated,
        )  # fmt: skip

    def episode_id(self, number: int) -> Any:
        """Return the id of an episode that is used, by its number."""
        return (self._used or self.checks).ids[number]

    def summary(self, gamma: float | None, mean_return: float | None) -> LogSummary:
        """Return the summary of the log after the last segment."""
        log, split, used = self._log, self.segmenter, self._used or self.checks
        findings = self.findings()
        if any(finding.is_error for finding in findings):
            used = self.checks  # of all rows
        ended = split.terminated + (split.truncated if self._task else 0)
        not_ended = split.terminated + split.truncated + split.stops - ended
        if gamma == 1.0 and not_ended > 0:
            findings = [undiscounted_error(not_ended / (ended + not_ended), split), *findings]
        low, median = used.propensities.low, used.propensities.median
        mean = used.reward_sum / max(1, used.n_rewards)
        ranges = zip(log.roles.actions, used.action_range, strict=True)
        return LogSummary(
            rows=used.n_rows, episodes=used.n_episodes, terminated=split.terminated,
            truncated=split.truncated, stops=split.stops, with_next=split.with_next,
            lost=split.lost, reward=(used.reward_low, mean, used.reward_high), low=used.low,
            high=used.high, propensity=None if median is None else (low, median),
            mean_return=mean_return, actions=log.action_names,
            taken=tuple(used.action_counts.tolist()), estimated=log.estimated,
            findings=tuple(findings), calibration=tuple(log.calibration), altered=self.altered,
            time_limit_steps=split.time_limit_steps,
            action_range=tuple((name, *ends) for name, ends in ranges),
        )  # fmt: skip

    def _add(self, rows: DecodedRows) -> Iterator[Segment]:
        """Return the segments that the next rows complete; none after an error."""
        if self._log.fill_reward is not None:
            missing = np.isnan(rows.rewards)
            self._filled += int(missing.sum())
            rows = replace(rows, rewards=np.where(missing, self._log.fill_reward, rows.rewards))
        if self._log.episodes_end is not None:
            for flag in FLAGS:  # a missing flag is none
                rows.invalid.pop(flag, None)
        if self._log.behaviour is not None:
            rows = self._add_behaviour(rows, self._log.behaviour)
            if self._log.estimated is not None and rows.propensity is not None:
                rows = self._estimate_missing(rows, rows.propensity)
        mu = rows.tables.get("mu")
        if rows.propensity is None and mu is not None:
            propensity = mu[np.arange(len(rows)), np.maximum(rows.actions, 0)]
            rows = replace(rows, propensity=propensity)
        self.checks.add(rows)
        if rows.propensity is not None and self._log.min_prob is not None:
            self._clipped += int((rows.propensity < self._log.min_prob).sum())
            rows = replace(rows, propensity=np.maximum(rows.propensity, self._log.min_prob))
        yield from self._until_error(self.segmenter.add(rows))

    def _until_error(self, segments: Iterator[Segment]) -> Iterator[Segment]:
        tolerated = {"E120"} if self._log.drop_bad else set()
        if self._log.min_prob is not None:
            tolerated.add("E101")
        for segment in segments:
            if not self.checks.failed(tolerated) and "E132" not in self.segmenter.problems.codes:
                if self._used is not None:
                    self._used.add(segment.rows)
                yield segment

    def _add_behaviour(self, rows: DecodedRows, policy: Policy) -> DecodedRows:
        """Query μ in every state, and in those that truncated rows led to."""
        tables, n_actions = dict(rows.tables), self._log.n_actions
        finite = np.flatnonzero(np.isfinite(rows.observations).all(axis=1))
        if isinstance(policy, CrossFittedPolicy):
            ids, estimate = row_ids(rows.ids, rows.starts), policy.of_episodes

            def query(states: FloatArray, which: IntArray) -> FloatArray:
                return estimate(states[which], ids[which])
        else:
            policy = with_columns(policy, self._log.observation_names)
            if not self.checks.n_rows:
                check_policy_rows("behaviour", policy, rows.observations[finite], n_actions)

            def query(states: FloatArray, which: IntArray) -> FloatArray:
                states = states if len(which) == len(states) else states[which]
                return query_policy("behaviour", policy, states, n_actions)

        # Rows that are not finite are an error, or dropped.
        tables["mu"] = np.full((len(rows), n_actions), 1.0 / n_actions)
        if len(finite):
            tables["mu"][finite] = query(rows.observations, finite)
        if rows.next_observations is not None:
            finite = np.flatnonzero(np.isfinite(rows.next_observations).all(axis=1))
            tables["next_mu"] = np.full_like(tables["mu"], np.nan)
            if len(finite):
                tables["next_mu"][finite] = query(rows.next_observations, finite)
        return replace(rows, tables=tables)

    def _estimate_missing(self, rows: DecodedRows, logged: FloatArray) -> DecodedRows:
        """Use the estimated μ only where no propensity was logged.

        Elsewhere the logged action keeps its propensity p, and the other actions share the rest,
        (1 − p) μ̂(a|s) / (1 − μ̂(A|s)).
        """
        mu, index, actions = rows.tables["mu"].copy(), np.arange(len(rows)), rows.actions.clip(0)
        missing = np.isnan(logged)
        self._estimated += int(missing.sum())
        taken = mu[index, actions]
        propensity = np.where(missing, taken, logged)
        rest = 1.0 - taken
        share = np.divide(1.0 - propensity, rest, out=np.zeros_like(rest), where=rest > 0)
        mu *= share[:, None]
        certain = np.flatnonzero(rest <= 0)
        mu[certain] = ((1.0 - propensity[certain]) / max(1, mu.shape[1] - 1))[:, None]
        mu[index, actions] = propensity
        return replace(rows, propensity=propensity, tables={**rows.tables, "mu": mu})

    def findings(self) -> list[Finding]:
        """Return all findings, errors first."""
        dropped = self.segmenter.bad_episodes
        findings = self.checks.findings(self._log.min_prob, dropped)
        findings += self.segmenter.findings()
        fixes = Fixes(self._log, self.checks)
        findings = fixes.applied(findings)
        if self.segmenter.stops and self._log.episodes_end is None:
            lacking = [role for role in FLAGS if role not in self._log.roles.names]
            findings += fixes.missing_flags(lacking)
        if dropped and dropped == self.checks.n_episodes:
            findings.append(
                Finding(
                    "E122",
                    f"every episode ({dropped:,}) contains NaN or infinities, so dropping them "
                    "leaves nothing.",
                    Fix("Rewards that are known only at the end are 0 before it", "fill_reward", 0)
                    if self.checks.only_final_rewards
                    else fixes.without_incomplete(),
                )
            )
        if self._log.bandit and any(finding.code == "E132" for finding in findings):
            findings = [finding for finding in findings if finding.code != "E132"]
            findings.append(
                Finding(
                    "E135",
                    "each row is to be a decision of its own, but some episodes have several rows "
                    f"with the same {self._log.roles.names['episode_id']!r}.",
                    Fix("Remove that column, or read the log as episodes", "bandit", False),
                )
            )
        if self._log.drop_autoreset:
            findings = [finding for finding in findings if finding.code != "W133"]
        if self._task:
            if self.segmenter.truncated and not self.checks.has_clock:
                findings.append(
                    Finding(
                        "W154",
                        "truncation is taken as the end of the task, but the observation does not "
                        "include the time: only the marginal estimate of "
                        "that many steps accounts for it. For others, add the remaining time.",
                    )
                )
        elif not self.segmenter.terminated and self.checks.n_rows:
            findings.append(
                Finding("W150", "no episode terminated: values depend entirely on bootstrapping.")
            )
        if not self._log.propensity and self._log.has_continuous_actions:
            message = (
                "the log has no densities of its actions, behavior_prob: there are no "
                "importance-weighted estimates to compare with."
            )
            findings.append(Finding("W106", message))
        elif not self._log.propensity and self._log.bandit:
            message = "the log has no propensities: only DM and Marginal DR need none."
            findings.append(Finding("W106", message, fixes.missing_propensities()))
        elif not self._log.propensity:
            message = (
                "the log has no propensities: only rules without importance ratios, such as "
                "GES(0) or GTB, can be used."
            )
            findings.append(Finding("W106", message, fixes.missing_propensities()))
        findings += self._action_findings()
        findings += [
            Finding("W157", f"observation column {name!r} is encoded as {_listed(name, values)}.")
            for name, values in self._log.categories.items()
        ]
        findings += similar_name_findings(self._log)
        findings += self.checks.codes.findings(list(self._log.categories))
        findings += [finding for source in self._log.sources for finding in source.warnings()]
        return sorted(
            dict.fromkeys(findings), key=lambda finding: (not finding.is_error, finding.code[1:])
        )

    def _action_findings(self) -> list[Finding]:
        """Return warnings about the order of unnamed actions, and about actions never taken."""
        log, names = self._log, self._log.action_names
        if log.has_action_names or len(names) < 2:
            return []
        findings = []
        if log.has_text_actions and list(names) != list(map(str, range(len(names)))):
            sorting = "numbers" if are_numbers(names) else "text"
            order = ", ".join(f"{k}={name!r}" for k, name in enumerate(names[:9]))
            findings.append(
                Finding(
                    "W148",
                    f"actions are sorted as {sorting}: {order}{', …' * (len(names) > 9)}. "
                    "Policies must return probabilities in this order.",
                    Fix("For another order, list them in it", "actions", listed(names)),
                )
            )
        counts = list(zip(names, self.checks.action_counts, strict=True))
        never = [name for name, count in counts if not count]
        if never and (log.estimated or not log.has_full_behaviour):
            taken = [name for name, count in counts if count]
            findings.append(
                Finding(
                    "W149",
                    f"no row has action {join_names(never[:5])}{', …' * (len(never) > 5)} (actions "
                    "are numbered from 0).",
                    Fix("If there are no others, list those there are", "actions", listed(taken)),
                )
            )
        return findings


def _listed(name: str, values: Sequence[str]) -> str:
    """Return the entries that a categorical column becomes, as text."""
    shown = values
    if len(values) > 9:  # texts among numbers must be seen
        shown = sorted(values, key=lambda value: are_numbers([value]))
    entries = join_names(f"{name}={value}" for value in shown[:9])
    return f"{len(values)} entries, 1 or 0: {entries}{', …' * (len(values) > 9)}"
