"""Coverage of a target policy: effective rows, and the region with the least data."""

from __future__ import annotations

import re

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
from saddleback.features import Custom, OneHot
from saddleback.ope import evaluate_statistics
from saddleback.ope.coverage import ActionCounts, inverse_effective_rows, measure_coverage
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
