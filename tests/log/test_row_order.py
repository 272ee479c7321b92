"""Rows that are not in order, ends that are not logged, and rewards only at the end."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from helpers.log_cases import error_matching, errors_of, good, with_value, without
from helpers.logs import assert_same_content, columns, content, mixed
from saddleback.errors import InvalidParameter, UnknownName
from saddleback.log import Log, LogError, row_source, sorted_rows
from saddleback.log.column_types import FLAGS
from saddleback.log.missing_columns import HINTS
from saddleback.log.sorted_rows import SortedSource


def shuffled(data, seed=0):
    """Return the columns in a random order of rows, with a time instead of steps."""
    n = len(data["reward"])
    order = np.random.default_rng(seed).permutation(n)
    start = np.datetime64("2026-01-01T00:00:00")
    at = start + 1000 * data["episode_id"] + 7 * data["step"] ** 2
    return {
        name: column[order] for name, column in (data | {"at": at, "row": np.arange(n)}).items()
    }


def expected(data):
    """Return the columns sorted by episode and step, without steps."""
    order = np.lexsort((data["step"], data["episode_id"]))
    return {name: column[order] for name, column in data.items() if name != "step"}


@pytest.mark.parametrize("memory", [1 << 20, 64, 16, 5])
@pytest.mark.parametrize("ids", ["numbers", "text", "category", "view"])
@pytest.mark.slow
def test_shuffled_rows_are_sorted_in_memory_and_out_of_it(memory, ids, monkeypatch):
    monkeypatch.setattr(sorted_rows, "MEMORY_ROWS", memory)
    data = mixed()
    if ids == "numbers":
        names = data["episode_id"]
    else:
        names = np.array([f"visit {i:03}" for i in data["episode_id"]])
    rows = pa.table(shuffled(data) | {"episode_id": names[shuffled(data)["row"]]})
    if ids == "view":  # as polars has them
        index = rows.column_names.index("episode_id")
        views = rows["episode_id"].cast(pa.string_view())
        rows = rows.set_column(index, "episode_id", views)
    if ids == "category":
        index = rows.column_names.index("episode_id")
        parts = [rows.slice(0, 40), rows.slice(40)]
        rows = pa.concat_tables(
            part.set_column(index, "episode_id", part["episode_id"].dictionary_encode())
            for part in parts
        )
    log = Log(rows, order_by="at")
    assert_same_content(content(log), content(Log(expected(data | {"episode_id": names}))))
    assert_same_content(content(log), content(log))  # read again
    assert log.summary().findings == Log(expected(data)).summary().findings
    copy = pickle.loads(pickle.dumps(log.sources[0]))
    batches = [pa.Table.from_batches(s.batches(["reward", "at"])) for s in (copy, log.sources[0])]
    assert batches[0] == batches[1]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_times_may_be_text_in_the_usual_format(kind):
    rows = pa.table(shuffled(mixed()))
    times = pa.chunked_array([pa.array([str(t) for t in rows["at"].to_pylist()]).cast(kind)])
    text = rows.set_column(rows.column_names.index("at"), "at", times)
    assert_same_content(content(Log(text, order_by="at")), content(Log(rows, order_by="at")))
    bare = text.drop_columns(["step"])
    assert errors_of(Log(bare)).endswith('Sort the rows: order_by="at".')


def test_dates_with_dots_begin_with_the_day():
    rows = shuffled(good())
    days = np.array([f"{1 + 2 * (k % 2):02}.{1 + k // 2:02}.2026 10:00" for k in range(12)])
    by_day = content(Log(shuffled(good() | {"at": days}), order_by="at"))
    assert_same_content(by_day, content(Log(rows, order_by="step")))
    slashes = np.array([day.replace(".", "/") for day in days])
    with error_matching(
        LogError, "E143 column 'at' contains '01/01/2026 10:00': rows can be ordered by", "10:00. "
        "With slashes, the month may come before the day or after it. Convert it",
    ):  # fmt: skip
        Log(good() | {"at": slashes}, order_by="at")


def test_a_text_that_is_no_time_is_refused_wherever_it_is(monkeypatch):
    monkeypatch.setattr(row_source, "BATCH", 5)
    times = np.array(["2026-04-03 10:00"] * 11 + ["soon"])
    log = Log(good() | {"at": times}, order_by="at")
    with error_matching(LogError, "E143 column 'at' contains 'soon': rows can be ordered by"):
        content(log)


def test_files_are_sorted_together(tmp_path):
    rows = pa.table(shuffled(mixed()))
    for i, at in enumerate(range(0, 110, 37)):
        pyarrow.csv.write_csv(rows.slice(at, 37), tmp_path / f"{i}.csv")
    log = Log(str(tmp_path / "*.csv"), order_by="at")
    assert isinstance(log.sources[0], SortedSource)
    assert_same_content(content(log), content(Log(expected(mixed()))))
    assert log.with_options(min_prob=1e-9).sources[0] is log.sources[0]


def in_files(folder, *parts):
    """Write parts of a log to files, and return it, sorted by time."""
    for i, part in enumerate(parts):
        pyarrow.csv.write_csv(pa.table(part), folder / f"{i}.csv")
    return Log([folder / f"{i}.csv" for i in range(len(parts))], order_by="at")


def continued(log):
    """Return the warnings about episodes that continue in another file."""
    return [str(finding) for finding in log.summary().findings if finding.code == "W136"]


@pytest.mark.parametrize("memory", [1 << 20, 16])
def test_files_that_number_their_episodes_anew_are_reported(memory, tmp_path, monkeypatch):
    monkeypatch.setattr(sorted_rows, "MEMORY_ROWS", memory)
    rows = without("step", "terminated", "truncated", data=good(mu=False))
    rows |= {"terminated": np.zeros(12, bool), "truncated": np.zeros(12, bool)}
    at = np.datetime64("2026-01-01T00:00:00") + np.arange(12).astype("timedelta64[s]")
    ids = [f"S{i:02}" for i in rows["episode_id"]]
    hours = np.arange(2).astype("timedelta64[h]")
    first, second = (rows | {"at": at + hour, "episode_id": ids} for hour in hours)
    (warning,) = continued(in_files(tmp_path, first, second))
    assert warning == (
        f"W136 3 episodes (first: S10 in {tmp_path}/0.csv and {tmp_path}/1.csv) continue in "
        "another file after an unusual pause, and are read as one. If the files number their "
        "episodes anew, make the ids distinct."
    )
    both = {name: np.concatenate([first[name], second[name]]) for name in first}
    assert not continued(Log(both, order_by="at"))  # one table
    shards = [{name: column[k::2] for name, column in both.items()} for k in (0, 1)]
    assert not continued(in_files(tmp_path, *shards))  # of which the rows overlap
    months = [{n: column[part] for n, column in both.items()} for part in (slice(6), slice(6, 12))]
    assert not continued(in_files(tmp_path, *months))  # after the usual pause


def test_temporary_files_are_removed_with_the_log(monkeypatch, tmp_path):
    monkeypatch.setattr(sorted_rows, "MEMORY_ROWS", 20)
    monkeypatch.setattr(sorted_rows.tempfile, "tempdir", str(tmp_path))
    log = Log(shuffled(mixed()), order_by="at")
    content(log)
    assert len(list(tmp_path.glob("saddleback-*/*.arrow"))) == 6
    del log
    assert not list(tmp_path.iterdir())


def test_rows_can_be_sorted_by_steps_with_gaps():
    data = mixed()
    steps = data | {"step": 4 * data["step"] + 3}
    assert "E130" in errors_of(Log(steps))
    assert_same_content(content(Log(steps, order_by="step")), content(Log(expected(data))))


def test_rows_of_equal_time_keep_their_order_and_are_counted():
    data = good() | {"at": np.repeat([1, 2, 3, 4, 5, 6], 2)}
    log = Log(data, order_by="at")
    assert_same_content(content(log), content(Log(expected(good()))))
    (finding,) = [f for f in log.summary().findings if f.code == "W135"]
    assert str(finding) == (
        "W135 6 rows have the same at as another row of their episode; they keep the order of the "
        "log."
    )


def test_columns_that_cannot_order_rows_are_refused():
    with error_matching(LogError, "E100 column 'at', by which rows are to be ordered, is missing."):
        Log(good(), order_by="at")
    with error_matching(LogError, "E143 column 'at' contains '3/4/2026': rows can be ordered by"):
        Log(good() | {"at": np.array(["3/4/2026"] * 12)}, order_by="at")
    for missing in (np.nan, None):
        log = Log(with_value("at", [3], missing, good() | {"at": np.arange(12.0)}), order_by="at")
        with error_matching(
            LogError, "E121 at has no value in 1 row (row 3): they cannot be ordered. Fill in the "
            'values, or sort by another column: order_by="step".',
        ):  # fmt: skip
            content(log)


@pytest.mark.parametrize("memory", [1 << 20, 5])
@pytest.mark.parametrize("flag", ["terminated", "episode_id"])
def test_rows_are_numbered_as_in_the_log_also_if_they_are_sorted(flag, memory, monkeypatch):
    monkeypatch.setattr(sorted_rows, "MEMORY_ROWS", memory)
    data = good() | {"at": np.arange(12)[::-1]}
    log = Log(with_value(flag, [1, 2], None, data), order_by="at")
    assert f"E121 {flag} has no value in 2 rows (rows 2, 1)." in errors_of(log)


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
@pytest.mark.parametrize("segment", [2, 3, 1 << 16])
def test_ends_that_are_not_logged_are_marked(flag, segment):
    data = columns([3, 1, 5], flag)
    bare = without("terminated", "truncated", data=data)
    log = Log(bare, episodes_end=flag, segment=segment)
    assert_same_content(content(log), content(Log(data, segment=segment)))
    summary = log.summary()
    assert getattr(summary, flag) == 3
    assert summary.stops == 0
    assert "3 episodes marked as ended on the last row" in summary.text
    other = Log(without("truncated", data=data), episodes_end="truncated", segment=segment)
    assert_same_content(content(other), content(Log(data, segment=segment)))


@pytest.mark.parametrize(("present", "missing"), [FLAGS, FLAGS[::-1]])
def test_a_flag_may_be_missing_if_the_other_ends_all_episodes(present, missing, tmp_path):
    data = columns([3, 1, 5], present, mu=False)
    log = Log(without(missing, data=data))
    assert_same_content(content(log), content(Log(data)))
    assert_same_content(content(Log(log.write_repaired(tmp_path / "l.parquet"))), content(log))
    with pytest.raises(LogError) as caught:
        Log(without(missing, "reward", data=data))
    assert missing not in str(caught.value)
    ended = data[present] & (data["episode_id"] > 10)
    (message,) = errors_of(Log(without(missing, data=data | {present: ended}))).splitlines()
    hint = HINTS[missing]
    assert message == (
        f"E100 column {missing!r} is missing ({hint}). The log has episode_id, step, obs_0, obs_1, "
        f"action, reward, {present}, next_obs_0, next_obs_1, behavior_prob. Add or map it. If all "
        f'other episodes end in this way: episodes_end="{missing}".'
    )


def test_only_ends_without_a_flag_are_marked():
    data = columns([3, 3, 3], ["terminated", "truncated", "terminated"])
    data["terminated"][8] = False
    summary = Log(data, episodes_end="truncated").summary()
    assert (summary.terminated, summary.truncated, summary.altered.marked) == (1, 2, 1)
    with pytest.raises(UnknownName, match="episodes_end"):
        Log(data, episodes_end="stopped")


def test_missing_rewards_are_filled_in():
    data = columns([3, 1, 5], "terminated")
    last = np.append(data["episode_id"][1:] != data["episode_id"][:-1], True)
    sparse = data | {"reward": np.where(last, data["reward"], np.nan)}
    zeros = data | {"reward": np.where(last, data["reward"], 0.0)}
    text = errors_of(Log(sparse))
    assert text.startswith("E120 reward is NaN in 6 rows (first: episode 10 step 0). Rewards that")
    assert text.endswith("known only at the end are 0 before it: fill_reward=0.")
    with pytest.raises(LogError, match=r"E122 every .* nothing\. Rewards .*: fill_reward=0\.$"):
        content(Log(sparse | {"obs_0": np.where(last, np.nan, 1.0)}, drop_bad="episode"))
    log = Log(sparse, fill_reward=0)
    assert_same_content(content(log), content(Log(zeros)))
    assert "6 missing rewards filled in" in log.summary().text
    some = with_value("reward", [1], np.nan, data)
    assert errors_of(Log(some)).endswith('or drop the episode: drop_bad="episode".')
    with pytest.raises(InvalidParameter, match="fill_reward must be"):
        Log(sparse, fill_reward=np.nan)


def test_repairs_are_part_of_how_a_log_is_read():
    data = shuffled(columns([3, 1, 5], "terminated"))
    log = Log(data, order_by="at", episodes_end="truncated", fill_reward=0.0)
    assert log.read_options == (
        "time_limit=\"artifact\", order_by='at', episodes_end='truncated', fill_reward=0.0"
    )


@pytest.mark.parametrize("kind", ["lists", "features", "continuous", "mu", "bandit"])
def test_repaired_logs_read_back_unchanged(kind, tmp_path):
    data = shuffled(mixed())
    if kind == "lists":
        data = {name: column for name, column in data.items() if "obs" not in name}
        data |= {"obs": np.random.default_rng(1).normal(size=(110, 2))}
    elif kind == "features":
        data = {name.replace("obs_", "phi_"): column for name, column in data.items()}
    elif kind == "continuous":
        data = {name: column for name, column in data.items() if "mu" not in name}
        data |= {"action_0": data.pop("action") / 2, "action_1": data["reward"]}
    options = {"bandit": True} if kind == "bandit" else {"order_by": "at"}
    if kind == "bandit":
        data = {n: c for n, c in data.items() if n not in ("episode_id", "terminated", "truncated")}
    log = Log(data, **options, drop_bad="episode")
    repaired = Log(log.write_repaired(tmp_path / "log.parquet", gamma=0.5))
    assert_same_content(content(repaired), content(log))
    assert repaired.metadata["gamma"] == 0.5
    assert repaired.observation_names == log.observation_names


def test_single_decisions_are_not_sorted():
    with pytest.raises(InvalidParameter, match="order_by has no meaning for single decisions"):
        Log(good(), bandit=True, order_by="step")


def test_the_column_to_sort_by_is_named_also_if_it_holds_numbers():
    data = without("step", data=shuffled(good(mu=False)))
    data["chart_time"] = data.pop("at").astype(np.int64)
    assert 'Sort the rows: order_by="chart_time".' in errors_of(Log(data))
