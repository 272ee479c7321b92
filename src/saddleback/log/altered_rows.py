"""Rows of a log that were dropped, cut or clipped when it was read."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import numpy as np

from saddleback._typing import IntArray
from saddleback.log.diagnostics import format_rows


@dataclass(frozen=True)
class AlteredRows:
    """Numbers of rows and episodes that are not used as they are in the log.

    Examples
    --------
    >>> AlteredRows(rows=700, episodes=100, terminated=56, stops=44, lost=44).dropped
    0.44
    """

    # Size of the log, and the number of episodes that terminated, with a flag.
    rows: int = 0
    episodes: int = 0
    terminated: int = 0
    stops: int = 0  # episodes that stop without a flag, which are treated as truncated
    lost: int = 0  # last transitions that were dropped, since their next observation is unknown
    # Episodes, and their rows, that were dropped because they contain NaN or infinities.
    bad_episodes: int = 0
    bad_rows: int = 0
    reset_rows: int = 0  # rows of automatic resets that were dropped
    clipped: int = 0  # propensities below the smallest one allowed, which were raised to it
    outlying: int = 0  # rows with outliers; see `saddleback.log.outliers`
    # Rows with an observation outside the box of the features, which is clipped to it.
    outside: int = 0
    filled: int = 0  # missing rewards that were filled in
    marked: int = 0  # episodes without a flag that were marked as ended
    estimated: int = 0  # missing propensities that were estimated

    @property
    def array(self) -> IntArray:
        """The numbers in order, to be added to those of other logs."""
        return np.array(astuple(self), dtype=np.int64)

    @property
    def dropped(self) -> float:
        """Share of rows that were dropped, or of episodes that stop without a flag if it is larger.

        The latter only if other episodes terminate: then the last rows may be missing.
        """
        stops = self.stops / max(1, self.episodes) if self.terminated else 0.0
        return max((self.lost + self.bad_rows) / max(1, self.rows), stops)

    @property
    def imputed(self) -> float:
        """Share of rewards that were filled in, or of episodes marked as ended if it is larger.

        Neither counts where it is the rule: rewards before the end if no episode has any, and marks
        if no episode is logged as terminated.
        """
        before_end = self.rows - self.episodes
        filled = self.filled / max(1, self.rows)
        if self.filled >= before_end:
            filled = (self.filled - before_end) / max(1, self.episodes)
        return max(filled, self.marked / max(1, self.episodes) if self.terminated else 0.0)

    @property
    def repairs(self) -> list[str]:
        """What was done to the rows by options that repair a log, as text."""
        return replace(self, stops=0, lost=0, outside=0).lines

    @property
    def lines(self) -> list[str]:
        """What was done to the rows, as text."""
        return [
            text.format(n, "" if n == 1 else "s", rows=format_rows(self.bad_rows))
            for n, text in (
                (self.stops, "{0:,} episode{1} stop without a flag: treated as truncated"),
                (self.lost,
                 "{0:,} last transition{1} dropped: no next observation to bootstrap from"),
                (self.bad_episodes, "{0:,} episode{1} ({rows}) with NaN or infinities dropped"),
                (self.reset_rows, "{0:,} row{1} of automatic resets dropped"),
                (self.clipped, "{0:,} propensities raised to the smallest one allowed"),
                (self.filled, "{0:,} missing reward{1} filled in"),
                (self.marked, "{0:,} episode{1} marked as ended on the last row"),
                (self.estimated, "{0:,} missing propensities estimated"),
                (self.outside, "{0:,} observation{1} clipped to the box of the features"),
            )
            if n
        ]  # fmt: skip
