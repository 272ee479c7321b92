"""Looking at every row of a log once: what is wrong, and the numbers of its data card."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._typing import BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.log.decode import Rows
from saddleback.log.findings import Finding, Tally, rows
from saddleback.log.words import WORDS

TOLERANCE = 1e-6
"""How far a row of probabilities may sum from 1."""

BINS = 10_000
"""Bins of the histogram of propensities, for their median."""

AGREE = 1e-6
"""How near a propensity must be to μ of the action to count as the same."""


class Inspection:
    """Counts what is wrong with rows as they come, and sums up what they hold."""

    def __init__(self, names: Any, observations: tuple[str, ...], actions: str, prob: str) -> None:
        self.tally = Tally()
        self._names, self._observations, self._actions, self._prob = (
            names, observations, actions, prob
        )  # fmt: skip
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
        self._zero_starts = self._zero_inside = 0
        self._last_step: tuple[int, int] | None = None

    def look(self, piece: Rows) -> None:
        """Take the next rows in."""
        self.rows += len(piece)
        begun = np.flatnonzero(piece.starts)
        self.episodes += len(begun)
        ids = piece.ids.take(begun)
        self._ids.append(hash_ids(ids))
        self._names_of.append(ids)
        self._firsts.append(begun + piece.first)
        if piece.ids.null_count:
            empty = np.flatnonzero(piece.ids.is_null().to_numpy(zero_copy_only=False))
            self.tally.add(("E121", self._names["episode_id"]), len(empty), piece.places(empty))
        self._numbers(piece)
        self._steps(piece)
        wrong = np.flatnonzero(piece.actions < 0)
        self.tally.add(("E145", self._actions), len(wrong), piece.places(wrong))
        if piece.propensity is not None:
            self._propensity(piece, piece.propensity)
        for name, table in piece.tables.items():
            if not name.startswith("next_"):
                self._table(piece, name, table)
        zero = piece.rewards == 0.0
        later = piece.starts & (np.arange(len(piece)) + piece.first > 0)
        self._zero_starts += int((zero & later).sum())
        self._zero_inside += int((zero & ~later).sum())

    def _numbers(self, piece: Rows) -> None:
        if not len(self.low):
            self.low = np.full(len(self._observations), np.inf)
            self.high = np.full(len(self._observations), -np.inf)
        for d, (name, column) in enumerate(
            zip(self._observations, piece.observations.T, strict=True)
        ):
            low, high = self._finite(piece, name, column)
            self.low[d], self.high[d] = min(self.low[d], low), max(self.high[d], high)
        low, high = self._finite(piece, self._names["reward"], piece.rewards)
        self.reward_low, self.reward_high = min(self.reward_low, low), max(self.reward_high, high)
        self.reward_sum += float(piece.rewards.sum())

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

    def _steps(self, piece: Rows) -> None:
        if piece.step is None:
            return
        wrong = np.flatnonzero(piece.step[piece.starts] != 0)
        for i in np.flatnonzero(piece.starts)[wrong][:1]:
            places = [(piece.ids[int(i)].as_py(), int(piece.step[i]))]
            self.tally.add(("E134", str(piece.step[i])), len(wrong), places)
        before = np.empty_like(piece.step)
        before[1:] = piece.step[:-1]
        before[0] = self._last_step[1] if self._last_step else piece.step[0] - 1
        jumps = np.flatnonzero(~piece.starts & (piece.step != before + 1))
        for i in jumps[:1]:
            kind = ("E130", str(before[i]), str(piece.step[i]))
            if "E130" not in self.tally:
                self.tally.add(kind, len(jumps), [piece.place(int(i))] * min(3, len(jumps)))
        self._last_step = (0, int(piece.step[-1]))

    def _propensity(self, piece: Rows, prob: FloatArray) -> None:
        low, high = float(np.min(prob)), float(np.max(prob))
        if np.isnan(low):
            where = np.flatnonzero(np.isnan(prob))
            self.tally.add(("E102", self._prob, "NaN"), len(where), piece.places(where))
        self.prob_low = float(np.fmin(self.prob_low, np.nanmin(prob, initial=np.inf)))
        self.prob_high = float(np.fmax(self.prob_high, np.nanmax(prob, initial=-np.inf)))
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
        wrong = np.flatnonzero(off)
        for i in wrong[:1]:
            if ("E104") not in self.tally:
                self.tally.add(("E104", name, f"{total[i]:.6g}"), len(wrong), piece.places(wrong))

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
            found.append(Finding("W121", f"{dropped:,} episodes with NaN or infinities dropped."))
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
        if self.episodes >= 3 and not self._zero_inside and self._zero_starts == self.episodes - 1:
            found.append(autoreset())
        return found + self._shifted()

    def _twice(self) -> list[Finding]:
        """Episodes that come in two separate blocks."""
        ids = np.concatenate(self._ids) if self._ids else np.zeros(0, dtype=np.uint64)
        firsts = np.concatenate(self._firsts) if self._firsts else np.zeros(0, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
        if not len(same):
            return []
        k = same[np.argmin(order[same + 1])]
        ends = np.append(firsts[1:], self.rows) - 1
        one, other = order[k], order[k + 1]
        more = f" (and {len(same) - 1:,} more such episodes)" if len(same) > 1 else ""
        name = pa.concat_arrays(self._names_of)[int(one)].as_py()
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
