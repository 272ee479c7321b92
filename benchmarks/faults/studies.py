"""Changed study files, and damaged folders of results."""

from __future__ import annotations

import atexit
import functools
import json
import logging
import shutil
import tempfile
from pathlib import Path

import numpy as np

from saddleback.sweep import Store, read_study, run_study

from .mutations import change_data, change_text, damage_bytes
from .trial import Answer, Trial

STUDY = """\
title = "small"
seed = 7
runs = 2
steps = 20
checkpoints = 3
metrics = ["mspbe", "norm"]
theta0 = 1.0

[grid]
alpha = [0.05, 0.1]
ratio = { scale = 1.0, powers = [0, 1] }
schedule = "constant"

[[problem]]
name = "two_state"
each = { gamma = [0.5, 0.9] }

[[problem]]
name = "random_mdp"
rng = 3

[[rule]]
name = "GES"
lam = [0.0, 0.5]

[[rule]]
name = "ExpectedSarsa"
lam = 0.5
label = "ES"
"""


def changed_study(rng: np.random.Generator, folder: Path) -> Trial:
    """Change the text of a study; a valid change is another study, which its manifest states."""
    path = folder / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    reference = _settings(path)
    damage, text = change_text(rng, STUDY)
    if rng.random() < 0.3:
        more, text = change_text(rng, text)
        damage = f"{damage}; {more}"
    path.write_text(text, encoding="utf-8")
    return Trial(damage, lambda: _settings(path), Answer(reference.content))


def _settings(path: Path) -> Answer:
    return Answer(json.dumps(read_study(path).as_dict()), notes=frozenset({"stated"}))


@functools.cache
def finished() -> Path:
    """Return a finished store, in a folder with its study."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    run_study(folder / "study.toml", folder / "results", workers=1)
    return folder


def damaged_store(rng: np.random.Generator, folder: Path) -> Trial:
    """Damage, remove or exchange files of a store, then run the study again."""
    shutil.copytree(finished(), folder, dirs_exist_ok=True)
    out = folder / "results"
    reference = _rows(Store.load(out))
    files = sorted(path for path in out.rglob("*") if path.is_file())
    damages = []
    for _ in range(int(rng.integers(1, 4))):
        path = files[rng.integers(len(files))]
        kind = ("bytes", "remove", "exchange", "empty", "data")[rng.integers(5)]
        if kind == "data" and path.suffix == ".json" and path.exists():
            try:
                text, plain = change_data(rng, json.loads(path.read_bytes()))
            except ValueError:
                continue
            path.write_text(json.dumps(plain), encoding="utf-8")
            kind = text
        elif kind == "remove":
            path.unlink(missing_ok=True)
        elif kind == "exchange" and path.exists():
            path.write_bytes(files[rng.integers(len(files))].read_bytes())
        elif kind == "empty":
            path.write_bytes(b"")
        elif path.exists() and path.stat().st_size:
            kind, content = damage_bytes(rng, path.read_bytes())
            path.write_bytes(content)
        damages.append(f"{kind} {path.name}")
        files = [path for path in files if path.exists()]
    return Trial("; ".join(damages), lambda: _resumed(folder), reference)


def _rows(store: Store) -> Answer:
    table = store.table()
    return Answer({name: table[name].to_pylist() for name in table.column_names}.__repr__())


def _resumed(folder: Path) -> Answer:
    """Run the study again, and read the results."""
    logging.getLogger("saddleback").setLevel(logging.ERROR)
    return _rows(run_study(folder / "study.toml", folder / "results", workers=1))
