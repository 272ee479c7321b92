"""Checks and their thresholds, the verdict, and the comparison with the logged policy."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from helpers.verdicts import (
    BAD,
    CODES,
    GOOD,
    SURE,
    WITHOUT_LOG,
    difference_interval,
    gate_of,
    verdict_on,
)
from saddleback.ope import Gate, Improvement, Verdict
from saddleback.ope.evidence import Evidence
from saddleback.ope.gates import BANDIT_CHECKS, CHECKS


def test_codes_are_stable_and_in_order():
    assert tuple(check.code for check in CHECKS) == CODES == tuple(BAD)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (9.9e-5, "less than 0.0001"), (1e-4, "0.0001"), (0.0312, "0.031"), (99.0, "99"),
     (100.0, "100"), (1234.0, "1,234")],
)  # fmt: skip
def test_findings_have_two_digits_or_whole_numbers(value, text):
    gate = gate_of(verdict_on(replace(GOOD, hidden=value * GOOD.spread)), "HIDDEN")
    assert f"change the estimate by {text} SD of the return" in gate.sentence


def test_good_evidence_is_usable():
    verdict = verdict_on(GOOD)
    assert verdict.trust == "usable"
    assert not verdict.failed
    assert {gate.code: gate.level for gate in verdict.gates if gate.level != "usable"} == {
        "ROWS": "not checked"  # where the balance of the log itself is known
    }
    checked = len(CHECKS) - 1
    assert verdict.reason == f"all {checked} applicable checks passed (of {len(CHECKS)})"


@pytest.mark.parametrize(
    ("code", "change"), [(code, change) for code, (change, _) in BAD.items() if change]
)
def test_every_check_can_make_an_estimate_doubtful(code, change):
    verdict = verdict_on(replace(GOOD, **change))
    gate = gate_of(verdict, code)
    assert gate.level == "doubtful"
    assert not gate.passed
    assert verdict.trust == "doubtful"
    assert gate in verdict.failed
    assert ": " in gate.sentence
    assert len(gate.sentence) > len(gate_of(verdict_on(GOOD), code).sentence)


@pytest.mark.parametrize(
    ("code", "change"), [(code, change) for code, (_, change) in BAD.items() if change]
)
def test_checks_with_a_second_threshold_can_refuse(code, change):
    verdict = verdict_on(replace(GOOD, **change))
    assert gate_of(verdict, code).level == "refused"
    assert verdict.trust == "refused"
    assert verdict.failed[0].level == "refused"
    assert verdict.reason == verdict.failed[0].sentence


def test_checks_without_a_second_threshold_never_refuse():
    never = {code for code, (_, change) in BAD.items() if change is None}
    assert never == {check.code for check in CHECKS if check.refused is None}


@pytest.mark.parametrize("check", CHECKS, ids=lambda item: item.code)
def test_a_value_at_the_threshold_passes(check):
    """Doubt begins beyond it, and thresholds are in the right order."""
    at = replace(check, of=lambda evidence: check.doubtful)
    assert at.judge(GOOD).level == "usable"
    worse = np.nextafter(check.doubtful, -np.inf if check.good == "large" else np.inf)
    violated = replace(check, of=lambda evidence: float(worse))
    assert violated.judge(GOOD).level in ("doubtful", "refused")
    if check.refused is not None:
        sign = -1 if check.good == "large" else 1
        assert sign * check.refused >= sign * check.doubtful


@pytest.mark.parametrize("check", CHECKS, ids=lambda item: item.code)
def test_nan_passes_no_check(check):
    gate = replace(check, of=lambda evidence: math.nan).judge(GOOD)
    assert not gate.passed


NUMBERS = [
    field.name for field in fields(Evidence)
    if isinstance(getattr(GOOD, field.name), float) and field.name not in ("value", "unvisited")
]  # fmt: skip


@pytest.mark.parametrize("name", [number for number in NUMBERS if number != "calibration_z"])
def test_nan_evidence_is_never_usable(name):
    more = {"miscalibrated": SURE, "coverage": WITHOUT_LOG}.get(name, {})
    assert verdict_on(replace(GOOD, **{name: math.nan} | more)).trust != "usable"


def test_checks_that_do_not_apply_are_reported_and_do_not_count():
    little = Evidence(
        episodes=500, steps=5000, value=1.0, error=0.01, spread=1.0,
        notes={"SUPPORT": "the log has no propensities"},
    )  # fmt: skip
    verdict = verdict_on(little)
    unknown = {gate.code for gate in verdict.gates if gate.level == "not checked"}
    assert unknown == set(CODES) - {"EPISODES", "PRECISION"}
    assert all(gate.value is None for gate in verdict.gates if gate.code in unknown)
    assert gate_of(verdict, "SUPPORT").sentence == "the log has no propensities"
    assert gate_of(verdict, "RANGE").sentence == "not applicable to this log"
    assert verdict.trust == "usable"
    assert verdict.reason == f"all 2 applicable checks passed (of {len(CHECKS)})"
    assert verdict.gap == 0.0


def test_a_self_check_within_two_standard_errors_passes():
    assert verdict_on(replace(GOOD, self_check=0.6, self_check_error=0.3)).trust == "usable"
    assert verdict_on(replace(GOOD, self_check=0.6, self_check_error=0.1)).trust == "doubtful"


def test_checks_on_the_scale_of_returns_do_not_depend_on_units():
    for k in (1e-6, 1e6):
        scaled = replace(
            GOOD, value=k * GOOD.value, error=k * 0.3, spread=k, self_check=k * 0.3,
            self_check_error=k * 0.01, gap=k * 0.6, sensitivity=k * 2.1, agreement=k * 0.5,
            agreement_error=k * 0.1, imbalance=k * 0.6, hidden=k * 0.6,
        )  # fmt: skip
        levels = {gate.code: gate.level for gate in verdict_on(scaled).failed}
        assert levels == {
            "SENSITIVITY": "refused", "SELF-CHECK": "doubtful", "GAP": "doubtful",
            "PRECISION": "doubtful", "AGREEMENT": "doubtful", "COVERAGE": "doubtful",
            "HIDDEN": "doubtful",
        }  # fmt: skip


def test_without_spread_a_positive_gap_is_refused():
    flat = replace(
        GOOD, spread=0.0, error=0.0, self_check=0.0, gap=0.0, sensitivity=0.0, imbalance=0.0,
        hidden=0.0,
    )  # fmt: skip
    assert verdict_on(flat).trust == "usable"
    assert verdict_on(replace(flat, gap=1e-3)).trust == "refused"


def test_the_most_severe_check_gives_the_reason():
    mixed_up = replace(GOOD, episodes=20, imbalance=3.0, truncated_weight=0.6, outside=1.0)
    verdict = verdict_on(mixed_up)
    assert [gate.code for gate in verdict.failed] == ["COVERAGE", "RANGE", "EPISODES", "HORIZON"]
    assert verdict.reason == gate_of(verdict, "COVERAGE").sentence


def test_sentences_have_no_full_stop_and_no_placeholders():
    """They start in lower case, give a number, and have no full stop, since text may follow."""
    for change in [{}] + [item for pair in BAD.values() for item in pair if item]:
        for gate in verdict_on(replace(GOOD, **change)).gates:
            assert not gate.sentence.endswith(".")
            assert "{" not in gate.sentence
            assert "nan" not in gate.sentence


def test_a_solution_that_is_not_unique_is_reported_as_such():
    sentence = gate_of(verdict_on(replace(GOOD, unique=False)), "SOLUTION").sentence
    assert "0 solution" not in sentence
    assert "it is not unique" in sentence


def test_a_second_opinion_makes_an_answer_doubtful_at_most():
    contradicted = verdict_on(replace(GOOD, gap=5.0, refusing_gap=0.05))
    assert contradicted.trust == "doubtful"
    assert gate_of(contradicted, "GAP").level == "usable"
    assert gate_of(contradicted, "PRECISION").level == "doubtful"


def test_the_gap_widens_the_interval():
    verdict = verdict_on(GOOD)
    assert (verdict.low, verdict.high) == pytest.approx((12.3056, 12.3856))
    assert verdict.interval_with_gap == pytest.approx((12.2556, 12.4356))


@pytest.mark.parametrize(
    ("difference", "gap", "rewards", "costs"),
    [
        ((1.0, 0.5, 1.5), 0.0, "better", "worse"),
        ((1.0, 0.5, 1.5), 0.4, "better", "worse"),
        ((1.0, 0.5, 1.5), 0.6, "undecided", "undecided"),
        ((-1.0, -1.5, -0.5), 0.0, "worse", "better"),
        ((-1.0, -1.5, -0.5), 0.6, "undecided", "undecided"),
        ((0.1, -0.5, 0.7), 0.0, "undecided", "undecided"),
        ((0.5, 0.0, 1.0), 0.0, "undecided", "undecided"),
        ((math.nan, math.nan, math.nan), 0.0, "undecided", "undecided"),
    ],
)
def test_improvement_has_a_direction(difference, gap, rewards, costs):
    baseline = (3.0, 2.5, 3.5)
    one = Improvement.of(baseline, difference_interval(*difference), gap, lower_is_better=False)
    two = Improvement.of(baseline, difference_interval(*difference), gap, lower_is_better=True)
    assert (one.outcome, two.outcome) == (rewards, costs)
    assert (one.baseline, one.baseline_low, one.baseline_high) == baseline
    np.testing.assert_equal(one.difference, difference[0])
    np.testing.assert_equal([one.low, one.high], [difference[1] - gap, difference[2] + gap])


@pytest.mark.parametrize("costs", [False, True])
def test_a_verdict_survives_json(costs):
    more = Improvement.of((1.0, 0.9, 1.1), difference_interval(0.5, 0.1, 0.9), 0.05, costs)
    for improvement in (None, more):
        for change in [{}] + [item for pair in BAD.values() for item in pair if item]:
            verdict = verdict_on(replace(GOOD, **change), improvement=improvement)
            loaded = Verdict.from_dict(json.loads(json.dumps(verdict.as_dict())))
            assert loaded == verdict
            assert isinstance(loaded.gates[0], Gate)
            assert loaded.failed == verdict.failed
            assert loaded.interval_with_gap == verdict.interval_with_gap
            assert loaded.as_dict() == verdict.as_dict()


# Of each check: evidence that gives it a number, and its two thresholds. Returns have SD 1.
LIMITS = {
    "EPISODES": (lambda x: {"episodes": int(x)}, 50, 10),
    "SUPPORT": (lambda x: {"uncovered": x}, 0.001, 0.05),
    "COVERAGE": (lambda x: {"imbalance": x}, 0.5, 2.0),
    "ROWS": (lambda x: {"coverage": x, "imbalance": None}, 0.95, 0.75),
    "PROPENSITIES": (lambda x: {"miscalibrated": x}, 0.01, 0.25),
    "CEILING": (lambda x: {"trace_ratio": x}, 1.0, 1.15),
    "SELF-CHECK": (lambda x: {"self_check": -x, "self_check_error": 0.0}, 0.1, 0.5),
    "SOLUTION": (lambda x: {"unique": x == 1.0}, 1.0, None),
    "STABILITY": (lambda x: {"stable": x}, 0.975, None),
    "AGREEMENT": (lambda x: {"agreement": -x, "agreement_error": 1.0}, 3.0, None),
    "HIDDEN": (lambda x: {"hidden": x}, 0.5, None),
    "GAP": (lambda x: {"gap": 0.1, "refusing_gap": x}, 0.5, 2.0),
    "PRECISION": (lambda x: {"gap": x, "error": 0.0}, 0.5, None),
    "SENSITIVITY": (lambda x: {"sensitivity": x}, 0.5, 2.0),
    "RIDGE": (lambda x: {"ridge_shift": x, "error_without_ridge": 0.5}, 0.5, 1.0),
    "ENDS": (lambda x: {"limit_share": x}, 0.05, None),
    "HORIZON": (lambda x: {"truncated_weight": x}, 0.5, 0.9),
    "DROPPED": (lambda x: {"dropped": x}, 0.01, 0.25),
    "IMPUTED": (lambda x: {"imputed": x}, 0.01, None),
    "CLIPPED": (lambda x: {"clipped": x}, 0.05, 0.5),
    "BOX": (lambda x: {"outside_box": x}, 0.1, 0.5),
    "OUTLIERS": (lambda x: {"outlying": x}, 0.0, 0.01),
    "INFLUENCE": (lambda x: {"influential": x}, 2.0, 1.1),
    "RANGE": (lambda x: {"outside": x}, 0.0, 0.0),
}
FEW_ARE_BAD = {"EPISODES", "ROWS", "SOLUTION", "STABILITY", "INFLUENCE"}


def levels_beside(checks, limits):
    """Return the levels at both thresholds of each check, and just beyond them."""
    levels = {}
    for check in checks:
        change, *thresholds = limits[check.code]
        step = 1 if check.code in ("EPISODES", "DECISIONS") else 1e-9
        step *= -1 if check.code in FEW_ARE_BAD | {"DECISIONS"} else 1
        numbers = [x for limit in thresholds if limit is not None for x in (limit, limit + step)]
        levels[check.code] = [
            check.judge(replace(GOOD, **change(number))).level for number in numbers
        ]
    return levels


def test_levels_change_just_beyond_the_thresholds():
    one, two = ["usable", "doubtful"], ["usable", "doubtful", "doubtful", "refused"]
    expected = {code: one if limits[2] is None else two for code, limits in LIMITS.items()}
    expected["RANGE"] = ["usable", "refused"] * 2
    assert levels_beside(CHECKS, LIMITS) == expected
    for check in CHECKS:
        assert (check.doubtful, check.refused) == LIMITS[check.code][1:]


def test_single_decisions_have_thresholds_of_their_weights():
    """Their weights average 1, within two standard errors."""
    own = {
        "DECISIONS": (lambda x: {"episodes": int(x)}, 50, 10),
        "WEIGHTS": (lambda x: {"mean_weight": 1.0 - x, "mean_weight_error": 0.0}, 0.05, 0.25),
    }  # fmt: skip
    shared = [code for code in CODES if code in {check.code for check in BANDIT_CHECKS}]
    assert [check.code for check in BANDIT_CHECKS] == [*own, *shared]
    levels = levels_beside(BANDIT_CHECKS[:2], own)
    assert levels["DECISIONS"] == ["usable", "doubtful", "doubtful", "refused"]
    weights = BANDIT_CHECKS[1]
    for mean, error, expected in (
        (1.5, 0.125, 0.25), (0.5, 0.125, 0.25), (1.25, 0.125, 0.0), (3.0, None, 2.0),
    ):  # fmt: skip
        gate = weights.judge(replace(GOOD, mean_weight=mean, mean_weight_error=error, spread=9.0))
        assert gate.value == expected
    assert [weights.doubtful, weights.refused] == [0.05, 0.25]
    assert weights.judge(replace(GOOD, mean_weight=None)).level == "not checked"


def test_numbers_of_checks_are_in_units_of_the_return_or_of_errors():
    """With an SD of 4 and a standard error of 0.25, each number by hand."""
    evidence = replace(
        GOOD, spread=4.0, error=0.25, gap=1.5, imbalance=-1.0, self_check=-3.0,
        self_check_error=0.5, agreement=-1.5, agreement_error=0.5, hidden=1.0, sensitivity=3.0,
        ridge_shift=-0.75, error_without_ridge=0.25, unique=False, episodes=77,
    )  # fmt: skip
    values = {check.code: check.judge(evidence).value for check in CHECKS}
    expected = {
        "EPISODES": 77.0, "COVERAGE": 1 / 4, "ROWS": None, "SELF-CHECK": (3 - 2 * 0.5) / 4,
        "SOLUTION": 0.0, "AGREEMENT": 1.5 / 0.5, "HIDDEN": 1 / 4, "GAP": 1.5 / 4,
        "PRECISION": (2 * 0.25 + 1.5) / 4, "SENSITIVITY": 3 / 4, "RIDGE": 0.75 / (2 * 0.25),
    }  # fmt: skip
    assert {code: values[code] for code in expected} == expected

    def number(code, **changes):
        check = next(check for check in CHECKS if check.code == code)
        return check.judge(replace(evidence, **changes)).value

    assert number("GAP", refusing_gap=0.5) == 0.5 / 4
    assert number("PRECISION", gap=None) == 2 * 0.25 / 4
    assert number("SELF-CHECK", self_check_error=None) == 3 / 4
    assert number("SELF-CHECK", self_check_error=2.0) == 0.0
    # Errors of almost 0 count as a ten-thousandth of the SD, half-widths as 0.02 SD.
    assert number("AGREEMENT", agreement_error=1e-9) == 1.5 / (4 / 10_000)
    assert number("RIDGE", error_without_ridge=0.0) == pytest.approx(0.75 / (0.02 * 4))
    tiny = {"spread": 1e-9, "ridge_shift": 1e-6, "error_without_ridge": 1e-6}
    assert number("RIDGE", **tiny) == pytest.approx(0.5)
    flat = {"spread": 0.0, "agreement_error": 0.0}
    assert number("AGREEMENT", **flat) == math.inf
    assert number("AGREEMENT", **flat | {"agreement": 0.0}) == 0.0
    for missing in ("agreement", "agreement_error"):
        assert number("AGREEMENT", **{missing: None}) is None
    for missing in ("ridge_shift", "error_without_ridge"):
        assert number("RIDGE", **{missing: None}) is None


def test_checks_say_which_numbers_are_good():
    assert {check.code for check in CHECKS if check.good == "large"} == FEW_ARE_BAD
    for check in CHECKS:
        gate = check.judge(GOOD)
        assert (gate.code, gate.doubtful, gate.refused, gate.good) == (
            check.code, check.doubtful, check.refused, check.good,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"), [(99.4, "99"), (99.49, "99"), (99.5, "100"), (0.000099, "less than 0.0001")]
)
def test_numbers_of_three_digits_are_rounded_to_whole_ones(value, text):
    gate = gate_of(verdict_on(replace(GOOD, hidden=value)), "HIDDEN")
    assert f"change the estimate by {text} SD of the return" in gate.sentence


@pytest.mark.parametrize(
    ("ends", "gap", "outcome"),
    [
        ((0.25, 1.0), 0.25, "undecided"), ((0.26, 1.0), 0.25, "better"),
        ((-1.0, -0.25), 0.25, "undecided"), ((-1.0, -0.26), 0.25, "worse"),
        ((0.0, 1.0), 0.0, "undecided"), ((-1.0, 0.0), 0.0, "undecided"),
        ((-1.0, 1.0), 0.0, "undecided"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("costs", [False, True])
def test_a_difference_with_its_bias_must_leave_zero(ends, gap, outcome, costs):
    difference = difference_interval(sum(ends) / 2, *ends)
    more = Improvement.of((1.0, 0.5, 2.0), difference, gap, costs)
    mirrored = {"better": "worse", "worse": "better"} if costs else {}
    assert more.outcome == mirrored.get(outcome, outcome)
    assert (more.low, more.high) == (ends[0] - gap, ends[1] + gap)
    assert (more.baseline, more.baseline_low, more.baseline_high) == (1.0, 0.5, 2.0)
