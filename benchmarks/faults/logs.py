"""Strategies of damaged logs: bytes of files, columns, and rows, in every format that is read."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
from hypothesis import strategies as st

import saddleback as sb
from saddleback.ope import Evaluation
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier

from .mutations import changed_data, damaged
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


def read(data: Any) -> Answer:
    """Evaluate a log: a table, or a file."""
    return answer_of(sb.Log(data, observations=SIGNS, actions=DOSES))


@st.composite
def damaged_bytes(draw: st.DrawFn) -> Trial:
    """The damaged file of a log."""
    damage, content = draw(damaged(clean_bytes()))

    def use(folder: Path) -> Answer:
        path = folder / "log.parquet"
        path.write_bytes(content)
        return read(path)

    return Trial(damage, use, reference)


def _arrays(table: Any, folder: Path, cut: int) -> Any:
    return {name: column.to_numpy() for name, column in zip(
        table.column_names, table.columns, strict=True)}  # fmt: skip


def _pandas(table: Any, folder: Path, cut: int) -> Any:
    return table.to_pandas()


def _polars(table: Any, folder: Path, cut: int) -> Any:
    import polars

    try:
        return polars.from_arrow(table)
    except polars.exceptions.PanicException as error:  # no Exception; of text that is no UTF-8
        raise ValueError from error


def _chunks(table: Any, folder: Path, cut: int) -> Any:
    return pa.concat_tables([table.slice(0, cut), table.slice(cut, 0), table.slice(cut)])


def _parquet(table: Any, folder: Path, cut: int) -> Any:
    path = folder / "log.parquet"
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table, row_group_size=cut + 1)
        writer.write_table(table.slice(0, 0))
    return path


def _folder(table: Any, folder: Path, cut: int) -> Any:
    (folder / "log").mkdir()
    for name, part in (("1", table.slice(0, cut)), ("2", table.slice(cut))):
        pq.write_table(part, folder / "log" / f"{name}.parquet")
    return folder / "log"


def _feather(table: Any, folder: Path, cut: int) -> Any:
    pyarrow.feather.write_feather(table, folder / "log.feather", chunksize=cut + 1)
    return folder / "log.feather"


def _stream(table: Any, folder: Path, cut: int) -> Any:
    with pa.ipc.new_stream(folder / "log.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=cut + 1)
    return folder / "log.arrow"


def _csv(table: Any, folder: Path, cut: int) -> Any:
    pyarrow.csv.write_csv(table, folder / "log.csv")
    return folder / "log.csv"


def _json(table: Any, folder: Path, cut: int) -> Any:
    lines = (json.dumps(row, default=str) for row in table.to_pylist())
    (folder / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "log.jsonl"


PLACES: dict[str, Callable[[Any, Path, int], Any]] = {
    "a table": lambda table, folder, cut: table, "arrays": _arrays, "pandas": _pandas,
    "polars": _polars, "chunks": _chunks, "Parquet": _parquet, "a folder": _folder,
    "Feather": _feather, "a stream": _stream, "CSV": _csv, "JSON lines": _json,
}  # fmt: skip
"""Forms of a log: functions of a table, a folder and a row to cut at."""


@st.composite
def evaluated(draw: st.DrawFn, damage: str, table: Any) -> Trial:
    """The evaluation of a damaged table in any form."""
    place = draw(st.sampled_from(("a table", "Parquet", *PLACES)))
    cut = draw(st.integers(0, len(table)))

    def use(folder: Path) -> Answer:
        try:
            data = PLACES[place](table, folder, cut)
        except Exception:  # the form has no such columns
            data = table
        return read(data)

    return Trial(f"{damage}, as {place} cut at {cut}", use, reference)


KINDS = (
    pa.int8(), pa.int32(), pa.uint8(), pa.uint64(), pa.float16(), pa.float32(), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.bool_(), pa.date32(), pa.timestamp("us"),
    pa.timestamp("ns", "Asia/Kathmandu"), pa.time64("us"), pa.duration("s"), pa.decimal128(20, 6),
    pa.decimal256(60, 20), pa.null(), pa.dictionary(pa.int32(), pa.string()), pa.binary(8),
    pa.dictionary(pa.int8(), pa.float64()), pa.list_(pa.float64()), pa.list_(pa.float64(), 2),
    pa.list_(pa.list_(pa.float64())), pa.large_list(pa.string()), pa.struct([("x", pa.float64())]),
    pa.map_(pa.string(), pa.float64()), pa.uuid(), pa.month_day_nano_interval(),
    pa.run_end_encoded(pa.int32(), pa.float64()), pa.dense_union([pa.field("x", pa.int8())]),
    pa.bool8(), pa.list_view(pa.float64()), pa.json_(pa.string()),
)  # fmt: skip

NAMES = ("", "x", "obs_0", "mu_0", "\u202e", "pi_7", "\0", "a" * 10_000, "phi_0", "next_hr")

METADATA = {"actions": list(DOSES), "gamma": GAMMA, "provenance": {"command": "x"}}


@st.composite
def wrong_columns(draw: st.DrawFn) -> Trial:
    """A log with a column of another type or name, twice or not at all, or other metadata."""
    table = clean_rows()
    place = draw(st.integers(0, table.num_columns - 1))
    name = table.column_names[place]
    kinds = ("type", "type", "name", "repeat", "remove", "metadata", "nulls", "order")
    kind = draw(st.sampled_from(kinds))
    damage = f"{kind} {name}"
    if kind == "type":
        other = draw(st.sampled_from(KINDS))
        table = table.set_column(place, pa.field(name, other), _cast(table[name], other))
        damage += f" {other}"
    elif kind == "name":
        names = list(table.column_names)
        odd = st.sampled_from((name.upper(), name + " ", *NAMES)) | st.text(max_size=5)
        names[place] = draw(odd)
        table = table.rename_columns(names)
        damage += f" -> {names[place]!r:.50}"
    elif kind == "repeat":
        table = pa.table([*table, table[name]], names=[*table.column_names, name])
    elif kind == "remove":
        table = table.remove_column(place)
    elif kind == "metadata":
        damage, other = draw(changed_data(METADATA))
        brackets = st.integers(1, 100_000).map(lambda n: b"[" * n)
        text = draw(st.just(json.dumps(other).encode()) | brackets | st.binary(max_size=20))
        table = table.replace_schema_metadata({b"saddleback": text})
    elif kind == "nulls":
        column = table[name].to_pylist()
        for row in draw(st.lists(st.integers(0, len(column) - 1), min_size=1, max_size=3)):
            column[row] = None
        table = table.set_column(place, name, pa.array(column, table[name].type))
    else:
        table = table.select(draw(st.permutations(table.column_names)))
    return draw(evaluated(damage, table))


def _cast(column: Any, kind: Any) -> Any:
    """Return a column of another type: converted where that loses nothing, else empty."""
    try:
        other = column.cast(kind)
        if not pa.types.is_boolean(kind) or other.cast(column.type).equals(column):
            return other
    except (pa.ArrowException, NotImplementedError):
        pass
    return pa.nulls(len(column), kind)


@st.composite
def wrong_rows(draw: st.DrawFn) -> Trial:
    """A log with rows dropped, repeated, in another order or changed."""
    fault = draw(st.sampled_from(ROW_FAULTS))
    data = {name: column.to_numpy().copy() for name, column in zip(
        clean_rows().column_names, clean_rows().columns, strict=True)}  # fmt: skip
    changed = fault(draw, data)
    try:
        table = pa.table(changed)
    except pa.ArrowNotImplementedError:  # complex numbers
        return Trial(fault.__name__, lambda folder: read(changed), reference)
    if draw(st.integers(0, 3)):
        return draw(evaluated(fault.__name__, table))
    cut = draw(st.integers(0, len(table)))  # two files, sometimes in the wrong order or repeated
    order = draw(st.sampled_from(((0, 1), (0, 1), (1, 0), (0, 1, 0))))

    def use(folder: Path) -> Answer:
        paths = [folder / "1.parquet", folder / "2.parquet"]
        for path, part in zip(paths, (table.slice(0, cut), table.slice(cut)), strict=True):
            pq.write_table(part, path)
        return read([paths[k] for k in order])

    return Trial(f"{fault.__name__}, files {order} cut at {cut}", use, reference)
