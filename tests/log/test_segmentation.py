"""Episodes end as their flags indicate, however the log is divided into files and batches."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.log_cases import parquet
from helpers.logs import ENDS, alike, columns, content, mixed
from saddleback import GES, GRetrace, features
from saddleback.evaluation.statistics import Statistics
from saddleback.log import Log, LogError, row_sources

FOURIER = features.Fourier((-4.0, -4.0), (4.0, 4.0), order=2)


def sums(log, **options):
    """Return statistics with features that are not whole numbers."""
    rules = [GES(0.7), GRetrace(0.9)]
    return Statistics.of(
        log, rules, "uniform", features=FOURIER, gamma=0.9, blocks=3, shared=True, **options
    )


def bit_equal(one, other):
    for name in ("A", "b", "M", "starts", "steps", "episodes", "squares", "ids", "prints"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one.unfinished, other.unfinished)


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
    card = Log(data).summary()
    assert (card.truncated, card.with_next, card.lost) == (2, 2, 0)
    assert [str(each) for each in card.findings] == [
        "W150 no episode terminated: values depend entirely on bootstrapping."
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
    card = Log(data).summary()
    assert card.lost == 3
    assert "3 last transitions dropped: no next observation" in card.text
    if ends == "stops":
        assert "3 episodes stop without a flag: treated as truncated" in card.text


def test_a_log_that_stops_bootstraps_if_it_says_what_came_next():
    data = columns([3], "truncated")
    data["truncated"][:] = False
    card = Log(data).summary()
    assert (card.stops, card.with_next, card.lost) == (1, 1, 0)
    assert content(Log(data))["continues"].tolist() == [True] * 3


def test_a_time_limit_that_is_the_task():
    data = columns([3, 2, 2], ["truncated", "terminated", "stops"])
    found = content(Log(data, time_limit="task"))
    assert found["continues"].tolist() == [True, True, False, True, False, True]
    clock = data | {"obs_1": 5.0 - data["step"]}
    for each, warned in ((data, ["W154"]), (clock, [])):
        card = Log(each, time_limit="task").summary()
        assert [f.code for f in card.findings] == warned
    assert "the observation does not include the time" in str(
        Log(data, time_limit="task").summary().findings[0]
    )
    ended = columns([3, 2, 2], ["truncated", "terminated", "truncated"])
    assert not [f for f in Log(ended, time_limit="task").summary(1.0).findings if f.is_error]


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
        card = Log(data, segment=segment).summary(gamma)
        assert card.mean_return == pytest.approx(np.mean(each), rel=1e-13)
    assert f"mean return of completed episodes {np.mean(each):.4g}" in card.text


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
    assert not [each for each in log.summary().findings if each.code != "W103"]
    assert log.summary(0.5).mean_return == pytest.approx(
        Log(data).summary(0.5).mean_return, rel=1e-13
    )


def test_rows_of_automatic_resets_are_noticed():
    _, more = with_phantoms([3, 1, 4, 2], True)
    assert [str(f) for f in Log(more).summary().findings] == [
        "W133 a zero-reward row follows every episode end. This looks like Gymnasium's NEXT_STEP "
        "autoreset: pass drop_autoreset=True."
    ]
    _, more = with_phantoms([3, 1, 4, 2], False)
    with pytest.raises(LogError, match="NEXT_STEP autoreset: pass drop_autoreset=True") as caught:
        content(Log(more))
    assert [each.code for each in caught.value.findings] == ["E132"]


def test_logs_of_few_rewards_are_not_taken_for_resets():
    data = columns([3, 3, 3, 3], "terminated")
    assert not Log(data | {"reward": np.zeros(12)}).summary().findings
    assert not Log(data | {"reward": data["terminated"] * 1.0}).summary().findings


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
    card = whole.summary(0.9).text
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
        assert cut.summary(0.9).text == card
        if usable:
            bit_equal(sums(cut), expected)
            bit_equal(sums(cut, threads=2), expected)
            other = sums(Log(data, segment=1000))
            np.testing.assert_allclose(other.A, expected.A, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(other.b, expected.b, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(other.prints, expected.prints)


def test_long_episodes_come_in_segments(monkeypatch):
    data = mixed()
    expected = [len(piece) for piece in Log(data, segment=7).segments()]
    assert (
        max(len(piece.rows) for piece in Log(data, segment=7).segments() if piece.continues_in_next)
        == 7
    )
    monkeypatch.setattr(row_sources, "BATCH", 3)
    small = list(Log(data, segment=7).segments())
    assert sum(map(len, small)) == sum(expected)
    assert max(len(piece.rows) for piece in small) <= 7


def test_progress():
    fractions = []
    data = mixed()
    list(Log(data).segments(progress=fractions.append))
    Log(data).summary(progress=fractions.append)
    Log(data).cached(progress=fractions.append)
    assert fractions == [1.0] * 3


def test_start_states():
    data = columns([3, 1, 2], ["stops", "stops", "terminated"], following=False)
    np.testing.assert_array_equal(Log(data).start_states()[:, 0], data["obs_0"][[0, 3, 4]])


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
    most = max(pa.total_allocated_bytes() for _ in log.segments()) - before
    assert most < (tmp_path / "long.parquet").stat().st_size / 2
