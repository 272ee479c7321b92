"""Looking at every row of a log once: what is wrong, and the numbers of its data card."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import numpy as np

from saddleback._typing import BoolArray, FloatArray
from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.diagnostics import SHOWN, Finding, ProblemCounter
from saddleback.log.episode_ids import EpisodeIds
from saddleback.log.messages import MESSAGES
from saddleback.log.propensity_checks import TOLERANCE, PropensityChecks


class RowChecks:
    """Counts what is wrong with rows as they come, and sums up what they hold."""

    def __init__(
        self,
        names: Mapping[str, str],
        observations: tuple[str, ...],
        actions: Sequence[str],
        prob: str,
        clock: bool = False,
    ) -> None:
        self.problems = ProblemCounter()
        self._names, self._observations, self._actions = names, observations, actions
        self.propensities = PropensityChecks(self.problems, names, prob)
        self.rows = self.episodes = 0
        self.taken = np.zeros(len(actions), dtype=np.int64)
        self.reward_sum, self.reward_low, self.reward_high = 0.0, np.inf, -np.inf
        self.rewards = 0
        self.low: FloatArray = np.full(0, np.inf)
        self.high: FloatArray = np.full(0, -np.inf)
        self._ids = EpisodeIds()
        self._zero_starts = self._zero_inside = self._after_end = 0
        self._last_step, self._last_lost = 0, False
        self._was_end = False
        self._follows_clock = clock
        self._last_row: FloatArray | None = None
        self._moved: tuple[FloatArray, FloatArray] | None = None

    def look(self, piece: DecodedRows) -> None:
        """Take the next rows in."""
        self.rows += len(piece)
        begun = np.flatnonzero(piece.starts)
        self.episodes += len(begun)
        self.taken += np.bincount(piece.actions[piece.actions >= 0], minlength=len(self.taken))
        self._odd(piece)
        self._ids.add(piece.ids.take(begun), begun + piece.first)
        self._numbers(piece)
        if self._follows_clock:
            self._clock(piece)
        self._steps(piece)
        if piece.propensity is not None:
            self.propensities.look(piece, piece.propensity)
        for name, table in piece.tables.items():
            self._table(piece, name, table)
        zero = piece.rewards == 0.0
        ended = piece.terminated | piece.truncated
        later = piece.starts & np.append(self._was_end, ended[:-1])
        self._was_end = bool(ended[-1])
        self._after_end += int(later.sum())
        self._zero_starts += int((zero & later).sum())
        self._zero_inside += int((zero & ~later).sum())

    def _odd(self, piece: DecodedRows) -> None:
        """Notice what is empty, and actions that are none."""
        if piece.ids.null_count:
            piece.odd["episode_id"] = piece.ids.is_null().to_numpy(zero_copy_only=False)
        for role in ("episode_id", "step", "terminated", "truncated"):
            if role in piece.odd:
                empty = np.flatnonzero(piece.odd[role])
                places = [(None, piece.first + int(i)) for i in empty[:SHOWN]]
                self.problems.add(("E121", self._names[role], role), len(empty), places)
        wrong = np.flatnonzero(piece.actions < 0)
        if len(wrong):
            names, (value,) = list(self._actions), piece.odd["action"]
            numbers = names == list(map(str, range(len(names))))
            what = f"0 … {len(names) - 1}" if numbers else ", ".join(names)
            asked = [] if numbers or value is None else [str(value)]
            close = [near for each in asked for near in difflib.get_close_matches(each, names, n=1)]
            said = "empty" if value is None else repr(value)
            self.problems.add(
                ("E145", self._names["action"], what), len(wrong), piece.places(wrong),
                (said, *(close or [""])),
            )  # fmt: skip

    def _numbers(self, piece: DecodedRows) -> None:
        if not len(self.low):
            self.low = np.full(len(self._observations), np.inf)
            self.high = np.full(len(self._observations), -np.inf)
        for d, (name, column) in enumerate(
            zip(self._observations, piece.observations.T, strict=True)
        ):
            low, high = self._finite(piece, name, column)
            self.low[d], self.high[d] = min(self.low[d], low), max(self.high[d], high)
        self._following(piece)
        low, high = self._finite(piece, self._names["reward"], piece.rewards)
        self.reward_low, self.reward_high = min(self.reward_low, low), max(self.reward_high, high)
        known = np.isfinite(piece.rewards)
        self.reward_sum += float(piece.rewards.sum(where=known))
        self.rewards += int(known.sum())

    def _finite(self, piece: DecodedRows, name: str, column: FloatArray) -> tuple[float, float]:
        """Return the range of a column, noticing NaN and infinities."""
        low, high = float(column.min()), float(column.max())
        if np.isfinite(low) and np.isfinite(high):
            return low, high
        for what, bad in (("NaN", np.isnan(column)), ("infinite", np.isinf(column))):
            where = np.flatnonzero(bad)
            self.problems.add(("E120", name, what), len(where), piece.places(where))
        good = column[np.isfinite(column)]
        return float(good.min(initial=np.inf)), float(good.max(initial=-np.inf))

    def _following(self, piece: DecodedRows) -> None:
        """Notice next observations of truncated rows that are there in part."""
        if piece.next_observations is None:
            return
        cut = np.flatnonzero(piece.truncated)
        following = piece.next_observations[cut]
        there = np.isfinite(following)
        some = ~there.all(axis=1) & (there.any(axis=1) | np.isinf(following).any(axis=1))
        if some.any():
            column = np.zeros(len(piece))
            for d, name in enumerate(self._observations):
                column[cut[some]] = following[some, d]
                self._finite(piece, f"next_{name}", column)

    def _clock(self, piece: DecodedRows) -> None:
        """Follow how much each entry of the observation moves from step to step."""
        seen = piece.observations
        before = seen[:1] if self._last_row is None else self._last_row
        with np.errstate(invalid="ignore"):
            moved = np.diff(seen, axis=0, prepend=before)[~piece.starts]
        self._last_row = seen[-1:]
        if len(moved):
            low, high = moved.min(axis=0), moved.max(axis=0)
            if self._moved is not None:
                low, high = np.minimum(low, self._moved[0]), np.maximum(high, self._moved[1])
            self._moved = (low, high)

    @property
    def tells_time(self) -> bool:
        """Whether an entry of the observation moves by the same amount in every step."""
        if self._moved is None:
            return True
        low, high = self._moved
        return bool(((high - low <= 1e-6 * np.abs(high)) & (high != 0)).any())

    def _steps(self, piece: DecodedRows) -> None:
        if piece.step is None:
            return
        known = ~piece.odd["step"] if "step" in piece.odd else np.ones(len(piece), dtype=np.bool_)
        begins = piece.starts & known
        if "episode_id" in piece.odd or self._last_lost:  # where it began is not known
            lost = piece.odd.get("episode_id", np.zeros(len(piece), dtype=np.bool_))
            begins &= ~lost & ~np.append(self._last_lost, lost[:-1])
            self._last_lost = bool(lost[-1])
        wrong = np.flatnonzero(begins & (piece.step != 0))
        for i in wrong[:1]:
            episode, step = piece.ids[int(i)].as_py(), int(piece.step[i])
            late = (str(episode), str(step))
            self.problems.add(("E134",), len(wrong), piece.places(wrong), late)
        before = np.append(self._last_step, piece.step[:-1])
        both = known & np.append(True, known[:-1]) & (before >= 0)
        jumps = np.flatnonzero(~piece.starts & both & (piece.step != before + 1))
        for i in jumps[:1]:
            episode = piece.ids[int(i)].as_py()
            details = (str(episode), str(before[i]), str(piece.step[i]))
            self.problems.add(("E130",), len(jumps), piece.places(jumps), details)
        self._last_step = int(piece.step[-1]) if known[-1] else -1

    def _table(self, piece: DecodedRows, name: str, table: FloatArray) -> None:
        total = table @ np.ones(table.shape[1])
        if table.min() >= 0 and np.abs(total - 1.0).max() <= TOLERANCE:
            return
        off = ~(np.abs(total - 1.0) <= TOLERANCE) | (table < 0).any(axis=1)
        if name.startswith("next_"):
            off &= ~np.isnan(table).all(axis=1)
        wrong = np.flatnonzero(off)
        for i in wrong[:1]:
            what = (
                "is NaN" if np.isnan(total[i])
                else f"holds {table[i].min():.6g}" if table[i].min() < 0
                else f"sums to {total[i]:.6g}"
            )  # fmt: skip
            self.problems.add(("E104", name), len(wrong), piece.places(wrong), (what,))

    def failed(self, forgiven: set[str]) -> bool:
        """Whether an error has been found, so that nothing need be computed any more."""
        if self.propensities.failed("E101" in forgiven):
            return True
        return any(code in self.problems for code in MESSAGES if code not in forgiven)

    def findings(self, min_prob: float | None, dropped: int) -> list[Finding]:
        """Say all that is wrong, once every row was looked at."""
        self.propensities.finalise(min_prob)
        found = self.problems.findings(MESSAGES)
        if dropped:
            found = [each for each in found if each.code != "E120"]
            plural = "" if dropped == 1 else "s"
            what = f"{dropped:,} episode{plural} with NaN or infinities dropped."
            found.append(Finding("W121", what))
        found += self._ids.find_split_episodes(self.rows)
        if self._after_end >= 2 and not self._zero_inside and self._zero_starts == self._after_end:
            found.append(autoreset())
        return found + self.propensities.findings(self.rows, len(self._actions))


def autoreset() -> Finding:
    """Say that an environment's reset was logged as a step."""
    return Finding(
        "W133",
        "1 zero-reward row after every episode end: looks like Gymnasium NEXT_STEP autoreset; "
        "pass drop_autoreset=True.",
    )


def finite_rows(piece: DecodedRows) -> BoolArray:
    """Return which rows hold finite numbers only, and no part of a next observation."""
    good = np.isfinite(piece.rewards) & np.isfinite(piece.observations).all(axis=1)
    if piece.next_observations is not None:
        last = np.flatnonzero(piece.truncated)
        following = piece.next_observations[last]
        there = np.isfinite(following)
        whole = there.all(axis=1) | np.isnan(following).all(axis=1)
        good[last] &= whole
    return good
