"""One pass over a log: rows looked at, cut into episodes, given their propensities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.diagnostics import Finding
from saddleback.log.named_columns import with_columns
from saddleback.log.policy_query import query_policy
from saddleback.log.row_checks import RowChecks
from saddleback.log.segmentation import Segment, Segmenter
from saddleback.policies import Policy

if TYPE_CHECKING:
    from saddleback.log.log import Log


class LogReader:
    """One pass over a log: rows looked at, cut into episodes, given their propensities."""

    def __init__(self, log: Log) -> None:
        self._log = log
        roles = log.roles
        names = log.action_names
        observed = log.observation_names
        self._task = log.time_limit == "task"
        inspect = partial(RowChecks, roles.names, observed, names, log.propensity, self._task)
        self.inspection = inspect()
        drops = log.drop_bad is not None or log.drop_autoreset
        self._kept = inspect() if drops else None
        self.segmenter = Segmenter(
            log.time_limit, log.drop_bad is not None, log.drop_autoreset, log.segment
        )

    def counts(self, findings: list[Finding]) -> RowChecks:
        """Return the counts of the rows that are used: without those dropped, unless it fails."""
        if self._kept is None or any(each.is_error for each in findings):
            return self.inspection
        return self._kept

    def take(self, rows: DecodedRows) -> Iterator[Segment]:
        """Return the pieces that are complete with the next rows; none once an error was met."""
        if self._log.behaviour is not None:
            rows = self._behave(
                rows, with_columns(self._log.behaviour, self._log.observation_names)
            )
        mu = rows.tables.get("mu")
        if rows.propensity is None and mu is not None:
            taken = mu[np.arange(len(rows)), np.maximum(rows.actions, 0)]
            rows = replace(rows, propensity=taken)
        self.inspection.look(rows)
        if rows.propensity is not None and self._log.min_prob is not None:
            rows = replace(rows, propensity=np.maximum(rows.propensity, self._log.min_prob))
        yield from self._sound(self.segmenter.add(rows))

    def finish(self) -> Iterator[Segment]:
        """Return the last piece."""
        yield from self._sound(self.segmenter.finish())

    def _sound(self, pieces: Iterator[Segment]) -> Iterator[Segment]:
        forgiven = {"E120"} if self._log.drop_bad else set()
        if self._log.min_prob is not None:
            forgiven.add("E101")
        for piece in pieces:
            if not self.inspection.failed(forgiven) and "E132" not in self.segmenter.problems:
                if self._kept is not None:
                    self._kept.look(piece.rows)
                yield piece

    def _behave(self, rows: DecodedRows, policy: Policy) -> DecodedRows:
        """Ask μ of every state, and of those that a truncated row led to."""
        tables, n = dict(rows.tables), self._log.n_actions
        sound = np.flatnonzero(np.isfinite(rows.observations).all(axis=1))
        if len(sound) == len(rows):
            mu = query_policy("behaviour", policy, rows.observations, n)
        else:  # the others are refused, or dropped
            mu = np.full((len(rows), n), 1.0 / n)
            if len(sound):
                mu[sound] = query_policy("behaviour", policy, rows.observations[sound], n)
        tables["mu"] = mu
        if rows.next_observations is not None:
            there = np.flatnonzero(np.isfinite(rows.next_observations).all(axis=1))
            tables["next_mu"] = np.full_like(mu, np.nan)
            if len(there):
                tables["next_mu"][there] = query_policy(
                    "behaviour", policy, rows.next_observations[there], n
                )
        return replace(rows, tables=tables)

    def findings(self) -> list[Finding]:
        """All that is wrong, errors first."""
        found = self.inspection.findings(self._log.min_prob, self.segmenter.dropped)
        found += self.segmenter.findings()
        if self.segmenter.dropped and self.segmenter.dropped == self.inspection.episodes:
            found.append(
                Finding(
                    "E122",
                    f"every episode ({self.segmenter.dropped:,}) holds NaN or infinities, so "
                    "dropping them leaves nothing. Fill the values instead (rewards known only at "
                    "the end: 0 before it).",
                )
            )
        if self._log.drop_autoreset:
            found = [each for each in found if each.code != "W133"]
        if self._task:
            if self.segmenter.truncated and not self.inspection.tells_time:
                found.append(
                    Finding(
                        "W154",
                        'time_limit="task" ends truncated episodes for good, but no entry of the '
                        "observation tells the time: values then are not functions of what is "
                        "observed. Add the remaining time to the observation.",
                    )
                )
        elif not self.segmenter.terminated and self.inspection.rows:
            found.append(
                Finding("W150", "no episode terminated: V depends wholly on bootstrapping.")
            )
        if not self._log.propensity:
            found.append(
                Finding(
                    "W106",
                    "the log holds no propensities: only rules without ratios, such as GES(0) or "
                    "GTB, can be used. Add behavior_prob, or estimate them: "
                    "estimate_behaviour(log).",
                )
            )
        found += self._actions()
        return sorted(dict.fromkeys(found), key=lambda each: (not each.is_error, each.code[1:]))

    def _actions(self) -> list[Finding]:
        """Say how actions were numbered where nobody said, and which are never taken."""
        log, names, taken = self._log, self._log.action_names, self.inspection.taken
        if log.has_action_names or len(names) < 2:
            return []
        found = []
        if log.has_text_actions:
            listed = ", ".join(f"{k} {name}" for k, name in enumerate(names[:9]))
            found.append(
                Finding(
                    "W148",
                    f"actions are taken in alphabetical order: {listed}{', …' * (len(names) > 9)}. "
                    "Probabilities of a policy must be in this order; say another one: "
                    "actions=[…].",
                )
            )
        never = [name for name, count in zip(names, taken, strict=True) if not count]
        if never and not log.has_full_behaviour:
            found.append(
                Finding(
                    "W149",
                    f"action {', '.join(never[:5])} is never taken (actions are numbered from 0): "
                    "is there such an action? Else number them without gaps.",
                )
            )
        return found


class Returns:
    """The mean discounted return of episodes that ended, by a limit too if that is the task's."""

    def __init__(self, gamma: float | None, limited: bool) -> None:
        self._limited = limited
        self._gamma, self._sum, self._count = gamma, 0.0, 0
        self._now = 0.0

    def add(self, piece: Segment) -> None:
        """Take in the next piece."""
        if self._gamma is None:
            return
        rows = piece.rows
        power = self._gamma ** rows.position.astype(np.float64)
        episode = np.cumsum(rows.starts) - (1 if len(rows) and rows.starts[0] else 0)
        each = np.bincount(episode, weights=power * rows.rewards)
        each[0] += self._now
        self._now = 0.0
        last = np.append(np.flatnonzero(rows.starts[1:]), len(rows) - 1)
        over = rows.terminated | rows.truncated if self._limited else rows.terminated
        ended = over[last] & np.append(
            np.ones(len(last) - 1, dtype=bool), not piece.continues_in_next
        )
        if piece.continues_in_next:
            self._now = float(each[-1])
        self._sum += float(each[ended].sum())
        self._count += int(ended.sum())

    @property
    def mean(self) -> float | None:
        """The mean, if there is one."""
        return self._sum / self._count if self._count else None
