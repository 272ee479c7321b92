"""Streams of problems, simulations and logs: the same steps give a rule the same numbers."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import csr_array

import saddleback as sb
from helpers.logs import columns
from helpers.problems import rule_named
from oracles import naive
from saddleback.engine import Trajectory
from saddleback.engine.sources import FiniteSource, Simulation, as_source, mean_length
from saddleback.errors import InvalidNumbers, RuleMismatch
from saddleback.features import Fourier, OneHot
from saddleback.log import Log
from saddleback.ope.statistics import Statistics
from saddleback.ope.streaming import Streamed
from saddleback.rules import (
    Bootstrap,
    Correction,
    Expected,
    Importance,
    Retrace,
    Rule,
    Saddle,
    Trace,
)
from saddleback.rules.terms import tabulate_steps

STATES, ACTIONS, GAMMA = 5, 3, 0.9
FOURIER = Fourier((-3.0, -3.0), (3.0, 3.0), order=1)


@dataclass(frozen=True)
class Blend(Bootstrap):
    """Half the expectation under π and half the next action taken."""

    def rows(self, phi, pi):
        return (Expected().rows(phi, pi) + phi) / 2


@dataclass(frozen=True)
class Greedy(Bootstrap):
    """The action that π prefers: a user's bootstrap that ignores the next action."""

    def rows(self, phi, pi):
        best = phi[np.arange(len(pi)), pi.argmax(axis=1)]
        return np.repeat(best[:, None], phi.shape[1], axis=1)


@dataclass(frozen=True)
class Capped(Importance):
    """A truncated ratio, written as a subclass."""

    def kappa(self, pi, mu):
        return np.minimum(1.2, super().kappa(pi, mu))


@dataclass(frozen=True)
class Broken(Trace):
    """A trace that is not a number where the ratio is above 1."""

    def kappa(self, pi, mu):
        return np.where(pi > mu, np.nan, 0.5)


def tabular(values):
    """Return an episodic problem with one feature per row of the values."""
    problem = sb.problems.random_mdp(
        GAMMA, rng=3, states=STATES, actions=ACTIONS, values=values, termination=0.1
    )
    rows = (STATES, ACTIONS) if values == "action" else (STATES,)
    features = np.eye(int(np.prod(rows))).reshape(*rows, -1)
    return sb.Problem(problem.mdp, features, problem.target, problem.behaviour)


def experience_of(problem, steps=200):
    """Return experience that ends with a complete episode."""
    taken = sb.sample(problem, steps, rng=5)
    return taken[: int(np.flatnonzero(taken.starts)[-1])]


def log_of(problem, experience, segment=7, full=True):
    """Return the experience as a log."""
    data = {
        "episode_id": np.cumsum(experience.starts),
        "obs_0": experience.states.astype(float),
        "action": experience.actions,
        "reward": experience.rewards,
        "terminated": experience.discounts == 0,
        "truncated": np.zeros(len(experience), dtype=bool),
        "behavior_prob": problem.behaviour[experience.states, experience.actions],
    }
    if full:
        data |= {f"mu_{a}": problem.behaviour[experience.states, a] for a in range(ACTIONS)}
    return Log(data, segment=segment)


def dense(streams, p, rule):
    """Return φ, b, x (or None) and the columns of streams, as dense arrays."""
    parts = []
    for c in streams:
        values = np.ones(len(c.phi_index)) if len(c.phi_value) == 1 else c.phi_value
        steps = len(c.reward)
        tables = [(values, c.phi_index, c.phi_from), (c.next_b, c.next_index, c.next_from)]
        if rule.form.coefficients.correction:
            tables.append((c.next_x, c.next_index, c.next_from))
        arrays = [
            csr_array((value, index, first.astype(np.int64)), shape=(steps, p)).toarray()
            for value, index, first in tables
        ]
        ended = c.discount == 0  # nothing is bootstrapped there
        for table in arrays[1:]:
            table[ended] = 0.0
        parts.append([*arrays, c.reward, c.discount, c.decay, c.weight])
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def problem_stream(problem, rule, experience):
    return dense(FiniteSource(problem).streamer([rule])(experience), problem.p, rule)


def simulation_stream(problem, rule, experience):
    e = experience
    simulation = Simulation(
        "table", lambda rng: None, OneHot(STATES), problem.target, problem.behaviour, GAMMA, 1,
        problem.values,
    )  # fmt: skip
    steps = Trajectory(
        e.states[:, None].astype(float), e.next_states[:, None].astype(float), e.states,
        e.next_states, e.actions, e.next_actions, e.rewards, e.discounts, e.starts,
    )  # fmt: skip
    return dense(simulation.streamer([rule])(steps), problem.p, rule)


def log_stream(problem, rule, experience, full=True):
    """Return the streams that a pass over a log hands to its sink."""
    kept = []
    log = log_of(problem, experience, full=full)
    learner = Streamed(
        target=lambda states: problem.target[states[:, 0].astype(int)],
        features=OneHot(STATES), gamma=GAMMA, rule=rule, alpha=0.1, beta=0.1,
    ).fit(log)  # fmt: skip
    for streams in learner._streams(log):
        kept += streams
    return dense(kept, problem.p, rule)


RULES = {
    "GES": sb.GES(0.6),
    "GQ": sb.GQ(0.6),
    "GTB": sb.GTB(0.9),
    "GRetrace": sb.GRetrace(0.8),
    "ExpectedSarsa": sb.ExpectedSarsa(0.4),
    "TD": sb.TD(0.5),
    "TDC": sb.TDC(0.5),
    "GTD": sb.GTD(),
    "ETD": sb.ETD(0.3),
    "ETD, own beta": rule_named("ETD, own beta", 0.3),
    "VTrace": rule_named("VTrace", 0.7),
    "HTD": sb.HTD(0.7),
    "TrueOnlineGTD": sb.TrueOnlineGTD(0.7),
    "capped importance": rule_named("capped importance", 0.9),
}


@pytest.mark.kernel
@pytest.mark.parametrize("stream", [problem_stream, simulation_stream, log_stream])
@pytest.mark.parametrize("name", RULES)
def test_streams_equal_the_equations(name, stream):
    rule = RULES[name]
    problem = tabular(rule.values)
    e = experience_of(problem)
    phi, b, *x, reward, discount, decay, weight = stream(problem, rule, e)
    columns = zip(
        e.states, e.actions, e.rewards, e.next_states, e.next_actions, e.discounts, e.starts,
        strict=True,
    )  # fmt: skip
    parameter = 0.0 if name == "GTD" else getattr(rule.trace, "lam", 0.0)
    steps = naive.walk(
        name, parameter, problem.features, problem.target, problem.behaviour, list(columns)
    )
    traces, trace = [], np.zeros(problem.p)
    for t in range(len(e.rewards)):
        trace = decay[t] * trace + weight[t] * phi[t]
        traces.append(trace)
    expected = zip(*steps, strict=True)
    e_t, phi_t, b_t, x_t, reward_t, discount_t = map(np.array, expected)
    close = {"rtol": 1e-13, "atol": 1e-13}
    np.testing.assert_allclose(traces, e_t, **close)
    np.testing.assert_array_equal(phi, phi_t)
    np.testing.assert_array_equal(reward, reward_t)
    np.testing.assert_array_equal(discount, discount_t)
    going = discount_t != 0
    assert going.any()
    np.testing.assert_allclose(b[going], b_t[going], **close)
    if x and rule.form.coefficients.correction:
        np.testing.assert_allclose(x[0][going], x_t[going], **close)


@pytest.mark.parametrize("form", [Saddle(), Correction()])
@pytest.mark.parametrize("bootstrap", [Expected(), Blend(), Greedy()])
@pytest.mark.parametrize("stream", [simulation_stream, log_stream])
@pytest.mark.kernel
def test_a_bootstrap_means_the_same_on_problems_simulations_and_logs(bootstrap, form, stream):
    problem = tabular("action")
    e = experience_of(problem)
    rule = Rule(Importance(0.7), form, bootstrap)
    expected, actual = (f(problem, rule, e) for f in (problem_stream, stream))
    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-13, atol=1e-13)


@pytest.mark.kernel
def test_the_next_action_in_a_log_is_the_one_of_the_following_row():
    problem = tabular("action")
    e = experience_of(problem)
    going = np.flatnonzero(e.discounts > 0)
    for size in (7, 1000):
        segments = list(log_of(problem, e, segment=size).segments())
        actions = np.concatenate([segment.next_actions for segment in segments])
        np.testing.assert_array_equal(actions[going], e.next_actions[going])


def target(observations):
    pi = np.exp(np.column_stack([observations, np.zeros(len(observations))]))
    return pi / pi.sum(axis=1, keepdims=True)


def statistics_of(data, rule):
    return Statistics.of(Log(data), rule, target, features=FOURIER, gamma=0.9)


@pytest.mark.kernel
def test_a_log_without_the_next_action_is_refused_if_the_bootstrap_depends_on_it():
    data = columns([4, 4], ["terminated", "truncated"], seed=1)
    statistics_of(data, Rule(Importance(0.5), Saddle(), Greedy()))
    with pytest.raises(RuleMismatch, match=r"1 truncated episode.*action that would have followed"):
        statistics_of(data, Rule(Importance(0.5), Saddle(), Blend()))
    ended = columns([4, 4], "terminated", seed=1)
    statistics_of(ended, Rule(Importance(0.5), Saddle(), Blend()))


@pytest.mark.kernel
def test_a_correction_needs_the_full_behaviour_unless_the_trace_is_the_ratio():
    """κ of a subclass of Importance is not λρ, so μκ depends on μ of every action."""
    problem = tabular("action")
    e = experience_of(problem)
    capped = Rule(Capped(0.9), Correction(), Expected())
    with pytest.raises(RuleMismatch, match="needs the full behaviour policy"):
        log_stream(problem, capped, e, full=False)
    for one, other in zip(
        problem_stream(problem, capped, e), log_stream(problem, capped, e), strict=True
    ):
        np.testing.assert_allclose(other, one, rtol=1e-13, atol=1e-13)
    plain = Rule(Importance(0.9), Correction(), Expected())
    for one, other in zip(
        problem_stream(problem, plain, e), log_stream(problem, plain, e, full=False), strict=True
    ):
        np.testing.assert_allclose(other, one, rtol=1e-13, atol=1e-13)
    blend = Rule(Importance(0.9), Correction(), Blend())
    with pytest.raises(RuleMismatch, match="needs the full behaviour policy"):
        log_stream(problem, blend, e, full=False)


@pytest.mark.kernel
def test_a_correction_needs_the_behaviour_in_the_next_state_of_truncated_episodes():
    data = columns([4, 4], ["terminated", "truncated"], seed=1)
    lacking = {name: column for name, column in data.items() if not name.startswith("next_mu")}

    def learn_from(data, trace, form):
        rule = Rule(trace, form, Expected())
        Streamed(
            target=target, features=FOURIER, gamma=0.9, rule=rule, alpha=0.1, beta=0.1
        ).fit(Log(data))  # fmt: skip

    learn_from(data, Retrace(0.5), Correction())
    with pytest.raises(RuleMismatch, match=r"in every next state.* 1 of its steps"):
        learn_from(lacking, Retrace(0.5), Correction())
    learn_from(lacking, Importance(0.5), Correction())
    learn_from(lacking, Retrace(0.5), Saddle())


def test_kappa_is_checked_on_logs_as_on_problems():
    problem = tabular("action")
    e = experience_of(problem)
    rule = Rule(Broken(), Saddle(), Expected())
    for stream in (problem_stream, simulation_stream, log_stream):
        with pytest.raises(InvalidNumbers, match=r"kappa.* is nan.*must be finite and >= 0"):
            stream(problem, rule, e)


@pytest.mark.kernel
def test_clipped_propensities_do_not_change_the_mean_of_the_bootstrap():
    """Rows of μ with a clipped propensity do not add up to 1; x is b minus Σμκφ all the same."""
    pi, mu = np.full((1, 2), 0.5), np.array([[0.3, 0.99]])
    steps = np.array([0]), np.array([0])
    terms = tabulate_steps(sb.GQ(0.5), np.eye(2), pi, mu, steps, correction=True)
    expected = pi[0] - mu[0] * 0.5 * pi[0] / mu[0]
    np.testing.assert_allclose(terms.correction[0], expected)


def test_the_mean_length_of_episodes_is_that_of_the_walk():
    """A fair walk from the middle of 7 states takes 4² steps to exit."""
    problem = sb.problems.random_walk(states=7)
    estimate = mean_length(as_source("test", problem))
    assert estimate == pytest.approx(16.0, rel=0.2)
    assert mean_length(as_source("test", problem)) == estimate
