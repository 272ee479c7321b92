"""A log of single decisions, read as episodes of one row.

In a contextual bandit a decision has no consequences beyond its reward. Each row then is an episode
that ended; the columns that say so are added as rows are read, and those of the log are not read.
Ids of episodes are, if there are any, to reject episodes of several rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback.log.column_types import decode_dictionary
from saddleback.log.row_source import RowSource

ADDED = {"episode_id": "(row)", "terminated": "(ended)", "truncated": "(cut)"}
"""Names of the added columns by role; in brackets, as they are not in the data."""


@dataclass(frozen=True, eq=False)
class DecisionSource(RowSource):
    """The rows of a source, each with an id of its own, from ``first``, unless they have ids."""

    source: RowSource | None = None
    first: int = 0

    def absolute(self) -> RowSource:
        """Return the source with absolute paths."""
        assert self.source is not None
        source = self.source.absolute()
        return replace(self, name=source.name, source=source)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        assert self.source is not None
        own = [name for name in columns if name not in ADDED.values()]
        at = self.first
        for batch in self.source.batches(own or self.source.schema.names[:1]):
            n = batch.num_rows
            numbers = np.arange(at, at + n), np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
            added = dict(zip(ADDED.values(), map(pa.array, numbers), strict=True))
            arrays = [added[name] if name in added else batch.column(name) for name in columns]
            yield pa.record_batch(arrays, names=list(columns))
            at += n


def decision_sources(
    sources: Sequence[RowSource], columns: Mapping[str, str]
) -> tuple[list[RowSource], dict[str, str]]:
    """Return sources of decisions, and the name in them of each column that is not standard."""
    first = 0
    wrapped: list[RowSource] = []
    sources = [getattr(source, "source", None) or source for source in sources]
    for source in sources:
        schema = source.schema
        if "step" in schema.names:
            schema = schema.remove(schema.get_field_index("step"))
        for name, kind in zip(ADDED.values(), (pa.int64(), pa.bool_(), pa.bool_()), strict=True):
            schema = schema.append(pa.field(name, kind))
        findings = tuple(source.warnings())
        wrapped.append(DecisionSource(source.name, source.rows, schema, findings, source, first))
        first += source.rows
    names = {role: name for role, name in columns.items() if role != "step"} | ADDED
    own = columns.get("episode_id", "episode_id")
    if own in sources[0].schema.names:
        names["episode_id"] = own
    return wrapped, names


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
