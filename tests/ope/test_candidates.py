"""Candidate features: which there are, of what sizes, and what they see of a decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import target
from helpers.logs import columns
from saddleback.errors import InvalidParameter
from saddleback.features import Fourier, Scaling
from saddleback.features.standardised import median_distance
from saddleback.log.target_policies import as_targets
from saddleback.ope import candidates as module
from saddleback.ope.candidates import (
    GIVEN,
    HISTORY,
    OBSERVATION,
    STEP,
    Basis,
    View,
    candidates,
    given_basis,
    unused_columns,
    views,
)
from saddleback.ope.episode_sample import sample_episodes


@pytest.fixture(scope="module")
def sample():
    log = sb.Log(columns([3, 5, 4, 2, 6, 4] * 10, "terminated"))
    return sample_episodes(log, as_targets({"new": target}, log), 10_000)[0]


def monomials(dimensions, degree):
    """Return the number of monomials up to a degree, by listing exponents."""
    ranges = np.indices((degree + 1,) * dimensions).reshape(dimensions, -1)
    return int((ranges.sum(axis=0) <= degree).sum())


def names_by_rule(view, sizes, most, n, actions=3):
    """Return the names of the bases of a view, as documented, with their sizes."""
    scaling = Scaling.of(view.before)
    d, width = scaling.size, median_distance(scaling(view.before))
    observed, names = view.name == OBSERVATION, []
    if observed:
        names.append(("constant", 1))
    for degree, name in ((1, "linear"), (2, "quadratic")):
        size = monomials(d, degree)
        if size <= most and not (degree == 2 and view.name == HISTORY):
            names.append((name, size))
    distinct = len(np.unique(np.concatenate([view.before, view.after, view.start]), axis=0))
    if distinct <= max(most, min(400, 2000 // actions, n // 4)):
        names.append((f"{distinct} distinct values", 1 + distinct))
    waves = [(sizes[-1], factor) for factor in (0.25, 0.5, 1.0, 2.0, 4.0)]
    waves = waves if observed else [(sizes[-1], 1.0), (sizes[-1], 2.0)]
    if observed:
        waves += [(size, factor) for size in sizes[:-1] for factor in (1.0, 4.0)]
    for size, factor in waves:
        count = min(size, most - 1 - d)
        if count >= 8:
            name = f"random Fourier {count}, bandwidth {width * factor:.2g}"
            names.append((name, 1 + d + count))
    if observed and d <= 2:
        names += [
            (f"tiles {bins}x{tilings}", 1 + tilings * (bins + 1) ** d)
            for bins, tilings in ((6, 4), (12, 1))
            if tilings * (bins + 1) ** d <= most
        ]
    if observed:
        cells = min(64, most, 1 + n // 20)
        names.append((f"{cells} cells", 1 + cells))
    return names


@pytest.mark.parametrize("sizes", [(60,), (20, 40)])
@pytest.mark.parametrize("most", [250, 169, 168, 11, 10, 5])
def test_bases_are_those_of_the_rules(sample, sizes, most):
    bases = list(candidates(sample, sizes, most))
    for view in views(sample):
        own = [basis for basis in bases if basis.view.name == view.name]
        sized = [(basis.name, basis.start().shape[1]) for basis in own]
        assert sized == names_by_rule(view, sizes, most, len(sample.rewards))
    kinds = {basis.name: (basis.is_smooth, basis.is_exact) for basis in bases}
    for name, (smooth, exact) in kinds.items():
        assert smooth == name.startswith("random Fourier")
        assert exact == name.endswith("distinct values")


@pytest.mark.parametrize("dimensions", [1, 3])
@pytest.mark.parametrize("most", [250, 2])
def test_bases_of_one_and_of_three_columns(sample, dimensions, most):
    """Only one or two have tiles."""
    states = np.column_stack([sample.states, sample.states[::-1, 0] ** 3])[:, :dimensions]
    one = replace(
        sample,
        states=states,
        next_states=states,
        starts=states[sample.step == 0],
        step=0 * sample.step,
    )
    (view,) = views(one)
    sized = [(basis.name, basis.start().shape[1]) for basis in candidates(one, (20,), most)]
    assert sized == names_by_rule(view, (20,), most, len(states))


@pytest.mark.parametrize(
    ("rows", "actions", "most", "limit", "cells"),
    [(1300, 3, 70, 325, 64), (1240, 3, 70, 310, 63), (1700, 3, 70, 400, 64),
     (1700, 6, 70, 333, 64), (1240, 3, 50, 310, 50), (1240, 3, 311, 311, 63)],
)  # fmt: skip
def test_numbers_of_values_and_cells_grow_with_the_rows(
    monkeypatch, sample, rows, actions, most, limit, cells
):
    x = np.random.default_rng(0).normal(size=(rows, 1))
    pi = {"new": np.ones((rows, actions)) / actions}
    one = replace(
        sample, states=x, next_states=x, starts=x[:9], step=np.zeros(rows, int), next_pi=pi
    )
    limits = []
    monkeypatch.setattr(module, "_distinct", lambda view, limit: limits.append(limit))
    *_, last = candidates(one, (8,), most)
    assert (limits, last.name) == ([limit], f"{cells} cells")


def test_columns_that_are_constant_have_no_features(sample):
    zero = 0 * sample.states
    one = replace(sample, states=zero, next_states=zero, starts=zero[:9], step=0 * sample.step)
    assert [basis.name for basis in candidates(one, (20,), 100)] == ["constant"]


def test_random_features_differ_in_their_waves(sample):
    bases = [basis for basis in candidates(sample, (20, 20), 100, seed=3) if basis.is_smooth]
    observed = [basis.encode.seed for basis in bases if basis.view.name == OBSERVATION]
    assert observed == [3, 4, 5, 6, 7, 8, 9]
    assert [basis.encode.seed for basis in bases if basis.view.name == STEP] == [3, 4]


@pytest.mark.parametrize(
    ("values", "rows", "most", "exact"),
    [(2, 40, 1, True), (11, 40, 4, False), (10, 40, 4, True), (10, 36, 4, False),
     (9, 36, 4, True), (12, 40, 12, True), (13, 40, 12, False)],
)  # fmt: skip
def test_few_distinct_points_have_a_feature_each(values, rows, most, exact):
    """At most a quarter of the rows, or as many as other features."""
    x = np.arange(rows)[:, None] % values + 0.25
    view = View(OBSERVATION, x, x, x[:5])
    limit = max(most, min(400, 2000 // 3, rows // 4))
    distinct = module._distinct(view, limit)
    assert (distinct is not None) == exact
    if exact:
        assert distinct[:, 0].tolist() == sorted(set(x[:, 0]))


def test_points_that_are_reached_later_count_as_distinct():
    x = np.arange(20.0)[:, None] % 3
    assert module._distinct(View(OBSERVATION, x, x + 1, x), 3) is None
    assert len(module._distinct(View(OBSERVATION, x, x + 1, x), 4)) == 4
    assert module._distinct(View(OBSERVATION, 0 * x, 0 * x, 0 * x), 4) is None
    late = np.append(np.zeros(16), np.arange(4.0))[:, None]  # not within the first rows
    assert module._distinct(View(OBSERVATION, late, late, late), 3) is None
    assert len(module._distinct(View(OBSERVATION, late, late, late), 4)) == 4


def test_one_hot_features_of_other_points_are_0():
    values = np.array([[0.0, 1.0], [2.0, 0.0], [3.0, 1.0]])
    points = np.array([[3.0, 1.0], [0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [2.0, 0.0]])
    expected = [[1, 0, 0, 1], [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]]
    assert module._one_hot(values, points).tolist() == expected


@pytest.mark.parametrize(
    ("column", "kept"),
    [([0, 1, 2, 1], True), ([0, 1, 1, 0], False), ([0.5, 1, 2, 3], False), (range(40), True),
     (range(41), False), ([-1, 5, 9], True)],
)  # fmt: skip
def test_categories_are_three_to_forty_whole_numbers(column, kept):
    actual = module._categories(np.array(column, dtype=float))
    assert (actual is not None) == kept
    if kept:
        assert actual.tolist() == sorted(set(column))


def test_views_show_the_step_and_what_preceded_it(sample):
    """Each row by its definition; categories are one column per value."""
    rng = np.random.default_rng(0)
    ward = rng.integers(0, 3, len(sample.rewards)).astype(float)
    states = np.column_stack([sample.states[:, 0], ward])
    first = np.flatnonzero(sample.step == 0)
    one = replace(sample, states=states, next_states=states[::-1], starts=states[first])
    seen, clock, history = views(one)
    assert (seen.name, clock.name, history.name) == (OBSERVATION, STEP, HISTORY)
    assert np.array_equal(seen.before, states)

    def coded(x):
        return [x[0], *(float(x[1] == value) for value in range(3))]

    middle = np.median([coded(x) for x in states], axis=0)
    for row in range(len(states)):
        t, e = sample.step[row], sample.episode[row]
        now, after = coded(states[row]), coded(states[::-1][row])
        assert clock.before[row].tolist() == [*now, t]
        assert clock.after[row].tolist() == [*after, t + 1]
        begin = row - t
        so_far = sample.rewards[begin:row].sum()
        taken = np.eye(3)
        before = (
            [*middle, 0.0, 0.0, 0.0]
            if t == 0
            else [*coded(states[row - 1]), *taken[sample.actions[row - 1]]]
        )
        np.testing.assert_allclose(history.before[row], [*now, t, *before, so_far], atol=1e-12)
        later = [*after, t + 1, *now, *taken[sample.actions[row]], so_far + sample.rewards[row]]
        np.testing.assert_allclose(history.after[row], later, atol=1e-12)
        if t == 0:
            assert clock.start[e].tolist() == [*now, 0.0]
            assert history.start[e].tolist() == [*now, 0.0, *middle, 0.0, 0.0, 0.0, 0.0]


def test_single_decisions_have_one_view(sample):
    single = replace(sample, step=0 * sample.step)
    assert [view.name for view in views(single)] == [OBSERVATION]


def test_columns_that_are_not_used_are_named():
    rng = np.random.default_rng(0)
    x, ward = rng.normal(size=50), rng.integers(0, 2, 50)
    states = np.column_stack([x, np.full(50, 3.0), 2 * x + 1, ward == 0, ward == 1, ward == 1])

    class Few:
        pass

    few = Few()
    few.states = states
    names = ["hr", "unit", "bpm", "ward=a", "ward=b", "icu"]
    (finding,) = unused_columns(few, names)
    assert finding.code == "W176"
    assert finding.message == (
        "columns not used: 'unit' is constant, 'bpm' repeats 'hr', 'icu' repeats 'ward=a'."
    )
    few.states = states[:, [0, 3, 4]]
    assert unused_columns(few, ["hr", "ward=a", "ward=b"]) == []


def test_given_features_have_a_limit(sample):
    """With four actions 500 features are just few enough."""
    box = Fourier((-3.0, -3.0), (3.0, 3.0), order=1)

    class Sized:
        size = 667

    basis = given_basis(box, sample)
    assert (basis.name, basis.view.name) == ("given", GIVEN)
    expected = np.column_stack([np.ones(4), box(sample.states[:4])])
    assert np.array_equal(basis.before(np.arange(4)), expected)
    with pytest.raises(InvalidParameter, match=r"at most 2,000 .* these are 2,001\."):
        given_basis(Sized(), sample)
    four = replace(sample, next_pi={"new": np.full((len(sample.rewards), 4), 0.25)})
    Sized.size = 500
    assert given_basis(Sized(), four).name == "given"
    Sized.size = 501
    with pytest.raises(InvalidParameter, match="these are 2,004"):
        given_basis(Sized(), four)


def test_kinds_are_names_without_numbers(sample):
    view = next(views(sample))
    kinds = {
        name: Basis(name, view, None).kind[1]
        for name in ("random Fourier 200, bandwidth 1.8", "12 cells", "tiles 6x4", "linear")
    }
    assert list(kinds.values()) == ["random Fourier", "cells", "tiles", "linear"]
    assert Basis("linear", view, None).kind[0] == "Basis"


def test_weights_by_action_are_blocks(sample):
    theta = np.arange(30.0).reshape(5, 6)
    blocks = Basis("linear", next(views(sample)), None).by_action(theta, 3)
    assert blocks[1].tolist() == [[6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]
