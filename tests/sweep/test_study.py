"""Studies: division into tasks, results, summaries, cost estimates and the command."""

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.studies import (
    SMALL,
    bits,
    edit_good_study,
    errors_in,
    run_study_rows,
    shard_metadata,
    sort_rows,
    sweep,
    write_study,
)
from saddleback import System, learn, problems
from saddleback.errors import InvalidParameter
from saddleback.rules import Correction, Expected, Rule, TreeBackup
from saddleback.sweep import (
    Store,
    Study,
    cost_estimate,
    plan,
    read_study,
    run_tasks,
    summary,
    tasks_of,
    threads,
)
from saddleback.sweep.study import Case, load_function

RULES = st.lists(
    st.sampled_from(
        [("GES", 0.0), ("GES", 0.5), ("GQ", 0.5), ("ExpectedSarsa", 0.0), ("ExpectedSarsa", 0.5)]
    ),
    min_size=1, max_size=5, unique=True,
)  # fmt: skip


@given(
    rules=RULES, counts=st.lists(st.integers(1, 1000), min_size=1, max_size=3),
    runs=st.integers(1, 5), alphas=st.integers(1, 5), betas=st.integers(1, 3),
    share=st.integers(1, 20_000),
)  # fmt: skip
@settings(deadline=None, max_examples=100)
def test_tasks_cover_every_run_rule_and_alpha_once(rules, counts, runs, alphas, betas, share):
    cases = tuple(
        Case(f"c{c}", "two_state", None, {}, None, "steps", count, (0, count), 1.0)
        for c, count in enumerate(counts)
    )
    study = Study(
        "", 0, runs, cases, tuple((name, {"lam": lam}) for name, lam in rules),
        tuple(2.0**-a for a in range(alphas)), tuple(2.0**-b for b in range(betas)), True,
        "constant", ("norm",), 10, 0.0, share,
    )  # fmt: skip
    parts = list(study.task_specs())
    assert len({part.name for part in parts}) == len(parts)
    covered = [
        (part.case, run, rule, alpha)
        for part in parts
        for run in range(part.run_start, part.run_stop)
        for rule in range(part.rule_start, part.rule_stop)
        for alpha in range(part.alpha_start, part.alpha_stop)
    ]
    expected = len(counts) * runs * len(rules) * alphas
    assert len(covered) == len(set(covered)) == expected
    for part in parts:
        inside = range(part.rule_start, part.rule_stop)
        assert len({study.rule(r).form.has_dual for r in inside}) == 1
        runs_, alphas_ = part.run_stop - part.run_start, part.alpha_stop - part.alpha_start
        steps = counts[part.case] * alphas_ * runs_
        assert part.size == steps * sum(study.beta_count(r) for r in inside)
        assert part.size <= share or (runs_, len(inside), alphas_) == (1, 1, 1)


@pytest.mark.slow
def test_results_do_not_depend_on_task_size_or_workers(tmp_path):
    path = write_study(tmp_path)
    rows = run_study_rows(path, tmp_path / "whole", workers=1)
    assert len(rows) == 3 * 3 * 4 * (2 * 3 * 2 + 3)
    expected = bits(rows)
    study = read_study(path)
    tasks = [len(list(study.task_specs()))]
    for share, workers in [(1, 2), (700, 5), (2000, 1)]:
        rows = run_study_rows(path, tmp_path / str(share), share=share, workers=workers)
        assert bits(rows) == expected
        tasks.append(len(list((tmp_path / str(share) / "shards").glob("*.parquet"))))
    assert tasks == [6, 81, 63, 21]


def test_semi_gradient_rules_have_no_beta_among_other_rules(tmp_path):
    """Semi-gradient rules have no β, even if the others have only one."""
    text = SMALL.replace("ratio = [0.5, 1.0]", "ratio = [1.0]")
    rows = run_study_rows(write_study(tmp_path, text), tmp_path / "s").to_pydict()
    for rule, alpha, beta in zip(rows["rule"], rows["alpha"], rows["beta"], strict=True):
        assert np.isnan(beta) if rule.startswith("ExpectedSarsa") else beta == alpha


def test_learn_reproduces_a_run_of_a_study(tmp_path):
    path = write_study(tmp_path)
    rows = sort_rows(run_study_rows(path, tmp_path / "s"))
    case, run, problem = 2, 1, problems.random_mdp(rng=2)
    for rule in map(read_study(path).rule, range(3)):
        exact = System.exact(problem, rule).objectives
        dual = rule.form.has_dual
        alpha = np.array([0.05, 0.1, 0.2])
        learned = learn(
            rule, problem, alpha=alpha[:, None], steps=200, theta0=1.0,
            beta=alpha[:, None] * [0.5, 1.0] if dual else None,
            rng=np.random.SeedSequence(7, spawn_key=(case, run)), record=[0, 22, 89, 200],
            metrics={"mspbe": exact["mspbe"], "mse": exact["mse_absolute"]},
        )  # fmt: skip
        stored = [
            row for row in rows.to_pylist()
            if (row["problem"], row["rule"], row["run"]) == ("random_mdp rng=2", str(rule), run)
        ]  # fmt: skip
        assert stored[0]["lam"] == (0.0 if str(rule) == "GES(0)" else 0.5)
        assert str(rule).startswith(stored[0]["name"] + "(")
        for name in ("mspbe", "mse"):
            assert [row[name] for row in stored] == learned.curves[name].ravel().tolist()
        assert [row["point"] for row in stored[:: len(stored) // 4]] == [0, 22, 89, 200]


def test_a_shard_records_task_study_and_seeds(tmp_path):
    path = write_study(tmp_path)
    run_study_rows(path, tmp_path / "s")
    study, manifest = read_study(path), json.loads((tmp_path / "s" / "manifest.json").read_text())
    for part in study.task_specs():
        facts = shard_metadata(tmp_path / "s" / "shards" / f"{part.name}.parquet")
        assert facts["task"] == part.name
        assert facts["study"] == manifest["hash"]
        assert facts["entropy"] == 7
        assert facts["spawn_keys"] == [[part.case, run] for run in range(3)]


# What was found.


def summary_rows(rows):
    names = ("problem", "rule", "point", "run", "alpha", "beta", "diverged_at", "mse")
    return pa.table({n: [row[k] for row in rows] for k, n in enumerate(names)})


def test_the_summary_selects_the_best_setting_that_never_diverged():
    nan, inf = np.nan, np.inf
    rows = [
        # problem, rule, point, run, alpha, beta, diverged_at, mse
        ("a", "G", 9, 0, 0.1, 0.1, -1, 5.0), ("a", "G", 9, 1, 0.1, 0.1, -1, 3.0),
        ("a", "G", 9, 1, 0.1, 0.2, -1, 2.0), ("a", "G", 9, 0, 0.1, 0.2, -1, 1.0),
        ("a", "G", 9, 0, 0.2, 0.2, -1, 0.0), ("a", "G", 9, 1, 0.2, 0.2, 4, nan),
        ("a", "G", 0, 0, 0.1, 0.1, -1, 0.0), ("a", "G", 0, 1, 0.1, 0.1, -1, 0.0),
        ("a", "E", 9, 0, 0.1, nan, 3, inf), ("a", "E", 9, 1, 0.1, nan, 5, inf),
        ("b", "E", 7, 0, 0.1, nan, -1, 4.0), ("b", "E", 7, 1, 0.1, nan, -1, 4.0),
    ]  # fmt: skip
    one, other, third = summary(summary_rows(rows), ["mse"])
    assert one == {
        "problem": "a", "rule": "G", "settings": 3, "diverged": 1, "metric": "mse",
        "best": 1.5, "error": 0.5, "alpha": 0.1, "beta": 0.2,
    }  # fmt: skip
    assert (other["rule"], other["diverged"], other["settings"]) == ("E", 1, 1)
    assert [other[name] for name in ("best", "error", "alpha", "beta")] == [None] * 4
    assert (third["best"], third["error"], third["alpha"], third["beta"]) == (4.0, 0.0, 0.1, None)
    (single,) = summary(summary_rows(rows[-2:-1]), ["mse"])
    assert (single["best"], single["error"]) == (4.0, None)


# The command.


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(cost_estimate, "TOTAL_SECONDS", 0.0)
    monkeypatch.setattr(cost_estimate, "MIN_SECONDS", 0.0)


@pytest.mark.parametrize("share", [10**9, 700])
def test_a_plan_counts_tasks_learners_and_steps_exactly(tmp_path, quick, share):
    path = write_study(tmp_path)
    study = read_study(path, share=share)
    estimate = plan(study, tmp_path)
    run_study_rows(path, tmp_path / "s", share=share)
    shard_files = list((tmp_path / "s" / "shards").glob("*.parquet"))
    facts = list(map(shard_metadata, shard_files))
    assert estimate.tasks == len(shard_files)
    assert estimate.learners == sum(metadata["learners"] for metadata in facts)
    assert estimate.learner_steps == sum(metadata["learner_steps"] for metadata in facts)
    assert estimate.disk == pytest.approx(sum(path.stat().st_size for path in shard_files), rel=1.0)
    assert 0 < estimate.longest <= estimate.seconds
    assert estimate.rate == pytest.approx(estimate.learner_steps / estimate.seconds)
    rows = max(pq.read_metadata(path).num_rows for path in shard_files)
    assert estimate.memory >= rows * cost_estimate.ROW


def test_a_plan_estimates_the_steps_of_episodes(tmp_path, quick):
    text = edit_good_study('name = "two_state"', 'name = "random_walk"\nepisodes = 500')
    path = write_study(tmp_path, text.replace("GES", "TD").replace("ratio = [1.0]\n", ""))
    estimate = plan(read_study(path), tmp_path)
    run_study_rows(path, tmp_path / "s")
    (shard,) = (tmp_path / "s" / "shards").glob("*.parquet")
    assert estimate.learner_steps == pytest.approx(shard_metadata(shard)["learner_steps"], rel=0.2)


def test_plan_prints_the_cost_and_runs_nothing(tmp_path, quick, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_study(tmp_path)
    done = sweep(path, "--plan", "--workers", 3)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "learners", "learner-steps", "tasks", "time", "memory", "disk",
    ]  # fmt: skip
    assert lines[0] == "learners       135"
    assert lines[1] == "learner-steps  27 k"
    assert lines[2].startswith("tasks          6, under a second each, the longest ")
    assert "in 3 threads, at " in lines[3]
    summary_rows = json.loads(sweep(path, "--plan", "--json", "--workers", 3).stdout)
    assert (summary_rows["learners"], summary_rows["learner_steps"], summary_rows["tasks"]) == (
        135,
        27_000,
        6,
    )
    assert summary_rows["workers"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.toml"]


def test_results_are_printed_as_json_or_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_study(tmp_path)
    done = sweep(path, "--json", "--quiet")
    assert done.exit_code == 0
    assert "tasks" not in done.stderr
    output = json.loads(done.stdout)
    assert output["out"] == "results/study"
    rows = Store.load(tmp_path / "results" / "study").table()
    assert output["best"] == summary(rows, ["mspbe"])
    assert [row["rule"] for row in output["best"]] == [
        "GES(0)",
        "GES(0.5)",
        "ExpectedSarsa(0.5)",
    ] * 3
    printed = sweep(path, "--quiet")
    assert printed.exit_code == 0
    assert "random_mdp rng=2" in printed.stdout
    assert "smallest mspbe" in printed.stdout
    assert printed.stdout.endswith("results/study/shards/*.parquet\n")
    best = output["best"][0]
    assert f"{best['best']:.3g}" in printed.stdout


def test_labels_are_printed_without_markup(tmp_path):
    path = write_study(
        tmp_path, edit_good_study('name = "two_state"', 'name = "two_state"\nlabel = "[b]x"')
    )
    done = sweep(path, "--out", tmp_path / "s")
    assert done.stdout.startswith("[b]x ")
    assert "study: 1 task on " in done.stderr


def test_errors_of_a_study_file_are_printed_with_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, edit_good_study("seed = 1", "sead = 1").replace("runs = 2", "runs = 0"))
    done = sweep("study.toml")
    assert done.exit_code == 2
    _, first, second = done.stderr.splitlines()
    assert first.startswith("error: study.toml:2: unknown key 'sead'. Did you mean 'seed'?")
    assert second == "study.toml:3: runs must be a whole number from 1 to 1,000,000,000,000, got 0."
    done = sweep("none.toml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("\nerror: cannot read none.toml: No such file or directory.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.toml"]


def test_help_fits_80_columns(tmp_path):
    done = sweep("--help")
    assert done.exit_code == 0
    assert "saddleback sweep study.toml --plan" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_results_do_not_depend_on_the_order_of_tasks(tmp_path):
    study = read_study(write_study(tmp_path), share=2000)
    tasks = tasks_of(study, tmp_path)
    for name, order in (("one", tasks), ("other", tasks[::-1])):
        with threads(2) as place, Store.open(tmp_path / name, study.as_dict(), "") as store:
            run_tasks(order, store, place)
    one, other = (Store.load(tmp_path / name).table() for name in ("one", "other"))
    assert bits(one) == bits(other)
    assert one["run"] == other["run"]  # shards are read in the order of their names


def test_an_empty_dask_address_is_refused(tmp_path):
    done = sweep(write_study(tmp_path), "--dask", "")
    assert done.exit_code == 2
    assert "--dask is empty: give the address of a scheduler" in done.stderr


def test_a_sweep_reads_its_study_once_and_builds_each_problem_once(tmp_path, monkeypatch):
    """For the reader, the estimate of the cost and all tasks."""
    (tmp_path / "toy.py").write_text(
        "from pathlib import Path\n"
        "from saddleback import problems\n"
        "def counted(gamma):\n"
        "    with Path(__file__).with_name('built.txt').open('a') as file:\n"
        "        print(gamma, file=file)\n"
        "    return problems.two_state(gamma=gamma)\n"
    )
    text = edit_good_study(
        'name = "two_state"', 'make = "toy.py:counted"\neach = { gamma = [0.5, 0.9] }'
    )
    path, reads = write_study(tmp_path, text), []
    read = sys.modules["saddleback.sweep.study_file"].tomllib.loads
    monkeypatch.setattr(
        "saddleback.sweep.study_file.tomllib.loads", lambda text: reads.append(1) or read(text)
    )
    assert sweep(path, "--out", tmp_path / "s", "--workers", 2).exit_code == 0
    assert len(reads) == 1
    plan(read_study(path), tmp_path)
    assert sorted((tmp_path / "built.txt").read_text().split()) == ["0.5", "0.9"]


def test_functions_of_a_file_share_its_module_until_it_changes(tmp_path):
    """So that metrics can share an expensive reference."""
    (tmp_path / "own.py").write_text("def one(): pass\ndef other(): pass\n")
    one, other = (load_function(f"own.py:{name}", tmp_path) for name in ("one", "other"))
    assert one.__globals__ is other.__globals__
    (tmp_path / "own.py").write_text("def one(): pass\ndef other(): return 1\n")
    assert load_function("own.py:other", tmp_path)() == 1


GRIDS = """\
seed = 3
runs = 2
steps = 100
common_random_numbers = true
metrics = ["mspbe", "toy.py:distance"]
[parameters]
origin = 1.0
[quick]
runs = 1
steps = 20
problem = { gamma = 0.5 }
[[grid]]
label = "short"
lam = 0.9
alpha = [0.1, 0.2]
ratio = [0.5, 1.0]
[[grid]]
label = "wide"
lam = 0.5
alpha = [0.1]
ratio = [1.0]
schedule = "inverse_sqrt"
[[problem]]
name = "two_state"
gamma = 0.9
label = "zero"
theta0 = 1.0
[[problem]]
name = "two_state"
gamma = 0.9
rewards = [[1, -1], [0.5, 2]]
[[rule]]
name = "GES"
[[rule]]
name = "GTB"
form = "Correction"
label = "GTB corr."
"""

DISTANCE = """\
import numpy as np

def distance(problem, rule, lam, theta0, origin):
    return lambda theta: np.abs(theta - origin).sum(axis=-1) + 100 * lam + 1000 * theta0
"""


@pytest.fixture
def grids(tmp_path):
    (tmp_path / "toy.py").write_text(DISTANCE)
    return write_study(tmp_path, GRIDS)


def test_every_problem_is_run_with_every_grid_and_its_lambda(grids, tmp_path):
    study = read_study(grids)
    assert [(case.label, case.lam, case.theta0) for case in study.cases] == [
        ("short, zero", 0.9, 1.0), ("short, two_state", 0.9, None),
        ("wide, zero", 0.5, 1.0), ("wide, two_state", 0.5, None),
    ]  # fmt: skip
    assert study.rule(1, 2) == Rule(TreeBackup(0.5), Correction(), Expected())
    assert study.grid(3).schedule == "inverse_sqrt"
    rows = run_study_rows(grids, tmp_path / "s").to_pylist()
    assert len(rows) == 2 * 2 * 2 * 20 * (4 + 1)
    assert {(row["problem"], row["rule"], row["lam"]) for row in rows} == {
        (case.label, rule, case.lam)
        for case in study.cases
        for rule in (f"GES({case.lam})", "GTB corr.")
    }


def test_metrics_may_be_functions_that_ask_for_settings(grids, tmp_path):
    for row in run_study_rows(grids, tmp_path / "s").to_pylist():
        if row["point"] == 0:  # θ is theta0 in both of its elements
            start = 1.0 if "zero" in row["problem"] else 0.0
            expected = 2 * abs(start - 1.0) + 100 * row["lam"] + 1000 * start
            assert row["distance"] == expected
    study = read_study(grids)
    (tmp_path / "toy.py").write_text(DISTANCE + "\n")
    with pytest.raises(InvalidParameter, match=r"holds another study: marks: toy\.py is"):
        run_study_rows(grids, tmp_path / "s")
    assert read_study(grids) != study
    write_study(tmp_path, GRIDS.replace("toy.py:distance", "toy.py:distanc"))
    assert "Did you mean 'distance'?" in errors_in(tmp_path, grids.read_text())[0]


METRICS = """\
import numpy as np

def total(problem, rule): return lambda theta: theta.sum(axis=-1)
def both(problem, rule): return lambda theta: np.stack([theta.sum(-1), theta.max(-1)], -1)
def setting(problem, rule): return total(problem, rule)
"""


@pytest.mark.parametrize(("name", "column"), [("total", "total"), ("both", "both_0")])
def test_the_command_summarises_a_function_and_the_first_of_its_values(tmp_path, name, column):
    (tmp_path / "own.py").write_text(METRICS)
    path = write_study(
        tmp_path, f'metrics = ["own.py:{name}"]\n' + edit_good_study("runs = 2\n", "")
    )
    done = sweep(path, "--out", tmp_path / "s", "--json")
    assert [row["metric"] for row in json.loads(done.stdout)["best"]] == [column] * 2
    assert f"smallest {column}" in sweep(path, "--out", tmp_path / "s").stdout


def test_names_of_metrics_are_refused_if_they_are_taken(tmp_path):
    (tmp_path / "own.py").write_text(METRICS)
    (tmp_path / "other.py").write_text(METRICS)
    for listed, error in (
        ('"own.py:setting"', "setting is another column of the results: rename the function."),
        ('"own.py:total", "other.py:total"',
         "two metrics have the name total: rename one of them."),
    ):  # fmt: skip
        assert errors_in(
            tmp_path, f"metrics = [{listed}]\n" + edit_good_study("seed = 1\n", "")
        ) == [f"1: {error}"]


def test_common_random_numbers_give_all_problems_the_same_experience(grids):
    study = read_study(grids)
    assert [study.spawn_key(case, 1) for case in (0, 3)] == [(1,), (1,)]
    write_study(grids.parent, GRIDS.replace("common_random_numbers = true\n", ""))
    assert read_study(grids).spawn_key(3, 1) == (3, 1)


def test_a_quick_study_is_recorded_as_such(grids):
    study, quick = read_study(grids), read_study(grids, quick=True)
    assert (quick.runs, quick.cases[0].count, quick.cases[1].parameters["gamma"]) == (1, 20, 0.5)
    assert (study.runs, study.cases[0].count, study.cases[0].parameters["gamma"]) == (2, 100, 0.9)
    assert quick.as_dict()["quick"] is True
    assert "quick" not in study.as_dict()
    for one in (study, quick):
        assert Study.from_dict(json.loads(json.dumps(one.as_dict()))) == one
