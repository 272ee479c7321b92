"""Where rows are in a log: the episode and step of each, for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from saddleback._typing import BoolArray, IntArray
from saddleback.log.column_types import decode_dictionary
from saddleback.log.decision_rows import ADDED
from saddleback.log.diagnostics import MAX_LOCATIONS, Location, describe_rows
from saddleback.log.row_source import RowSource


class EpisodePositions:
    """Finds where episodes start in consecutive batches; remembers the last one of each.

    Examples
    --------
    >>> import pyarrow as pa
    >>> positions = EpisodePositions()
    >>> [positions.add(pa.array(ids))[1].tolist() for ids in ([4, 4, 7], [7, 7, 4])]
    [[0, 1, 0], [1, 2, 0]]
    """

    def __init__(self) -> None:
        self._last_id, self._length = None, 0

    def add(self, ids: Any) -> tuple[BoolArray, IntArray]:
        """Return which of the next rows begin an episode, and the steps since each began."""
        starts = np.ones(len(ids), dtype=np.bool_)
        if len(ids) > 1:
            changed = pc.not_equal(ids[1:], ids[:-1])
            starts[1:] = changed.fill_null(True).to_numpy(zero_copy_only=False)
        if self._last_id is not None:
            starts[0] = ids[0].as_py() != self._last_id
        index = np.arange(len(ids))
        start = np.maximum.accumulate(np.where(starts, index, -1))
        position = np.where(start >= 0, index - start, index + self._length)
        self._last_id, self._length = ids[-1].as_py(), int(position[-1]) + 1
        return starts, position


def find_rows(
    sources: Iterable[RowSource],
    episode: str,
    step: str | None,
    column: str,
    matches: Callable[[Any], BoolArray],
) -> str:
    """Return how many rows have a value that ``matches``, and which the first are, as text."""
    columns: Sequence[str] = [column, episode, *([] if step is None else [step])]
    count = first = 0
    locations, positions = list[Location](), EpisodePositions()
    for source in sources:
        for batch in source.batches(list(dict.fromkeys(columns))):
            if not batch.num_rows:
                continue
            ids = decode_dictionary(batch.column(episode))
            _, position = positions.add(ids)
            where = np.flatnonzero(matches(batch.column(column)))
            for i in map(int, where[: MAX_LOCATIONS - len(locations)]):
                id_ = None if episode == ADDED["episode_id"] else ids[i].as_py()
                logged = int(position[i]) if step is None else batch.column(step)[i].as_py()
                locations.append((id_, first + i if id_ is None else logged))
            first += len(ids)
            count += len(where)
    return describe_rows(count, locations)
