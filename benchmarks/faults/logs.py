"""Faults of logs: bytes of a Parquet file, columns, and rows."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import saddleback as sb
from saddleback.ope import Evaluation
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier

from .mutations import change_data, damage_bytes
from .row_faults import ROW_FAULTS
from .trial import Answer, Trial

GAMMA, FEATURES, PATIENTS = 0.97, "polynomial:1", 150


@functools.cache
def clean_rows() -> pa.Table:
    """Return a log of the synthetic clinic."""
    return pa.table(clinic(PATIENTS, rng=0))


def answer_of(log: sb.Log, target: Any = earlier, features: Any = FEATURES) -> Answer:
    """Evaluate a log; the answer has its value, standard error, verdict and warnings."""
    result = sb.evaluate(log, target, gamma=GAMMA, features=features, methods=[])
    estimate = result.estimates[0]
    error = (estimate.high - estimate.low) / 3.92 if estimate.low is not None else np.inf
    return Answer(value=estimate.value, error=error, notes=notes_of(result))


def notes_of(result: Evaluation) -> frozenset[str]:
    """Return the warnings of an evaluation, its verdict and the checks that failed."""
    verdict, summary = result.verdicts[0], result.log_summary
    notes = {finding.code for finding in result.warnings} | {verdict.trust}
    notes |= {gate.code for gate in verdict.gates if gate.level in ("doubtful", "refused")}
    return frozenset(notes | {f"{summary.stops} stops, {summary.lost} lost"})


@functools.cache
def reference() -> Answer:
    """Return the answer of the log without damage."""
    return answer_of(sb.Log(clean_rows(), observations=SIGNS, actions=DOSES))


@functools.cache
def clean_bytes() -> bytes:
    """Return the log as a file that saddleback wrote."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        log = sb.Log(clean_rows(), observations=SIGNS, actions=DOSES)
        return log.write(Path(folder) / "log.parquet", gamma=GAMMA).read_bytes()


def read_file(path: Path) -> Answer:
    """Evaluate a log in a file."""
    return answer_of(sb.Log(path, observations=SIGNS, actions=DOSES))


def damaged_bytes(rng: np.random.Generator, folder: Path) -> Trial:
    """Damage the file of a log."""
    path = folder / "log.parquet"
    damage, content = damage_bytes(rng, clean_bytes())
    path.write_bytes(content)
    return Trial(damage, lambda: read_file(path), reference())


KINDS = (
    pa.int8(), pa.int32(), pa.uint8(), pa.uint64(), pa.float16(), pa.float32(), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.bool_(), pa.date32(), pa.timestamp("us"),
    pa.decimal128(20, 6), pa.null(), pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.float64()),
    pa.list_(pa.float64(), 2), pa.struct([("x", pa.float64())]),
)  # fmt: skip


def wrong_columns(rng: np.random.Generator, folder: Path) -> Trial:
    """Change the type or name of a column, repeat or remove it, or change the metadata."""
    table, path = clean_rows(), folder / "log.parquet"
    place = int(rng.integers(table.num_columns))
    name = table.column_names[place]
    kind = ("type", "name", "repeat", "remove", "metadata", "nulls", "chunks")[rng.integers(7)]
    damage = f"{kind} {name}"
    if kind == "type":
        other = KINDS[rng.integers(len(KINDS))]
        table = table.set_column(place, name, _cast(table[name], other))
        damage += f" {other}"
    elif kind == "name":
        names = list(table.column_names)
        names[place] = (name.upper(), name + " ", "", "x", "obs_0", "mu_0", "\u202e", "pi_7")[
            rng.integers(8)
        ]
        table = table.rename_columns(names)
        damage += f" -> {names[place]!r}"
    elif kind == "repeat":
        table = pa.table([*table, table[name]], names=[*table.column_names, name])
    elif kind == "remove":
        table = table.remove_column(place)
    elif kind == "metadata":
        plain = {"actions": list(DOSES), "gamma": GAMMA, "provenance": {"command": "x"}}
        damage, other = change_data(rng, plain)
        text = json.dumps(other).encode() if rng.random() < 0.8 else b"[" * int(rng.integers(1e5))
        table = table.replace_schema_metadata({b"saddleback": text})
    elif kind == "nulls":
        column = table[name].to_pylist()
        for row in rng.integers(0, len(column), 3):
            column[row] = None
        table = table.set_column(place, name, pa.array(column, table[name].type))
    else:
        cut = int(rng.integers(1, len(table)))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    if rng.random() < 0.5:
        return Trial(damage, lambda: _read_table(table), reference())
    pq.write_table(table, path, row_group_size=int(rng.integers(1, len(table))))
    return Trial(f"{damage}, file", lambda: read_file(path), reference())


def _cast(column: Any, kind: Any) -> Any:
    """Return a column of another type: converted where that loses nothing, else empty."""
    try:
        other = column.cast(kind)
        if not pa.types.is_boolean(kind) or other.cast(column.type).equals(column):
            return other
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        pass
    return pa.nulls(len(column), kind)


def _read_table(table: Any) -> Answer:
    return answer_of(sb.Log(table, observations=SIGNS, actions=DOSES))


def wrong_rows(rng: np.random.Generator, folder: Path) -> Trial:
    """Drop, repeat, reorder or change rows."""
    fault = ROW_FAULTS[rng.integers(len(ROW_FAULTS))]
    data = {name: column.to_numpy().copy() for name, column in zip(
        clean_rows().column_names, clean_rows().columns, strict=True)}  # fmt: skip
    data = fault(data, rng)
    if rng.random() < 0.3:  # the same in two files, sometimes in the wrong order or repeated
        cut = int(rng.integers(len(data["reward"]) + 1))
        paths = [folder / "1.parquet", folder / "2.parquet"]
        for path, part in zip(paths, (slice(0, cut), slice(cut, None)), strict=True):
            pq.write_table(pa.table({n: column[part] for n, column in data.items()}), path)
        order = ((0, 1), (0, 1), (1, 0), (0, 1, 0))[rng.integers(4)]
        files = [paths[k] for k in order]
        return Trial(
            f"{fault.__name__}, files {order} cut at {cut}",
            lambda: answer_of(sb.Log(files, observations=SIGNS, actions=DOSES)),
            reference(),
        )
    return Trial(fault.__name__, lambda: _read_table(pa.table(data)), reference())
