"""Rows that are padded to multiples of four entries."""

import itertools

import numpy as np
import pytest

from saddleback import GES, GQ, TD, TDRC, TrueOnlineGTD, TrueOnlineTD
from saddleback.engine import Columns
from saddleback.engine.padded_rows import PaddedRows

pytestmark = pytest.mark.kernel

P = 9


def stream(rng, starts=(0, 1, 6, 6, 8)):
    """Return steps with 1, 5, 0 and 2 active features, and one successor each."""
    starts, steps = np.array(starts, dtype=np.uint64), len(starts) - 1
    index = np.concatenate([rng.permutation(P)[: int(n)] for n in np.diff(starts)])
    values = rng.normal(size=(3, steps))
    return Columns(
        starts, index.astype(np.uint32), rng.normal(size=len(index)),
        np.arange(steps + 1, dtype=np.uint64), rng.integers(P, size=steps).astype(np.uint32),
        *values[:2], *rng.uniform(0.1, 0.9, size=(4, steps)),
    )  # fmt: skip


def dense(first, index, value):
    """Return rows [T, P]; entries of the index P are padding."""
    rows = np.zeros((len(first) - 1, P + 1))
    for row, begin, end in zip(rows, first[:-1], first[1:], strict=True):
        np.add.at(row, index[int(begin) : int(end)], value[int(begin) : int(end)])
    assert (rows[:, P] == 0).all()
    return rows[:, :P]


def test_padded_rows_are_the_rows_of_the_stream():
    s = stream(np.random.default_rng(0))
    (index, value, *_), starts, _ = PaddedRows(P, float).of(s, GES(0.6).form)
    assert (np.diff(starts) == [4, 8, 0, 4]).all()
    expected = dense(s.phi_from, s.phi_index, s.phi_value)
    assert np.array_equal(dense(starts, index, value), expected)


def test_what_rules_share_is_computed_once():
    s = stream(np.random.default_rng(1))
    rows = PaddedRows(P, float)
    (*of_ges, _), phi, successors = rows.of(s, GES(0.6).form)
    (*of_tdrc, _), *starts = rows.of(s._replace(next_x=s.next_x + 1), TDRC(0.6).form)
    assert of_tdrc[0] is of_ges[0]
    assert of_tdrc[1] is of_ges[1]
    assert starts[0] is phi
    assert starts[1] is successors
    assert rows.longest == [8, 4]


def test_successors_may_share_the_indices_of_phi():
    """As where the successor of a step is the observation of the next one."""
    s = stream(np.random.default_rng(2))
    own, after = s.phi_from[:-1], s.phi_from[1:]
    s = s._replace(
        phi_from=own, next_from=after, next_index=s.phi_index, next_b=s.phi_value,
        next_x=s.phi_value,
    )  # fmt: skip
    rows = PaddedRows(P, float)
    (_, _, index, value, _), _, starts = rows.of(s, GES(0.6).form)
    assert (np.diff(starts) == [8, 0, 4]).all()
    discount = np.repeat(s.discount[:3], np.diff(after).astype(int))
    begin = int(after[0])
    expected = dense(after - after[0], s.phi_index[begin:], s.phi_value[begin:] * discount)
    assert np.array_equal(dense(starts, index, value), expected)
    assert rows.longest == [8, 8]


@pytest.mark.parametrize(
    ("rule", "of_b", "of_u"),
    [
        (TD(0.6), (1, 1, 0), (1, 1, 0)),  # powers of γ', and the shares of b and of x
        (GES(0.6), (1, 1, 0), (1, 1, 0)),
        (GQ(0.6), (1, 1, 0), (1, 0, 1)),
        (TrueOnlineTD(0.6), (0, 1, 0), (0, 1, 0)),
        (TrueOnlineGTD(0.6), (0, 1, 0), (1, 0, 1)),
    ],
    ids=str,
)
def test_rows_of_successors_are_scaled_for_each_form(rule, of_b, of_u):
    s = stream(np.random.default_rng(3), starts=(0, 2, 7, 7, 8, 12))
    rng, ends = np.random.default_rng(4), np.array([0, 3, 3, 8, 9, 13], dtype=np.uint64)
    index = np.concatenate([rng.permutation(P)[: int(n)] for n in np.diff(ends)])
    b, x = rng.normal(size=(2, 13))
    b[[1, 4]], x[[4, 6]] = 0.0, 0.0  # both are 0 at the fourth
    s = s._replace(next_from=ends, next_index=index.astype(np.uint32), next_b=b, next_x=x)
    columns, _, starts = PaddedRows(P, float).of(s, rule.form)
    assert np.diff(starts).tolist() == [4, 0, 8, 4, 4]
    *_, rows, scaled_b, scaled_u = columns
    both_zero = (b == 0) & ((x == 0) | (rule.form.coefficients.correction == 0))
    kept = index.copy()
    kept[both_zero] = P
    for t, (begin, end) in enumerate(itertools.pairwise(ends.astype(int))):
        own = slice(int(starts[t]), int(starts[t]) + end - begin)
        rest = slice(own.stop, int(starts[t + 1]))
        np.testing.assert_array_equal(rows[own], kept[begin:end])
        assert (rows[rest] == P).all()
        for values, (power, by_b, by_x) in ((scaled_b, of_b), (scaled_u, of_u)):
            expected = s.discount[t] ** power * (by_b * b[begin:end] + by_x * x[begin:end])
            np.testing.assert_allclose(values[own], expected, rtol=1e-14)
            assert not values[rest].any()
