"""Studies of a function: settings, arguments, results, and errors in the file."""

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.studies import errors_in, run_study_rows, sweep, write_study
from saddleback.errors import InvalidParameter
from saddleback.sweep import (
    Store,
    Study,
    StudyError,
    plan,
    read_results,
    read_study,
    run_study,
    run_tasks,
    tasks_of,
    threads,
)
from saddleback.sweep.function_file import MAX_TASKS
from saddleback.sweep.store import join_rows

MODULE = """\
import numpy as np

def power(base, exponent, offset=0, rng=None, run=0):
    return {"result": base**exponent + offset, "draw": rng.random(), "twice": 2 * run}


def line(slope, steps):
    return {"x": range(steps), "y": [slope * x for x in range(steps)]}


def ragged(slope):
    return {"x": [1, 2], "y": [1, 2, 3]}


def number(slope, **settings):
    return slope * settings["factor"] + settings["seed"]


def square(slope):
    return {"x": [[1, 2], [3, 4]]}


def masked(slope):
    return np.ma.masked_array([slope, 2], [False, True])


def repeated(slope):
    return {"slope": slope}


def product(a, b, rng):
    return {"product": a * b, "draw": rng.random()}


def typed(label, x):
    return type(x).__name__


def moment(x):
    import datetime
    return {"day": datetime.date(2020, 1, 2), "bits": b"\\x01a", "long": datetime.timedelta(1)}


def halfway(x, progress):
    progress(0.5)
    progress(0.9, "almost done")
    return x


def mixed(slope):
    return "flat" if slope == 0 else slope
"""

POWERS = """\
function = "mine.py:power"
seed = 3
runs = 2
[parameters]
offset = 10
[[setting]]
base = [2, 3]
exponent = { from = 0, to = 4, count = 3 }
[[setting]]
base = 0.5
exponent = { from = 1, to = 2, count = 3 }
[quick]
runs = 1
setting = { base = 1 }
parameters = { offset = 0 }
"""


@pytest.fixture
def home(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    return tmp_path


def test_a_function_is_called_with_every_setting_and_run(home):
    rows = run_study_rows(write_study(home, POWERS), home / "out").to_pylist()
    settings = [(b, e) for b in (2, 3) for e in (0, 2, 4)] + [(0.5, e) for e in (1, 1.5, 2)]
    expected = [(b, e, run, b**e + 10, 2 * run) for b, e in settings for run in (0, 1)]
    names = ("base", "exponent", "run", "result", "twice")
    assert [tuple(row[name] for name in names) for row in rows] == expected
    assert len({row["draw"] for row in rows}) == len(rows)
    third = np.random.SeedSequence(3, spawn_key=(1, 0))
    assert rows[2]["draw"] == np.random.default_rng(third).random()


def test_the_order_of_arguments_makes_no_difference(home):
    before = 'function = "mine.py:product"\n[[setting]]\na = [1, 2]\nb = [3, 4, 5]\n'
    after = before.replace("a = [1, 2]\nb = [3, 4, 5]", "b = [3, 4, 5]\na = [1, 2]")
    study = read_study(write_study(home, before))
    expected = run_study_rows(write_study(home, before), home / "all")
    with threads(1) as executor, Store.open(home / "out", study.as_dict(), "") as store:
        run_tasks(tasks_of(study, home)[:3], store, executor)
    assert run_study(write_study(home, after), home / "out").table().equals(expected)


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        ('[[setting]]\nlabel = "a"\nx = 1\n[[setting]]\nlabel = "a"\nx = 2\n',
         '[[setting]]\nlabel = "a"\nx = 7\n[[setting]]\nlabel = "a"\nx = 2\n',
         r"settings: 0: x is \[1\] there and \[7\] here"),
        ('[[setting]]\nlabel = "a"\nx = 1\n', '[[setting]]\nlabel = "a"\nx = true\n',
         r"settings: \['a'\]: x is \[1\] there and \[True\] here"),
        ('parameters = { x = 1 }\n[[setting]]\nlabel = "a"\n',
         'parameters = { x = 1.0 }\n[[setting]]\nlabel = "a"\n',
         r"parameters: x is 1 there and 1\.0 here"),
    ],
)  # fmt: skip
def test_results_of_other_settings_are_not_mixed(home, before, after, difference):
    head = 'function = "mine.py:typed"\n'
    rows = run_study_rows(write_study(home, head + before), home / "out")
    with pytest.raises(InvalidParameter, match=f"holds another study: {difference}"):
        run_study_rows(write_study(home, head + after), home / "out")
    assert Store.load(home / "out").table().equals(rows)


def test_a_quick_run_replaces_settings_and_single_parameters(home):
    study = read_study(write_study(home, POWERS), quick=True)
    assert (study.runs, study.parameters, study.quick) == (1, {"offset": 0}, True)
    assert [table["base"] for table in study.settings] == [[1], [1]]
    assert Study.from_dict(json.loads(json.dumps(study.as_dict()))) == study


def test_results_do_not_depend_on_tasks_and_threads(home, monkeypatch):
    path = write_study(home, POWERS)
    rows = [run_study_rows(path, home / "one", workers=1)]
    study = read_study(path)
    monkeypatch.setattr("saddleback.sweep.function_file.MAX_TASKS", 5)
    assert len(tasks_of(study, home)) == 18  # as when it was read
    assert len(tasks_of(read_study(path), home)) == 5
    rows.append(run_study_rows(path, home / "three", workers=3))
    keys = ("base", "exponent", "run")
    first, second = (own.sort_by([(key, "ascending") for key in keys]) for own in rows)
    assert first.equals(second)


def test_columns_are_rows_and_a_number_has_the_name_of_its_function(home):
    text = 'function = "mine.py:line"\n[parameters]\nsteps = 3\n[[setting]]\nslope = [1.5, 2.0]\n'
    rows = run_study_rows(write_study(home, text), home / "line").to_pydict()
    assert (rows["x"], rows["y"]) == ([0, 1, 2] * 2, [0.0, 1.5, 3.0, 0.0, 2.0, 4.0])
    text = 'function = "mine.py:number"\nseed = 1\nparameters = { factor = 10 }\n' \
           '[[setting]]\nslope = [1, 2]\n'  # fmt: skip
    rows = run_study_rows(write_study(home, text), home / "number").to_pydict()
    assert rows == {"slope": [1, 2], "run": [0, 0], "number": [11, 21]}


def test_masked_results_are_missing(home):
    text = 'function = "mine.py:masked"\n[[setting]]\nslope = 1\n'
    rows = run_study_rows(write_study(home, text), home / "out")
    assert rows["masked"].to_pylist() == [1, None]


def test_results_of_several_types_are_refused(home):
    text = 'function = "mine.py:mixed"\n[[setting]]\nslope = [0, 1]\n'
    path = write_study(home, text)
    error = r"^results of several types are no table: Field mixed has .* Finished tasks are kept\."
    for _ in range(2):
        with pytest.raises(InvalidParameter, match=error):
            run_study_rows(path, home / "out", workers=1)
        assert [shard.stem for shard in (home / "out" / "shards").iterdir()] == ["call0000000"]
    with pytest.raises(InvalidParameter, match=r"^results of several types are no table: Field mi"):
        join_rows([pa.table({"mixed": ["flat"]}), pa.table({"mixed": [1]})])


def test_integers_that_a_column_of_floats_would_round_are_refused():
    tables = [pa.table({"x": [2**53 + 1]}), pa.table({"x": [0.5]})]
    with pytest.raises(InvalidParameter, match=r"^results of several types are no table: Integer"):
        join_rows(tables)


def test_progress_can_be_reported_where_nobody_sees_it(home):
    """As on a cluster."""
    path = write_study(home, 'function = "mine.py:halfway"\n[[setting]]\nx = 1\n')
    (task,) = tasks_of(read_study(path), home)
    assert pq.read_table(pa.BufferReader(task.work(None)))["halfway"].to_pylist() == [1]


def test_many_calls_share_tasks(home):
    values = "{ from = 1, to = 1050, count = 1050 }"
    text = f'function = "mine.py:repeated"\n[[setting]]\nslope = {values}\n'
    study = read_study(write_study(home, text))
    sizes = [task.size for task in tasks_of(study, home)]
    assert sum(sizes) == 1050
    assert len(sizes) <= MAX_TASKS


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ragged", "ragged returns columns of different lengths: {'x': 2, 'y': 3}."),
        ("repeated", "repeated returns 'slope', which is also one of its settings."),
        ("square", "square returns 'x' of shape [2, 2]: a column has one dimension."),
    ],
)
def test_results_that_are_no_table_are_refused(home, name, message):
    text = f'function = "mine.py:{name}"\n[[setting]]\nslope = 1\n'
    with pytest.raises(InvalidParameter) as raised:
        run_study(write_study(home, text), home / "out")
    assert str(raised.value) == message


def test_a_changed_file_is_refused(home):
    study = read_study(write_study(home, POWERS))
    (home / "mine.py").write_text(MODULE + "\n")
    with pytest.raises(InvalidParameter, match=r"mine\.py has changed since the study was read"):
        run_study(study, home / "out", folder=home)


@pytest.mark.parametrize(
    ("old", "new", "errors"),
    [
        ("base = 0.5", "bse = 0.5",
         ["10: unknown key 'bse' in [[setting]] of power. Did you mean 'base'? Known: base, "
          "exponent, offset, rng, run."]),
        ("base = 0.5\n", "", ["9: power: missing a required argument: 'base'."]),
        ("base = 0.5", "base = []", ["10: base is an empty list."]),
        ("seed = 3", "seed = -1",
         ["2: seed must be a whole number from 0 to 1,000,000,000,000, got -1."]),
        ("runs = 2", "steps = 2",
         ["3: unknown key 'steps'. Known: function, title, seed, runs, "
          "parameters, setting, quick."]),
        ("count = 3 }\n[[", "number = 3 }\n[[",
         ["8: exponent must be a number, a text, true or false, a list of them, or { from = 0.0, "
          "to = 1.0, count = 11 }, got {'from': 0, 'to': 4, 'number': 3}."]),
        ("from = 0,", "from = inf,",
         ["8: exponent must be a number, a text, true or false, a list of them, or { from = 0.0, "
          "to = 1.0, count = 11 }, got {'from': inf, 'to': 4, 'count': 3}."]),
        ("base = 0.5", "base = 1979-05-27",
         ["10: base must be a number, a text, true or false, a list of them, or { from = 0.0, "
          "to = 1.0, count = 11 }, got datetime.date(1979, 5, 27)."]),
        ("function =", "funtion =",
         ["1: unknown key 'funtion'. Did you mean 'function'? Known: function, title, seed, runs, "
          "parameters, setting, quick."]),
        ('function = "mine.py:power"', "",
         ['1: no function given: add function = "path/to/module.py:function".']),
        ('"mine.py:power"', '""', ['1: function must be "path/to/module.py:function", got \'\'.']),
        ("base = 0.5", "base = [true, 1]",
         ["10: base is a number and true or false: all its values need the same type."]),
        ("base = 0.5", 'base = "half"',
         ["10: base is a number and a text: all its values need the same type."]),
        ("base = 0.5", "base = [0.5, 9007199254740993]",
         ["10: no column can hold the values of base: Integer value 9007199254740993 is outside of "
          "the range exactly representable by a IEEE 754 double precision value."]),
        ("base = [2, 3]", f"base = {10**20}",
         ["7: no column can hold the values of base: Python int too large to convert to C long."]),
        ("base = [2, 3]\n", 'base = 2\nrng = [[1], ["a"]]\n',
         ["8: no column can hold the values of rng: Could not convert 'a' with type str: tried to "
          "convert to int64."]),
        ("base = 0.5", "base = 0.5\nrun = 3",
         ["11: run comes from the study, for each call: rename yours."]),
        ("offset = 10", "ofset = 10",
         ["5: unknown key 'ofset' in [parameters] of power. Did you mean 'offset'? Known: base, "
          "exponent, offset."]),
        ("parameters = { offset = 0 }", "parameters = { ofset = 0 }",
         ["15: unknown key 'ofset' in [quick.parameters] of power. Did you mean 'offset'? Known: "
          "base, exponent, offset."]),
        *(
            ("offset = 10", f"offset = {value}",
             ["5: offset must be a finite number, a text, true or false, or lists and tables of "
              f"them, got {shown}."])
            for value, shown in (("1979-05-27", "datetime.date(1979, 5, 27)"), ("nan", "nan"),
                                 ("[inf]", "[inf]"))
        ),
        ("offset = 10", "offset = 10\nseed = 2",
         ["6: seed comes from the study, for each call: rename yours."]),
        ("to = 2, count = 3 }", "to = 2, count = 1000000 }",
         ["1: the settings need 2,000,012 calls; at most 1,000,000 are possible."]),
    ],
)  # fmt: skip
def test_errors_name_the_line(home, old, new, errors):
    assert POWERS.count(old) == 1
    assert errors_in(home, POWERS.replace(old, new)) == errors


def test_an_error_in_quick_parameters_is_reported_once(home):
    path = write_study(home, POWERS.replace("{ offset = 0 }", "{ ofset = 0 }"))
    with pytest.raises(StudyError) as raised:
        read_study(path, quick=True)
    assert str(raised.value).startswith(f"{path}:15: unknown key 'ofset' in [quick.parameters] of")
    assert "\n" not in str(raised.value)


def test_the_command_shows_results(home):
    path = write_study(home, POWERS)
    shown = sweep(path, "--out", home / "out", "--workers", 1)
    assert (shown.exit_code, "exponent" in shown.stdout) == (0, True)
    data = json.loads(sweep(path, "--out", home / "out", "--workers", 1, "--json").stdout)
    assert data["rows"] == Store.load(home / "out").table().to_pylist()


def test_dates_and_bytes_are_text_in_json(home):
    path = write_study(home, 'function = "mine.py:moment"\n[[setting]]\nx = 1\n')
    (row,) = json.loads(sweep(path, "--out", home / "out", "--json").stdout)["rows"]
    assert [row[name] for name in ("day", "bits", "long")] == [
        "2020-01-02", "0161", "1 day, 0:00:00",
    ]  # fmt: skip


def test_a_report_shows_learning_only(home):
    run_study(write_study(home, POWERS), home / "out")
    with pytest.raises(InvalidParameter, match=r"results of mine\.py:power: a report shows learni"):
        read_results(home / "out")
    assert len(Store.load(home / "out").table()) == 18  # as the message says


def test_arguments_have_the_same_columns_in_all_shards(home):
    """So that others can read them as one table."""
    text = 'function = "mine.py:number"\n' \
           '[[setting]]\nslope = [1, 2]\n[[setting]]\nslope = 0.5\nfactor = 3\n' \
           "[parameters]\nfactor = 10\n"  # fmt: skip
    run_study(write_study(home, text), home / "out")
    shards = [str(path) for path in sorted((home / "out" / "shards").iterdir())]
    rows = pl.concat([pl.read_parquet(shard)[:, :3] for shard in shards]).rows()
    assert rows == [(None, 1.0, 0), (None, 2.0, 0), (3, 0.5, 0)]


def test_only_learning_has_a_plan_and_a_gpu(home):
    study = read_study(write_study(home, POWERS))
    with pytest.raises(InvalidParameter, match=r"cost of mine\.py:power is unknown"):
        plan(study, home)
    with pytest.raises(InvalidParameter, match="only learners use a GPU"):
        study.on_device("cuda", 1)
    assert study.on_device("auto", 1) == study
