"""Logs that are wrong: each problem known by its code, its place and its fix; all said at once."""

import re

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.logs import alike, columns, content
from saddleback import GES, errors, features
from saddleback.evaluation.statistics import Statistics
from saddleback.log import Log, LogError, as_target, row_sources

POLYNOMIAL = features.Polynomial((-4.0, -4.0), (4.0, 4.0), 1)


def good(**options):
    """Return the columns of a log of three episodes, numbered 10 to 12, of 4 rows each."""
    return columns([4, 4, 4], ["terminated", "truncated", "terminated"], **options)


def put(name, rows, value, data=None):
    """Return the good log with another value in some rows of a column."""
    data = dict(good() if data is None else data)
    number = isinstance(value, (int, float)) and data[name].dtype != object
    data[name] = data[name].astype(np.result_type(data[name].dtype, type(value)) if number else "O")
    data[name][rows] = value
    return data


def without(*names, data=None):
    return {k: v for k, v in (good() if data is None else data).items() if k not in names}


def wrong(log):
    """Return what is said when a log is used; the card must say the same."""
    with pytest.raises(LogError) as caught:
        content(log)
    said = str(caught.value)
    assert said == "\n".join(map(str, log.summary().errors))
    return said


def warned(data, gamma=None, **options):
    log = Log(data, **options)
    if gamma is None:
        content(log)
    return "\n".join(map(str, log.summary(gamma).findings))


def complaint(kind, *parts):
    return pytest.raises(kind, match=".*".join(map(re.escape, parts)))


# What is wrong with rows.

FILL = (
    "Fill in the value (rewards known only at the end: 0 before it), or drop the episode: "
    'drop_bad="episode".'
)
ROWS = {
    "prob 0": (
        put("behavior_prob", [0, 2, 5], 0.0),
        "E101 behavior_prob is 0 on 3 rows (episode 10 steps 0, 2; episode 11 step 1). A logged action cannot have probability 0. Fix the log, or pass min_prob=…",
    ),
    "prob 0, many": (
        put("behavior_prob", [3, 4, 5, 6], 0.0),
        "E101 behavior_prob is 0 on 4 rows (first: episode 10 step 3). A logged action cannot have probability 0. Fix the log, or pass min_prob=…",
    ),
    "mu 0": (
        without("behavior_prob") | {"mu_0": np.full(12, 0.0), "mu_1": np.full(12, 0.5), "mu_2": np.full(12, 0.5), "action": np.array([1] * 11 + [0])},
        "E101 mu of the logged action is 0 on 1 row (episode 12 step 3). A logged action cannot have probability 0. Fix the log, or pass min_prob=…",
    ),
    "logp -inf": (
        without("behavior_prob", data=good(mu=False)) | {"behavior_logp": np.log(np.append(np.full(11, 0.5), 1e-300)) + np.append(np.zeros(11), -np.inf)},
        "E101 exp(behavior_logp) is 0 on 1 row (episode 12 step 3). A logged action cannot have probability 0. Fix the log, or pass min_prob=…",
    ),
    "log-probabilities": (
        good() | {"behavior_prob": np.log(good()["behavior_prob"])},
        "E102 behavior_prob is negative on 12 rows (first: episode 10 step 0) and never positive: these look like log-probabilities. Name the column behavior_logp, or map it: columns={'behavior_logp': …}.",
    ),
    "negative": (
        put("behavior_prob", [7], -0.5),
        "E102 behavior_prob is < 0 on 1 row (episode 11 step 3): probabilities must lie in (0, 1].",
    ),
    "density": (
        put("behavior_prob", [1, 2], 3.0),
        "E102 behavior_prob is > 1 on 2 rows (episode 10 steps 1, 2): probabilities must lie in (0, 1]. Densities of continuous actions are not supported.",
    ),
    "logp above 0": (
        without("behavior_prob", data=good(mu=False)) | {"behavior_logp": np.append(np.full(11, -1.0), 0.5)},
        "E102 exp(behavior_logp) is > 1 on 1 row (episode 12 step 3): probabilities must lie in (0, 1]. Densities of continuous actions are not supported.",
    ),
    "prob NaN": (
        put("behavior_prob", [4], np.nan),
        "E102 behavior_prob is NaN on 1 row (episode 11 step 0): every logged action needs a propensity. Fill them in, or replace all of them by estimates: estimate_behaviour(log).",
    ),
    "prob all NaN": (
        put("behavior_prob", slice(None), np.nan),
        "E102 behavior_prob is NaN on 12 rows (first: episode 10 step 0): every logged action needs a propensity. Fill them in, or replace all of them by estimates: estimate_behaviour(log).",
    ),
    "mu does not sum to 1": (
        good() | {"mu_0": good()["mu_0"] + np.where(np.arange(12) == 8, -0.03, 0.0)},
        "E104 mu_* sums to 0.97 on 1 row (episode 12 step 0). Each row must be a probability distribution, within 1e-6: divide it by its sum if it was rounded.",
    ),
    "mu negative": (
        put("mu_1", [2], -0.25, put("mu_0", [2], 1.0, put("mu_2", [2], 0.25))),
        "E104 mu_* contains -0.25 on 1 row (episode 10 step 2). Each row must be a probability distribution, within 1e-6: divide it by its sum if it was rounded.",
    ),
    "mu empty": (
        put("mu_1", [2, 3], None),
        "E104 mu_* is NaN on 2 rows (episode 10 steps 2, 3). Each row must be a probability distribution, within 1e-6: divide it by its sum if it was rounded.",
    ),
    "next_mu": (
        put("next_mu_0", [7], 5.0),
        "E104 next_mu_* sums to",
    ),
    "reward NaN": (
        put("reward", [5, 6], np.nan),
        f"E120 reward is NaN in 2 rows (episode 11 steps 1, 2). {FILL}",
    ),
    "reward empty": (
        put("reward", [5], None),
        f"E120 reward is NaN in 1 row (episode 11 step 1). {FILL}",
    ),
    "observation infinite": (
        put("obs_1", [11], -np.inf),
        f"E120 obs_1 is infinite in 1 row (episode 12 step 3). {FILL}",
    ),
    "next observation in part": (
        put("next_obs_1", [7], np.nan),
        f"E120 next_obs_1 is NaN in 1 row (episode 11 step 3). {FILL}",
    ),
    "next observation infinite": (
        put("next_obs_0", [7], np.inf, put("next_obs_1", [7], np.inf)),
        f"E120 next_obs_0 is infinite in 1 row (episode 11 step 3). {FILL}\nE120 next_obs_1 is infinite in 1 row (episode 11 step 3). {FILL}",
    ),
    "no episode": (
        put("episode_id", [4, 5], None),
        "E121 episode_id has no value in 2 rows (rows 4, 5). Every row needs the id of its episode.",
    ),
    "no step": (
        put("step", [6], None),
        "E121 step has no value in 1 row (row 6). Number the steps 0 … T−1, or remove the column if the rows are in order.",
    ),
    "no flag": (
        put("terminated", [2], None),
        "E121 terminated has no value in 1 row (row 2). Use True on the last row of an episode that ended this way, False elsewhere.",
    ),
    "gap": (
        put("step", [6, 7], [4, 5]),
        "E130 episode 11: step jumps from 1 to 4. Add the missing rows, or renumber the episode.",
    ),
    "two gaps": (
        put("step", [2, 3, 7], [3, 4, 9]),
        "E130 episode 10: step jumps from 1 to 3 (and 1 more such row). Add the missing rows, or renumber the episode.",
    ),
    "duplicate": (
        put("step", [5], 0),
        "E130 episode 11: step 0 is repeated (and 1 more such row). Remove the duplicates, or renumber the episode.",
    ),
    "unsorted": (
        put("step", [1, 2], [2, 1]),
        "E130 episode 10: step jumps from 0 to 2 (and 2 more such rows). Add the missing rows, or renumber the episode.",
    ),
    "backwards": (
        put("step", [0, 1, 2, 3], [0, 1, 0, 1]),
        "E130 episode 10: step goes back from 1 to 0. Sort by (episode_id, step), or renumber the episode.",
    ),
    "two blocks": (
        put("episode_id", slice(8, 12), 10),
        "E131 episode 10 appears in two separate blocks (rows 0-3, 8-11). Sort by (episode_id, step), or give the episodes different ids.",
    ),
    "flag in mid-episode": (
        put("terminated", [1], True),
        "E132 terminated=True at step 1 of 4 in episode 10. Only the last row of an episode may have this flag: split the episode, or clear the flag.",
    ),
    "flags in mid-episode": (
        put("truncated", [4, 5, 9], True),
        "E132 truncated=True at step 0 of 4 in episode 11 (and 2 more such rows). Only the last row of an episode may have this flag: split the episode, or clear the flag.",
    ),
    "split episode": (
        good() | {"step": good()["step"] + np.repeat([0, 3, 0], 4)},
        "E134 episode 11 starts at step 3. If its first rows are in another file, pass all files of the log together, in order; otherwise number its steps from 0.",
    ),
    "split episodes": (
        good() | {"step": good()["step"] + np.repeat([2, 3, 1], 4)},
        "E134 episode 10 starts at step 2 (and 2 more such episodes). If its first rows are in another file,",
    ),
    "action": (
        put("action", [3, 4], 7),
        "E145 action is 7, not one of 0 … 2, in 2 rows (episode 10 step 3; episode 11 step 0). Fix the log, or list all actions: actions=[…].",
    ),
    "action negative": (
        put("action", [3], -1),
        "E145 action is -1, not one of 0 … 2, in 1 row (episode 10 step 3). Fix the log, or list all actions: actions=[…].",
    ),
    "action empty": (
        put("action", [3], None),
        "E145 action is empty, not one of 0 … 2, in 1 row (episode 10 step 3). Fix the log, or list all actions: actions=[…].",
    ),
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3, 1000])
@pytest.mark.parametrize("case", ROWS)
def test_bad_rows(case, batch, monkeypatch):
    monkeypatch.setattr(row_sources, "BATCH", batch)
    data, message = ROWS[case]
    said = wrong(Log(data))
    assert said == message or (not message.endswith((".", "…")) and said.startswith(message))


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_bad_rows_of_text(batch, monkeypatch):
    monkeypatch.setattr(row_sources, "BATCH", batch)
    names = ["none", "low", "high"]
    data = good() | {"action": np.array(names)[good()["action"]].astype(object)}
    data["action"][[2, 9]] = "hihg"
    assert wrong(Log(data, actions=names)) == (
        "E145 action is 'hihg', not one of none, low, high, in 2 rows (episode 10 step 2; episode "
        "12 step 1). Did you mean 'high'? Fix the log, or list all actions: actions=[…]."
    )
    data["action"][:] = "low"
    data["action"][7] = None
    assert wrong(
        Log(without("mu_0", "mu_1", "mu_2", "next_mu_0", "next_mu_1", "next_mu_2", data=data))
    ).startswith("E145 action is empty, not one of low, in 1 row (episode 11 step 3).")


def test_bad_rows_of_lists():
    data = without("obs_0", "obs_1", "next_obs_0", "next_obs_1")
    obs = np.arange(24.0).reshape(12, 2)
    obs[4, 1] = np.nan
    assert wrong(Log(data | {"obs": obs})).startswith(
        "E120 obs[1] is NaN in 1 row (episode 11 step 0)."
    )


def test_bad_rows_by_ones_own_names():
    data = put("reward", [2], np.nan, put("terminated", [1], None))
    data["cost"], data["dead"] = data.pop("reward"), data.pop("terminated")
    said = wrong(Log(data, columns={"reward": "cost", "terminated": "dead"}))
    assert [line[:14] for line in said.split("\n")] == ["E120 cost is N", "E121 dead has "]


def test_all_problems_are_said_at_once():
    data = good()
    for name, row, value in (
        ("behavior_prob", 0, 0.0), ("behavior_prob", 1, 1.5), ("mu_0", 2, 9.0), ("reward", 3, np.nan),
        ("obs_0", 4, np.inf), ("step", 6, 9), ("terminated", 5, True), ("action", 9, 3),
    ):  # fmt: skip
        data = put(name, [row], value, data)
    data["episode_id"][8:] = 10
    data["step"][8:] += 1
    log = Log(data)
    said = wrong(log).split("\n")
    codes = ["E101", "E102", "E104", "E120", "E120", "E130", "E131", "E132", "E134", "E145"]
    assert [line[:4] for line in said] == codes
    with pytest.raises(LogError) as caught:
        Statistics.of(log, GES(0.5), "uniform", features=POLYNOMIAL, gamma=0.9)
    assert str(caught.value).split("\n") == said
    assert [each.code for each in caught.value.findings] == codes


def test_unrelated_columns_are_left_alone():
    data = good() | {"lab_0": np.full(12, 40.0), "lab_1": np.full(12, np.nan)}
    assert not Log(data).summary().findings


# Warnings.


def test_warnings():
    ones = good(mu=False) | {"behavior_prob": np.ones(12)}
    assert warned(ones) == (
        "W103 behavior_prob is 1.0 on every row: with a deterministic behaviour policy no "
        "other policy can be evaluated."
    )
    assert warned(good(mu=False) | {"behavior_prob": np.full(12, 0.25)}) == (
        "W103 behavior_prob is 0.25 on every row: not 1/3. Check that it is the probability of the "
        "logged action."
    )
    uniform = good(mu=False) | {"behavior_prob": np.full(12, 1 / 3)}
    assert not Log(uniform, actions=["a", "b", "c"]).summary().findings
    assert warned(columns([4, 4], "truncated")) == (
        "W150 no episode terminated: values depend entirely on bootstrapping."
    )
    assert warned(good(), gamma=1.0) == (
        "E160 gamma=1 requires terminating episodes, but 33% do not terminate. Use a smaller gamma, "
        "or drop them."
    )
    assert warned(columns([4], "terminated"), gamma=1.0) == ""
    assert warned(put("reward", [5], np.nan), drop_bad="episode") == (
        "W121 dropped 1 episode with NaN or infinities."
    )


@pytest.mark.parametrize(("by", "where"), [(1, "t-1"), (-1, "t+1")])
def test_propensities_of_the_wrong_row(by, where):
    data = columns([200, 200], "terminated")
    data["behavior_prob"] = np.roll(data["behavior_prob"], by)
    said = warned(data)
    assert re.fullmatch(
        rf"W151 behavior_prob equals mu of step {re.escape(where)} on 100.0% of rows, but mu of step "
        r"t on \d.\d%: the column seems to be shifted by one row\.",
        said,
    )
    data["behavior_prob"] = np.linspace(0.1, 0.9, 400)
    assert re.fullmatch(
        r"W152 behavior_prob differs from mu of the logged action on 39\d rows\. Remove the "
        r"one that is wrong\.",
        warned(data),
    )


# The fixes that are named work.


def test_least_propensity():
    data = put("behavior_prob", [0, 2], 0.0)
    found = content(Log(data, min_prob=0.05))
    assert found["propensity"][[0, 2]].tolist() == [0.05, 0.05]
    assert not [f for f in Log(data, min_prob=0.05).summary().findings if f.is_error]


def test_bad_episodes_are_dropped(monkeypatch):
    data = put("reward", [5], np.nan, put("obs_0", [9], np.inf))
    expected = content(Log({k: v[:4] for k, v in good().items()}))
    for batch in (1, 3, 1000):
        monkeypatch.setattr(row_sources, "BATCH", batch)
        alike(content(Log(data, drop_bad="episode")), expected)
        card = Log(data, drop_bad="episode").summary(1.0)
        assert [str(f) for f in card.findings] == [
            "W121 dropped 2 episodes with NaN or infinities."
        ]
        left = Log({k: v[:4] for k, v in good().items()}, actions=["0", "1", "2"]).summary(1.0)
        assert card.text == left.text
        assert (card.rows, card.episodes, sum(card.taken)) == (4, 1, 4)
    everything = put("reward", [0, 4, 8], np.nan)
    with complaint(LogError, "E122 every episode (3) contains NaN or infinities, so dropping them"):
        Statistics.of(
            Log(everything, drop_bad="episode"), GES(0), "uniform", features=POLYNOMIAL, gamma=0.9
        )


def test_naming_all_actions():
    data = put("action", [3, 4], 3, good(mu=False))
    assert Log(data, actions=["a", "b", "c", "d"]).summary().errors == []


def test_leaving_the_step_out():
    data = put("step", [6], None)
    alike(content(Log(without("step", data=data))), content(Log(good())))


# Columns.

COLUMNS = {
    "missing": (
        without("reward", "truncated"), {},
        "E100 column 'reward' is missing. Add it (the reward after the action), or map it: columns={'reward': …}. Available columns: episode_id, step, obs_0, obs_1, action, terminated, next_obs_0, next_obs_1, behavior_prob, mu_0, mu_1, mu_2, ….\n"
        "E100 column 'truncated' is missing. Add it (True on the last row of an episode that was cut short, False elsewhere), or map",
    ),
    "renamed to nothing": (good(), dict(columns={"step": "t"}), "E100 column 't' is missing. Add it, or map it: columns={'step': …}."),
    "no observation": (without("obs_0"), {}, "E100 no observation columns found: name them obs_0, obs_1, … (phi_0, phi_1, … for features), or list them: observations=[…]. Available columns: episode_id, "),
    "other observation": (good(), dict(observations=["obs_0", "obs1"]), "E100 observation column 'obs1' is missing. Did you mean 'obs_1'?"),
    "far observation": (good(), dict(observations=["lactate"]), "E100 observation column 'lactate' is missing. Available columns: episode_id, step,"),
    "next in part": (without("next_obs_1"), {}, "E100 column 'next_obs_1' is missing, but 'next_obs_0' exists. Add it, or remove all columns of the next observation."),
    "gap in observations": (good() | {"obs_3": np.ones(12)}, {}, "E100 column 'obs_2' is missing, but 'obs_3' exists. Number the columns from 0 without gaps."),
    "gap in mu": (without("mu_1"), {}, "E100 column 'mu_1' is missing, but 'mu_2' exists. Number the columns from 0 without gaps."),
    "no first": (without("obs_0", "next_obs_0"), {}, "E100 no observation columns found:"),
    "short next_mu": (without("next_mu_2"), {}, "E141 next_mu_* has 2 columns, but mu_* has 3: both need one per action."),
    "both propensities": (good() | {"behavior_logp": np.full(12, -1.0)}, {}, "E102 the log has both behavior_prob and behavior_logp: remove one of them."),
    "too many mu": (good(), dict(actions=["none", "low"]), "E141 mu_* has 3 columns, but 2 actions are named (none, low)."),
    "text observation": (
        good() | {"obs_1": np.array(["a"] * 12)}, {},
        "E142 observation column 'obs_1' contains text, not numbers. Encode it (one column per category), or leave it out of observations=[…].",
    ),
    "text by name": (without("next_obs_0") | {"sex": np.array(["f"] * 12)}, dict(observations=["obs_0", "sex"]), "E142 observation column 'sex' contains text, not numbers."),
    "time observation": (good() | {"obs_1": np.full(12, "2026-11-15", dtype="datetime64[s]")}, {}, "E142 observation column 'obs_1' contains timestamp[s], not numbers."),
    "lists of any length": (
        without("obs_0") | {"obs": pa.array([[1.0]] * 12)}, {},
        "E142 column 'obs' contains list<item: double>: observations must be fixed-size lists of numbers, pa.list_(pa.float64(), n), or columns obs_0, obs_1, …",
    ),
    "lists of text": (without("obs_0") | {"obs": np.array([["a", "b"]] * 12)}, {}, "E142 column 'obs' contains fixed_size_list<item: string>[2]: observations must be fixed-size lists of numbers"),
    "next list of another length": (without("obs_0") | {"obs": np.ones((12, 2)), "next_obs": np.ones((12, 3))}, {}, "E142 column 'next_obs' contains fixed_size_list<item: double>[3]: observations must be fixed-size lists of numbers, pa.list_(pa.float64(), 2)"),
    "text reward": (good() | {"reward": np.array(["1"] * 12)}, {}, "E143 column 'reward' contains text; rewards must be numbers."),
    "text flag": (good() | {"terminated": np.array(["no"] * 12)}, {}, "E143 column 'terminated' contains text; flags must be True or False."),
    "real step": (good() | {"step": np.arange(12.0)}, {}, "E143 column 'step' contains double; steps must be integers 0 … T−1."),
    "real action": (good() | {"action": np.linspace(0, 1, 12)}, {}, "E143 column 'action' contains double; actions must be integers 0 … K−1 or names; continuous actions are not supported."),
    "real episode": (good() | {"episode_id": np.linspace(0, 1, 12)}, {}, "E143 column 'episode_id' contains double; episode ids must be integers or text."),
    "text prob": (good() | {"behavior_prob": np.array(["1"] * 12)}, {}, "E143 column 'behavior_prob' contains text; probabilities must be numbers."),
    "nothing": (good() | {"reward": pa.nulls(12)}, {}, "E143 column 'reward' contains no values; rewards must be numbers."),
    "text and numbers": (good() | {"action": np.array(["a", "b", "c"] * 4)}, {}, "E147 column 'action' contains text, but mu_0, mu_1, … are numbered. List the actions in that order: actions=[…]."),
}  # fmt: skip


@pytest.mark.parametrize("case", COLUMNS)
def test_bad_columns(case):
    data, options, message = COLUMNS[case]
    with pytest.raises(LogError) as caught:
        Log(data, **options)
    assert str(caught.value).startswith(message)


def test_all_problems_of_columns_are_said_at_once():
    data = without("reward") | {"obs_0": np.array(["a"] * 12), "step": np.linspace(0, 1, 12)}
    with pytest.raises(LogError) as caught:
        Log(data)
    assert [each.code for each in caught.value.findings] == ["E100", "E142", "E143"]


def test_actions_that_are_ids():
    data = put("action", [3], 10**9, good(mu=False))
    with complaint(
        LogError, "E145 column 'action' contains 1,000,000,000: integer actions must be 0 … K−1, with "
        "K at most 10,000. Renumber them without gaps, or convert them to text."
    ):  # fmt: skip
        content(Log(data))


# Arguments.


@pytest.mark.parametrize(
    ("kind", "message", "options"),
    [
        (errors.UnknownName, "unknown time_limit 'tasks'. Did you mean 'task'?", dict(time_limit="tasks")),
        (errors.UnknownName, "unknown drop_bad 'rows'.", dict(drop_bad="rows")),
        (errors.InvalidParameter, "min_prob must be a number in [0, 1], got 2", dict(min_prob=2)),
        (errors.InvalidParameter, "segment must be a whole number >= 1, got 0", dict(segment=0)),
        (errors.UnknownName, "unknown standard column 'rewards'. Did you mean 'reward'?", dict(columns={"rewards": "r"})),
        (errors.InvalidParameter, "actions must be a list of names, got 'none,low'. Write ['none', 'low'].", dict(actions="none,low")),
        (errors.InvalidParameter, "observations must be a list of names, got 'obs_0'. Write ['obs_0'].", dict(observations="obs_0")),
        (errors.InvalidParameter, "observations must be a list of names; it is empty.", dict(observations=[])),
        (errors.InvalidParameter, "actions contains 'a' twice.", dict(actions=["a", "b", "a"])),
    ],
)  # fmt: skip
def test_bad_arguments(kind, message, options):
    with complaint(kind, message):
        Log(good(), **options)


@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("a log must be Parquet files, an Arrow table, a pandas or polars DataFrame, or a dict of arrays; got int.", 7),
        ("a log must be Parquet files, an Arrow table, a pandas or polars DataFrame, or a dict of arrays; got list.", []),
        ("columns of a log must have the same length, got {'a': 2, 'b': 1}.", {"a": [1, 2], "b": [1]}),
        ("column 'a' cannot be converted to Arrow: ", {"a": 5}),
        ("column 'a' cannot be converted to Arrow: ", {"a": [[1, 2], [3]]}),
        ("column 'a' cannot be converted to Arrow: ", {"a": np.zeros((2, 2, 2))}),
        ("column 'a' cannot be converted to Arrow: ", {"a": [1, "x", None]}),
        ("the table cannot be converted to Arrow: ", pandas.DataFrame({"a": [1, "x", None]})),
    ],
)  # fmt: skip
def test_bad_data(message, data):
    with complaint(errors.InvalidParameter, message):
        Log(data)


# Files.


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(good()), path)
    return path


def test_files_that_are_not_there(file, tmp_path):
    with pytest.raises(LogError) as caught:
        Log([tmp_path / "b.parquet", str(tmp_path / "*.csv"), file])
    assert str(caught.value) == (
        f"E190 no file matches '{tmp_path / '*.csv'}'.\nE190 {tmp_path / 'b.parquet'}: no such file."
    )
    (tmp_path / "empty").mkdir()
    with complaint(LogError, f"E190 the folder {tmp_path / 'empty'} contains no *.parquet files."):
        Log(tmp_path / "empty")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_half_written_files(file, share):
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with complaint(
        LogError, f"E190 {file} cannot be read as Parquet (",
        "). It may be incomplete or in another format: write it again, or leave it out.",
    ):  # fmt: skip
        Log(file)


def test_files_of_another_format(tmp_path):
    path = tmp_path / "log.csv"
    polars.DataFrame(good()).write_csv(path)
    with complaint(
        LogError, f"E190 {path} cannot be read as Parquet (",
        "). Convert CSV files first: pandas.read_csv(…).to_parquet(…).",
    ):  # fmt: skip
        Log(path)


def test_files_damaged_inside(file):
    log = Log(file)
    whole = bytearray(file.read_bytes())
    whole[4:400] = bytes(396)
    file.write_bytes(whole)
    with complaint(LogError, f"E190 {file} cannot be read as Parquet (", "). It may be incomplete"):
        content(log)


def test_the_same_file_twice(file, tmp_path):
    link = tmp_path / "b.parquet"
    link.symlink_to(file)
    for twice in ([file, file], [file, link], [file, str(tmp_path / "a*.parquet")]):
        with complaint(LogError, "E192 ", f" is given twice (also as {file}): list it once."):
            Log(twice)


def test_a_copy_of_a_file(file, tmp_path):
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(file.read_bytes())
    assert wrong(Log([file, copy])) == (
        "E131 episode 10 appears in two separate blocks (rows 0-3, 12-15) (and 2 more such "
        "episodes). Sort by (episode_id, step), or give the episodes different ids."
    )


def test_files_with_different_columns(file, tmp_path):
    other = tmp_path / "b.parquet"
    pq.write_table(pa.table(without("reward") | {"step": good()["step"].astype(np.int32)}), other)
    with pytest.raises(LogError) as caught:
        Log([file, other])
    assert str(caught.value) == (
        f"E191 {file} and {other} have different columns: reward is double in the first, missing in "
        "the second; step is int64 in the first, int32 in the second. Files of one log need the "
        "same columns."
    )
    pq.write_table(pa.table(without("behavior_prob")), file)
    pq.write_table(pa.table(good()), other)
    with complaint(
        LogError, "E191 ", "behavior_prob is missing in the first, double in the second."
    ):
        Log([file, other])


def test_an_empty_log(file, tmp_path):
    none = tmp_path / "none.parquet"
    pq.write_table(pa.table(good()).slice(0, 0), none)
    with complaint(LogError, f"E193 the log is empty: {none} has no rows."):
        Log(none)
    with complaint(LogError, "E193 the log is empty: the table has no rows."):
        Log({name: [] for name in good()})
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "none.parquet"
    other.write_bytes(none.read_bytes())
    with complaint(LogError, "E193 the log is empty: all 2 files have no rows."):
        Log([none, other])
    alike(content(Log([none, file])), content(Log(good())))


def test_places_that_cannot_be_written(tmp_path):
    with complaint(
        errors.InvalidParameter, f"cannot write {tmp_path / 'no' / 'log.parquet'}: ",
        "Choose another path.",
    ):  # fmt: skip
        Log(good()).write(tmp_path / "no" / "log.parquet")
    with complaint(errors.InvalidParameter, "write: metadata must be serialisable as JSON: "):
        Log(good()).write(tmp_path / "log.parquet", gamma=np.ones(2))
    bad = tmp_path / "bad.parquet"
    pq.write_table(pa.table(good()), bad)
    log = Log(bad)
    bad.write_bytes(bad.read_bytes()[:300])
    with complaint(LogError, "E190"):
        log.write(tmp_path / "log.parquet")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bad.parquet"]


# Whatever is wrong, it is one of ours that says so.


@st.composite
def spoilt(draw):
    """Return the columns of a good log with a few things done to them."""
    data = {k: v.copy() for k, v in good(mu=draw(st.booleans())).items()}
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(data)))
        row = draw(st.integers(0, 11))
        how = draw(st.sampled_from(["drop", "null", "value", "text", "shuffle", "real", "short"]))
        column = data[name]
        if how == "drop":
            del data[name]
        elif how == "null":
            data[name] = column.astype(object)
            data[name][row] = None
        elif how == "value":
            value = draw(st.sampled_from([np.nan, np.inf, -1.0, 0.0, 2.0, 1e300]))
            data[name] = column.astype(float) if column.dtype.kind in "iufb" else column
            data[name][row] = value
        elif how == "text":
            data[name] = np.array([f"{each}" for each in column])
        elif how == "shuffle":
            data[name] = np.roll(column, row)
        elif how == "real":
            data[name] = column.astype(float) if column.dtype.kind in "iufb" else column
        elif how == "short":
            data = {k: v[row:] for k, v in data.items()}
            break
    return data


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=spoilt(),
    options=st.fixed_dictionaries(
        {},
        optional={
            "drop_bad": st.just("episode"),
            "drop_autoreset": st.just(True),
            "time_limit": st.just("task"),
            "min_prob": st.just(0.1),
            "actions": st.sampled_from([["0", "1", "2"], ["a", "b"]]),
            "behaviour": st.just(lambda o: np.full((len(o), 3), 1 / 3)),
            "segment": st.integers(1, 5),
        },
    ),
    batch=st.integers(1, 13),
)
def test_spoilt_logs_are_refused_or_used(data, options, batch, monkeypatch):
    def outcome(form):
        try:
            log = Log(form, **options)
            card = log.summary(0.9)
            found = [str(each) for each in card.errors]
            list(log.segments())
            return found, card.text
        except errors.SaddlebackError as error:
            return str(error).split("\n"), None

    expected = outcome(data)
    with monkeypatch.context() as patch:
        patch.setattr(row_sources, "BATCH", batch)
        again = outcome(data)
    # What is said does not depend on how many rows are read at a time.
    assert again[0] == expected[0]
    assert (again[1] is None) == (expected[1] is None)


# Policies.


def nan_policy(observations):
    found = np.full((len(observations), 3), 1 / 3)
    found[observations[:, 0] > 0] = np.nan
    return found


POLICIES = [
    ("E141 ", "policy returned shape (n, 2); expected (n, 3), one probability per row and action of the log.", lambda o: np.full((len(o), 2), 0.5)),
    ("E141 ", "policy returned shape (n,); expected (n, 3)", lambda o: np.zeros(len(o))),
    ("E141 ", "policy returned shape (3,); expected (n, 3)", lambda o: np.ones(3) / 3),
    ("E141 ", "policy returned shape (); expected (n, 3)", lambda o: 1.0),
    ("E144 ", "policy gives NaN for ", nan_policy),
    ("E144 ", "policy gives a negative probability for ", lambda o: np.tile([-0.5, 0.5, 1.0], (len(o), 1))),
    ("E104 ", "policy: probabilities sum to 0.9, not 1, for ", lambda o: np.full((len(o), 3), 0.3)),
    ("E144 ", "policy failed: KeyError: 'hr'", lambda o: {}["hr"]),
    ("E144 ", "policy failed: ValueError: could not convert string to float", lambda o: [["a", "b", "c"]] * len(o)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message", "policy"), POLICIES)
def test_bad_policies(code, message, policy):
    log = Log(good())
    with complaint(LogError, code, message):
        Statistics.of(log, GES(0.5), {"mine": policy}, features=POLYNOMIAL, gamma=0.9)
    with complaint(LogError, f"{code}behaviour {message}"):
        content(Log(good(), behaviour=policy))
    with complaint(LogError, f"{code}target 'mine' {message}"):
        as_target(policy, log, "mine").at(log.start_states()[:2] + 3.0, 3)


def test_where_a_policy_is_wrong():
    with complaint(
        LogError, "target 'nan_policy' policy gives NaN for 1 of 2 observations (first: [0.5, 7]). "
        "Every observation needs one probability per action."
    ):  # fmt: skip
        as_target(nan_policy, Log(good())).at(np.array([[-1.0, 0.0], [0.5, 7.0]]), 3)
    with complaint(LogError, "(first: [1, 1, 1, 1, 1, 1, …])"):
        as_target(nan_policy, Log(good())).at(np.ones((1, 8)), 3)


def with_pi(**changes):
    data = good()
    pi = {f"pi_{a}": np.full(12, 1 / 3) for a in range(3)}
    return data | pi | changes


def test_bad_target_columns():
    def run(data, target="columns", **options):
        return Statistics.of(Log(data, **options), GES(0.5), target, features=POLYNOMIAL, gamma=0.9)

    with complaint(
        LogError, "E146 pi_* does not cover the observation after truncated rows (first: episode 11 "
        "step 3): add next_pi_0, … on those rows, or pass the target as a function."
    ):  # fmt: skip
        run(with_pi())
    following = {f"next_pi_{a}": np.full(12, 1 / 3) for a in range(3)}
    assert run(with_pi(**following)).steps.sum() == 12
    assert run(with_pi(), time_limit="task").steps.sum() == 12
    off = with_pi(**following, pi_0=np.full(12, 0.3))
    message = "E104 pi_* sums to 0.966667 on 12 rows (first: episode 10 step 0)."
    with complaint(LogError, message):
        run(off)
    assert str(Log(off).summary().errors[0]).startswith(message)
    with complaint(LogError, "E104 next_pi_* sums to 0.967 on 12 rows"):
        run(with_pi(**(following | {"next_pi_0": np.full(12, 0.3 + 1 / 3000)})))
    with complaint(LogError, "E141 few_* has 2 columns, but the log has 3 actions."):
        run(good() | {"few_0": np.full(12, 0.5), "few_1": np.full(12, 0.5)}, "columns:few")
    with complaint(
        errors.InvalidParameter, "target 'columns': the log has no columns pi_0, pi_1, … Its "
        "tables of probabilities are: mu, next_mu."
    ):  # fmt: skip
        run(good())


def test_features_that_do_not_fit():
    cube = features.Polynomial([-4.0] * 3, [4.0] * 3, 1)
    with complaint(
        LogError, "E140 obs has 2 columns (obs_0, obs_1), features expect 3. Choose columns: "
        "observations=[…]."
    ):  # fmt: skip
        Statistics.of(Log(good()), GES(0.5), "uniform", features=cube, gamma=0.9)


def test_uncovered_actions():
    data = good(mu=False) | {"action": np.array([0, 1] * 6)}
    never = Log(data, actions=["none", "low", "high"])
    message = (
        "E110 pi (uniform) puts mass on actions mu never takes: 33.3% of pi's probability (action "
        "'high' in 12 rows). Ratio estimators are biased; use DM only (allow_uncovered) or "
        "restrict pi."
    )
    with complaint(LogError, message):
        Statistics.of(never, GES(0.5), "uniform", features=POLYNOMIAL, gamma=0.9)
    found = Statistics.of(
        never, GES(0.5), "uniform", features=POLYNOMIAL, gamma=0.9, allow_uncovered=True
    )
    assert str(found.findings[0]) == message.replace("E110", "W110")
    zero = put("mu_2", [3], 0.0, put("mu_1", [3], 0.5, put("mu_0", [3], 0.5)))
    zero = put("action", [3], 0, put("behavior_prob", [3], 0.5, zero))
    with complaint(LogError, "2.8% of pi's probability (action '2' in 1 rows)"):
        Statistics.of(Log(zero), GES(0.5), "uniform", features=POLYNOMIAL, gamma=0.9)


def test_the_mean_reward_is_of_the_rewards_that_are_there():
    data = put("reward", [0, 1, 2], np.nan)
    known = good()["reward"][3:]
    card = Log(data).summary()
    assert card.errors
    assert card.reward[1] == pytest.approx(known.mean())


def test_a_frame_with_two_columns_of_one_name_is_refused():
    frame = pandas.DataFrame(good())
    twice = pandas.concat([frame, frame[["reward"]]], axis=1)
    with complaint(
        errors.InvalidParameter, "the table cannot be converted to Arrow: Duplicate column"
    ):
        Log(twice)
