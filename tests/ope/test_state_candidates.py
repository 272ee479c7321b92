"""Marginal ratios of states times the logged ratio of the action."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.families import FAMILIES

from helpers.decision_logs import target
from helpers.logs import mixed
from oracles.marginal_dr import state_ratios
from saddleback import Log
from saddleback.features import Monomials, Scaling
from saddleback.log.target_policies import as_targets
from saddleback.ope.candidates import Basis, candidates, views
from saddleback.ope.consensus import find_consensus
from saddleback.ope.episode_sample import FOLDS, sample_episodes
from saddleback.ope.fold_sums import Rows
from saddleback.ope.marginal_dr import RIDGES, fit_basis
from saddleback.ope.state_candidates import MANY, StateBasis, state_candidates


def sample_of(log, policy=target, **options):
    return sample_episodes(log, as_targets({"new": policy}, log), 10_000, **options)[0]


@pytest.fixture(scope="module")
def sample():
    return sample_of(Log(mixed(3, d=2)))


def linear(sample, **options):
    view = next(iter(views(sample)))
    return Basis("linear", view, Monomials(Scaling.of(sample.states), 1), **options)


@pytest.mark.parametrize("horizon", [None, 4])
@pytest.mark.parametrize("ridge", [1e-4, 0.1])
def test_ratios_equal_those_of_the_oracle(sample, horizon, ridge):
    basis = StateBasis("weighted linear", linear(sample).view, linear(sample).encode)
    rows = replace(Rows.shared(sample, "new", 0.9), goals=np.zeros((len(sample.rewards), 2)))
    fits = fit_basis(basis, rows, horizon, (ridge,), (1.0,))
    expected = state_ratios(sample, "new", basis.encode, 0.9, ridge, horizon)
    precision = 1e-9 if horizon is None else 2e-6
    assert np.allclose(fits.ratio[0], expected, rtol=precision, atol=precision)
    assert fits.loss.tolist() == [[np.inf, np.inf]]  # values of states predict nothing of actions


def test_values_are_the_same_for_all_actions(sample):
    basis = StateBasis("weighted linear", linear(sample).view, linear(sample).encode)
    theta = np.random.default_rng(0).normal(size=(FOLDS, basis.start().shape[1]))
    weights = basis.by_action(theta, 3)
    assert weights.shape == (FOLDS, 3, theta.shape[1])
    assert (weights == theta[:, None]).all()


def test_ratios_of_actions_are_those_of_both_policies(sample):
    ratios = sample.action_ratios("new")
    taken = sample.taken_pi("new")
    np.testing.assert_allclose(ratios * sample.propensities, taken, rtol=1e-12)
    assert len(set(ratios.tolist())) > 2
    unknown = sample.propensities.copy()
    unknown[3] = np.nan
    assert replace(sample, propensities=unknown).action_ratios("new") is None
    values = np.zeros((len(unknown), 1))
    assert replace(sample, action_values=values).action_ratios("new") is None
    assert Rows.shared(replace(sample, propensities=unknown), "new", 0.9).ratios is None


def test_they_are_for_few_points_or_many_actions(sample):
    exact, plain = linear(sample, is_exact=True), linear(sample)
    assert state_candidates(sample, "new", [plain]) == []
    (one,) = state_candidates(sample, "new", [exact])
    assert (one.name, one.view, one.encode) == ("weighted linear", exact.view, exact.encode)
    assert one.is_exact
    assert not one.is_smooth
    unknown = np.full(len(sample.rewards), np.nan)
    assert state_candidates(replace(sample, propensities=unknown), "new", [exact]) == []
    for K, count in ((1, 0), (MANY, 0), (MANY + 1, 1)):
        several = replace(
            sample, actions=sample.actions * 0, next_pi={"new": np.ones((len(unknown), K)) / K},
            start_pi={"new": np.ones((len(sample.starts), K)) / K},
        )  # fmt: skip
        assert len(state_candidates(several, "new", [plain])) == count
        assert len(state_candidates(several, "new", [exact])) == (K > 1)


def test_single_decisions_have_none(sample):
    """Their Marginal DR is the estimate that needs no propensities."""
    once = replace(sample, step=np.zeros_like(sample.step))
    assert state_candidates(once, "new", [linear(sample, is_exact=True)]) == []


def test_there_is_one_of_each_kind(sample):
    bases = list(candidates(sample, (8, 16), 30))
    observed = [basis for basis in bases if basis.view.name == "observation"]
    for k, basis in enumerate(observed):
        if basis.name == "linear":
            observed[k] = replace(basis, is_exact=True)
    chosen = state_candidates(sample, "new", [*observed, *bases[len(observed) :]])
    names = [one.name for one in chosen]
    assert {one.view.name for one in chosen} == {"observation"}
    assert sum("Fourier" in name for name in names) == 1
    assert {"weighted constant", "weighted linear", "weighted quadratic"} <= set(names)
    assert [one.is_smooth for one in chosen] == ["Fourier" in name for name in names]


@pytest.mark.slow
def test_propensities_help_where_points_are_few():
    """In 64 episodes of a gridworld many actions of a cell are rare, even if μ is near π."""
    errors = {}
    for seed in range(3):
        case = FAMILIES["gridworld"].case("near", seed, 64)
        sample = sample_of(case.as_log(), case.target, horizon=case.horizon)
        without = replace(sample, propensities=np.full(len(sample.rewards), np.nan))
        for kind, one in (("with", sample), ("without", without)):
            consensus = find_consensus(one, "new", case.gamma, case.horizon, thorough=False)
            errors.setdefault(kind, []).append((consensus.value - case.truth) / case.spread)
            ridges = {c.ridge for c in consensus.candidates if c.basis.startswith("weighted")}
            assert ridges == ({*RIDGES[1:]} if kind == "with" else set())
    rmse = {kind: np.sqrt(np.mean(np.square(errors[kind]))) for kind in errors}
    assert rmse["with"] < 0.06
    assert rmse["with"] < rmse["without"]
