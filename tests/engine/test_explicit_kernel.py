"""Hybrid and true on-line rules, whose kernel stores every trace."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import as_list, problem_for
from oracles import naive
from saddleback import System, learn
from saddleback.errors import InvalidParameter, RuleMismatch, Undefined

pytestmark = pytest.mark.kernel

FURTHER = [sb.HTD(0.7), sb.TrueOnlineTD(0.7), sb.TrueOnlineGTD(0.7), sb.TrueOnlineETD(0.7)]


@pytest.mark.parametrize("alpha", [0.05, 0.5])
@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_true_online_td_is_the_online_lambda_return(lam, alpha):
    """After every step, on-policy, for step sizes of any size."""
    problem = problem_for("TD", seed=3, termination=0.05, off_policy=0.0)
    steps = sb.sample(problem, 200, rng=1)
    start, end = next(
        (a, b) for a, b in zip(np.flatnonzero(steps.starts), np.flatnonzero(steps.starts)[1:],
                               strict=False) if b - a > 8
    )  # fmt: skip
    episode, theta = steps[int(start) : int(end)], np.ones(problem.p)
    expected = naive.online_lambda_return(lam, problem.features, as_list(episode), alpha, theta)
    for n in range(1, len(episode) + 1):
        run = learn(
            sb.TrueOnlineTD(lam), problem, alpha=alpha, experience=episode[:n], theta0=1.0,
            bound=1e12,
        )  # fmt: skip
        np.testing.assert_allclose(run.theta, expected[n], rtol=1e-9, atol=1e-12)


def test_on_policy_htd_is_td():
    problem = problem_for("TD", seed=3, off_policy=0.0)
    options = dict(alpha=[0.02, 0.1], steps=300, rng=0, theta0=1.0)
    hybrid = learn(sb.HTD(0.7), problem, beta=0.01, **options)
    td = learn(sb.TD(0.7), problem, **options)
    np.testing.assert_allclose(hybrid.theta, td.theta, rtol=1e-8)
    system = System.exact(problem, sb.HTD(0.7))
    np.testing.assert_allclose(system.A_mu, system.A, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "rule", ["GES:0.9", "GQ:0.9", "ExpectedSarsa:0.5", "Retrace:0.9+RegularisedCorrection"]
)
def test_both_kernels_agree_on_forms_that_need_only_one(rule, monkeypatch):
    problem = problem_for("GES", seed=4, termination=0.05)
    options = dict(alpha=[1e-3, 1e-2], beta=1e-3, steps=300, rng=2, theta0=-1.0, metrics={})
    lazy = learn(rule, problem, **options)
    monkeypatch.setattr(sb.Form, "has_further_traces", True)
    explicit = learn(rule, problem, **options)
    np.testing.assert_allclose(explicit.theta, lazy.theta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(explicit.omega, lazy.omega, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", FURTHER, ids=str)
def test_chunks_and_threads_change_nothing(rule, monkeypatch):
    problem = problem_for("TD", seed=5, termination=0.05)
    options = dict(alpha=[0.01, 0.05, 0.2], beta=0.05, steps=300, rng=6)
    unchunked = learn(rule, problem, **options)
    monkeypatch.setattr("saddleback.engine.chunking.CHUNK", 7)
    for run in (learn(rule, problem, **options), learn(rule, problem, threads=3, **options)):
        assert np.array_equal(run.theta, unchunked.theta)
        assert np.array_equal(run.omega, unchunked.omega)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("rule", FURTHER, ids=str)
def test_a_trace_that_overflows_stops_all_learners(rule):
    steps = 900
    mdp = sb.FiniteMDP(np.ones((1, 2, 1)), [[1.0, 1.0]], gamma=0.9)
    problem = sb.Problem(mdp, np.ones((1, 1)), target=[[1.0, 0.0]], behaviour=[[0.1, 0.9]])
    zeros, starts = np.zeros(steps, int), np.arange(steps) == 0
    experience = sb.Experience(
        zeros, zeros, np.ones(steps), zeros, zeros, np.full(steps, 0.9), starts
    )
    run = learn(rule, problem, alpha=[1e-300, 1.0], beta=1e-300, experience=experience, bound=1e6)
    assert (run.diverged_at > 0).all()
    assert np.isfinite(run.theta).all()
    assert np.isfinite(run.omega).all()


@pytest.mark.statistical
def test_the_second_trace_is_estimated(tmp_path):
    problem = problem_for("HTD", seed=31, off_policy=1.0, states=3)
    exact = System.exact(problem, sb.HTD(0.5))
    sampled = System.estimate(problem, sb.HTD(0.5), steps=400_000, rng=0)
    np.testing.assert_allclose(sampled.A_mu, exact.A_mu, atol=0.02 * np.abs(exact.A_mu).max())
    assert np.abs(exact.A_mu - exact.A).max() > 0.04 * np.abs(exact.A_mu).max()
    loaded = sb.system.load(sb.system.save(exact, tmp_path / "htd.npz"))
    assert np.array_equal(loaded.A_mu, exact.A_mu)
    with pytest.raises(Undefined, match="needs A_mu"):
        System(exact.A, exact.b, exact.M, exact.C, sb.HTD(0.5)).coupling()


@pytest.mark.statistical
@pytest.mark.parametrize("rule", FURTHER, ids=str)
def test_further_traces_reach_the_fixed_point(rule):
    problem = problem_for("TD", seed=44, off_policy=0.3, gamma=0.8)
    star = System.exact(problem, rule).fixed_point
    run = learn(
        rule, problem, alpha=sb.inverse_sqrt(0.1), beta=sb.inverse_sqrt(0.2), steps=400_000, rng=1
    )
    assert np.linalg.norm(run.theta - star) < 0.1 * np.linalg.norm(star)


def test_what_further_traces_do_not_allow():
    problem = problem_for("TD", seed=3)
    rows = np.ones((3, 1))
    stream = sb.Stream.of(phi=rows, bootstrap=rows, rewards=np.ones(3), discounts=0.9, decay=0.5)
    with pytest.raises(RuleMismatch, match="needs a second trace"):
        learn(sb.HTD(0.5), stream, alpha=0.1, beta=0.1)
    with pytest.raises(RuleMismatch, match="not a plain semi-gradient rule"):
        sb.learn_offline(sb.TrueOnlineTD(0.5), problem, alpha=0.1, steps=9, horizon=3)
    with pytest.raises(RuleMismatch, match="needs a bootstrap that is the next φ"):
        sb.Rule(sb.Importance(0.5), sb.TrueOnline(), sb.Expected())
    with pytest.raises(InvalidParameter, match="not defined with an emphasis"):
        sb.Rule(sb.Importance(0.5), sb.Hybrid(), sb.State(), emphasis=sb.FollowOn(0.5))
    with pytest.raises(Undefined, match="is not modelled"):
        sb.mean_square(problem, sb.HTD(0.0), alpha=0.1, beta=0.1)
    system = System.estimate(problem, sb.HTD(0.5), steps=1000, rng=0, keep_batches=True)
    with pytest.raises(Undefined, match="is not modelled"):
        sb.step_sizes(system)
