"""Marginal doubly robust estimates and their consensus: oracle, exact values, invariance."""

from __future__ import annotations

import importlib
import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.families import FAMILIES

import saddleback as sb
from helpers.decision_logs import target
from helpers.logs import columns, mixed
from oracles.marginal_dr import fit, predictions, weigh
from saddleback.errors import InvalidParameter
from saddleback.features import Monomials, RandomFourier, Scaling
from saddleback.log.target_policies import as_targets
from saddleback.ope import marginal_dr
from saddleback.ope.candidates import HISTORY, OBSERVATION, STEP, Basis, candidates, views
from saddleback.ope.consensus import CAUTION, find_consensus
from saddleback.ope.consensus_q import ConsensusQ
from saddleback.ope.episode_sample import EpisodeSampler, sample_episodes
from saddleback.ope.evidence_from_log import distance_on_one_side
from saddleback.ope.fold_sums import Rows
from saddleback.ope.log_pass import read_log
from saddleback.ope.marginal_dr import (
    Fits,
    accumulate_traces,
    drawn_steps,
    fit_basis,
    leading_directions,
)
from saddleback.ope.sample_consensus import SampleConsensus, sample_consensus


def sample_of(log, policy=target, **options):
    return sample_episodes(log, as_targets({"new": policy}, log), 10_000, **options)[0]


@pytest.mark.parametrize("horizon", [None, 1, 4])
@pytest.mark.parametrize(("ridge", "pooling"), [(1e-4, 1.0), (0.1, 100.0)])
def test_fits_equal_those_of_the_oracle(horizon, ridge, pooling):
    sample = sample_of(sb.Log(mixed(3, d=2)))
    (view, *_) = views(sample)
    basis = Basis("linear", view, Monomials(Scaling.of(sample.states), 1))
    rows = Rows.of(sample, "new", 0.9)
    fits = fit_basis(basis, rows, horizon, (ridge,), (pooling,))
    start, delta, ratio = fit(sample, "new", basis.encode, 0.9, ridge, pooling, horizon)
    precision = 1e-9 if horizon is None else 2e-6  # with a horizon, rows are kept in float32
    assert np.allclose(fits.start[0], start, rtol=1e-9)
    assert np.allclose(fits.delta[0], delta, rtol=precision, atol=precision)
    assert np.allclose(fits.ratio[0], ratio, rtol=precision, atol=precision)


def exact_basis(sample):
    """A feature for each cell of the first observation."""
    values = np.arange(-3.0, 4.0)

    def encode(points):
        return np.column_stack([np.ones(len(points)), points[:, [0]].round().clip(-3, 3) == values])

    return Basis("7 distinct values", next(iter(views(sample))), encode, is_exact=True)


@pytest.mark.parametrize("horizon", [None, 1, 4])
def test_exact_features_are_also_fitted_to_all_folds(horizon):
    sample = sample_of(sb.Log(mixed(3, d=2)))
    basis, rows = exact_basis(sample), Rows.of(sample, "new", 0.9)
    fits = fit_basis(basis, rows, horizon, (1e-4, 0.1), (100.0,))
    precision = 2e-6  # the constant is the sum of the others, and rows may be kept in float32
    for r, ridge in enumerate((1e-4, 0.1)):
        options = sample, "new", basis.encode, 0.9, ridge, 100.0, horizon
        for (start, delta), to_all in (((fits.start, fits.delta), False), (fits.final, True)):
            expected = fit(*options, to_all=to_all)
            assert np.allclose(start[r], expected[0], rtol=precision, atol=precision)
            assert np.allclose(delta[r], expected[1], rtol=precision, atol=precision)
    assert fits.final[0] is not fits.start
    smooth = fit_basis(replace(basis, is_exact=False), rows, horizon, (1e-4,), (100.0,))
    assert smooth.full is None
    assert smooth.final == (smooth.start, smooth.delta)


@pytest.mark.parametrize("horizon", [None, 4])
def test_fits_to_all_folds_leave_nothing_to_correct(horizon):
    """Without a ridge, their TD errors are orthogonal to any function of cell and action."""
    sample = sample_of(sb.Log(mixed(3, d=2)))
    basis = exact_basis(sample)
    fits = fit_basis(basis, Rows.of(sample, "new", 0.9), horizon, (1e-9,), (1.0,))
    cell = basis.encode(sample.states)[:, 1:].argmax(axis=1)
    w = np.random.default_rng(0).normal(size=(7, sample.n_actions))[cell, sample.actions]
    corrections = [abs((w @ delta[0]).mean()) for delta in (fits.final[1], fits.delta)]
    assert corrections[0] < 1e-4 < 0.1 < corrections[1]


@pytest.mark.parametrize("chunk", [4096, 7])
@pytest.mark.parametrize("horizon", [None, 4])
def test_weights_predictions_and_next_values_equal_those_of_the_oracle(monkeypatch, horizon, chunk):
    """With a feature that is never active, and features evaluated a few rows at a time."""
    monkeypatch.setattr(marginal_dr, "CHUNK", chunk)
    sample = sample_of(sb.Log(mixed(4, d=2)))
    (view, *_), scaling = views(sample), Scaling.of(sample.states)
    linear, gap = Monomials(scaling, 1), np.array([True, True, False, True])

    def with_gap(points):
        return np.insert(linear(points), 2, 0.0, axis=1)

    goals = np.column_stack([sample.rewards, sample.states[:, 0] ** 2])
    rows = Rows.of(sample, "new", 0.9)
    rows = replace(rows, goals=goals[rows.order])
    basis, steps = Basis("linear", view, with_gap), (0, 2, 3)
    fits = fit_basis(basis, rows, horizon, (1e-3, 0.1), (1.0, 10.0), steps=steps)
    assert fits.penalties == [(1.0, 1e-3), (1.0, 0.1), (10.0, 1e-3), (10.0, 0.1)]
    assert fits.delta.shape[2] == (1 if horizon is None else 4)
    precision = 1e-9 if horizon is None else 2e-6
    for r, (pooled, ridge) in enumerate(fits.penalties):
        theta, loss, following = predictions(
            sample, "new", linear, 0.9, ridge, pooled, horizon, goals, steps
        )
        own = fits.theta[r].reshape(5, 3, 4)
        assert not own[:, :, ~gap].any()
        np.testing.assert_allclose(own[:, :, gap].reshape(5, -1), theta, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(fits.loss[r], loss, rtol=1e-7)
        np.testing.assert_allclose(
            fits.following[r], following, rtol=10 * precision, atol=10 * precision
        )


@pytest.mark.parametrize(("scale", "kind"), [(1.0, np.float32), (1.001, np.float64)])
def test_large_rewards_of_a_task_are_kept_in_double_precision(scale, kind):
    sample = sample_of(sb.Log(columns([4] * 12, "terminated")))
    sample = replace(sample, rewards=np.where(sample.step, 0.0, -1e9 * scale))
    (view, *_) = views(sample)
    basis = Basis("constant", view, lambda points: np.ones((len(points), 1)))
    rows = Rows.of(sample, "new", 0.9)
    assert fit_basis(basis, rows, 3, (1e-3,), (1.0,)).delta.dtype == kind
    assert fit_basis(basis, rows, None, (1e-3,), (1.0,)).delta.dtype == np.float64


@pytest.mark.parametrize(("cells", "columns_kept"), [(48 * 33, 33), (48 * 33 + 47, 33), (0, 32)])
def test_steps_of_a_long_task_are_drawn(monkeypatch, cells, columns_kept):
    """As many as fit, but at least 32; each stands for those of its interval."""
    monkeypatch.setattr(marginal_dr, "MAX_CELLS", cells)
    horizon, ridge = 70, 0.01
    sample = sample_of(sb.Log(columns([4] * 12, "terminated")))
    (view, *_) = views(sample)
    basis = Basis("linear", view, Monomials(Scaling.of(sample.states), 1))
    rows = Rows.of(sample, "new", 0.9)
    fits = fit_basis(basis, rows, horizon, (ridge,), (1.0,))
    assert fits.delta.shape == (1, 48, columns_kept)
    _, delta, ratio = fit(sample, "new", basis.encode, 0.9, ridge, 1.0, horizon)
    for k in range(5):
        own = sample.folds[sample.episode] == k
        step, lengths = drawn_steps(horizon, columns_kept, k)
        assert lengths.sum() == horizon
        np.testing.assert_allclose(fits.delta[0][own], delta[own][:, step], rtol=1e-5, atol=1e-5)
        expected = ratio[own][:, step] * lengths
        np.testing.assert_allclose(fits.ratio[0][own], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("horizon", "count"), [(10, 4), (7, 7), (100, 33), (5, 1)])
def test_a_step_is_drawn_from_each_interval(horizon, count):
    edges = [k * horizon // count for k in range(count + 1)]
    drawn = []
    for seed in range(40):
        step, length = drawn_steps(horizon, count, seed)
        assert length.tolist() == [high - low for low, high in itertools.pairwise(edges)]
        drawn.append(step)
    seen = [set(column) for column in np.transpose(drawn).tolist()]
    for steps, low, high in zip(seen, edges, edges[1:], strict=False):
        assert steps == set(range(low, high))


def test_traces_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    features, decay = rng.normal(size=(40, 3)), rng.uniform(0.1, 1.2, 40)
    decay[[0, 1, 9, 10, 30]], decay[[5, 20]] = 0.0, 1.0
    expected = features.copy()
    for t in range(1, 40):
        expected[t] += decay[t] * expected[t - 1]
    np.testing.assert_allclose(accumulate_traces(features, decay), expected, rtol=1e-12)


def fits_of(delta, ratio, start):
    """Return fits of one penalty for each entry, of two rows and one episode."""
    R = len(delta)
    return Fits(
        [(1.0, float(k)) for k in range(R)], np.array(start, dtype=float)[:, None],
        np.array([[[one], [0.0]] for one in delta]), np.array([[[0.0], [one]] for one in ratio]),
        np.arange(R)[:, None, None] * np.ones((R, 5, 2)), np.arange(R)[:, None] * np.ones((R, 1)),
        np.arange(R)[:, None, None] * np.ones((R, 2, 1)),
    )  # fmt: skip


def test_numbers_whose_products_overflow_are_left_out():
    """√(largest float) divided by the two numbers of each: sums of their products are finite."""
    limit = np.sqrt(np.finfo(float).max) / 2
    fits = fits_of(
        delta=[1.0, 0.99 * limit, -limit, 1.0, 1.0, np.nan, 1.0, -0.99 * limit],
        ratio=[1.0, 0.99 * limit, 1.0, 1.01 * limit, 1.0, 1.0, np.inf, 2.0],
        start=[1.0, 1e300, 1.0, 1.0, np.inf, 1.0, 1.0, 0.0],
    )
    kept = fits.finite()
    assert [ridge for _, ridge in kept.penalties] == [0.0, 1.0, 7.0]
    for name in ("start", "delta", "ratio", "theta", "loss", "following"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(fits, name)[[0, 1, 7]])
    assert kept.finite() is kept
    full = 0.5 * fits.start, 0.5 * fits.delta
    full[0][0], full[1][7] = np.nan, 1.01 * limit
    (last,) = replace(fits, full=full).finite().penalties
    assert last == kept.penalties[1]
    for actual, part in zip(replace(fits, full=full).finite().final, full, strict=True):
        assert np.array_equal(actual, part[[1]])


class SmoothBasis:
    """A constant and linear functions of some directions, of rows that are numbered."""

    is_smooth = True

    def __init__(self, rows, size, rank, *, small=0.0):
        rng = np.random.default_rng(size)
        hidden = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, size))
        self.phi = np.column_stack([np.ones(rows), hidden + small * rng.normal(size=(rows, size))])
        self.phi[:, -1] = 0.0
        self.requested = None

    def before(self, rows):
        self.requested = rows
        return self.phi[rows]


def test_directions_are_those_that_contain_nearly_all():
    """Orthonormal in units of the root mean square; the constant is apart."""
    basis = SmoothBasis(300, 12, 4)
    order = np.random.default_rng(1).permutation(300)
    directions = leading_directions(basis, order)
    assert basis.requested.tolist() == order.tolist()
    assert directions.shape == (13, 5)
    assert directions[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert not directions[1:, 0].any()
    size = np.sqrt((basis.phi**2).mean(axis=0))
    inner = (directions[1:12, 1:] * size[1:12, None]).T @ (directions[1:12, 1:] * size[1:12, None])
    np.testing.assert_allclose(inner, np.eye(4), atol=1e-9)
    assert not directions[12].any()  # a feature that is never active
    few = basis.phi @ directions
    repeated = few @ np.linalg.lstsq(few, basis.phi, rcond=None)[0]
    np.testing.assert_allclose(repeated, basis.phi, atol=1e-6)


@pytest.mark.parametrize(("rank", "few"), [(8, True), (9, False)])
def test_all_directions_are_kept_if_they_are_nearly_as_many(rank, few):
    """Of ten, at most eight are worth the change."""
    directions = leading_directions(SmoothBasis(200, 10, rank), np.arange(200))
    assert (directions is not None) == few
    noisy = leading_directions(SmoothBasis(200, 10, 3, small=1e-1), np.arange(200))
    assert noisy is None
    quiet = leading_directions(SmoothBasis(200, 10, 3, small=1e-6), np.arange(200))
    assert quiet.shape == (11, 4)


@pytest.mark.parametrize(("rows", "every"), [(2000, 1), (2001, 2), (4000, 2), (4001, 3)])
def test_directions_are_found_from_at_most_two_thousand_rows(rows, every):
    basis = SmoothBasis(rows, 3, 1)
    leading_directions(basis, np.arange(rows))
    assert basis.requested.tolist() == list(range(0, rows, every))


def test_penalties_are_tried_for_each_pooling():
    sample = sample_of(sb.Log(columns([4] * 12, "terminated")))
    (view, *_) = views(sample)
    basis = Basis("constant", view, lambda points: np.ones((len(points), 1)))
    fits = fit_basis(basis, Rows.of(sample, "new", 0.9), None)
    expected = [(pooled, 10.0**-k) for pooled in (1, 100) for k in (5, 4, 3, 2)]
    np.testing.assert_allclose(fits.penalties, expected, rtol=1e-12)


def test_the_consensus_equals_that_of_the_oracle():
    sample = sample_of(sb.Log(mixed(3, d=2)))
    (view, *_), scaling = views(sample), Scaling.of(sample.states)
    bases = [Basis(f"degree {n}", view, Monomials(scaling, n)) for n in (1, 2)]
    bases.append(Basis("constant", view, lambda points: np.ones((len(points), 1))))
    consensus = find_consensus(sample, "new", 0.9, 4, bases=bases, thorough=False)
    owners, fits = zip(
        *[(basis.name, fit(sample, "new", basis.encode, 0.9, ridge, 100.0, 4))
          for basis in bases for ridge in (1e-4, 1e-3, 1e-2)], strict=True
    )  # fmt: skip
    value, dispersion, candidates = weigh(fits, owners, sample.returns(0.9))
    assert [one.basis for one in consensus.candidates] == list(owners)
    assert (consensus.value, consensus.dispersion) == pytest.approx((value, dispersion), rel=1e-4)
    actual = [(one.residual, one.imbalance, one.primal, one.dual) for one in consensus.candidates]
    np.testing.assert_allclose(actual, candidates, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_direct_model_is_the_weighted_sum_of_the_other_folds(parts):
    """q(s, a) = Σ_i φ_i(s)ᵀθ_i^k[a], where k is the rank of the episode's number modulo 5."""
    rng = np.random.default_rng(0)
    bases = [lambda x: x, lambda x: np.column_stack([x**2, x[:, :1], x])][:parts]
    thetas = [rng.normal(size=(5, 3, m)) for m in (2, 5)][:parts]
    numbers = np.array([7, 12, 30, 31, 55, 80, 99], dtype=np.uint64)
    model = ConsensusQ(list(zip(bases, thetas, strict=True)), numbers)
    x, episode = rng.normal(size=(6, 2)), np.array([0, 0, 2, 1, 1, 3])
    batch = SimpleNamespace(
        block_numbers=numbers[[1, 4, 6, 0]], segment=SimpleNamespace(observations=x)
    )
    fold = [{7: 0, 12: 1, 55: 4, 99: 1}[int(batch.block_numbers[e])] for e in episode]
    expected = [
        [sum(f(x[[i]])[0] @ theta[k, a] for f, theta in zip(bases, thetas, strict=True))
         for a in range(3)]
        for i, k in enumerate(fold)
    ]  # fmt: skip
    np.testing.assert_allclose(model(batch, slice(None), episode), expected, rtol=1e-12)


@pytest.mark.parametrize("horizon", [None, 4])
def test_leading_directions_of_smooth_features_give_the_same_estimates(horizon):
    sample = sample_of(sb.Log(columns([8] * 200, "terminated")))
    (view, *_) = views(sample)
    waves = RandomFourier(Scaling.of(sample.states), 80, 3.0)
    smooth, plain = (Basis("waves", view, waves, is_smooth=smooth) for smooth in (True, False))
    rows = Rows.of(sample, "new", 0.9)
    directions = leading_directions(smooth, rows.order)
    assert leading_directions(plain, rows.order) is None
    assert directions.shape[1] < 40
    few, all_of_them = (fit_basis(basis, rows, horizon) for basis in (smooth, plain))
    scale = all_of_them.start[-1].std()
    for some, all_ in ((few.start, all_of_them.start), (few.ratio, all_of_them.ratio)):
        assert (some - all_).std() < 0.01 * all_.std()
    phi = waves(sample.starts)
    weights = few.theta[-1].reshape(5, sample.n_actions, -1)[sample.folds]
    q = np.einsum("em,eam,ea->e", phi, weights, sample.start_pi["new"])
    assert np.allclose(few.start[-1], q, atol=1e-5 * scale)


@pytest.mark.slow
def test_columns_that_are_constant_or_repeat_others_are_left_out_and_reported():
    data = columns([20] * 100, "terminated", following=False)
    plain = sb.evaluate(data, target, gamma=0.9)
    assert not any(finding.code == "W176" for finding in plain.warnings)
    more = data | {"obs_2": np.full(len(data["obs_0"]), 7.0), "obs_3": 32 + 1.8 * data["obs_1"]}
    result = sb.evaluate(more, lambda states: target(states[:, :2]), gamma=0.9)
    (warning,) = (finding for finding in result.warnings if finding.code == "W176")
    assert warning.message == "columns not used: 'obs_2' is constant, 'obs_3' repeats 'obs_1'."
    text = data | {"obs_2": np.where(data["obs_0"] > data["obs_1"], "f", "m")}
    by_text = sb.evaluate(sb.Log(text), "uniform", gamma=0.9)
    assert not any(finding.code == "W176" for finding in by_text.warnings)
    kinds = [
        {one.basis.partition(",")[0] for one in evaluation.diagnoses[0].consensus.candidates}
        for evaluation in (plain, result)
    ]
    assert kinds[0] == kinds[1]
    assert "tiles 6x4" in kinds[0]


@pytest.mark.slow
def test_candidates_that_diverge_over_a_long_task_are_left_out_without_a_warning():
    sample = sample_of(sb.Log(columns([12] * 40, "terminated")))
    (view, *_) = views(sample)
    basis = Basis("waves", view, RandomFourier(Scaling.of(sample.states), 60, 0.5))
    fits = fit_basis(basis, Rows.of(sample, "new", 1.0), 3000, (1e-12, 10.0), (1.0,))
    assert len(fits.penalties) == 2
    assert fits.finite().penalties == [(1.0, 10.0)]


@pytest.mark.slow
def test_consensus_estimates_the_exact_value_of_a_chain():
    case = FAMILIES["graph"].case("near", 3, 2000)
    result = sb.evaluate(case.as_log(), case.target, gamma=case.gamma)
    verdict, estimate = result.verdicts[0], result.estimates[0]
    assert estimate.method == "Marginal DR"
    assert abs(verdict.value - case.truth) < 3 * result.diagnoses[0].interval.error
    assert verdict.low < verdict.value < verdict.high


@pytest.mark.slow
def test_horizon_limits_the_value_of_a_task_without_end():
    """A reward of 1 at each step: the value of H steps is H."""
    data = columns([6] * 60, "truncated", d=3) | {"reward": np.ones(360)}
    for features in ("auto", "polynomial:1"):
        result = sb.evaluate(sb.Log(data), target, gamma=1.0, horizon=8, features=features)
        assert "W154" not in [finding.code for finding in result.warnings]
        assert result.verdicts[0].value == pytest.approx(8.0, rel=1e-2)
    task = sb.Log(data, time_limit="task")
    assert sb.evaluate(task, target, gamma=1.0).verdicts[0].value == pytest.approx(6.0, rel=1e-2)
    with pytest.raises(InvalidParameter, match="up to 6 steps"):
        sb.evaluate(sb.Log(data), target, gamma=1.0, horizon=5)


@pytest.mark.slow
def test_horizon_with_too_many_features_is_refused():
    with pytest.raises(InvalidParameter, match="at most 2,000 features"):
        sb.evaluate(sb.Log(mixed(1)), target, gamma=0.9, horizon=40, features="hash:1000")


def test_a_hidden_state_is_found_by_the_history():
    case = FAMILIES["model-fail"].case("far", 0, 1000)
    verdict = sb.evaluate(case.as_log(), case.target, gamma=case.gamma).verdicts[0]
    hidden = next(gate for gate in verdict.gates if gate.code == "HIDDEN")
    assert not hidden.passed
    assert hidden.sentence.endswith("history; add it to the observations, or give the horizon")
    assert verdict.trust == "doubtful"
    assert verdict.value == pytest.approx(case.truth, abs=0.2)
    verdict = sb.evaluate(case.as_log(), case.target, gamma=1.0, horizon=2).verdicts[0]
    hidden = next(gate for gate in verdict.gates if gate.code == "HIDDEN")
    assert hidden.sentence.endswith("history; add it to the observations")


def test_poor_features_by_hand_are_contradicted():
    """Linear features of a pole on a cart cannot represent its value."""
    case = FAMILIES["cartpole-50"].case("far", 0, 300)
    result = sb.evaluate(
        case.as_log(time_limit="artifact"), case.target, gamma=0.98, features="monomials:1"
    )
    diagnosis = result.diagnoses[0]
    assert diagnosis.gap.consensus == diagnosis.gap.value
    assert diagnosis.verdict.trust != "usable"


@pytest.mark.slow
def test_neither_threads_nor_ids_nor_order_matter():
    case = FAMILIES["double-integrator"].case("near", 1, 12)
    log = {name: np.asarray(column) for name, column in case.log.items()}
    rng = np.random.default_rng(0)
    ids = log["episode_id"]
    episodes = rng.permutation(np.unique(ids))
    order = np.concatenate([np.flatnonzero(ids == episode) for episode in episodes])
    shuffled = {name: column[order] for name, column in log.items()}
    shuffled["episode_id"] = np.cumsum(
        np.append(True, np.diff(shuffled["episode_id"]) != 0)
    ) * 7  # fmt: skip

    def evaluate(rows, threads):
        plain = {
            "episode_id": rows["episode_id"], "action": rows["actions"],
            "reward": rows["rewards"], "behavior_prob": rows["propensities"],
            "terminated": rows["terminated"], "truncated": rows["truncated"],
        }  # fmt: skip
        for k in range(rows["observations"].shape[1]):
            plain |= {f"obs_{k}": rows["observations"][:, k]}
            plain |= {f"next_obs_{k}": rows["next_observations"][:, k]}
        return sb.evaluate(sb.Log(plain), case.target, gamma=0.9, threads=threads).verdicts[0]

    one, two = evaluate(log, 1), evaluate(log, 2)
    assert (one.value, one.low, one.gap) == (two.value, two.low, two.gap)
    other = evaluate(shuffled, 1)
    assert other.value == pytest.approx(one.value, rel=1e-6)
    assert other.gap == pytest.approx(one.gap, rel=1e-4)


def test_candidates_see_what_precedes_a_decision():
    sample = sample_of(sb.Log(columns([3, 2], "terminated")))
    _, clock, history = views(sample)
    assert clock.name == STEP
    assert history.name == HISTORY
    assert clock.before[:, -1].tolist() == [0, 1, 2, 0, 1]
    assert clock.after[:, -1].tolist() == [1, 2, 3, 1, 2]
    so_far = history.before[:, -1]
    assert so_far == pytest.approx(
        [0, *np.cumsum(sample.rewards[:2]), 0, sample.rewards[3]], abs=1e-12
    )
    previous = history.before[:, 3:5]
    assert np.array_equal(previous[1], sample.states[0])
    assert np.array_equal(previous[4], sample.states[3])
    assert np.array_equal(history.after[:, 3:5], sample.states)
    taken = history.before[:, 5:8]
    assert taken[[0, 3]].sum() == 0
    assert taken[[1, 2, 4]].argmax(axis=1).tolist() == sample.actions[[0, 1, 3]].tolist()


def test_candidates_are_functions_of_one_view_and_within_their_limit():
    sample = sample_of(sb.Log(mixed(2, d=3)))
    bases = list(candidates(sample, (20, 60), 70))
    assert {basis.view.name for basis in bases} == {OBSERVATION, STEP, HISTORY}
    for basis in bases:
        rows = np.arange(len(sample.rewards))
        before, after, start = basis.before(rows), basis.after(rows), basis.start()
        assert before.shape == (len(sample.rewards), before.shape[1])
        assert after.shape == before.shape
        assert start.shape == (len(sample.starts), before.shape[1])
        assert before.shape[1] <= 400
        if basis.is_smooth:
            waves, bandwidth = basis.encode.waves, basis.encode.bandwidth
            assert basis.name == f"random Fourier {waves}, bandwidth {bandwidth:.2g}"


def test_sampler_keeps_whole_episodes_up_to_a_number_of_rows():
    log = sb.Log(columns(np.arange(1, 41), "terminated"))
    targets = as_targets({"new": target}, log)
    sampler = EpisodeSampler(targets, 300)
    read_log(log, [sampler], targets, mergeable=False)
    sample = sampler.sample
    assert sample.total == 40
    lengths = np.bincount(sample.episode)
    longest = 300 // 16
    assert np.array_equal(lengths, np.minimum(sample.numbers + 1, longest))
    assert lengths.sum() <= 300
    rewards = np.split(np.asarray(columns(np.arange(1, 41), "terminated")["reward"]),
                       np.cumsum(np.arange(1, 40)))  # fmt: skip
    kept = [rewards[number][:longest] for number in sample.numbers]
    assert np.array_equal(sample.rewards, np.concatenate(kept))


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_the_influence_of_a_sample_gives_the_error_of_regression_estimation(share):
    """Two-phase sampling: variance c²σ²/n of what all episodes tell, residual variance by m."""
    rng = np.random.default_rng(0)
    n, m = 400, 100
    influence = rng.normal(size=n)
    which = rng.permutation(n)[:m]
    at = influence[which] - influence[which].mean()
    rest = rng.normal(size=m)
    rest -= rest.mean() + at * (rest @ at) / (at @ at)  # not correlated with what is known
    consensus = SimpleNamespace(value=5.0, scores=5.0 + share * at + rest)
    sampled = SampleConsensus(consensus, SimpleNamespace(numbers=which), is_main=True)
    value, adjusted = sampled.adjusted(influence)
    correction = share * (influence.mean() - influence[which].mean())
    assert value == pytest.approx(5.0 + correction)
    outside = np.setdiff1d(np.arange(n), which)
    np.testing.assert_allclose(
        adjusted[outside], share * (influence[outside] - influence.mean()), atol=1e-12
    )
    np.testing.assert_allclose(
        adjusted[which] - share * (influence[which] - influence.mean()), rest * n / m, atol=1e-12
    )
    complete = SampleConsensus(consensus, SimpleNamespace(numbers=np.arange(m)), is_main=True)
    assert complete.adjusted(rng.normal(size=m))[0] == 5.0


def test_a_control_variate_counts_by_at_most_all_of_its_change():
    """A slope above 1 or below 0, or of an influence that does not vary."""
    which, influence = np.array([0, 2, 5]), np.array([1.0, 4.0, 2.0, 0.0, 3.0, 6.0, 2.0, 6.0])
    at = influence[which] - 3.0
    for slope, used in ((3.0, 1.0), (-2.0, 0.0), (0.5, 0.5)):
        scores = 7.0 + slope * at + np.array([4.0, -5.0, 1.0])  # the rest is not correlated
        consensus = SimpleNamespace(value=5.0, scores=scores)
        sampled = SampleConsensus(consensus, SimpleNamespace(numbers=which), is_main=True)
        own = scores - scores.mean()
        actual = min(max(own @ at / (at @ at), 0.0), 1.0)
        value, adjusted = sampled.adjusted(influence)
        assert value == pytest.approx(5.0 - actual * (3.0 - influence.mean()))
        expected = actual * (influence - influence.mean())
        expected[which] += 8 / 3 * (own - actual * at)
        np.testing.assert_allclose(adjusted, expected, atol=1e-12)
        assert actual == pytest.approx(used, abs=0.6)
    flat = SampleConsensus(consensus, SimpleNamespace(numbers=which), is_main=True)
    assert flat.adjusted(np.full(8, 2.0))[0] == 5.0


def test_all_estimates_of_a_sample_are_shifted_alike():
    @dataclass
    class Estimates:
        value: float
        scores: np.ndarray
        opinions: dict
        separate: dict

    which, influence = np.array([0, 2, 5]), np.array([1.0, 4.0, 2.0, 0.0, 3.0, 6.0])
    actual = Estimates(5.0, 2.0 + influence[which], {"step": 4.0}, {"step": 3.0, "history": 1.0})
    sampled = SampleConsensus(actual, SimpleNamespace(numbers=which), is_main=True)
    shift = influence.mean() - influence[which].mean()
    shifted = sampled.on_all(influence)
    assert shifted.value == pytest.approx(5.0 + shift)
    assert shifted.opinions == {"step": pytest.approx(4.0 + shift)}
    assert shifted.separate == {
        "step": pytest.approx(3.0 + shift), "history": pytest.approx(1.0 + shift)
    }  # fmt: skip


def test_folds_of_two_episodes_are_enough_for_a_consensus():
    for episodes in (9, 10):
        log = sb.Log(columns([4] * episodes, "terminated"))
        targets = as_targets({"new": target}, log)
        sample = sample_episodes(log, targets, 10_000)[0]
        (view, *_) = views(sample)
        constant = Basis("constant", view, lambda points: np.ones((len(points), 1)))
        results = sample_consensus(
            sample, targets, 0.9, bases=lambda target, basis=constant: [basis], is_main=False
        )
        assert list(results) == ["new"] * (episodes == 10)


def test_the_sample_is_the_same_episodes_whatever_else_is_read():
    """Those of the smallest numbers, by which all are ordered."""
    log = sb.Log(columns([3, 7, 5, 10, 2, 8] * 10, "terminated"))
    targets = as_targets({"new": target}, log)
    every, *smaller = (
        sample_episodes(log, targets, rows)[0].numbers.tolist() for rows in (10_000, 300, 160)
    )
    assert len(every) == 60
    for some in smaller:
        assert 10 < len(some) < 60
        assert some == every[: len(some)]


@pytest.mark.slow
def test_control_variate_uses_all_episodes_of_a_larger_log(monkeypatch):
    module = importlib.import_module("saddleback.ope.evaluate")
    case = FAMILIES["double-integrator"].case("near", 0, 30)
    complete = sb.evaluate(case.as_log(), case.target, gamma=case.gamma)
    monkeypatch.setattr(module, "ESTIMATE_ROWS", case.as_log().rows // 2)
    part = sb.evaluate(case.as_log(), case.target, gamma=case.gamma)
    assert part.diagnoses[0].interval.n == complete.diagnoses[0].interval.n
    distance = abs(part.verdicts[0].value - complete.verdicts[0].value)
    assert 0 < distance < 3 * part.diagnoses[0].interval.error


def test_dispersion_and_opinions_bound_what_contradicts_a_value():
    case = FAMILIES["cartpole-positions"].case("far", 0, 100)
    sample, horizon = sample_episodes(
        case.as_log(), as_targets({"new": case.target}, case.as_log()), 4000
    )
    consensus = find_consensus(sample, "new", case.gamma, horizon, thorough=False)
    assert horizon == case.horizon
    squares = consensus.dispersion**2 + (consensus.value - 30.0) ** 2 + 4.0
    for view, opinion in consensus.opinions.items():
        squares += (opinion - consensus.value) ** 2
        squares += 0.1 * (consensus.separate[view] - consensus.value) ** 2
    assert consensus.contradiction(30.0, 2.0) == pytest.approx(CAUTION * np.sqrt(squares))
    assert consensus.hidden[0] in (STEP, HISTORY)
    primal = sum(
        candidate.primal for candidate in consensus.candidates if candidate.view == OBSERVATION
    )
    assert primal == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("values", "ess", "expected"),
    [
        ((3.0, 5.0), 6.0, 2.0),
        ((-4.0, 0.5), 6.0, 0.5),
        ((0.5, 3.0), 6.0, 0.0),
        ((3.0, 5.0), 4.0, 0.0),
    ],
)
def test_weighted_estimates_are_heard_if_both_are_on_one_side(values, ess, expected):
    names = dict(zip(("DR", "WDR"), values, strict=True))
    weighted = SimpleNamespace(comparable=True, ess=ess, names=tuple(names), value=names.get)
    assert distance_on_one_side(1.0, weighted) == expected
    weighted.comparable = False
    assert distance_on_one_side(1.0, weighted) == 0.0
