"""The verdict as a classifier, on situations whose truth is known: a few of each kind.

``make verdicts`` judges many more; here errors must be rare enough to be explained by chance. The
same seed makes the same rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.situations import KINDS, situation

import saddleback as sb

pytestmark = pytest.mark.statistical

GOOD = [kind for kind in KINDS if kind.startswith("good")]
SEEDS = dict.fromkeys(KINDS, (0, 1)) | dict.fromkeys(GOOD, (1, 2, 3)) | {
    "good, continuous": (0, 2, 3), "good, bandit": (0, 1, 3), "good, truncated": (0, 1, 2),
    "good, costs": (0, 2, 3), "estimated behaviour": (0, 1, 2), "poor coverage": (0, 1, 3),
    "rank-deficient features": (0, 1, 3), "few episodes": (1, 2), "too long a horizon": (0, 3),
    "wrong propensities": (0, 1, 2, 3), "shifted propensities": (1, 2),
    "truncation as termination": (1, 2),
}  # fmt: skip
"""Different variants of each kind: forms of the target and of features, and how it is flawed."""


def evaluate_situation(kind, seed):
    """Return a situation, which can be evaluated, and the verdict on it."""
    given = situation(kind, seed)
    card = given.log.summary(given.gamma)
    assert not card.errors
    assert card.episodes >= 10
    assert given.kind == kind
    assert np.isfinite([given.truth, given.baseline]).all()
    if kind in GOOD:
        assert given.good
        assert given.log.rows < 70_000
    result = sb.evaluate(
        given.log, given.target, features=given.features, gamma=given.gamma, rule=given.rule,
        lower_is_better=given.costs, allow_uncovered=given.allow_uncovered,
    )  # fmt: skip
    assert np.isfinite(result.estimates[0].value)
    (verdict,) = result.verdicts
    return given, verdict


def failed(verdict):
    return {gate.code for gate in verdict.failed}


def missed(given, verdict):
    low, high = verdict.interval_with_gap
    return not low <= given.truth <= high


def claimed_wrongly(given, verdict):
    """Whether the improvement was decided, and the other way round."""
    better = (given.truth > given.baseline) != given.costs
    return verdict.improvement.outcome == ("worse" if better else "better")


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_right(kind):
    """All in one test, so that each situation is judged once, whoever runs it."""
    outcomes = [evaluate_situation(kind, seed) for seed in SEEDS[kind]]
    if kind != "MountainCar":  # which takes seconds to build
        (one, _), (another, _) = outcomes[:2]
        check_same_rows(one, situation(kind, SEEDS[kind][0]))
        assert (one.log.rows, one.truth) != (another.log.rows, another.truth)
    usable = [(given, verdict) for given, verdict in outcomes if verdict.trust == "usable"]
    assert sum(missed(*one) for one in usable) == 0
    assert sum(claimed_wrongly(*one) for one in usable) == 0
    refused = [given for given, verdict in outcomes if given.good and verdict.trust == "refused"]
    assert not refused
    for given, verdict in outcomes:
        assert verdict.improvement.lower_is_better == given.costs
        REQUIRED.get(kind, anything)(given, verdict)
    if kind in GOOD:
        assert len(usable) == len(outcomes) == 3
    if kind == "good, costs":  # otherwise the check of their direction would be vacuous
        words = {verdict.improvement.outcome for _, verdict in outcomes}
        assert words & {"better", "worse"}


def check_same_rows(one, other):
    assert one.log.data.keys() == other.log.data.keys()
    for name, column in one.log.data.items():
        np.testing.assert_array_equal(column, other.log.data[name], err_msg=name)
    assert (one.truth, one.baseline) == (other.truth, other.baseline)


def anything(given, verdict):
    """No requirement on a single situation."""


def refused_for_support(given, verdict):
    assert verdict.trust == "refused"
    assert "SUPPORT" in failed(verdict)
    assert "PROPENSITIES" not in failed(verdict)


def not_usable(given, verdict):
    assert verdict.trust != "usable"


def few(given, verdict):
    assert "EPISODES" in failed(verdict)


def over_the_ceiling(given, verdict):
    assert verdict.trust == "refused"
    assert "CEILING" in failed(verdict)


def caught_if_it_matters(given, verdict):
    """Wrong propensities that change nothing may pass."""
    assert verdict.trust != "usable" or not missed(given, verdict)


def caught(given, verdict):
    assert "PROPENSITIES" in failed(verdict)


def direction(given, verdict):
    """Costs: whatever is decided is the right way round, and signs are those of costs."""
    assert given.costs
    assert not claimed_wrongly(given, verdict)
    more = verdict.improvement
    if more.outcome != "undecided":
        assert (more.difference < 0) == (more.outcome == "better")
        assert (given.truth < given.baseline) == (more.outcome == "better")


REQUIRED = {
    "deterministic log": refused_for_support,
    "poor coverage": not_usable,
    "few episodes": few,
    "over the ceiling": over_the_ceiling,
    "truncation as termination": not_usable,
    "wrong propensities": caught_if_it_matters,
    "shifted propensities": caught,
    "good, costs": direction,
    "MountainCar": not_usable,
}
