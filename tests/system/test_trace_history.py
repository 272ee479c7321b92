"""Traces that cap products of ratios: the cap itself, and systems on chains of histories."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import capped, tables
from oracles import naive
from saddleback import System, problems
from saddleback.checks import check_rule
from saddleback.errors import InvalidParameter, Undefined
from saddleback.system import trace_history
from saddleback.system.trace_history import unroll


def few_ratios(termination):
    """A problem whose ratios are 2, 1/2 and 0, so that few products occur."""
    rng = np.random.default_rng(4)
    P = rng.dirichlet(np.ones(4), (4, 3))
    mu = np.tile([0.4, 0.4, 0.2], (4, 1))
    ends = np.full_like(P, termination) if termination else None
    mdp = sb.FiniteMDP(P, rng.normal(size=(4, 3)), 0.9, terminal=ends)
    return sb.Problem(mdp, rng.normal(size=(4, 3, 5)), np.tile([0.8, 0.2, 0.0], (4, 1)), mu)


@pytest.mark.parametrize("termination", [0.0, 0.2])
@pytest.mark.parametrize(
    "cap", [1.0, *(pytest.param(c, marks=pytest.mark.slow) for c in (3.0, 8.0))]
)
@pytest.mark.slow
def test_few_products_give_the_exact_system(cap, termination):
    problem = few_ratios(termination)
    mdp = problem.mdp
    system = System.exact(problem, capped(0.8, cap))
    assert system.errors is None
    A, b = naive.capped_system(
        0.8, cap, *tables(problem), mdp.P, mdp.ends, mdp.R, mdp.gamma, mdp.start, steps=400
    )
    np.testing.assert_allclose(system.A, A, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(system.b, b, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(system.C, system.A.T + system.M, atol=1e-12)


def test_the_cap_joins_retrace_to_importance_sampling():
    problem = problems.random_mdp(rng=2, off_policy=0.9)
    for cap, rule in ((1.0, sb.GRetrace(0.8)), (1e12, sb.GES(0.8))):
        one, other = System.exact(problem, capped(0.8, cap)), System.exact(problem, rule)
        np.testing.assert_allclose(one.A, other.A, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(one.b, other.b, rtol=1e-10, atol=1e-13)


@pytest.mark.statistical
def test_a_grid_states_its_error():
    problem, rule = problems.random_mdp(rng=1, off_policy=0.9), capped(0.8, 3.0)
    system = System.exact(problem, rule)
    assert 0 < system.errors.A.max() < 1e-3
    assert "on a grid" in system._repr_html_()
    fine = unroll(problem, rule, levels=200)
    assert fine.problem.mdp.n_states == 6 * 201
    sampled = System.estimate(problem, rule, steps=1_000_000, rng=0, batches=40)
    assert (np.abs(sampled.A - system.A) < 5 * sampled.errors.A + system.errors.A).all()
    assert (np.abs(sampled.b - system.b) < 5 * sampled.errors.b + system.errors.b).all()


def test_products_stay_below_the_cap():
    problem = problems.random_mdp(rng=1, off_policy=1.0)
    experience = sb.sample(problem, 3000, rng=0)
    streams = sb.engine.FiniteSource(problem, experience).streamer([capped(1.0, 2.5)])(experience)
    kappa = streams[0].decay / problem.mdp.gamma
    rho = problem.rho[experience.states, experience.actions]
    largest, of_ratios = 1.0, 1.0
    for t in range(1, 3000):
        largest, of_ratios = max(1.0, largest * kappa[t]), max(1.0, of_ratios * rho[t])
        assert largest <= 2.5 * (1 + 1e-12)
    assert of_ratios > 2.5 or (kappa[1:] < rho[1:] - 1e-9).any()


@pytest.mark.parametrize("cap", [1.0, 2.5, 50.0])
@pytest.mark.slow
def test_capped_rules_keep_the_contract(cap):
    check_rule(capped(0.7, cap))
    assert sb.Rule.parse(capped(0.7, cap).spec) == capped(0.7, cap)


def test_ceilings_and_noise_use_the_chain_of_histories():
    problem = few_ratios(0.0)
    rules = sb.GRetrace(0.9), capped(0.9, 4.0), sb.GES(0.9)
    assert sb.theory.trace_radius(problem, rules[1]) < sb.theory.trace_radius(problem, rules[2])
    low, middle, high = (np.trace(sb.theory.noise_covariance(problem, r.with_lambda(0.4)))
                         for r in rules)  # fmt: skip
    assert low < middle < high
    car = problems.mountain_car()
    np.testing.assert_allclose(sb.theory.trace_radius(car, capped(0.9, 20.0)), (0.99 * 0.9) ** 2)


def test_what_a_memory_does_not_allow():
    trace = sb.CappedImportance(0.5, 2.0)
    with pytest.raises(InvalidParameter, match="has a memory, for which the correction x"):
        sb.Rule(trace, sb.Correction(), sb.Expected())
    with pytest.raises(InvalidParameter, match="needs action values"):
        sb.Rule(trace, sb.Saddle(), sb.State())
    with pytest.raises(InvalidParameter, match="cap must be at least 1"):
        sb.CappedImportance(0.5, 0.5)
    with pytest.raises(Undefined, match="the 400 states of this problem are 3600, more than 3000"):
        System.exact(problems.random_mdp(rng=0, states=400), capped(0.5, 2.0))
    with pytest.raises(Undefined, match="no operator on values"):
        sb.system.lambda_operator(few_ratios(0.0), capped(0.5, 2.0), np.zeros(12))


def test_products_are_all_that_can_occur():
    """Each from the ones before by every ratio, between 1 and the cap."""
    for ratios, cap, expected in (
        ([0.0, 0.5, 2.0], 8.0, [1, 2, 4, 8]),
        ([3.0], 10.0, [1, 3, 9, 10]),
        ([0.4, 1.0], 5.0, [1]),
        ([1.5, 2.0], 3.2, [1, 1.5, 2, 2.25, 3, 3.2]),
        ([2.0, 2.0 * (1 + 1e-12)], 4.0, [1, 2, 4]),
    ):
        products = trace_history._products(np.array(ratios), cap, len(expected) + 1)
        np.testing.assert_allclose(products, expected)
        assert trace_history._products(np.array(ratios), cap, len(expected)) is None


def test_between_two_levels_the_logarithm_is_kept_in_the_mean():
    grid = np.geomspace(1.0, 8.0, 4)
    values = np.array([1.0, 1.1, 2.0, 3.0, 5.0, 7.9, 8.0])
    probabilities = trace_history._on_grid(values, grid)
    assert probabilities.shape == (7, 5)
    assert (probabilities[:, 0] == 0).all()  # there is a history
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(probabilities[:, 1:] @ np.log(grid), np.log(values), atol=1e-12)
    assert [np.flatnonzero(row).tolist() for row in probabilities] == [
        [1], [1, 2], [2], [2, 3], [3, 4], [3, 4], [4],
    ]  # fmt: skip
    only = trace_history._on_grid(np.ones(2), np.ones(1))
    assert only.tolist() == [[0.0, 1.0]] * 2


@pytest.mark.parametrize(
    ("nodes", "levels", "expected"), [(36, 64, 10), (33, 64, 9), (20, 64, 8), (36, 9, 9)]
)
def test_a_grid_has_as_many_levels_as_there_is_room_for(monkeypatch, nodes, levels, expected):
    """Two less than nodes for each state, from 8 to the largest number."""
    problem, rule = problems.random_mdp(rng=1, states=3, off_policy=0.9), capped(0.8, 3.0)
    monkeypatch.setattr(trace_history, "NODES", nodes)
    monkeypatch.setattr(trace_history, "LEVELS", levels)
    chain = unroll(problem, rule)
    assert chain.levels == expected
    assert chain.problem.mdp.n_states == 3 * (expected + 1)
    monkeypatch.setattr(trace_history, "LARGEST", 3 * (expected + 1))
    unroll(problem, rule)
    monkeypatch.setattr(trace_history, "LARGEST", 3 * (expected + 1) - 1)
    with pytest.raises(Undefined, match=f"3 states of this problem are {3 * (expected + 1)}"):
        unroll(problem, rule)


def test_the_error_of_a_grid_is_the_change_from_half_of_its_levels(monkeypatch):
    problem, rule = problems.random_mdp(rng=1, states=3, off_policy=0.9), capped(0.8, 3.0)
    monkeypatch.setattr(trace_history, "LEVELS", 20)
    system = System.exact(problem, rule)
    monkeypatch.setattr(trace_history, "LEVELS", 10)
    half = System.exact(problem, rule)
    np.testing.assert_allclose(system.errors.A, abs(system.A - half.A), atol=1e-15)
    np.testing.assert_allclose(system.errors.b, abs(system.b - half.b), atol=1e-15)
    assert not system.errors.M.any()
