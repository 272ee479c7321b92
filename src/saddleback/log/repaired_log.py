"""Write a log as it is read: sorted, with marked ends, filled rewards and without dropped rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from saddleback._typing import FloatArray
from saddleback.log.arrow_decode import action_numbers
from saddleback.log.binary_files import new_parquet
from saddleback.log.row_source import METADATA
from saddleback.log.segmentation import Segment

if TYPE_CHECKING:
    from saddleback.log.log import Log


def write_repaired(log: Log, path: Path, metadata: dict[str, Any]) -> Path:
    """Write the rows that are used, under the standard names of their columns.

    The observations keep their names, which are stored with those of the actions, so that the file
    needs no options. Raises the errors of the log, and then writes nothing.
    """
    stored = {**log.metadata, **metadata}
    if not log.has_continuous_actions:
        stored["actions"] = list(log.action_names)
    if not log.roles.as_list and not log.roles.are_features:
        stored["observations"] = list(log.roles.observations)
    if log.estimated is not None:
        stored["estimated"] = log.estimated
    tables = {name.removeprefix("next_") for name in log.roles.tables} - {"action"}
    segments = log.segments(sorted(tables))
    first = _table(log, next(segments))
    schema = first.schema.with_metadata({METADATA: json.dumps(stored).encode()})
    with new_parquet(path, schema) as writer:
        writer.write_table(first.cast(schema))
        for segment in segments:
            writer.write_table(_table(log, segment).cast(schema))
    return path


def _table(log: Log, segment: Segment) -> Any:
    """Return the rows of a segment as a table."""
    rows = segment.rows
    columns: dict[str, Any] = {"episode_id": rows.ids, "step": rows.position}
    columns |= _observations(log, log.roles.observations, rows.observations)
    if not log.has_continuous_actions:
        numbers = action_numbers(log.action_names)
        names = log.action_names if log.has_text_actions else numbers
        columns["action"] = (
            rows.actions if names is None else pa.array(names).take(pa.array(rows.actions))
        )
    columns |= {
        "reward": rows.rewards, "terminated": rows.terminated, "truncated": rows.truncated,
    }  # fmt: skip
    if rows.next_observations is not None:
        columns |= _observations(log, log.roles.next_observations, rows.next_observations)
    if rows.propensity is not None:
        columns["behavior_prob"] = rows.propensity
    for name, table in rows.tables.items():
        columns |= {f"{name}_{k}": table[:, k] for k in range(table.shape[1])}
    return pa.table(
        {
            name: pa.array(column, from_pandas=True) if isinstance(column, np.ndarray) else column
            for name, column in columns.items()
        }
    )


def _observations(log: Log, names: tuple[str, ...], matrix: FloatArray) -> dict[str, Any]:
    """Return the columns of an observation; categories as text."""
    if log.roles.as_list:
        flat = pa.array(np.ascontiguousarray(matrix).ravel(), from_pandas=True)
        return {names[0]: pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])}
    columns: dict[str, Any] = {}
    first = 0
    for name, column in zip(names, log.roles.observations, strict=True):
        values = log.categories.get(column)
        if values is None:
            columns[name] = matrix[:, first]
            first += 1
        else:
            block = matrix[:, first : first + len(values)]
            valid = ~np.isnan(block).any(axis=1)
            index = pa.array(np.argmax(block, axis=1), mask=~valid)
            columns[name] = pa.array(values).take(index)
            first += len(values)
    return columns
