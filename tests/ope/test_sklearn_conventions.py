"""Estimators keep scikit-learn's conventions: parameters by name, clones, files."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import saddleback as sb
from saddleback.errors import InvalidParameter

KINDS = {
    sb.LSTD: {"ridge": 1e-3},
    sb.FQE: {"ridge": 1e-3, "iterations": 50},
    sb.SVRG: {"ridge": 1e-3, "rng": 0, "epochs": 5},
    sb.Streamed: {"alpha": 0.1, "beta": 0.1, "passes": 2},
}
WHERE = [[-0.5, 0.01], [-0.4, -0.02]]


class Own:
    """Custom features that are not equal to a copy of themselves."""

    size = 2
    dimensions = 2

    def encode(self, observations):
        return sb.features.Custom(lambda x: np.column_stack([np.ones(len(x)), x[:, 1]]), 2).encode(
            observations
        )


@pytest.fixture(scope="module")
def log():
    return sb.collect(sb.problems.mountain_car(), episodes=20, rng=0)


def make_estimator(kind, **changes):
    tiles = sb.features.Tiles((-1.2, -0.07), (0.6, 0.07), bins=3, tilings=2)
    return kind(**{"target": "pump:0.8", "features": tiles, "gamma": 0.9} | KINDS[kind] | changes)


def same(one, two):
    """Whether two fitted estimators answer alike."""
    return (
        one.value() == two.value()
        and one.value(WHERE) == two.value(WHERE)
        and np.array_equal(one.predict(WHERE), two.predict(WHERE))
        and one.outcome_ == two.outcome_
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_has_the_same_parameters_and_has_learned_nothing(kind, log):
    first = make_estimator(kind).fit(log)
    second = clone(first)
    assert type(second) is kind
    assert second is not first
    parameters, other = first.get_params(), second.get_params()
    assert list(parameters) == list(other)
    assert all(parameters[name] is other[name] for name in parameters)
    assert (second.theta_, second.statistics_, second.outcome_) == (None, None, "not fitted")
    with pytest.raises(sb.errors.Undefined, match="call fit"):
        second.value()
    assert same(second.fit(log), first)


def test_custom_features_survive_a_clone(log):
    first = make_estimator(sb.LSTD, features=Own()).fit(log)
    assert clone(first).features is first.features
    assert same(clone(first).fit(log), first)


def test_a_classifier_that_is_the_target_stays_fitted_in_a_clone(log):
    rng = np.random.default_rng(0)
    model = LogisticRegression().fit(rng.normal(size=(60, 2)), np.arange(60) % 3)
    first = make_estimator(sb.LSTD, target=model).fit(log)
    assert same(clone(first).fit(log), first)
    assert same(pickle.loads(pickle.dumps(first)), first)


def test_a_clone_does_not_draw_from_the_generator_of_another(log):
    first = make_estimator(sb.SVRG, rng=np.random.default_rng(0), epochs=2)
    second = clone(first)
    assert second.rng is not first.rng
    assert np.array_equal(first.fit(log).theta_, second.fit(log).theta_)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_those_of_the_constructor(kind):
    estimator = make_estimator(kind)
    parameters = estimator.get_params()
    assert not any(name.endswith("_") or name.startswith("_") for name in parameters)
    assert parameters.items() >= KINDS[kind].items()
    assert kind(**parameters).get_params() == parameters == estimator.get_params(deep=False)


def test_parameters_are_set_by_name():
    estimator = make_estimator(sb.LSTD)
    assert estimator.set_params(ridge=0.5, gamma=0.8) is estimator
    assert (estimator.ridge, estimator.gamma) == (0.5, 0.8)
    assert estimator.set_params() is estimator
    with pytest.raises(InvalidParameter, match=r"LSTD: unknown parameter 'gama'.*'gamma'"):
        estimator.set_params(ridge=0.7, gama=0.9)
    assert estimator.ridge == 0.5  # all or nothing
    with pytest.raises(InvalidParameter, match="unknown parameter 'theta_'"):
        estimator.set_params(theta_=np.zeros(3))


@pytest.mark.parametrize("target", ["pump:0.8", "uniform", "always:1", sb.policies.pump(0.8)])
@pytest.mark.parametrize("kind", KINDS)
def test_estimators_are_pickled_fitted_and_unfitted(kind, target, log):
    estimator = make_estimator(kind, target=target, allow_uncovered=True)
    loaded = pickle.loads(pickle.dumps(estimator))
    assert loaded.theta_ is None
    fitted = estimator.fit(log)
    assert same(pickle.loads(pickle.dumps(fitted)), fitted)
    assert same(loaded.fit(log), fitted)


def test_a_mixture_and_a_table_are_pickled():
    two = sb.problems.two_state(0.5, rewards=[[1, -1], [0.5, 2]])
    log = sb.collect(two, steps=200, rng=0)
    half = sb.policies.mixture(sb.policies.uniform(2), sb.policies.always(0, 2), 0.5)
    for target in (two.target, half):
        one = sb.LSTD(target=target, features=sb.features.OneHot(2), gamma=0.5).fit(log)
        loaded = pickle.loads(pickle.dumps(one))
        assert loaded.value([[0.0], [1.0]]) == one.value([[0.0], [1.0]])


def test_estimators_are_kept_with_joblib(log, tmp_path):
    fitted = make_estimator(sb.LSTD).fit(log)
    joblib.dump(fitted, tmp_path / "one.joblib")
    loaded = joblib.load(tmp_path / "one.joblib")
    assert same(loaded, fitted)
    assert loaded.get_params()["rule"] == fitted.rule
    more = loaded.partial_fit(sb.collect(sb.problems.mountain_car(), episodes=5, rng=1))
    assert more.value() != fitted.value()
