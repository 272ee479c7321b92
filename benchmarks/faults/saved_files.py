"""Strategies of damage to saved results, statistics and systems."""

from __future__ import annotations

import functools
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import saddleback as sb
from saddleback._json import json_text
from saddleback._npz import pack
from saddleback.cli.cmd_explain import read_result
from saddleback.ope.result_schema import digest
from saddleback.ope.statistics_io import packed_statistics
from saddleback.ope.text_report import format_result_verbose

from .mutations import changed_data, damaged
from .trial import Answer, Trial, printed


@functools.cache
def folder_of_files() -> dict[str, bytes]:
    """Return a saved result, statistics and a system, as bytes."""
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    log = sb.collect(walk, episodes=60, rng=0)
    features = sb.features.OneHot(5)
    result = sb.evaluate(log, {"new": walk.target}, features=features, gamma=0.9, path=True)
    plain = result.as_dict() | {"made": {"command": "x", "versions": {}, "seed": 0}}
    sums = sb.Statistics.of(
        log, [sb.GES(0.5), sb.GES(0.0)], {"new": walk.target}, features=features, gamma=0.9
    )
    with tempfile.TemporaryDirectory() as folder:
        system = sb.System.exact(sb.problems.two_state(0.9), sb.GES(0.5))
        path = sb.system.save(system, Path(folder) / "system.npz")
        return {
            "result": json_text(plain | {"digest": digest(plain)}).encode(),
            "statistics": packed_statistics(sums),
            "system": path.read_bytes(),
        }


def explain_file(path: Path) -> Answer:
    """Return the text of a saved result."""
    return Answer(content=format_result_verbose(read_result(path)))


def evaluated(path: Path) -> Answer:
    """Return what the command prints for statistics."""
    return printed("evaluate", path)


def loaded(path: Path) -> Answer:
    """Return a saved system as text."""
    return Answer(content=repr(sb.system.load(path)))


USES: dict[str, Callable[[Path], Answer]] = {
    "result": explain_file, "statistics": evaluated, "system": loaded,
}  # fmt: skip
"""What reads each file."""


@functools.cache
def undamaged(kind: str) -> Answer:
    """Return what is read from a file without damage."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / kind).write_bytes(folder_of_files()[kind])
        return USES[kind](Path(folder) / kind)


def _trial(kind: str, damage: str, content: bytes, forged: bool = False) -> Trial:
    """Return the use of a file; one with a valid digest says what its editor meant."""

    def use(folder: Path) -> Answer:
        path = folder / kind
        path.write_bytes(content)
        answer = USES[kind](path)
        return Answer(answer.content, notes=frozenset({"forged"})) if forged else answer

    return Trial(damage, use, lambda: undamaged(kind))


@st.composite
def damaged_result(draw: st.DrawFn) -> Trial:
    """A saved result with damaged bytes or changed data, sometimes with a digest of these."""
    content = folder_of_files()["result"]
    if draw(st.booleans()):
        return _trial("result", *draw(damaged(content)))
    damage, plain = draw(changed_data(json.loads(content)))
    forged = isinstance(plain, dict) and "digest" in plain and draw(st.booleans())
    if forged:
        plain["digest"] = digest(plain)
    return _trial("result", f"{damage}{', forged' * forged}", json.dumps(plain).encode(), forged)


@st.composite
def damaged_arrays(draw: st.DrawFn, kind: str) -> Trial:
    """Saved statistics or a system with damaged bytes, or with a change and a hash of it."""
    content = folder_of_files()[kind]
    if draw(st.booleans()):
        return _trial(kind, *draw(damaged(content)))
    return _trial(kind, *draw(_forged(content)), forged=True)


def _array(array: Any) -> st.SearchStrategy[Any]:
    """Arrays of another shape, type or content."""
    shape = np.shape(array)
    return st.sampled_from((
        array[:0] if array.ndim else array, array[None], np.zeros_like(array), array.astype(str),
        array.astype(complex), np.zeros((*shape[:-1], 0)), np.full(shape, np.nan),
        np.zeros(shape, "M8[s]"), np.asfortranarray(array), np.full(shape, -1), array != 0,
        np.full(shape, np.inf), array.astype(">f4"), np.zeros(shape, [("x", "f8")]), array.ravel(),
        np.full(shape, 2**63, np.uint64),
    ))  # fmt: skip


@st.composite
def _forged(draw: st.DrawFn, content: bytes) -> tuple[str, bytes]:
    """What was changed, and a file with one change and a valid hash."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays.pop("words")))
    del arrays["digest"]
    if draw(st.booleans()):
        damage, metadata = draw(changed_data(metadata))
    else:
        name = draw(st.sampled_from(sorted(arrays)))
        if draw(st.integers(0, 9)) == 0:
            damage = f"no array {name}"
            del arrays[name]
        else:
            arrays[name] = draw(_array(arrays[name]))
            damage = f"array {name} {arrays[name].dtype} {arrays[name].shape}"
    buffer = io.BytesIO()
    try:
        pack(buffer, metadata, arrays)
    except (TypeError, ValueError, zipfile.BadZipFile):
        return damage, content[:100]
    return damage, buffer.getvalue()
