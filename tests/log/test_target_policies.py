"""Target policies in every accepted form are equivalent; anything else is refused."""

import functools

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from helpers.log_cases import error_matching
from helpers.logs import columns, mixed
from saddleback import GES, errors, features
from saddleback.log import Log, LogError, Target, as_target
from saddleback.ope.statistics import Statistics

OBSERVATIONS = np.random.default_rng(0).normal(size=(50, 2))
BOX = features.Polynomial((-4.0, -4.0), (4.0, 4.0), 1)

MODULE = """
import numpy as np
from sklearn.linear_model import LogisticRegression

SCALE = 2.0

def probs(observations):
    z = np.exp(SCALE * observations[:, :1] * np.arange(3.0))
    return z / z.sum(axis=1, keepdims=True)

rng = np.random.default_rng(0)
x = rng.normal(size=(60, 2))
model = LogisticRegression().fit(x, np.arange(60) % 3)
number = 7
"""


def probs(observations):
    z = np.exp(2.0 * observations[:, :1] * np.arange(3.0))
    return z / z.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def log():
    return Log(mixed())


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "mypol.py"
    path.write_text(MODULE)
    return path


def sums(log, target):
    return Statistics.of(log, GES(0.5), target, features=BOX, gamma=0.9, allow_uncovered=True).A


# Forms.


def test_functions_can_be_targets(log, module):
    function, named = as_target(probs, log), as_target(f"{module}:probs", log)
    assert function.name == "probs"
    assert named.name == f"{module}:probs"
    assert as_target(probs, log, "mine").name == "mine"
    for target in (function, named):
        np.testing.assert_array_equal(target.at(OBSERVATIONS, 3), probs(OBSERVATIONS))
    assert as_target(function, log) is function
    assert as_target(function, log, "other").name == "other"
    np.testing.assert_array_equal(sums(log, probs), sums(log, f"{module}:probs"))


def test_columns_can_be_targets(log):
    data = mixed()
    seen = np.column_stack([data["obs_0"], data["obs_1"]])
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    finite = np.isfinite(after[:, 0])
    later = np.full((len(seen), 3), np.nan)
    later[finite] = probs(after[finite])
    for prefix, target in (("pi", "columns"), ("night", "columns:night")):
        more = {f"{prefix}_{a}": probs(seen)[:, a] for a in range(3)}
        more |= {f"next_{prefix}_{a}": later[:, a] for a in range(3)}
        np.testing.assert_array_equal(sums(Log(data | more), target), sums(log, probs))
        with error_matching(
            errors.InvalidParameter, f"target '{target}' is defined only on the rows of the log. Pass "
            "it as a function to evaluate other observations."
        ):  # fmt: skip
            as_target(target, Log(data | more)).at(OBSERVATIONS, 3)


def test_built_in_targets(log):
    even = as_target("uniform", log).at(OBSERVATIONS, 3)
    np.testing.assert_array_equal(even, np.full((50, 3), 1 / 3))
    named = Log(mixed(), actions=["none", "low", "high"])
    np.testing.assert_array_equal(
        as_target("always:low", named).at(OBSERVATIONS, 3), np.tile([0, 1, 0], (50, 1))
    )
    pump = as_target("pump:0.8", log).at(OBSERVATIONS, 3)
    assert (pump.max(axis=1) == 0.8).all()


def test_the_logged_policy_is_mu(log):
    assert as_target("logged", log).table == "mu"
    data = mixed()
    at = np.column_stack([data[f"mu_{a}"] for a in range(3)])
    for segment in log.segments():
        probabilities = as_target("logged", log).probabilities(segment, 3)
        rows = segment.rows.first + segment.index
        np.testing.assert_array_equal(probabilities[segment.states], at[rows])
    bare = mixed(mu=False)
    function = as_target("logged", Log(bare, behaviour=probs))
    np.testing.assert_array_equal(function.at(OBSERVATIONS, 3), probs(OBSERVATIONS))
    with error_matching(
        errors.InvalidParameter, "target 'logged' needs mu for all actions. Add columns mu_0, "
        "mu_1, …, declare behaviour=function, or estimate it: estimate_behaviour(log)."
    ):  # fmt: skip
        as_target("logged", Log(bare))


def test_tables_can_be_targets():
    data = columns([5, 5], "terminated", d=1)
    finite = Log(data | {"obs_0": np.arange(10) % 4 * 1.0})
    table = np.random.default_rng(0).dirichlet(np.ones(3), 4)
    target = as_target(table, finite)
    np.testing.assert_array_equal(target.at(np.array([[2.0], [0.0]]), 3), table[[2, 0]])
    assert as_target(table.tolist(), finite).fingerprint == target.fingerprint
    assert as_target(table[::-1], finite).fingerprint != target.fingerprint
    for wrong in ([[4.0]], [[-1.0]], [[0.5]], [[0.0, 1.0]]):
        with error_matching(
            LogError, "E144 target 'table' policy failed: ValueError: a table with 4 rows needs "
            f"observations that are integers 0 … 3; got {wrong[0]}."
        ):  # fmt: skip
            target.at(np.array(wrong), 3)


# Classifiers.


def test_classifiers_can_be_targets(log, module):
    x = np.random.default_rng(1).normal(size=(90, 2))
    model = LogisticRegression().fit(x, np.arange(90) % 3)
    target = as_target(model, log)
    assert target.name == "LogisticRegression"
    np.testing.assert_array_equal(target.at(OBSERVATIONS, 3), model.predict_proba(OBSERVATIONS))
    refitted = LogisticRegression().fit(x, np.arange(90) % 3)
    assert as_target(refitted, log).fingerprint == target.fingerprint
    assert (
        as_target(LogisticRegression().fit(x, np.arange(90) // 30), log).fingerprint
        != target.fingerprint
    )
    loaded = as_target(f"{module}:model", log)
    assert loaded.name == f"{module}:model"
    assert loaded.at(OBSERVATIONS, 3).shape == (50, 3)
    assert sums(log, model).shape == sums(log, probs).shape


def test_actions_a_classifier_lacks_have_probability_zero(log):
    x = np.random.default_rng(1).normal(size=(90, 2))
    for labels in (np.array([0, 2]), np.array([0.0, 2.0])):
        model = DecisionTreeClassifier(max_depth=2).fit(x, labels[np.arange(90) % 2])
        probabilities = as_target(model, log).at(OBSERVATIONS, 3)
        np.testing.assert_array_equal(probabilities[:, [0, 2]], model.predict_proba(OBSERVATIONS))
        assert (probabilities[:, 1] == 0).all()


def test_classifiers_match_names_of_actions_and_columns():
    x = np.random.default_rng(1).normal(size=(90, 2))
    names = np.array(["none", "low", "high"])
    log = Log(mixed(), actions=names.tolist())
    frame = pandas.DataFrame(x[:, ::-1], columns=["obs_1", "obs_0"])
    model = LogisticRegression().fit(frame, names[np.arange(90) % 3])
    probabilities = as_target(model, log).at(OBSERVATIONS, 3)
    frame = pandas.DataFrame(OBSERVATIONS[:, ::-1], columns=["obs_1", "obs_0"])
    order = [model.classes_.tolist().index(name) for name in names]
    np.testing.assert_array_equal(probabilities, model.predict_proba(frame)[:, order])


def test_classifiers_that_do_not_fit_are_rejected(log):
    rng = np.random.default_rng(1)
    with error_matching(
        errors.InvalidParameter, "target 'LogisticRegression': the classifier's class 'high' is not "
        'an action of the log (0, 1, 2). List the actions: actions=["high", "low", "none"].'
    ):  # fmt: skip
        as_target(
            LogisticRegression().fit(rng.normal(size=(6, 2)), ["high", "low", "none"] * 2), log
        )
    with error_matching(errors.InvalidParameter, 'actions=["0", "1", "2", "5"].'):
        as_target(LogisticRegression().fit(rng.normal(size=(4, 2)), [1, 5] * 2), log)
    with error_matching(
        LogError, "E140 obs has 2 columns (obs_0, obs_1), but target 'LogisticRegression' expects 3 "
        'columns. List 3 columns: observations=["NAME", "NAME", "NAME"].'
    ):  # fmt: skip
        as_target(LogisticRegression().fit(rng.normal(size=(4, 3)), [0, 1] * 2), log)
    frame = pandas.DataFrame(rng.normal(size=(4, 2)), columns=["hr", "bp"])
    with pytest.raises(LogError, match=r"expects 2 columns \(hr, bp\)\.$"):
        as_target(LogisticRegression().fit(frame, [0, 1] * 2), log)
    frame.columns = ["obs_1", "step"]
    with error_matching(LogError, 'List 2 columns: observations=["obs_1", "step"].'):
        as_target(LogisticRegression().fit(frame, [0, 1] * 2), log)


# Errors.


def test_bad_targets_are_rejected(log, module):
    for message, given in (
        ("unknown target policy 'unifrom'. Did you mean 'uniform'?", "unifrom"),
        ("unknown target policy 'mypol'.", "mypol:probs"),
        ("unknown action '7'. Known: 0, 1, 2.", "always:7"),
        ("target 'pump:much': 'much' is not a probability. Write, for example, pump:0.8.", "pump:much"),
        ("probability must be a number in [0, 1], got 2", "pump:2"),
        (f"'{module}' names a file but no object in it: write {module}:function.", str(module)),
        ("nowhere.py is not a file: write path/to/module.py:probs.", "nowhere.py:probs"),
        (f"unknown name in {module} 'prob'. Did you mean 'probs'?", f"{module}:prob"),
        (f"target '{module}:number' is int, not a function", f"{module}:number"),
        ("the log has no columns pi_0, pi_1, … Its tables of probabilities are: mu, next_mu.", "columns"),
        ("a target table must have one row per observation and 3 columns, one per action; got shape [2, 2].", np.full((2, 2), 0.5)),
        ("a fitted classifier, a table, or one of uniform, logged, columns, always, pump; got float.", 0.5),
        ("E104 target table: probabilities sum to 0.6, not 1, for 2 of 2 observations (first: [0]).", np.full((2, 3), 0.2)),
        ("E144 target table gives a negative probability for 1 of 1 observations", [[-1.0, 1.0, 1.0]]),
        ("a target must be a function, 'module.py:function', a fitted classifier, a table, or one of uniform, logged, columns, always, pump; got dict.", {"a": 1}),
    ):  # fmt: skip
        with error_matching(errors.SaddlebackError, message):
            as_target(given, log)
    module.write_text("import nothing_of_that_name")
    with error_matching(
        errors.InvalidParameter, f"importing {module} failed: ModuleNotFoundError: No module"
    ):
        as_target(f"{module}:probs", log)


def test_a_policy_for_other_actions_is_rejected(log):
    with error_matching(
        LogError, "E141 target 'pump:0.8' policy returned shape (n, 3); expected (n, 2)"
    ):
        as_target("pump:0.8", log).at(OBSERVATIONS, 2)


def test_the_policy_for_mountain_car_is_refused_on_other_logs(log):
    needs = "is a policy for MountainCar, of 2 observation columns, position and velocity, and 3"
    with error_matching(errors.InvalidParameter, f"target 'pump:0.8' {needs} actions; the log has"):
        as_target("pump:0.8", log.with_options(observations=["obs_0"]))


# Fingerprints differ between policies.


def test_fingerprints_differ_between_policies(log, module):
    one = as_target(f"{module}:probs", log).fingerprint
    assert one == as_target(f"{module}:probs", log).fingerprint
    module.write_text(MODULE.replace("SCALE = 2.0", "SCALE = 3.0"))
    assert as_target(f"{module}:probs", log).fingerprint != one

    def tilted(observations, by=1.0):
        return probs(by * observations)

    fingerprints = [
        as_target(target, log).fingerprint
        for target in (
            probs, tilted, functools.partial(tilted, by=2.0), functools.partial(tilted, by=3.0),
            "uniform", "always:1", "always:2", "pump:0.8",
        )
    ]  # fmt: skip
    assert len(set(fingerprints)) == len(fingerprints)
    assert not any("0x" in text for text in fingerprints)
    assert as_target(functools.partial(tilted, by=2.0), log).fingerprint == fingerprints[2]
    assert isinstance(as_target(probs, log), Target)
