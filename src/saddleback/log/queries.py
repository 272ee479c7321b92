"""Queries of polars and DuckDB as sources of rows, run anew and streamed on every pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from saddleback.errors import InvalidParameter
from saddleback.log import row_source
from saddleback.log.row_source import RowSource


@dataclass(frozen=True, eq=False)
class LazyFrameSource(RowSource):
    """A polars LazyFrame."""

    kind = "a LazyFrame"
    frame: Any = None

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        query = self.frame.select(list(columns))
        for frame in query.collect_batches(chunk_size=row_source.BATCH, maintain_order=True):
            yield from frame.to_arrow().combine_chunks().to_batches()


@dataclass(frozen=True, eq=False)
class DuckDBSource(RowSource):
    """A DuckDB relation."""

    kind = "a DuckDB relation"
    relation: Any = None

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        names = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in columns)
        yield from _reader(self.relation.project(names), row_source.BATCH)


def _reader(relation: Any, rows: int) -> Any:
    """Return a reader of record batches; it has another name before DuckDB 1.4."""
    if hasattr(type(relation), "to_arrow_reader"):
        return relation.to_arrow_reader(rows)
    return relation.fetch_record_batch(rows)


def open_query(data: Any) -> RowSource | None:
    """Return a LazyFrame or a DuckDB relation as a source; None if the data are neither.

    Examples
    --------
    >>> import polars
    >>> open_query(polars.LazyFrame({"reward": [1.0, 2.0]})).rows
    2
    """
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if (library, kind) == ("polars", "LazyFrame"):
        import polars

        if not hasattr(data, "collect_batches"):
            raise InvalidParameter("a LazyFrame needs polars 1.34 or later; or call collect().")
        schema = data.head(0).collect().to_arrow().schema
        rows = int(data.select(polars.len()).collect().item())
        return LazyFrameSource("the LazyFrame", rows, schema, frame=data)
    if library in ("duckdb", "_duckdb") and kind == "DuckDBPyRelation":
        schema = _reader(data.limit(0), 1).schema
        rows = int(data.aggregate("count(*)").fetchall()[0][0])
        return DuckDBSource("the relation", rows, schema, relation=data)
    return None
