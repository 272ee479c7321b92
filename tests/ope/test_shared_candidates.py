"""Features shared by all actions."""

import numpy as np
import pytest

from helpers.decision_logs import target
from helpers.logs import mixed
from saddleback import Log
from saddleback.features import Scaling
from saddleback.features.standardised import median_distance, random_waves
from saddleback.log.target_policies import as_targets
from saddleback.ope.episode_sample import FOLDS, sample_episodes
from saddleback.ope.fold_sums import Rows
from saddleback.ope.marginal_dr import fit_basis
from saddleback.ope.shared_candidates import shared_candidates


@pytest.fixture(scope="module")
def sample():
    log = Log(mixed(3))
    return sample_episodes(log, as_targets({"new": target}, log), 4000)[0]


@pytest.fixture(scope="module")
def bases(sample):
    return list(shared_candidates(sample, "new", limit=60, max_waves=20))


def by_definition(basis, points, action):
    """φ(s, a) as in the module's docstring, from the draws of the basis."""
    waves = basis.encode
    x = waves.scaling(points)
    indicator = np.tile(np.eye(len(basis.phases))[action], (len(x), 1))
    waves = np.sqrt(2) * np.cos(x @ waves.frequencies + basis.phases[action] + waves.offsets)
    return np.column_stack([np.ones(len(x)), x, indicator, waves])


def test_expectations_are_sums_over_actions(sample, bases):
    assert len({basis.view.name for basis in bases}) == 3
    for basis in bases:
        rows = np.arange(len(sample.rewards))
        before, after, start = basis.before(rows), basis.after(rows), basis.start()
        actions = range(sample.n_actions)
        for features, points, pi in (
            (before, basis.view.before, np.eye(sample.n_actions)[sample.actions]),
            (after, basis.view.after, sample.next_pi["new"]),
            (start, basis.view.start, sample.start_pi["new"]),
        ):
            expected = sum(pi[:, [a]] * by_definition(basis, points, a) for a in actions)
            assert np.allclose(features, expected, atol=1e-6)  # waves have single precision


def test_weights_by_action_give_the_same_values(sample, bases):
    for basis in bases:
        p = basis.start().shape[1]
        theta = np.random.default_rng(0).normal(size=(5, p))
        blocks = basis.by_action(theta, sample.n_actions)
        encoded = basis.encode(basis.view.before)
        for a in range(sample.n_actions):
            expected = by_definition(basis, basis.view.before, a) @ theta[2]
            assert np.allclose(encoded @ blocks[2, a], expected, atol=1e-5)


def test_many_actions_have_more_of_them(sample, bases):
    few = list(shared_candidates(sample, "new", limit=600, max_waves=20))
    assert len(few) < len(bases)
    assert "linear, shared" in [basis.name for basis in bases]


def test_traces_are_those_of_tree_backup(sample):
    gamma, lam = 0.9, 0.7
    *_, basis = (
        one for one in shared_candidates(sample, "new", limit=60, max_waves=20, lam=lam) if one.lam
    )
    assert basis.name == "linear, shared, λ 0.7"
    fits = fit_basis(basis, Rows.shared(sample, "new", gamma), None, (1e-12,), (1.0,))
    n = len(sample.rewards)
    phi, after, first = basis.before(np.arange(n)), basis.after(np.arange(n)), basis.start()
    after = gamma * sample.continues[:, None] * after
    z = np.zeros((n, phi.shape[1]))
    for t in range(n):
        z[t] = phi[t]
        if sample.step[t]:
            pi = sample.next_pi["new"][t - 1]
            z[t] += gamma * lam * pi[sample.actions[t]] * z[t - 1]
    for k in range(FOLDS):
        own = sample.folds[sample.episode] == k
        A, b = z[~own].T @ (phi - after)[~own], z[~own].T @ sample.rewards[~own]
        theta = np.linalg.lstsq(A, b, rcond=1e-9)[0]
        x = first[sample.folds != k].sum(axis=0)
        u = np.linalg.lstsq(A.T, x, rcond=1e-9)[0]
        delta = sample.rewards - (phi - after) @ theta
        assert np.allclose(fits.delta[0, own, 0], delta[own], atol=1e-5)
        assert np.allclose(fits.ratio[0, own, 0], (z @ u)[own], atol=1e-5)
    none = shared_candidates(sample, "new", limit=60, max_waves=20)
    assert not any(one.lam for one in none)


def named(sample, **options):
    return {
        (basis.view.name, basis.name): basis
        for basis in shared_candidates(sample, "new", **options)
    }


def test_there_are_as_many_candidates_as_few_features_for_each_action_allow(sample):
    """Bandwidths as multiples of the median distance, and kernels of 0.5 and 0.91 between actions.

    179 features are 59 for each of the three actions, so there are more candidates; 180 are not.
    """
    few, many = (named(sample, limit=limit, max_waves=30, lam=0.5) for limit in (179, 180))
    for actual, is_many in ((few, True), (many, False)):
        for view in ("observation", "step", "history"):
            own = {name: basis for (of, name), basis in actual.items() if of == view}
            (point,) = {id(basis.view.before): basis.view.before for basis in own.values()}.values()
            scaling = Scaling.of(point)
            width = median_distance(scaling(point))
            factors = [(1, 0.83)]
            if view == "observation" or is_many:
                factors.append((2, 0.83))
            if view == "observation" and is_many:
                factors += [(0.5, 0.83), (4, 0.83), (1, 0.3)]
            expected = [
                f"random Fourier 30 shared, bandwidth {width * factor:.2g}, κ {kappa:g}"
                for factor, kappa in factors
            ]
            expected += ["linear, shared"] * is_many
            if view == "observation":
                expected.append(f"random Fourier 30 shared, bandwidth {width:.2g}, κ 0.83, λ 0.5")
                expected.append("linear, shared, λ 0.5")
            assert list(own) == expected
            for name, basis in own.items():
                assert basis.lam == (0.5 if "λ" in name else 0.0)
                assert basis.is_smooth == ("Fourier" in name)
                waves = 30 if basis.is_smooth else 0
                assert basis.phases.shape == (3, waves)
                assert basis.start().shape[1] == 1 + scaling.size + 3 + waves


@pytest.mark.parametrize(("room", "waves"), [(7, 0), (8, 8), (9, 9), (-1, None), (0, 0)])
def test_waves_take_the_room_that_is_left(sample, room, waves):
    """Of an observation with two columns and three actions: a constant, and one feature each."""
    actual = named(sample, limit=1 + 2 + 3 + room, max_waves=20, lam=0.5)
    sizes = {basis.phases.shape[1] for (view, _), basis in actual.items() if view == "observation"}
    assert sizes == (set() if waves is None else {0, waves})
    with_traces = [name for view, name in actual if "λ" in name]
    assert len(with_traces) == (2 if waves else 0)


def test_waves_with_traces_are_at_most_a_hundred(sample):
    sizes = [
        (basis.phases.shape[1], basis.lam)
        for (view, _), basis in named(sample, limit=500, max_waves=101, lam=0.5).items()
        if view == "observation"
    ]
    assert sizes == [(101, 0.0), (101, 0.0), (100, 0.5), (0, 0.5)]


def test_waves_and_phases_are_drawn_for_each_basis(sample):
    """The kernel between different actions is exp(−κ²): 0.5 with κ = 0.83."""
    first, second, *_ = named(sample, limit=150, max_waves=20).values()
    scaling = first.encode.scaling
    for k, basis in enumerate((first, second)):
        rng = np.random.default_rng([0, k])
        width = median_distance(scaling(basis.view.before)) * (k + 1)
        frequencies, offsets = random_waves(rng, scaling.size, 20, width)
        np.testing.assert_array_equal(basis.encode.frequencies, frequencies)
        np.testing.assert_array_equal(basis.encode.offsets, offsets)
        np.testing.assert_array_equal(basis.phases, 0.83 * rng.standard_normal((3, 20)))
