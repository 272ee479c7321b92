"""Bad input raises one clear exception, recognised by its message."""

import re
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from scipy.sparse import csr_array

import saddleback as sb
from saddleback import (
    GES,
    TD,
    ExpectedSarsa,
    Experience,
    FiniteMDP,
    Problem,
    Rule,
    Sarsa,
    System,
    iterate,
    learn,
    learn_offline,
    problems,
    rules,
    sample,
)
from saddleback import errors as e

P2 = np.array([[[0.5, 0.5], [0.2, 0.8]], [[1.0, 0.0], [0.0, 1.0]]])
R2 = np.zeros((2, 2))
HALF = np.full((2, 2), 0.5)


def edited(array, index, value):
    array = np.array(array, dtype=float)
    array[index] = value
    return array


def complaint(kind, message):
    return pytest.raises(kind, match=re.escape(message))


@pytest.fixture
def two():
    return problems.two_state()


@pytest.fixture
def good():
    return FiniteMDP(P2, R2, 0.9)


# FiniteMDP.


@pytest.mark.parametrize(
    ("kind", "message", "arguments"),
    [
        (e.InvalidProbabilities, "P[0, 1] sums to 0.7, not 1", dict(P=edited(P2, (0, 1, 1), 0.5))),
        (e.InvalidProbabilities, "P[0, 0] sums to 1.0000001, not 1", dict(P=edited(P2, (0, 0, 0), 0.5000001))),
        (e.InvalidShape, "P must be a rectangular array of numbers: it holds complex128", dict(P=P2 + 0j)),
        (e.InvalidParameter, "terminal lists state 0 twice", dict(terminal=[0, 0])),
        (e.InvalidShape, "terminal must be a rectangular array", dict(terminal=[[0], [0, 1]])),
        (e.InvalidParameter, "gamma must be a number in [0, 1], got True", dict(gamma=True)),
        (e.InvalidProbabilities, "P[0, 1, 0] is negative (-0.2)", dict(P=edited(P2, (0, 1), [-0.2, 1.2]))),
        (e.InvalidProbabilities, "P[1, 0, 1] is NaN", dict(P=edited(P2, (1, 0, 1), np.nan))),
        (e.InvalidNumbers, "R[1, 0] is inf", dict(R=edited(R2, (1, 0), np.inf))),
        (e.InvalidNumbers, "R[0, 0] is nan (2 such entries)", dict(R=edited(R2, (slice(None), 0), np.nan))),
        (e.InvalidShape, "P must have shape [S, A, S], got [2, 2]", dict(P=R2)),
        (e.InvalidShape, "P must be a rectangular array of numbers", dict(P=[[1, 2], [3]])),
        (e.InvalidShape, "R must have shape [2, 2] or [2, 2, 2] to match P, got [3, 2]", dict(R=np.zeros((3, 2)))),
        (e.InvalidParameter, "gamma must be a number in [0, 1], got 1.5", dict(gamma=1.5)),
        (e.InvalidParameter, "gamma must be a number in [0, 1], got nan", dict(gamma=np.nan)),
        (e.InvalidParameter, "gamma must be < 1 on a continuing problem, got 1", dict(gamma=1)),
        (e.InvalidShape, "start must have shape [2], got [3]", dict(start=[1, 0, 0])),
        (e.InvalidProbabilities, "start sums to 0.9, not 1", dict(start=[0.5, 0.4])),
        (e.InvalidParameter, "start[1] is 0.5 but state 1 is terminal", dict(start=[0.5, 0.5], terminal=[1])),
        (e.InvalidParameter, "terminal lists state 2, but states run from 0 to 1", dict(terminal=[2])),
        (e.InvalidParameter, "every state is terminal", dict(terminal=[0, 1])),
        (e.InvalidShape, "terminal must be state indices, a boolean mask [2]", dict(terminal=[0.5])),
        (e.InvalidParameter, "terminal[0, 0, 0] is 2; it must be a probability", dict(terminal=np.full((2, 2, 2), 2.0))),
    ],
)  # fmt: skip
def test_an_invalid_mdp_is_refused(kind, message, arguments):
    with complaint(kind, message):
        FiniteMDP(**(dict(P=P2, R=R2, gamma=0.9) | arguments))


def test_invalid_policies_of_an_mdp_are_refused(good):
    with complaint(e.InvalidProbabilities, "policy[1] sums to 0.9, not 1"):
        good.v([[0.5, 0.5], [0.5, 0.4]])
    with complaint(e.InvalidShape, "policy must have shape [2, 2], got [2]"):
        good.q([0.5, 0.5])


def test_a_policy_that_never_terminates_is_refused():
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 0] = 1.0
    mdp = FiniteMDP(P, np.zeros((3, 2)), 1.0, start=[1, 0, 0], terminal=[2])
    forever = [[1.0, 0.0]] * 3
    with complaint(
        e.NeverEnds, "under the policy to evaluate an episode that reaches states [0, 1]"
    ):
        mdp.v(forever)
    with complaint(
        e.NeverEnds, "under the behaviour policy an episode that reaches states [0, 1] never"
    ):
        Problem(mdp, np.eye(3), target=forever, behaviour=forever)


def test_an_environment_without_a_transition_table_is_refused():
    class Continuous:
        unwrapped = object()

    with complaint(e.InvalidParameter, "object has no transition table P"):
        FiniteMDP.from_gymnasium(Continuous(), gamma=0.9)
    with complaint(e.InvalidParameter, "Pass the environment, gymnasium.make('FrozenLake-v1')"):
        FiniteMDP.from_gymnasium("FrozenLake-v1", gamma=0.9)

    class Odd:
        P: ClassVar = {1: {0: [(1.0, 1, 0.0, True)]}}

    with complaint(e.InvalidParameter, "Odd.P is not a table P[s][a]"):
        FiniteMDP.from_gymnasium(Odd(), gamma=0.9)
    with complaint(e.InvalidParameter, "Taxi with fickle_passenger=True"):
        FiniteMDP.from_gymnasium(gymnasium.make("Taxi-v4", fickle_passenger=True), gamma=0.9)


# Problem.


@pytest.mark.parametrize(
    ("kind", "message", "arguments"),
    [
        (e.InvalidShape, "features must have shape [2, 2, p] for action values or [2, p]", dict(features=np.ones((3, 4)))),
        (e.InvalidShape, "got [2, 0]", dict(features=np.ones((2, 0)))),
        (e.InvalidNumbers, "features[1, 0] is nan", dict(features=edited(np.eye(2), (1, 0), np.nan))),
        (e.InvalidProbabilities, "target[0] sums to 1.5", dict(target=[[0.5, 1.0], [0.5, 0.5]])),
        (e.InvalidProbabilities, "behaviour[1, 1] is negative (-0.5)", dict(behaviour=[[0.5, 0.5], [1.5, -0.5]])),
        (e.InvalidProbabilities, "target[0, 0] is NaN", dict(target=[[np.nan, 1.0], [0.5, 0.5]])),
        (e.CoverageError, "state 0: action 1, state 1: action 1", dict(behaviour=[[1.0, 0.0]] * 2)),
    ],
)  # fmt: skip
def test_an_invalid_problem_is_refused(good, kind, message, arguments):
    with complaint(kind, message):
        Problem(good, **(dict(features=np.eye(2), target=HALF, behaviour=HALF) | arguments))


def test_coverage_names_the_first_few_of_many():
    n = 9
    P = np.full((n, 2, n), 1 / n)
    mdp = FiniteMDP(P, np.zeros((n, 2)), 0.9)
    with complaint(e.CoverageError, "state 4: action 0 and 4 more"):
        Problem(mdp, np.eye(n), target=[[1.0, 0.0]] * n, behaviour=[[0.0, 1.0]] * n)


# Rules.


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("Importance: lam must be a number in [0, 1], got 1.2", lambda: GES(1.2)),
        ("Importance: lam must be a number in [0, 1], got nan", lambda: GES(float("nan"))),
        ("Importance: lam must be a number in [0, 1], got '0.9'", lambda: GES("0.9")),
        ("TreeBackup: lam must be a number in [0, 1], got -0.1", lambda: sb.GTB(-0.1)),
        ("ActionDependent: zeta must be a number in [0, 1], got 2", lambda: sb.ABQ(2)),
        ("FollowOn: lam must be a number in [0, 1]", lambda: sb.FollowOn(-1)),
        ("RegularisedCorrection: eta must be a finite number >= 0, got -1", lambda: sb.TDRC(0, eta=-1)),
        ("Rule: trace must be a Trace, got 0.9", lambda: Rule(0.9, sb.Saddle(), sb.Expected())),
        ("Rule: emphasis must be a FollowOn, got 0.5", lambda: Rule(sb.NoTrace(), sb.Saddle(), sb.State(), 0.5)),
        ("Importance: lam must be a number in [0, 1], got '0.5'", lambda: sb.TDRC("0.5")),
        ("Did you mean Saddle(...)?", lambda: Rule(sb.NoTrace(), sb.Saddle, sb.Expected())),
        (
            "an emphasis weights states, so it needs the bootstrap State()",
            lambda: Rule(sb.NoTrace(), sb.Saddle(), sb.Expected(), emphasis=sb.FollowOn(0.5)),
        ),
        ("GES: missing parameter 'lam'", lambda: rules.make("GES")),
        ("GES: unknown parameter 'zeta'. Takes lam", lambda: rules.make("GES", lam=0.1, zeta=0.5)),
    ],
)  # fmt: skip
def test_invalid_rule_parameters_are_refused(message, make):
    with complaint(e.InvalidParameter, message):
        make()


def test_unknown_names_get_a_suggestion():
    with complaint(e.UnknownName, "unknown rule 'GRetrac'. Did you mean 'GRetrace'?"):
        rules.make("GRetrac", lam=0.5)
    with complaint(e.UnknownName, "unknown rule 'ges'. Did you mean 'GES'?"):
        rules.make("ges", lam=0.5)
    with complaint(e.UnknownName, "unknown problem 'two_sate'. Did you mean 'two_state'?"):
        problems.make("two_sate")
    with complaint(e.UnknownName, "unknown features 'clasic'. Did you mean 'classic'?"):
        problems.baird(features="clasic")
    with complaint(e.UnknownName, "unknown features 'tabula'. Did you mean 'tabular'?"):
        problems.random_walk(features="tabula")
    with complaint(e.UnknownName, "unknown rule 'xyzzy'. Known: GES, GQ"):
        rules.make("xyzzy")
    with pytest.raises(AttributeError, match="has no attribute 'Ges'"):
        sb.Ges  # noqa: B018


@pytest.mark.parametrize(
    "act", [System.exact, lambda p, r: learn(r, p, alpha=0.1, beta=0.1, steps=1)]
)
def test_rules_that_do_not_apply_are_refused(two, act):
    with complaint(e.RuleMismatch, "TD(0) learns state values but the problem's features describe"):
        act(two, TD(0.0))
    with complaint(e.RuleMismatch, "GES(0) learns action values but the problem's features"):
        act(problems.baird(features="classic"), GES(0.0))
    with complaint(e.RuleMismatch, "it needs target = behaviour; here π(0|0) = 1 and μ(0|0) = 0.5"):
        act(two, Sarsa(0.5))
    with complaint(e.RuleMismatch, "rule must be a Rule, got <function GES"):
        act(two, GES)
    with complaint(e.RuleMismatch, "rule must be a Rule, got 0.5"):
        act(two, 0.5)
    with complaint(e.UnknownName, "unknown rule 'GEZ'. Did you mean 'GES'?"):
        act(two, "GEZ:0.5")


# Problems by name.


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("random_walk: states must be odd and >= 3, got 4", lambda: problems.random_walk(states=4)),
        ("random_walk: target_right must be a number in [0, 1]", lambda: problems.random_walk(target_right=2)),
        ("random_mdp: termination must be a number in [0, 1]", lambda: problems.random_mdp(termination="a")),
        ("rng must be a whole number >= 0, a SeedSequence, a Generator or None, got -1", lambda: problems.random_mdp(rng=-1)),
        ("boyan_chain: states must be 4k + 1 and >= 5, got 12", lambda: problems.boyan_chain(states=12)),
        ("boyan_chain: behaviour_skip must be a number", lambda: problems.boyan_chain(behaviour_skip=-1)),
        ("random_mdp: states must be a whole number >= 1, got 0", lambda: problems.random_mdp(states=0)),
        ("random_mdp: off_policy must be a number in [0, 1], got 3", lambda: problems.random_mdp(off_policy=3)),
        ("random_mdp: termination must be < 1, got 1", lambda: problems.random_mdp(termination=1)),
        ("two_state: unknown parameter 'gama'. Did you mean 'gamma'?", lambda: problems.make("two_state", gama=0.5)),
    ],
)  # fmt: skip
def test_invalid_parameters_of_problems_are_refused(message, make):
    with complaint(e.InvalidParameter, message):
        make()


# Learning.


@pytest.mark.parametrize(
    ("kind", "message", "arguments"),
    [
        (e.InvalidParameter, "learn: steps must be a whole number >= 1, got 0", dict(steps=0)),
        (e.InvalidParameter, "learn: steps must be a whole number >= 1, got -5", dict(steps=-5)),
        (e.InvalidParameter, "learn: steps must be a whole number >= 1, got 2.5", dict(steps=2.5)),
        (e.InvalidParameter, "got 1000.0. Write 1000.", dict(steps=1e3)),
        (e.InvalidParameter, "learn: give the number to sample", dict(steps=5, episodes=5)),
        (e.InvalidParameter, "learn: this problem has no episodes", dict(steps=None, episodes=5)),
        (e.InvalidParameter, "rng must be a whole number >= 0", dict(rng=[0, 1])),
        (e.InvalidParameter, "rng must be a whole number >= 0", dict(rng="a")),
        (e.InvalidParameter, "learn: problem must be a Problem, got FiniteMDP", dict(problem=FiniteMDP(P2, R2, 0.9))),
        (e.InvalidParameter, "learn: experience must be a Experience, got 5", dict(experience=5, steps=None, rng=None)),
        (e.InvalidShape, "alpha must be a rectangular array of numbers", dict(alpha="x")),
        (e.InvalidNumbers, "theta0 is nan", dict(theta0=np.nan)),
        (e.InvalidParameter, "bound must be a finite number > 0, got inf", dict(bound=np.inf)),
        (e.InvalidParameter, "metrics must map names to functions of θ", dict(metrics=["mspbe"])),
        (e.InvalidParameter, "metrics must map names to functions of θ", dict(metrics={"a": 3})),
        (e.InvalidParameter, "record must list whole update counts", dict(record=[2.5])),
        (e.InvalidParameter, "record must list whole update counts", dict(record=[[1, 2]])),
        (e.InvalidParameter, "learn: give the number to sample, either steps=… or episodes=…", dict(steps=None)),
        (e.InvalidParameter, "alpha must be finite step sizes >= 0, got -0.1", dict(alpha=-0.1)),
        (e.InvalidParameter, "beta must be finite step sizes >= 0, got nan", dict(beta=[0.1, np.nan])),
        (e.InvalidParameter, "alpha must be finite step sizes >= 0, got -1", dict(alpha=sb.inverse(-1.0))),
        (e.InvalidParameter, "GES(0.5) has a dual variable ω: give its step size", dict(beta=None)),
        (e.InvalidShape, "alpha of shape [2] and beta of shape [3] do not broadcast", dict(alpha=[1, 2], beta=[1, 2, 3])),
        (e.InvalidShape, "theta0 must broadcast to [2]", dict(theta0=np.zeros(3))),
        (e.InvalidNumbers, "omega0[1] is nan", dict(omega0=[0.0, np.nan])),
        (e.InvalidParameter, "GES(0.5): bound must be a finite number > 0, got -1", dict(bound=-1)),
        (e.InvalidParameter, "record lists 11, but counts run from 0 to 10", dict(record=[5, 11])),
        (e.InvalidParameter, "record: interval must be a whole number >= 1, got 0", dict(record=0)),
        (e.InvalidShape, "metric 'sum' must return an array whose shape begins with [2]", dict(alpha=[0.1, 0.2], metrics={"sum": np.sum})),
    ],
)  # fmt: skip
def test_invalid_arguments_of_learn_are_refused(two, kind, message, arguments):
    with complaint(kind, message):
        learn(GES(0.5), **(dict(problem=two, alpha=0.1, beta=0.1, steps=10, rng=0) | arguments))


def test_invalid_arguments_of_iterate_are_refused(two):
    system = System.exact(two, GES(0.5))
    with complaint(e.InvalidParameter, "iterate: steps must be a whole number >= 1, got 0"):
        iterate(system, alpha=0.1, beta=0.1, steps=0)
    with complaint(e.InvalidParameter, "has a dual variable"):
        iterate(system, alpha=0.1, steps=10)
    with complaint(e.InvalidParameter, "iterate: system must be a System, got Problem"):
        iterate(two, alpha=0.1, steps=10)
    with complaint(e.InvalidParameter, "sample: problem must be a Problem, got 3"):
        sample(3, 5)
    with complaint(e.InvalidParameter, "Problem: mdp must be a FiniteMDP, got ndarray"):
        Problem(P2, np.eye(2), HALF, HALF)


@pytest.mark.parametrize(
    ("kind", "message", "arguments"),
    [
        (e.InvalidParameter, "give either episodes, or steps and a horizon", dict()),
        (e.InvalidParameter, "give either episodes, or steps and a horizon", dict(episodes=2, steps=3)),
        (e.InvalidParameter, "this problem has no episodes; give steps and a horizon", dict(episodes=2)),
        (e.InvalidParameter, "steps need a horizon, the length of the λ-return", dict(steps=10)),
        (e.InvalidParameter, "horizon must be a whole number >= 1, got 0", dict(steps=10, horizon=0)),
        (e.RuleMismatch, "GES(0.5) is not a plain semi-gradient rule", dict(rule=GES(0.5), steps=10, horizon=5)),
    ],
)  # fmt: skip
def test_invalid_arguments_of_learn_offline_are_refused(two, kind, message, arguments):
    with complaint(kind, message):
        learn_offline(problem=two, alpha=0.1, **(dict(rule=ExpectedSarsa(0.5)) | arguments))


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("kind", "message", "column", "value"),
    [
        (e.InvalidShape, "Experience: columns must have one length", "rewards", np.zeros(3)),
        (e.InvalidParameter, "states[0] is 7, but states run from 0 to 1", "states", np.full(5, 7)),
        (e.InvalidParameter, "next_actions[0] is -1, but", "next_actions", np.full(5, -1)),
        (e.InvalidNumbers, "rewards[2] is nan", "rewards", np.array([0, 0, np.nan, 0, 0])),
        (e.InvalidParameter, "discounts[4] is 1.5, outside [0, 1]", "discounts", np.array([0.9, 0, 1, 0, 1.5])),
        (e.InvalidParameter, "discounts[0] is nan, outside [0, 1]", "discounts", np.full(5, np.nan)),
        (e.InvalidShape, "Experience: states must be a column of IntArray, got shape [5] of float64", "states", np.zeros(5)),
        (e.InvalidShape, "Experience: rewards must be a column of FloatArray, got shape [5, 1]", "rewards", np.zeros((5, 1))),
        (e.InvalidShape, "Experience: starts must be a column of BoolArray", "starts", [0] * 5),
        (e.InvalidParameter, "step 0: action", "next_states", 1 - sample(problems.two_state(), 5, rng=0).next_states),
    ],
)  # fmt: skip
def test_invalid_experience_is_refused(two, kind, message, column, value):
    columns = vars(sample(two, 5, rng=0)) | {column: value}
    with complaint(kind, message):
        learn(GES(0.5), two, alpha=0.1, beta=0.1, experience=Experience(**columns))


@pytest.mark.kernel
def test_experience_impossible_under_mu_is_refused(two):
    never = Problem(two.mdp, two.features, target=[[1.0, 0.0]] * 2, behaviour=[[1.0, 0.0]] * 2)
    seen = sample(two, 20, rng=0)
    first = int(np.flatnonzero(seen.actions == 1)[0])
    with complaint(e.UndefinedRatio, f"step {first}: ρ is undefined, action 1 was taken in state"):
        learn(GES(0.5), never, alpha=0.1, beta=0.1, experience=seen)
    with complaint(
        e.InvalidParameter, "step 1 does not continue from where step 0 led: mark it in `starts`"
    ):
        jump = int(np.flatnonzero(seen.states[2:] != seen.next_states[0])[0]) + 2
        learn(GES(0.5), two, alpha=0.1, beta=0.1, experience=seen[:1] + seen[jump : jump + 1])
    walk = problems.random_walk()
    late = sample(walk, 50, rng=0)
    last = int(np.flatnonzero(late.discounts == 0)[0])
    late.discounts[last] = 0.5
    with complaint(e.InvalidParameter, f"step {last}: discounts[{last}] is 0.5, but state"):
        learn(TD(0.5), walk, alpha=0.1, experience=late)
    with complaint(e.InvalidShape, "experience is empty"):
        learn(GES(0.5), two, alpha=0.1, beta=0.1, experience=seen[:0])
    with complaint(e.InvalidParameter, "nothing is sampled; omit steps"):
        learn(GES(0.5), two, alpha=0.1, beta=0.1, experience=seen, steps=5)


@pytest.mark.kernel
def test_invalid_step_sizes_are_refused(two):
    assert sb.inverse_sqrt([2.0]).at(4).tolist() == [1.0]
    integer, real = (
        learn(GES(0.5), two, alpha=sb.Schedule(0.5, power), beta=0.1, steps=50, rng=0, theta0=1.0)
        for power in (1, 1.0)
    )
    assert np.array_equal(integer.theta, real.theta)
    with complaint(e.InvalidParameter, "Schedule: power must be a finite number >= 0, got nan"):
        sb.Schedule(0.1, np.nan)
    with complaint(e.InvalidShape, "step sizes must be a rectangular array of numbers"):
        sb.inverse("a")
    with complaint(e.InvalidParameter, "alpha is empty: give at least one step size"):
        learn(GES(0.5), two, alpha=[], beta=0.1, steps=5)
    with complaint(e.InvalidParameter, "alpha must be finite step sizes >= 0, got inf"):
        learn(GES(0.5), two, alpha=np.inf, beta=0.1, steps=5)


def test_every_error_is_a_value_error():
    kinds = [getattr(e, name) for name in e.__all__ if name != "Fix"]
    assert all(issubclass(k, e.SaddlebackError) and issubclass(k, ValueError) for k in kinds)
    assert all(k.__doc__ for k in kinds)


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("rewards[1] is nan", dict(rewards=[0.0, np.nan])),
        ("rewards must have shape [2], got [3]", dict(rewards=[0.0, 1.0, 2.0])),
        ("discounts[0] is 1.5, outside [0, 1]", dict(discounts=[1.5, 0.0])),
        ("decay[1] is -1, outside [0, inf]", dict(decay=[0.0, -1.0])),
        ("weight[0] is inf", dict(weight=np.inf)),
        ("features are too many for an index", dict(phi=csr_array((2, 1 << 32)))),
        (
            "a table [T, p] of numbers, got 2 dimensions of complex128",
            dict(phi=csr_array(1j * np.eye(2))),
        ),
        ("phi is empty", dict(phi=np.zeros((0, 2)))),
        ("phi must have shape [T, p], got [2]", dict(phi=[1.0, 2.0])),
        ("phi of step 1 has the value nan at feature 0", dict(phi=[[1.0, 0.0], [np.nan, 1.0]])),
        ("bootstrap must have shape [2, 2] like phi, got [2, 3]", dict(bootstrap=np.ones((2, 3)))),
        ("correction must have shape [2, 2] like phi", dict(correction=np.ones((3, 2)))),
        (
            "phi of step 1 has the value 2 at feature 7; features run from 0 to 1",
            dict(phi=csr_array((np.array([1.0, 2.0]), np.array([0, 7]), [0, 1, 2]), shape=(2, 2))),
        ),
    ],
)
def test_invalid_streams_are_refused(message, change):
    good = dict(
        phi=np.eye(2), bootstrap=np.eye(2), rewards=[0, 1], discounts=[0.9, 0], decay=[0, 0.5]
    )
    assert repr(sb.Stream.of(**good)) == "Stream(steps=2, p=2)"
    with complaint(e.SaddlebackError, message):
        sb.Stream.of(**(good | change))


@pytest.mark.kernel
def test_decreasing_row_pointers_are_refused():
    table = csr_array(np.eye(2))
    table.indptr = np.array([0, 2, 1])
    with complaint(e.InvalidShape, "the row pointers of phi must not decrease"):
        sb.Stream.of(phi=table, bootstrap=np.eye(2), rewards=[0, 1], discounts=0.9, decay=0.5)


@pytest.mark.kernel
def test_a_stream_cannot_be_resampled():
    stream = sb.Stream.of(
        phi=np.eye(2), bootstrap=np.eye(2), rewards=[0, 1], discounts=[0.9, 0], decay=[0, 0.5]
    )
    for act in (
        lambda: learn(GES(0.5), stream, alpha=0.1, beta=0.1, steps=3),
        lambda: learn(GES(0.5), stream, alpha=0.1, beta=0.1, episodes=1),
        lambda: learn(GES(0.5), stream, alpha=0.1, beta=0.1, runs=2),
    ):
        with complaint(e.InvalidParameter, "the given experience is used in full"):
            act()
    with complaint(e.InvalidParameter, "steps must be a number up to 2, got 3"):
        System.estimate(stream, GES(0.5), steps=3)
    with complaint(e.InvalidParameter, "steps must be a number up to any, got None"):
        System.estimate(problems.two_state(), GES(0.5))
    with complaint(e.RuleMismatch, "needs the correction x of each step"):
        learn(sb.GQ(0.5), stream, alpha=0.1, beta=0.1)
    with complaint(e.RuleMismatch, "the list of rules is empty"):
        learn([], stream, alpha=0.1, beta=0.1)
    with complaint(e.InvalidShape, "do not broadcast together"):
        learn(GES(0.5), stream, alpha=[0.1, 0.2], beta=[0.1, 0.2, 0.3])
