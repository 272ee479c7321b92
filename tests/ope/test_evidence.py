"""Evidence: its numbers, and invariance to segmentation, threads and other targets."""

from __future__ import annotations

import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import (
    FOURIER,
    always,
    logged_baseline,
    random_decisions,
    target,
)
from helpers.logs import columns, mixed
from saddleback.features import Custom, Identity, OneHot
from saddleback.ope.evidence_from_log import (
    EvidenceReducer,
    _agreement,
    are_complete,
    distance_on_one_side,
)


def test_evidence_equals_its_parts():
    """With truncated episodes, and features that do not distinguish states."""
    lengths = [3, 4, 5, 2] * 10
    log = sb.Log(columns(lengths, ["terminated", "truncated"] * 20))
    rule = sb.GES(0.0)
    blind = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    result = sb.evaluate(log, target, features=blind, gamma=0.9, rule=rule)
    seen = result.verdicts[0].evidence
    own, plain = logged_baseline(log, blind, 0.9, rule, cut=True)
    assert abs(own.self_check) > 1e-3
    assert seen.self_check == pytest.approx(own.self_check)
    assert seen.self_check_error == pytest.approx(own.self_check_error)
    assert seen.spread == pytest.approx((plain.first + plain.td_error_return).std(ddof=1))
    assert seen.truncated_weight == pytest.approx((10 * 0.9**4 + 10 * 0.9**2) / 40)
    assert (seen.episodes, seen.steps) == (40, sum(lengths))
    assert (seen.value, seen.error) == (
        result.verdicts[0].value, result.diagnoses[0].interval.error,
    )  # fmt: skip
    assert seen.gap == result.diagnoses[0].gap.value


NUMBERS = (
    "value", "error", "spread", "uncovered", "coverage", "unvisited", "miscalibrated",
    "calibration_z", "self_check", "self_check_error", "stable", "gap", "sensitivity", "limit",
    "limit_share", "truncated_weight", "outside",
)  # fmt: skip


@pytest.mark.parametrize("options", [{"segment": 3}, {"segment": 1}], ids=str)
def test_evidence_does_not_depend_on_segmentation(options):
    log = sb.Log(mixed(5))
    one, two = (
        sb.evaluate(version, target, features=FOURIER, gamma=0.9).verdicts[0]
        for version in (log, log.with_options(**options))
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


@pytest.mark.slow
def test_evidence_does_not_depend_on_other_methods_or_targets():
    """The λ path, another method or another target do not change a verdict."""
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


@pytest.mark.slow
def test_constant_rewards_are_not_refused():
    """Always 1, without end: rounding is no reason to call 1/(1 − γ) impossible."""
    for gamma in (0.9, 0.95, 0.99, 0.7):
        log = random_decisions(0, episodes=100, ends="truncated")
        log = sb.Log(log.data | {"reward": np.ones(log.rows)}, actions=["0", "1"])
        (verdict,) = sb.evaluate(log, always(0.4, 0.6), features=OneHot(5), gamma=gamma).verdicts
        assert verdict.value == pytest.approx(1 / (1 - gamma))
        failed = {gate.code for gate in verdict.failed}
        assert not failed & {"RANGE", "GAP", "SELF-CHECK", "PRECISION"}


def test_a_value_outside_the_attainable_range_is_refused():
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
        sb.Log(data),
        always(0.0, 1.0),
        features=Identity(1),
        gamma=0.0,
        rule=sb.GES(0.0),
        methods=(),
    ).verdicts
    assert verdict.value == pytest.approx(5.0)
    assert verdict.evidence.outside == pytest.approx(4.0, rel=0.02)
    assert "RANGE" in {gate.code for gate in verdict.failed if gate.level == "refused"}


def robust(value=3.0, **changes):
    """Return a weighted doubly robust estimate of four episodes."""
    numbers = {
        "comparable": True, "normalised": value, "scores": np.array([1.0, -1.0, 2.0, -2.0]),
        "is_reliable": True, "k_hat": 0.375, "ess": 17.6, "names": ("DR", "WDR"),
        "value": {"DR": 2.0, "WDR": value}.get,
    }  # fmt: skip
    return SimpleNamespace(**numbers | changes)


def test_agreement_is_the_difference_to_a_reliable_estimate_in_pairs():
    influence = np.array([2.0, 0.0, -1.0, -1.0])
    (difference, error), reason = _agreement(5.0, influence, robust())
    assert difference == 5.0 - 3.0
    paired = influence - [1.0, -1.0, 2.0, -2.0]
    assert error == pytest.approx(np.sqrt((paired**2).sum() / (4 * 3)))
    assert reason == "the doubly robust estimate is unreliable: ESS 18, k̂ 0.38"
    for change in ({"is_reliable": False}, {"normalised": np.nan}):
        assert _agreement(5.0, influence, robust(**change)) == (None, reason)
    unknown = _agreement(5.0, influence, robust(is_reliable=False, k_hat=np.nan))
    assert unknown == (None, "the doubly robust estimate is unreliable: ESS 18, no k̂")
    assert _agreement(5.0, influence, None) == (None, "there is no weighted doubly robust estimate")
    words = "doubly robust estimates on truncated episodes have a different estimand"
    assert _agreement(5.0, influence, robust(comparable=False)) == (None, words)


def test_estimates_on_one_side_are_heard_from_five_effective_episodes():
    assert distance_on_one_side(1.5, robust(ess=5.0)) == 0.5
    assert distance_on_one_side(1.5, robust(ess=4.99)) == 0.0
    assert distance_on_one_side(4.5, robust(ess=5.0)) == 1.5
    assert distance_on_one_side(2.5, robust(ess=5.0)) == 0.0
    assert distance_on_one_side(1.5, robust(np.inf)) == 0.0
    assert distance_on_one_side(1.5, None) == 0.0


def test_weights_are_complete_from_a_mean_of_a_half():
    assert are_complete(robust(mean_weight=0.51))
    assert not are_complete(robust(mean_weight=0.49))
    assert are_complete(None)


@pytest.mark.parametrize(
    ("rows", "actions", "cells"),
    [(30, 3, 1), (240, 3, 2), (359, 3, 2), (360, 3, 3), (10**6, 3, 64), (10**6, 11, 58)],
)
def test_cells_have_forty_rows_for_each_action(monkeypatch, rows, actions, cells):
    """At most 64, and 640 pairs of cell and action."""
    module = importlib.import_module("saddleback.ope.evidence_from_log")
    sizes = []
    monkeypatch.setattr(
        module, "Cells", SimpleNamespace(of=lambda sample, size: sizes.append(size))
    )
    monkeypatch.setattr(module, "EncodeOnce", lambda cells: None)
    log = SimpleNamespace(n_actions=actions, rows=rows, observation_names=("x",))
    reducer = EvidenceReducer(log, None, [], np.arange(9.0)[:, None], None, None, 0.0, str)
    assert sizes == [cells]
    assert reducer._actions.taken[0].shape == (9, actions)
