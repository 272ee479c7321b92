"""Sums over a log: against loops that read like the equations, and added up from any parts."""

import functools
import re
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saddleback as sb
from helpers.logs import ENDS, columns, mixed
from oracles.statistics import moments
from saddleback import ABQ, ETD, GES, GQ, GTB, GTD, GTD2, TD, ExpectedSarsa, GRetrace, errors
from saddleback.features import Custom, Fourier, Tiles
from saddleback.log import Log, LogError, collect, row_source
from saddleback.log.target_policies import as_targets
from saddleback.ope.log_pass import EncodeOnce, read_log
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.ope.statistics_pass import (
    StatisticsReducer,
    add_start,
    check_memory,
    first_of_episodes,
)
from saddleback.rules import ActionDependent, Constant, Correction, Expected, Rule, Saddle, Trace
from saddleback.rules.requirements import check_log_requirements

BOX = ((-3.0, -3.0), (3.0, 3.0))
FOURIER = Fourier(*BOX, order=1)
TILES = Tiles(*BOX, bins=3, tilings=2)
EXTREMA = (0.05, 0.95)


def target(observations):
    """A policy that depends on the observation and never takes some actions."""
    z = np.column_stack([observations[:, 0], -observations[:, 1], np.zeros(len(observations))])
    pi = np.exp(z) * [1.0, 1.0, 0.5]
    pi[observations[:, 1] > 1.0, 1] = 0.0
    return pi / pi.sum(axis=1, keepdims=True)


RULES = {
    "GES": (GES(0.6), "action", lambda pi, rho, mu: 0.6 * rho),
    "GRetrace": (GRetrace(0.8), "action", lambda pi, rho, mu: 0.8 * min(1.0, rho)),
    "GTB": (GTB(0.9), "action", lambda pi, rho, mu: 0.9 * pi),
    "ExpectedSarsa": (ExpectedSarsa(0.4), "action", lambda pi, rho, mu: 0.4 * rho),
    "Q(λ)": (Rule(Constant(0.5), Saddle(), Expected()), "action", lambda pi, rho, mu: 0.5),
    "ABQ": (
        Rule(ActionDependent(0.7, EXTREMA), Saddle(), Expected()),
        "action",
        lambda pi, rho, mu: pi * min(1.4 / 0.95 + 0.4 * (20 - 2 / 0.95), 1 / max(mu, pi)),
    ),
    "LSTD(0)": (GES(0.0), "action", lambda pi, rho, mu: 0.0),
    "TD": (TD(0.5), "state", lambda pi, rho, mu: 0.5 * rho),
    "GTD2": (GTD2(0.9), "state", lambda pi, rho, mu: 0.9 * rho),
    "GTD": (GTD(), "state", lambda pi, rho, mu: 0.0),
    "ETD": (ETD(0.3), "state", lambda pi, rho, mu: 0.3 * rho),
}


def oracle(data, name, features, gamma, **options):
    """Return A, b, M, x and Σρ² of a log by the oracle, for a rule of the table above."""
    _, values, kappa = RULES[name]
    lam = 0.3 if name == "ETD" else None
    return moments(data, target, features, gamma, values, kappa, lam, **options)


def statistics_of(log, rules, targets=target, features=FOURIER, gamma=0.9, **options):
    return Statistics.of(log, rules, targets, features=features, gamma=gamma, **options)


def agree(statistics, expected, t=0, r=0):
    A, b, M, x, squares = expected
    close = functools.partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-11)
    close(statistics.A[t, r].sum(axis=0), A)
    close(statistics.b[t, r].sum(axis=0), b)
    close(statistics.M, M)
    close(statistics.starts[t].sum(axis=0), x)
    close(statistics.squares[t], squares)


# Against the equations.


@pytest.mark.kernel
@pytest.mark.parametrize("mu", [True, False])
@pytest.mark.parametrize("following", [True, False])
@pytest.mark.parametrize("name", RULES)
def test_statistics_equal_the_equations(name, following, mu):
    data = mixed(seed=3, mu=mu, following=following)
    expected = oracle(data, name, FOURIER, 0.9)
    for segment in (4, 1000):
        agree(statistics_of(Log(data, segment=segment), RULES[name][0]), expected)


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["GES", "GTB", "ETD"])
def test_statistics_of_shared_tiles_equal_the_equations(name):
    data = mixed(seed=4)
    for shared in (False, True):
        expected = oracle(data, name, TILES, 0.95, shared=shared)
        for segment in (3, 1000):
            log = Log(data, segment=segment)
            agree(
                statistics_of(log, RULES[name][0], features=TILES, gamma=0.95, shared=shared),
                expected,
            )


def test_statistics_treat_task_limits_as_termination():
    data = mixed(seed=5)
    log = Log(data, time_limit="task")
    agree(statistics_of(log, GES(0.6)), oracle(data, "GES", FOURIER, 0.9, task=True))


@pytest.mark.kernel
def test_statistics_without_propensities_equal_the_equations():
    data = mixed(seed=6, mu=False)
    bare = Log({k: v for k, v in data.items() if k != "behavior_prob"})
    for name in ("GTB", "LSTD(0)"):
        A, b, M, x, _ = oracle(data, name, FOURIER, 0.9)
        statistics = statistics_of(bare, RULES[name][0])
        agree(statistics, (A, b, M, x, 0.0))
        assert np.isnan(statistics.ceilings).all()


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [7, 50, 1 << 16])
def test_statistics_of_a_long_episode_equal_the_equations(segment):
    """Traces that grow and vanish, over many steps: scales are folded in, small entries dropped."""
    data = columns([400, 3], ["truncated", "terminated"], seed=7)
    for name in ("GTB", "GRetrace"):
        agree(
            statistics_of(Log(data, segment=segment), RULES[name][0]),
            oracle(data, name, FOURIER, 0.9),
        )


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [7, 1 << 16])
def test_statistics_of_very_large_traces_equal_the_equations(segment):
    data = columns([27, 3], "terminated", seed=7, mu=False)
    data |= {"behavior_prob": np.full(30, 1e-6), "action": np.zeros(30, dtype=int)}
    log = Log(data, segment=segment, actions=["a", "b", "c"])
    statistics = statistics_of(log, GES(0.6), allow_uncovered=True)
    A, b, *_ = oracle(data, "GES", FOURIER, 0.9)
    assert np.abs(A).max() > 1e110
    np.testing.assert_allclose(statistics.A[0, 0].sum(axis=0), A, rtol=1e-9)
    np.testing.assert_allclose(statistics.b[0, 0].sum(axis=0), b, rtol=1e-9)


@pytest.mark.kernel
def test_segments_without_transitions_are_accepted():
    data = columns([1, 1, 3], ["stops", "truncated", "stops"], following=False)
    log = Log(data, segment=2)
    assert [len(piece) for piece in log.segments()] == [0, 2, 0]
    statistics = statistics_of(log, GES(0.6))
    agree(statistics, oracle(data, "GES", FOURIER, 0.9))
    assert statistics.steps.sum() == 2
    assert statistics.episodes.sum() == 3
    none = Log(columns([1, 1], "stops", following=False))
    with pytest.raises(errors.InvalidParameter, match="the log has no usable transition"):
        statistics_of(none, GES(0.6))


def test_sums_agree_with_the_engine_that_learns():
    """The expected update of a rule, from the simulator's own stream."""
    problem = sb.problems.two_state()
    log = collect(problem, steps=400, rng=1)
    table = np.asarray(problem.target)
    eye = Custom(lambda o: np.eye(2)[o[:, 0].astype(int)], 2)
    system = statistics_of(log, GES(0.5), {"π": table}, eye, problem.mdp.gamma).system()
    assert system.A.shape == (4, 4)
    assert np.linalg.eigvals(system.A).real.max() < 1e-9


@pytest.mark.parametrize("step", [True, False])
def test_split_episodes_are_joined_when_files_are_read_together(step, tmp_path):
    data = columns([4, 5, 4], "terminated", seed=14, step=step)
    names = []
    for i, part in enumerate((slice(0, 6), slice(6, None))):
        names.append(tmp_path / f"{i}.parquet")
        pq.write_table(pa.table({k: v[part] for k, v in data.items()}), names[-1])
    agree(statistics_of(Log(names), GES(0.6)), oracle(data, "GES", FOURIER, 0.9))
    back = Log(names[::-1])
    with pytest.raises(LogError, match="E131 episode 11 appears in two separate blocks"):
        statistics_of(back, GES(0.6))


# Several at once.


@pytest.mark.kernel
def test_several_rules_and_targets_at_once_equal_one_by_one():
    data = columns([1, 6, 3, 1, 7, 12], [*ENDS, *ENDS], seed=8)
    policies = {"mine": target, "all": "uniform", "one": "always:1"}
    for values in ("action", "state"):
        rules = [rule for rule, kind, _ in RULES.values() if kind == values]
        combined = statistics_of(Log(data), rules, policies)
        threaded = statistics_of(Log(data), rules, policies, threads=2)
        for name in ("A", "b", "M", "starts", "squares"):
            np.testing.assert_array_equal(getattr(combined, name), getattr(threaded, name))
        for t, (name, policy) in enumerate(policies.items()):
            for r, rule in enumerate(rules):
                single = statistics_of(Log(data), rule, {name: policy})
                np.testing.assert_array_equal(combined.A[t, r], single.A[0, 0])
                np.testing.assert_array_equal(combined.b[t, r], single.b[0, 0])
                np.testing.assert_array_equal(combined.starts[t], single.starts[0])
                np.testing.assert_array_equal(combined.M, single.M)
                assert combined.squares[t] == single.squares[0]
                one = combined.system(rule, name)
                np.testing.assert_array_equal(one.A, single.system().A)


def test_targets_from_columns_equal_targets_from_functions():
    data = mixed(seed=9)
    pi = target(np.column_stack([data["obs_0"], data["obs_1"]]))
    later = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    has_next = np.isfinite(later).all(axis=1)
    next_pi = np.full_like(pi, np.nan)
    next_pi[has_next] = target(later[has_next])
    more = {
        f"{n}_{a}": probabilities[:, a]
        for n, probabilities in (("pi", pi), ("next_pi", next_pi))
        for a in range(3)
    }
    rules = [GES(0.6), GRetrace(0.8)]
    for segment in (3, 1000):
        one = statistics_of(Log(data | more, segment=segment), rules, "columns")
        other = statistics_of(Log(data, segment=segment), rules, target)
        for name in ("A", "b", "M", "starts", "squares"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# What is refused.


@pytest.mark.parametrize(
    ("kind", "message", "rules", "options"),
    [
        (errors.RuleMismatch, "learns state values, other rules here action values", [GES(0.5), TD(0.5)], {}),
        (errors.RuleMismatch, "evaluates the logged policy only: use ExpectedSarsa with the target 'logged'", sb.Sarsa(0.5), {}),
        (errors.RuleMismatch, "needs the extrema of the policies over all states, which a log does not have: declare them, e.g. ActionDependent(zeta, extrema=(0.1, 0.9)).", ABQ(0.5), {}),
        (errors.InvalidParameter, "needs the probabilities of the logged actions, and the log has none. Rules without ratios, such as GES(0) or GTB, need none. Add behavior_prob, or estimate it: estimate_behaviour(log).", GES(0.5), dict(drop=("behavior_prob", "mu"))),
        (errors.InvalidParameter, "needs the probabilities of the logged actions", ETD(0.0), dict(drop=("behavior_prob", "mu"))),
        (errors.RuleMismatch, "needs the full behaviour policy, and the log has only the probability of the action taken. Add mu_0, mu_1, …, or pass the policy: Log(…, behaviour=function).", Rule(ActionDependent(0.5, EXTREMA), Correction(), Expected()), dict(drop=("mu",))),
        (errors.InvalidParameter, "gamma must be a number in [0, 1], got 2", GES(0.5), dict(gamma=2)),
        (errors.InvalidParameter, "blocks must be a whole number >= 1, got 0", GES(0.5), dict(blocks=0)),
        (errors.InvalidParameter, "threads must be a whole number >= 1, got 0", GES(0.5), dict(threads=0)),
        (errors.InvalidParameter, "features must be Tiles, Fourier, … or Custom(function, size), got 'tiles'", GES(0.5), dict(features="tiles")),
        (errors.InvalidParameter, "exceed 10,000, the largest number for which matrices are computed", GES(0.5), dict(features=Tiles(*BOX, bins=60, tilings=1))),
        (errors.RuleMismatch, "the list of rules is empty", [], {}),
    ],
)  # fmt: skip
@pytest.mark.kernel
def test_rules_and_options_that_a_log_cannot_support_are_rejected(kind, message, rules, options):
    options = dict(options)
    drop = options.pop("drop", ())
    data = {k: v for k, v in columns([4, 4], "terminated").items() if not k.startswith(drop or "-")}
    with pytest.raises(kind, match=re.escape(message)):
        statistics_of(Log(data), rules, **options)


@pytest.mark.kernel
def test_corrections_need_no_more_than_the_logged_propensities():
    """Rules that need only the propensity of the action taken work without full μ."""
    data = mixed(seed=16, mu=False)
    for rule in (GQ(0.5), sb.TDC(0.5), Rule(ActionDependent(0.5, EXTREMA), Saddle(), Expected())):
        assert statistics_of(Log(data), rule).steps.sum() > 0
    full = mixed(seed=16)
    rule = Rule(ActionDependent(0.5, EXTREMA), Correction(), Expected())
    for features in (FOURIER, TILES):
        one, other = (statistics_of(Log(full), item, features=features) for item in (rule, GQ(0.0)))
        assert one.steps.sum() == other.steps.sum()
    for drop in ("behavior_prob", "next_mu"):
        rest = {k: v for k, v in full.items() if not k.startswith(drop)}
        np.testing.assert_array_equal(
            statistics_of(Log(rest), rule).A, statistics_of(Log(full), rule).A
        )


@dataclass(frozen=True)
class Greedy(Trace):
    """A trace that depends on all actions: credit flows only through the most probable one of π."""

    elementwise = False

    def kappa(self, pi, mu):
        """Return 1/2 for the likeliest action."""
        return 0.5 * (pi == pi.max(axis=1, keepdims=True))


@pytest.mark.kernel
def test_traces_that_depend_on_all_actions(monkeypatch):
    data = mixed(seed=20)
    rule = Rule(Greedy(), Saddle(), Expected())
    best = target(np.column_stack([data["obs_0"], data["obs_1"]])).max(axis=1)
    monkeypatch.setitem(
        RULES, "greedy", (rule, "action", lambda pi, rho, mu: 0.5 * bool((best == pi).any()))
    )
    agree(statistics_of(Log(data), rule), oracle(data, "greedy", FOURIER, 0.9))
    taken = {k: v for k, v in data.items() if "mu" not in k}
    with pytest.raises(errors.RuleMismatch, match="needs the full behaviour policy"):
        statistics_of(Log(taken), rule)


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        ({"elementwise": True}, "elementwise is True, but κ of an action depends on the other"),
        ({"bound": 0.4}, "bound is 0.4, but κ can be 0.5"),
        ({"kappa": lambda self, pi, mu: mu, "uses_mu": False}, "uses_mu is False, but κ depends"),
        ({"kappa": lambda self, pi, mu: mu, "flow_uses_mu": False}, "flow_uses_mu is False, but"),
    ],
)
def test_wrong_declarations_of_a_trace_are_rejected(declared, wrong):
    trace = type("Wrong", (Greedy,), declared)()
    with pytest.raises(errors.RuleMismatch, match=wrong):
        statistics_of(Log(mixed(seed=20)), Rule(trace, Saddle(), Expected()))


@dataclass(frozen=True)
class ByAction(Trace):
    """A trace with one parameter for each of the actions."""

    lams: tuple[float, ...]
    elementwise, uses_mu = False, False

    def kappa(self, pi, mu):
        """Return λ_a π(a|s)."""
        return np.array(self.lams) * pi


@pytest.mark.parametrize("actions", [2, 5])
def test_a_trace_may_have_parameters_for_each_action(actions):
    def check(count):
        rule = Rule(ByAction((0.5,) * count), Saddle(), Expected())
        check_log_requirements(rule, "action", propensity=True, behaviour=True, actions=actions)

    check(actions)
    wrong = f"κ of {actions} actions cannot be computed: ValueError: operands could not be"
    with pytest.raises(errors.RuleMismatch, match=wrong) as caught:
        check(6)
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_of_a_trace_names_the_rule():
    with pytest.raises(errors.RuleMismatch, match="Correct kappa in ByAction, or its parameters"):
        statistics_of(Log(mixed(seed=20)), Rule(ByAction((0.5,) * 9), Saddle(), Expected()))


def test_unknown_rules_and_targets_are_rejected():
    statistics = statistics_of(Log(mixed(seed=17)), [GES(0.6), GTB(0.9)], {"mine": target})
    assert repr(statistics) == (
        f"Statistics({statistics.steps.sum()} steps, 18 episodes, p=12, 2 rules, 1 target)"
    )
    with pytest.raises(errors.InvalidParameter, match="no target 'his' in these statistics: mine"):
        statistics.system(target="his")
    with pytest.raises(errors.InvalidParameter, match=r"GES\(0.7\) is not in these statistics"):
        statistics.system(GES(0.7))


def test_the_ceiling_is_that_of_the_ratios():
    data = mixed(seed=18)
    statistics = statistics_of(Log(data), GES(0.0))
    squares = oracle(data, "GES", FOURIER, 0.9)[-1]
    expected = 1 / (0.9 * np.sqrt(squares / statistics.steps.sum()))
    np.testing.assert_allclose(statistics.ceilings, [expected])


@pytest.mark.kernel
def test_sums_do_not_depend_on_batches(monkeypatch):
    """Neither where episodes go on in the next piece, nor with entries that become negligible."""
    monkeypatch.setattr("saddleback.engine.moments.CLEANUP_INTERVAL", 2)
    monkeypatch.setattr("saddleback.engine.moments.NEGLIGIBLE", 1e-3)
    data = columns([30, 2, 25], np.array(ENDS)[[1, 2, 0]], seed=19)
    rules = [GTB(0.3), GES(0.9)]
    expected = statistics_of(Log(data, segment=9), rules, features=TILES)
    for batch in (1, 4, 11):
        monkeypatch.setattr(row_source, "BATCH", batch)
        statistics = statistics_of(Log(data, segment=9), rules, features=TILES)
        for name in ("A", "b", "M"):
            np.testing.assert_array_equal(getattr(statistics, name), getattr(expected, name))


@pytest.mark.parametrize("segment", [1 << 16, 4, 1])
def test_truncated_episodes_need_a_discount_for_any_segmentation(segment):
    data = columns([5] * 9 + [5], "terminated")
    data["terminated"][-1], data["truncated"][-1] = False, True
    with pytest.raises(sb.LogError, match="E160"):
        sb.Statistics.of(
            sb.Log(data, segment=segment), sb.GES(0.0), "uniform",
            features=sb.features.Polynomial((-9, -9), (9, 9), degree=1), gamma=1.0,
        )  # fmt: skip


def test_names_of_targets_are_texts():
    with pytest.raises(sb.errors.InvalidParameter, match="must be strings, got 1"):
        sb.Statistics.of(
            sb.Log(mixed(1)), sb.GES(0.0), {1: "uniform"},
            features=sb.features.Polynomial((-9, -9), (9, 9), degree=1), gamma=0.9,
        )  # fmt: skip


# Sums of some pairs by block, as an evaluation needs them.


def read_some(log, rules, targets, features, main):
    """Return what accumulates the sums by block of some targets, after reading a log."""
    policies, once = as_targets(targets, log), EncodeOnce(features)
    setting = StatisticsKey.of(log, rules, policies, features, 0.9, False, 4)
    reducer = StatisticsReducer(log, setting, policies, once, main=main)
    reducer.check(read_log(log, [reducer], policies, once), True)
    return reducer


POLICIES = {"mine": target, "all": "uniform", "one": "always:1"}


@pytest.mark.kernel
@pytest.mark.parametrize("main", [1, 2, 3])
def test_pairs_that_are_not_kept_by_block_have_totals(main):
    """Of the first rule for every target, and of other rules for the main targets."""
    log, rules = Log(mixed(seed=21), segment=9), [GES(0.6), GTB(0.9)]
    every = statistics_of(log, rules, POLICIES, TILES, blocks=4, allow_uncovered=True)
    reducer = read_some(log, rules, POLICIES, TILES, main)
    some, total = Statistics(**reducer.by_block()), Statistics(**reducer.totals())
    for name in ("A", "b"):
        own, all_of = getattr(some, name), getattr(every, name)
        np.testing.assert_array_equal(own, all_of[:main, :1])
        expected = all_of.sum(axis=2, keepdims=True)
        expected[main:, 1:] = 0.0
        np.testing.assert_allclose(getattr(total, name), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(some.starts, every.starts[:main])
    np.testing.assert_allclose(total.starts, every.starts.sum(axis=1, keepdims=True))
    for name in ("steps", "episodes"):
        np.testing.assert_array_equal(getattr(some, name), getattr(every, name))
        assert getattr(total, name).tolist() == [getattr(every, name).sum()]
    kappa_squares = every.kappa_squares.copy()
    np.testing.assert_array_equal(some.kappa_squares, kappa_squares[:main, :1])
    kappa_squares[main:, 1:] = 0.0
    np.testing.assert_array_equal(total.kappa_squares, kappa_squares)
    np.testing.assert_array_equal(total.squares, every.squares)
    np.testing.assert_array_equal(some.squares, every.squares[:main])
    np.testing.assert_array_equal(total.M, every.M)
    np.testing.assert_array_equal(total.counts.visits, every.counts.visits)
    np.testing.assert_array_equal(total.counts.mass, every.counts.mass)
    active = np.flatnonzero(np.diag(every.M))
    assert 0 < len(active) < every.p
    few = Statistics(**reducer.of_active())
    assert few.p == len(active)
    assert np.array_equal(few.A, every.A[:main, :1][..., active[:, None], active])
    assert np.array_equal(few.b, every.b[:main, :1][..., active])
    assert np.array_equal(few.M, every.M[np.ix_(active, active)])
    assert np.array_equal(few.starts, every.starts[:main][..., active])


def test_memory_is_checked_before_a_log_is_read(monkeypatch):
    """8 GiB are 64 matrices of 4096 features: one per pair and block, and M."""
    check_memory(4096, 63)
    message = (
        "Statistics: 64 matrices of 4,096 features (one per block, rule and target) need 8.1 GB, "
        "more than 8 GB."
    )
    with pytest.raises(errors.InvalidParameter, match=re.escape(message)):
        check_memory(4096, 64)
    check_memory(10_000, 1)
    with pytest.raises(errors.InvalidParameter, match=r"10,001 features .* exceed 10,000"):
        check_memory(10_001, 1)
    log, rules = Log(mixed(seed=21)), [GES(0.6), GTB(0.9)]
    monkeypatch.setattr("saddleback.ope.statistics_pass.MAX_BYTES", 0)
    for main, count in ((None, 3 * 2 * 4), (2, 2 * 4 + 3 * 2), (1, 4 + 3 * 2)):
        with pytest.raises(errors.InvalidParameter, match=f"Statistics: {count} matrices of 12 "):
            read_some(log, rules, POLICIES, FOURIER, main)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("valued", [False, True])
def test_features_at_the_starts_are_added_one_by_one(copies, valued):
    rng = np.random.default_rng(0)
    index = rng.integers(0, 4, (7, 2)).astype(np.uint32)
    value = rng.normal(size=(7, 2)) if valued else None
    weights, block = rng.normal(size=(7, copies)), rng.integers(0, 3, 7)
    total = np.ones((3, 4 * copies))
    expected = total.copy()
    for i in range(7):
        for j in range(2):
            for c in range(copies):
                size = value[i, j] if valued else 1.0
                expected[block[i], index[i, j] * copies + c] += size * weights[i, c]
    add_start((index, value), weights, block, total)
    np.testing.assert_allclose(total, expected, rtol=1e-12)


def test_the_first_transition_of_each_episode_is_found():
    numbers = np.arange(6) + 10
    for starts, first in (
        ([1, 0, 0, 1, 1, 0], [10, 13, 14]), ([0, 0, 0, 1, 0, 1], [10, 13, 15]), ([0] * 6, [10]),
    ):  # fmt: skip
        segment = SimpleNamespace(starts=np.array(starts, dtype=bool))
        assert first_of_episodes(segment, numbers).tolist() == first
        assert segment.starts.tolist() == starts


# What statistics tell.


@dataclass(frozen=True)
class Inverse(Trace):
    """A trace that grows, and whose corrections need μ of every action."""

    lam: float

    def kappa(self, pi, mu):
        """Return λ/μ."""
        return self.lam / mu + 0.0 * pi

    def with_lambda(self, lam):
        """Return the trace with another λ."""
        return Inverse(lam)


@pytest.fixture(scope="module")
def some():
    traces = (ByAction((0.5,) * 3), Inverse(0.3))
    rules = [GES(0.6), GTB(0.9), *(Rule(trace, Saddle(), Expected()) for trace in traces)]
    return statistics_of(Log(mixed(seed=22)), rules, {"mine": target, "his": "uniform"}, blocks=3)


def test_means_and_solutions_are_those_of_the_sums(some):
    n, k = some.steps.sum(), some.episodes.sum()
    A, b = some.A[1, 1].sum(axis=0) / n, some.b[1, 1].sum(axis=0) / n
    system = some.system(GTB(0.9), "his")
    for one, other in (
        (system.A, A), (system.b, b), (system.M, some.M / n), (system.C, A.T + some.M / n),
    ):  # fmt: skip
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(some.start("his"), some.starts[1].sum(axis=0) / k, rtol=1e-12)
    np.testing.assert_allclose(some.start(), some.starts[0].sum(axis=0) / k, rtol=1e-12)
    for ridge in (0.25, 0.5):
        ridged = A - ridge * np.diag(np.diag(some.M)) / n
        theta = some.solve(1, 1, ridge).theta
        np.testing.assert_allclose(theta, np.linalg.solve(ridged, -b), rtol=1e-8)
    assert some.factorised(1, 1, 0.5) is some.factorised(GTB(0.9), "his", 0.5)
    none = replace(some, episodes=0 * some.episodes)
    np.testing.assert_array_equal(none.start(), some.starts[0].sum(axis=0))


def test_ceilings_are_one_over_the_discounted_root_mean_square(some):
    n = int(some.steps.sum())
    own = replace(some, squares=np.array([0.0, 0.5]), kappa_squares=np.array(
        [[n * 0.25, 0.0, n * 4.0, n * 1.44], [n * 9.0, 0.0, n / 0.81, 0.0]]
    ))  # fmt: skip
    ceiling = 1 / (0.9 * (0.5 / n) ** 0.5)
    assert np.isnan(own.ceilings[0])
    assert own.ceilings[1] == pytest.approx(ceiling, rel=1e-12)
    GES_, GTB_, by_action, inverse = own.setting.rules
    assert own.trace_ratio(GES_, "mine") == pytest.approx(0.9 * 0.5)
    assert own.trace_ratio(GES_, "his") == pytest.approx(0.9 * 3.0)
    assert own.trace_ratio(GTB_, "his") is None
    for rule in (GES_, GTB_):  # the corrections of GES need no μ
        assert own.lambda_ceiling(rule, "mine") is None
        assert own.lambda_ceiling(rule, "his") == pytest.approx(ceiling, rel=1e-12)
    assert own.lambda_ceiling(by_action, "mine") is None
    assert own.lambda_ceiling(inverse, "mine") == pytest.approx(0.3 / (0.9 * 1.2))
    assert own.lambda_ceiling(inverse, "his") is None


def warning_texts(sums, rule):
    return [f"{one.code} {one.message}" for one in sums.warnings(rule)]


def test_a_trace_above_its_ceiling_is_warned_of(some):
    n = int(some.steps.sum())
    growing = replace(some, kappa_squares=np.array([[n * 4.0] * 4, [n * 0.25] * 4]))
    rest = (
        ", above which the trace second moment grows without bound on this log (target mine)."
    )  # fmt: skip
    assert f"W170 lambda=0.6 exceeds {0.6 / 1.8:.2f}{rest}" in warning_texts(growing, GES(0.6))
    assert sum("W170" in text for text in warning_texts(growing, GES(0.6))) == 1
    at = replace(growing, setting=replace(some.setting, gamma=0.5))
    assert not any("W170" in text for text in warning_texts(at, GES(0.6)))
    _, _, by_action, inverse = some.setting.rules
    assert f"W170 γ√E[κ²] = 1.80 exceeds 1{rest}" in warning_texts(growing, by_action)
    assert f"W170 lambda=0.3 exceeds {0.3 / 1.8:.2f}{rest}" in warning_texts(growing, inverse)


@pytest.mark.parametrize(
    ("inactive", "share"), [(1.0, None), (1.5, "0.1%"), (-20.0, "2.0%"), (0.0, None)]
)
@pytest.mark.parametrize("scale", [1.0, 5e-4, -1.0])
def test_start_actions_that_never_occur_are_warned_of(some, inactive, share, scale):
    """Above a thousandth of Σ|φ| over the starts."""
    M, starts = np.eye(some.p), np.zeros((2, 3, some.p))
    M[3, 3] = 0.0
    starts[1, :, 3], starts[1, 0, 5] = inactive / 3, 1000.0 - abs(inactive)
    sums = replace(some, M=M, starts=scale * starts)
    actual = [text for text in warning_texts(sums, GES(0.6)) if text.startswith("W172")]
    text = "of the actions of his in the start states never occur in the log; their value is taken"
    assert actual == ([] if share is None else [f"W172 {share} {text} as 0."])


def test_statistics_are_counted_in_words(some):
    one = replace(some, steps=np.array([0, 1, 0]), episodes=np.array([1, 0, 0]))
    assert repr(one) == "Statistics(1 step, 1 episode, p=12, 4 rules, 2 targets)"
    more = replace(some, steps=np.array([0, 1000, 234]), estimated="by counts")
    assert repr(more) == (
        "Statistics(1,234 steps, 18 episodes, p=12, 4 rules, 2 targets, propensities estimated)"
    )


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 episode is in both"), (2, "2 episodes are in both")]
)
def test_episodes_in_both_logs_are_counted(count, words):
    data = columns([3, 4, 5], "terminated")
    one = statistics_of(Log({k: v[: 3 + 4 * (count - 1)] for k, v in data.items()}), GES(0.0))
    with pytest.raises(errors.InvalidParameter, match=f"merge: {words}"):
        one.merge(statistics_of(Log(data), GES(0.0)))


@pytest.mark.parametrize(
    ("cuts", "words"),
    [([2], "1 episode without an end flag in one continues in the other"),
     ([2, 8], "2 episodes without an end flag in one continue in the other")],
)  # fmt: skip
def test_episodes_split_between_logs_are_counted(cuts, words):
    data = columns([5, 6], "terminated", step=False)
    first = np.isin(np.arange(11), [*range(2), *(range(5, 8) if len(cuts) > 1 else ())])
    parts = [
        statistics_of(Log({k: v[part] for k, v in data.items()}), GES(0.0))
        for part in (first, ~first)
    ]
    for one, other in (parts, parts[::-1]):
        with pytest.raises(errors.InvalidParameter, match=f"merge: {words}"):
            one.merge(other)


def test_the_first_rule_and_target_are_meant_by_default(some):
    for method in (some.means, some.solve, some.factorised, some.system):
        default, first = method(), method(GES(0.6), "mine")
        for one, other in zip(numbers_of(default), numbers_of(first), strict=True):
            np.testing.assert_array_equal(one, other)
        for others in ((1, 0), (0, 1)):
            assert any(
                not np.array_equal(one, other)
                for one, other in zip(numbers_of(default), numbers_of(method(*others)), strict=True)
            )
    np.testing.assert_array_equal(some.solve().theta, some.solve(0, 0, 0.0).theta)
    assert some.factorised() is some.factorised(0, 0, 0.0)
    log = Log(mixed(seed=22))
    assert Statistics.of(log, GES(0.0), target, features=FOURIER, gamma=0.9).steps.shape == (20,)


def numbers_of(result):
    """The arrays of a solution, a factorisation, a system or a pair."""
    if isinstance(result, tuple):
        return result
    names = ("theta", "_reduced", "A", "b", "M", "C")
    return [getattr(result, name) for name in names if hasattr(result, name)]
