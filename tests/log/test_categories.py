"""Text actions in the order of numbers, and categorical observations."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from helpers.log_cases import error_matching, errors_of, without
from helpers.logs import assert_same_content, columns, content
from saddleback.log import Log, LogError, as_target, estimate_behaviour, row_source

WARDS = np.array(["er", "icu", "surgery"])


def bare(ends="truncated"):
    """Return the columns of a log without μ, with next observations."""
    return columns([4, 1, 5, 3], ends, mu=False)


def with_wards(data=None, text=True):
    """Return a log with wards as text or codes, and the same log with three columns instead."""
    data = bare() if data is None else data
    n = len(data["reward"])
    code = np.arange(n) % 3
    after = np.where(data["truncated"], (code + 1) % 3, -1)
    names = WARDS if text else np.array([2, 7, 10])
    one = data | {
        "hr": data["obs_0"], "next_hr": data["next_obs_0"],
        "ward": names[code],
        "next_ward": pa.array(np.where(after < 0, names[0], names[after]), mask=after < 0),
    }  # fmt: skip
    other = {k: v for k, v in data.items() if "obs" not in k} | {
        "obs_0": data["obs_0"], "next_obs_0": data["next_obs_0"]
    }  # fmt: skip
    for k in range(3):
        other[f"obs_{k + 1}"] = (code == k).astype(float)
        other[f"next_obs_{k + 1}"] = np.where(after < 0, np.nan, after == k)
    return one, other


@pytest.mark.parametrize("text", [True, False])
def test_categories_are_encoded_as_one_column_each(text, tmp_path):
    rows, expected = with_wards(text=text)
    options = dict(observations=["hr", "ward"]) | ({} if text else {"categorical": ["ward"]})
    log = Log(rows, **options)
    names = WARDS if text else ["2", "7", "10"]
    assert log.observation_names == ("hr", *(f"ward={name}" for name in names))
    assert log.dimensions == 4
    assert_same_content(content(log), content(Log(expected)))
    assert log.sample().states.shape == (13, 4)
    assert [str(f) for f in log.summary().findings if f.code == "W157"] == [
        f"W157 observation column 'ward' is encoded as 3 entries, 1 or 0: ward={names[0]}, "
        f"ward={names[1]}, ward={names[2]}."
    ]
    path = log.write_repaired(tmp_path / "log.parquet")
    reread = Log(path)
    assert reread.observation_names == log.observation_names
    assert_same_content(content(reread), content(log))
    if text:
        pyarrow.csv.write_csv(pa.table(rows), tmp_path / "log.csv")
        assert_same_content(content(Log(tmp_path / "log.csv", **options)), content(log))


@pytest.mark.parametrize("batch", [1, 5, 1000])
def test_columns_that_look_like_codes_are_suggested_as_categories(batch, monkeypatch):
    monkeypatch.setattr(row_source, "BATCH", batch)
    rows, _ = with_wards(text=False)
    rows |= {"site_id": np.arange(13) % 4, "unit": WARDS[np.arange(13) % 3]}
    rows = {name: column for name, column in rows.items() if not name.startswith("next_")}
    log = Log(rows, observations=["hr", "ward", "site_id", "unit"])
    assert log.dimensions == 6  # the numbers stay as they are
    (warning,) = [finding for finding in log.summary().findings if finding.code == "W158"]
    assert str(warning) == (
        "W158 observation columns 'ward', 'site_id' look like codes, but the numbers are used as "
        "quantities. Encode categories as one entry per value: "
        'categorical=["unit", "ward", "site_id"].'
    )
    followed = log.with_options(**{warning.fix.parameter: warning.fix.value})
    assert followed.dimensions == 11
    assert "W158" not in [finding.code for finding in followed.summary().findings]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ward", np.arange(13) % 2), ("ward", np.arange(13) / 2), ("ward_level", np.arange(13)),
        ("obs_0", np.arange(13) % 3), ("weight", np.arange(13) % 3),
    ],
)  # fmt: skip
def test_quantities_are_not_suspected_to_be_codes(name, values):
    log = Log(bare() | {name: values}, observations=[name])
    assert "W158" not in [finding.code for finding in log.summary().findings]


def test_values_of_categories_can_be_declared():
    rows, _ = with_wards()
    log = Log(rows, observations=["ward"], categorical={"ward": ["icu", "er", "surgery", "home"]})
    assert log.observation_names == ("ward=icu", "ward=er", "ward=surgery", "ward=home")
    assert next(log.segments()).observations[0].tolist() == [0.0, 1.0, 0.0, 0.0]
    unknown = Log(rows, observations=["ward"], categorical={"ward": ["icu", "er"]})
    assert errors_of(unknown).startswith("E120 ward=er is NaN in 4 rows")


def test_missing_categories_are_a_category():
    rows, _ = with_wards(bare("terminated"))
    ward = pa.array([*rows["ward"].tolist()[:-1], None])
    log = Log(rows | {"ward": ward}, observations=["ward"])
    assert log.observation_names[-1] == "ward=missing"
    assert list(log.segments())[-1].rows.observations[-1].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_policies_see_categories_by_name_and_as_text():
    rows, _ = with_wards()
    log = Log(rows, observations=["hr", "ward"])

    def by_entry(obs: dict):
        return np.where((obs["ward=icu"] == 1)[:, None], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5])

    def by_text(obs: dict):
        return np.where((obs["ward"] == "icu")[:, None], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5])

    states = log.sample().states
    one, other = (as_target(policy, log).at(states, 3) for policy in (by_entry, by_text))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one[:, 0] == 1, np.array(rows["ward"]) == "icu")


def test_columns_that_are_no_categories_are_refused():
    rows, _ = with_wards()
    note = np.array([f"note {i}" for i in range(13)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saddleback.log.categories.MAX_CATEGORIES", 12)
        with error_matching(
            LogError, "E142 observation column 'note' has more than 12 different values, such as "
            "'note 0', too many for categories: encode it as numbers. Or list the observations "
            "without it: "
            'observations=["hr"].',
        ):  # fmt: skip
            rows = without("next_hr", "next_ward", data=rows)
            Log(rows | {"note": note}, observations=["hr", "note"]).dimensions  # noqa: B018
        with pytest.raises(LogError, match=r"encode it as numbers\.$"):
            Log(rows | {"note": note}, observations=["note"]).dimensions  # noqa: B018
    with error_matching(LogError, "E100 categorical column 'age' is not one of the observation"):
        Log(rows, observations=["hr"], categorical=["age"])
    with error_matching(LogError, 'List it as an observation: observations=["hr", "ward"].'):
        Log(rows, observations=["hr"], categorical=["ward"])
    with error_matching(LogError, """Did you mean 'ward'? Write: categorical=["ward"]."""):
        Log(rows, observations=["hr", "ward"], categorical=["wrad"])


def ages(*others, n=150, values=10):
    """Return rows of one episode whose ages are text, the last of them ``others``."""
    data = without("obs_0", "obs_1", data=columns([n], "terminated", mu=False))
    numbers = (30 + np.arange(n) % values).astype(str).astype(object)
    numbers[n - len(others) :] = others
    return data | {"age": pa.array(numbers.tolist())}


@pytest.mark.parametrize(
    ("rows", "where"),
    [
        (ages("?"), "'?' among numbers in 1 row (episode 10 step 149). Leave it"),
        (ages("?", values=120), "'?' among numbers in 1 row (episode 10 step 149). Leave it"),
        (ages("?", values=2), "'?' among numbers in 1 row (episode 10 step 149). Leave it"),
        (
            ages("-", "?", "?", "?"),
            "'-', '?' among numbers in 4 rows (first: episode 10 step 146). Leave them",
        ),
        (
            ages(*"abcde"),
            "'a', 'b', 'c', … among numbers in 5 rows (first: episode 10 step 145). Leave them",
        ),
    ],
)  # fmt: skip
def test_a_few_texts_do_not_make_numbers_categories(rows, where):
    with error_matching(LogError, f"E142 observation column 'age' contains {where} empty"):
        Log(rows, observations=["age"]).dimensions  # noqa: B018


def test_codes_with_texts_are_categories():
    mixed = ages(*["3a", "3b", "7c", "8d"] * 10, values=3)
    assert Log(mixed, observations=["age"]).dimensions == 7
    declared = Log(ages("?", values=20), observations=["age"], categorical=["age"])
    assert declared.dimensions == 21
    (finding,) = [f for f in declared.summary().findings if f.code == "W157"]
    assert ": age=?, age=30, age=31, " in str(finding)  # texts are not among those left out
    diagnoses = [f"E{k}" for k in range(100, 200)]
    assert Log(ages(*diagnoses[:90]), observations=["age"]).dimensions == 100
    with error_matching(LogError, "has more than 100 different values, such as 'E100', too many"):
        Log(ages(*diagnoses), observations=["age"]).dimensions  # noqa: B018


def test_text_actions_that_are_numbers_are_sorted_as_numbers():
    n = 13
    data = columns([n], "terminated", mu=False)
    log = Log(data | {"action": np.arange(n)[::-1].astype(str)})
    assert log.action_names == tuple(map(str, range(n)))
    assert not [f for f in log.summary().findings if f.code == "W148"]
    assert next(log.segments()).actions.tolist() == list(range(n))[::-1]
    doses = Log(data | {"action": np.array(["2.5", "10", "0"])[np.arange(n) % 3]})
    assert doses.action_names == ("0", "2.5", "10")
    (finding,) = [f for f in doses.summary().findings if f.code == "W148"]
    assert str(finding).startswith("W148 actions are sorted as numbers: 0='0', 1='2.5', 2='10'. ")
    mixed = Log(data | {"action": np.array(["2", "10", "none"])[np.arange(n) % 3]})
    assert mixed.action_names == ("10", "2", "none")


def test_names_with_commas_are_in_quotes():
    data = columns([12], "terminated", mu=False)
    names = np.array(["ward", "unknown, moved"])[np.arange(12) % 2]
    log = Log(data | {"ward": names}, observations=["ward"])
    (finding,) = [f for f in log.summary().findings if f.code == "W157"]
    assert str(finding).endswith("as 2 entries, 1 or 0: 'ward=unknown, moved', ward=ward.")
    with error_matching(LogError, "not one of none, 'low, oral', ward, in 6 rows"):
        content(Log(data | {"action": names}, actions=["none", "low, oral", "ward"]))


def test_names_that_differ_only_in_case_or_spaces_are_reported():
    data = columns([12], "terminated", mu=False)
    drugs = np.array(["A", "a", "b", "b "])[np.arange(12) % 4]
    wards = np.array(["er", "ICU", "icu"])[np.arange(12) % 3]
    rows = data | {"action": drugs, "ward": wards}
    texts = [str(f) for f in Log(rows, ["ward"]).summary().findings if f.code == "W159"]
    rest = ", which differ only in case or spaces. If they mean the same, give them one name."
    assert texts == [
        f"W159 column 'action' contains 'A' and 'a'; 'b' and 'b '{rest}",
        f"W159 observation column 'ward' contains 'ICU' and 'icu'{rest}",
    ]
    log = Log(
        rows, ["ward"], actions=["a", "A", "b", "b "], categorical={"ward": ["er", "icu", "ICU"]}
    )
    assert "W159" not in [finding.code for finding in log.summary().findings]


def test_integer_actions_can_be_listed_by_their_numbers(tmp_path):
    data = columns([13], "terminated", mu=False)
    data["action"] = np.array([0, 1, 10])[np.arange(13) % 3]
    (finding,) = [f for f in Log(data).summary().findings if f.code == "W149"]
    assert str(finding) == (
        "W149 no row has action 2, 3, 4, 5, 6, … (actions are numbered from 0). If there are no "
        'others, list those there are: actions=["0", "1", "10"].'
    )
    log = Log(data, actions=["0", "1", "10"])
    assert not [f for f in log.summary().findings if f.code == "W149"]
    assert next(log.segments()).actions.tolist() == [k % 3 for k in range(13)]
    repaired = Log(log.write_repaired(tmp_path / "log.parquet"))
    assert repaired.action_names == ("0", "1", "10")
    assert next(repaired.segments()).actions.tolist() == [k % 3 for k in range(13)]
    items = Log(data | {"action": 10**9 + data["action"]}, actions=[str(10**9 + k) for k in (0, 1)])
    with error_matching(LogError, "E145 action is 1000000010, not one of 1000000000, 1000000001"):
        content(items)


def test_estimated_propensities_do_not_hide_the_order_of_actions():
    data = columns([9] * 20, "terminated", mu=False)
    del data["behavior_prob"]
    data["action"] = np.array([0, 1, 10])[np.arange(180) % 3]
    for actions, code in ((data["action"], "W149"), (data["action"].astype(str), "W148")):
        log = estimate_behaviour(Log(data | {"action": actions}), bins=2).log
        assert code in [finding.code for finding in log.summary().findings]
