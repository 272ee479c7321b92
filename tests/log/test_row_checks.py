"""Bad rows: each problem is reported with code, place and fix, and all of them at once."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.log_cases import error_matching, errors_of, findings_of, good, with_value, without
from helpers.logs import assert_same_content, columns, content
from saddleback import GES, errors, features
from saddleback.log import Log, LogError, row_source
from saddleback.ope.statistics import Statistics

POLYNOMIAL = features.Polynomial((-4.0, -4.0), (4.0, 4.0), 1)


# Rows.

SORT = 'sort the rows and count the steps anew: order_by="step".'
FILL = 'Fill in the value, or drop the episode: drop_bad="episode".'
ROWS = {
    "prob 0": (
        with_value("behavior_prob", [0, 2, 5], 0.0),
        "E101 behavior_prob is 0 on 3 rows (episode 10 steps 0, 2; episode 11 step 1). A logged action cannot have probability 0. Fix the log, or clip propensities from below: min_prob=0.1.",
    ),
    "prob 0, many": (
        with_value("behavior_prob", [3, 4, 5, 6], 0.0),
        "E101 behavior_prob is 0 on 4 rows (first: episode 10 step 3). A logged action cannot have probability 0. Fix the log, or clip propensities from below: min_prob=0.1.",
    ),
    "mu 0": (
        without("behavior_prob") | {"mu_0": np.full(12, 0.0), "mu_1": np.full(12, 0.5), "mu_2": np.full(12, 0.5), "action": np.array([1] * 11 + [0])},
        "E101 mu of the logged action is 0 on 1 row (episode 12 step 3). A logged action cannot have probability 0. Fix the log, or clip propensities from below: min_prob=0.5.",
    ),
    "logp -inf": (
        without("behavior_prob", data=good(mu=False)) | {"behavior_logp": np.log(np.append(np.full(11, 0.5), 1e-300)) + np.append(np.zeros(11), -np.inf)},
        "E101 exp(behavior_logp) is 0 on 1 row (episode 12 step 3). A logged action cannot have probability 0. Fix the log, or clip propensities from below: min_prob=0.5.",
    ),
    "log-probabilities": (
        good() | {"behavior_prob": np.log(good()["behavior_prob"])},
        "E102 behavior_prob is negative on 12 rows (first: episode 10 step 0) and never positive: these look like log-probabilities. Map it as such: columns={\"behavior_logp\": \"behavior_prob\"}.",
    ),
    "negative": (
        with_value("behavior_prob", [7], -0.5),
        "E102 behavior_prob is < 0 on 1 row (episode 11 step 3): probabilities must lie in (0, 1]. Correct them, or replace all of them by estimates: estimate_behaviour(log).",
    ),
    "density": (
        with_value("behavior_prob", [1, 2], 3.0),
        "E102 behavior_prob is > 1 on 2 rows (episode 10 steps 1, 2): probabilities must lie in (0, 1]. Densities belong to continuous actions, in columns action_0, action_1 and so on. Correct them, or replace all of them by estimates: estimate_behaviour(log).",
    ),
    "logp above 0": (
        without("behavior_prob", data=good(mu=False)) | {"behavior_logp": np.append(np.full(11, -1.0), 0.5)},
        "E102 exp(behavior_logp) is > 1 on 1 row (episode 12 step 3): probabilities must lie in (0, 1]. Densities belong to continuous actions, in columns action_0, action_1 and so on. Correct them, or replace all of them by estimates: estimate_behaviour(log).",
    ),
    "prob NaN": (
        with_value("behavior_prob", [4], np.nan),
        "E102 behavior_prob is NaN on 1 row (episode 11 step 0): every logged action needs a propensity. Fill them in, or estimate those that are missing: estimate_behaviour(log).",
    ),
    "prob all NaN": (
        with_value("behavior_prob", slice(None), np.nan),
        "E102 behavior_prob is NaN on 12 rows (first: episode 10 step 0): every logged action needs a propensity. Fill them in, or estimate those that are missing: estimate_behaviour(log).",
    ),
    "mu does not sum to 1": (
        good() | {"mu_0": good()["mu_0"] + np.where(np.arange(12) == 8, -0.03, 0.0)},
        "E104 mu_* sums to 0.97 on 1 row (episode 12 step 0). Each row must be a probability distribution, within 1e-6: divide it by its sum if it was rounded. Otherwise estimate the propensities: estimate_behaviour(log).",
    ),
    "mu negative": (
        with_value("mu_1", [2], -0.25, with_value("mu_0", [2], 1.0, with_value("mu_2", [2], 0.25))),
        "E104 mu_* contains -0.25 on 1 row (episode 10 step 2). Each row must be a probability distribution, within 1e-6: divide it by its sum if it was rounded. Otherwise estimate the propensities: estimate_behaviour(log).",
    ),
    "mu empty": (
        with_value("mu_1", [2, 3], None),
        "E104 mu_* is NaN on 2 rows (episode 10 steps 2, 3). Each row must be a probability distribution, within 1e-6: divide it by its sum if it was rounded. Otherwise estimate the propensities: estimate_behaviour(log).",
    ),
    "next_mu": (
        with_value("next_mu_0", [7], 5.0),
        "E104 next_mu_* sums to",
    ),
    "reward NaN": (
        with_value("reward", [5, 6], np.nan),
        f"E120 reward is NaN in 2 rows (episode 11 steps 1, 2). {FILL}",
    ),
    "reward empty": (
        with_value("reward", [5], None),
        f"E120 reward is NaN in 1 row (episode 11 step 1). {FILL}",
    ),
    "observation infinite": (
        with_value("obs_1", [11], -np.inf),
        f"E120 obs_1 is infinite in 1 row (episode 12 step 3). {FILL}",
    ),
    "reward too large": (
        with_value("reward", [5], -1e160),
        f"E120 reward is larger than 1e+100 in size in 1 row (episode 11 step 1). {FILL}",
    ),
    "next observation in part": (
        with_value("next_obs_1", [7], np.nan),
        f"E120 next_obs_1 is NaN in 1 row (episode 11 step 3). {FILL}",
    ),
    "next observation infinite": (
        with_value("next_obs_0", [7], np.inf, with_value("next_obs_1", [7], np.inf)),
        f"E120 next_obs_0 is infinite in 1 row (episode 11 step 3). {FILL}\nE120 next_obs_1 is infinite in 1 row (episode 11 step 3). {FILL}",
    ),
    "next observation too large": (
        with_value("next_obs_0", [7], 1e300),
        f"E120 next_obs_0 is larger than 1e+100 in size in 1 row (episode 11 step 3). {FILL}",
    ),
    "no episode": (
        with_value("episode_id", [4, 5], None),
        "E121 episode_id has no value in 2 rows (rows 4, 5). Every row needs the id of its episode. Fill it in.",
    ),
    "no step": (
        with_value("step", [6], None),
        "E121 step has no value in 1 row (row 6). Number the steps 0 … T−1, or remove the column if the rows are in order.",
    ),
    "no flag": (
        with_value("terminated", [2], None),
        "E121 terminated has no value in 1 row (row 2). Use True on the last row of an episode that ended this way, False elsewhere. Or read missing flags as False, and say how episodes without one ended: episodes_end=\"terminated\".",
    ),
    "gap": (
        with_value("step", [6, 7], [4, 5]),
        f"E130 episode 11: step jumps from 1 to 4. Add the missing rows, or {SORT}",
    ),
    "two gaps": (
        with_value("step", [2, 3, 7], [3, 4, 9]),
        f"E130 episode 10: step jumps from 1 to 3 (and 1 more such row). Add the missing rows, or {SORT}",
    ),
    "duplicate": (
        with_value("step", [5], 0),
        f"E130 episode 11: step 0 is repeated (and 1 more such row). Remove the duplicates, or {SORT}",
    ),
    "unsorted": (
        with_value("step", [1, 2], [2, 1]),
        f"E130 episode 10: step jumps from 0 to 2 (and 2 more such rows). Add the missing rows, or {SORT}",
    ),
    "backwards": (
        with_value("step", [0, 1, 2, 3], [0, 1, 0, 1]),
        f"E130 episode 10: step goes back from 1 to 0. S{SORT[1:]}",
    ),
    "two blocks": (
        with_value("episode_id", slice(8, 12), 10),
        "E131 episode 10 appears in two separate blocks (rows 0-3, 8-11). Each begins at step 0: give different episodes different ids, or remove the copy.",
    ),
    "flag in mid-episode": (
        with_value("terminated", [1], True),
        "E132 terminated=True at step 1 of 4 in episode 10. Only the last row of an episode may have this flag: split the episode, or clear the flag.",
    ),
    "flags in mid-episode": (
        with_value("truncated", [4, 5, 9], True),
        "E132 truncated=True at step 0 of 4 in episode 11 (and 2 more such rows). Only the last row of an episode may have this flag: split the episode, or clear the flag.",
    ),
    "split episode": (
        good() | {"step": good()["step"] + np.repeat([0, 3, 0], 4)},
        "E134 episode 11 starts at step 3. If its first rows are in another file, pass all files of the log together, in order. Otherwise sort the rows and count the steps anew: order_by=\"step\".",
    ),
    "split episodes": (
        good() | {"step": good()["step"] + np.repeat([2, 3, 1], 4)},
        "E134 episode 10 starts at step 2 (and 2 more such episodes). If its first rows are in another file,",
    ),
    "action": (
        with_value("action", [3, 4], 7),
        "E145 action is 7, not one of 0 … 2, in 2 rows (episode 10 step 3; episode 11 step 0). Correct the log.",
    ),
    "action negative": (
        with_value("action", [3], -1),
        "E145 action is -1, not one of 0 … 2, in 1 row (episode 10 step 3). Correct the log.",
    ),
    "action empty": (
        with_value("action", [3], None),
        "E145 action is empty, not one of 0 … 2, in 1 row (episode 10 step 3). Fill it in, or remove these rows.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3, 1000])
@pytest.mark.parametrize("case", ROWS)
def test_bad_rows_are_reported_with_place_and_fix(case, batch, monkeypatch):
    monkeypatch.setattr(row_source, "BATCH", batch)
    data, message = ROWS[case]
    text = errors_of(Log(data))
    assert text == message or (not message.endswith(".") and text.startswith(message))


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_unknown_text_actions_suggest_a_name(batch, monkeypatch):
    monkeypatch.setattr(row_source, "BATCH", batch)
    names = ["none", "low", "high"]
    data = good() | {"action": np.array(names)[good()["action"]].astype(object)}
    data["action"][[2, 9]] = "hihg"
    assert errors_of(Log(data, actions=names)) == (
        "E145 action is 'hihg', not one of none, low, high, in 2 rows (episode 10 step 2; episode "
        "12 step 1). Did you mean 'high'? Correct the log."
    )
    bare = without(*(name for name in good() if "mu_" in name), data=data)
    assert errors_of(Log(bare, actions=names)).endswith(
        'Correct the log, or list all actions: actions=["none", "low", "high", "hihg"].'
    )
    data["action"][:] = "low"
    data["action"][7] = None
    assert errors_of(
        Log(without("mu_0", "mu_1", "mu_2", "next_mu_0", "next_mu_1", "next_mu_2", data=data))
    ).startswith("E145 action is empty, not one of low, in 1 row (episode 11 step 3).")


def test_fixes_name_a_column_or_number_of_this_log():
    time = {"charted_at": np.arange(12.0), "chart_time": np.arange(12)}
    no_step = with_value("step", [6], None) | time
    assert errors_of(Log(no_step)).endswith('sort them by a time: order_by="chart_time".')
    early = without("step", data=with_value("terminated", [1], True)) | time
    order = 'If the rows are not in order, sort them: order_by="chart_time".'
    assert errors_of(Log(early)).endswith(order)
    assert "chart_time" not in errors_of(Log(early, order_by="chart_time"))
    zero = good(mu=False) | {"behavior_prob": np.append(np.full(11, 1e-9), 0.0)}
    assert errors_of(Log(zero)).endswith("min_prob=0.001.")
    zero["behavior_prob"][:] = 0.0
    assert errors_of(Log(zero)).endswith(
        "Replace all of them by estimates: estimate_behaviour(log)."
    )
    target = good() | {f"pi_{a}": np.full(12, 0.3) for a in range(3)}
    function = "Otherwise give the target as a function: evaluate(log, function)."
    assert str(Log(target).summary().errors[0]).endswith(function)


def test_missing_flags_are_none_where_it_is_told_how_episodes_end():
    """The fix that the message of E121 suggests works."""
    data = good(mu=False)
    flags = np.where(data["terminated"], True, None)
    log = Log(data | {"terminated": flags}, episodes_end="terminated")
    assert_same_content(content(log), content(Log(data)))
    flags[1:] = None
    flags[0] = False
    summary = Log(data | {"terminated": flags}, episodes_end="terminated").summary()
    assert (summary.errors, summary.terminated) == ([], int(data["terminated"].sum()))


def test_entries_of_list_observations_are_named():
    data = without("obs_0", "obs_1", "next_obs_0", "next_obs_1")
    obs = np.arange(24.0).reshape(12, 2)
    obs[4, 1] = np.nan
    assert errors_of(Log(data | {"obs": obs})).startswith(
        "E120 obs[1] is NaN in 1 row (episode 11 step 0)."
    )


def test_messages_use_mapped_column_names():
    data = with_value("reward", [2], np.nan, with_value("terminated", [1], None))
    data["cost"], data["dead"] = data.pop("reward"), data.pop("terminated")
    text = errors_of(Log(data, columns={"reward": "cost", "terminated": "dead"}))
    assert [line[:14] for line in text.split("\n")] == ["E120 cost is N", "E121 dead has "]


def test_all_problems_are_reported_at_once():
    data = good()
    for name, row, value in (
        ("behavior_prob", 0, 0.0), ("behavior_prob", 1, 1.5), ("mu_0", 2, 9.0), ("reward", 3, np.nan),
        ("obs_0", 4, np.inf), ("step", 6, 9), ("terminated", 5, True), ("action", 9, 3),
    ):  # fmt: skip
        data = with_value(name, [row], value, data)
    data["episode_id"][8:] = 10
    data["step"][8:] += 1
    log = Log(data)
    text = errors_of(log).split("\n")
    codes = [
        "E101",
        "E102",
        "E104",
        "E120",
        "E120",
        "E131",
        "E145",
    ]  # E130, E132 and E134 if sorted
    assert [line[:4] for line in text] == codes
    with pytest.raises(LogError) as caught:
        Statistics.of(log, GES(0.5), "uniform", features=POLYNOMIAL, gamma=0.9)
    assert str(caught.value).split("\n") == text
    assert [finding.code for finding in caught.value.findings] == codes


def test_unrelated_columns_are_ignored():
    data = good() | {"lab_0": np.full(12, 40.0), "lab_1": np.full(12, np.nan)}
    assert not Log(data).summary().findings


# Warnings.


def test_suspicious_logs_give_warnings():
    ones = good(mu=False) | {"behavior_prob": np.ones(12)}
    assert findings_of(ones) == (
        "W103 behavior_prob is 1.0 on every row: with a deterministic behaviour policy no "
        "other policy can be evaluated."
    )
    assert findings_of(good(mu=False) | {"behavior_prob": np.full(12, 0.25)}) == (
        "W103 behavior_prob is 0.25 on every row: not 1/3. Check that it is the probability of the "
        "logged action."
    )
    uniform = good(mu=False) | {"behavior_prob": np.full(12, 1 / 3)}
    assert not Log(uniform, actions=["a", "b", "c"]).summary().findings
    assert findings_of(columns([4, 4], "truncated")) == (
        "W150 no episode terminated: values depend entirely on bootstrapping."
    )
    assert findings_of(good(), gamma=1.0) == (
        "E160 gamma=1 requires terminating episodes, but 33% do not terminate. If the task ends "
        'after 4 steps, say so: time_limit="task".'
    )
    assert findings_of(columns([4], "terminated"), gamma=1.0) == ""
    assert findings_of(with_value("reward", [5], np.nan), drop_bad="episode") == (
        "W121 dropped 1 episode with NaN or infinities."
    )


@pytest.mark.parametrize(("by", "where"), [(1, "t-1"), (-1, "t+1")])
def test_shifted_propensities_are_detected(by, where):
    data = columns([200, 200], "terminated")
    data["behavior_prob"] = np.roll(data["behavior_prob"], by)
    text = findings_of(data)
    assert re.fullmatch(
        rf"W151 behavior_prob equals mu of step {re.escape(where)} on 100.0% of rows, but mu of step "
        r"t on \d.\d%: the column seems to be shifted by one row\.",
        text,
    )
    data["behavior_prob"] = np.linspace(0.1, 0.9, 400)
    assert re.fullmatch(
        r"W152 behavior_prob differs from mu of the logged action on 39\d rows\. Remove the "
        r"one that is wrong\.",
        findings_of(data),
    )


# The suggested fixes work.


def test_min_prob_raises_small_propensities():
    data = with_value("behavior_prob", [0, 2], 0.0)
    transitions = content(Log(data, min_prob=0.05))
    assert transitions["propensity"][[0, 2]].tolist() == [0.05, 0.05]
    assert not [f for f in Log(data, min_prob=0.05).summary().findings if f.is_error]


def test_bad_episodes_are_dropped(monkeypatch):
    data = with_value("reward", [5], np.nan, with_value("obs_0", [9], np.inf))
    expected = content(Log({k: v[:4] for k, v in good().items()}))
    for batch in (1, 3, 1000):
        monkeypatch.setattr(row_source, "BATCH", batch)
        assert_same_content(content(Log(data, drop_bad="episode")), expected)
        summary = Log(data, drop_bad="episode").summary(1.0)
        assert [str(f) for f in summary.findings] == [
            "W121 dropped 2 episodes with NaN or infinities."
        ]
        left = Log({k: v[:4] for k, v in good().items()}, actions=["0", "1", "2"]).summary(1.0)
        dropped = "2 episodes (8 rows) with NaN or infinities dropped\n"
        assert dropped in summary.text
        assert summary.text.replace(dropped, "") == left.text
        assert (summary.rows, summary.episodes, sum(summary.taken)) == (4, 1, 4)
    everything = with_value("reward", [0, 4, 8], np.nan)
    with error_matching(
        LogError, "E122 every episode (3) contains NaN or infinities, so dropping them"
    ):
        Statistics.of(
            Log(everything, drop_bad="episode"), GES(0), "uniform", features=POLYNOMIAL, gamma=0.9
        )


def test_listing_the_actions_accepts_all_of_them():
    data = with_value("action", [3, 4], 3, good(mu=False))
    assert Log(data, actions=["a", "b", "c", "d"]).summary().errors == []


def test_the_step_column_may_be_removed():
    data = with_value("step", [6], None)
    assert_same_content(content(Log(without("step", data=data))), content(Log(good())))


# Whatever is wrong, the error is a SaddlebackError.


@st.composite
def corrupted(draw):
    """Return the columns of a good log with up to three faults."""
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
            data[name] = np.array([str(value) for value in column])
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
    data=corrupted(),
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
def test_corrupted_logs_are_rejected_or_usable(data, options, batch, monkeypatch):
    def outcome(form):
        try:
            log = Log(form, **options)
            summary = log.summary(0.9)
            messages = [str(finding) for finding in summary.errors]
            list(log.segments())
            return messages, summary.text
        except errors.SaddlebackError as error:
            return str(error).split("\n"), None

    expected = outcome(data)
    with monkeypatch.context() as patch:
        patch.setattr(row_source, "BATCH", batch)
        batched = outcome(data)
    # Messages do not depend on the number of rows read at a time.
    assert batched[0] == expected[0]
    assert (batched[1] is None) == (expected[1] is None)


def test_the_mean_reward_ignores_missing_rewards():
    data = with_value("reward", [0, 1, 2], np.nan)
    rewards = good()["reward"][3:]
    summary = Log(data).summary()
    assert summary.errors
    assert summary.reward[1] == pytest.approx(rewards.mean())
