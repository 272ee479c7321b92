"""Episodes end as their flags indicate, however the log is divided into files and batches."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.log_cases import parquet
from helpers.logs import ENDS, assert_same_content, columns, content, mixed
from saddleback import GES, GRetrace, features
from saddleback.log import Log, LogError, row_source
from saddleback.ope.statistics import Statistics

FOURIER = features.Fourier((-4.0, -4.0), (4.0, 4.0), order=2)


def statistics(log, **options):
    """Return statistics with features that are not integers."""
    rules = [GES(0.7), GRetrace(0.9)]
    return Statistics.of(
        log, rules, "uniform", features=FOURIER, gamma=0.9, blocks=3, shared=True, **options
    )


def bit_equal(one, other):
    for name in ("A", "b", "M", "starts", "steps", "episodes", "squares", "ids", "fingerprints"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one.unfinished, other.unfinished)


# Ends of episodes.


def log_of(lengths, ends, time_limit="artifact", **options):
    return Log(columns(lengths, ends, **options), time_limit=time_limit)


def test_terminated_episodes_have_no_next_value():
    transitions = content(log_of([3, 2], "terminated"))
    assert transitions["continues"].tolist() == [True, True, False, True, False]
    assert transitions["starts"].tolist() == [True, False, False, True, False]
    assert not transitions["unfinished"].any()


def test_truncated_episodes_lead_to_the_next_observation():
    data = columns([3, 2], "truncated")
    transitions = content(Log(data))
    assert transitions["continues"].all()
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])[[2, 4]]
    np.testing.assert_array_equal(transitions["after"][[2, 4]], after)
    mu = np.column_stack([data[f"next_mu_{a}"] for a in range(3)])[[2, 4]]
    np.testing.assert_array_equal(transitions["mu after"][[2, 4]], mu)
    summary = Log(data).summary()
    assert (summary.truncated, summary.with_next, summary.lost) == (2, 2, 0)
    assert [str(finding) for finding in summary.findings] == [
        "W150 no episode terminated: values depend entirely on bootstrapping."
    ]


@pytest.mark.parametrize("ends", ["truncated", "stops"])
def test_without_a_next_observation_the_last_transition_is_dropped(ends):
    data = columns([3, 1, 2], ends, following=False)
    transitions = content(Log(data))
    assert transitions["rewards"].tolist() == data["reward"][[0, 1, 4]].tolist()
    assert transitions["starts"].tolist() == [True, False, True]
    assert transitions["continues"].all()
    assert len(transitions["first"]) == len(transitions["ids"]) == 3
    assert transitions["unfinished"].tolist() == [ends == "stops"] * 3
    # Never the next episode's first row.
    np.testing.assert_array_equal(transitions["after"][:, 0], data["obs_0"][[1, 2, 5]])
    summary = Log(data).summary()
    assert summary.lost == 3
    assert "3 last transitions dropped: no next observation" in summary.text
    if ends == "stops":
        assert "3 episodes stop without a flag: treated as truncated" in summary.text


def test_an_episode_without_a_flag_bootstraps_from_a_known_next_observation():
    data = columns([3], "truncated")
    data["truncated"][:] = False
    summary = Log(data).summary()
    assert (summary.stops, summary.with_next, summary.lost) == (1, 1, 0)
    assert content(Log(data))["continues"].tolist() == [True] * 3


def test_time_limit_task_ends_truncated_episodes():
    data = columns([3, 2, 2], ["truncated", "terminated", "stops"])
    transitions = content(Log(data, time_limit="task"))
    assert transitions["continues"].tolist() == [True, True, False, True, False, True]
    clock = data | {"obs_1": 5.0 - data["step"]}
    for rows, codes in ((data, ["W154"]), (clock, [])):
        summary = Log(rows, time_limit="task").summary()
        assert [f.code for f in summary.findings] == codes
    assert "the observation does not include the time" in str(
        Log(data, time_limit="task").summary().findings[0]
    )
    ended = columns([3, 2, 2], ["truncated", "terminated", "truncated"])
    assert not [f for f in Log(ended, time_limit="task").summary(1.0).findings if f.is_error]


def test_flags_may_be_numbers():
    data = mixed()
    flags = {name: data[name].astype(np.int8) for name in ("terminated", "truncated")}
    assert_same_content(content(Log(data | flags)), content(Log(data)))


def test_the_mean_return_is_that_of_terminated_episodes(monkeypatch):
    data = columns([3, 1, 2, 6], ["terminated", "terminated", "truncated", "terminated"])
    gamma, reward = 0.9, data["reward"]
    returns = [
        sum(gamma**k * r for k, r in enumerate(part))
        for part in (reward[:3], reward[3:4], reward[6:])
    ]
    for size, segment in ((100, 100), (2, 2), (5, 1), (1, 3)):
        monkeypatch.setattr(row_source, "BATCH", size)
        summary = Log(data, segment=segment).summary(gamma)
        assert summary.mean_return == pytest.approx(np.mean(returns), rel=1e-13)
    assert f"mean return of completed episodes {np.mean(returns):.4g}" in summary.text


# Automatic resets.


def with_autoreset_rows(lengths, first):
    """Return the columns of a log, without and with the rows that autoresets add."""
    data = columns(lengths, "terminated", step=False, following=False)
    data["reward"] = np.where(data["reward"] == 0.0, 1.0, data["reward"])
    last = np.cumsum(lengths)
    at = last[:-1] if first else last
    owner = data["episode_id"][at if first else at - 1]
    more = {name: np.insert(column, at, column[at - 1]) for name, column in data.items()}
    place = at + np.arange(len(at))
    more["reward"][place] = 0.0
    more["terminated"][place] = False
    more["episode_id"][place] = owner
    return data, more


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("batch", [1, 2, 5, 1000])
def test_autoreset_rows_are_dropped(first, batch, monkeypatch):
    monkeypatch.setattr(row_source, "BATCH", batch)
    data, more = with_autoreset_rows([3, 1, 4, 2, 6], first)
    log = Log(more, drop_autoreset=True, segment=2)
    assert_same_content(content(log), content(Log(data)))
    assert not [finding for finding in log.summary().findings if finding.code != "W103"]
    assert log.summary(0.5).mean_return == pytest.approx(
        Log(data).summary(0.5).mean_return, rel=1e-13
    )


def test_autoreset_rows_are_reported():
    _, more = with_autoreset_rows([3, 1, 4, 2], True)
    assert [str(f) for f in Log(more).summary().findings] == [
        "W133 a zero-reward row follows every episode end. This looks like Gymnasium's NEXT_STEP "
        "autoreset; drop its rows: drop_autoreset=True."
    ]
    _, more = with_autoreset_rows([3, 1, 4, 2], False)
    with pytest.raises(
        LogError, match="NEXT_STEP autoreset; drop its rows: drop_autoreset=True"
    ) as caught:
        content(Log(more))
    assert [finding.code for finding in caught.value.findings] == ["E132"]


def test_sparse_rewards_are_not_mistaken_for_autoresets():
    data = columns([3, 3, 3, 3], "terminated")
    assert not Log(data | {"reward": np.zeros(12)}).summary().findings
    assert not Log(data | {"reward": data["terminated"] * 1.0}).summary().findings


# Files, batches and segments.


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
def test_results_do_not_depend_on_files_batches_or_segments(
    lengths, ends, cuts, batch, segment, group, tmp_path_factory, monkeypatch
):
    how = [ends.draw(st.sampled_from(ENDS)) for _ in lengths]
    data = pa.table(columns(lengths, how, seed=len(lengths)))
    uncut = Log(data, segment=segment)
    before = content(uncut)
    usable = len(before["rewards"])
    expected = statistics(uncut) if usable else None
    summary = uncut.summary(0.9).text
    folder = tmp_path_factory.mktemp("cut")
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    names = [
        parquet(folder / f"{i}.parquet", data.slice(a, b - a), group)
        for i, (a, b) in enumerate(pairwise(bounds))
    ]
    with monkeypatch.context() as patch:
        patch.setattr(row_source, "BATCH", batch)
        cut = Log(names, segment=segment)
        assert_same_content(content(cut), before)
        assert_same_content(content(Log(data, segment=batch)), before)
        assert cut.summary(0.9).text == summary
        if usable:
            bit_equal(statistics(cut), expected)
            bit_equal(statistics(cut, threads=2), expected)
            other = statistics(Log(data, segment=1000))
            np.testing.assert_allclose(other.A, expected.A, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(other.b, expected.b, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(other.fingerprints, expected.fingerprints)


def test_long_episodes_are_split_into_segments(monkeypatch):
    data = mixed()
    expected = [len(segment) for segment in Log(data, segment=7).segments()]
    assert (
        max(
            len(segment.rows)
            for segment in Log(data, segment=7).segments()
            if segment.continues_in_next
        )
        == 7
    )
    monkeypatch.setattr(row_source, "BATCH", 3)
    small = list(Log(data, segment=7).segments())
    assert sum(map(len, small)) == sum(expected)
    assert max(len(segment.rows) for segment in small) <= 7


def test_progress_ends_at_one():
    fractions = []
    data = mixed()
    list(Log(data).segments(progress=fractions.append))
    Log(data).summary(progress=fractions.append)
    Log(data).cached(progress=fractions.append)
    assert fractions == [1.0] * 3


def test_start_states_are_the_first_observations():
    data = columns([3, 1, 2], ["stops", "stops", "terminated"], following=False)
    np.testing.assert_array_equal(Log(data).start_states()[:, 0], data["obs_0"][[0, 3, 4]])


def test_reading_does_not_load_the_entire_file(tmp_path, monkeypatch):
    """A reader that buffers ahead would load all row groups."""
    n, rng = 200_000, np.random.default_rng(0)
    rows = {"episode_id": np.arange(n), "action": np.zeros(n, dtype=int), "reward": rng.random(n)}
    rows |= {f"obs_{j}": rng.random(n) for j in range(4)}
    rows |= {"terminated": np.ones(n, dtype=bool), "truncated": np.zeros(n, dtype=bool)}
    pq.write_table(pa.table(rows), tmp_path / "long.parquet", row_group_size=5000)
    monkeypatch.setattr(row_source, "BATCH", 5000)
    log = Log(str(tmp_path / "long.parquet"))
    log.n_actions  # noqa: B018  read once beforehand
    before = pa.total_allocated_bytes()
    most = max(pa.total_allocated_bytes() for _ in log.segments()) - before
    assert most < (tmp_path / "long.parquet").stat().st_size / 2


def test_a_common_length_of_truncated_episodes_is_told():
    limited = Log(columns([4, 2, 4], ["truncated", "terminated", "truncated"])).summary()
    assert limited.time_limit_steps == 4
    assert "all truncated episodes have 4 steps" in limited.text
    for lengths, ends in (([4, 3], "truncated"), ([4, 5], ["truncated", "terminated"])):
        summary = Log(columns(lengths, ends)).summary()
        assert summary.time_limit_steps is None
        assert "all truncated" not in summary.text
