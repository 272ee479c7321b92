"""The option that a message ends with is the one that helps this log."""

import numpy as np
import pandas
import pyarrow as pa
import pytest

from helpers.log_cases import error_matching, good, with_value, without
from saddleback.cli.messages import as_option
from saddleback.errors import Fix
from saddleback.log import Log, LogError
from saddleback.ope import evaluate

MU = [name for name in good() if "mu_" in name]
BARE = without(*MU)
"""A log without columns that are numbered by action."""

LAST = np.append(good()["episode_id"][1:] != good()["episode_id"][:-1], True)
HOURS = np.arange(12, dtype=float)


def renamed(data, **names):
    """Return the data with other names of some columns."""
    return {names.get(name, name): column for name, column in data.items()}


def shuffled(data, seed=3):
    order = np.random.default_rng(seed).permutation(12)
    return {name: column[order] for name, column in data.items()}


OBSERVED = renamed(BARE, obs_0="hr", obs_1="ward", next_obs_0="next_hr", next_obs_1="next_ward")
CASES = {
    "reward by another name": (
        renamed(BARE, reward="outcome_30d"), {}, "E100", ("columns", {"reward": "outcome_30d"})
    ),
    "episodes by another name": (
        renamed(BARE, episode_id="hospitalStay"), {}, "E100",
        ("columns", {"episode_id": "hospitalStay"}),
    ),
    "action by another name": (
        renamed(BARE, action="dose"), {}, "E100", ("columns", {"action": "dose"})
    ),
    "continuous action by another name": (
        renamed(BARE | {"action": HOURS / 7}, action="dose"), {}, "E100",
        ("columns", {"action_0": "dose"}),
    ),
    "in another case": (
        renamed(BARE, reward="Profit"), {"columns": {"reward": "profit"}}, "E100",
        ("columns", {"reward": "Profit"}),
    ),
    "observations in another case": (
        OBSERVED, {"observations": ["HR", "WARD"]}, "E100", ("observations", ["hr", "ward"])
    ),
    "misspelt": (renamed(BARE, reward="rewrad"), {}, "E100", ("columns", {"reward": "rewrad"})),
    "a flag by another name": (
        renamed(BARE, truncated="transferred"), {}, "E100",
        ("columns", {"truncated": "transferred"}),
    ),
    "no flags": (
        without("terminated", "truncated", data=BARE), {}, "E100", ("episodes_end", "terminated")
    ),
    "observations": (
        OBSERVED | {"charted_at": HOURS.astype("datetime64[s]"), "hour": HOURS}, {}, "E100",
        ("observations", ["hr", "ward"]),
    ),
    "observations beside times that are text": (
        OBSERVED | {"charted_at": np.array(["3/4"] * 12)}, {}, "E100",
        ("observations", ["hr", "ward"]),
    ),
    "a list as observation": (
        {k: v for k, v in BARE.items() if "obs" not in k}
        | {"embedding": np.stack([HOURS, HOURS / 7], axis=1)}, {}, "E100",
        ("observations", ["embedding"]),
    ),
    "an observation that is misspelt": (
        OBSERVED, {"observations": ["hr", "wrad"]}, "E100", ("observations", ["hr", "ward"])
    ),
    "an observation that is missing": (
        OBSERVED, {"observations": ["hr", "lactate"]}, "E100", ("observations", ["hr"])
    ),
    "a gap in the observations": (
        BARE | {"obs_3": HOURS, "next_obs_3": HOURS}, {}, "E100",
        ("observations", ["obs_0", "obs_1", "obs_3"]),
    ),
    "actions that are counted from 1": (
        without("action", "behavior_prob", data=BARE) | {"action_2": HOURS, "action_1": HOURS}, {},
        "E100", ("columns", {"action_0": "action_1", "action_1": "action_2"}),
    ),
    "a gap in the actions": (
        without("action", "behavior_prob", data=BARE) | {"action_0": HOURS, "action_2": HOURS}, {},
        "E100", ("columns", {"action_1": "action_2"}),
    ),
    "misspelt order": (
        BARE | {"charted": HOURS}, {"order_by": "chartd"}, "E100", ("order_by", "charted")
    ),
    "another order": (
        without("step", data=BARE) | {"hour": HOURS}, {"order_by": "at"}, "E100",
        ("order_by", "hour"),
    ),
    "a next observation in part": (
        without("next_ward", data=OBSERVED), {"observations": ["hr", "ward"]}, "E100",
        ("observations", ["hr"]),
    ),
    "order of text": (
        without("step", data=BARE) | {"at": np.array(["3/4"] * 12), "hour": HOURS},
        {"order_by": "at"}, "E143",
        ("order_by", "hour"),
    ),
    "no bandit": (BARE, {"bandit": True}, "E135", ("bandit", False)),
    "zero": (with_value("behavior_prob", [3], 0.0), {}, "E101", ("min_prob", 0.1)),
    "logarithms": (
        BARE | {"behavior_prob": np.log(good()["behavior_prob"])}, {}, "E102",
        ("columns", {"behavior_logp": "behavior_prob"}),
    ),
    "logarithms by another name": (
        renamed(BARE | {"behavior_prob": np.log(good()["behavior_prob"])}, behavior_prob="lp"),
        {"columns": {"behavior_prob": "lp"}}, "E102", ("columns", {"behavior_logp": "lp"}),
    ),
    "some rewards": (with_value("reward", [5], np.nan), {}, "E120", ("drop_bad", "episode")),
    "rewards at the end": (
        BARE | {"reward": np.where(LAST, 1.0, np.nan)}, {}, "E120", ("fill_reward", 0)
    ),
    "few rewards": (with_value("reward", [1, 2, 5, 9], np.nan), {}, "E120", ("fill_reward", 0)),
    "an observation of few rows": (
        with_value("obs_1", [1, 2, 5, 9], np.nan), {}, "E120", ("observations", ["obs_0"])
    ),
    "nothing left": (
        with_value("obs_1", [1, 5, 9], np.nan), {"drop_bad": "episode"}, "E122",
        ("observations", ["obs_0"]),
    ),
    "an id that is missing": (
        with_value("episode_id", [5], None) | {"visit": good()["episode_id"]}, {}, "E121",
        ("columns", {"episode_id": "visit"}),
    ),
    "a step that is missing": (
        with_value("step", [5], None) | {"day": HOURS}, {}, "E121", ("order_by", "day")
    ),
    "a flag without values": (
        BARE | {"truncated": pa.nulls(12), "terminated": LAST}, {}, "E143",
        ("episodes_end", "truncated"),
    ),
    "a flag that is missing": (
        with_value("terminated", [5], None), {}, "E121", ("episodes_end", "terminated")
    ),
    "shuffled, with steps": (shuffled(BARE), {}, "E131", ("order_by", "step")),
    "shuffled, with times": (
        shuffled(without("step", data=BARE) | {"hour": HOURS}), {}, "E131", ("order_by", "hour")
    ),
    "shuffled within episodes": (
        {k: v[[1, 0, 3, 2, 4, 5, 6, 7, 8, 9, 10, 11]] for k, v in BARE.items()}, {}, "E130",
        ("order_by", "step"),
    ),
    "later steps": (BARE | {"step": good()["step"] + 1}, {}, "E134", ("order_by", "step")),
    "an early flag": (
        with_value("terminated", [1], True) | {"died": good()["terminated"]}, {}, "E132",
        ("columns", {"terminated": "died"}),
    ),
    "real steps": (
        BARE | {"step": good()["step"] / 2}, {}, "E143", ("order_by", "step")
    ),
    "real actions": (
        BARE | {"action": HOURS / 7}, {}, "E143", ("columns", {"action_0": "action"})
    ),
    "text that is no category": (
        without("next_hr", data=OBSERVED) | {"note": pa.array([["a"]] * 12)},
        {"observations": ["hr", "note"]}, "E142",
        ("observations", ["hr"]),
    ),
    "an action that is not listed": (
        with_value("action", [3], 5, BARE) | {"action": np.where(HOURS == 3, 5, 1)},
        {"actions": ["1", "3"]}, "E145", ("actions", ["1", "3", "5"]),
    ),
    "too few names": (good(), {"actions": ["a", "b"]}, "E141", ("actions", ["a", "b", "NAME"])),
    "too many names": (
        good(), {"actions": ["a", "b", "c", "d"]}, "E141", ("actions", ["a", "b", "c"])
    ),
    "names of numbered columns": (
        good() | {"action": np.array(["no", "low", "high"])[good()["action"]]}, {}, "E147",
        ("actions", ["high", "low", "no"]),
    ),
    "the task ends": (good(), {"gamma": 1.0}, "E160", ("time_limit", "task")),
    "episodes are cut": (
        BARE | {"terminated": HOURS == 3, "truncated": (HOURS == 8) | (HOURS == 11)}
        | {"episode_id": np.repeat([1, 2, 3], [4, 5, 3]), "step": np.r_[0:4, 0:5, 0:3]},
        {"gamma": 1.0}, "E160", ("gamma", 0.99),
    ),
    "episodes stop": (
        BARE | {"terminated": LAST & (HOURS < 4), "truncated": np.zeros(12, bool)},
        {"gamma": 1.0}, "E160", ("episodes_end", "terminated"),
    ),
}  # fmt: skip


def errors(data, gamma=None, **options):
    try:
        return Log(data, **options).summary(gamma).errors
    except LogError as error:
        return error.findings


@pytest.mark.parametrize("case", CASES)
def test_the_option_at_the_end_of_a_message_helps(case):
    data, options, code, (parameter, value) = CASES[case]
    before = {finding.code: finding for finding in errors(data, **options)}
    assert list(before) == [code]
    fix = before[code].fix
    assert (fix.parameter, fix.value) == (parameter, value)
    if isinstance(value, dict):
        value = {**options.get("columns", {}), **value}
        if "behavior_logp" in value:
            value.pop("behavior_prob", None)
    assert not errors(data, **options | {parameter: value})


def test_a_log_without_episodes_is_probably_one_of_a_bandit():
    data = without("episode_id", "step", "terminated", "truncated", data=BARE)
    (finding,) = errors(data)
    assert str(finding).endswith("If each row is a decision of its own, say so: bandit=True.")
    assert not errors(data, bandit=True)
    (finding,) = errors(data | {"visit": good()["episode_id"]}, episodes_end="terminated")
    assert str(finding).endswith('or map it: columns={"episode_id": "visit"}.')


def test_shuffled_rows_give_one_hint_and_other_problems():
    data = shuffled(BARE | {"reward": np.where(HOURS == 2, np.nan, 1.0)})
    assert [finding.code for finding in errors(data)] == ["E120", "E131"]
    assert not errors(data, order_by="step", drop_bad="episode")


def test_where_no_column_can_sort_shuffled_rows_none_is_named():
    data = shuffled(without("step", data=BARE), seed=1)
    by_code = {finding.code: finding for finding in errors(data)}
    assert by_code["E131"].fix is None
    assert by_code["E131"].message.endswith("or add a time to sort the rows by.")


def test_messages_about_single_decisions_speak_of_rows():
    data = without("episode_id", "step", "terminated", "truncated", "behavior_prob", data=BARE)
    data = with_value("obs_1", [3], np.nan, data)
    log = Log(data, bandit=True)
    assert [str(finding) for finding in log.summary().findings] == [
        "E120 obs_1 is NaN in 1 row (row 3). Fill in the value, or drop such rows: "
        'drop_bad="episode".',
        "W106 the log has no propensities: only DM and Marginal DR need none. Add behavior_prob, "
        "or estimate it: estimate_behaviour(log).",
    ]
    dropped = log.with_options(drop_bad="episode").summary().findings
    assert "W121 dropped 1 row with NaN or infinities." in map(str, dropped)
    ages = np.array([*map(str, range(30, 41)), "?"])
    with error_matching(LogError, "'?' among numbers in 1 row (row 11)."):
        Log(data | {"age": ages}, ["age"], bandit=True).dimensions  # noqa: B018


@pytest.mark.parametrize("options", [{}, {"order_by": "step"}])
def test_propensities_by_another_name_are_pointed_out(options):
    data = renamed(BARE, behavior_prob="pscore")
    (finding,) = [f for f in Log(data, **options).summary().findings if f.code == "W106"]
    assert finding.fix == Fix(
        "If this column has them, map it", "columns", {"behavior_prob": "pscore"}
    )
    assert not Log(data, columns={"behavior_prob": "pscore"}).summary().findings


@pytest.mark.parametrize("name", ["death_prob", "riskProbability", "mortality_probability"])
def test_other_probabilities_are_not_taken_for_propensities(name):
    data = renamed(BARE, behavior_prob=name)
    (finding,) = [f for f in Log(data).summary().findings if f.code == "W106"]
    assert finding.fix.parameter == "estimate_behaviour"


def test_a_policy_with_more_actions_than_the_log():
    def policy(observations):
        return np.full((len(observations), 4), 0.25)

    with error_matching(
        LogError, "Its actions are 0, 1, 2. If the policy has more, name all of them in its order: "
        'actions=["0", "1", "2", "3"].',
    ):  # fmt: skip
        evaluate(BARE, policy, gamma=0.9)
    with error_matching(LogError, "Its actions are a, b, c.", 'actions=["a", "b", "c", "NAME"].'):
        evaluate(Log(BARE, actions=["a", "b", "c"]), policy, gamma=0.9)


@pytest.mark.parametrize(("low", "high"), [(50.0, 50.0), (1.0, 100.0), (20.0, 80.0)])
def test_percentages_are_recognised(low, high):
    (finding,) = errors(BARE | {"behavior_prob": np.linspace(low, high, 12)})
    assert str(finding).endswith("these look like percentages. Divide them by 100.")
    (finding,) = errors(BARE | {"behavior_prob": np.append(np.full(11, 0.5), high + 1)})
    assert "percentages" not in str(finding)


@pytest.mark.parametrize(
    ("propensities", "message"),
    [
        ([2.0, 4.0, 1.5], "these look like inverse propensities. Replace each w by 1/w."),
        ([3.0], "these look like inverse propensities. Replace each w by 1/w."),
        ([1.0] * 11 + [500.0], "Densities belong to continuous actions"),
        ([10.0], "or inverse propensities, w, to be replaced by 1/w."),
    ],
)
def test_inverse_propensities_are_no_percentages(propensities, message):
    (finding,) = errors(BARE | {"behavior_prob": np.resize(propensities, 12)})
    assert message in str(finding)
    assert "look like percentages" not in str(finding)


def test_inverse_propensities_may_exceed_100():
    data = BARE | {"behavior_prob": np.append(np.full(11, 1.1), 101.0)}
    (finding,) = errors(data, actions=list("01234567"))
    assert str(finding).endswith("these look like inverse propensities. Replace each w by 1/w.")


def test_rewards_that_will_be_filled_in_make_no_episode_bad():
    data = with_value("obs_1", [1], np.nan, BARE) | {"reward": np.where(LAST, 1.0, np.nan)}
    fixes = {finding.fix.parameter: finding.fix.value for finding in errors(data)}
    assert fixes == {"drop_bad": "episode", "fill_reward": 0}
    assert not errors(data, **fixes)


@pytest.mark.parametrize(
    ("kind", "name"), [(np.float64, "double"), (np.float32, "float"), (np.float16, "halffloat")]
)
def test_numbers_of_actions_that_are_not_integers(kind, name):
    data = BARE | {"action": np.where(HOURS == 3, np.nan, good()["action"]).astype(kind)}
    (finding,) = errors(data)
    assert finding.message == (
        f"column 'action' contains whole numbers as {name}. If they are numbers of actions, "
        "convert them to integers, and fill in those that are missing."
    )
    assert finding.fix.value == {"action_0": "action"}


def test_actions_without_a_number_are_not_called_whole():
    (finding,) = errors(BARE | {"action": np.full(12, np.nan)})
    assert finding.message.startswith("column 'action' contains double; actions must be integers")


def test_numbers_that_are_text_are_shown():
    texts = np.array([f"{k},5" for k in range(12 * 3)])
    data = {k: np.concatenate([v, v, v]) for k, v in without("step", data=BARE).items()}
    data["episode_id"] = np.repeat(np.arange(9), 4)
    (finding,) = errors(data | {"reward": texts})
    assert finding.message == (
        "column 'reward' contains text, such as '0,5'; rewards must be numbers."
    )


def test_the_index_of_a_frame_is_no_column():
    frame = pandas.DataFrame(without("step", data=BARE))
    (finding,) = errors(pandas.concat([frame, frame]))
    assert str(finding).endswith("or add a time to sort the rows by.")


def test_decimals_are_numbers():
    decimals = pa.array(good()["reward"].round(2)).cast(pa.decimal128(12, 2), safe=False)
    data = pa.table(BARE)
    at = data.column_names.index("reward")
    log, same = (
        Log(data.set_column(at, "reward", column))
        for column in (decimals, decimals.cast(pa.float64()))
    )
    assert log.summary().text == same.summary().text


def test_a_time_of_any_name_may_sort_the_rows():
    data = shuffled(without("step", data=BARE))
    (finding,) = errors(data)
    assert str(finding).endswith("or add a time to sort the rows by.")
    (finding,) = errors(data | {"zeit": np.array(["03.04.2026"] * 12)})
    assert str(finding).endswith('or sort the rows by a time: order_by="NAME".')


def test_densities_may_all_exceed_1():
    data = without("action", data=BARE) | {"action_0": HOURS, "behavior_prob": HOURS + 2}
    assert not errors(data)


@pytest.mark.parametrize("value", [np.inf, 1e200])
def test_only_missing_rewards_are_filled(value):
    (finding,) = errors(with_value("reward", [1, 5, 9], value))
    assert finding.message.endswith("Most episodes have such rows. Correct the log.")
    assert finding.fix is None


def test_a_reward_whose_name_reads_as_a_sentence():
    data = renamed(with_value("reward", [1, 2, 5, 9], np.nan), reward="gain is net")
    (finding,) = errors(data, columns={"reward": "gain is net"})
    assert (finding.fix.parameter, finding.fix.value) == ("fill_reward", 0)


def test_no_bound_is_suggested_where_propensities_exceed_1():
    findings = errors(BARE | {"behavior_prob": np.tile([0.0, 0.5, 50.0], 4)})
    assert [(one.code, one.fix and one.fix.parameter) for one in findings] == [
        ("E101", None), ("E102", "estimate_behaviour"),
    ]  # fmt: skip


def test_a_bound_on_densities_is_accepted():
    data = without("action", data=BARE) | {"action_0": HOURS}
    data["behavior_prob"] = np.where(HOURS == 3, 0.0, HOURS + 20)
    (finding,) = errors(data)
    assert (finding.fix.parameter, finding.fix.value) == ("min_prob", 1.0)
    assert not errors(data, min_prob=1.0)


def test_an_action_that_is_missing_in_a_long_list_is_named():
    data = BARE | {"action": np.where(HOURS == 3, "a40", "a0")}
    (finding,) = errors(data, actions=[f"a{k}" for k in range(40)])
    assert str(finding).endswith(
        "Correct the log, or list all actions, 'a40' among them: actions=…"
    )


def test_observations_that_are_missing_are_left_out():
    (finding,) = errors(OBSERVED, observations=["hr", "wrad", "zzz", "qqq"])
    assert str(finding).endswith("""Leave out 'zzz', 'qqq': observations=["hr", "ward"].""")


def test_an_id_that_is_missing_is_to_be_filled_in():
    data = with_value("episode_id", [5], None)
    assert errors(data)[0].message.endswith("Every row needs the id of its episode. Fill it in.")
    data |= {"visit": good()["episode_id"]}
    assert errors(data)[0].fix.advice == "Fill it in, or map another column"


def test_a_log_of_one_episode_does_not_speak_of_most():
    data = {name: column[:4] for name, column in with_value("obs_1", [1], np.nan).items()}
    (finding,) = errors(data)
    assert finding.message.endswith("The only episode has such rows.")


def test_a_text_among_numbers_is_no_category():
    data = without("next_obs_0", "next_obs_1", data=BARE)
    for numbers in (np.arange(11) / 8, np.arange(30, 41)):
        column = np.array([*map(str, numbers), "?"])
        (finding,) = errors(data | {"obs_1": column})
        assert str(finding) == (
            "E142 observation column 'obs_1' contains '?' among numbers in 1 row (episode 12 step "
            "3). Leave it empty, or list the column as categorical if these are codes: "
            'categorical=["obs_1"].'
        )
        followed = Log(data | {"obs_1": column}, **{finding.fix.parameter: finding.fix.value})
        assert not followed.summary().errors


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (
            "behavior_prob", ["60%", "5.5 %"],
            "contains text, such as '5.5 %'; probabilities must be numbers. Remove the percent "
            "signs, and divide by 100.",
        ),
        (
            "reward", ["€ -0.10", "12.00"],
            "contains text, such as '€ -0.10'; rewards must be numbers. Remove the currency.",
        ),
        ("behavior_prob", ["60%", "often"], "contains text; probabilities must be numbers."),
    ],
)  # fmt: skip
def test_numbers_with_symbols_are_shown(name, values, message):
    (finding,) = errors(BARE | {name: np.array(values * 6)})
    assert str(finding) == f"E143 column {name!r} {message}"


def test_files_that_share_some_observations():
    one, other = pa.table(BARE), pa.table(without("obs_1", "next_obs_1", data=BARE))
    sources = [Log(table).sources[0] for table in (one, other)]
    with error_matching(LogError, 'Or list those that all have: observations=["obs_0"].'):
        Log(sources)


def test_a_column_by_another_name_in_one_file_is_named():
    one, other = pa.table(BARE), pa.table(renamed(BARE, reward="Reward"))
    sources = [Log(one).sources[0], Log(other, columns={"reward": "Reward"}).sources[0]]
    message = "reward is double in the first, missing in the second, which has 'Reward'."
    with error_matching(LogError, message):
        Log(sources)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["none", "bagde", "coupon"], ["none", "badge", "coupon"]),
        (["a", "b"], ["badge", "coupon", "none"]),
        (["coupon", "discount"], ["coupon", "discount", "none", "badge"]),
    ],
)
def test_actions_by_other_names_are_those_of_the_log(given, named):
    data = BARE | {"action": np.array(["none", "badge", "coupon"])[np.arange(12) % 3]}
    (finding,) = errors(data, actions=given)
    assert "Did you mean" not in finding.message
    assert finding.fix.value == named
    assert not errors(data, actions=named)


def test_an_option_that_is_to_be_left_out_is_worded_so():
    fix = Fix("Read the log as episodes", "bandit", False)
    assert as_option(fix) == "Read the log as episodes: without saddleback check --bandit."
