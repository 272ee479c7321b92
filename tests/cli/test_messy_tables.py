"""A messy CSV on the command line: every error names an option, and these options repair it."""

import json
import re
import shlex

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import saddleback as sb
from saddleback.cli.group import group

NAMES = {"episode_id": "visit", "action": "dose", "reward": "outcome", "behavior_prob": "p"}
POLICY = """
import numpy as np

def treat(obs: dict):
    icu = (obs["unit"] == "ICU")[:, None]
    return np.where(icu, [0.2, 0.8], [0.7, 0.3])
"""


def run(*arguments):
    """Run a command; return its exit status and what it prints, errors first, as one line."""
    done = CliRunner().invoke(group, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, " ".join((done.stderr + done.stdout).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messy")
    rng = np.random.default_rng(0)
    visit = np.repeat(np.arange(80), 3)
    n, last = len(visit), np.tile([False, False, True], 80)
    dose = rng.integers(2, size=n)
    start = np.datetime64("2026-01-01T00:00:00")
    frame = pandas.DataFrame({
        "visit": [f"V{i:02}" for i in visit],
        "charted_at": start + 1000 * visit + np.tile([1, 20, 300], 80),
        "hr": rng.normal(80, 5, n).round(1),
        "unit": np.array(["ER", "ICU"])[visit % 2],
        "dose": np.array(["low", "high"])[dose],
        "p": np.where(rng.random(n) < 0.5, 0.5, np.nan),
        "outcome": np.where(last, dose + rng.normal(size=n), np.nan),
    })  # fmt: skip
    frame.sample(frac=1, random_state=0).to_csv(folder / "visits.csv", index=False)
    frame.to_parquet(folder / "sorted.parquet", index=False)
    (folder / "policy.py").write_text(POLICY)
    return folder


def test_following_the_errors_leads_to_a_log_that_is_ready(folder):
    arguments = [
        "check",
        folder / "visits.csv",
        "--quiet",
        "--obs",
        "hr,unit",
        "--actions",
        "low,high",
    ]
    arguments += [
        argument for role, name in NAMES.items() for argument in ("--column", f"{role}={name}")
    ]
    options = []
    for _ in range(5):
        status, text = run(*arguments, *options)
        if status == 0:
            break
        options += [
            argument
            for name, value in re.findall(r": (--[a-z-]+) ([\w-]+)\.", text)
            for argument in (name, value)
        ]
    assert options == [
        "--episodes-end", "terminated", "--estimate-behaviour", "counts", "--fill-reward", "0",
        "--order-by", "charted_at",
    ]  # fmt: skip
    assert text.endswith("Ready.")
    source = pq.read_table(folder / "sorted.parquet")
    n_missing = int(np.isnan(source["p"].to_numpy()).sum())
    out = folder / "visits.parquet"
    status, text = run(*arguments, *options, "--gamma", "0.9", "--fix", out)
    assert status == 0
    assert text.endswith(
        "wrote 240 rows: rows sorted by episode and charted_at 160 missing rewards filled in "
        f"80 episodes marked as ended on the last row {n_missing} missing propensities estimated"
    )
    repaired = sb.Log(out)
    assert repaired.observation_names == ("hr", "unit=ER", "unit=ICU")
    assert repaired.action_names == ("low", "high")
    assert repaired.metadata["gamma"] == 0.9
    assert repaired.estimated.endswith("along each of 3 entries, where none was logged")
    rows = pq.read_table(out)
    assert rows["episode_id"].to_pylist() == source["visit"].to_pylist()
    assert rows["hr"].to_pylist() == source["hr"].to_pylist()
    np.testing.assert_array_equal(rows["reward"], np.nan_to_num(source["outcome"].to_numpy()))
    assert rows["terminated"].to_pylist() == [False, False, True] * 80
    status, text = run(
        "evaluate", out, "--target", f"{folder / 'policy.py'}:treat", "--quiet", "--json",
        "--features", "monomials:1",
    )  # fmt: skip
    assert status in (0, 3, 4)
    assert json.loads(text)["propensities"].startswith("estimated: counts in a grid")
    assert run("check", out, "--quiet")[0] == 0


def test_a_log_with_errors_is_not_written(folder):
    out = folder / "nothing.parquet"
    assert run("check", folder / "sorted.parquet", "--obs", "hr", "--fix", out)[0] == 2
    assert not out.exists()
    arguments = [
        argument for role, name in NAMES.items() for argument in ("--column", f"{role}={name}")
    ]
    arguments += ["--obs", "hr", "--episodes-end", "terminated", "--fix", out]
    status, text = run("check", folder / "sorted.parquet", *arguments)
    assert status == 2
    assert "Fix the errors before use. nothing was written." in text
    assert not out.exists()
    source = folder / "sorted.parquet"
    status, text = run("check", source, "--fix", source)
    assert (status, "is also an input file" in text) == (2, True)


def test_outcomes_that_are_text(folder):
    table = pq.read_table(folder / "sorted.parquet").to_pandas()
    table["outcome"] = table["outcome"].map(
        lambda x: None if np.isnan(x) else "died" if x < 0 else "well"
    )
    source, out = folder / "text.csv", folder / "text.parquet"
    table.sample(frac=1, random_state=0).to_csv(source, index=False)
    arguments = [
        argument for role, name in NAMES.items() for argument in ("--column", f"{role}={name}")
    ]
    arguments = [
        "check",
        source,
        "--quiet",
        "--obs",
        "hr",
        *arguments,
        "--episodes-end",
        "terminated",
    ]
    status, text = run(*arguments)
    assert (status, "--reward-values died=NUMBER,well=NUMBER." in text) == (2, True)
    status, text = run(*arguments, "--reward-values", "died=-1,well")
    assert (status, "write TEXT=NUMBER" in text) == (2, True)
    arguments += ["--reward-values", "died=-1,well=2", "--fill-reward", "0"]
    arguments += ["--order-by", "charted_at", "--estimate-behaviour", "counts", "--fix", out]
    status, text = run(*arguments)
    assert status == 0
    assert "rewards read from text: died = -1, well = 2" in text
    rewards = table["outcome"].map({"died": -1.0, "well": 2.0}).fillna(0.0)
    np.testing.assert_array_equal(pq.read_table(out)["reward"], rewards)


def test_outcomes_with_commas_and_spaces(tmp_path):
    outcomes = ["alive, well", "died", " unknown", "it's over"]
    source = tmp_path / "log.parquet"
    ids = np.arange(4)
    columns = {"episode_id": ids, "obs_0": ids / 7, "action": ids % 2, "reward": outcomes}
    pq.write_table(pa.table(columns | {"terminated": ids >= 0, "truncated": ids < 0}), source)
    status, text = run("check", source, "--quiet")
    suggested = re.search(r"Give each value one: (.*)\.", text)[1].replace("NUMBER", "2")
    status, text = run("check", source, "--quiet", *shlex.split(suggested))
    assert status == 0
    options = ["--reward-values", '"alive, well"=1, died=-1,it\'s over=0']
    status, text = run("check", source, "--quiet", *options, "--reward-values", '" unknown=0"')
    assert status == 0
    status, text = run("check", source, "--quiet", *options)
    assert (status, "contains ' unknown', without a number" in text) == (2, True)


def test_a_table_of_any_names_is_ready_after_two_failed_checks(tmp_path):
    rng, n = np.random.default_rng(0), 80
    visit, hour = np.repeat(np.arange(n), 3), np.tile([0, 1, 2], n)
    last = hour == 2
    table = pa.table(
        {
            "hospital_stay": [f"S{v:03}" for v in visit],
            "charted_at": np.datetime64("2026-01-01T08:00:00") + 3600 * (24 * visit + hour),
            "hr": rng.normal(90, 10, 3 * n), "unit": np.array(["ER", "ICU"])[visit % 2],
            "treatment": rng.choice(["low", "high"], 3 * n),
            "outcome": pa.array(rng.normal(size=3 * n), mask=~last),
            "propensity": pa.array(np.full(3 * n, 0.5), mask=rng.random(3 * n) < 0.3),
        }
    )  # fmt: skip
    path = tmp_path / "stays.csv"
    pyarrow.csv.write_csv(table.take(rng.permutation(3 * n)), path)
    options, failed = [], 0
    while (answer := run("check", path, "--quiet", *options))[0] != 0:
        failed += 1
        assert failed <= 2, answer[1]
        options += [
            text for pair in re.findall(r": (--[a-z-]+) (\S+)\.(?= |$)", answer[1]) for text in pair
        ]
    assert failed == 2
    assert "240 rows, 80 episodes (mean 3) terminated 80" in answer[1]
    assert answer[1].endswith("Ready.")
