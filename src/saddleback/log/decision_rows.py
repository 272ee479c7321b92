"""A log of single decisions, read as episodes of one row.

In a contextual bandit a decision has no consequences beyond its reward. Each row then is an episode
that ended; the columns that say so are added as rows are read, and those of the log are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback.log.arrow_decode import decode_dictionary
from saddleback.log.row_sources import RowSource

ENDS = {"terminated": True, "truncated": False}
"""Flags of every row."""

NOT_READ = (*ENDS, "step")
"""Roles that have no meaning in a log of decisions."""


@dataclass(frozen=True)
class DecisionSource(RowSource):
    """The rows of a source, each with an id of its own, from ``first``, unless they have ids."""

    source: RowSource | None = None
    first: int = 0

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        assert self.source is not None
        own = [name for name in columns if not self._is_added(name)]
        at = self.first
        for batch in self.source.batches(own or self.source.schema.names[:1]):
            n = batch.num_rows
            added = {name: pa.array(np.full(n, flag)) for name, flag in ENDS.items()}
            added["episode_id"] = pa.array(np.arange(at, at + n))
            arrays = [
                added[name] if self._is_added(name) else batch.column(name) for name in columns
            ]
            yield pa.record_batch(arrays, names=list(columns))
            at += n

    def _is_added(self, name: str) -> bool:
        assert self.source is not None
        return name in ENDS or (name == "episode_id" and name not in self.source.schema.names)


def decision_sources(
    sources: Sequence[RowSource], columns: Mapping[str, str]
) -> tuple[list[RowSource], dict[str, str]]:
    """Return sources of decisions, and the names of columns without those that are not read."""
    first, wrapped = 0, []
    for source in sources:
        schema = source.schema
        for name in (name for name in NOT_READ if name in schema.names):
            schema = schema.remove(schema.get_field_index(name))
        for name in ENDS:
            schema = schema.append(pa.field(name, pa.bool_()))
        if columns.get("episode_id", "episode_id") not in schema.names:
            schema = schema.append(pa.field("episode_id", pa.int64()))
        wrapped.append(
            DecisionSource(source.name, source.rows, schema, source=source, first=first)
        )
        first += source.rows
    return wrapped, {role: name for role, name in columns.items() if role not in NOT_READ}


def are_decisions(sources: Sequence[RowSource], roles: Mapping[str, str]) -> bool:
    """Whether every episode is one row that terminated; reads up to the first that is not."""
    columns, last = [roles.get("episode_id", ""), roles.get("terminated", "")], None
    if not all(columns):
        return False
    for source in sources:
        for batch in source.batches(columns):
            ids = decode_dictionary(batch.column(0))
            ended = batch.column(1).to_numpy(zero_copy_only=False)
            if batch.num_rows and (ids[0].as_py() == last or not ended.astype(bool).all()):
                return False
            values = np.asarray(ids.to_numpy(zero_copy_only=False))
            if (values[1:] == values[:-1]).any():
                return False
            last = ids[-1].as_py() if batch.num_rows else last
    return True
