"""Rewards that are logged as text: the number of each value, and errors that ask for it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.log_cases import error_matching, good
from helpers.logs import assert_same_content, content
from saddleback.errors import InvalidParameter
from saddleback.log import Log, LogError

VALUES = {"died": -1, "discharged": 1.5}
LAST = np.append(good()["episode_id"][1:] != good()["episode_id"][:-1], True)
OUTCOMES = np.where(LAST, np.where(np.arange(12) < 5, "died", "discharged"), None)


def log(outcomes=OUTCOMES, **options):
    return Log(good() | {"reward": outcomes}, fill_reward=0, **options)


@pytest.mark.parametrize("category", [False, True])
def test_every_value_has_its_number(category):
    column = pa.array(OUTCOMES)
    outcomes = column.dictionary_encode() if category else column
    rewards = np.where(LAST, np.where(np.arange(12) < 5, -1.0, 1.5), 0.0)
    texts = log(outcomes, reward_values=VALUES)
    assert_same_content(content(texts), content(Log(good() | {"reward": rewards})))
    assert "reward_values={'died': -1, 'discharged': 1.5}" in texts.read_options


def test_a_repaired_log_has_numbers(tmp_path):
    texts = log(reward_values=VALUES)
    repaired = Log(texts.write_repaired(tmp_path / "log.parquet"))
    assert_same_content(content(repaired), content(texts))


@pytest.mark.parametrize("category", [False, True])
def test_a_column_without_a_value_is_reported(category):
    column = pa.nulls(12, pa.string())
    column = column.dictionary_encode() if category else column
    with error_matching(
        LogError, "E143 column 'reward' is text, and has no value; rewards must be numbers."
    ):
        log(column)


def test_the_error_lists_the_values_of_this_log():
    with error_matching(
        LogError, "E143 column 'reward' contains text; rewards must be numbers. Give each value "
        'one: reward_values={"died": "NUMBER", "discharged": "NUMBER"}.',
    ):  # fmt: skip
        log()
    with error_matching(
        LogError, "E143 column 'reward' contains 'discharged', without a number. Give each value "
        'one: reward_values={"died": -1, "discharged": "NUMBER"}.',
    ):  # fmt: skip
        log(reward_values={"died": -1})
    texts = np.array([f"note {i}" for i in range(12)] * 2)
    data = {k: np.concatenate([v, v]) for k, v in good().items()} | {"reward": texts}
    data["episode_id"][12:] += 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saddleback.log.text_rewards.MAX_VALUES", 5)
        with pytest.raises(LogError, match=r"rewards must be numbers\.$"):
            Log(data)


def test_every_text_needs_a_number_however_many_have_one(tmp_path):
    files = [tmp_path / "first.parquet", tmp_path / "second.parquet"]
    for file, ids, texts in zip(
        files, (np.arange(30), np.array([30])), ([f"v{i}" for i in range(30)], ["zzz"]), strict=True
    ):
        columns = {"episode_id": ids, "obs_0": ids / 7, "action": ids % 2, "reward": texts}
        pq.write_table(pa.table(columns | {"terminated": ids >= 0, "truncated": ids < 0}), file)
    values = {f"v{i}": i for i in range(30)}
    with error_matching(LogError, "E143 column 'reward' contains 'zzz', without a number."):
        Log(files, reward_values=values, fill_reward=0)
    assert Log(files, reward_values=values | {"zzz": 1}).rows == 31


def test_a_column_of_text_may_be_the_reward():
    data = {k: v for k, v in good().items() if k != "reward"} | {"outcome": OUTCOMES}
    with error_matching(LogError, 'or map it: columns={"reward": "outcome"}.'):
        Log(data)
    with error_matching(LogError, 'or map it: columns={"reward": "outcome"}.'):
        Log(data | {"cost": np.arange(12.0)}, columns={"reward": "outcom"})


def test_numbers_of_numpy_and_codes_that_are_text():
    codes = np.where(OUTCOMES == "died", "0", np.where(OUTCOMES == "discharged", "1", OUTCOMES))
    texts = log(codes, reward_values={0: np.int64(-1), np.int64(1): np.float32(1.5)})
    assert texts.reward_values == {"0": -1, "1": 1.5}
    assert_same_content(content(texts), content(log(reward_values=VALUES)))
    assert "reward_values={'0': -1, '1': 1.5}" in texts.read_options


@pytest.mark.parametrize(
    "values",
    [
        {}, {"died": "-1"}, {"died": np.nan}, {"died": True}, {"died": 10**400}, "died=1",
        {0: 1, "0": 2},
    ],
)  # fmt: skip
def test_values_are_numbers(values):
    with pytest.raises(InvalidParameter, match="reward_values"):
        log(reward_values=values)


def test_rewards_that_are_numbers_need_no_values():
    with error_matching(InvalidParameter, "reward_values is for rewards that are text"):
        Log(good(), reward_values=VALUES)
