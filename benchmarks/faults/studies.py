"""Strategies of changed study files, and of damaged folders of results."""

from __future__ import annotations

import atexit
import functools
import json
import logging
import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st

from saddleback.sweep import Store, read_study, run_study

from .mutations import changed_data, changed_text, damaged
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


@st.composite
def changed_study(draw: st.DrawFn) -> Trial:
    """A changed text of a study; a valid change is another study, which its manifest states."""
    damage, text = draw(changed_text(STUDY))
    if draw(st.integers(0, 2)) == 0:
        more, text = draw(changed_text(text))
        damage = f"{damage}; {more}"

    def use(folder: Path) -> Answer:
        return _settings(folder, text)

    return Trial(damage, use, _original)


@functools.cache
def _original() -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        return Answer(_settings(Path(folder), STUDY).content)


def _settings(folder: Path, text: str) -> Answer:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return Answer(json.dumps(read_study(path).as_dict()), notes=frozenset({"stated"}))


@functools.cache
def finished() -> Path:
    """Return a finished store, in a folder with its study."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    run_study(folder / "study.toml", folder / "results", workers=1)
    return folder


@functools.cache
def finished_rows() -> Answer:
    """Return the results of the finished store."""
    return _rows(Store.load(finished() / "results"))


@st.composite
def damaged_store(draw: st.DrawFn) -> Trial:
    """A store with damaged, removed or exchanged files, whose study is run again."""
    results = finished() / "results"
    names = sorted(path.relative_to(results) for path in results.rglob("*") if path.is_file())
    contents = {name: (results / name).read_bytes() for name in names}
    damages = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(contents)))
        kind = draw(st.sampled_from(("bytes", "remove", "exchange", "empty", "data", "folder")))
        if kind == "data" and name.suffix == ".json":
            try:
                plain = json.loads(contents[name])
            except ValueError:
                continue
            kind, plain = draw(changed_data(plain))
            contents[name] = json.dumps(plain).encode()
        elif kind == "remove":
            del contents[name]
        elif kind == "folder":
            contents[name / "x"] = contents.pop(name)
        elif kind == "exchange":
            contents[name] = contents[draw(st.sampled_from(sorted(contents)))]
        elif kind == "empty":
            contents[name] = b""
        elif contents[name]:
            kind, contents[name] = draw(damaged(contents[name]))
        damages.append(f"{kind} {name}")

    def use(folder: Path) -> Answer:
        (folder / "study.toml").write_text(STUDY, encoding="utf-8")
        for name, content in contents.items():
            (folder / "results" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "results" / name).write_bytes(content)
        return _resumed(folder)

    return Trial("; ".join(damages), use, finished_rows)


def _rows(store: Store) -> Answer:
    table = store.table()
    return Answer({name: table[name].to_pylist() for name in table.column_names}.__repr__())


def _resumed(folder: Path) -> Answer:
    """Run the study again, and read the results."""
    logging.getLogger("saddleback").setLevel(logging.ERROR)
    return _rows(run_study(folder / "study.toml", folder / "results", workers=1))
