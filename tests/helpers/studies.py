"""Small studies, and functions to run them in this process or another."""

import itertools
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from saddleback.cli.group import group
from saddleback.sweep import Store, StudyError, read_study, run_tasks, tasks_of, threads

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


def edit_good_study(old, new):
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def write_study(folder, text=SMALL, name="study.toml"):
    """Write a study file; return its path."""
    path = Path(folder) / name
    path.write_text(text, encoding="utf-8")
    return path


def run_study_rows(path, out, *, share=None, workers=2):
    """Run a study in this process, as the command does; return its rows."""
    study = read_study(path) if share is None else read_study(path, share=share)
    with threads(workers) as executor, Store.open(out, study.as_dict(), "") as store:
        run_tasks(tasks_of(study, path.parent), store, executor)
        return store.table()


def sort_rows(rows):
    """Return rows in an order independent of their division into tasks."""
    keys = ("problem", "rule", "run", "point", "alpha", "beta")
    return rows.sort_by([(key, "ascending") for key in keys])


def bits(rows):
    """Return every column of the ordered rows, for bitwise comparison."""
    columns = {name: sort_rows(rows)[name].to_numpy() for name in rows.column_names}
    return {
        name: column.tolist() if column.dtype == object else column.tobytes()
        for name, column in columns.items()
    }


def shards(store):
    """Return the bytes of every shard of a store by name."""
    return {path.name: path.read_bytes() for path in (store / "shards").glob("*.parquet")}


def command(*arguments):
    """Return the command line of `saddleback` in a separate process."""
    return [sys.executable, "-m", "saddleback", *map(str, arguments)]


@dataclass
class CommandResult:
    """Outcome of a command that was run in this process."""

    exit_code: int
    stdout: str
    stderr: str


def invoke(*arguments):
    """Run `saddleback` in this process, which saves the imports; messages are unwrapped."""
    done = CliRunner().invoke(group, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return CommandResult(done.exit_code, done.stdout, unwrap(done.stderr))


def sweep(*arguments):
    """Run `saddleback sweep` in this process; messages are unwrapped."""
    return invoke("sweep", *arguments)


def unwrap(text):
    """Return text with wrapped lines joined."""
    lines = text.split("\n")
    joined = lines[:1]
    for before, line in itertools.pairwise(lines):
        continuation = re.match(r"  (\S+)", line)
        if continuation and len(before) + 1 + len(continuation[1]) > 79:
            joined[-1] += f" {line[2:]}"
        else:
            joined.append(line)
    return "\n".join(joined)


def shard_metadata(path):
    """The metadata in the schema of a shard."""
    return json.loads(pq.read_schema(path).metadata[b"saddleback"])


def errors_in(folder, text):
    """Return the errors in the text of a study, without the name of its file."""
    with pytest.raises(StudyError) as raised:
        read_study(write_study(folder, text))
    start = f"{folder / 'study.toml'}:"
    lines = str(raised.value).split("\n")
    assert all(line.startswith(start) for line in lines)
    return [line.removeprefix(start) for line in lines]
