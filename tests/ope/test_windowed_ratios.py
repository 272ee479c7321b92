"""Windowed ratios: a loop over episodes, their ends, and what they change of an estimate."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.families import FAMILIES

import saddleback as sb
from helpers.decision_logs import target
from helpers.logs import columns, mixed
from saddleback._json import json_text
from saddleback.log.propensity_estimation import estimate_behaviour
from saddleback.log.target_policies import as_targets
from saddleback.ope import consensus as consensus_of_candidates
from saddleback.ope import windowed_ratios
from saddleback.ope.consensus import CAUTION, find_consensus
from saddleback.ope.episode_sample import sample_episodes
from saddleback.ope.text_report import format_result_verbose
from saddleback.ope.windowed_ratios import share_of_change, window, windowed_weights
from saddleback.report.candidate_chart import candidates


def sample_of(log, policy=target, rows=10_000):
    return sample_episodes(log, as_targets({"new": policy}, log), rows)[0]


def by_loop(sample, gamma, ratio, k):
    """Return the weights of an episode at a time, without what makes up for lost windows."""
    weights = np.zeros(len(ratio))
    for episode in range(len(sample.starts)):
        rows = np.flatnonzero(sample.episode == episode)
        rho = []
        for t, row in enumerate(rows):
            pi = sample.start_pi["new"][episode] if t == 0 else sample.next_pi["new"][rows[t - 1]]
            rho.append(pi[sample.actions[row]] / sample.propensities[row])
            if t < k:
                weights[row] = gamma**t * np.prod(rho)
            else:
                weights[row] = gamma**k * ratio[rows[t - k]] * np.prod(rho[t - k + 1 :])
    return weights


def longest(sample):
    return int(sample.step.max()) + 1


@pytest.mark.parametrize("spread", [0.2, 3.0])  # with the latter, many ratios are negative
@pytest.mark.parametrize(
    ("mean_square", "gamma", "k"), [(10.0, 0.9, 3), (1e3, 0.5, 10), (2.5, 1.0, 1), (1e9, 0.9, 30)]
)
def test_weights_equal_those_of_a_loop(monkeypatch, mean_square, gamma, k, spread):
    monkeypatch.setattr(windowed_ratios, "MEAN_SQUARE", mean_square)
    sample = sample_of(sb.Log(mixed(2)))
    sample = replace(sample, continues=~sample.last)  # all ends are those of the task
    assert window(sample.taken_pi("new") / sample.propensities, longest(sample)) == k
    ratio = np.random.default_rng(0).normal(1.0, spread, len(sample.step))
    weights = windowed_weights(sample, "new", gamma, ratio)
    np.testing.assert_allclose(weights, by_loop(sample, gamma, ratio, k), rtol=1e-9, atol=1e-12)


def test_an_impossible_action_leaves_no_weight_in_its_window():
    sample = sample_of(sb.Log(mixed(2)))
    chosen = np.eye(3)[np.random.default_rng(1).integers(3, size=len(sample.step))]
    sample = replace(sample, continues=~sample.last, next_pi={"new": 0.2 * chosen})
    ratio = np.random.default_rng(0).normal(1.0, 0.2, len(sample.step))
    k = window(sample.taken_pi("new") / sample.propensities, longest(sample))
    weights = windowed_weights(sample, "new", 0.9, ratio)
    expected = by_loop(sample, 0.9, ratio, k)
    assert (expected == 0).mean() > 0.3
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-12)


def test_ratios_that_vary_too_much_have_no_windows(monkeypatch):
    """Nothing is compared, so that nothing reads as equal."""
    monkeypatch.setattr(windowed_ratios, "MEAN_SQUARE", 1.2)
    sample = sample_of(sb.Log(columns([8] * 20, "terminated")))
    assert window(sample.taken_pi("new") / sample.propensities, 8) == 0
    assert windowed_weights(sample, "new", 0.9, np.ones(len(sample.step))) is None
    consensus = find_consensus(sample, "new", 0.9, thorough=False)
    assert (consensus.windowed, consensus.is_windowed) == (None, False)


@pytest.mark.parametrize(
    ("ratios", "factor"),
    [
        ([1, 1, 1, 1, 1, 1, 1, 1], 8 / 6),
        ([1, 1, 1, 0, 0, 0, 1, 2], 2.0),
        ([1, 1, 0, 0, 0, 0, 1, 1.1], None),  # most of it in windows that are lost
        ([1, 1, 0, 0, 0, 0, -4, -4], None),  # a negative sum
        ([-1, -1, 0, 0, 0, 0, 4, 4], None),  # a negative one of what is kept
    ],
)
def test_windows_without_most_of_the_weight_are_not_used(monkeypatch, ratios, factor):
    sample = sample_of(sb.Log(columns([8] * 20, "truncated")))
    monkeypatch.setattr(windowed_ratios, "window", lambda *_: 2)
    ratio = np.tile(np.array(ratios, dtype=float), 20)
    weights = windowed_weights(sample, "new", 0.9, ratio)
    if factor is None:
        assert weights is None
    else:
        late, expected = sample.step >= 2, by_loop(sample, 0.9, ratio, 2)
        np.testing.assert_allclose(weights[late], factor * expected[late], rtol=1e-9, atol=1e-12)


def test_windows_that_end_after_a_truncated_episode_are_made_up_for(monkeypatch):
    """Of episodes that all last 8 steps, windows of 2 that begin in the last two are lost."""
    sample = sample_of(sb.Log(columns([8] * 20, "truncated")))
    monkeypatch.setattr(windowed_ratios, "window", lambda *_: 2)
    ratio = np.ones(len(sample.step))
    weights = windowed_weights(sample, "new", 0.9, ratio)
    expected = by_loop(sample, 0.9, ratio, 2)
    expected[sample.step >= 2] *= 8 / 6
    np.testing.assert_allclose(weights, expected, rtol=1e-9)
    # Small ratios, with a sum below 1, are as good as others.
    weights = windowed_weights(sample, "new", 0.9, 1e-3 * ratio)
    expected[sample.step >= 2] *= 1e-3
    np.testing.assert_allclose(weights, expected, rtol=1e-9)


def test_windows_are_at_most_half_as_long_as_most_truncated_episodes():
    """Most could end after them otherwise."""
    sample = sample_of(sb.Log(columns([8] * 20, "truncated")))
    ratio = 0.9**sample.step * np.random.default_rng(0).normal(1.0, 0.2, len(sample.step))
    weights = windowed_weights(sample, "new", 0.9, ratio)
    assert window(sample.taken_pi("new") / sample.propensities, 8) > 4
    early = sample.step < 4
    expected = by_loop(sample, 0.9, ratio, 4)
    np.testing.assert_allclose(weights[early], expected[early], rtol=1e-9)
    kept = ratio.sum() / ratio[early].sum()  # those that begin in the first half end in the log
    np.testing.assert_allclose(weights[~early], kept * expected[~early], rtol=1e-9)


def test_there_are_none_without_propensities():
    log = sb.Log(columns([8] * 20, "terminated", mu=False), ignore_propensities=True)
    sample = sample_of(log)
    assert windowed_weights(sample, "new", 0.9, np.ones(len(sample.step))) is None
    consensus = find_consensus(sample, "new", 0.9, thorough=False)
    assert consensus.windowed is None


@pytest.mark.slow
@pytest.mark.parametrize("features", [None, "polynomial:1"])
def test_there_are_none_of_estimated_propensities(features, tmp_path):
    """Nor if they were written to a file: their errors would pass for those of the estimate."""
    data = columns([8] * 40, "terminated")
    missing = {name: data[name] for name in data if not name.startswith(("mu", "behavior"))}
    log = estimate_behaviour(sb.Log(missing)).log
    for estimated in (log, sb.Log(log.write_repaired(tmp_path / "log.parquet"))):
        assert windowed(estimated, features) is None
    assert windowed(sb.Log(data), features) is not None


def windowed(log, features):
    options = {} if features is None else {"features": features}
    (diagnosis,) = sb.evaluate(log, target, gamma=0.9, methods=[], **options).diagnoses
    return diagnosis.consensus.windowed


@pytest.fixture
def hides_nothing(monkeypatch):
    """Do not let the history lead, which would find the same errors."""
    monkeypatch.setattr(consensus_of_candidates, "share_of_history", lambda *_: 0.0)


def test_an_error_common_to_all_bases_is_found_and_corrected(hides_nothing):
    """Whether the key was taken is not observed: marginal ratios of what is observed err alike."""
    case = FAMILIES["key-and-door"].case("mid", 1000, 100)
    log = case.as_log()
    sample = sample_of(log, case.target, 4000)
    consensus = find_consensus(sample, "new", case.gamma, thorough=False)
    change, error = consensus.windowed
    before = consensus.value - change
    assert abs(change) > 3 * error
    assert abs(before - case.truth) > 0.5 * case.spread
    assert abs(consensus.value - case.truth) < 3 * consensus.error
    assert consensus.value == pytest.approx(consensus.scores.mean())
    assert consensus.contradiction(consensus.value) >= CAUTION * (abs(change) - error)


def test_views_are_corrected_by_their_own_windowed_ratios(hides_nothing):
    """The step and the history reveal whether the key was taken: they have nothing to correct."""
    case = FAMILIES["key-and-door"].case("mid", 1000, 100)
    sample = sample_of(case.as_log(), case.target, 4000)
    consensus = find_consensus(sample, "new", case.gamma, thorough=False)
    assert (consensus.view, consensus.is_windowed) == ("observation", True)
    others = [*consensus.opinions.values(), *consensus.separate.values()]
    assert len(others) == 4
    np.testing.assert_allclose(others, case.truth, atol=0.25 * case.spread)
    change, error = consensus.windowed
    not_included = (1 - share_of_change(change, error)) * abs(change)
    assert consensus.hidden[1] < 0.25 * case.spread + not_included
    one_view = replace(consensus, opinions={}, separate={}).contradiction(consensus.value)
    assert one_view > CAUTION * (abs(change) - error)
    bound = 1.05 * one_view + CAUTION * not_included
    assert consensus.contradiction(consensus.value) < bound


def test_windowed_ratios_do_not_conceal_what_the_observation_hides():
    """They would correct the observation, but not the history, which leads and needs no change."""
    case = FAMILIES["key-and-door"].case("mid", 1000, 101)
    sample = sample_of(case.as_log(), case.target, 4000)
    consensus = find_consensus(sample, "new", case.gamma, thorough=False)
    assert (consensus.view, consensus.is_windowed) == ("history", False)
    assert abs(consensus.value - case.truth) < 3 * consensus.error
    assert consensus.correction > 0.5 * case.spread  # the observation by itself is wrong


@pytest.mark.slow
def test_reports_say_what_they_changed(hides_nothing):
    case = FAMILIES["key-and-door"].case("mid", 1000, 100)
    result = sb.evaluate(case.as_log(), {"new": case.target}, gamma=case.gamma, methods=[])
    plain = json.loads(json_text(result.as_dict()))
    (verdict,) = plain["verdicts"]
    assert verdict["trust"] == "doubtful"  # it is right
    sentence = "Windowed ratios, of the logged propensities, would change the estimate by −0.19"
    assert sentence in " ".join(format_result_verbose(plain).split())
    assert sentence in candidates("new", plain, verdict)["caption"]
    verdict["consensus"]["is_windowed"] = False
    assert "Windowed" not in format_result_verbose(plain)
    assert "Windowed" not in candidates("new", plain, verdict)["caption"]


@pytest.mark.parametrize(("change", "moves"), [(1.9, False), (2.1, True)])
def test_changes_count_if_they_are_significant(change, moves):
    sample = sample_of(sb.Log(columns([8] * 20, "terminated")))
    all_views = find_consensus(sample, "new", 0.9, thorough=False)
    one = replace(all_views, windowed=None, opinions={}, separate={})
    n = len(one.scores)
    noise = np.where(np.arange(n) % 2, 1.0, -1.0) * np.sqrt(n - 1)  # the error of its mean is 1
    other = one.changed(change + noise)
    assert other.windowed == pytest.approx((change, 1.0))
    assert other.is_windowed == moves
    share = 1 - (2.0 / change) ** 2 if moves else 0.0
    assert other.value - one.value == pytest.approx(change * share)
    squares = (other.contradiction(other.value) / CAUTION) ** 2
    before = (one.contradiction(one.value) / CAUTION) ** 2
    assert squares - before == pytest.approx((change - 1.0) ** 2)
    elsewhere = other.value + 5.0  # a value that is further away differs by the same change
    squares = (other.contradiction(elsewhere) / CAUTION) ** 2
    assert squares - before == pytest.approx(25.0)


def test_the_share_of_a_change_rises_from_two_standard_errors():
    for error in (1.0, 0.5):
        for size in (2.0, 1.9, -2.0):
            assert share_of_change(size * error, error) == 0.0
        for size in (2.01, -3.0, 10.0):
            assert share_of_change(size * error, error) == pytest.approx(1 - (2 / size) ** 2)
    assert share_of_change(1.0, 0.0) == 1.0


def test_windows_have_a_mean_square_of_at_most_ten():
    for square in (1.01, 1.5, 3.0, 9.99, 10.0, 11.0):
        k = window(np.array([0.0, (2 * square) ** 0.5]), 10**6)
        assert square**k <= 10.0 * (1 + 1e-9)
        assert square ** (k + 1) > 10.0
    assert window(np.array([1.0, 1.0]), 7) == window(np.array([0.5]), 7) == 7
    assert window(np.array([1.1]), 7) == 7  # no more than the steps of an episode


@pytest.mark.parametrize(("lengths", "k"), [([8] * 20, 4), ([1] * 4 + [8] * 20, None),
                                            ([1] * 2 + [9] * 21, 4)])  # fmt: skip
def test_a_tenth_of_truncated_episodes_may_be_shorter_than_two_windows(monkeypatch, lengths, k):
    monkeypatch.setattr(windowed_ratios, "window", lambda *_: 30)
    sample = sample_of(sb.Log(columns(lengths, "truncated")))
    ratio = np.ones(len(sample.step))
    weights = windowed_weights(sample, "new", 0.9, ratio)
    if k is None:
        assert weights is None
        return
    expected = by_loop(sample, 0.9, ratio, k)
    early = sample.step < k
    np.testing.assert_allclose(weights[early], expected[early], rtol=1e-9)
    factor = weights[~early] / expected[~early]
    last = np.repeat(np.bincount(sample.episode), np.bincount(sample.episode)) - 1
    kept = (last - sample.step >= k).sum()
    np.testing.assert_allclose(factor, len(ratio) / kept, rtol=1e-9)


def test_windows_of_half_the_weight_are_enough(monkeypatch):
    monkeypatch.setattr(windowed_ratios, "window", lambda *_: 2)
    sample = sample_of(sb.Log(columns([4] * 12, "truncated")))
    for late, is_enough in ((1.0, True), (1.001, False)):
        ratio = np.where(sample.step < 2, 1.0, late)
        assert (windowed_weights(sample, "new", 0.9, ratio) is not None) == is_enough
    assert windowed_weights(sample, "new", 0.9, 0.0 * ratio) is None


def test_products_have_a_largest_logarithm(monkeypatch):
    """An action of nearly no propensity, and one of nearly no probability: e^100, and e^−100."""
    sample = sample_of(sb.Log(columns([6] * 10, "terminated")))
    monkeypatch.setattr(windowed_ratios, "window", lambda *_: 3)
    ratio = np.ones(len(sample.step))
    for propensity, size in ((1e-60, np.exp(100.0)), (1e60, np.exp(-100.0))):
        one = replace(
            sample,
            propensities=np.where(sample.step == 0, propensity, 1.0),
            start_pi={"new": np.ones((10, 3))},
            next_pi={"new": np.ones((60, 3))},
        )
        weights = windowed_weights(one, "new", 0.9, ratio)
        np.testing.assert_allclose(weights[one.step == 0], size, rtol=1e-9)
        np.testing.assert_allclose(weights[one.step == 2], 0.9**2 * size, rtol=1e-9)
        np.testing.assert_allclose(weights[one.step == 3], 0.9**3, rtol=1e-9)
