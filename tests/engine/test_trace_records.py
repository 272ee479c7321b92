"""The recorded trace, against the plain recursions e ← c e + w φ and e' ← c' e' + w' φ."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import problem_for, rule_named
from saddleback.engine.learner_batch import update_settings
from saddleback.engine.padded_rows import padded_starts
from saddleback.engine.trace_records import (
    FURTHER_NUMBERS,
    NEXT_PADDED,
    NUMBERS,
    OVERFLOWED,
    PHI_PADDED,
    RESCALED,
    TraceRecorder,
)

pytestmark = pytest.mark.kernel

ALPHA, BETA = sb.Schedule(1.0, 0.5, 3.0), sb.Schedule(1.0, 1.0)


def stream_of(name, lam, steps, **kind):
    """Return a stream of a rule with its number of features."""
    problem = problem_for(name, seed=3, states=4, features=3, **kind)
    experience = sb.sample(problem, steps, rng=1)
    source = sb.engine.FiniteSource(problem, experience)
    return source.streamer([rule_named(name, lam)])(experience)[0], problem.p


def recorded(name, stream, p, window, chunks=1):
    """Return the numbers of each step by name, its event, and the entries of each rescaling."""
    form = rule_named(name).form
    settings = update_settings(form, ALPHA, BETA, np.dtype(np.float64))
    recorder = TraceRecorder(p, settings._replace(window=window), form.true_online, np.float64)
    names, steps = NUMBERS + FURTHER_NUMBERS, len(stream.reward)
    numbers, events, entries = [], [], []
    for part in np.array_split(np.arange(steps), chunks):
        begin, end = int(part[0]), int(part[-1]) + 1
        chunk = stream.part(begin, end)
        starts = padded_starts(chunk.phi_from), padded_starts(chunk.next_from)
        rows, offsets, index, before, after = recorder.record(chunk, begin, *starts, len(names))
        numbers.append(rows.copy())
        events.append(offsets[:-1, 3].copy())
        np.testing.assert_array_equal(offsets[:, 0], starts[0])
        np.testing.assert_array_equal(offsets[:, 1], starts[1])
        for first, last in zip(offsets[:-1, 2].tolist(), offsets[1:, 2].tolist(), strict=True):
            assert (last - first) % 4 == 0
            triples = zip(index[first:last], before[first:last], after[first:last], strict=True)
            entries.append([(int(i), x, y) for i, x, y in triples])
    columns = np.concatenate(numbers).T
    return dict(zip(names, columns, strict=False)), np.concatenate(events), entries


def dense(stream, t, p, kind):
    """Return φ or b of a step as a vector."""
    first, index, value = (getattr(stream, name) for name in (
        ("phi_from", "phi_index", "phi_value") if kind == "phi"
        else ("next_from", "next_index", "next_b")
    ))  # fmt: skip
    row = np.zeros(p)
    for j in range(int(first[t]), int(first[t + 1])):
        row[index[j]] += value[j if len(value) > 1 else 0]
    return row


@pytest.mark.parametrize(
    ("name", "lam", "kind", "window", "chunks"),
    [
        ("ExpectedSarsa", 0.6, {}, 1e5, 1),
        ("ExpectedSarsa", 0.9, {"termination": 0.1}, 4.0, 3),
        ("GES", 0.9, {"termination": 0.1}, 2.0, 3),
        ("HTD", 0.8, {"termination": 0.1}, 1e3, 1),
        ("HTD", 0.8, {}, 2.0, 3),
    ],
)
def test_numbers_are_those_of_the_plain_trace(name, lam, kind, window, chunks):
    stream, p = stream_of(name, lam, 60, **kind)
    stream.phi_value[int(stream.phi_from[7]) : int(stream.phi_from[8])] = 0.0  # a step without φ
    numbers, events, entries = recorded(name, stream, p, window, chunks)
    hybrid = name == "HTD"
    for column, values in (
        ("reward", stream.reward), ("decay", stream.decay), ("weight", stream.weight),
        ("discount", stream.discount), ("a_scale", (np.arange(60) + 4.0) ** -0.5),
        ("b_scale", 1.0 / np.arange(1, 61)),
    ):  # fmt: skip
        np.testing.assert_allclose(numbers[column], values, rtol=1e-12)
    e, second, C, rescaled = np.zeros(p), np.zeros(p), 1.0, 0
    for t in range(60):
        at = {key: values[t] for key, values in numbers.items()}
        phi, b = dense(stream, t, p, "phi"), dense(stream, t, p, "next")
        c, w = stream.decay[t], stream.weight[t]
        leaves = not (c and 1 / window <= C * c <= window)
        assert bool(events[t] & RESCALED) == leaves
        if leaves:
            active = np.flatnonzero(e)
            kept = [entry for entry in entries[t] if entry[0] < p]
            assert {i for i, *_ in kept} >= set(active.tolist())
            for i, before, after in kept:
                assert C * before == pytest.approx(e[i], abs=1e-12)
                assert after == pytest.approx(c * e[i], abs=1e-12)
            assert all(entry == (p, 0.0, 0.0) for entry in entries[t] if entry[0] >= p)
            rescaled += 1
        else:
            assert entries[t] == []
        C = 1.0 if leaves else C * c
        assert at["C"] == pytest.approx(C)
        assert C * at["entry"] == pytest.approx(w)
        e = c * e
        assert C * at["g_phi"] == pytest.approx(e @ phi, abs=1e-12)
        td = rule_named(name).form.coefficients.td
        g_delta = (stream.discount[t] * (e @ b) if td else 0.0) - e @ phi
        assert C * at["g_delta"] == pytest.approx(g_delta, abs=1e-12)
        e = e + w * phi
        assert at["e_phi"] == pytest.approx(e @ phi)
        assert at["ee"] == pytest.approx(e @ e)
        if hybrid:
            second = stream.second_decay[t] * second + stream.second_weight[t] * phi
            assert at["second_decay"] == stream.second_decay[t]
            assert at["second_weight"] == stream.second_weight[t]
            assert at["second_phi"] == pytest.approx(second @ phi)
            assert at["second_e"] == pytest.approx(second @ e)
            assert at["e_b"] == pytest.approx(stream.discount[t] * (e @ b), abs=1e-12)
            assert at["second_b"] == pytest.approx(stream.discount[t] * (second @ b), abs=1e-12)
        sizes = [int(first[t + 1] - first[t]) for first in (stream.phi_from, stream.next_from)]
        assert bool(events[t] & PHI_PADDED) == bool(sizes[0] % 4)
        assert bool(events[t] & NEXT_PADDED) == bool(sizes[1] % 4)
        assert not events[t] & OVERFLOWED
    assert rescaled > (0 if window > 10 else 5)


@pytest.mark.filterwarnings("ignore:overflow")  # with the compiler off
@pytest.mark.parametrize("name", ["ExpectedSarsa", "HTD"])
def test_a_trace_that_overflows_begins_anew(name):
    stream, p = stream_of(name, 0.6, 12)
    stream.weight[4] = 1e200
    numbers, events, _ = recorded(name, stream, p, 1e5)
    assert [t for t in range(12) if events[t] & OVERFLOWED] == [4]
    assert numbers["ee"][4] == np.inf
    e = np.zeros(p)
    for t in range(5, 12):
        e = stream.decay[t] * e + stream.weight[t] * dense(stream, t, p, "phi")
        assert numbers["ee"][t] == pytest.approx(e @ e)


def test_room_for_entries_grows_as_needed():
    """A window of 1 rescales at every step, of which each needs room for the whole trace."""
    stream, p = stream_of("ExpectedSarsa", 0.9, 200)
    _, events, entries = recorded("ExpectedSarsa", stream, p, 1.0, chunks=2)
    assert (events[1:] & RESCALED).all()
    assert [len(rows) for rows in entries[1:100]] == [-(-p // 4) * 4] * 99
