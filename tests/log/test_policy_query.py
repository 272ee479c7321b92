"""Bad policies, target columns and features are rejected; uncovered actions need permission."""

import sys

import numpy as np
import pytest

from helpers.log_cases import error_matching, good, with_value
from helpers.logs import content
from saddleback import GES, errors, evaluate, features
from saddleback.log import Log, LogError, as_target
from saddleback.ope.statistics import Statistics

POLYNOMIAL = features.Polynomial((-4.0, -4.0), (4.0, 4.0), 1)


# Policies.


def nan_policy(observations):
    result = np.full((len(observations), 3), 1 / 3)
    result[observations[:, 0] > 0] = np.nan
    return result


POLICIES = [
    ("E141 ", "policy returned shape (n, 2); expected (n, 3), one probability per row and action of the log.", lambda o: np.full((len(o), 2), 0.5)),
    ("E141 ", "policy returned shape (n,); expected (n, 3)", lambda o: np.zeros(len(o))),
    ("E141 ", "policy returned shape (3,); expected (n, 3)", lambda o: np.ones(3) / 3),
    ("E141 ", "policy returned shape (); expected (n, 3)", lambda o: 1.0),
    ("E144 ", "policy gives NaN for ", nan_policy),
    ("E144 ", "policy gives a negative probability for ", lambda o: np.tile([-0.5, 0.5, 1.0], (len(o), 1))),
    ("E104 ", "policy: probabilities sum to 0.9, not 1, for ", lambda o: np.full((len(o), 3), 0.3)),
    ("E144 ", "policy failed: KeyError: 'hr'", lambda o: {}["hr"]),
    ("E144 ", "policy failed: SystemExit: 3", lambda o: sys.exit(3)),
    ("E144 ", "policy failed: TypeError: it returned <U1 instead of numbers", lambda o: [["a", "b", "c"]] * len(o)),
    ("E144 ", "policy failed: TypeError: it returned complex128 instead of numbers", lambda o: np.full((len(o), 3), 1 / 3 + 1j)),
]  # fmt: skip


def failing_features(calls, error):
    """Return a function of features that fails after some calls."""

    def function(observations):
        calls.append(len(observations))
        if len(calls) > 2:
            raise error
        return observations

    return function


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("hr"), "features failed: KeyError: 'hr'"),
        (SystemExit(3), "features failed: SystemExit: 3"),
        (errors.InvalidParameter("not these."), "not these."),
    ],
)
def test_features_that_fail_later_are_rejected(error, message):
    with error_matching(errors.InvalidParameter, message):
        evaluate(good(), "uniform", gamma=0.9, features=failing_features([], error))


@pytest.mark.kernel
@pytest.mark.parametrize(
    "make",
    [
        lambda box: features.Fourier(*box, order=99),
        lambda box: features.Polynomial(*box, degree=10**6),
        lambda box: features.RBF(*box, centres=464),
    ],
)
def test_more_basis_functions_than_memory_are_rejected_at_once(make):
    with error_matching(errors.InvalidParameter, "functions of 3 columns are more than 100,000"):
        make(([0.0] * 3, [1.0] * 3))


@pytest.mark.parametrize(("code", "message", "policy"), POLICIES)
def test_bad_policies_are_rejected(code, message, policy):
    log = Log(good())
    with error_matching(LogError, code, message):
        Statistics.of(log, GES(0.5), {"mine": policy}, features=POLYNOMIAL, gamma=0.9)
    with error_matching(LogError, f"{code}behaviour {message}"):
        content(Log(good(), behaviour=policy))
    with error_matching(LogError, f"{code}target 'mine' {message}"):
        as_target(policy, log, "mine").at(log.start_states()[:2] + 3.0, 3)


def test_policy_errors_name_the_first_observation():
    with error_matching(
        LogError, "target 'nan_policy' policy gives NaN for 1 of 2 observations (first: [0.5, 7]). "
        "Every observation needs one probability per action."
    ):  # fmt: skip
        as_target(nan_policy, Log(good())).at(np.array([[-1.0, 0.0], [0.5, 7.0]]), 3)
    with error_matching(LogError, "(first: [1, 1, 1, 1, 1, 1, …])"):
        as_target(nan_policy, Log(good())).at(np.ones((1, 8)), 3)


def with_pi(**changes):
    data = good()
    pi = {f"pi_{a}": np.full(12, 1 / 3) for a in range(3)}
    return data | pi | changes


def test_bad_target_columns_are_rejected():
    def run(data, target="columns", **options):
        return Statistics.of(Log(data, **options), GES(0.5), target, features=POLYNOMIAL, gamma=0.9)

    with error_matching(
        LogError, "E146 pi_* does not cover the observation after truncated rows (first: episode 11 "
        "step 3). Add next_pi_0, … on those rows, or give the target as a function: evaluate(log, "
        "function)."
    ):  # fmt: skip
        run(with_pi())
    following = {f"next_pi_{a}": np.full(12, 1 / 3) for a in range(3)}
    assert run(with_pi(**following)).steps.sum() == 12
    assert run(with_pi(), time_limit="task").steps.sum() == 12
    off = with_pi(**following, pi_0=np.full(12, 0.3))
    message = "E104 pi_* sums to 0.966667 on 12 rows (first: episode 10 step 0)."
    with error_matching(LogError, message):
        run(off)
    assert str(Log(off).summary().errors[0]).startswith(message)
    with error_matching(LogError, "E104 next_pi_* sums to 0.967 on 12 rows"):
        run(with_pi(**(following | {"next_pi_0": np.full(12, 0.3 + 1 / 3000)})))
    with error_matching(LogError, "E141 few_* has 2 columns, but the log has 3 actions."):
        run(good() | {"few_0": np.full(12, 0.5), "few_1": np.full(12, 0.5)}, "columns:few")
    with error_matching(
        errors.InvalidParameter, "target 'columns': the log has no columns pi_0, pi_1, … Its "
        "tables of probabilities are: mu, next_mu."
    ):  # fmt: skip
        run(good())


def test_features_of_another_dimension_are_rejected():
    cube = features.Polynomial([-4.0] * 3, [4.0] * 3, 1)
    with error_matching(
        LogError, "E140 obs has 2 columns (obs_0, obs_1), features expect 3. List 3 columns: "
        'observations=["NAME", "NAME", "NAME"].'
    ):  # fmt: skip
        Statistics.of(Log(good()), GES(0.5), "uniform", features=cube, gamma=0.9)


def test_uncovered_actions_are_an_error_unless_allowed():
    data = good(mu=False) | {"action": np.array([0, 1] * 6)}
    never = Log(data, actions=["none", "low", "high"])
    message = (
        "E110 target 'uniform' takes actions that the logged policy never takes: 33.3% of its "
        "probability (action 'high' in 12 rows). Importance-weighted estimates are biased."
    )
    fix = " Restrict the target to logged actions, or accept the bias: allow_uncovered=True."
    with error_matching(LogError, message + fix):
        Statistics.of(never, GES(0.5), "uniform", features=POLYNOMIAL, gamma=0.9)
    result = Statistics.of(
        never, GES(0.5), "uniform", features=POLYNOMIAL, gamma=0.9, allow_uncovered=True
    )
    assert str(result.findings[0]) == message.replace("E110", "W110")
    zero = with_value("mu_2", [3], 0.0, with_value("mu_1", [3], 0.5, with_value("mu_0", [3], 0.5)))
    zero = with_value("action", [3], 0, with_value("behavior_prob", [3], 0.5, zero))
    with error_matching(LogError, "2.8% of its probability (action '2' in 1 row)"):
        Statistics.of(Log(zero), GES(0.5), "uniform", features=POLYNOMIAL, gamma=0.9)


def named(signs: dict):
    return signs["sofa"]


def writing(observations):
    observations[:] = 0


def test_an_error_of_a_policy_names_its_line():
    log = Log(good())
    lines = {f: f.__code__.co_firstlineno + 1 for f in (named, writing)}
    with error_matching(LogError, "E144 ", f"(test_policy_query.py line {lines[named]})"):
        as_target(named, log).at(np.zeros((2, 2)), 3)
    with error_matching(errors.InvalidParameter, "E144 target 'writing' policy: writing writes"):
        as_target(writing, log).at(np.zeros((2, 2)), 3)
