"""Damage to saved results, statistics and systems."""

from __future__ import annotations

import functools
import io
import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import saddleback as sb
from saddleback._json import json_text
from saddleback._npz import pack
from saddleback.cli.cmd_explain import read_result
from saddleback.ope.result_schema import digest
from saddleback.ope.statistics_io import packed_statistics
from saddleback.ope.text_report import format_result_verbose

from .mutations import change_data, damage_bytes
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


def explain(path: Path) -> Answer:
    """Return the text of a saved result."""
    return Answer(content=format_result_verbose(read_result(path)))


def damaged_result(rng: np.random.Generator, folder: Path) -> Trial:
    """Damage the bytes or the data of a saved result; a forged digest is the editor's."""
    path, content = folder / "result.json", folder_of_files()["result"]
    path.write_bytes(content)
    reference = explain(path)
    if rng.random() < 0.5:
        damage, content = damage_bytes(rng, content)
    else:
        damage, plain = change_data(rng, json.loads(content))
        if rng.random() < 0.5 and isinstance(plain, dict) and "digest" in plain:
            plain["digest"], damage = digest(plain), f"{damage}, digest forged"
        content = json.dumps(plain).encode()
    path.write_bytes(content)
    if "forged" not in damage:
        return Trial(damage, lambda: explain(path), reference)
    return Trial(damage, lambda: _edited(explain(path)), reference)


def _edited(answer: Answer) -> Answer:
    """Mark the answer of a file with a valid digest: whoever wrote it meant what it holds."""
    return Answer(answer.content, notes=frozenset({"forged"}))


def evaluated(path: Path) -> Answer:
    """Return what the command prints for statistics."""
    return printed("evaluate", path)


def damaged_statistics(rng: np.random.Generator, folder: Path) -> Trial:
    """Damage the bytes of saved statistics, or change an array or a setting and renew its hash."""
    path = folder / "day.stats"
    path.write_bytes(folder_of_files()["statistics"])
    reference = evaluated(path)
    if rng.random() < 0.5:
        damage, content = damage_bytes(rng, folder_of_files()["statistics"])
        path.write_bytes(content)
        return Trial(damage, lambda: evaluated(path), reference)
    damage = _forge(rng, folder_of_files()["statistics"], path)
    return Trial(damage, lambda: _edited(evaluated(path)), reference)


def damaged_system(rng: np.random.Generator, folder: Path) -> Trial:
    """Damage the bytes of a saved system, or change an array or its rule and renew its hash."""
    path = folder / "system.npz"
    path.write_bytes(folder_of_files()["system"])
    reference = _loaded(path)
    if rng.random() < 0.5:
        damage, content = damage_bytes(rng, folder_of_files()["system"])
        path.write_bytes(content)
        return Trial(damage, lambda: _loaded(path), reference)
    damage = _forge(rng, folder_of_files()["system"], path)
    return Trial(damage, lambda: _edited(_loaded(path)), reference)


def _loaded(path: Path) -> Answer:
    return Answer(content=repr(sb.system.load(path)))


def _forge(rng: np.random.Generator, content: bytes, path: Path) -> str:
    """Write a file with one change and a valid hash; return what was changed."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays.pop("words")))
    del arrays["digest"]
    if rng.random() < 0.5:
        damage, metadata = change_data(rng, metadata)
    else:
        name = sorted(arrays)[rng.integers(len(arrays))]
        array, kind = arrays[name], int(rng.integers(8))
        arrays[name] = (
            array[:0] if array.ndim else array, array[None], np.zeros_like(array),
            array.astype(str), array.astype(complex), np.zeros((*array.shape[:-1], 0)),
            np.full(array.shape, np.nan), np.zeros(array.shape, "M8[s]"),
        )[kind]  # fmt: skip
        damage = f"array {name}, {kind}"
    try:
        with path.open("w+b") as file:
            pack(file, metadata, arrays)
    except (TypeError, ValueError, zipfile.BadZipFile):
        path.write_bytes(content[:100])
    return damage
