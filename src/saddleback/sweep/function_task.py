"""Tasks of a study of a function: its results for some settings, as the rows of a shard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._progress import Progress, part_of
from saddleback._provenance import versions
from saddleback.errors import InvalidParameter
from saddleback.sweep.manifest import study_hash
from saddleback.sweep.store import check_versions, join_rows, parquet_bytes
from saddleback.sweep.study import Study, asked_for, load_function
from saddleback.sweep.study_metrics import metric_name
from saddleback.sweep.task_runner import Task


def function_tasks(study: Study, folder: Path) -> list[Task]:
    """Return the tasks of a study of a function; paths are relative to the folder."""
    data, directory, required = json.dumps(study.as_dict()), str(folder.resolve()), versions()
    calls, share = len(study.combinations()) * study.runs, study.share
    return [
        Task(
            f"call{first:07d}",
            partial(call, data, directory, required, first, min(first + share, calls)),
            min(share, calls - first),
        )
        for first in range(0, calls, share)
    ]


def call(
    data: str,
    folder: str,
    required: Mapping[str, str],
    first: int,
    last: int,
    progress: Progress | None,
) -> bytes:
    """Call the function of a study given as JSON some times; return its results as a shard."""
    check_versions(required)
    study, settings, types = _study(data)
    path = study.function.rpartition(":")[0]
    function = load_function(study.function, Path(folder), study.marks.get(path))
    tables = []
    for count, number in enumerate(range(first, last)):
        index, run = divmod(number, study.runs)
        available = dict(study.parameters) | {
            "seed": study.seed, "run": run,
            "rng": np.random.default_rng(
                np.random.SeedSequence(study.seed, spawn_key=(index, run))
            ),
            "progress": part_of(
                progress or _unreported, count / (last - first), (count + 1) / (last - first)
            ),
        }  # fmt: skip
        arguments = asked_for(function, available) | settings[index]
        tables.append(_table(study, {**settings[index], "run": run}, types, function(**arguments)))
    metadata = {"study": study_hash(study.as_dict()), "calls": [first, last]}
    return parquet_bytes(join_rows(tables), metadata)


def _unreported(fraction: float, phase: str = "", /) -> None:
    """Take the place of the progress on a cluster, where it is not shown."""


@lru_cache(8)
def _study(data: str) -> tuple[Study, list[dict[str, Any]], dict[str, pa.DataType]]:
    """Return a study, its settings, and the type of each argument, which all shards share."""
    study = Study.from_dict(json.loads(data))
    values: dict[str, list[Any]] = {}
    for table in study.settings:
        for key, own in table.items():
            values.setdefault(key, []).extend(own)
    types = {key: pa.array(values[key]).type for key in sorted(values)}
    return study, study.combinations(), types


def _table(
    study: Study, labels: Mapping[str, Any], types: Mapping[str, pa.DataType], result: Any
) -> pa.Table:
    """Return the results of one call: a number, or columns by name, beside its arguments."""
    name = metric_name(study.function)
    columns = result if isinstance(result, Mapping) else {name: result}
    taken = sorted(set(labels) & set(columns))
    if taken:
        raise InvalidParameter(f"{name} returns {taken[0]!r}, which is also one of its settings.")
    values = {key: np.atleast_1d(column) for key, column in columns.items()}
    for key, column in values.items():
        if column.ndim > 1:
            raise InvalidParameter(
                f"{name} returns {key!r} of shape {list(column.shape)}: a column has one dimension."
            )
    sizes = {key: column.size for key, column in values.items()}
    size = max(sizes.values(), default=0)
    if not set(sizes.values()) <= {1, size}:
        raise InvalidParameter(f"{name} returns columns of different lengths: {sizes}.")
    types = {**types, "run": pa.int64()}
    constant = {key: pa.array([labels.get(key)] * size, own) for key, own in types.items()}
    return pa.table(
        constant | {key: np.broadcast_to(v, size, subok=True) for key, v in values.items()}
    )
