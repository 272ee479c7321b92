"""What is dropped, cut or clipped is counted, printed everywhere, and checked."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import saddleback as sb
from helpers.logs import columns
from helpers.verdicts import TARGET, gate_of, walk_log
from saddleback.cli.group import group
from saddleback.features import OneHot, Tiles
from saddleback.log.altered_rows import AlteredRows
from saddleback.ope import evaluate_statistics, load_statistics, save_statistics
from saddleback.report import evaluation_page

pytestmark = pytest.mark.usefixtures("few_candidates")

ACTIONS = ["left", "right"]
STOPS = "stop without a flag: treated as truncated"
LOST = "last transitions dropped: no next observation to bootstrap from"


def walk(**changes):
    return walk_log().data | changes


def without_ends(share):
    """Return a walk whose last rows are missing in a share of its episodes."""
    data = walk()
    last = np.flatnonzero(data["terminated"])
    missing = np.random.default_rng(0).choice(last, int(share * len(last)), replace=False)
    return {name: np.delete(column, missing) for name, column in data.items()}


def evaluated(data, *, features="states", gamma=0.95, methods=(), **options):
    log = sb.Log(data, actions=ACTIONS, **options)
    return sb.evaluate(log, {"new": TARGET}, features=features, gamma=gamma, methods=methods)


def level(result, code):
    return gate_of(result.verdicts[0], code).level


@pytest.mark.slow
def test_missing_last_rows_are_refused_and_told_everywhere(tmp_path):
    """DR fell from 6.59 to 5.10 with 44 of 100 last rows missing, without a word."""
    assert level(evaluated(walk()), "DROPPED") == "usable"
    assert level(evaluated(without_ends(0.05)), "DROPPED") == "doubtful"
    data = without_ends(0.44)
    result = evaluated(data)
    assert result.verdicts[0].trust == level(result, "DROPPED") == "refused"
    plain = result.as_dict()
    assert plain["altered"] == [f"176 episodes {STOPS}", f"176 {LOST}"]
    assert plain["card"]["altered"]["lost"] == plain["card"]["lost"] == 176
    assert "Not used as logged: 176 episodes stop" in result.text
    page = evaluation_page(result)
    assert "Not used as logged" in page
    assert LOST in page
    assert f"176 episodes {STOPS}" in result.log_summary.text
    path = tmp_path / "log.parquet"
    pq.write_table(sb.Log(data).sources[0].table, path)
    evaluate = ["evaluate", "--target", "uniform", "--gamma", "0.95", "--features", "states"]
    for words in (["check"], evaluate):
        done = CliRunner().invoke(group, [words[0], str(path), *words[1:]])
        assert f"176 {LOST}" in " ".join(done.output.split())
        done = CliRunner().invoke(group, [words[0], str(path), *words[1:], "--json"])
        saved = json.loads(done.stdout)
        assert (saved.get("card") or saved)["altered"]["stops"] == 176


def test_statistics_keep_the_numbers_and_add_them(tmp_path):
    log = sb.Log(without_ends(0.44), actions=ACTIONS)
    other = walk()
    other = sb.Log(other | {"episode_id": other["episode_id"] + 1000}, actions=ACTIONS)
    rules = {"features": OneHot(5), "gamma": 0.95}
    one, two = (sb.Statistics.of(part, sb.GES(0.0), TARGET, **rules) for part in (log, other))
    both = load_statistics(save_statistics(one.merge(two), tmp_path / "both.stats"))
    altered = both.counts.altered_rows
    assert (altered.stops, altered.lost, altered.episodes) == (176, 176, 800)
    assert altered.rows == log.rows + other.rows
    result = evaluate_statistics(both, draws=0)
    assert level(result, "DROPPED") == "doubtful"
    assert gate_of(result.verdicts[0], "DROPPED").value == pytest.approx(0.22)
    assert result.as_dict()["altered"] == [f"176 episodes {STOPS}", f"176 {LOST}"]


def test_truncated_logs_without_next_observations_are_not_suspicious():
    """All of their episodes lose the last transition, and none is known to have terminated."""
    data = columns([120] * 60, "stops", following=False, actions=2, d=1)
    log = sb.Log({name: data[name] for name in data if "mu" not in name}, actions=ACTIONS)
    result = sb.evaluate(log, "uniform", features="polynomial:1", gamma=0.9, methods=[])
    assert result.log_summary.lost == 60
    assert level(result, "DROPPED") == "usable"


def test_dropped_episodes_and_resets():
    data = walk()
    reward = data["reward"].copy()
    reward[np.isin(data["episode_id"], range(8))] = np.nan
    result = evaluated(data | {"reward": reward}, drop_bad="episode")
    rows = int((data["episode_id"] < 8).sum())
    assert result.as_dict()["altered"] == [
        f"8 episodes ({rows} rows) with NaN or infinities dropped"
    ]
    assert gate_of(result.verdicts[0], "DROPPED").value == pytest.approx(rows / len(reward))
    altered = AlteredRows(rows=100, episodes=10, terminated=10, reset_rows=10)
    assert altered.dropped == 0.0
    assert altered.lines == ["10 rows of automatic resets dropped"]
    resets = columns([4] * 6, "terminated", step=False)
    after = np.arange(24) % 4 == 3
    resets |= {"terminated": np.roll(after, -1), "reward": np.where(after, 0.0, 1.0)}
    assert sb.Log(resets, drop_autoreset=True).summary().altered.reset_rows == 6


@pytest.mark.slow
def test_rewards_that_are_filled_in():
    """Rewards of 0 where 30% are missing were usable; those before the end are 0 by intention."""
    data = walk()
    rng = np.random.default_rng(0)
    missing = rng.random(len(data["reward"])) < 0.3
    result = evaluated(data | {"reward": np.where(missing, np.nan, data["reward"])}, fill_reward=0)
    assert level(result, "IMPUTED") == "doubtful"
    assert gate_of(result.verdicts[0], "IMPUTED").value == pytest.approx(missing.mean())
    last = data["terminated"]
    at_end = np.where(last, data["reward"], np.nan)
    assert level(evaluated(data | {"reward": at_end}, fill_reward=0), "IMPUTED") == "usable"
    at_end[np.flatnonzero(last)[:40]] = np.nan
    gate = gate_of(evaluated(data | {"reward": at_end}, fill_reward=0).verdicts[0], "IMPUTED")
    assert gate.level == "doubtful"
    assert gate.value == pytest.approx(40 / last.sum())


def test_episodes_that_are_marked_as_ended():
    """They hid that last rows are missing: 44% without them were usable."""
    result = evaluated(without_ends(0.44), episodes_end="terminated")
    assert level(result, "IMPUTED") == "doubtful"
    assert gate_of(result.verdicts[0], "IMPUTED").value == pytest.approx(0.44)
    data = walk()
    never = np.zeros(len(data["reward"]), dtype=bool)
    result = evaluated(data | {"terminated": never}, episodes_end="terminated")
    assert result.log_summary.altered.marked == 400
    observed = data["obs_0"].astype(float)
    observed[5] = np.nan  # an episode that is marked, then dropped
    unmarked = data | {"terminated": never, "obs_0": observed}
    summary = sb.Log(unmarked, episodes_end="terminated", drop_bad="episode").summary(0.9)
    assert (summary.altered.marked, summary.altered.terminated) == (400, 0)
    assert summary.altered.imputed == 0.0
    assert level(result, "IMPUTED") == "usable"


@pytest.mark.parametrize(
    ("min_prob", "expected"), [(0.1, "usable"), (0.45, "doubtful"), (0.6, "refused")]
)
def test_raised_propensities(min_prob, expected):
    data = walk()
    few = np.arange(len(data["reward"])) % 10 == 0
    data["behavior_prob"] = np.where(few, 0.4, 0.5)
    result = evaluated(data, min_prob=min_prob)
    assert level(result, "CLIPPED") == expected
    count = {"usable": 0, "doubtful": int(few.sum()), "refused": len(few)}[expected]
    assert result.log_summary.altered.clipped == count
    line = f"{count:,} propensities raised to the smallest one allowed"
    assert (line in result.as_dict()["altered"]) == bool(count)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.0, 4.0, "usable"), (0.0, 3.0, "doubtful"), (1.5, 1.9, "refused")],
)
def test_observations_outside_the_box(low, high, expected):
    data = walk()
    result = evaluated(data, features=Tiles((low,), (high,), bins=4, tilings=1))
    outside = (data["obs_0"] < low) | (data["obs_0"] > high)
    gate = gate_of(result.verdicts[0], "BOX")
    assert (gate.level, gate.value) == (expected, pytest.approx(outside.mean()))
    warned = [str(warning) for warning in result.warnings if warning.code == "W156"]
    assert bool(warned) == (expected != "usable")
    if warned:
        first = int(np.flatnonzero(outside)[0])
        episode = data["episode_id"][first]
        step = first - int(np.flatnonzero(data["episode_id"] == episode)[0])
        assert warned[0] == (
            f"W156 obs_0 is not between {low:g} and {high:g}, the box of the features, in "
            f"{outside.sum():,} rows (first: episode {episode} step {step}): observations are "
            "clipped to the box."
        )


def test_features_without_a_box_have_nothing_outside():
    result = evaluated(
        walk(), features=lambda observations: np.eye(5)[observations[:, 0].astype(int)]
    )
    assert gate_of(result.verdicts[0], "BOX").value == 0.0
