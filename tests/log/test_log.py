"""Logs: the same rows are the same transitions, however they come, and episodes end as they say."""

import json
from itertools import pairwise

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.logs import ENDS, alike, columns, content, mixed
from saddleback import GES, GRetrace, features
from saddleback.evaluation.statistics import Statistics
from saddleback.log import Log, LogError, row_sources
from saddleback.log.fingerprints import Prints

FOURIER = features.Fourier((-4.0, -4.0), (4.0, 4.0), order=2)
NAMES = ["left", "stay", "right"]


def table(**options):
    """Return a mixed log as an Arrow table, nothing where nothing is known."""
    return pa.table(
        {
            name: pa.array(each, from_pandas=name.startswith("next_"))
            for name, each in mixed(**options).items()
        }
    )


def parquet(path, data, row_group=None):
    pq.write_table(data, path, row_group_size=row_group)
    return str(path)


def sums(log, **options):
    """Return statistics with features that are not whole numbers."""
    rules = [GES(0.7), GRetrace(0.9)]
    return Statistics.of(
        log, rules, "uniform", features=FOURIER, gamma=0.9, blocks=3, shared=True, **options
    )


def bit_equal(one, other):
    for name in ("A", "b", "M", "starts", "steps", "episodes", "squares", "ids", "fingerprints"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one.unfinished, other.unfinished)


# Inputs.


def as_fixed_list(data, matrix="obs"):
    """Return the columns with the observation as a matrix."""
    kept = {name: each for name, each in data.items() if not name.startswith(("obs", "next_obs"))}
    kept["obs"] = np.column_stack([data["obs_0"], data["obs_1"]])
    if "next_obs_0" in data:
        kept["next_obs"] = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    return kept


INPUTS = {
    "dict": lambda data, folder: data,
    "dict of lists": lambda data, folder: {k: v.tolist() for k, v in data.items()},
    "dict of Arrow": lambda data, folder: {k: pa.array(v) for k, v in data.items()},
    "matrix": lambda data, folder: as_fixed_list(data),
    "arrow": lambda data, folder: pa.table(data),
    "chunked arrow": lambda data, folder: pa.concat_tables(
        [pa.table(data).slice(0, 5), pa.table(data).slice(5)]
    ),
    "record batch": lambda data, folder: pa.table(data).combine_chunks().to_batches()[0],
    "arrow list": lambda data, folder: pa.table(Log(as_fixed_list(data)).parts[0].table),
    "pandas": lambda data, folder: pandas.DataFrame(data),
    "pandas, nothing for NaN": lambda data, folder: pandas.DataFrame(data).convert_dtypes(),
    "pandas, index": lambda data, folder: pandas.DataFrame(data).set_index("episode_id"),
    "polars": lambda data, folder: polars.DataFrame(data),
    "polars array": lambda data, folder: polars.DataFrame(as_fixed_list(data)),
    "parquet": lambda data, folder: folder / "one.parquet",
    "list of one": lambda data, folder: [str(folder / "one.parquet")],
    "files": lambda data, folder: [folder / "parts" / f"part{i}.parquet" for i in range(4)],
    "pattern": lambda data, folder: str(folder / "parts" / "*.parquet"),
    "folder": lambda data, folder: folder / "parts",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("logs")
    data = table()
    parquet(place / "one.parquet", data, row_group=7)
    (place / "parts").mkdir()
    for i, at in enumerate([0, 3, 40, 41]):
        end = [3, 40, 41, len(data)][i]
        parquet(place / "parts" / f"part{i}.parquet", data.slice(at, end - at), row_group=5)
    return place


@pytest.mark.parametrize("form", INPUTS)
def test_every_input_gives_the_same_transitions(form, folder):
    alike(content(Log(INPUTS[form](mixed(), folder))), content(Log(mixed())))


TEXT = {
    "dict": lambda data: data,
    "pandas": pandas.DataFrame,
    "pandas category": lambda data: pandas.DataFrame(data).astype(
        {"action": "category", "episode_id": "category"}
    ),
    "polars": polars.DataFrame,
    "polars category": lambda data: polars.DataFrame(data).with_columns(
        polars.col("action").cast(polars.Categorical),
        polars.col("episode_id").cast(polars.Categorical),
    ),
    "polars enum": lambda data: polars.DataFrame(data).with_columns(
        polars.col("action").cast(polars.Enum(["stay", "right", "left"]))
    ),
    "arrow view": lambda data: pa.table(data).cast(
        pa.schema([
            pa.field(n, pa.string_view() if n in ("action", "episode_id") else t)
            for n, t in zip(pa.table(data).column_names, pa.table(data).schema.types, strict=True)
        ])
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", TEXT)
def test_actions_and_episodes_by_name(form):
    data = mixed()
    words = data | {
        "action": np.array(NAMES)[data["action"]],
        "episode_id": np.array([f"visit {i}" for i in data["episode_id"]]),
    }
    log = Log(TEXT[form](words), actions=NAMES)
    assert log.action_names == tuple(NAMES)
    plain, found = content(Log(data)), content(log)
    assert len(set(found.pop("ids"))) == len(set(plain.pop("ids")))
    alike(found, plain)


def test_categories_of_numbers():
    data = mixed()
    frame = pandas.DataFrame(data).astype({"action": "category", "episode_id": "category"})
    alike(content(Log(frame)), content(Log(data)))


def test_names_of_actions_are_found_and_sorted():
    data = mixed(mu=False)
    words = data | {"action": np.array(NAMES)[data["action"]]}
    assert Log(words).action_names == ("left", "right", "stay")
    category = polars.DataFrame(words).cast({"action": polars.Categorical})
    assert Log(category).action_names == ("left", "right", "stay")
    assert Log(data).action_names == ("0", "1", "2")
    assert Log(data | {"action": data["action"] > 0}).action_names == ("0", "1")
    assert Log(data, actions=[*NAMES, "jump"]).n_actions == 4
    assert repr(Log(data, actions=NAMES)) == "Log(rows=110, observation=2, actions=3)"


def test_features_in_the_log():
    data = mixed()
    renamed = {k.replace("obs_", "phi_"): v for k, v in data.items()}
    assert Log(renamed).layout.given
    alike(content(Log(renamed)), content(Log(data)))


def test_names_of_ones_own():
    data = mixed()
    own = {"obs_0": "hr", "obs_1": "bp", "next_obs_0": "next_hr", "next_obs_1": "next_bp"}
    own |= {"reward": "gain", "episode_id": "visit", "behavior_prob": "p"}
    log = Log(
        {own.get(k, k): v for k, v in data.items()},
        observations=["hr", "bp"],
        columns={"reward": "gain", "episode_id": "visit", "behavior_prob": "p"},
    )
    alike(content(log), content(Log(data)))
    assert log.propensity == "p"


def test_log_probabilities():
    data = mixed()
    logs = data | {"behavior_logp": np.log(data["behavior_prob"])}
    del logs["behavior_prob"]
    one, other = content(Log(logs)), content(Log(data))
    np.testing.assert_allclose(one.pop("propensity"), other.pop("propensity"), rtol=1e-14)
    alike(one, other)


def test_propensity_from_the_whole_policy():
    data = mixed()
    bare = {k: v for k, v in data.items() if k != "behavior_prob"}
    alike(content(Log(bare)), content(Log(data)))
    nothing = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    assert Log(nothing).propensity == ""
    assert "propensity" not in content(Log(nothing))
    assert "unknown: estimate_behaviour(log) can estimate it" in Log(nothing).card().text


def test_behaviour_as_a_function():
    nothing = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}

    def mu(observations):
        first = 1 / (1 + np.exp(observations[:, :1]))
        return np.hstack([first, (1 - first) / 2, (1 - first) / 2])

    log = Log(nothing, behaviour=mu)
    found = content(log)
    np.testing.assert_array_equal(found["mu"], mu(found["here"]))
    np.testing.assert_array_equal(found["mu after"], mu(found["after"]))
    np.testing.assert_array_equal(
        found["propensity"], found["mu"][np.arange(len(found["mu"])), found["actions"]]
    )
    alike(content(Log(nothing).but(behaviour=mu)), found)


@pytest.mark.parametrize("bad", [["drop"], []])
def test_behaviour_is_not_asked_about_nan(bad):
    data = columns([3, 3, 3], "terminated", mu=False)
    data["obs_1"][4] = np.nan

    def mu(observations):
        assert np.isfinite(observations).all()
        return np.full((len(observations), 3), 1 / 3)

    log = Log(data | {"behavior_prob": np.full(9, 1 / 3)}, behaviour=mu)
    if bad:
        found = content(Log(log.data, behaviour=mu, drop_bad="episode"))
        assert len(found["here"]) == 6
        np.testing.assert_array_equal(found["propensity"], np.full(6, 1 / 3))
    else:
        with pytest.raises(LogError, match=r"^E120 obs_1 is NaN in 1 row \(episode 11 step 1\)"):
            content(log)


# Written and read.


def test_written_logs_read_back(tmp_path):
    for data in (mixed(), as_fixed_list(mixed()), pandas.DataFrame(mixed())):
        log = Log(data, actions=NAMES)
        path = log.write(tmp_path / "log.parquet", gamma=0.9, provenance="here")
        again = Log(path)
        assert again.metadata == {"actions": NAMES, "gamma": 0.9, "provenance": "here"}
        assert again.action_names == tuple(NAMES)
        alike(content(again), content(log))
        assert again.card().text == log.card().text
        twice = again.write(tmp_path / "log.parquet", gamma=0.8)
        assert Log(twice).metadata["gamma"] == 0.8
        assert [each.name for each in tmp_path.iterdir()] == ["log.parquet"]


def test_many_files_are_written_as_one(folder, tmp_path):
    log = Log(folder / "parts")
    assert repr(log) == "Log(files=4, rows=110, observation=2, actions=3)"
    alike(content(Log(log.write(tmp_path / "all.parquet"))), content(log))


def test_columns_that_not_all_files_have_are_not_written(tmp_path):
    data = pa.table(columns([3, 4], "terminated"))
    one = parquet(tmp_path / "a.parquet", data.slice(0, 3).append_column("note", [["x"] * 3]))
    other = parquet(tmp_path / "b.parquet", data.slice(3))
    path = Log([one, other]).write(tmp_path / "c.parquet")
    assert "note" not in pq.read_schema(path).names
    alike(content(Log(path)), content(Log(data)))


def test_metadata_that_is_none(tmp_path):
    data = pa.table(columns([3], "terminated"))
    for words in (b"not JSON", b"[1]"):
        path = tmp_path / "odd.parquet"
        parquet(path, data.replace_schema_metadata({row_sources.METADATA: words}))
        assert Log(path).metadata == {}
    text = json.dumps({"actions": NAMES}).encode()
    assert Log(data.replace_schema_metadata({row_sources.METADATA: text})).action_names == tuple(
        NAMES
    )


# Ends of episodes.


def log_of(lengths, ends, time_limit="artifact", **options):
    return Log(columns(lengths, ends, **options), time_limit=time_limit)


def test_terminated_episodes_have_no_next_value():
    found = content(log_of([3, 2], "terminated"))
    assert found["continues"].tolist() == [True, True, False, True, False]
    assert found["starts"].tolist() == [True, False, False, True, False]
    assert not found["unfinished"].any()


def test_truncated_episodes_lead_to_what_was_observed_next():
    data = columns([3, 2], "truncated")
    found = content(Log(data))
    assert found["continues"].all()
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])[[2, 4]]
    np.testing.assert_array_equal(found["after"][[2, 4]], after)
    mu = np.column_stack([data[f"next_mu_{a}"] for a in range(3)])[[2, 4]]
    np.testing.assert_array_equal(found["mu after"][[2, 4]], mu)
    card = Log(data).card()
    assert (card.truncated, card.with_next, card.lost) == (2, 2, 0)
    assert [str(each) for each in card.findings] == [
        "W150 no episode terminated: V depends wholly on bootstrapping."
    ]


@pytest.mark.parametrize("ends", ["truncated", "stops"])
def test_without_a_next_observation_the_last_transition_is_dropped(ends):
    data = columns([3, 1, 2], ends, following=False)
    found = content(Log(data))
    assert found["rewards"].tolist() == data["reward"][[0, 1, 4]].tolist()
    assert found["starts"].tolist() == [True, False, True]
    assert found["continues"].all()
    assert len(found["first"]) == len(found["ids"]) == 3
    assert found["unfinished"].tolist() == [ends == "stops"] * 3
    # Never the next episode's first row.
    np.testing.assert_array_equal(found["after"][:, 0], data["obs_0"][[1, 2, 5]])
    card = Log(data).card()
    assert card.lost == 3
    assert "3 last transitions dropped: no next observation" in card.text
    if ends == "stops":
        assert "3 episodes stop without a flag: treated as truncated" in card.text


def test_a_log_that_stops_bootstraps_if_it_says_what_came_next():
    data = columns([3], "truncated")
    data["truncated"][:] = False
    card = Log(data).card()
    assert (card.stops, card.with_next, card.lost) == (1, 1, 0)
    assert content(Log(data))["continues"].tolist() == [True] * 3


def test_a_time_limit_that_is_the_task():
    data = columns([3, 2, 2], ["truncated", "terminated", "stops"])
    found = content(Log(data, time_limit="task"))
    assert found["continues"].tolist() == [True, True, False, True, False, True]
    clock = data | {"obs_1": 5.0 - data["step"]}
    for each, warned in ((data, ["W154"]), (clock, [])):
        card = Log(each, time_limit="task").card()
        assert [f.code for f in card.findings] == warned
    assert "no entry of the observation tells the time" in str(
        Log(data, time_limit="task").card().findings[0]
    )
    ended = columns([3, 2, 2], ["truncated", "terminated", "truncated"])
    assert not [f for f in Log(ended, time_limit="task").card(1.0).findings if f.is_error]


def test_flags_may_be_numbers():
    data = mixed()
    flags = {name: data[name].astype(np.int8) for name in ("terminated", "truncated")}
    alike(content(Log(data | flags)), content(Log(data)))


def test_returns_of_terminated_episodes(monkeypatch):
    data = columns([3, 1, 2, 6], ["terminated", "terminated", "truncated", "terminated"])
    gamma, reward = 0.9, data["reward"]
    each = [
        sum(gamma**k * r for k, r in enumerate(part))
        for part in (reward[:3], reward[3:4], reward[6:])
    ]
    for size, segment in ((100, 100), (2, 2), (5, 1), (1, 3)):
        monkeypatch.setattr(row_sources, "BATCH", size)
        card = Log(data, segment=segment).card(gamma)
        assert card.mean_return == pytest.approx(np.mean(each), rel=1e-13)
    assert f"mean return of ended episodes {np.mean(each):.4g}" in card.text


# Automatic resets.


def with_phantoms(lengths, first):
    """Return the columns of a log, and the same with the row that a reset leaves."""
    data = columns(lengths, "terminated", step=False, following=False)
    data["reward"] = np.where(data["reward"] == 0.0, 1.0, data["reward"])
    last = np.cumsum(lengths)
    at = last[:-1] if first else last
    owner = data["episode_id"][at if first else at - 1]
    more = {name: np.insert(each, at, each[at - 1]) for name, each in data.items()}
    place = at + np.arange(len(at))
    more["reward"][place] = 0.0
    more["terminated"][place] = False
    more["episode_id"][place] = owner
    return data, more


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("batch", [1, 2, 5, 1000])
def test_rows_of_automatic_resets_are_dropped(first, batch, monkeypatch):
    monkeypatch.setattr(row_sources, "BATCH", batch)
    data, more = with_phantoms([3, 1, 4, 2, 6], first)
    log = Log(more, drop_autoreset=True, segment=2)
    alike(content(log), content(Log(data)))
    assert not [each for each in log.card().findings if each.code != "W103"]
    assert log.card(0.5).mean_return == pytest.approx(Log(data).card(0.5).mean_return, rel=1e-13)


def test_rows_of_automatic_resets_are_noticed():
    _, more = with_phantoms([3, 1, 4, 2], True)
    assert [str(f) for f in Log(more).card().findings] == [
        "W133 1 zero-reward row after every episode end: looks like Gymnasium NEXT_STEP autoreset; "
        "pass drop_autoreset=True."
    ]
    _, more = with_phantoms([3, 1, 4, 2], False)
    with pytest.raises(LogError, match="NEXT_STEP autoreset: pass drop_autoreset=True") as caught:
        content(Log(more))
    assert [each.code for each in caught.value.findings] == ["E132"]


def test_logs_of_few_rewards_are_not_taken_for_resets():
    data = columns([3, 3, 3, 3], "terminated")
    assert not Log(data | {"reward": np.zeros(12)}).card().findings
    assert not Log(data | {"reward": data["terminated"] * 1.0}).card().findings


# However the log is cut.


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    ends=st.data(),
    cuts=st.lists(st.integers(1, 40), max_size=3),
    batch=st.integers(1, 20),
    segment=st.integers(1, 10),
    group=st.integers(1, 9),
)
def test_cutting_makes_no_difference(
    lengths, ends, cuts, batch, segment, group, tmp_path_factory, monkeypatch
):
    how = [ends.draw(st.sampled_from(ENDS)) for _ in lengths]
    data = pa.table(columns(lengths, how, seed=len(lengths)))
    whole = Log(data, segment=segment)
    before = content(whole)
    usable = len(before["rewards"])
    expected = sums(whole) if usable else None
    card = whole.card(0.9).text
    folder = tmp_path_factory.mktemp("cut")
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    names = [
        parquet(folder / f"{i}.parquet", data.slice(a, b - a), group)
        for i, (a, b) in enumerate(pairwise(bounds))
    ]
    with monkeypatch.context() as patch:
        patch.setattr(row_sources, "BATCH", batch)
        cut = Log(names, segment=segment)
        alike(content(cut), before)
        alike(content(Log(data, segment=batch)), before)
        assert cut.card(0.9).text == card
        if usable:
            bit_equal(sums(cut), expected)
            bit_equal(sums(cut, threads=2), expected)
            other = sums(Log(data, segment=1000))
            np.testing.assert_allclose(other.A, expected.A, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(other.b, expected.b, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(other.fingerprints, expected.fingerprints)


def test_long_episodes_come_in_segments(monkeypatch):
    data = mixed()
    expected = [len(piece) for piece in Log(data, segment=7).pieces()]
    assert max(len(piece.rows) for piece in Log(data, segment=7).pieces() if piece.goes_on) == 7
    monkeypatch.setattr(row_sources, "BATCH", 3)
    small = list(Log(data, segment=7).pieces())
    assert sum(map(len, small)) == sum(expected)
    assert max(len(piece.rows) for piece in small) <= 7


def test_progress():
    fractions = []
    data = mixed()
    list(Log(data).pieces(progress=fractions.append))
    Log(data).card(progress=fractions.append)
    Log(data).held(progress=fractions.append)
    assert fractions == [1.0] * 3


def test_start_states():
    data = columns([3, 1, 2], ["stops", "stops", "terminated"], following=False)
    np.testing.assert_array_equal(Log(data).start_states()[:, 0], data["obs_0"][[0, 3, 4]])


# Fingerprints.


def fingerprints(log):
    found = Prints()
    for piece in log.pieces():
        found.add(piece)
    return found.arrays()


@pytest.mark.parametrize("segment", [1, 2, 3, 100])
def test_fingerprints_do_not_depend_on_segments(segment, monkeypatch):
    data = mixed()
    monkeypatch.setattr(row_sources, "BATCH", 4)
    for one, other in zip(
        fingerprints(Log(data, segment=segment)), fingerprints(Log(data)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert len(set(fingerprints(Log(data))[1].tolist())) == 18


def test_any_changed_number_changes_a_fingerprint():
    data = columns([3, 3], "terminated")
    before = fingerprints(Log(data))[1]
    for name in ("obs_0", "obs_1", "reward"):
        changed = dict(data) | {name: data[name].copy()}
        changed[name][4] = np.nextafter(changed[name][4], 9.0)
        after = fingerprints(Log(changed))[1]
        assert after[0] == before[0]
        assert after[1] != before[1]


def test_reading_does_not_hold_the_file(tmp_path, monkeypatch):
    """A reader that buffers ahead would hold the bytes of all row groups."""
    n, rng = 200_000, np.random.default_rng(0)
    rows = {"episode_id": np.arange(n), "action": np.zeros(n, dtype=int), "reward": rng.random(n)}
    rows |= {f"obs_{j}": rng.random(n) for j in range(4)}
    rows |= {"terminated": np.ones(n, dtype=bool), "truncated": np.zeros(n, dtype=bool)}
    pq.write_table(pa.table(rows), tmp_path / "long.parquet", row_group_size=5000)
    monkeypatch.setattr(row_sources, "BATCH", 5000)
    log = Log(str(tmp_path / "long.parquet"))
    log.n_actions  # noqa: B018  read once beforehand
    before = pa.total_allocated_bytes()
    most = max(pa.total_allocated_bytes() for _ in log.pieces()) - before
    assert most < (tmp_path / "long.parquet").stat().st_size / 2
