"""Strategies of changed study files, and of damaged folders of results."""

from __future__ import annotations

import atexit
import functools
import json
import logging
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from saddleback.sweep import Store, read_study, run_study
from saddleback.sweep.manifest import study_hash

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

[quick]
runs = 1
steps = 10
problem = { theta0 = 0.5 }
"""

FUNCTION_STUDY = """\
title = "products"
function = "mine.py:product"
seed = 3
runs = 2

[parameters]
offset = 0.5

[[setting]]
first = [2, 3]
second = { from = 0, to = 4, count = 3 }

[[setting]]
first = 7
second = 1

[quick]
runs = 1
setting = { second = 5 }
parameters = { offset = 0.0 }
"""

MODULE = """\
def product(first, second, rng, offset=1.0):
    return {"result": first * second + offset, "draw": rng.random()}
"""

LARGEST = 1000
"""Runs or calls of a study that is run; of a larger one only the manifest is compared."""


@st.composite
def changed_study(draw: st.DrawFn) -> Trial:
    """A changed text of a study: other results need another manifest."""
    original, quick = draw(st.sampled_from((STUDY, FUNCTION_STUDY))), draw(st.booleans())
    damage, text = draw(changed_text(original))
    if draw(st.integers(0, 2)) == 0:
        more, text = draw(changed_text(text))
        damage = f"{damage}; {more}"

    def use(folder: Path) -> Answer:
        return results_and_manifest(folder, text, quick)

    return Trial(damage, use, functools.partial(_original, original, quick))


@functools.cache
def _original(text: str, quick: bool) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        return results_and_manifest(Path(folder), text, quick)


def results_and_manifest(folder: Path, text: str, quick: bool) -> Answer:
    """Run a study; return its rows, and the hash in its manifest, which tells it from others."""
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    (folder / "mine.py").write_text(MODULE, encoding="utf-8")
    study = read_study(path, quick=quick)
    stated = frozenset({study_hash(study.as_dict())})
    steps = sum(task.size for task in study.task_specs())
    if study.runs * (len(study.cases) + len(study.combinations())) > LARGEST or steps > 10**6:
        return Answer("not run", notes=stated)
    logging.getLogger("saddleback").setLevel(logging.ERROR)
    store = run_study(study, folder / "results", folder=folder)
    return replace(_rows(store), notes=frozenset({store.manifest["hash"]}))


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
