"""The commands check, evaluate, rank and explain on a log of single decisions."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from saddleback.cli.group import group

pytestmark = pytest.mark.slow

POLICY = """
import numpy as np

def young(context):
    call = np.where(context[:, 0] < 45, 0.9, 0.1)
    return np.stack([1 - call, call], axis=1)
"""

NAMES = ["--obs", "age", "--column", "action=offer", "--column", "reward=bought"]


def run(*words, status):
    done = CliRunner(env={"COLUMNS": "80"}).invoke(group, list(map(str, words)))
    assert done.exit_code == status, done.output
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bandit")
    rng, n = np.random.default_rng(0), 600
    age = rng.uniform(18, 80, n)
    offer = rng.integers(0, 2, n)
    bought = np.where(offer == 1, age < 45, 0.3) + rng.normal(size=n)
    table = {"age": age, "offer": offer, "bought": bought, "behavior_prob": np.full(n, 0.5)}
    pq.write_table(pa.table(table), folder / "offers.parquet")
    (folder / "policy.py").write_text(POLICY)
    return folder


def test_check(folder):
    text = run("check", folder / "offers.parquet", "--bandit", *NAMES, status=0).stdout
    assert text.startswith("600 single decisions\n")
    assert "episode" not in text
    missing = run("check", folder / "offers.parquet", *NAMES, status=2)
    assert "If each row is a decision of its own, say so: --bandit" in " ".join(
        missing.stderr.split()
    )


def test_evaluate_and_explain_speak_of_decisions(folder):
    result, page = folder / "result.json", folder / "page.html"
    target = ["--target", f"young={folder / 'policy.py'}:young"]
    words = ["evaluate", folder / "offers.parquet", "--bandit", *NAMES, *target, "--quiet"]
    text = run(*words, "--distribution", "--save", result, "--report", page, status=0).stdout
    assert text.startswith("Better: difference +0.")
    for method in ("DR", "DRos", "Switch-DR", "SNIPW", "IPW", "DM", "Marginal DR"):
        assert f"\n  {method} " in text
    assert "Distribution of the reward" in text
    in_full = run("explain", result, status=0).stdout
    assert in_full.startswith(text[: text.index("\n\n")])
    assert "WEIGHTS" in in_full
    plain = json.loads(result.read_text())
    assert plain["bandit"] is True
    for shown in (text, in_full, page.read_text(encoding="utf-8").split("</main>")[0]):
        for unwanted in ("episode", "λ ceiling", "Â", "γ"):
            assert unwanted not in shown
    assert "Distribution of the reward" in page.read_text(encoding="utf-8")


def test_the_page_says_that_rewards_have_no_distribution(folder):
    """Without propensities no decision has a weight."""
    table, page = pq.read_table(folder / "offers.parquet"), folder / "direct.html"
    pq.write_table(table.drop_columns("behavior_prob"), folder / "direct.parquet")
    target = ["--target", f"young={folder / 'policy.py'}:young"]
    run("evaluate", folder / "direct.parquet", "--bandit", *NAMES, *target, "--report", page,
        "--quiet", status=0)  # fmt: skip
    shown = page.read_text(encoding="utf-8").split("</main>")[0]
    assert "Distribution of the reward, weighted" in shown
    assert "Distribution of the return" not in shown


def test_rank(folder):
    target = ["--target", f"young={folder / 'policy.py'}:young", "--target", "mail=always:0"]
    words = ["rank", folder / "offers.parquet", "--bandit", *NAMES, *target, "--quiet"]
    text = run(*words, status=0).stdout
    assert text.startswith("Better: young is at least")
