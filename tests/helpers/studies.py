"""Small studies, and how to run them here and in a process of their own."""

import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from saddleback.cli.group import group
from saddleback.sweep import Store, read_study, run_tasks, tasks_of, threads

SMALL = """\
title = "small"
seed = 7
runs = 3
steps = 200
checkpoints = 4
metrics = ["mspbe", "mse", "norm"]
theta0 = 1.0

[grid]
alpha = [0.05, 0.1, 0.2]
ratio = [0.5, 1.0]

[[problem]]
name = "two_state"
gamma = 0.9

[[problem]]
name = "random_mdp"
each = { rng = [1, 2] }

[[rule]]
name = "GES"
lam = [0.0, 0.5]

[[rule]]
name = "ExpectedSarsa"
lam = 0.5
"""

GOOD = """\
steps = 100
seed = 1
runs = 2
[grid]
alpha = [0.1, 0.2]
ratio = [1.0]
[[problem]]
name = "two_state"
[[rule]]
name = "GES"
lam = [0.0, 0.5]
"""


def changed(old, new):
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def written(folder, text=SMALL, name="study.toml"):
    """Write a study file; return its path."""
    path = Path(folder) / name
    path.write_text(text, encoding="utf-8")
    return path


def finished(path, out, *, share=None, workers=2):
    """Run a study here, as the command does; return its rows."""
    study = read_study(path) if share is None else read_study(path, share=share)
    with threads(workers) as place, Store.open(out, study.as_dict(), "") as store:
        run_tasks(tasks_of(study, path.parent), store, place)
        return store.table()


def ordered(rows):
    """Return rows in an order that does not depend on how they were shared out."""
    keys = ("problem", "rule", "run", "point", "alpha", "beta")
    return rows.sort_by([(key, "ascending") for key in keys])


def bits(rows):
    """Return every column of rows, ordered, to be compared to the bit."""
    columns = {name: ordered(rows)[name].to_numpy() for name in rows.column_names}
    return {
        name: column.tolist() if column.dtype == object else column.tobytes()
        for name, column in columns.items()
    }


def shards(store):
    """Return the bytes of every shard of a store, by its name."""
    return {path.name: path.read_bytes() for path in (store / "shards").glob("*.parquet")}


def command(*arguments):
    """Return the command line of `saddleback` in a process of its own."""
    return [sys.executable, "-m", "saddleback", *map(str, arguments)]


@dataclass
class Ended:
    """How a command ended that was run here."""

    exit_code: int
    stdout: str
    stderr: str


def invoked(*arguments):
    """Run `saddleback` here, which spares a second of imports; messages are not broken."""
    done = CliRunner().invoke(group, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ended(done.exit_code, done.stdout, unbroken(done.stderr))


def sweep(*arguments):
    """Run `saddleback sweep` here; messages are not broken into lines."""
    return invoked("sweep", *arguments)


def unbroken(text):
    """Return text with lines joined that were broken because the next word did not fit."""
    lines = text.split("\n")
    found = lines[:1]
    for before, line in itertools.pairwise(lines):
        goes_on = re.match(r"  (\S+)", line)
        if goes_on and len(before) + 1 + len(goes_on[1]) > 79:
            found[-1] += f" {line[2:]}"
        else:
            found.append(line)
    return "\n".join(found)
