"""What a verdict looks at: cells, coverage, spectra, gaps, propensities, how episodes end."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import saddleback as sb
from helpers.logs import columns, mixed
from saddleback.evaluation.log_counts import PolicyCounts
from saddleback.evaluation.lstd_solve import Range
from saddleback.evaluation.sandwich import interval_from_blocks, interval_from_scores, sandwich
from saddleback.evaluation.scoring_pass import score_episodes
from saddleback.evaluation.statistics_io import load_statistics, save_statistics
from saddleback.features import Custom, Fourier, Given, OneHot
from saddleback.log import Observed, as_target
from saddleback.verdict import Baseline
from saddleback.verdict.approximation_gap import Gap, ResidualProblem, unvisited_gap
from saddleback.verdict.calibration import behaviour_deviation, ratio_deviation
from saddleback.verdict.coverage import inverse_effective_rows, measure_coverage
from saddleback.verdict.partition import SAMPLE_SIZE, Cells, Column, StridedSample, sample_states
from saddleback.verdict.policy_summary import ActionCounts, PolicySummary
from saddleback.verdict.spectrum import Spectrum
from saddleback.verdict.spectrum import spectrum as start_spectrum

FOURIER = Fourier((-3.0, -3.0), (3.0, 3.0), order=1)


def target(observations):
    """A policy of three actions that depends on what is observed."""
    z = np.column_stack([observations[:, 0], -observations[:, 1], np.zeros(len(observations))])
    pi = np.exp(z)
    return pi / pi.sum(axis=1, keepdims=True)


def always(*pi):
    """Return the policy that does not look."""
    return lambda seen: np.tile(pi, (len(seen), 1))


def table_log(states, actions, rewards, lengths, *, ends="terminated", mu=None, seed=0, K=2):
    """Return a log of finitely many states, from decisions in a row and lengths of episodes."""
    n, last = len(states), np.cumsum(lengths) - 1
    over = np.isin(np.arange(n), last)
    found = {
        "episode_id": np.repeat(np.arange(len(lengths)), lengths),
        "obs_0": np.asarray(states, dtype=float), "action": actions,
        "reward": np.asarray(rewards, dtype=float),
        "terminated": over & (ends == "terminated"), "truncated": over & (ends == "truncated"),
    }  # fmt: skip
    if ends == "truncated":
        there = np.random.default_rng(seed).integers(0, int(np.max(states)) + 1, n)
        found["next_obs_0"] = np.where(over, there, np.nan)
    found["behavior_prob"] = np.full(n, 1.0 / K) if mu is None else mu
    return sb.Log(found, actions=[str(a) for a in range(K)])


def decisions(seed, *, states=5, K=2, episodes=40, **options):
    """Return a log of random decisions in finitely many states, all of them met."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, episodes)
    n = int(lengths.sum())
    return table_log(
        np.append(np.arange(states), rng.integers(0, states, n - states)),
        rng.integers(0, K, n), rng.normal(size=n), lengths, K=K, **options,
    )  # fmt: skip


# Cells.

TABLES = arrays(
    np.float64, st.tuples(st.integers(1, 60), st.integers(1, 3)),
    elements=st.one_of(st.sampled_from([0.0, 1.0, 0.1, -2.5]), st.floats(-1e3, 1e3)),
)  # fmt: skip


def walked(cells, point):
    """Follow the cuts by hand: which cell, and the box of it."""
    node, low, high = 0, np.full(len(point), -np.inf), np.full(len(point), np.inf)
    while cells.below[node] >= 0:
        k, cut = cells.column[node], cells.cut[node]
        if point[k] > cut:
            low[k], node = max(low[k], cut), cells.above[node]
        else:
            high[k], node = min(high[k], cut), cells.below[node]
    return cells.leaf[node], low, high


@given(TABLES, st.integers(1, 20))
@settings(deadline=None)
def test_every_observation_falls_into_exactly_one_cell(sample, most):
    cells = Cells.of(sample, most)
    assert 1 <= cells.size <= most
    found = cells.find(sample)
    boxes = {}
    for row, cell in zip(sample, found, strict=True):
        mine, low, high = walked(cells, row)
        assert mine == cell
        boxes[cell] = (low, high)
    for row, cell in zip(sample, found, strict=True):
        inside = [c for c, (low, high) in boxes.items() if ((low < row) & (row <= high)).all()]
        assert inside == [cell]


@given(TABLES, st.integers(1, 20))
@settings(deadline=None)
def test_every_cell_holds_some_of_the_sample(sample, most):
    cells = Cells.of(sample, most)
    held = np.bincount(cells.find(sample), minlength=cells.size)
    assert held.min() > 0
    assert cells.size == min(most, len(np.unique(sample, axis=0)))


def test_cells_are_about_equally_full():
    sample = np.random.default_rng(0).normal(size=(4096, 3)) * [1.0, 100.0, 1e-3]
    held = np.bincount(Cells.of(sample, 64).find(sample))
    assert held.tolist() == [64] * 64


@pytest.mark.parametrize("constant", [0.1, 1.0, 98.6, -1e9 / 3])
def test_a_column_that_never_varies_does_not_stop_others_from_being_cut(constant):
    rng = np.random.default_rng(0)
    sample = np.column_stack([rng.normal(size=1000), np.full(1000, constant)])
    cells = Cells.of(sample, 16)
    assert cells.size == 16
    assert not cells.column[cells.below >= 0].any()


def test_cells_are_features():
    sample = np.arange(32.0)[:, None]
    cells = Cells.of(sample, 8)
    which, size = cells.encode(sample)
    assert size is None
    assert which[:, 0].tolist() == np.repeat(np.arange(8), 4).tolist()
    beyond = cells.find(np.array([[-1e9], [1e9]]))
    assert beyond.tolist() == [0, 7]


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 24))
@settings(deadline=None)
def test_what_is_kept_does_not_depend_on_the_pieces(lengths, most):
    rows = np.arange(sum(lengths), dtype=float)[:, None]
    parts, whole = StridedSample(most=2 * most), StridedSample(most=2 * most)
    for part in np.split(rows, np.cumsum(lengths)[:-1]) if lengths else []:
        parts.add(part, -part)
    whole.add(rows, -rows)
    if lengths:
        np.testing.assert_array_equal(parts.rows[0], whole.rows[0])
    kept = whole.rows[0][:, 0]
    np.testing.assert_array_equal(whole.rows[1][:, 0], -kept)
    assert min(len(rows), most) <= len(kept) <= 2 * most
    assert len(set(np.diff(kept))) <= 1


def test_states_are_sampled_evenly_whatever_the_pieces():
    log = sb.Log(columns([9000, 3, 20_000], "terminated", actions=2))
    one, two = sample_states(log)[0], sample_states(log.but(segment=777))[0]
    np.testing.assert_array_equal(one, two)
    assert SAMPLE_SIZE <= len(one) <= 2 * SAMPLE_SIZE
    seen = np.column_stack([log.data["obs_0"], log.data["obs_1"]])
    np.testing.assert_array_equal(one, seen[::4])


# Columns in words.


@pytest.mark.parametrize(
    ("sample", "part", "above", "description"),
    [
        ([1, 2, 5], 1, None, "x = 2"),
        ([1, 2, 5], 1, True, "x ≥ 2"),
        ([1, 2, 5], 1, False, "x ≤ 2"),
        ([0, 1], 1, True, "x = 1"),
        ([0, 1], 0, False, "x = 0"),
        ([3.5], 0, None, "x = 3.5"),
        (np.arange(161), 0, None, "x ≤ 10"),
        (np.arange(161), 5, None, "50 < x ≤ 60"),
        (np.arange(161), 15, None, "150 < x"),
        (np.arange(161), 15, True, "x > 150"),
        (np.arange(161), 3, False, "x ≤ 40"),
    ],
)
def test_regions_are_named(sample, part, above, description):
    assert Column.of("x", np.array(sample, dtype=float)).describe(part, above) == description


@given(arrays(np.float64, st.integers(1, 80), elements=st.floats(-1e4, 1e4)))
@settings(deadline=None)
def test_words_are_true_of_what_lies_in_a_part(sample):
    column = Column.of("x", sample)
    found = column.find(sample)
    assert found.min() >= 0
    assert found.max() <= len(column.edges)
    for part in np.unique(found):
        mine = sample[found == part]
        if column.values is not None:
            assert (mine == column.values[part]).all()
            continue
        low = column.edges[part - 1] if part else -np.inf
        high = column.edges[part] if part < len(column.edges) else np.inf
        assert ((low < mine) & (mine <= high)).all()


# Coverage.


def test_rows_behind_a_prediction_are_visits():
    log = decisions(1, episodes=60)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.5, 0.5), features=OneHot(5), gamma=0.9)
    least, out = inverse_effective_rows(OneHot(5), sums, np.arange(5.0)[:, None], 2)
    visits = np.zeros((5, 2))
    np.add.at(visits, (log.data["obs_0"].astype(int), log.data["action"]), 1)
    np.testing.assert_allclose(1 / least[visits > 0], visits[visits > 0], rtol=1e-9)
    np.testing.assert_array_equal(out, visits == 0)


@pytest.mark.parametrize("shared", [False, True])
def test_rows_behind_a_prediction_against_a_pseudoinverse(shared):
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


def planted(seed=0, n=4000, rare=0.003):
    """Return a log of patients where the high dose is rare if lactate is over 6."""
    rng = np.random.default_rng(seed)
    lactate, age = rng.gamma(3.0, 1.5, n).round(1), rng.uniform(20, 90, n).round()
    high = np.where(lactate > 6, rare, 0.5)
    dose = rng.random(n) < high
    data = {
        "episode_id": np.arange(n), "lactate": lactate, "age": age,
        "action": np.where(dose, "high", "low"), "reward": dose * lactate - age / 50,
        "terminated": np.ones(n, bool), "truncated": np.zeros(n, bool),
        "behavior_prob": np.where(dose, high, 1 - high),
    }  # fmt: skip
    return sb.Log(data, observations=["lactate", "age"], actions=["low", "high"])


CELLS = Custom(lambda x: np.eye(24)[np.clip(x[:, 0], 0, 11.9).astype(int) * 2 + (x[:, 1] > 60)], 24)


def test_the_weakest_region_is_the_one_planted():
    log = planted()
    found = sb.evaluate(log, always(0.2, 0.8), features=CELLS, gamma=0.0, methods=())
    weak = found.diagnoses[0].support
    assert weak.action == "high"
    _, name, sign, edge = weak.where.split()
    assert (name, sign) == ("lactate", ">")
    assert 5.5 <= float(edge) <= 12
    mine = (log.data["lactate"] > float(edge)) & (log.data["action"] == "high")
    assert weak.taken == mine.sum()
    share = 0.8 * (log.data["lactate"] > float(edge)).mean()
    assert weak.share == pytest.approx(share, rel=0.1)
    assert f"action 'high' where lactate > {edge}" in found.verdicts[0].weakest
    assert "COVERAGE" in {each.code for each in found.verdicts[0].failed}


def test_the_weakest_region_is_not_where_the_target_does_not_go():
    """The high dose is as rare, but the target hardly gives it to the very sick either."""

    def careful(seen):
        high = np.where(seen[:, 0] > 6, 1e-4, 0.5)
        return np.column_stack([1 - high, high])

    found = sb.evaluate(planted(), careful, features=CELLS, gamma=0.0, methods=())
    assert found.diagnoses[0].support.taken > 100
    assert found.diagnoses[0].support.coverage > 0.95


def test_coverage_of_a_log_made_by_hand():
    """Action 0 ten times and action 1 nine times in state 0; action 0 alone in state 1."""
    states, actions = [0] * 20 + [1] * 20, [0] * 11 + [1] * 9 + [0] * 20
    log = table_log(states, actions, np.zeros(40), [1] * 40)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.3, 0.7), features=OneHot(2), gamma=0.9)
    sample = np.array(states, dtype=float)[:, None]
    pi = np.tile([0.3, 0.7], (40, 1))
    column = Column.of("obs_0", sample[:, 0])
    rows = ActionCounts(2, [column])
    for piece in log.pieces():
        rows.add(piece)
    assert rows.taken[0].tolist() == [[11.0, 9.0], [20.0, 0.0]]
    found = measure_coverage(OneHot(2), sums, (sample, pi), [column], rows.taken, ("a", "b"))
    assert found.coverage == pytest.approx(0.3)  # 11 and 20 rows are enough, 9 and 0 are not
    assert found.unvisited == pytest.approx(0.35)
    assert (found.action, found.where, found.taken) == ("b", "where obs_0 = 1", 0)
    assert (
        found.description == "action 'b' where obs_0 = 1 (0 rows; 35.0% of the target's decisions)"
    )


def test_what_lies_outside_the_span_rests_on_nothing():
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


# Spectra.


def spectrum(*of, threads=1, **options):
    """Find a spectrum, and wait for it."""
    with ThreadPoolExecutor(threads) as pool:
        return start_spectrum(*of, pool, **options)()


def doubled(observations):
    """1 in the first state, 2 in the second."""
    return 1.0 + observations[:, :1]


@pytest.mark.parametrize(
    ("next_obs", "word"), [(0.0, "stable"), (1.0, "unstable"), (None, "undecidable")]
)
def test_stability_of_logs_made_by_hand(next_obs, word):
    """From φ = 1 to φ' = 1 contracts, to φ' = 2 does not; now and then to 2 is unclear."""
    rng = np.random.default_rng(0)
    n = 60
    after = np.full(n, next_obs) if next_obs is not None else (rng.random(n) < 1 / 9).astype(float)
    data = {
        "episode_id": np.arange(n), "obs_0": np.zeros(n), "action": np.zeros(n, int),
        "reward": rng.normal(size=n), "terminated": np.zeros(n, bool),
        "truncated": np.ones(n, bool), "next_obs_0": after, "behavior_prob": np.ones(n),
    }  # fmt: skip
    log = sb.Log(data)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(1.0), features=Custom(doubled, 1), gamma=0.9)
    found = spectrum(sums, sb.GES(0.0), sums.setting.targets[0], ridge=0.0, draws=200)
    assert found.outcome == word
    assert found.values[0].real == pytest.approx(0.9 * (1 + after.mean()) - 1)


@pytest.mark.parametrize("rule", [sb.GES(0.5), sb.GRetrace(0.9), sb.GTB(0.3)], ids=str)
def test_eigenvalues_are_those_of_the_system(rule):
    sums = sb.Statistics.of(sb.Log(mixed(0)), rule, target, features=FOURIER, gamma=0.9)
    found = spectrum(sums, rule, sums.setting.targets[0], ridge=0.0, draws=20)
    expected = np.linalg.eigvals(sums.system(rule).A)
    expected = expected[np.argsort(-expected.real)]
    np.testing.assert_allclose(found.values.real, expected.real, rtol=1e-6, atol=1e-12)
    assert (np.diff(found.cloud.real, axis=1) <= 1e-15).all()


def test_draws_are_those_of_blocks_drawn_by_hand():
    log = decisions(0, episodes=100)
    rule = sb.GES(0.5)
    sums = sb.Statistics.of(log, rule, always(0.3, 0.7), features=OneHot(5), gamma=0.9)
    name = sums.setting.targets[0]
    found = spectrum(sums, rule, name, ridge=0.0, draws=100, rng=7)
    generator = np.random.default_rng(7)
    for k in range(20):
        weight = np.bincount(generator.choice(20, 20), minlength=20)
        A, b = (np.tensordot(weight, each[0, 0], axes=1) for each in (sums.A, sums.b))
        start = weight @ sums.starts[0] / (weight @ sums.episodes)
        assert found.drawn[k] == pytest.approx(np.linalg.solve(A, -b) @ start, rel=1e-3)
        lead = np.linalg.eigvals(A / (weight @ sums.steps)).real.max()
        assert found.cloud[k, 0].real == pytest.approx(lead, rel=1e-9)
    assert found.values[0].real == pytest.approx(np.median(found.cloud[:, 0].real), rel=0.2)


def test_spectra_do_not_depend_on_threads():
    sums = sb.Statistics.of(sb.Log(mixed(0)), sb.GES(0.5), target, features=FOURIER, gamma=0.9)
    one, two = (
        spectrum(sums, sb.GES(0.5), sums.setting.targets[0], ridge=0.0, draws=30, threads=threads)
        for threads in (1, 3)
    )
    for name in ("values", "cloud", "drawn"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_features_that_say_the_same_do_not_make_a_spectrum_undecidable():
    """A constant beside a full set adds the eigenvalue 0, which does not count."""
    log = decisions(0, episodes=200)
    X = np.column_stack([np.eye(5), np.ones(5)])
    twice = Custom(lambda seen: X[seen[:, 0].astype(int)], 6)
    description = []
    for features in (OneHot(5), twice):
        sums = sb.Statistics.of(log, sb.GES(0.0), always(0.5, 0.5), features=features, gamma=0.9)
        description.append(
            spectrum(sums, sb.GES(0.0), sums.setting.targets[0], ridge=0.0, draws=40).outcome
        )
    assert description == ["stable", "stable"]


def test_a_spectrum_is_plain_data():
    cloud = np.array([[-1.0 + 2j, -3.0], [0.5, -1.0]])
    found = Spectrum(np.array([-1.0 + 0j]), cloud, np.array([1.0, 2.0]))
    plain = found.as_dict()
    assert plain["outcome"] == "undecidable"
    assert (plain["stable"], plain["draws"]) == (1, 2)
    assert plain["cloud"][0] == [[-1.0, 2.0], [-3.0, 0.0]]


@pytest.mark.parametrize(
    ("here", "drawn", "word"),
    [
        (-1.0, [-1.0] * 40, "stable"),
        (-1.0, [-1.0] * 39 + [0.1], "stable"),
        (-1.0, [-1.0] * 38 + [0.1] * 2, "undecidable"),
        (0.1, [-1.0] * 40, "undecidable"),
        (0.1, [0.1] * 40, "unstable"),
        (0.1, [0.1] * 38 + [-1.0] * 2, "undecidable"),
        (-1.0, [0.1] * 40, "undecidable"),
    ],
)
def test_sample_and_draws_must_agree(here, drawn, word):
    cloud = np.array(drawn, dtype=complex)[:, None]
    found = Spectrum(np.array([here + 0j]), cloud, np.zeros(len(drawn)))
    assert found.outcome == word


@pytest.mark.parametrize("draws", [5, 19])
def test_too_few_draws_are_refused(draws):
    sums = sb.Statistics.of(
        decisions(0), sb.GES(0.0), always(0.5, 0.5), features=OneHot(5), gamma=0.9
    )
    with pytest.raises(sb.errors.InvalidParameter, match=f"{draws} draws are too few.*at least 20"):
        spectrum(sums, sb.GES(0.0), sums.setting.targets[0], ridge=0.0, draws=draws)


# What features miss.


def test_unmet_features_are_worth_what_the_others_are():
    """Brute force: set Q of what was never taken to the mean of the others, and solve again."""
    states, actions = [0, 1, 2, 0, 1, 2, 0, 1], [0, 0, 1, 1, 0, 1, 0, 0]
    rewards = [1.0, 2.0, 3.0, -1.0, 0.5, 2.0, 4.0, 1.0]
    log = table_log(states, actions, rewards, [3, 3, 2])
    rule, pi, gamma = sb.GES(0.0), np.array([0.4, 0.6]), 0.9
    sums = sb.Statistics.of(log, rule, always(*pi), features=OneHot(3), gamma=gamma)
    name = sums.setting.targets[0]
    theta = sums.solve(rule, name).theta

    def q(fill):
        """Solve for Q by the mean of what followed each pair, with others filled in."""
        taken = {}
        for t, (s, a) in enumerate(zip(states, actions, strict=True)):
            over = t in (2, 5, 7)
            taken.setdefault((s, a), []).append((rewards[t], None if over else states[t + 1]))
        A, b = np.eye(6), np.zeros(6)
        for s in range(3):
            for a in range(2):
                k = 2 * s + a
                if (s, a) not in taken:
                    b[k] = fill.get((s, a), 0.0)
                    continue
                for reward, after in taken[s, a]:
                    b[k] += reward / len(taken[s, a])
                    if after is not None:
                        A[k, 2 * after : 2 * after + 2] -= gamma * pi / len(taken[s, a])
        return np.linalg.solve(A, b)

    plain = q({})
    np.testing.assert_allclose(theta, plain, atol=1e-10)
    start = np.mean([np.outer(np.eye(3)[s], pi).ravel() for s in (0, 0, 0)], axis=0)
    filled = q({(1, 1): plain[2], (2, 0): plain[5]})
    expected = abs((filled - plain) @ start)
    assert expected > 0.1
    assert unvisited_gap(sums, rule, name, theta, 0.0) == pytest.approx(expected, rel=1e-9)


def test_nothing_is_unmet_where_all_features_were_active():
    log = decisions(0, episodes=100)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.5, 0.5), features=OneHot(5), gamma=0.9)
    theta = sums.solve(sb.GES(0.0), 0).theta
    assert unvisited_gap(sums, sb.GES(0.0), sums.setting.targets[0], theta, 0.0) == 0.0


def test_a_gap_is_the_largest_of_its_parts():
    assert Gap().value == 0.0
    assert Gap(unvisited=0.5, residual=None, self_check=2.0, agreement=1.0).value == 2.0
    assert Gap(residual=3.0).parts == {
        "unvisited": None, "residual": 3.0, "trace": None, "self_check": None, "agreement": None,
        "allowance": None,
    }  # fmt: skip


def residual_of(log, policy, features, gamma, rule, most=64, segment=None):
    """Return V̂ and the residual problem's value, as diagnosing does."""
    if segment is not None:
        log = log.but(segment=segment)
    sums = sb.Statistics.of(log, rule, policy, features=features, gamma=gamma)
    cells = Cells.of(sample_states(log)[0], most)
    found = ResidualProblem(cells, log.n_actions, gamma)
    (scored,) = score_episodes(
        log, sums, [as_target(policy, log, sums.setting.targets[0])], features=features, rule=rule,
        ridge=0.0, on_piece=lambda piece, k, pi, deltas: found.add(piece, pi, deltas),
    )  # fmt: skip
    return scored.value, found.value()


@pytest.mark.parametrize("seed", range(4))
def test_the_residual_finds_what_poor_features_miss(seed):
    """With a cell for each state, V̂ and the value of its TD errors add up to V^π."""
    problem = sb.problems.random_mdp(0.9, rng=seed, off_policy=0.5, termination=0.2)
    truth = float(problem.mdp.start @ (problem.target * problem.mdp.q(problem.target)).sum(axis=1))
    poor = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    log = sb.collect(problem, episodes=3000, rng=seed)
    value, gap = residual_of(log, problem.target, poor, 0.9, sb.GES(0.0))
    exact = sb.Statistics.of(log, sb.GES(0.0), problem.target, features=OneHot(6), gamma=0.9)
    assert abs(value + gap - truth) < 4 * interval_from_blocks(exact).error


def test_there_is_nothing_left_of_features_that_are_exact():
    log = decisions(2, episodes=300)
    _, gap = residual_of(log, always(0.3, 0.7), OneHot(5), 0.9, sb.GES(0.0))
    assert abs(gap) < 1e-6


@pytest.mark.kernel
def test_the_residual_does_not_depend_on_pieces():
    log = sb.Log(mixed(3))
    one, two = (
        residual_of(log, target, FOURIER, 0.9, sb.GRetrace(0.5), most=8, segment=segment)
        for segment in (1 << 16, 3)
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)


# Propensities.


def bandit(seed, n, mu, *, whole):
    """Return a log of decisions that do not depend on anything, with the right propensities."""
    rng = np.random.default_rng(seed)
    K = len(mu)
    action = rng.choice(K, p=mu, size=n)
    data = {
        "episode_id": np.arange(n), "obs_0": rng.normal(size=n), "action": action,
        "reward": rng.normal(size=n), "terminated": np.ones(n, bool),
        "truncated": np.zeros(n, bool), "behavior_prob": np.asarray(mu)[action],
    }  # fmt: skip
    if whole:
        data |= {f"mu_{a}": np.full(n, mu[a]) for a in range(K)}
    return sb.Log(data, actions=[str(a) for a in range(K)])


def gate(log, pi, code="PROPENSITIES"):
    """Return one gate of an evaluation with a constant and the observation as features."""
    line = Custom(lambda seen: np.column_stack([np.ones(len(seen)), seen]), 2)
    found = sb.evaluate(
        log,
        always(*pi),
        features=line,
        gamma=0.0,
        rule=sb.GES(0.0),
        methods=(),
        allow_uncovered=True,
    )
    return next(each for each in found.verdicts[0].gates if each.code == code)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("mu", "pi"),
    [
        ([0.5, 0.5], [0.2, 0.8]),
        ([0.2, 0.3, 0.5], [0.6, 0.2, 0.2]),
        ([0.97, 0.02, 0.01], [0.9, 0.05, 0.05]),
        ([0.995, 0.003, 0.002], [0.98, 0.01, 0.01]),
    ],
    ids=["even", "three", "rare", "rarer"],
)
def test_right_propensities_pass(mu, pi, whole):
    levels = [gate(bandit(seed, 600, mu, whole=whole), pi).level for seed in range(20)]
    assert levels.count("usable") >= 19


@pytest.mark.parametrize("whole", [True, False])
def test_propensities_of_another_policy_are_caught(whole):
    for seed in range(5):
        log = bandit(seed, 1000, [0.5, 0.3, 0.2], whole=whole)
        data = dict(log.data)
        data["behavior_prob"] = np.array([0.2, 0.3, 0.5])[data["action"]]
        if whole:
            data |= {f"mu_{a}": np.full(1000, p) for a, p in enumerate([0.2, 0.3, 0.5])}
        assert not gate(sb.Log(data), [0.3, 0.3, 0.4]).passed


def test_propensities_of_the_wrong_rows_are_caught():
    """Also where all of μ is logged and right: the propensity of the action is what is used."""
    for whole in (True, False):
        log = bandit(0, 1000, [0.7, 0.2, 0.1], whole=whole)
        data = log.data | {"behavior_prob": np.roll(log.data["behavior_prob"], 1)}
        assert not gate(sb.Log(data), [0.3, 0.3, 0.4]).passed


@pytest.mark.parametrize("whole", [True, False])
def test_a_log_that_leaves_no_choice_is_refused_for_that_and_not_for_its_propensities(whole):
    n = 500
    log = bandit(0, n, [0.5, 0.5], whole=False)
    sure = (log.data["obs_0"] > 0).astype(int)
    data = log.data | {"action": sure, "behavior_prob": np.ones(n)}
    if whole:
        data |= {"mu_0": 1.0 - sure, "mu_1": sure.astype(float)}
    log = sb.Log(data, actions=["0", "1"])
    assert gate(log, [0.4, 0.6]).level == "usable"
    found = gate(log, [0.4, 0.6], "SUPPORT")
    assert found.level == "refused"
    assert found.value == pytest.approx(np.where(sure, 0.4, 0.6).mean())


def test_calibration_by_hand():
    """Two cells: 3 of 4 rows against 0.5, and 1 of 2; with all of μ, and with ratios."""
    z, share = behaviour_deviation(np.array([[[1.0], [0.0]], [[1.0], [0.5]]]), 6)
    assert z == pytest.approx(1 / np.sqrt(1 + 1 / 3))
    assert share == 0.0  # not sure
    over = np.array([[[2.0], [0.0]], [[4.0], [1.0]], [[2.0], [1.0]], [[4.0], [1.0]]])
    assert ratio_deviation(over, np.array([0.5]), 6) == pytest.approx((1.0, 0.0))
    apart = np.array([[[90.0], [-80.0]], [[100.0], [100.0]]])  # cancels but for 10
    z, share = behaviour_deviation(apart, 1000)
    assert z == pytest.approx(90 / np.sqrt(100 + 30))
    assert share == pytest.approx(170 / 1000)
    under = np.concatenate([-over[:1], over[1:]])
    assert ratio_deviation(under, np.array([0.1]), 6)[0] == pytest.approx(1 / 3)
    never = np.array([[[-50.0]], [[50.0]], [[0.0]], [[50.0]]])
    assert ratio_deviation(never, np.array([np.inf]), 50)[0] == 0.0


def test_what_the_logged_policy_cannot_do_is_counted():
    log = planted(rare=0.0, n=1000)
    found = sb.evaluate(
        log, always(0.2, 0.8), features=CELLS, gamma=0.0, methods=(), allow_uncovered=True
    )
    sure = (log.data["lactate"] > 6).mean()
    assert found.verdicts[0].evidence.uncovered == pytest.approx(0.8 * sure)


@pytest.mark.parametrize("whole", [True, False])
def test_actions_that_were_never_taken_are_counted(whole):
    """With all of μ it is known that they might have been, else not."""
    found = gate(bandit(0, 600, [0.7, 0.3, 0.0], whole=whole), [0.3, 0.2, 0.5], "SUPPORT")
    assert found.value == pytest.approx(0.5)
    assert found.level == "refused"


# The policy that was evaluated.


def test_the_portrait_is_of_the_target():
    log = decisions(0, episodes=50)
    seen = PolicyCounts.empty(2)
    table = np.array([[1.0, 0.0], [0.5, 0.5], [0.96, 0.04], [0.2, 0.8], [0.9, 0.1]])
    for piece in log.but(segment=3).pieces():
        seen.add(piece, table[piece.observations[:, 0].astype(int)])
    here = table[log.data["obs_0"].astype(int)]
    found = PolicySummary.of(seen, ("a", "b"), len(here))
    assert found.mass == pytest.approx({"a": here[:, 0].mean(), "b": here[:, 1].mean()})
    assert found.greedy == pytest.approx(np.isin(log.data["obs_0"], [0, 2]).mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(here > 0, here * np.log2(here), 0).sum(axis=1)
    assert found.entropy == pytest.approx(entropy.mean())


@pytest.mark.kernel
@pytest.mark.parametrize("whole", [True, False])
def test_sums_of_a_portrait_by_hand(whole):
    """Ratios, μ itself and what cannot be done, against plain array sums; whatever the pieces."""
    log = bandit(1, 60, [0.2, 0.8], whole=whole)
    data = dict(log.data)
    sure = np.arange(60) % 5 == 0
    data["behavior_prob"] = np.where(sure, 1.0, data["behavior_prob"])
    if whole:
        for k in range(2):
            data[f"mu_{k}"] = np.where(sure, data["action"] == k, data[f"mu_{k}"])
    log = sb.Log(data, actions=["0", "1"])
    pi = np.array([0.97, 0.03])
    found = []
    for segment in (1 << 16, 7):
        seen = PolicyCounts.empty(2, 2)
        for piece in log.but(segment=segment).pieces():
            cell = (piece.observations[piece.here, 0] > 0).astype(np.int64)
            seen.add(piece, np.tile(pi, (len(piece.observations), 1)), cell)
        found.append(seen)
    taken = data["action"][:, None] == np.arange(2)
    mu = data["behavior_prob"][:, None]
    possible = taken | (mu < 1.0)
    ours = np.where(possible, pi, 0.0)
    x = taken * pi / mu - ours
    cell = (data["obs_0"] > 0).astype(int)
    for seen in found:
        np.testing.assert_allclose(seen.action_mass, 60 * pi)
        assert seen.greedy_rows == 60
        assert seen.uncovered_mass == pytest.approx(np.where(possible, 0.0, pi).sum())
        terms = (x, x**2, np.where(taken, ours * x, 0.0), ours**2)
        for row, term in zip(seen.ratios, terms, strict=True):
            expected = [term[cell == c].sum(axis=0) for c in range(2)]
            np.testing.assert_allclose(row, expected, atol=1e-12)
        np.testing.assert_array_equal(
            seen.min_propensity, [mu[taken[:, k], 0].min(initial=np.inf) for k in range(2)]
        )
        all_of = np.column_stack([data["mu_0"], data["mu_1"]]) if whole else None
        surprise = np.zeros((60, 2)) if all_of is None else taken - all_of
        variance = np.zeros((60, 2)) if all_of is None else all_of * (1 - all_of)
        for row, term in zip(seen.residuals, (surprise, variance), strict=True):
            expected = [term[cell == c].sum(axis=0) for c in range(2)]
            np.testing.assert_allclose(row, expected, atol=1e-12)
    for one, two in zip(vars(found[0]).values(), vars(found[1]).values(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_portraits_add_up_over_logs_and_are_kept_on_disk(tmp_path):
    log = decisions(0, episodes=50)
    plain = Custom(lambda seen: np.ones((len(seen), 1)), 1)

    def summed(each):
        return sb.Statistics.of(each, sb.GES(0.0), always(0.3, 0.7), features=plain, gamma=0.9)

    first = log.data["episode_id"] < 20
    halves = [sb.Log({k: v[part] for k, v in log.data.items()}) for part in (first, ~first)]
    both = summed(halves[0]).merge(summed(halves[1]))
    again = load_statistics(save_statistics(both, tmp_path / "both.stats"))
    for each in (both, again):
        (seen,), (whole,) = each.counts.by_target, summed(log).counts.by_target
        for one, two in zip(vars(seen).values(), vars(whole).values(), strict=True):
            np.testing.assert_allclose(one, two)


# How episodes end.


def ends_of(lengths, ends="terminated", task=False, segment=1 << 16):
    """Return what is counted of episodes of these lengths."""
    limit = "task" if task else "artifact"
    log = sb.Log(columns(lengths, ends, actions=2), segment=segment, time_limit=limit)
    plain = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.5, 0.5), features=plain, gamma=0.9)
    return sums.counts


@pytest.mark.parametrize("segment", [1 << 16, 7])
def test_a_spike_at_the_greatest_length_is_a_limit(segment):
    lengths = [*range(3, 20), *[30] * 10]
    assert ends_of(lengths, segment=segment).time_limit == (30, pytest.approx(10 / 27))


@pytest.mark.parametrize(
    "lengths",
    [
        [*range(3, 31)],  # just the longest of many
        [30] * 20,  # all alike: the task is that long
        [*range(1, 6), *[5] * 20],  # too short to tell
        [*range(10, 30), *[29] * 3, *[30] * 6],  # many just below it too
    ],
)
def test_other_lengths_are_not(lengths):
    longest, share = ends_of(lengths).time_limit
    assert longest == max(lengths)
    assert share <= 0.05


def test_truncated_episodes_are_no_ends():
    lengths, ends = [*range(3, 20), *[30] * 10], ["terminated"] * 17 + ["truncated"] * 10
    found = ends_of(lengths, ends)
    assert found.time_limit == (19, 0.0)
    assert found.lengths[:, 1].sum() == 17


def test_where_the_limit_is_the_task_truncated_episodes_end():
    found = ends_of([4, 9, 9, 9], "truncated", task=True)
    assert found.lengths.tolist() == [[4, 1], [9, 3]]
    assert found.truncated_weight[0] == 0.0


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(1, 15))
@settings(deadline=None, max_examples=40)
def test_lengths_do_not_depend_on_pieces(lengths, segment):
    ends = np.resize(["terminated", "truncated", "stops"], len(lengths))
    one, two = ends_of(lengths, ends), ends_of(lengths, ends, segment=segment)
    np.testing.assert_array_equal(one.lengths, two.lengths)
    expected = [n for n, end in zip(lengths, ends, strict=True) if end == "terminated"]
    assert [n for n, count in one.lengths for _ in range(count)] == sorted(expected)


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [1 << 16, 5])
def test_counts_of_statistics_are_those_by_hand_and_add_up(segment):
    lengths, ends = [4, 9, 1, 12, 3, 7], ["terminated", "truncated"] * 3
    log = sb.Log(columns(lengths, ends), segment=segment)
    gamma, rule, target = 0.9, sb.GES(0.3), always(0.2, 0.3, 0.5)
    options = {"features": FOURIER, "gamma": gamma, "blocks": 2}
    sums = sb.Statistics.of(log, rule, target, **options)
    counts, data = sums.counts, log.data
    returns = discounted(log, gamma)[::2]
    counted = counts.returns.sum(axis=0)
    np.testing.assert_allclose(counted, [3, returns.sum(), (returns**2).sum()], rtol=1e-12)
    assert counts.truncated_weight[0] == pytest.approx(sum(gamma**n for n in lengths[1::2]))
    np.testing.assert_array_equal(counts.rewards, [data["reward"].min(), data["reward"].max()])
    taken = np.bincount(data["action"], minlength=3)
    np.testing.assert_array_equal(counts.visits, np.tile(taken, FOURIER.size))
    share = counts.mass.reshape(-1, 3).sum(axis=0)
    np.testing.assert_allclose(share / share.sum(), [0.2, 0.3, 0.5])
    half = [
        sb.Statistics.of(sb.Log(_some(data, keep)), rule, target, **options).counts
        for keep in ([0, 1, 2], [3, 4, 5])
    ]
    both = half[0].merge(half[1])
    for name in ("visits", "mass", "returns", "rewards", "truncated_weight", "lengths"):
        np.testing.assert_allclose(getattr(both, name), getattr(counts, name), rtol=1e-12)


def _some(data, episodes):
    keep = np.isin(data["episode_id"], np.unique(data["episode_id"])[episodes])
    return {name: column[keep] for name, column in data.items()}


# The logged policy.


def observed(log, features, gamma, rule, blocks=20, cut=False):
    """Return what the pipeline says of the logged policy."""
    own = Observed.of(log)
    sums = sb.Statistics.of(
        log, rule, {own.name: own}, features=features, gamma=gamma, blocks=blocks
    )
    (scored,) = score_episodes(log, sums, [own], features=features, rule=rule, ridge=0.0)
    return Baseline.of(scored, cut), scored


def discounted(log, gamma):
    """Returns of terminated episodes by hand."""
    ids = np.asarray(log.data["episode_id"])
    found = []
    for each in dict.fromkeys(ids.tolist()):
        total = 0.0
        for reward in np.asarray(log.data["reward"])[ids == each][::-1]:
            total = reward + gamma * total
        found.append(total)
    return np.array(found)


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [1 << 16, 5, 1])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_returns_are_those_that_were_logged(segment, gamma):
    """Whatever the features, which are poor here, and however episodes come in parts."""
    log = sb.Log(columns([1, 7, 12, 3, 1, 30, 2, 6], "terminated"), segment=segment)
    found, _ = observed(log, FOURIER, gamma, sb.GES(0.3))
    np.testing.assert_allclose(
        found.interval.value + found.influence, discounted(log, gamma), rtol=1e-9, atol=1e-9
    )
    returns = discounted(log, gamma)
    assert found.interval.value == pytest.approx(returns.mean())
    assert found.interval.error == pytest.approx(returns.std(ddof=1) / np.sqrt(8))
    assert found.self_check == pytest.approx(found.estimate - returns.mean())


@pytest.mark.kernel
def test_returns_of_truncated_episodes_go_on_with_what_is_foreseen():
    data = columns([3, 4, 2], ["terminated", "truncated", "truncated"])
    log, gamma = sb.Log(data), 0.9
    found, scored = observed(log, FOURIER, gamma, sb.GES(0.0))
    mu = np.column_stack([data[f"next_mu_{a}"] for a in range(3)])
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    whole = discounted(log, gamma)
    for episode, (row, length) in enumerate([(6, 4), (8, 2)], start=1):
        phi = np.outer(FOURIER(after[row][None])[0], mu[row]).ravel()
        whole[episode] += gamma**length * phi @ scored.theta
    np.testing.assert_allclose(found.interval.value + found.influence, whole, rtol=1e-9)
    cut, _ = observed(log, FOURIER, gamma, sb.GES(0.0), cut=True)
    assert cut.interval.value == scored.value
    np.testing.assert_array_equal(cut.influence, scored.influence)


def test_the_self_check_is_exact_for_one_decision():
    """Least squares with a constant leaves nothing over on the whole."""
    found, _ = observed(planted(n=500), CELLS, 0.0, sb.GES(0.0))
    assert found.self_check == pytest.approx(0.0, abs=1e-9)


def test_the_self_check_is_exact_with_the_whole_trace_and_states_that_know_the_time():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 8, 60)
    time = np.concatenate([np.arange(n) for n in lengths])
    log = table_log(
        time, rng.integers(0, 2, len(time)), rng.normal(size=len(time)), lengths, K=2
    )  # fmt: skip
    found, _ = observed(log, OneHot(7), 0.9, sb.GES(1.0))
    assert found.estimate == pytest.approx(discounted(log, 0.9).mean(), rel=1e-9)
    assert found.self_check == pytest.approx(0.0, abs=1e-9)


def test_the_self_check_sees_features_that_cannot_tell_states_apart():
    """Only the first step pays, and the features are constant."""
    n = 300
    log = table_log(
        np.tile([0, 1, 1, 1], n), np.tile([0, 1], 2 * n), np.tile([1.0, 0, 0, 0], n), [4] * n
    )
    blind = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    found, _ = observed(log, blind, 0.9, sb.GES(0.0))
    assert found.interval.value == pytest.approx(1.0)
    assert abs(found.self_check) > 0.1
    sharp, _ = observed(log, OneHot(2), 0.9, sb.GES(0.0))
    assert sharp.self_check == pytest.approx(0.0, abs=1e-9)


# Scores.


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [1 << 16, 4])
def test_what_followed_less_what_was_foreseen_by_hand(segment):
    """Σγ^tδ_t of each episode, by a loop over the rows, for a target that is not the logged one."""
    data, gamma = mixed(1), 0.8
    log = sb.Log(data, segment=segment)
    sums = sb.Statistics.of(log, sb.GRetrace(0.5), target, features=FOURIER, gamma=gamma)
    name = sums.setting.targets[0]
    seen = []
    (scored,) = score_episodes(
        log, sums, [as_target(target, log, name)], features=FOURIER, rule=sb.GRetrace(0.5),
        ridge=0.0, on_piece=lambda piece, k, pi, deltas: seen.append(deltas),
    )  # fmt: skip
    theta = scored.theta.reshape(-1, 3)
    obs = np.column_stack([data["obs_0"], data["obs_1"]])
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    ids = data["episode_id"]
    expected, deltas, first = [], [], []
    for each in dict.fromkeys(ids.tolist()):
        rows, total = np.flatnonzero(ids == each), 0.0
        first.append(float(target(obs[rows[:1]])[0] @ (FOURIER(obs[rows[:1]])[0] @ theta)))
        for t, row in enumerate(rows):
            ahead = 0.0
            if row == rows[-1] and not data["terminated"][row]:
                if not data["truncated"][row]:
                    continue  # what it led to is not known
                ahead = target(after[row][None])[0] @ (FOURIER(after[row][None])[0] @ theta)
            elif row != rows[-1]:
                ahead = target(obs[row + 1][None])[0] @ (FOURIER(obs[row + 1][None])[0] @ theta)
            own = FOURIER(obs[row][None])[0] @ theta[:, data["action"][row]]
            deltas.append(data["reward"][row] + gamma * ahead - own)
            total += gamma**t * deltas[-1]
        expected.append(total)
    np.testing.assert_allclose(scored.td_error_return, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.concatenate(seen), deltas, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scored.first, first, rtol=1e-9, atol=1e-9)


def test_intervals_of_an_evaluation_are_those_of_the_sandwich():
    log = sb.Log(mixed(1))
    rule = sb.GRetrace(0.5)
    targets = {"one": target, "other": always(0.2, 0.3, 0.5)}
    found = sb.evaluate(log, targets, features=FOURIER, gamma=0.8, methods=())
    sums = sb.Statistics.of(log, rule, targets, features=FOURIER, gamma=0.8)
    expected = sandwich(log, sums, targets, features=FOURIER)
    for mine, diagnosis, estimate in zip(expected, found.diagnoses, found.estimates, strict=True):
        for name in ("value", "low", "high", "error"):
            assert getattr(diagnosis.interval, name) == pytest.approx(
                getattr(mine, name), rel=1e-12
            )
        assert diagnosis.interval.n == mine.n
        assert (estimate.low, estimate.high) == (diagnosis.interval.low, diagnosis.interval.high)


def test_scores_of_several_targets_are_those_of_each_alone():
    log = sb.Log(mixed(2))
    rule, targets = sb.GES(0.4), {"one": target, "other": always(0.2, 0.3, 0.5)}
    sums = sb.Statistics.of(log, rule, targets, features=FOURIER, gamma=0.8)
    policies = [as_target(each, log, name) for name, each in targets.items()]
    options = {"features": FOURIER, "rule": rule, "ridge": 1e-3}
    both = score_episodes(log, sums, policies, **options)
    for policy, scored in zip(policies, both, strict=True):
        (alone,) = score_episodes(log, sums, [policy], **options)
        np.testing.assert_array_equal(alone.influence, scored.influence)
        assert interval_from_scores(alone) == interval_from_scores(scored)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_the_adjoint_solves_the_transposed_equations(ridge):
    rng = np.random.default_rng(0)
    root, A, x = rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=4)
    M = root @ root.T
    factorised = Range(M).factor(A, ridge)
    left = A - ridge * np.diag(np.diag(M))
    np.testing.assert_allclose(left.T @ factorised.adjoint(x), x, atol=1e-9)
    np.testing.assert_allclose(left @ factorised.solve(x).theta, -x, atol=1e-9)


def test_without_a_unique_solution_the_adjoint_is_the_one_of_least_norm():
    A = np.array([[1.0, 2.0], [2.0, 4.0]]) @ np.diag([1.0, 3.0])
    factorised = Range(np.eye(2)).factor(A)
    assert not factorised.unique
    x = A.T @ [1.0, 1.0]
    np.testing.assert_allclose(factorised.adjoint(x), np.linalg.pinv(A.T) @ x, atol=1e-9)


# All of it.


def test_evidence_is_what_was_seen():
    """Of truncated episodes and features that cannot tell states apart."""
    lengths = [3, 4, 5, 2] * 10
    log = sb.Log(columns(lengths, ["terminated", "truncated"] * 20))
    rule = sb.GES(0.0)
    blind = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    found = sb.evaluate(log, target, features=blind, gamma=0.9, rule=rule)
    seen = found.verdicts[0].evidence
    own, plain = observed(log, blind, 0.9, rule, cut=True)
    assert abs(own.self_check) > 1e-3
    assert seen.self_check == pytest.approx(own.self_check)
    assert seen.self_check_error == pytest.approx(own.self_check_error)
    assert seen.spread == pytest.approx((plain.first + plain.td_error_return).std(ddof=1))
    assert seen.truncated_weight == pytest.approx((10 * 0.9**4 + 10 * 0.9**2) / 40)
    assert (seen.episodes, seen.steps) == (40, sum(lengths))
    assert (seen.value, seen.error) == (
        found.verdicts[0].value, found.diagnoses[0].interval.error,
    )  # fmt: skip
    assert seen.gap == found.diagnoses[0].gap.value


NUMBERS = (
    "value", "error", "spread", "uncovered", "coverage", "unvisited", "miscalibrated",
    "calibration_z", "self_check", "self_check_error", "stable", "gap", "sensitivity", "limit",
    "limit_share", "truncated_weight", "outside",
)  # fmt: skip


@pytest.mark.parametrize("options", [{"segment": 3}, {"segment": 1}], ids=str)
def test_evidence_does_not_depend_on_pieces(options):
    log = sb.Log(mixed(5))
    one, two = (
        sb.evaluate(each, target, features=FOURIER, gamma=0.9).verdicts[0]
        for each in (log, log.but(**options))
    )
    for name in NUMBERS:
        assert getattr(two.evidence, name) == pytest.approx(
            getattr(one.evidence, name), rel=1e-8, abs=1e-10
        ), name
    assert (one.trust, one.weakest) == (two.trust, two.weakest)


def test_evidence_does_not_depend_on_threads():
    log = sb.Log(mixed(5))
    one, two = (
        json.dumps(sb.evaluate(log, target, features=FOURIER, gamma=0.9, threads=k).as_dict())
        for k in (1, 3)
    )
    assert one == two


def test_evidence_does_not_depend_on_what_else_is_asked_for():
    """The path, another method or another target beside it change nothing of a verdict."""
    log = sb.Log(mixed(5))
    options = {"features": FOURIER, "gamma": 0.9, "rule": sb.GES(0.3)}
    plain = sb.evaluate(log, {"mine": target}, **options).verdicts[0]
    more = [
        sb.evaluate(log, {"mine": target}, path=True, **options),
        sb.evaluate(log, {"mine": target}, methods=["wdr", "fqe"], **options),
        sb.evaluate(log, {"mine": target, "other": always(0.1, 0.1, 0.8)}, **options),
    ]
    for other in more:
        for name in NUMBERS:
            assert getattr(other.verdicts[0].evidence, name) == pytest.approx(
                getattr(plain.evidence, name), rel=1e-9, abs=1e-12
            ), name


def test_rewards_that_never_vary_have_a_value_that_is_not_refused():
    """Always 1, without end: rounding is no reason to call 1/(1 − γ) impossible."""
    for gamma in (0.9, 0.95, 0.99, 0.7):
        log = decisions(0, episodes=100, ends="truncated")
        log = sb.Log(log.data | {"reward": np.ones(log.rows)}, actions=["0", "1"])
        (verdict,) = sb.evaluate(log, always(0.4, 0.6), features=OneHot(5), gamma=gamma).verdicts
        assert verdict.value == pytest.approx(1 / (1 - gamma))
        failed = {each.code for each in verdict.failed}
        assert not failed & {"RANGE", "GAP", "SELF-CHECK", "PRECISION"}


def test_a_value_that_rewards_cannot_add_up_to_is_refused():
    """A line through two states far from where the target would go."""
    n = 400
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, n)
    steps = np.tile([0, 1], n // 2)
    data = {
        "episode_id": np.repeat(np.arange(n // 2), 2), "obs_0": np.where(steps == 0, 5.0, x),
        "action": np.where(steps == 0, 0, 1), "reward": np.where(steps == 0, 0.0, x),
        "terminated": steps == 1, "truncated": np.zeros(n, bool),
        "behavior_prob": np.full(n, 0.5),
    }  # fmt: skip
    (verdict,) = sb.evaluate(
        sb.Log(data), always(0.0, 1.0), features=Given(1), gamma=0.0, rule=sb.GES(0.0), methods=()
    ).verdicts
    assert verdict.value == pytest.approx(5.0)
    assert verdict.evidence.outside == pytest.approx(4.0, rel=0.02)
    assert "RANGE" in {each.code for each in verdict.failed if each.level == "refused"}
