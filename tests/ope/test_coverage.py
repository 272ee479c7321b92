"""Coverage of a target policy: effective rows, and the region with the least data."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import (
    CELLS,
    FOURIER,
    always,
    random_decisions,
    rare_dose_log,
    table_log,
    target,
)
from helpers.logs import mixed
from saddleback.features import Custom, OneHot, Tiles
from saddleback.ope import coverage as module
from saddleback.ope import evaluate_statistics
from saddleback.ope.coverage import (
    ActionCounts,
    Coverage,
    inverse_effective_rows,
    measure_coverage,
)
from saddleback.ope.partition import Column


def test_effective_rows_of_one_hot_features_are_visits():
    log = random_decisions(1, episodes=60)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.5, 0.5), features=OneHot(5), gamma=0.9)
    least, out = inverse_effective_rows(OneHot(5), sums, np.arange(5.0)[:, None], 2)
    visits = np.zeros((5, 2))
    np.add.at(visits, (log.data["obs_0"].astype(int), log.data["action"]), 1)
    np.testing.assert_allclose(1 / least[visits > 0], visits[visits > 0], rtol=1e-9)
    np.testing.assert_array_equal(out, visits == 0)


@pytest.mark.parametrize("shared", [False, True])
def test_effective_rows_equal_a_pseudoinverse(shared):
    data = mixed(0)
    log = sb.Log(data)
    sums = sb.Statistics.of(
        log, sb.GES(0.0), target, features=FOURIER, gamma=0.9, shared=shared
    )  # fmt: skip
    points = np.random.default_rng(1).uniform(-2, 2, size=(6, 2))
    least, out = inverse_effective_rows(FOURIER, sums, points, 3)
    inverse = np.linalg.pinv(sums.M, rcond=1e-11)
    for a in range(3):
        own = np.append(np.eye(3)[a], 1.0) if shared else np.eye(3)[a]
        phi = np.array([np.outer(x, own).ravel() for x in FOURIER(points)])
        expected = np.einsum("ni,ij,nj->n", phi, inverse, phi)
        np.testing.assert_allclose(least[:, a], expected, rtol=1e-6)
    assert not out.any()


def test_the_region_with_the_least_data_is_the_planted_one():
    log = rare_dose_log()
    result = sb.evaluate(log, always(0.2, 0.8), features=CELLS, gamma=0.0, methods=())
    weak = result.diagnoses[0].support
    assert weak.action == "high"
    _, name, sign, edge = weak.where.split()
    assert (name, sign) == ("lactate", ">")
    assert 5.5 <= float(edge) <= 12
    selected = (log.data["lactate"] > float(edge)) & (log.data["action"] == "high")
    assert weak.taken == selected.sum()
    share = 0.8 * (log.data["lactate"] > float(edge)).mean()
    assert weak.share == pytest.approx(share, rel=0.1)
    assert f"action 'high' where lactate > {edge}" in result.verdicts[0].weakest
    assert result.verdicts[0].trust != "usable"


def test_the_region_with_the_least_data_is_one_the_target_visits():
    """The high dose is as rare, but the target hardly gives it to the very sick either."""

    def careful(seen):
        high = np.where(seen[:, 0] > 6, 1e-4, 0.5)
        return np.column_stack([1 - high, high])

    result = sb.evaluate(rare_dose_log(), careful, features=CELLS, gamma=0.0, methods=())
    assert result.diagnoses[0].support.taken > 100
    assert result.diagnoses[0].support.coverage > 0.95


def test_coverage_equals_a_calculation_by_hand():
    """Action 0 ten times and action 1 nine times in state 0; action 0 alone in state 1."""
    states, actions = [0] * 20 + [1] * 20, [0] * 11 + [1] * 9 + [0] * 20
    log = table_log(states, actions, np.zeros(40), [1] * 40)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.3, 0.7), features=OneHot(2), gamma=0.9)
    sample = np.array(states, dtype=float)[:, None]
    pi = np.tile([0.3, 0.7], (40, 1))
    column = Column.of("obs_0", sample[:, 0])
    rows = ActionCounts(2, [column])
    for piece in log.segments():
        rows.add(piece)
    assert rows.taken[0].tolist() == [[11.0, 9.0], [20.0, 0.0]]
    measured = measure_coverage(OneHot(2), sums, (sample, pi), [column], rows.taken, ("a", "b"))
    assert measured.coverage == pytest.approx(0.3)  # 11 and 20 rows are enough, 9 and 0 are not
    assert measured.unvisited == pytest.approx(0.35)
    assert (measured.action, measured.where, measured.taken) == ("b", "where obs_0 = 1", 0)
    assert (
        measured.description
        == "action 'b' where obs_0 = 1 (0 rows; 35.0% of the target's decisions)"
    )


def test_coverage_by_statistics_is_that_of_features():
    """The same log: features of 11, 9, 20 and 0 rows, with 15, 35, 15 and 35% of the target."""
    states, actions = [0] * 20 + [1] * 20, [0] * 11 + [1] * 9 + [0] * 20
    log = table_log(states, actions, np.arange(40.0) % 3, [1] * 40)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.3, 0.7), features=OneHot(2), gamma=0.9)
    verdict = evaluate_statistics(sums, draws=0).diagnoses[0].verdict
    assert verdict.evidence.coverage == pytest.approx(0.3)
    assert verdict.evidence.unvisited == pytest.approx(0.35)
    assert verdict.weakest == "feature 3, active on 0 steps"


def test_predictions_outside_the_span_have_no_effective_rows():
    """Action 1 is taken at x = 5 only, so a line through its values is anyone's guess elsewhere."""
    x = np.tile([-2.0, 0.0, 5.0, 5.0], 100)
    data = {
        "episode_id": np.arange(400), "obs_0": x, "action": np.tile([0, 0, 0, 1], 100),
        "reward": x, "terminated": np.ones(400, bool), "truncated": np.zeros(400, bool),
        "behavior_prob": np.tile([1.0, 1.0, 0.5, 0.5], 100),
    }  # fmt: skip
    line = Custom(lambda seen: np.column_stack([np.ones(len(seen)), seen[:, 0]]), 2)
    log, half = sb.Log(data), always(0.5, 0.5)
    sums = sb.Statistics.of(log, sb.GES(0.0), half, features=line, gamma=0.0)
    least, out = inverse_effective_rows(line, sums, np.array([[5.0], [-2.0], [0.0]]), 2)
    np.testing.assert_allclose(out[:, 0], 0.0, atol=1e-9)
    assert out[0, 1] == pytest.approx(0.0, abs=1e-9)
    assert 1 / least[0, 1] == pytest.approx(100)
    assert (out[1:, 1] > 0.4).all()


@pytest.mark.slow
def test_columns_after_a_category_keep_their_names():
    rng, n = np.random.default_rng(0), 400
    data = {
        "ward": rng.choice(["er", "icu", "step-down"], n), "hr": rng.uniform(60.0, 140.0, n),
        "action": rng.integers(0, 2, n), "reward": rng.normal(size=n),
        "behavior_prob": np.full(n, 0.5),
    }  # fmt: skip
    log = sb.Log(data, observations=["ward", "hr"], bandit=True)
    parts = sb.evaluate(log, "always:1").as_dict()["verdicts"][0]["support"]["parts"]
    assert {part["column"] for part in parts} == {"ward=er", "ward=icu", "ward=step-down", "hr"}
    described = {part["where"] for part in parts if part["column"] == "ward=icu"}
    assert described == {"ward = icu", "ward ≠ icu"}
    ranges = " ".join(part["where"] for part in parts if part["column"] == "hr")
    assert min(map(float, re.findall(r"[0-9.]+", ranges))) > 60.0


def weakest_by_loops(at, pi, weak, taken, tables):
    """Return the worst region: every part, and every tail of parts, of each column and action.

    ``at`` is the part of each decision by column, [c][n]; ``tables`` are numbers of parts.
    """
    best = (-np.inf,)
    for k, parts in enumerate(tables):
        for above in (None, True, False):
            regions = {
                None: [{i} for i in range(parts)],
                True: [set(range(i, parts)) for i in range(1, parts)],
                False: [set(range(i + 1)) for i in range(parts - 1)],
            }[above]
            for region in regions:
                inside = [n for n in range(len(pi)) if at[k][n] in region]
                for a in range(pi.shape[1]):
                    mass = sum(pi[n, a] for n in inside)
                    if mass < 0.005 * pi.sum():
                        continue
                    score = (
                        sum(weak[n, a] for n in inside) / mass * (1 if above is None else 1.0001)
                    )
                    if score > best[0]:
                        count = sum(taken[k][i, a] for i in region)
                        part = min(region) if above in (None, True) else max(region)
                        best = (score, a, k, part, above, count, mass / pi.sum())
    return best[1:]


@pytest.mark.parametrize("seed", range(12))
def test_the_region_with_the_least_data_equals_that_of_a_search(seed):
    rng = np.random.default_rng(seed)
    observations = np.column_stack([rng.integers(0, 4, 30), rng.integers(0, 3, 30)]).astype(float)
    pi = rng.dirichlet([0.3, 1.0, 0.02], 30)
    weak = pi * rng.uniform(0.0, 1.0, (30, 3))
    if seed >= 6:  # ends of columns have least data, so that tails are preferred
        weak *= np.where(observations[:, :1] == 3 * (seed % 2), 1.0, 0.2)
    columns = [Column.of(name, observations[:, k]) for k, name in enumerate("xy")]
    sizes = [len(column.edges) + 1 for column in columns]
    taken = [rng.integers(0, 9, (size, 3)).astype(float) for size in sizes]
    actual = module._weakest(observations, pi, weak, columns, taken)
    at = [column.find(observations[:, k]) for k, column in enumerate(columns)]
    action, k, part, above, count, share = weakest_by_loops(at, pi, weak, taken, sizes)
    where = f"where {columns[k].describe(part, above)}"
    assert actual == (action, where, count, pytest.approx(share))


def test_a_region_is_named_from_half_a_percent_of_the_decisions():
    """One of 200 decisions has no data: it is just enough; one of 201 is not."""
    for n, where in ((200, "where x = 0"), (201, "where x = 1")):
        observations = (np.arange(n) > 0).astype(float)[:, None]
        pi, weak = np.ones((n, 1)), np.where(observations > 0, 0.5, 1.0)
        column = Column.of("x", observations[:, 0])
        actual = module._weakest(observations, pi, weak, [column], [np.array([[3.0], [7.0]])])
        assert actual[1] == where


def test_of_equal_regions_the_first_column_is_named():
    observations = np.arange(20.0)[:, None] % 4 * [1.0, 1.0]
    pi = np.ones((20, 1))
    weak = np.where(observations[:, :1] == 1.0, 1.0, 0.5)
    columns = [Column.of(name, observations[:, 0]) for name in "xy"]
    actual = module._weakest(observations, pi, weak, columns, [np.ones((4, 1))] * 2)
    assert actual == (0, "where x = 1", 1, 0.25)


def test_without_a_region_the_most_frequent_action_is_named():
    pi = np.array([[0.25, 0.5, 0.25], [0.0, 0.75, 0.25]])
    actual = module._weakest(np.zeros((2, 0)), pi, pi, [], [])
    assert actual == (1, "in all states", 0, 1.25 / 2)
    many = np.arange(300.0)[:, None] // 1.0
    pi = np.full((300, 3), 1 / 3)
    column = SimpleNamespace(
        edges=np.arange(299) + 0.5, find=lambda x: x.astype(int), describe=lambda *_: "here"
    )
    table = np.arange(900.0).reshape(300, 3)
    actual = module._weakest(many, pi, pi * 0.0 - np.inf, [column], [table])
    assert actual == (0, "in all states", table[:, 0].sum(), pytest.approx(1 / 3))


def test_coverage_along_columns_equals_that_of_loops():
    """Of columns beyond a dozen those with the least covered parts are kept, in their order."""
    rng = np.random.default_rng(0)
    n, names = 40, [f"c{k}" for k in range(14)]
    observations = rng.integers(0, 3, (n, 14)).astype(float)
    pi = rng.dirichlet([1.0, 1.0], n) * rng.uniform(0.5, 2.0, (n, 1))
    covered = pi * rng.uniform(0.0, 1.0, (n, 2))
    columns = [Column.of(name, observations[:, k]) for k, name in enumerate(names)]
    taken = [rng.integers(0, 9, (3, 2)).astype(float) for _ in names]
    parts = module._parts(observations, pi, covered, columns, taken)
    expected, least = [], []
    for k, name in enumerate(names):
        own = []
        for value in range(3):
            inside = observations[:, k] == value
            share = pi[inside].sum() / pi.sum()
            own.append(
                (name, f"{name} = {value}", share, covered[inside].sum() / pi[inside].sum(),
                 taken[k][value].sum())
            )  # fmt: skip
        least.append(min(one[3] for one in own))
        expected.append(own)
    kept = sorted(np.argsort(least)[:12])
    rows = [one for k in kept for one in expected[k]]
    assert [(one.column, one.where, one.rows) for one in parts] == [
        (name, where, rows) for name, where, _, _, rows in rows
    ]
    np.testing.assert_allclose(
        [(one.share, one.coverage) for one in parts], [one[2:4] for one in rows]
    )
    unseen = [replace_column(columns[0], 5)]
    assert len(module._parts(observations, pi, covered, unseen, [np.zeros((6, 2))])) == 3


def replace_column(column, more):
    """Return the column with parts above all values."""
    return SimpleNamespace(
        name=column.name, edges=np.append(column.edges, np.arange(3.0, 3.0 + more - 2)),
        find=column.find, describe=lambda *_: "",
    )  # fmt: skip


def test_coverage_equals_a_sum_over_decisions(monkeypatch):
    """Decisions of 9 and 11 effective rows, and partly outside the span of the features."""
    rng = np.random.default_rng(1)
    inverse = rng.choice([1 / 11, 1 / 10, 1 / 9, 1 / 500, 2.0], (20, 2))
    outside = rng.choice([0.0, 0.25, 1.0], (20, 2))
    pi = rng.dirichlet([1.0, 2.0], 20)
    monkeypatch.setattr(module, "inverse_effective_rows", lambda *_: (inverse, outside))
    x = rng.integers(0, 2, (20, 1)).astype(float)
    measured = measure_coverage(
        None, None, (x, pi), [Column.of("x", x[:, 0])], [np.zeros((2, 2))], ("a", "b")
    )
    pairs = [(pi[n, a], inverse[n, a], outside[n, a]) for n in range(20) for a in range(2)]
    total = sum(p for p, _, _ in pairs)
    covered = sum(p * (1 - out) for p, one, out in pairs if 1 / one > 9.5)
    weak = sum(p * min(one + out, 1.0) for p, one, out in pairs)
    assert measured.coverage == pytest.approx(covered / total)
    assert measured.unvisited == pytest.approx(sum(p * out for p, _, out in pairs) / total)
    assert measured.rows == pytest.approx(total / weak)
    none = np.zeros((20, 2))
    monkeypatch.setattr(module, "inverse_effective_rows", lambda *_: (none, none))
    complete = measure_coverage(None, None, (x, pi), [], [], ("a", "b"))
    assert (complete.coverage, complete.unvisited, complete.rows) == (1.0, 0.0, 1e12)


@pytest.mark.parametrize("size", [4, 5, 9])
def test_a_quadratic_form_of_sparse_rows_is_that_of_dense_ones(size):
    """Two active entries: up to four features are dense, more are picked."""
    rng = np.random.default_rng(size)
    matrix, at = rng.normal(size=(size, size)), np.array([[0, 3], [2, 1], [1, 3]])
    value = rng.normal(size=(3, 2))
    dense = np.zeros((3, size))
    for n in range(3):
        dense[n, at[n]] = value[n]
    expected = [row @ matrix @ row for row in dense]
    np.testing.assert_allclose(module._quadratic(matrix, at, value), expected)


def four_points():
    """Action 0 was taken at −2 and 0, action 1 at 5 and 3, 25 times each."""
    x = np.tile([-2.0, 0.0, 5.0, 3.0], 25)
    return {
        "episode_id": np.arange(100), "obs_0": x, "action": np.tile([0, 0, 1, 1], 25),
        "reward": x, "terminated": np.ones(100, bool), "truncated": np.zeros(100, bool),
        "behavior_prob": np.full(100, 0.5),
    }  # fmt: skip


@pytest.mark.parametrize(
    "features",
    [
        Tiles((-2.0,), (5.0,), bins=8, tilings=8, table=3),
        Custom(lambda seen: (seen > np.array([-3.0, 1.0, 4.0])) * (seen + 3.0), 3),
    ],
    ids=["collisions", "zeros"],
)
def test_effective_rows_count_a_repeated_index_each_time(features):
    """Hashed tiles collide, and rows with fewer nonzero features are filled up with zeros."""
    data = four_points()
    log, half = sb.Log(data), always(0.5, 0.5)
    sums = sb.Statistics.of(log, sb.GES(0.0), half, features=features, gamma=0.0)
    points = np.array([[0.0], [5.0], [3.0], [-2.0]])
    least, _ = inverse_effective_rows(features, sums, points, 2)

    def dense(seen):
        values = features(seen)  # of tiles, the active ones
        if isinstance(features, Tiles):
            return np.array([np.bincount(active, minlength=3) for active in values])
        return values

    for a in (0, 1):
        seen = data["obs_0"][data["action"] == a]
        own = dense(seen[:, None])
        inverse = np.linalg.pinv(own.T @ own, rcond=1e-10)
        logged = np.isin(points[:, 0], seen)  # others are outside the span
        phi = dense(points[logged])
        expected = np.einsum("ni,ij,nj->n", phi, inverse, phi)
        np.testing.assert_allclose(least[logged, a], expected, rtol=1e-6)
        assert (expected > 0).all()


@pytest.mark.parametrize(("scale", "intercept"), [(1.0, 1.0), (0.01, 1.0), (0.01, 0.0)])
def test_the_share_outside_the_span_is_that_of_scaled_features(scale, intercept):
    """Features in multiples of their root mean square, of which some are never active."""
    data = four_points()

    def functions(seen):
        x = seen[:, 0]
        return scale * np.column_stack(
            [np.full(len(x), intercept), x, 3 * x + 2 * intercept, x == 7, 0.25 * x**2]
        )

    features = Custom(functions, 5)
    sums = sb.Statistics.of(
        sb.Log(data), sb.GES(0.0), always(0.5, 0.5), features=features, gamma=0.0
    )
    points = np.array([[1.0], [7.0], [-2.0], [4.0], [0.125]])
    _, outside = inverse_effective_rows(features, sums, points, 2)
    for a, logged in enumerate(([-2.0, 0.0], [5.0, 3.0])):
        active = functions(np.array(logged)[:, None])
        mean_square = (active**2).mean(axis=0)
        for n, phi in enumerate(functions(points)):
            never = (phi**2)[mean_square == 0].sum() / (phi**2).sum()
            some = mean_square > 0
            scaled, rows = (part[..., some] / np.sqrt(mean_square[some]) for part in (phi, active))
            nearest = rows.T @ np.linalg.lstsq(rows.T, scaled, rcond=1e-10)[0]
            off = ((scaled - nearest) ** 2).sum() / (scaled**2).sum()
            expected = never + (1 - never) * off
            assert outside[n, a] == pytest.approx(expected, abs=1e-6)
    assert 0 < outside[1, 0] < 1


def test_actions_are_counted_in_every_segment():
    states, actions = np.array([0, 1, 1, 2, 0, 2, 2]), np.array([0, 1, 1, 0, 1, 1, 1])
    log = table_log(states, actions, np.zeros(7), [3, 4]).with_options(segment=2)
    column = Column.of("obs_0", states.astype(float))
    rows, none = ActionCounts(2, [column]), ActionCounts(2, [])
    for piece in log.segments():
        rows.add(piece)
        none.add(piece)
    expected = np.zeros((3, 2))
    np.add.at(expected, (states, actions), 1)
    assert np.array_equal(rows.taken[0], expected)
    assert none.taken == []


def test_regions_are_described_with_their_rows():
    def described(action, taken):
        return Coverage(1.0, 0.0, 9.0, action, "where x > 2", taken, 0.125, ()).description

    assert described("b", 1) == (
        "action 'b' where x > 2 (1 row; 12.5% of the target's decisions)"
    )  # fmt: skip
    assert described("", 1234) == (
        "decisions where x > 2 (1,234 rows; 12.5% of the target's decisions)"
    )  # fmt: skip
