"""Looking at every row of a log once: what is wrong, and the numbers of its data card."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._typing import BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.log.decode import Rows
from saddleback.log.findings import SHOWN, Finding, Tally, rows
from saddleback.log.words import WORDS

TOLERANCE = 1e-6
"""How far a row of probabilities may sum from 1."""

BINS = 10_000
"""Bins of the histogram of propensities, for their median."""

AGREE = 1e-6
"""How near a propensity must be to μ of the action to count as the same."""


class Inspection:
    """Counts what is wrong with rows as they come, and sums up what they hold."""

    def __init__(
        self,
        names: Mapping[str, str],
        observations: tuple[str, ...],
        actions: Sequence[str],
        prob: str,
        clock: bool = False,
    ) -> None:
        self.tally = Tally()
        self._names, self._observations, self._actions = names, observations, actions
        self._prob = {
            "mu": "mu of the action taken",
            names.get("behavior_logp"): f"exp({names.get('behavior_logp')})",
        }.get(prob, prob)
        self.rows = self.episodes = 0
        self.reward_sum, self.reward_low, self.reward_high = 0.0, np.inf, -np.inf
        self.low: FloatArray = np.full(0, np.inf)
        self.high: FloatArray = np.full(0, -np.inf)
        self.prob_low, self.prob_high = np.inf, -np.inf
        self.histogram = np.zeros(BINS + 1, dtype=np.int64)
        self._below_zero: list[Any] = []
        self._zero: list[Any] = []
        self._ids: list[OffsetArray] = []
        self._firsts: list[IntArray] = []
        self._names_of: list[Any] = []
        self._agree, self._compared = np.zeros(3), 0
        self._zero_starts = self._zero_inside = self._after_end = 0
        self._last_step, self._last_lost = 0, False
        self._was_end = False
        self._follows_clock = clock
        self._last_row: FloatArray | None = None
        self._moved: tuple[FloatArray, FloatArray] | None = None

    def look(self, piece: Rows) -> None:
        """Take the next rows in."""
        self.rows += len(piece)
        begun = np.flatnonzero(piece.starts)
        self.episodes += len(begun)
        self._odd(piece)
        ids = piece.ids.take(begun)
        self._ids.append(hash_ids(ids))
        self._names_of.append(ids)
        self._firsts.append(begun + piece.first)
        self._numbers(piece)
        if self._follows_clock:
            self._clock(piece)
        self._steps(piece)
        if piece.propensity is not None:
            self._propensity(piece, piece.propensity)
        for name, table in piece.tables.items():
            self._table(piece, name, table)
        zero = piece.rewards == 0.0
        ended = piece.terminated | piece.truncated
        later = piece.starts & np.append(self._was_end, ended[:-1])
        self._was_end = bool(ended[-1])
        self._after_end += int(later.sum())
        self._zero_starts += int((zero & later).sum())
        self._zero_inside += int((zero & ~later).sum())

    def _odd(self, piece: Rows) -> None:
        """Notice what is empty, and actions that are none."""
        if piece.ids.null_count:
            piece.odd["episode_id"] = piece.ids.is_null().to_numpy(zero_copy_only=False)
        for role in ("episode_id", "step", "terminated", "truncated"):
            if role in piece.odd:
                empty = np.flatnonzero(piece.odd[role])
                places = [(None, piece.first + int(i)) for i in empty[:SHOWN]]
                self.tally.add(("E121", self._names[role], role), len(empty), places)
        wrong = np.flatnonzero(piece.actions < 0)
        if len(wrong):
            names, (value,) = list(self._actions), piece.odd["action"]
            numbers = names == list(map(str, range(len(names))))
            what = f"0 … {len(names) - 1}" if numbers else ", ".join(names)
            close = [] if numbers else difflib.get_close_matches(str(value), names, n=1)
            said = "empty" if value is None else repr(value)
            self.tally.add(
                ("E145", self._names["action"], what), len(wrong), piece.places(wrong),
                (said, *(close or [""])),
            )  # fmt: skip

    def _numbers(self, piece: Rows) -> None:
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
        self.reward_sum += float(piece.rewards.sum(where=np.isfinite(piece.rewards)))

    def _finite(self, piece: Rows, name: str, column: FloatArray) -> tuple[float, float]:
        """Return the range of a column, noticing NaN and infinities."""
        low, high = float(column.min()), float(column.max())
        if np.isfinite(low) and np.isfinite(high):
            return low, high
        for what, bad in (("NaN", np.isnan(column)), ("infinite", np.isinf(column))):
            where = np.flatnonzero(bad)
            self.tally.add(("E120", name, what), len(where), piece.places(where))
        good = column[np.isfinite(column)]
        return float(good.min(initial=np.inf)), float(good.max(initial=-np.inf))

    def _following(self, piece: Rows) -> None:
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

    def _clock(self, piece: Rows) -> None:
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

    def _steps(self, piece: Rows) -> None:
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
            self.tally.add(("E134",), len(wrong), piece.places(wrong), late)
        before = np.append(self._last_step, piece.step[:-1])
        both = known & np.append(True, known[:-1]) & (before >= 0)
        jumps = np.flatnonzero(~piece.starts & both & (piece.step != before + 1))
        for i in jumps[:1]:
            episode = piece.ids[int(i)].as_py()
            details = (str(episode), str(before[i]), str(piece.step[i]))
            self.tally.add(("E130",), len(jumps), piece.places(jumps), details)
        self._last_step = int(piece.step[-1]) if known[-1] else -1

    def _propensity(self, piece: Rows, prob: FloatArray) -> None:
        low, high = float(np.min(prob)), float(np.max(prob))
        if np.isnan(low):
            where = np.flatnonzero(np.isnan(prob))
            self.tally.add(("E102", self._prob, "NaN"), len(where), piece.places(where))
            low = float(np.nanmin(prob, initial=np.inf))
            high = float(np.nanmax(prob, initial=-np.inf))
        self.prob_low, self.prob_high = min(self.prob_low, low), max(self.prob_high, high)
        if high > 1.0 + TOLERANCE:
            where = np.flatnonzero(prob > 1.0 + TOLERANCE)
            self.tally.add(("E102", self._prob, "> 1"), len(where), piece.places(where))
        if low < 0.0:
            where = np.flatnonzero(prob < 0)
            self._below_zero.append((len(where), piece.places(where)))
        if low <= 0.0:
            where = np.flatnonzero(prob == 0)
            self._zero.append((len(where), piece.places(where)))
        inside = prob[(prob > 0) & (prob <= 1)]
        self.histogram += np.bincount((inside * BINS).astype(np.int64), minlength=BINS + 1)
        mu = piece.tables.get("mu")
        if mu is not None and len(piece) > 1:
            own = mu[np.arange(len(piece)), np.maximum(piece.actions, 0)]
            inner = ~piece.starts[1:]
            self._compared += int(inner.sum())
            for k, (mine, theirs) in enumerate(
                ((prob[1:], own[1:]), (prob[1:], own[:-1]), (prob[:-1], own[1:]))
            ):
                self._agree[k] += int((np.abs(mine - theirs)[inner] <= AGREE).sum())

    def _table(self, piece: Rows, name: str, table: FloatArray) -> None:
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
            self.tally.add(("E104", name), len(wrong), piece.places(wrong), (what,))

    def failed(self, forgiven: set[str]) -> bool:
        """Whether an error has been found, so that nothing need be computed any more."""
        if self._below_zero or (self._zero and "E101" not in forgiven):
            return True
        return any(code in self.tally for code in WORDS if code not in forgiven)

    def findings(self, min_prob: float | None, dropped: int) -> list[Finding]:
        """Say all that is wrong, once every row was looked at."""
        found = []
        if self._below_zero:
            kind = "log" if self.prob_high <= 0.0 else "< 0"
            for count, places in self._below_zero:
                self.tally.add(("E102", self._prob, kind), count, places)
        if self._zero and min_prob is None and not (self._below_zero and self.prob_high <= 0.0):
            for count, places in self._zero:
                self.tally.add(("E101", self._prob), count, places)
        found += self.tally.findings(WORDS)
        if dropped:
            found = [each for each in found if each.code != "E120"]
            plural = "" if dropped == 1 else "s"
            what = f"{dropped:,} episode{plural} with NaN or infinities dropped."
            found.append(Finding("W121", what))
        found += self._twice()
        low, high = self.prob_low, self.prob_high
        if self.rows > 1 and low == high and 0 < low <= 1:
            certain = "a deterministic log cannot support pi unless pi = mu"
            same = f"{certain if low == 1 else 'is it really the same for every row'}"
            found.append(
                Finding(
                    "W103",
                    f"{self._prob} is {low} on every row: {same}{'' if low == 1 else '?'}",
                )
            )
        if self._after_end >= 2 and not self._zero_inside and self._zero_starts == self._after_end:
            found.append(autoreset())
        return found + self._shifted()

    def _twice(self) -> list[Finding]:
        """Episodes that come in two separate blocks."""
        ids = np.concatenate(self._ids) if self._ids else np.zeros(0, dtype=np.uint64)
        firsts = np.concatenate(self._firsts) if self._firsts else np.zeros(0, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
        names = pa.concat_arrays(self._names_of) if self._names_of else None
        if names is not None and names.null_count:  # they are no episode, and said to be none
            same = same[names.is_valid().to_numpy(zero_copy_only=False)[order[same]]]
        if names is None or not len(same):
            return []
        k = same[np.argmin(order[same + 1])]
        ends = np.append(firsts[1:], self.rows) - 1
        one, other = order[k], order[k + 1]
        more = f" (and {len(same) - 1:,} more such episodes)" if len(same) > 1 else ""
        name = names[int(one)].as_py()
        return [
            Finding(
                "E131",
                f"episode {name} appears in two separate blocks (rows {firsts[one]}-{ends[one]}, "
                f"{firsts[other]}-{ends[other]}){more}. Sort by (episode_id, step), or give the "
                "episodes different ids.",
            )
        ]

    def _shifted(self) -> list[Finding]:
        """Propensities that belong to another row."""
        if not self._compared:
            return []
        here, before, after = self._agree / self._compared
        if here >= 0.99:
            return []
        best, where = (before, "t-1") if before >= after else (after, "t+1")
        if best > max(0.95, here):
            return [
                Finding(
                    "W151",
                    f"{self._prob} matches your mu at step {where} on {best:.1%} of rows, at t on "
                    f"{here:.1%}: shifted by one?",
                )
            ]
        return [
            Finding(
                "W152",
                f"{self._prob} differs from mu of the action taken on {rows(self._differ)}: which "
                "of them is right? Drop the other.",
            )
        ]

    @property
    def _differ(self) -> int:
        return int(self._compared - self._agree[0])


def autoreset() -> Finding:
    """Say that an environment's reset was logged as a step."""
    return Finding(
        "W133",
        "1 zero-reward row after every episode end: looks like Gymnasium NEXT_STEP autoreset; "
        "pass drop_autoreset=True.",
    )


def hash_ids(ids: Any) -> OffsetArray:
    """Return 64 bits for each episode id, the same in every file and on every machine."""
    if pa.types.is_integer(ids.type):
        number = np.asarray(ids.fill_null(-1).to_numpy(zero_copy_only=False))
        return scramble(number.astype(np.int64).view(np.uint64))
    digests = (
        hashlib.blake2b(str(each).encode(), digest_size=8).digest() for each in ids.to_pylist()
    )
    return np.frombuffer(b"".join(digests), dtype=np.uint64).copy()


def scramble(x: OffsetArray) -> OffsetArray:
    """Mix the bits of numbers (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = (x + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def finite_rows(piece: Rows) -> BoolArray:
    """Return which rows hold finite numbers only."""
    return np.isfinite(piece.rewards) & np.isfinite(piece.observations).all(axis=1)
