"""Every compiled path against the plain oracle: all rules, all kinds of streams."""

import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

import saddleback as sb
from helpers.problems import as_list, problem_for, rule_named, steps_of, tables, with_discounts
from oracles import naive
from saddleback import Experience, learn, learn_offline, sample
from saddleback.engine import Chunker, OfflineLearners, TransitionSampler, record_points
from saddleback.rules import terms

pytestmark = pytest.mark.kernel

RULES = list(naive.ALGORITHMS)


def compare(name, parameter, problem, experience, *, eta=1.0, power=0.0, offsets=(0, 0)):
    rng = np.random.default_rng(1)
    theta, omega = rng.normal(size=(2, problem.p))
    alphas, betas = [0.01, 0.03], [0.05, 0.02]
    rule = sb.TDRC(parameter, eta) if name == "TDRC" else rule_named(name, parameter)
    run = learn(
        rule,
        problem,
        alpha=sb.Schedule(alphas, power, offsets[0]),
        beta=sb.Schedule(betas, power, offsets[1]),
        experience=experience,
        theta0=theta,
        omega0=omega,
        bound=1e300,
    )
    for k, (alpha, beta) in enumerate(zip(alphas, betas, strict=True)):
        expected = naive.learn(
            name,
            parameter,
            *tables(problem),
            as_list(experience),
            lambda t, c=alpha: c / (t + offsets[0]) ** power,
            lambda t, c=beta: c / (t + offsets[1]) ** power,
            theta,
            omega,
            eta,
        )
        np.testing.assert_allclose(run.theta[k], expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(run.omega[k], expected[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("parameter", [0.0, 0.6, 1.0])
def test_continuing(name, parameter):
    problem = problem_for(name, seed=11)
    compare(name, parameter, problem, sample(problem, steps_of(400, 120), rng=2))


@pytest.mark.parametrize("name", RULES)
def test_episodic_problems_match_the_oracle(name):
    problem = problem_for(name, seed=12, termination=0.15)
    experience = sample(problem, steps_of(400, 160), rng=3)
    assert experience.starts.sum() > 20
    compare(name, 0.7, problem, experience)


@pytest.mark.parametrize("name", RULES)
def test_variable_discounts_and_truncated_episodes_match_the_oracle(name):
    problem = problem_for(name, seed=13, termination=0.05)
    experience = sample(problem, steps_of(400, 160), rng=4)
    experience = with_discounts(experience, np.random.default_rng(5))
    compare(name, 0.8, problem, experience)


@pytest.mark.parametrize("beta", [0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("name", ["GTD", "TDRC"])
def test_shrinkage_with_a_negative_factor_matches_the_oracle(name, beta):
    """ω shrinks by 1 − βη: to zero in one step, with alternating sign, or to underflow."""
    problem = problem_for(name, seed=20)
    experience = sample(problem, 1500 if beta == 0.5 else 200, rng=5)
    rule = sb.TDRC(0.3) if name == "TDRC" else sb.GTD()
    run = learn(rule, problem, alpha=1e-4, beta=beta, experience=experience, bound=1e300)
    theta, omega = naive.learn(
        name, 0.3, *tables(problem), as_list(experience), lambda t: 1e-4, lambda t: beta,
        np.zeros(problem.p), np.zeros(problem.p),
    )  # fmt: skip
    np.testing.assert_allclose(run.theta, theta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(run.omega, omega, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("name", ["GES", "GQ", "TDRC"])
def test_schedules_match_the_oracle(name, power):
    problem = problem_for(name, seed=14)
    experience = sample(problem, 300, rng=5)
    compare(name, 0.5, problem, experience, power=power, eta=0.3)
    compare(name, 0.5, problem, experience, power=power, offsets=(10, 3.5))


@pytest.mark.parametrize("name", RULES)
def test_estimated_moments_match_the_oracle(name):
    """Â, b̂, M̂ are the oracle's means, and their errors the spread of batch means."""
    problem = problem_for(name, seed=28, termination=0.1)
    estimated = sb.System.estimate(problem, rule_named(name, 0.6), steps=400, rng=3, batches=4)
    steps = naive.walk(name, 0.6, *tables(problem), as_list(sample(problem, 400, rng=3)))
    moments = [
        (np.outer(e, gamma * b - phi), reward * e, np.outer(phi, phi))
        for e, phi, b, _, reward, gamma in steps
    ]
    for matrix, error, samples in zip(
        (estimated.A, estimated.b, estimated.M),
        estimated.errors,
        zip(*moments, strict=True),
        strict=True,
    ):
        means = np.array(samples).reshape(4, 100, *matrix.shape).mean(axis=1)
        np.testing.assert_allclose(matrix, means.mean(axis=0), rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(error, means.std(axis=0, ddof=1) / 2, rtol=1e-8, atol=1e-13)


def test_estimates_of_several_rules_share_a_stream(monkeypatch):
    problem = problem_for("GES", seed=29)
    rules = [sb.GES(0.0), sb.GES(0.5), sb.GTB(0.9)]
    unchunked = sb.System.estimate(problem, rules, steps=300, rng=3)
    monkeypatch.setattr("saddleback.system.system.CHUNK", 7)
    together = sb.System.estimate(problem, rules, steps=300, rng=3)
    for rule, one, reference in zip(rules, together, unchunked, strict=True):
        single = sb.System.estimate(problem, rule, steps=300, rng=3)
        assert np.array_equal(one.A, single.A)
        assert single.rule == rule
        # Chunks, of a fixed size, are added last step first: another size rounds differently.
        np.testing.assert_allclose(one.A, reference.A, rtol=1e-12)
        np.testing.assert_allclose(one.errors.A, reference.errors.A, rtol=1e-9)


def test_a_long_stream_crosses_chunks(monkeypatch):
    problem = problem_for("GES", seed=15)
    unchunked = learn(sb.GES(0.5), problem, alpha=0.01, beta=0.02, steps=300, rng=6)
    monkeypatch.setattr("saddleback.engine.chunking.CHUNK", 7)
    chunked = learn(sb.GES(0.5), problem, alpha=0.01, beta=0.02, steps=300, rng=6, record=11)
    assert np.array_equal(unchunked.theta, chunked.theta)
    emphatic = problem_for("ETD", seed=15, termination=0.1)
    compare("ETD", 0.3, emphatic, sample(emphatic, 300, rng=7))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_expected_iteration_matches_the_oracle(name, power):
    system = sb.System.exact(problem_for(name, seed=18), rule_named(name, 0.6))
    rng = np.random.default_rng(1)
    theta, omega = rng.normal(size=(2, system.p))
    offset = 7.0 if power else 0.0
    alphas = np.array([0.01, 0.03])
    run = sb.iterate(
        system, alpha=sb.Schedule(alphas, power, offset), beta=sb.Schedule(0.05, power), steps=100,
        theta0=theta, omega0=omega,
    )  # fmt: skip
    for k, alpha in enumerate(alphas):
        expected = naive.iterate(
            name, system.A, system.b, system.M, lambda t, c=alpha: c / (t + offset) ** power,
            lambda t: 0.05 / t**power, 100, theta, omega, A_mu=system.A_mu,
        )  # fmt: skip
        np.testing.assert_allclose(run.theta[k], expected[0], rtol=1e-10)
        np.testing.assert_allclose(run.omega[k], expected[1], rtol=1e-10)


def test_expected_divergence_is_recorded_and_frozen():
    system = sb.System.exact(sb.problems.two_state(gamma=0.999), sb.ExpectedSarsa(0.0))
    run = sb.iterate(system, alpha=[0.0, 0.5], steps=400, theta0=1.0, bound=1e3, record=100)
    # θ₁ grows by 1 + αA₁₁ each step, A₁₁ = (6γ − 5)/4.
    first = int(np.ceil(np.log(1e3) / np.log1p(0.5 * (6 * 0.999 - 5) / 4)))
    assert run.diverged_at.tolist() == [-1, first]
    assert np.abs(run.theta).max() <= 1e3
    assert np.isinf(run.curves["mspbe"][-1, 1])


@pytest.mark.parametrize("name", ["ExpectedSarsa", "Sarsa", "TD", "VTrace"])
def test_offline_on_a_horizon(name, monkeypatch):
    monkeypatch.setattr(sys.modules["saddleback.learning.learn_offline"], "CHUNK", 32)
    problem = problem_for(name, seed=16)
    updates, horizon = 120, 15
    run = learn_offline(
        rule_named(name, 0.8), problem, alpha=0.01, steps=updates, horizon=horizon, rng=8,
        theta0=1.0, record=50,
    )  # fmt: skip
    experience = sample(problem, updates + horizon - 1, rng=8)
    expected = naive.learn_offline(
        name,
        0.8,
        *tables(problem),
        as_list(experience),
        lambda t: 0.01,
        np.ones(problem.p),
        updates,
        horizon,
    )
    np.testing.assert_allclose(run.theta, expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["ExpectedSarsa", "TD", "VTrace"])
def test_offline_by_episodes(name, monkeypatch):
    monkeypatch.setattr("saddleback.engine.chunking.CHUNK", 16)
    problem = problem_for(name, seed=17, termination=0.1)
    run = learn_offline(
        rule_named(name, 0.8), problem, alpha=0.01, episodes=15, rng=9, theta0=1.0, record=[0, 5]
    )
    steps = sample(problem, 2000, rng=9)
    ends = np.flatnonzero(steps.starts)[15]
    assert run.updates.tolist() == np.flatnonzero(steps.starts)[[0, 5, 15]].tolist()
    expected = naive.learn_offline(
        name,
        0.8,
        *tables(problem),
        as_list(steps[:ends]),
        lambda t: 0.01,
        np.ones(problem.p),
        ends,
        10**9,
    )
    np.testing.assert_allclose(run.theta, expected, rtol=1e-10)


def test_divergence_is_recorded_and_frozen():
    problem = sb.problems.two_state(gamma=0.999)
    bound = 100.0
    run = learn(
        sb.ExpectedSarsa(0.0), problem, alpha=[0.0, 0.1, 50.0], steps=2000, rng=0, theta0=1.0,
        bound=bound, record=100,
    )  # fmt: skip
    assert run.ok.tolist() == [True, False, False]
    assert run.outcome[0] == "ok"
    assert run.outcome[1] == f"diverged at step {run.diverged_at[1]}"
    curve = run.curves["mspbe"]
    assert not np.isnan(curve).any()
    after = run.updates >= run.diverged_at[1]
    assert np.isinf(curve[after, 1]).all()
    assert np.isfinite(curve[~after, 1]).all()

    first = naive.learn(
        "ExpectedSarsa", 0.0, *tables(problem), as_list(sample(problem, run.diverged_at[1] - 1, 0)),
        lambda t: 0.1, lambda t: 0.0, np.ones(2), np.zeros(2),
    )[0]  # fmt: skip
    np.testing.assert_allclose(run.theta[1], first, rtol=1e-10)
    s, a, r, s1, _, gamma, _ = as_list(sample(problem, run.diverged_at[1], 0))[-1]
    delta = r + gamma * first @ problem.features[s1, 0] - first @ problem.features[s, a]
    assert abs(delta) * (1 + 0.1) > bound


@pytest.mark.parametrize(
    "name", ["ExpectedSarsa", "GES", "GQ", "TDRC", "GTD", "TrueOnlineTD", "TrueOnlineGTD"]
)
def test_a_frozen_learner_is_as_it_was_before_it_diverged(name):
    """Also in the middle of an episode, with a trace alive and sums postponed."""
    problem = problem_for(name, seed=21, gamma=0.97)
    alphas, beta = np.array([1e-4, 0.7, 1.5]), 0.3
    experience = sample(problem, 400, rng=7)
    run = learn(
        rule_named(name, 0.8), problem, alpha=alphas, beta=beta, experience=experience, bound=1e4
    )
    assert run.ok[0]
    assert not run.ok[2]
    for k in np.flatnonzero(~run.ok):
        before = as_list(experience)[: run.diverged_at[k] - 1]
        theta, omega = naive.learn(
            name, 0.8, *tables(problem), before, lambda t, k=k: alphas[k], lambda t: beta,
            np.zeros(problem.p), np.zeros(problem.p),
        )  # fmt: skip
        np.testing.assert_allclose(run.theta[k], theta, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(run.omega[k], omega, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_an_overflowing_trace_stops_all_learners_once():
    """ρ = 10 for hundreds of steps: a learner that diverged before keeps its step number."""
    P = np.ones((1, 2, 1))
    mdp = sb.FiniteMDP(P, [[1.0, 1.0]], gamma=0.9)
    problem = sb.Problem(mdp, np.ones((1, 2, 1)), target=[[1.0, 0.0]], behaviour=[[0.1, 0.9]])
    steps = 900
    same = dict(states=np.zeros(steps, int), next_states=np.zeros(steps, int))
    actions = np.repeat([0, 1], [600, 300])
    experience = Experience(
        **same, actions=actions, next_actions=np.append(actions[1:], 1), rewards=np.ones(steps),
        discounts=np.full(steps, 0.9), starts=np.arange(steps) == 0,
    )  # fmt: skip
    run = learn(
        sb.ExpectedSarsa(0.9), problem, alpha=[1.0, 1e-300], experience=experience, bound=1e6
    )
    before = as_list(experience)[: run.diverged_at[0] - 1]
    theta, _ = naive.learn(
        "ExpectedSarsa", 0.9, *tables(problem), before, lambda t: 1.0, lambda t: 0.0, np.zeros(1),
        np.zeros(1),
    )  # fmt: skip
    assert 1 < run.diverged_at[0] < 20
    np.testing.assert_allclose(run.theta[0], theta)
    assert 100 < run.diverged_at[1] < 600
    assert np.isfinite(run.theta).all()


def test_a_growing_scale_leaves_zero_weights_at_zero():
    """GTD with 1 − β < −1 while ω = 0: its scale grows without bound, and ω stays 0."""
    problem = sb.problems.random_walk(rewards=(0.0, 0.0))
    run = learn(sb.GTD(), problem, alpha=0.1, beta=2.5, steps=3000, rng=0)
    assert run.ok
    assert (run.omega == 0).all()


def test_one_enormous_step_is_divergence():
    problem = problem_for("ExpectedSarsa", seed=33)
    run = learn(sb.ExpectedSarsa(0.5), problem, alpha=1e20, steps=1, rng=0)
    assert run.outcome == "diverged at step 1"
    assert (run.theta == 0).all()


def test_episodes_that_end_with_a_chunk_leave_no_empty_chunk(monkeypatch):
    problem = problem_for("GES", seed=32, termination=0.1)
    starts = np.flatnonzero(sample(problem, 1000, rng=5).starts)
    monkeypatch.setattr("saddleback.engine.chunking.CHUNK", int(starts[4]))
    sizes = [
        len(chunk)
        for chunk in Chunker(
            TransitionSampler(problem, np.random.default_rng(np.random.SeedSequence(5)))
        ).episodes(4)
    ]
    assert sizes == [starts[4]]


def test_a_dual_variable_beyond_the_bound_is_divergence():
    problem = sb.problems.two_state(0.9, rewards=[[100, -100], [50, 200]])
    run = learn(sb.GES(0.0), problem, alpha=0.0, beta=2.0, steps=500, rng=0, bound=1e5)
    assert run.outcome == f"diverged at step {run.diverged_at}"
    assert (run.theta == 0).all()
    system = sb.System.exact(problem, sb.GES(0.0))
    expected = sb.iterate(system, alpha=0.0, beta=2.0, steps=500, bound=1e5)
    assert not expected.ok
    assert (expected.theta == 0).all()


@pytest.mark.parametrize("name", ["ExpectedSarsa", "TD"])
def test_offline_with_variable_discounts_truncated_episodes_and_a_schedule(name):
    problem = problem_for(name, seed=19, termination=0.05)
    experience = with_discounts(sample(problem, 150, rng=4), np.random.default_rng(5))
    theta = np.ones((1, problem.p))
    learners = OfflineLearners(
        terms(rule_named(name, 0.8), problem), problem.mdp.n_actions,
        sb.Schedule([0.05], 0.5, offset=20), theta, 1e300,
    )  # fmt: skip
    learners.advance(experience, 70, 20)
    learners.advance(experience[70:], 60, 20)
    expected = naive.learn_offline(
        name, 0.8, *tables(problem), as_list(experience), lambda t: 0.05 / (t + 20) ** 0.5,
        np.ones(problem.p), 130, 20,
    )  # fmt: skip
    np.testing.assert_allclose(theta[0], expected, rtol=1e-10)


def test_learning_by_episodes(monkeypatch):
    """Complete episodes equal their number of steps; curves are recorded at their ends."""
    problem = problem_for("GES", seed=32, termination=0.1)
    settings = dict(alpha=0.01, beta=0.02, rng=5, theta0=1.0)
    starts = np.flatnonzero(sample(problem, 1000, rng=5).starts)
    by_steps = learn(sb.GES(0.5), problem, **settings, steps=int(starts[30]))
    monkeypatch.setattr("saddleback.engine.chunking.CHUNK", 7)
    run = learn(sb.GES(0.5), problem, **settings, episodes=30, record=[0, 1, 2, 17])
    assert run.updates.tolist() == starts[[0, 1, 2, 17, 30]].tolist()
    assert np.array_equal(run.theta, by_steps.theta)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_overflow_is_divergence_not_nan():
    problem = sb.problems.two_state(gamma=0.999)
    run = learn(
        sb.GES(0.99), problem, alpha=1e300, beta=1e300, steps=200, rng=0, theta0=1.0, bound=1e308
    )
    assert not run.ok
    assert np.isfinite(run.theta).all()
    assert np.isfinite(run.omega).all()


def test_slices_of_experience_can_be_joined():
    experience = sample(sb.problems.random_walk(), 100, rng=1)
    joined = experience[:30] + experience[30:]
    assert isinstance(joined, Experience)
    assert all(
        np.array_equal(getattr(joined, c), getattr(experience, c))
        for c in ("states", "actions", "rewards", "next_states", "discounts", "starts")
    )
    assert repr(joined) == repr(experience)


@pytest.mark.parametrize("name", ["GES", "GQ", "TDRC", "ExpectedSarsa"])
def test_results_do_not_depend_on_threads_and_blocks(name, monkeypatch):
    problem = problem_for(name, seed=31)
    settings = dict(alpha=np.geomspace(1e-3, 2.0, 21), beta=0.05, steps=70, rng=4)
    one, two, five = (
        learn(rule_named(name, 0.7), problem, **settings, threads=n) for n in (1, 2, 5)
    )
    monkeypatch.setattr("saddleback.engine.chunking.CHUNK", 13)
    chunked = learn(rule_named(name, 0.7), problem, **settings, threads=3, record=17)
    queued = learn(rule_named(name, 0.7), problem, **settings, threads=3, record=70)
    for other in (two, five, chunked, queued):
        assert np.array_equal(one.theta, other.theta)
        assert np.array_equal(one.omega, other.omega)
        assert np.array_equal(one.diverged_at, other.diverged_at)
    assert not one.ok.all()


def test_rules_share_experience_and_runs_are_independent():
    """Several rules learn from the same experience; threads change nothing."""
    problem = problem_for("GES", seed=31)
    rules = [rule_named(name, 0.7) for name in ("GES", "GQ", "ExpectedSarsa")]
    settings = dict(alpha=[0.01, 0.02], beta=0.05, steps=60, record=20)
    seed = np.random.SeedSequence(4)
    together = learn(rules, problem, **settings, rng=seed, runs=3)
    repeated = learn(rules, problem, **settings, rng=seed, runs=3, threads=2)
    single = learn(rules[1], problem, **settings, rng=np.random.SeedSequence(4).spawn(3)[2])
    for one, two in zip(together, repeated, strict=True):
        assert np.array_equal(one.theta, two.theta)
        assert np.array_equal(one.curves["mspbe"], two.curves["mspbe"])
    assert together[0].theta.shape == (3, 2, problem.p)
    assert together[0].curves["mspbe"].shape == (4, 3, 2)
    assert together[0].updates.shape == (4, 3)
    assert np.array_equal(together[1].theta[2], single.theta)
    assert np.array_equal(together[1].curves["mspbe"][:, 2], single.curves["mspbe"])
    assert not np.array_equal(together[0].theta[0], together[0].theta[1])


def test_curves_do_not_depend_on_the_number_of_threads():
    """A block of one learner has another memory layout; sums over θ must not depend on it."""
    problem = sb.problems.random_mdp(rng=1, states=12, actions=2, features=20)
    settings = dict(alpha=[1e-3, 1e-2], beta=0.01, steps=100, rng=7)
    one, two = (learn(sb.GES(0.5), problem, **settings, threads=n) for n in (1, 2))
    for name, curve in one.curves.items():
        assert np.array_equal(curve, two.curves[name])


def user_stream(problem, rule, steps):
    """Return experience, and the arguments of its stream."""
    t = sb.rules.terms(rule, problem)
    experience = sb.sample(problem, steps, rng=5)
    pairs = experience.states * problem.mdp.n_actions + experience.actions
    next_pairs = experience.next_states * problem.mdp.n_actions + experience.next_actions
    columns = dict(
        phi=t.phi[pairs],
        bootstrap=t.bootstrap[next_pairs],
        correction=t.correction[next_pairs],
        rewards=experience.rewards,
        discounts=experience.discounts,
        decay=np.append(0.0, experience.discounts[:-1]) * t.kappa[pairs],
        weight=t.weight[pairs],
        starts=experience.starts,
    )
    return experience, columns


@pytest.mark.parametrize("name", ["GES", "GQ", "TD", "TDRC"])
@pytest.mark.parametrize("sparse", [False, True])
def test_user_streams_equal_those_of_problems(name, sparse):
    problem, rule = problem_for(name, seed=31), rule_named(name, 0.7)
    experience, columns = user_stream(problem, rule, 200)
    if sparse:
        columns |= {k: csr_array(columns[k]) for k in ("phi", "bootstrap", "correction")}
    stream = sb.Stream.of(**columns)
    settings = dict(alpha=[0.01, 0.02], beta=0.05, bound=1e9)
    one = learn(rule, problem, experience=experience, **settings)
    two = learn(rule, stream, **settings)
    np.testing.assert_allclose(one.theta, two.theta, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(one.omega, two.omega, rtol=1e-12, atol=1e-15)
    estimated = sb.System.estimate(stream, rule, batches=4)
    expected = sb.System.estimate(problem, rule, rng=5, steps=200, batches=4)
    np.testing.assert_allclose(estimated.A, expected.A, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(estimated.errors.b, expected.errors.b, rtol=1e-9, atol=1e-15)


def test_record_points_by_interval_and_by_list():
    assert record_points(10, 4).tolist() == [0, 4, 8, 10]
    assert record_points(10, [3, 3, 1]).tolist() == [1, 3, 10]
    for message, record in (("whole update counts", [0.5]), ("lists 11", [11])):
        with pytest.raises(sb.errors.InvalidParameter, match=message):
            record_points(10, record)


def test_kept_batches_average_to_the_estimate():
    problem = problem_for("GES", seed=31)
    system = sb.System.estimate(
        problem, sb.GES(0.3), steps=200, rng=0, batches=4, keep_batches=True
    )
    assert system.batch_steps == 50
    for part, mean in enumerate((system.A, system.b, system.M)):
        np.testing.assert_allclose(np.mean([b[part] for b in system.batches], axis=0), mean)
    for other in system.resample(3, rng=0):
        assert not np.array_equal(other.A, system.A)
        np.testing.assert_allclose(other.A, system.A, atol=10 * system.errors.A.max())
