"""The diagnosis of a target: each number of the evidence by its formula."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import saddleback as sb
from helpers.decision_logs import FOURIER, always, random_decisions, table_log, target
from helpers.logs import columns
from saddleback.features import OneHot
from saddleback.log import BehaviourTarget
from saddleback.log.altered_rows import AlteredRows
from saddleback.log.behaviour_target import NAME
from saddleback.ope import diagnosis
from saddleback.ope.approximation_gap import trace_gap, unvisited_gap
from saddleback.ope.baseline import Baseline
from saddleback.ope.candidates import HISTORY, OBSERVATION, STEP
from saddleback.ope.consensus import Consensus
from saddleback.ope.diagnosis import diagnose, measure_statistics, resample_count, start_spectra
from saddleback.ope.policy_counts import calibration, uncovered
from saddleback.ope.sandwich import Interval

RULES = [sb.GES(0.6), sb.GES(0.0)]
RIDGE = 0.01


@pytest.fixture(scope="module")
def log():
    return sb.Log(columns([3, 5, 2, 4, 6, 1, 4, 4, 2, 5, 3, 7] * 2, "terminated"))


def statistics(log, features=FOURIER, *, gamma=0.9, rules=RULES, policy=target, **options):
    behaviour = BehaviourTarget.of(log)
    return sb.Statistics.of(
        log, rules, {"new": policy, NAME: behaviour}, features=features, gamma=gamma, **options
    )


@pytest.fixture(scope="module")
def sums(log):
    return statistics(log, blocks=8)


@pytest.fixture(scope="module")
def measured(sums):
    return measure_statistics(sums, RULES[0], "new", RIDGE)


def diagnosed(sums, measured, baseline=None, spectra=None, **options):
    return diagnose(
        sums, RULES[0], options.pop("ridge", RIDGE), measured, baseline, spectra or {},
        options.pop("lower_is_better", False),
    )  # fmt: skip


def test_evidence_of_the_closed_form_is_that_of_its_parts(sums, measured):
    baseline = Baseline.of_statistics(sums, RULES[0], RIDGE)
    cloud = SimpleNamespace(stable_draws=3, cloud=np.zeros((8, 1)))
    one = diagnosed(sums, measured, baseline, {"new": lambda: cloud})
    evidence, gap, interval = one.verdict.evidence, one.gap, measured.interval
    counts = sums.counts.by_target[0]
    z, share = calibration(counts, 92)
    assert (evidence.episodes, evidence.steps) == (24, 92)
    assert (evidence.value, evidence.error) == (interval.value, interval.error)
    assert evidence.spread == baseline.spread
    assert evidence.uncovered == uncovered(counts) / 92
    assert (evidence.calibration_z, evidence.miscalibrated) == (z, share)
    assert evidence.trace_ratio == sums.trace_ratio(RULES[0], "new")
    assert list(one.policy.mass.values()) == pytest.approx(counts.action_mass / 92)
    described = diagnosis.PolicySummary({}, 0.5, 0.25)
    assert diagnosed(sums, replace(measured, policy=described)).policy is described
    assert evidence.unique is True
    assert evidence.stable == 3 / 8
    assert one.spectrum is cloud
    # V̂ by the same equations with small ridges, and without a trace.
    x = sums.start("new")
    values = [sums.solve(RULES[0], "new", RIDGE + eta).theta @ x for eta in (1e-6, 1e-5, 1e-4)]
    trace = trace_gap(sums, RULES[0], "new", interval.value, RIDGE)
    changes = [abs(value - interval.value) for value in values]
    assert evidence.sensitivity == max(*changes, trace)
    assert diagnosis._sensitivity(sums, RULES[0], "new", interval.value, RIDGE, None) == changes[-1]
    plain = measured.without_ridge
    assert plain.value == pytest.approx(sums.solve(RULES[0], "new", 0.0).theta @ x)
    assert evidence.ridge_shift == abs(interval.value - plain.value)
    assert evidence.error_without_ridge == plain.error
    assert (evidence.self_check, evidence.self_check_error) == (
        baseline.self_check, baseline.self_check_error,
    )  # fmt: skip
    # The gap: what it is, and twice the sum of what statistics know in place of what they do not.
    unvisited = unvisited_gap(sums, RULES[0], "new", measured.theta, RIDGE)
    assert (gap.unvisited, gap.trace, gap.self_check) == (unvisited, trace, baseline.gap)
    assert gap.ridge == max(0.0, interval.low - plain.low, plain.high - interval.high)
    assert gap.allowance == 2 * (unvisited + trace + abs(baseline.self_check))
    assert gap.value == gap.allowance == evidence.gap == one.verdict.gap
    assert evidence.refusing_gap == gap.value
    assert (gap.agreement, gap.residual, gap.consensus, gap.hidden) == (None,) * 4
    assert (evidence.unit, evidence.outcome, evidence.units) == (
        "episodes", "return", f"{len(measured.rows)} blocks of episodes",
    )  # fmt: skip
    difference = interval.value - baseline.interval.value
    assert one.verdict.improvement.difference == difference
    assert (one.condition, one.rank) == (sums.span.condition, sums.span.rank)


def test_counts_of_the_log_are_shares_of_rows_or_episodes(sums, measured):
    """92 rows of 24 episodes, as changed here."""
    altered = AlteredRows(
        rows=100, episodes=50, terminated=50, bad_rows=25, clipped=4, outside=7, outlying=9,
        filled=30,
    )  # fmt: skip
    counts = replace(
        sums.counts, altered=altered.array, truncated_weight=np.array([6.0]),
        lengths=np.array([[1, 2], [2, 9], [3, 2], [8, 11]]), rewards=np.array([-1.0, 2.0]),
    )  # fmt: skip
    other = replace(sums, counts=counts, findings=())
    evidence = diagnosed(other, measured).verdict.evidence
    assert (evidence.clipped, evidence.outside_box, evidence.outlying) == (0.04, 0.07, 0.09)
    assert (evidence.dropped, evidence.imputed) == (0.25, altered.imputed)
    assert evidence.truncated_weight == 6 / 24
    assert (evidence.limit, evidence.limit_share) == (8, 11 / 24)
    assert evidence.outliers == ""
    # Without a baseline the deviation is that of the error.
    assert evidence.spread == pytest.approx(measured.interval.error * math.sqrt(24))
    assert (evidence.self_check, evidence.self_check_error) == (None, None)
    findings = (
        sb.log.Finding("W155", "one."), sb.log.Finding("W171", "two."),
        sb.log.Finding("W155", "three"),
    )  # fmt: skip
    with_findings = diagnosed(replace(other, findings=findings), measured).verdict.evidence
    assert with_findings.outliers == "one; three"


def test_without_a_ridge_there_is_nothing_to_compare_it_with(sums):
    plain = measure_statistics(sums, RULES[0], "new", 0.0)
    assert plain.without_ridge is None
    one = diagnosed(sums, plain, ridge=0.0)
    assert (one.gap.ridge, one.verdict.evidence.ridge_shift) == (None, None)
    assert one.verdict.evidence.error_without_ridge is None


def consensus(**changes):
    scores = np.array([1.0, 2.0, 6.0])
    return replace(
        Consensus(OBSERVATION, 3.0, 1.5, scores, scores, 0.5, 0.25, {STEP: 3.5}, {}, (), None),
        **changes,
    )


@pytest.mark.parametrize("horizon", [None, 5])
@pytest.mark.parametrize("is_main", [True, False])
def test_a_consensus_contradicts_the_estimate(sums, measured, horizon, is_main):
    """As a second opinion it makes an answer doubtful at most; as the estimate it may refuse it."""
    others = consensus(horizon=horizon)
    plain = replace(measured, consensus=others, is_consensus=True)
    besides = 0.02 * measured.interval.error * math.sqrt(24)
    contradiction = others.contradiction(measured.interval.value, besides)
    assert diagnosed(sums, plain).gap.consensus == contradiction
    given = replace(
        measured, consensus=others, is_consensus=is_main, from_log=True, weighted=2.5,
        residual=0.125, agreement=(1.5, 0.25),
    )  # fmt: skip
    baseline = Baseline.of_statistics(sums, RULES[0], RIDGE)
    one = diagnosed(sums, given, baseline)
    gap, evidence = one.gap, one.verdict.evidence
    besides = math.hypot(2.5, 0.02 * baseline.spread)
    assert gap.consensus == others.contradiction(measured.interval.value, besides)
    assert gap.agreement == 1.5 - 0.25
    assert (evidence.agreement, evidence.agreement_error) == (1.5, 0.25)
    assert (gap.residual, gap.allowance) == (None if is_main else 0.125, None)
    assert gap.hidden is None
    assert (evidence.hidden, evidence.hidden_in) == (0.5, STEP)
    assert evidence.imbalance == 0.25
    assert evidence.gap == gap.value
    biases = [gap.agreement, gap.unvisited, gap.residual, gap.trace, gap.ridge, gap.self_check]
    biases += [gap.consensus] if is_main else []
    assert evidence.refusing_gap == max(part for part in biases if part is not None)
    assert evidence.unique is (None if is_main else True)
    closed_form = "it concerns the closed form, which is not the estimate"
    ridge = evidence.notes["RIDGE"]
    assert ridge == (closed_form if is_main else "there is no ridge")
    assert evidence.hidden_remedy == "add it to the observations" + (
        ", or give the horizon" if horizon is None else ""
    )
    assert (evidence.limit_share is None) == (horizon is not None)
    assert evidence.units == f"{len(measured.rows)} episodes"


def test_weights_that_lack_the_largest_ones_contradict_but_never_refuse(sums, measured):
    others = consensus()
    given = replace(measured, consensus=others, is_consensus=True, weighted=1000.0)
    spread = measured.interval.error * math.sqrt(24)
    by_candidates = others.contradiction(measured.interval.value, 0.02 * spread)
    for complete in (True, False):
        one = diagnosed(sums, replace(given, weights_are_complete=complete))
        assert one.gap.consensus == one.gap.value > 1.5 * 1000
        expected = one.gap.consensus if complete else by_candidates
        assert one.verdict.evidence.refusing_gap == pytest.approx(expected)


def test_what_the_history_corrects_is_part_of_the_gap_but_never_refuses(sums, measured):
    others = consensus(view=HISTORY, opinions={OBSERVATION: 103.0})
    one = diagnosed(sums, replace(measured, consensus=others, is_consensus=True))
    assert one.gap.hidden == others.correction == one.gap.value == 1.5 * 100
    assert one.verdict.evidence.refusing_gap == one.gap.consensus
    assert (one.verdict.evidence.hidden, one.verdict.evidence.hidden_in) == (100.0, HISTORY)


def test_single_decisions_are_judged_by_their_weights(sums, measured):
    given = replace(
        measured, is_bandit=True, mean_weight=(1.25, 0.125), consensus=consensus(),
        uncovered=0.25, miscalibration=(7.0, 0.375), from_log=True, is_consensus=True,
    )  # fmt: skip
    one = diagnosed(sums, given, lower_is_better=True)
    evidence = one.verdict.evidence
    assert one.verdict.gates[0].code == "DECISIONS"
    assert (evidence.mean_weight, evidence.mean_weight_error) == (1.25, 0.125)
    assert (evidence.uncovered, evidence.calibration_z, evidence.miscalibrated) == (
        0.25, 7.0, 0.375,
    )  # fmt: skip
    assert (evidence.imbalance, evidence.hidden, one.gap.consensus) == (None, None, None)
    assert evidence.notes["COVERAGE"] == "the estimate uses the logged propensities"
    assert (evidence.unit, evidence.outcome, evidence.other) == (
        "decisions", "reward", "Marginal DR",
    )  # fmt: skip
    assert evidence.units == f"{len(measured.rows)} decisions"
    assert one.verdict.improvement is None


def test_errors_of_almost_nothing_rest_on_rows(sums, measured):
    """The largest influence is that of block 2, and most rows are those of block 5."""
    influence, rows = np.zeros(8), np.ones(8)
    influence[[2, 3]], rows[5] = [1.0, -0.5], 2.0
    given = replace(measured, influence=influence, rows=rows, unit=lambda k: f"block {k}")

    def rests(error):
        interval = replace(measured.interval, error=error)
        baseline = Baseline(interval, influence, 4.0)
        evidence = diagnosed(sums, replace(given, interval=interval), baseline).verdict.evidence
        return evidence.influential, evidence.most_influential

    assert rests(1e-4 * 4.0) == (pytest.approx(81 / 11), "block 5")
    assert rests(1.01e-4 * 4.0) == (pytest.approx(1.25**2 / (1 + 1 / 16)), "block 2")


def test_statistics_measure_what_features_see():
    """Blocks without episodes do not count; the rarest feature is one the target visits."""
    log = random_decisions(3, states=4, episodes=7)
    sums = statistics(log, OneHot(4), blocks=20, policy=always(0.25, 0.75))
    assert (sums.episodes == 0).any()
    some = np.flatnonzero(sums.episodes > 0)
    measured = measure_statistics(sums, RULES[0], "new", RIDGE)
    assert measured.rows.tolist() == sums.steps[some].tolist()
    assert [measured.unit(k) for k in range(len(some))] == [f"block {k}" for k in some]
    x = sums.start("new")
    assert measured.interval.value == pytest.approx(measured.theta @ x)
    n, g = len(some), measured.influence
    error = math.sqrt((g**2).sum() / (n * (n - 1)))
    half = stats.t.ppf(0.975, n - 1) * error
    assert measured.interval.error == pytest.approx(error)
    assert measured.interval.high == pytest.approx(measured.interval.value + half)


def test_coverage_of_features_counts_from_ten_visits():
    log = random_decisions(3, states=4, episodes=7)
    sums = statistics(log, OneHot(4), policy=always(0.25, 0.75))
    mass = np.array([4.0, 0.0, 3.0, 1.0, 0.05, 8.0, 2.0, 1.95])
    visits = np.array([10.0, 0.0, 9.0, 3.0, 1.0, 11.0, 0.0, 12.0])
    total = mass.sum()
    for more, rarest in ((0.0, 6), (5e3, 6)):
        counts = replace(sums.counts, mass=np.array([mass, mass]), visits=visits + 0 * more)
        measured = measure_statistics(replace(sums, counts=counts), RULES[0], "new", 0.0)
        assert measured.coverage == pytest.approx((4.0 + 8.0 + 1.95) / total)
        assert measured.unvisited == pytest.approx(2.0 / total)
        assert measured.weakest == f"feature {rarest}, active on 0 steps"
    small = np.array([mass / 1000, mass[::-1]])
    counts = replace(counts, mass=small)
    for name, own in (("new", mass), (NAME, mass[::-1])):
        measured = measure_statistics(replace(sums, counts=counts), RULES[0], name, 0.0)
        assert measured.coverage == pytest.approx(own[visits >= 10].sum() / total)
        assert measured.unvisited == pytest.approx(own[visits == 0].sum() / total)
    # A feature with exactly 0.5% of the mean probability of features is too rare to be named.
    mass = np.array([1.0, 0.0, 1.0, 1.0, 0.005 * 8.0 / 8, 2.0, 1.0, 1.995])
    visits = np.array([1000.0, 0.0, 1234.0, 2000.0, 1.0, 3000.0, 4000.0, 5000.0])
    assert mass.sum() == 8.0
    counts = replace(sums.counts, mass=np.array([mass, mass]), visits=visits)
    measured = measure_statistics(replace(sums, counts=counts), RULES[0], "new", 0.0)
    assert measured.weakest == "feature 0, active on 1,000 steps"
    mass[4] += 1e-6
    counts = replace(counts, mass=np.array([mass, mass]))
    measured = measure_statistics(replace(sums, counts=counts), RULES[0], "new", 0.0)
    assert measured.weakest == "feature 4, active on 1 steps"


@pytest.mark.parametrize("shared", [False, True])
def test_actions_never_taken_are_known_from_features_never_active(shared):
    """Without propensities; actions 1 and 3 of four, which have 0.5 of the probability."""
    log = table_log([0, 1, 2, 0, 1], [0, 2, 0, 2, 0], np.ones(5), [2, 3], K=4)
    sums = statistics(
        log, OneHot(3), policy=always(0.3, 0.2, 0.2, 0.3), shared=shared, rules=[sb.GES(0.0)],
        allow_uncovered=True,
    )  # fmt: skip
    counts = sums.counts.by_target[0]
    assert diagnosis._mass_never_taken(sums, counts) == pytest.approx(5 * (0.2 + 0.3))
    every = SimpleNamespace(
        setting=sums.setting, counts=SimpleNamespace(visits=np.ones(15 if shared else 12))
    )
    assert diagnosis._mass_never_taken(every, counts) is None
    state = SimpleNamespace(setting=SimpleNamespace(values="state"))
    assert diagnosis._mass_never_taken(state, counts) is None


def test_without_propensities_support_is_known_from_the_features(log, sums, measured):
    """The shares are of rows."""
    unknown = replace(measured.counts, min_propensity=np.full(3, np.inf))
    one = diagnosed(sums, replace(measured, counts=unknown)).verdict.evidence
    assert (one.uncovered, one.miscalibrated, one.calibration_z) == (None, None, None)
    visits = sums.counts.visits.reshape(-1, 3) * [1, 0, 1]
    fewer = replace(sums, counts=replace(sums.counts, visits=visits.ravel()))
    one = diagnosed(fewer, replace(measured, counts=unknown)).verdict.evidence
    assert one.uncovered == pytest.approx(measured.counts.action_mass[1] / 92)


@pytest.mark.parametrize(
    ("gamma", "horizon", "total"),
    [(0.5, None, 2.0), (1.0, None, 300.0), (0.5, 3, 1.75), (1.0, 3, 3.0), (0.5, 1, 1.0)],
)
@pytest.mark.parametrize("rewards", [(-2.0, 1.0), (1.0, 3.0), (-3.0, -1.0)])
def test_values_are_within_the_range_of_sums_of_rewards(gamma, horizon, total, rewards):
    """0 is always possible: an episode may end at once."""
    low, high = total * min(0.0, rewards[0]), total * max(0.0, rewards[1])
    counts, width = SimpleNamespace(rewards=rewards), high - low

    def outside(value, error=0.0):
        interval = Interval(value, value, value, 0.95, error, "V^π", "", 60)
        return diagnosis._outside(interval, counts, gamma, 300, horizon)

    assert outside(low) == outside(high) == outside((low + high) / 2) == 0.0
    for share in (0.25, 1.5):
        assert outside(high + share * width) == pytest.approx(share)
        assert outside(low - share * width) == pytest.approx(share)
        assert outside(low - share * width, 0.1 * width) == pytest.approx(share - 0.2)
    assert outside(high + 0.9e-5 * width) == 0.0
    assert outside(high + 1.1e-5 * width) == pytest.approx(1.1e-5)


def test_without_rewards_only_0_is_attainable():
    counts = SimpleNamespace(rewards=(0.0, 0.0))
    for value, distance in ((0.0, 0.0), (1e-9, math.inf), (-1e-9, math.inf)):
        interval = Interval(value, value, value, 0.95, 0.0, "V^π", "", 60)
        assert diagnosis._outside(interval, counts, 0.5, 300, None) == distance


def test_resamples_are_drawn_for_up_to_400_features():
    assert [resample_count(p, None) for p in (1, 400, 401)] == [20, 20, 0]
    assert [resample_count(p, 7) for p in (1, 400, 401)] == [7, 7, 7]


def test_spectra_need_two_blocks_with_steps_and_some_draws(sums):
    with ThreadPoolExecutor(1) as pool:
        one_block = replace(sums, steps=np.where(np.arange(8) == 3, sums.steps, 0))
        assert start_spectra(one_block, RULES[0], ["new"], pool, RIDGE, 20) == {}
        assert start_spectra(sums, RULES[0], ["new"], pool, RIDGE, 0) == {}
        started = start_spectra(sums, RULES[0], ["new", NAME], pool, RIDGE, 20)
        assert {name: len(wait().cloud) for name, wait in started.items()} == {"new": 20, NAME: 20}
        two = np.where(np.isin(np.arange(8), np.flatnonzero(sums.episodes)[:2]), 1, 0)
        few = replace(sums, steps=sums.steps * two, episodes=sums.episodes * two)
        assert list(start_spectra(few, RULES[0], ["new"], pool, RIDGE, 20)) == ["new"]
