"""Bad columns and arguments are reported with the fix."""

import numpy as np
import pandas
import pyarrow as pa
import pytest

from helpers.log_cases import error_matching, good, with_value, without
from helpers.logs import columns, content
from saddleback import errors, evaluate
from saddleback.log import Log, LogError

# Columns.

COLUMNS = {
    "missing": (
        without("reward", "truncated"), {},
        "E100 column 'reward' is missing. The log has episode_id, step, obs_0, obs_1, action, terminated, next_obs_0, next_obs_1, behavior_prob, mu_0, mu_1, mu_2, next_mu_0, next_mu_1, next_mu_2. "
        'Add it (the reward after the action).\n'
        "E100 column 'truncated' is missing (True on the last row of an episode that was cut short, False elsewhere). "
        'Add or map it. If all other episodes end in this way: episodes_end="truncated".',
    ),
    "no flags": (
        without("terminated", "truncated", *(name for name in good() if "_" in name and name != "episode_id")), {},
        "E100 columns 'terminated' and 'truncated' are missing, which tell how episodes end. The log has episode_id, step, action, reward. "
        'Add or map them. If all end in the same way, terminated or truncated: episodes_end="terminated".\nE100 no observation columns found. Name them',
    ),
    "similar name": (
        without("reward") | {"rewards": np.zeros(12)}, {},
        "E100 column 'reward' is missing. The log has episode_id, step, obs_0, obs_1, action, terminated, truncated, next_obs_0, next_obs_1, behavior_prob, mu_0, mu_1, mu_2, next_mu_0, next_mu_1, next_mu_2, rewards. "
        'Add it (the reward after the action), or map it: columns={"reward": "rewards"}.',
    ),
    "step is a time": (
        good() | {"step": np.arange(12).astype("datetime64[s]")}, {},
        """E143 column 'step' contains timestamp[s]; steps must be integers 0 … T−1. Sort the rows by it: order_by="step".""",
    ),
    "renamed to nothing": (good(), dict(columns={"step": "t"}), "E100 column 't' is missing. The log has episode_id, step, obs_0, obs_1, action, reward, terminated, truncated, next_obs_0, next_obs_1, behavior_prob, mu_0, mu_1, mu_2, next_mu_0, next_mu_1, next_mu_2. "
        "Do not map it: 'step' is there."),
    "no observation": (without("obs_0"), {}, "E100 no observation columns found. The log has episode_id, step, obs_1, action, reward, terminated, truncated, next_obs_0, next_obs_1, behavior_prob, mu_0, mu_1, mu_2, next_mu_0, next_mu_1, next_mu_2. "
        'Name them obs_0, obs_1, … (phi_0, phi_1, … for features), or list those that were known before the action: observations=["obs_1"].'),
    "other observation": (good(), dict(observations=["obs_0", "obs1"]), "E100 observation column 'obs1' is missing. Did you mean 'obs_1'?"),
    "far observation": (good(), dict(observations=["lactate"]), "E100 observation column 'lactate' is missing. The log has episode_id, step,"),
    "next in part": (without("next_obs_1"), {}, "E100 column 'next_obs_1' is missing, but 'next_obs_0' exists. Add it, or remove all columns of the next observation."),
    "gap in observations": (good() | {"obs_3": np.ones(12)}, {}, "E100 column 'obs_2' is missing, but 'obs_3' exists. Number the columns from 0 without gaps."),
    "gap in mu": (without("mu_1"), {}, "E100 column 'mu_1' is missing, but 'mu_2' exists. Number the columns from 0 without gaps."),
    "no first": (without("obs_0", "next_obs_0"), {}, "E100 no observation columns found."),
    "short next_mu": (without("next_mu_2"), {}, "E141 next_mu_* has 2 columns, but mu_* has 3: both need one per action."),
    "both propensities": (good() | {"behavior_logp": np.full(12, -1.0)}, {}, "E102 the log has both behavior_prob and behavior_logp: remove one of them."),
    "too many mu": (good(), dict(actions=["none", "low"]), "E141 mu_* has 3 columns, but 2 actions are named (none, low)."),
    "time observation": (good() | {"obs_1": np.full(12, "2026-11-15", dtype="datetime64[s]")}, {}, """E142 observation column 'obs_1' contains timestamp[s]: convert it to numbers. Or list the observations without it: observations=["obs_0"]."""),
    "lists of any length": (
        without("obs_0") | {"obs": pa.array([[1.0]] * 12)}, {},
        "E142 column 'obs' contains list<item: double>: observations must be fixed-size lists of numbers, pa.list_(pa.float64(), n), or columns obs_0, obs_1, …",
    ),
    "lists of text": (without("obs_0") | {"obs": np.array([["a", "b"]] * 12)}, {}, "E142 column 'obs' contains fixed_size_list<item: string>[2]: observations must be fixed-size lists of numbers"),
    "next list of another length": (without("obs_0") | {"obs": np.ones((12, 2)), "next_obs": np.ones((12, 3))}, {}, "E142 column 'next_obs' contains fixed_size_list<item: double>[3]: observations must be fixed-size lists of numbers, pa.list_(pa.float64(), 2)"),
    "text reward": (good() | {"reward": np.array(["1"] * 12)}, {}, "E143 column 'reward' contains text; rewards must be numbers."),
    "real step": (good() | {"step": np.arange(12.0)}, {}, "E143 column 'step' contains double; steps must be integers 0 … T−1."),
    "real action": (good() | {"action": np.linspace(0, 1, 12)}, {}, "E143 column 'action' contains double; actions must be integers 0 … K−1 or names, and those of continuous actions are named action_0, action_1 and so on."),
    "real episode": (good() | {"episode_id": np.linspace(0, 1, 12)}, {}, "E143 column 'episode_id' contains double; episode ids must be integers or text."),
    "text prob": (good() | {"behavior_prob": np.array(["1"] * 12)}, {}, "E143 column 'behavior_prob' contains text; probabilities must be numbers."),
    "nothing": (good() | {"reward": pa.nulls(12)}, {}, "E143 column 'reward' contains no values; rewards must be numbers."),
    "text and numbers": (good() | {"action": np.array(["a", "b", "c"] * 4)}, {}, "E147 column 'action' contains text, but mu_0, mu_1, … are numbered. List the actions in that order, such as: actions=[\"a\", \"b\", \"c\"]."),
}  # fmt: skip


@pytest.mark.parametrize("case", COLUMNS)
def test_bad_columns_are_reported_with_a_fix(case):
    data, options, message = COLUMNS[case]
    with pytest.raises(LogError) as caught:
        Log(data, **options)
    assert str(caught.value).startswith(message)


def test_flags_may_be_words():
    data = good()
    words = [np.where(data[flag], "Yes", "no") for flag in ("terminated", "truncated")]
    some = pa.array(words[1]).dictionary_encode()
    log = Log(data | {"terminated": words[0], "truncated": some})
    plain, worded = ([*one.segments()] for one in (Log(data), log))
    for one, other in zip(plain, worded, strict=True):
        assert one.rows.terminated.tolist() == other.rows.terminated.tolist()
        assert one.rows.truncated.tolist() == other.rows.truncated.tolist()
    assert any(one.rows.terminated.any() for one in worded)
    unknown = Log(data | {"terminated": np.where(data["terminated"], "maybe", "no")})
    message = "E143 column 'terminated' contains 'maybe'; flags must be true or false, yes or no"
    with pytest.raises(LogError, match=message):
        list(unknown.segments())


def test_all_problems_of_columns_are_reported_at_once():
    data = without("reward") | {
        "obs_0": np.full(12, "2026-11-15", dtype="datetime64[s]"),
        "step": np.linspace(0, 1, 12),
    }
    with pytest.raises(LogError) as caught:
        Log(data)
    assert [finding.code for finding in caught.value.findings] == ["E100", "E142", "E143"]


def test_huge_action_numbers_are_rejected():
    data = with_value("action", [3], 10**9, good(mu=False))
    with error_matching(
        LogError, "E145 column 'action' contains 1,000,000,000: integer actions must be 0 … K−1, with "
        "K at most 10,000, unless they are listed. Correct it, convert the column to text, or list "
        'the actions: actions=["0", "1", "2", "1000000000"].'
    ):  # fmt: skip
        content(Log(data))


def test_a_column_of_another_type_is_not_suggested():
    data = {k: v for k, v in good().items() if k != "reward"}
    data["ward"] = np.full(len(data["action"]), "icu")
    with pytest.raises(LogError, match=r"Add it \(the reward after the action\)\.$"):
        Log(data)
    with error_matching(LogError, 'or map it: columns={"reward": "NAME"}.'):
        Log(data | {"age": np.ones(12)})
    with error_matching(LogError, 'or map it: columns={"reward": "rewards"}.'):
        Log(data | {"rewards": np.zeros(len(data["action"]))})


def test_a_log_with_a_different_action_on_every_row_is_rejected():
    data = columns([10_001], "terminated", actions=1, mu=False)
    data["action"] = np.arange(10_001).astype(str)
    with error_matching(LogError, "E145 the log has more than 10,000 actions. Group them"):
        evaluate(data, "uniform", gamma=0.9)


def test_columns_with_the_same_name_are_rejected():
    table = pa.table(good())
    for name in ("reward", "obs_0", "mu_1", "comment"):
        both = [*table, table["reward"], table["reward"]]
        log = pa.table(both, names=[*table.column_names, name, "comment"])
        with error_matching(LogError, f"E105 the log has several columns {name!r}. Remove or"):
            Log(log)


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
def test_bad_arguments_are_rejected(kind, message, options):
    with error_matching(kind, message):
        Log(good(), **options)


@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("a log must be files (Parquet, Arrow, CSV, JSON lines, HDF5), an Arrow table, a pandas or polars frame, a DuckDB relation, or a dict of arrays; got int.", 7),
        ("a log must be files (Parquet, Arrow, CSV, JSON lines, HDF5), an Arrow table, a pandas or polars frame, a DuckDB relation, or a dict of arrays; got list.", []),
        ("columns of a log must have the same length, got {'a': 2, 'b': 1}.", {"a": [1, 2], "b": [1]}),
        ("column 'a' cannot be converted to Arrow: ", {"a": 5}),
        ("column 'a' cannot be converted to Arrow: ", {"a": [[1, 2], [3]]}),
        ("column 'a' cannot be converted to Arrow: ", {"a": np.zeros((2, 2, 2))}),
        ("column 'a' cannot be converted to Arrow: ", {"a": [1, "x", None]}),
        ("the table cannot be converted to Arrow: ", pandas.DataFrame({"a": [1, "x", None]})),
    ],
)  # fmt: skip
def test_data_that_are_not_a_table_are_rejected(message, data):
    with error_matching(errors.InvalidParameter, message):
        Log(data)


def test_duplicate_column_names_are_rejected():
    frame = pandas.DataFrame(good())
    doubled = pandas.concat([frame, frame[["reward"]]], axis=1)
    with error_matching(
        errors.InvalidParameter, "the table cannot be converted to Arrow: Duplicate column"
    ):
        Log(doubled)
