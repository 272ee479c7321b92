"""Chunked statistics of many files: bit-identical, resumable, without lost or repeated files."""

import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import saddleback as sb
from helpers.logs import columns
from helpers.user_rules import USER_MODULE
from saddleback.cli.group import group
from saddleback.errors import InvalidParameter
from saddleback.features import Polynomial
from saddleback.ope import load_statistics
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.rules.parse import located_text
from saddleback.sweep import ChunkedStatistics, statistics_chunks, threads
from saddleback.sweep.statistics_chunks import run_chunks

OPTIONS = [
    "--target", "uniform", "--gamma", "0.9", "--features", "polynomial:1", "--low=-5,-5",
    "--high=5,5", "--quiet",
]  # fmt: skip


LINE = Polynomial((-5.0, -5.0), (5.0, 5.0), degree=1)


def files(folder, lengths=((3, 5), (4,), (6, 2, 2), (1,), (7, 7)), torn=()):
    """Write a log as files of episodes with these lengths; some continue in the next file."""
    folder.mkdir(exist_ok=True)
    flat = [n for file_lengths in lengths for n in file_lengths]
    data = columns(flat, "terminated", actions=2)
    ends = np.cumsum([sum(file_lengths) for file_lengths in lengths])
    ends = [int(end) - (1 if k in torn else 0) for k, end in enumerate(ends)]
    starts = [0, *ends[:-1]]
    paths = []
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        paths.append(folder / f"day{k}.parquet")
        rows = {name: np.asarray(value)[start:end] for name, value in data.items()}
        pq.write_table(pa.table(rows), paths[-1])
    return [str(path) for path in paths]


def chunked(paths, gamma=0.9):
    log = sb.Log(paths)
    return ChunkedStatistics(log, (sb.GES(0.5), sb.GES(0.0)), {"even": "uniform"}, LINE, gamma)


def run_merged(job, folder, workers=1):
    tasks = job.tasks()
    with threads(workers) as place:
        return run_chunks(job, tasks, folder, place, "")


def equal(one, two):
    for name in ("A", "b", "M", "starts", "steps", "episodes", "squares", "ids", "fingerprints"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_array_equal(one.counts.visits, two.counts.visits)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(statistics_chunks, "MIN_ROWS", 6)
    monkeypatch.setattr(statistics_chunks, "BYTES_PER_ROW", 10**9)


def names(groups):
    return [[file.name.rsplit("day", 1)[1][0] for file in group] for group in groups]


@pytest.mark.usefixtures("small")
def test_chunks_are_consecutive_files_with_a_minimum_of_rows(tmp_path):
    assert names(chunked(files(tmp_path / "a")).chunks()) == [["0"], ["1", "2"], ["3", "4"]]


@pytest.mark.usefixtures("small")
def test_no_episode_is_split_between_chunks(tmp_path):
    paths = files(tmp_path / "a", torn=(0, 2))
    job = chunked(paths)
    assert names(job.chunks()) == [["0", "1"], ["2", "3"], ["4"]]
    statistics = run_merged(job, tmp_path / "parts")
    single_file = files(tmp_path / "b", lengths=((3, 5, 4, 6, 2, 2, 1, 7, 7),))
    other = run_merged(chunked(single_file), tmp_path / "other")
    np.testing.assert_allclose(statistics.A, other.A, atol=1e-12)
    np.testing.assert_array_equal(statistics.fingerprints, other.fingerprints)


def test_larger_statistics_get_larger_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(statistics_chunks, "MIN_ROWS", 1)
    job = chunked(files(tmp_path / "a"))
    p, pairs = 2 * LINE.size, 4
    monkeypatch.setattr(statistics_chunks, "BYTES_PER_ROW", 8 * pairs * 20 * p * p // 9)
    assert names(job.chunks()) == [["0", "1"], ["2"], ["3", "4"]]


@pytest.mark.usefixtures("small")
def test_results_are_bit_identical_for_any_number_of_workers(tmp_path):
    job = chunked(files(tmp_path / "a"))
    results = [run_merged(job, tmp_path / f"parts{n}", n) for n in (1, 2, 5)]
    for other in results[1:]:
        equal(results[0], other)
    one, two, three = (
        job.compute(sb.Log(list(paths), actions=["0", "1"])) for paths in job.chunks()
    )
    equal(results[0], one.merge(two.merge(three)))
    one_pass = job.compute(job.log)
    np.testing.assert_allclose(results[0].A, one_pass.A, atol=1e-12)
    np.testing.assert_array_equal(results[0].steps, one_pass.steps)


@pytest.mark.usefixtures("small")
def test_chunks_of_text_files_share_types_and_categories(tmp_path):
    """Each file alone would have other types, and other categories."""
    paths = files(tmp_path / "a")
    texts, tables = [], []
    for k, path in enumerate(paths):
        rows = pq.read_table(path)
        rows = rows.drop_columns([name for name in rows.column_names if name.startswith("next_")])
        ids = [f"x{i}" if k == 4 else str(i) for i in rows["episode_id"].to_pylist()]
        rows = rows.set_column(0, "episode_id", pa.array(ids))
        rows = rows.append_column("ward", pa.array([f"w{k % 2}"] * len(rows)))
        tables.append(rows)
        texts.append(path.replace(".parquet", ".csv"))
        pyarrow.csv.write_csv(rows, texts[-1])
    options = dict(observations=["obs_0", "ward"])
    features = Polynomial((-5.0, 0.0, 0.0), (5.0, 1.0, 1.0), degree=1)
    job = replace(chunked(paths), log=sb.Log(texts, **options), features=features)
    statistics = run_merged(job, tmp_path / "parts")
    assert len(job.tasks()) == 3
    one_pass = job.compute(sb.Log(pa.concat_tables(tables), **options))
    np.testing.assert_allclose(statistics.A, one_pass.A, atol=1e-12)
    np.testing.assert_array_equal(statistics.ids, one_pass.ids)
    np.testing.assert_array_equal(statistics.fingerprints, one_pass.fingerprints)
    shuffled = replace(job, log=sb.Log(texts, **options, order_by="step"))
    (task,) = shuffled.tasks()
    assert task.size == 37
    other = run_merged(
        replace(shuffled, log=pickle.loads(pickle.dumps(shuffled.log))), tmp_path / "b"
    )
    np.testing.assert_array_equal(np.sort(other.ids), np.sort(one_pass.ids))


@pytest.mark.usefixtures("small")
def test_only_missing_or_changed_chunks_are_computed(tmp_path, monkeypatch):
    paths = files(tmp_path / "a")
    done = []
    original = ChunkedStatistics.compute
    monkeypatch.setattr(
        ChunkedStatistics,
        "compute",
        lambda self, log, *rest, **more: (
            done.append(len(log.sources)) or original(self, log, *rest, **more)
        ),
    )
    first = run_merged(chunked(paths), tmp_path / "parts")
    assert done == [1, 2, 2]
    equal(first, run_merged(chunked(paths), tmp_path / "parts"))
    assert done == [1, 2, 2]
    table = pq.read_table(paths[3])
    rewards = pa.array(np.asarray(table["reward"]) + 1.0)
    place = table.column_names.index("reward")
    pq.write_table(table.set_column(place, "reward", rewards), paths[3])
    second = run_merged(chunked(paths), tmp_path / "parts")
    assert done == [1, 2, 2, 2]
    assert (first.b != second.b).any()


@pytest.mark.usefixtures("small")
def test_statistics_of_other_settings_are_not_mixed(tmp_path):
    paths = files(tmp_path / "a")
    run_merged(chunked(paths), tmp_path / "parts")
    with pytest.raises(InvalidParameter, match=r"statistics: gamma is 0\.9 there and 0\.8 here"):
        run_merged(chunked(paths, gamma=0.8), tmp_path / "parts")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.minimum(self.cap, ", "np.minimum(0.5 * self.cap, "),
        ("number = 3", "number = 4"),
        ("td=1.0", "td=0.5"),
    ],
    ids=["method", "global value", "property"],
)
def test_versions_of_a_rule_in_a_file_are_not_mixed(tmp_path, old, new):
    paths, module = files(tmp_path / "a"), tmp_path / "mine.py"
    text = USER_MODULE.replace("return self.lam *", "return number / 3 * self.lam *")

    def job(text, files=paths):
        module.write_text(text)
        rule = sb.Rule.parse("mine.py:Capped(0.5)+mine.py:Half", tmp_path)
        return replace(chunked(files), rules=(rule, sb.GES(0.0)))

    first = run_merged(job(text), tmp_path / "parts")
    assert first.setting.rule_marks[1] == ""
    run_merged(job(text + "\nunused = 1\n"), tmp_path / "parts")
    other = job(text.replace(old, new))
    with pytest.raises(InvalidParameter, match=r"statistics: rule_marks is .* there and .* here"):
        run_merged(other, tmp_path / "parts")
    second = other.compute(sb.Log(paths[:1]))
    sb.save_statistics(first, tmp_path / "a.stats")
    sb.save_statistics(second, tmp_path / "b.stats")
    one, two = (load_statistics(tmp_path / f"{k}.stats", other.rules[0]) for k in "ab")
    with pytest.raises(InvalidParameter, match=r"merge: definitions of the rules differ: .Capped"):
        one.merge(two)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_rules_in_a_file_reach_another_process(tmp_path, monkeypatch):
    paths = files(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(USER_MODULE.replace("Capped", "Retrace"))
    rule = replace(sb.Rule.parse("mine.py:Retrace(0.5)+mine.py:Half"), label="short")
    rules = (rule, rule.with_lambda(0.0), sb.GRetrace(0.5), sb.ExpectedSarsa(0.5))
    job = replace(chunked(paths), rules=rules)
    task = job.tasks()[0]
    (tmp_path / "task.pickle").write_bytes(pickle.dumps(task.work))
    (tmp_path / "other").mkdir()
    script = (
        "import pathlib, pickle\n"
        "work = pickle.loads(pathlib.Path('../task.pickle').read_bytes())\n"
        "pathlib.Path('a.stats').write_bytes(work(None))\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "other", check=True)
    remote = load_statistics(tmp_path / "other" / "a.stats", rule)
    local = job.compute(sb.Log(paths[:1]))
    equal(remote, local)
    assert remote.setting == local.setting
    assert [rule.label for rule in remote.setting.rules] == ["short", "", "", ""]


def test_a_rule_outside_any_file_is_sent_as_it_is(tmp_path):
    local = sb.Rule(type("Local", (sb.Importance,), {})(0.5), sb.Saddle(), sb.Expected())
    assert located_text(local) == ""
    job = replace(chunked(files(tmp_path / "a")), rules=(local,))
    assert run_merged(job, tmp_path / "parts").setting.rules == (local,)


def test_rules_of_the_library_leave_no_mark_in_files(tmp_path):
    job = chunked(files(tmp_path / "a"))
    assert "rule_marks" not in job.study()
    assert job.setting() == StatisticsKey(**{**vars(job.setting()), "rule_marks": ()})
    part = replace(job, rules=(sb.GTB(0.5), sb.GES(0.1))).setting().part(range(1), range(1, 2), 3)
    assert part.rule_marks == ("",)


@pytest.mark.usefixtures("small")
def test_a_damaged_chunk_is_reported_and_recomputed(tmp_path, caplog):
    job = chunked(files(tmp_path / "a"))
    first = run_merged(job, tmp_path / "parts")
    shard = sorted((tmp_path / "parts" / "shards").glob("*.npz"))[1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    equal(first, run_merged(job, tmp_path / "parts"))
    assert f"{shard.name} was damaged; moved to damaged/ and recomputed." in caplog.text
    assert (tmp_path / "parts" / "damaged" / shard.name).read_bytes() == bytes(content)


@pytest.mark.usefixtures("small")
def test_the_command_keeps_chunks_until_all_are_complete(tmp_path):
    paths = files(tmp_path / "a")
    out = tmp_path / "year.stats"
    broken = pq.read_table(paths[3])
    place = broken.column_names.index("reward")
    pq.write_table(
        broken.set_column(place, "reward", pa.array(np.full(len(broken), np.nan))), paths[3]
    )
    arguments = ["stats", *paths, *OPTIONS, "--out", str(out), "--workers", "1"]
    failed = CliRunner().invoke(group, arguments)
    assert failed.exit_code == 2
    assert "E120" in failed.stderr
    assert not out.exists()
    assert len(list((tmp_path / "year.stats.parts" / "shards").glob("*.npz"))) == 2
    pq.write_table(broken, paths[3])
    resumed = CliRunner().invoke(group, arguments)
    assert resumed.exit_code == 0, resumed.stderr
    assert not (tmp_path / "year.stats.parts").exists()
    assert load_statistics(out).steps.sum() == 37


class Killed(BaseException):
    """Stands for the sudden end of a process."""


@pytest.mark.usefixtures("small")
def test_a_kill_while_the_chunks_are_removed_leaves_a_command_that_runs(tmp_path, monkeypatch):
    out = tmp_path / "year.stats"
    arguments = ["stats", *files(tmp_path / "a"), *OPTIONS, "--out", str(out), "--workers", "1"]

    def killed(path, **options):
        if path.is_dir():
            (path / "SHA256SUMS").unlink()
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            CliRunner().invoke(group, arguments)
    first = out.read_bytes()
    resumed = CliRunner().invoke(group, arguments)
    assert resumed.exit_code == 0, resumed.stderr
    assert out.read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "year.stats"]


def test_a_small_log_is_read_in_one_pass_and_leaves_no_folder(tmp_path):
    paths = files(tmp_path / "a")
    out = tmp_path / "x.stats"
    result = CliRunner().invoke(group, ["stats", *paths, *OPTIONS, "--out", str(out)])
    assert result.exit_code == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x.stats"]


def test_workers_and_a_cluster_exclude_each_other(tmp_path):
    paths = files(tmp_path / "a")
    both = ["--workers", "2", "--dask", "tcp://127.0.0.1:1"]
    result = CliRunner().invoke(
        group, ["stats", *paths, *OPTIONS, "--out", str(tmp_path / "x"), *both]
    )
    assert result.exit_code == 2
    assert "Give --workers or --dask, not both." in result.stderr


@pytest.mark.usefixtures("small")
def test_paths_of_custom_targets_are_made_absolute(tmp_path, monkeypatch):
    from saddleback.cli.target_options import absolute_spec

    monkeypatch.chdir(tmp_path)
    assert absolute_spec("new.py:probs") == f"{tmp_path}/new.py:probs"
    assert absolute_spec("always:1") == "always:1"
    assert absolute_spec("uniform") == "uniform"


@pytest.mark.usefixtures("small")
def test_another_column_or_behaviour_is_another_study(tmp_path):
    paths = files(tmp_path / "a")
    for path in paths:
        table = pq.read_table(path)
        pq.write_table(table.append_column("cost", table["reward"]), path)
    run_merged(chunked(paths), tmp_path / "parts")
    other = replace(chunked(paths), log=sb.Log(paths, columns={"reward": "cost"}))
    with pytest.raises(
        InvalidParameter, match=r"columns: reward is 'reward' there and 'cost' here"
    ):
        run_merged(other, tmp_path / "parts")
    other = replace(chunked(paths), log=sb.Log(paths, behaviour=sb.policies.uniform(2)))
    with pytest.raises(InvalidParameter, match=r"statistics: behaviour is missing there and"):
        run_merged(other, tmp_path / "parts")


@pytest.mark.usefixtures("small")
def test_an_id_in_two_chunks_is_refused_as_in_one_pass(tmp_path):
    paths = files(tmp_path / "a")
    table = pq.read_table(paths[4])
    first = pq.read_table(paths[0])["episode_id"][0].as_py()
    ids = pa.array(np.repeat([first, 999], 7))
    place = table.column_names.index("episode_id")
    pq.write_table(table.set_column(place, "episode_id", ids), paths[4])
    with pytest.raises(InvalidParameter, match="1 episode id occurs in several files"):
        run_merged(chunked(paths), tmp_path / "parts")


@pytest.mark.parametrize("names", [None, ["no", "yes"]])
def test_actions_are_counted_in_the_sample(names):
    data = columns([3, 5, 4], "terminated", actions=2)
    if names is not None:
        data["action"] = np.array(names)[data["action"]]
    log = sb.Log(data, actions=names)
    np.testing.assert_array_equal(log.sample().action_counts, log.summary().taken)


def test_an_unlisted_action_is_an_error_of_the_log(tmp_path):
    data = columns([4, 4], "terminated", actions=2, mu=False)
    data["action"] = np.array(["a", "b"])[data["action"]]
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({name: np.asarray(value) for name, value in data.items()}), path)
    words = ["stats", str(path), *OPTIONS, "--actions", "a,c", "--out", str(tmp_path / "x.stats")]
    done = CliRunner().invoke(group, words)
    assert done.exit_code == 2, done.output
    assert "E145" in done.output
