"""Cumulative weights: sums over episodes and scores, against decimals of any size."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from types import SimpleNamespace

import numpy as np
import pytest

from saddleback.ope import cumulative_weights
from saddleback.ope.cumulative_weights import (
    FIRST,
    LARGE,
    LOG,
    MASS,
    PEAK,
    RETURN,
    TOTAL,
    CumulativeWeights,
    WeightedRows,
)


class Rows(SimpleNamespace):
    def __len__(self):
        return len(self.starts)


def pieces(lengths, cuts, columns):
    """Yield segments of rows that are cut at some places, with their part of each column."""
    n = sum(lengths)
    position = np.concatenate([np.arange(length) for length in lengths])
    for low, high in zip([0, *cuts], [*cuts, n], strict=True):
        starts = position[low:high] == 0
        rows = Rows(position=position[low:high], starts=starts, rewards=columns["reward"][low:high])
        segment = SimpleNamespace(
            rows=rows, row_episode=np.cumsum(starts), first_states=np.flatnonzero(starts),
            begins_new_episode=bool(starts[:1].all()),
            continues_in_next=high < n and position[high] > 0,
        )  # fmt: skip
        yield segment, {name: column[low:high] for name, column in columns.items()}


def weigh(lengths, cuts, columns, gamma):
    weights = CumulativeWeights(gamma)
    for segment, own in pieces(lengths, cuts, columns):
        weights.add(segment, own["log_rho"], own["reward"], own["q"], own["v"])
    weights.close()
    return weights


def by_decimals(lengths, columns, gamma):
    """Return the numbers of the module's docstring, one episode and step at a time."""
    gamma, n, H = Decimal(gamma), len(lengths), max(lengths)
    bounds = np.cumsum([0, *lengths])
    W, Y, totals, masses = [], [], [], []
    for e in range(n):
        rows = range(bounds[e], bounds[e + 1])
        w, y, product = [], [], Decimal(1)
        for row in rows:
            rho = columns["log_rho"][row]
            product = Decimal(0) if rho == -np.inf else product * Decimal(float(rho)).exp()
            later = Decimal(float(columns["v"][row + 1])) if row + 1 in rows else Decimal(0)
            gain = Decimal(float(columns["reward"][row])) - Decimal(float(columns["q"][row]))
            w.append(product)
            y.append(gain + gamma * later)
        first = Decimal(float(columns["v"][bounds[e]]))
        totals.append(first + sum(gamma**t * w[t] * y[t] for t in range(len(w))))
        masses.append(sum(gamma**t * w[t] for t in range(len(w))))
        more = H - len(w)
        W.append(w + [w[-1]] * more)
        Y.append(y + [Decimal(0)] * more)
    D = [sum(w[t] for w in W) for t in range(H)]
    means = [sum(w[t] * y[t] for w, y in zip(W, Y, strict=True)) / D[t] for t in range(H)]
    ess = [D[t] ** 2 / sum(w[t] ** 2 for w in W) for t in range(H)]
    first = [Decimal(float(columns["v"][bound])) for bound in bounds[:-1]]
    mean_first = sum(first) / n
    scores = [
        first[e] - mean_first
        + sum(gamma**t * n * W[e][t] / D[t] * (Y[e][t] - means[t]) for t in range(H))
        for e in range(n)
    ]  # fmt: skip
    value = mean_first + sum(gamma**t * means[t] for t in range(H))
    return SimpleNamespace(
        totals=totals, masses=masses, D=D, means=means, ess=ess, scores=scores, value=value, W=W
    )


LENGTHS = [3, 1, 4, 2, 6, 1, 5]
CUTS = [[], [2, 5, 9], [3, 4, 8, 10, 16, 17], [6, 6, 21]]


def random_columns(scale, impossible, seed=0):
    rng = np.random.default_rng(seed)
    n = sum(LENGTHS)
    columns = {name: rng.normal(size=n) for name in ("reward", "q", "v")}
    log_rho = scale * rng.normal(size=n)
    log_rho[rng.random(n) < impossible] = -np.inf
    return columns | {"log_rho": log_rho}


@pytest.mark.kernel
@pytest.mark.parametrize("gamma", ["1.0", "0.5"])
@pytest.mark.parametrize(("scale", "impossible"), [(0.7, 0.0), (0.7, 0.2), (150.0, 0.1)])
@pytest.mark.parametrize("cuts", CUTS)
def test_sums_and_scores_equal_those_of_decimals(scale, impossible, gamma, cuts):
    columns = random_columns(scale, impossible)
    actual = weigh(LENGTHS, cuts, columns, float(gamma))
    with localcontext() as context:
        context.prec = 60
        expected = by_decimals(LENGTHS, columns, gamma)
        logs = [float(d.ln()) if d else -np.inf for d in expected.D]
        last = [float(w[-1].ln()) if w[-1] else -np.inf for w in expected.W]
        peaks = [max(w) for w in expected.W]
        peaks = [float(w.ln()) if w else -np.inf for w in peaks]
    np.testing.assert_allclose(actual.steps.log_total, logs, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(actual.steps.ess, [float(x) for x in expected.ess], rtol=1e-10)
    means = [float(x) for x in expected.means]
    np.testing.assert_allclose(actual.steps.mean, means, rtol=1e-10, atol=1e-12)
    scores = [float(x) for x in expected.scores]
    np.testing.assert_allclose(actual.scores, scores, rtol=1e-9, atol=1e-9)
    assert actual.value == pytest.approx(float(expected.value), rel=1e-10)
    np.testing.assert_allclose(actual.episodes[:, LOG], last, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(actual.episodes[:, PEAK], peaks, rtol=1e-12, atol=1e-12)
    assert actual.lengths.tolist() == LENGTHS
    bounds = np.cumsum([0, *LENGTHS])
    returns = [
        sum(float(gamma) ** t * columns["reward"][low + t] for t in range(high - low))
        for low, high in itertools.pairwise(bounds)
    ]
    np.testing.assert_allclose(actual.episodes[:, RETURN], returns, rtol=1e-12)
    assert actual.episodes[:, FIRST].tolist() == columns["v"][bounds[:-1]].tolist()
    if scale < 1:
        for column, numbers in ((TOTAL, expected.totals), (MASS, expected.masses)):
            numbers = [float(x) for x in numbers]
            np.testing.assert_allclose(actual.episodes[:, column], numbers, rtol=1e-10)


@pytest.mark.kernel
def test_a_step_without_any_weight_has_no_value():
    columns = random_columns(0.7, 0.0)
    second = np.concatenate([np.arange(length) == 1 for length in LENGTHS])
    first = np.concatenate([np.full(length, length < 2) for length in LENGTHS])
    columns["log_rho"] = np.where(second | first, -np.inf, 0.0)
    actual = weigh(LENGTHS, [4], columns, 0.5)
    assert np.isneginf(actual.steps.log_total).tolist() == [False, *[True] * 5]
    assert np.isnan(actual.value)
    assert actual.steps.mean[1:].tolist() == [0.0] * 5
    assert np.isfinite(actual.scores).all()  # what has no weight adds nothing


@pytest.mark.kernel
def test_sums_grow_with_the_longest_episode_so_far():
    """Two steps, then five, then more than twice as many."""
    lengths = [2, 5, 13, 1]
    n = sum(lengths)
    columns = {name: np.ones(n) for name in ("reward", "q", "v")} | {"log_rho": np.zeros(n)}
    actual = weigh(lengths, [2, 7, 20], columns, 1.0)
    assert actual.steps.log_total == pytest.approx([math.log(4)] * 13)
    assert actual.steps.ess == pytest.approx([4.0] * 13)
    ended = [sum(length == t + 1 for length in lengths) for t in range(13)]
    going = [sum(length > t for length in lengths) for t in range(13)]
    # y is 1 − 1 + 1, and 0 in the last step of an episode.
    expected = [(going[t] - ended[t]) / 4 for t in range(13)]
    assert actual.steps.mean == pytest.approx(expected)
    assert actual.value == pytest.approx(1.0 + sum(expected))


times = getattr(cumulative_weights.times, "py_func", cumulative_weights.times)


def test_products_are_infinite_only_if_they_are():
    small, large = LARGE - 0.5, LARGE + 0.5
    for log_weight in (-3.0, 0.0, 2.0, small, LARGE, large, 1000.0):
        assert times(log_weight, 0.0) == 0.0
        for x in (2.5, -2.5, 1e-150, -1e-150, 1e-280):
            exact = log_weight + math.log(abs(x))
            if log_weight < LARGE or exact < LARGE:
                assert math.log(abs(times(log_weight, x))) == pytest.approx(exact)
            else:
                assert times(log_weight, x) == math.copysign(math.inf, x)
            assert math.copysign(1.0, times(log_weight, x)) == math.copysign(1.0, x)
    assert times(-math.inf, 3.0) == 0.0
    assert times(LARGE, math.exp(-1.0)) == pytest.approx(math.exp(LARGE - 1.0))
    assert times(LARGE + 1.0, math.exp(-1.0)) == math.inf


@pytest.mark.parametrize("limit", [0, 2, 3, 7])
def test_rows_are_in_memory_up_to_their_limit(limit):
    parts = [
        WeightedRows(np.zeros(n, bool), np.arange(3.0 * n).reshape(3, n), False) for n in (2, 1, 4)
    ]
    store = cumulative_weights.RowStore(limit)
    kept = []
    for part in parts:
        store.add(part)
        kept.append(store._file is None)
    assert kept == [total <= limit for total in (2, 3, 7)]
    for _ in range(2):
        for one, other in zip(store, parts, strict=True):
            assert np.array_equal(one.numbers, other.numbers)
    store.close()
    assert cumulative_weights.MAX_ROWS == 2**21


def test_rows_know_where_episodes_begin():
    def rows(*starts):
        return WeightedRows(np.array(starts, dtype=bool), np.zeros((3, len(starts))), False)

    assert rows(True, False, True).first_states.tolist() == [0, 2]
    assert rows(True, False).begins_new_episode
    assert not rows(False, True).begins_new_episode
    assert rows().begins_new_episode
