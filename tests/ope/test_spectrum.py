"""The spectrum of Â and its block resamples."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import (
    FOURIER,
    always,
    random_decisions,
    target,
)
from helpers.logs import mixed
from saddleback.features import Custom, OneHot
from saddleback.ope.sandwich import block_scores
from saddleback.ope.spectrum import Spectrum, _ordered, check_draws
from saddleback.ope.spectrum import spectrum as start_spectrum


def spectrum(*of, threads=1, **options):
    """Find a spectrum, and wait for it."""
    with ThreadPoolExecutor(threads) as pool:
        return start_spectrum(*of, pool, **options)()


def doubled(observations):
    """1 in the first state, 2 in the second."""
    return 1.0 + observations[:, :1]


@pytest.mark.parametrize(
    ("next_obs", "outcome"), [(0.0, "stable"), (1.0, "unstable"), (None, "undecidable")]
)
def test_stability_of_small_logs_is_as_constructed(next_obs, outcome):
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
    result = spectrum(sums, sb.GES(0.0), sums.setting.targets[0], ridge=0.0, draws=200)
    assert result.outcome == outcome
    assert result.values[0].real == pytest.approx(0.9 * (1 + after.mean()) - 1)


@pytest.mark.parametrize("rule", [sb.GES(0.5), sb.GRetrace(0.9), sb.GTB(0.3)], ids=str)
def test_eigenvalues_are_those_of_the_system(rule):
    sums = sb.Statistics.of(sb.Log(mixed(0)), rule, target, features=FOURIER, gamma=0.9)
    result = spectrum(sums, rule, sums.setting.targets[0], ridge=0.0, draws=20)
    expected = np.linalg.eigvals(sums.system(rule).A)
    expected = expected[np.argsort(-expected.real)]
    np.testing.assert_allclose(result.values.real, expected.real, rtol=1e-6, atol=1e-12)
    assert (np.diff(result.cloud.real, axis=1) <= 1e-15).all()


def test_draws_equal_block_resamples_by_hand():
    log = random_decisions(0, episodes=200)
    rule = sb.GES(0.5)
    sums = sb.Statistics.of(log, rule, always(0.3, 0.7), features=OneHot(5), gamma=0.9)
    assert (sums.episodes > 0).all()
    name = sums.setting.targets[0]
    result = spectrum(sums, rule, name, ridge=0.0, draws=100, rng=7)
    generator = np.random.default_rng(7)
    for k in range(20):
        weight = np.bincount(generator.choice(20, 20), minlength=20)
        A, b = (np.tensordot(weight, blocks[0, 0], axes=1) for blocks in (sums.A, sums.b))
        start = weight @ sums.starts[0] / (weight @ sums.episodes)
        assert result.drawn[k] == pytest.approx(np.linalg.solve(A, -b) @ start, rel=1e-3)
        lead = np.linalg.eigvals(A / (weight @ sums.steps)).real.max()
        assert result.cloud[k, 0].real == pytest.approx(lead, rel=1e-9)
    assert result.values[0].real == pytest.approx(np.median(result.cloud[:, 0].real), rel=0.2)


def test_spectra_do_not_depend_on_threads():
    sums = sb.Statistics.of(sb.Log(mixed(0)), sb.GES(0.5), target, features=FOURIER, gamma=0.9)
    one, two = (
        spectrum(sums, sb.GES(0.5), sums.setting.targets[0], ridge=0.0, draws=30, threads=threads)
        for threads in (1, 3)
    )
    for name in ("values", "cloud", "drawn"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_collinear_features_do_not_make_a_spectrum_undecidable():
    """A constant in addition to a full set adds the eigenvalue 0, which is ignored."""
    log = random_decisions(0, episodes=200)
    X = np.column_stack([np.eye(5), np.ones(5)])
    duplicated = Custom(lambda seen: X[seen[:, 0].astype(int)], 6)
    description = []
    for features in (OneHot(5), duplicated):
        sums = sb.Statistics.of(log, sb.GES(0.0), always(0.5, 0.5), features=features, gamma=0.9)
        description.append(
            spectrum(sums, sb.GES(0.0), sums.setting.targets[0], ridge=0.0, draws=40).outcome
        )
    assert description == ["stable", "stable"]


def test_a_spectrum_is_plain_data():
    cloud = np.array([[-1.0 + 2j, -3.0], [0.5, -1.0]])
    result = Spectrum(np.array([-1.0 + 0j]), cloud, np.array([1.0, 2.0]))
    plain = result.as_dict()
    assert plain["outcome"] == "undecidable"
    assert (plain["stable"], plain["draws"]) == (1, 2)
    assert plain["cloud"][0] == [[-1.0, 2.0], [-3.0, 0.0]]


@pytest.mark.parametrize(
    ("sample", "drawn", "outcome"),
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
def test_sample_and_draws_must_agree(sample, drawn, outcome):
    cloud = np.array(drawn, dtype=complex)[:, None]
    result = Spectrum(np.array([sample + 0j]), cloud, np.zeros(len(drawn)))
    assert result.outcome == outcome


@pytest.mark.parametrize("draws", [5, 19])
def test_too_few_draws_are_refused(draws):
    sums = sb.Statistics.of(
        random_decisions(0), sb.GES(0.0), always(0.5, 0.5), features=OneHot(5), gamma=0.9
    )
    with pytest.raises(sb.errors.InvalidParameter, match=f"{draws} draws are too few.*at least 20"):
        spectrum(sums, sb.GES(0.0), sums.setting.targets[0], ridge=0.0, draws=draws)


@pytest.mark.parametrize(
    ("sample", "drawn", "outcome"),
    [
        (0.1, [0.1] * 39 + [-1.0], "unstable"),
        (0.0, [0.0] * 40, "unstable"),
        (-1e-9, [-1e-9] * 40, "stable"),
    ],
)
def test_one_in_forty_draws_may_disagree_and_zero_is_not_stable(sample, drawn, outcome):
    test_sample_and_draws_must_agree(sample, drawn, outcome)


def test_the_bootstrap_interval_leaves_equal_tails():
    result = Spectrum(np.zeros(1), np.zeros((1, 1)), np.arange(1001.0)[::-1])
    assert result.bootstrap() == pytest.approx((25.0, 975.0))
    assert result.bootstrap(0.5) == pytest.approx((250.0, 750.0))
    assert result.as_dict()["bootstrap"] == pytest.approx([25.0, 975.0])


@pytest.mark.parametrize(("draws", "ridge"), [(99, 0.0), (99, 0.3), (100, 0.0), (101, 0.3)])
def test_a_hundred_draws_are_solved_with_a_ridge_and_fewer_are_linear(draws, ridge):
    """Of blocks that have episodes; with fewer draws, the influence of the blocks is summed."""
    rule = sb.GES(0.5)
    log = random_decisions(3, episodes=15)
    sums = sb.Statistics.of(log, rule, always(0.3, 0.7), features=OneHot(5), gamma=0.9)
    occupied = np.flatnonzero(sums.episodes)
    assert 2 < len(occupied) < 20
    name, active = sums.setting.targets[0], np.diag(sums.M) > 0
    reports = []
    result = spectrum(sums, rule, name, ridge=ridge, draws=draws, progress=reports.append)
    jobs = (draws + 1) // 2
    assert reports == [k / jobs for k in range(1, jobs + 1)]
    value, scores = block_scores(sums, rule, name, ridge)
    shrink = np.diag(np.diag(sums.M)[active] * max(ridge, 1e-6))
    generator = np.random.default_rng(0)
    for k in range(draws):
        weight = np.bincount(generator.choice(occupied, len(occupied)), minlength=20)
        A, b = (np.tensordot(weight, blocks[0, 0], axes=1) for blocks in (sums.A, sums.b))
        A, b = A[np.ix_(active, active)], b[active]
        expected = value + sum(weight[occupied] * scores) / len(occupied)
        if draws >= 100:
            start = weight @ sums.starts[0][:, active] / (weight @ sums.episodes)
            expected = np.linalg.solve(A - shrink, -b) @ start
        assert result.drawn[k] == pytest.approx(expected, rel=1e-7)
        lead = np.sort(np.linalg.eigvals(A).real)[::-1] / (weight @ sums.steps)
        kept = lead[np.abs(lead) > 1e-9 * np.abs(lead).max()]
        np.testing.assert_allclose(result.cloud[k].real[: len(kept)], kept, rtol=1e-7)


def test_twelve_eigenvalues_are_kept_of_each_draw():
    for states, kept in ((5, 10), (7, 12)):
        sums = sb.Statistics.of(
            random_decisions(0, states=states, episodes=200), sb.GES(0.0), always(0.5, 0.5),
            features=OneHot(states), gamma=0.9,
        )  # fmt: skip
        result = spectrum(sums, sb.GES(0.0), sums.setting.targets[0], ridge=0.0, draws=20)
        assert result.cloud.shape == (20, kept)
        assert len(result.values) == 2 * states


def test_eigenvalues_are_ordered_by_real_part_and_those_near_zero_come_last():
    A = np.diag([-3.0, 4.1e-9, 3.9e-9, -4.0, 2.0])
    A[3:, 3:] = [[-1.0, 1.0], [-1.0, -1.0]]
    A[0, 0] = -4.0
    ordered = _ordered(A)
    np.testing.assert_allclose(
        ordered, [4.1e-9, -1 - 1j, -1 + 1j, -4.0, 0.0], rtol=1e-12, atol=1e-20
    )
    np.testing.assert_allclose(_ordered(A / 1024), ordered / 1024, rtol=1e-12, atol=1e-20)
    assert _ordered(np.zeros((2, 2))).tolist() == [0.0, 0.0]


def test_limits_of_draws_and_blocks():
    check_draws(20)
    check_draws(100_000)
    with pytest.raises(sb.errors.InvalidParameter, match=r"100,001 draws .* at most 100,000"):
        check_draws(100_001)
    rule = sb.GES(0.0)
    for blocks in (1, 2):
        sums = sb.Statistics.of(
            random_decisions(0), rule, always(0.5, 0.5), features=OneHot(5), gamma=0.9,
            blocks=blocks,
        )  # fmt: skip
        if blocks == 1:
            with pytest.raises(sb.errors.Undefined, match="all episodes are in one block"):
                spectrum(sums, rule, sums.setting.targets[0], ridge=0.0, draws=20)
        else:
            result = spectrum(sums, rule, sums.setting.targets[0], ridge=0.0, draws=20)
            assert len(result.cloud) == 20
