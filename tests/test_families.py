"""Families of decision problems: their truth is true, and the same seed makes the same rows."""

import numpy as np
import pytest
from benchmarks.families import FAMILIES, icu_sepsis
from benchmarks.families.family import exact_moments
from benchmarks.held_out import HELD_OUT
from benchmarks.situations.worlds import LONGEST, simulated_returns

import saddleback as sb

ALL = FAMILIES | HELD_OUT

every_family = pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, marks=[pytest.mark.slow] * name.startswith("icu"), id=name)
        for name, family in ALL.items()
    ],
)


def fresh_returns(task, policy, episodes, seed=12345):
    """Discounted returns of a policy, simulated now."""
    limit, rng = task.horizon or LONGEST, np.random.default_rng(seed)
    return simulated_returns(task.world, task.policy(policy), task.gamma, rng, episodes, limit)


@every_family
@pytest.mark.slow
def test_a_case_is_a_valid_log(family):
    """Shapes, flags and probabilities; `Log` validates the rows."""
    assert 50 <= min(family.sizes) <= max(family.sizes) <= 2000
    for level in family.levels:
        case = family.case(level, seed=3, episodes=20)
        rows, n = case.log, len(case.log["actions"])
        d = rows["observations"].shape[1]
        assert rows["observations"].shape == rows["next_observations"].shape == (n, d)
        for name in ("rewards", "propensities", "terminated", "truncated", "episode_id"):
            assert rows[name].shape == (n,)
        last = np.flatnonzero(rows["terminated"] | rows["truncated"])
        np.testing.assert_array_equal(last, np.cumsum(np.bincount(rows["episode_id"])) - 1)
        inside = np.setdiff1d(np.arange(n), last)
        np.testing.assert_array_equal(
            rows["next_observations"][inside], rows["observations"][inside + 1]
        )
        if case.horizon is not None:
            assert np.bincount(rows["episode_id"]).max() <= case.horizon
        pi = case.target(rows["observations"])
        assert pi.shape == (n, case.actions)
        np.testing.assert_allclose(pi.sum(axis=1), 1.0)
        assert case.spread > 0
        assert case.truth_error <= 0.01 * case.spread
        log = case.as_log()
        assert log.summary().episodes == 20
        assert log.dimensions == d
        assert len(log.action_names) == case.actions


@every_family
def test_a_case_depends_on_its_seed_only(family):
    level = family.levels[-1]
    first, second, other = (family.case(level, seed, 5).log for seed in (1, 1, 2))
    for name, column in first.items():
        np.testing.assert_array_equal(column, second[name])
    assert not all(np.array_equal(first[name], other[name]) for name in first)


@every_family
def test_actions_are_drawn_with_their_propensities(family):
    """Expected counts of the actions under μ are those observed."""
    task = family.task(family.levels[-1])
    case = family.case(family.levels[-1], 0, 60)
    taken = case.log["actions"]
    mu = task.mu(case.log["observations"])
    if not case.estimated:
        np.testing.assert_allclose(case.log["propensities"], mu[np.arange(len(taken)), taken])
    residual = np.eye(case.actions)[taken] - mu
    error = np.sqrt((mu * (1 - mu)).sum(axis=0))
    assert (np.abs(residual.sum(axis=0)) <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize(
    ("name", "level", "truth"),
    [
        ("graph", "near", 1.16448), ("graph", "far", 4.14303), ("model-win", "far", 0.92),
        ("model-fail", "far", -0.76), ("graph-sparse", "near", 0.3 * 0.98**3),
        ("mountain-car", "far", -79.83), ("cartpole-50", "far", 39.3),
        ("gridworld", "far", 0.4683),
    ],
)  # fmt: skip
def test_published_truths(name, level, truth):
    """Within half a unit of the fourth decimal, and standard errors if simulated."""
    values = FAMILIES[name].values(level)
    assert abs(values.truth - truth) < 5e-5 + 5 * values.truth_error


@pytest.mark.statistical
@every_family
def test_truth_is_the_mean_return(family):
    """Of π and of μ; the spread is that of returns under μ."""
    level = family.levels[1]
    task, values = family.task(level), family.values(level)
    for policy, value in ((task.pi, values.truth), (task.mu, values.baseline)):
        returns = fresh_returns(task, policy, 600)
        error = np.hypot(values.truth_error, returns.std() / np.sqrt(len(returns)))
        assert abs(returns.mean() - value) < 5 * error
    assert abs(returns.std() / values.spread - 1) < 0.25


def test_exact_moments_are_those_of_a_solved_mdp():
    """Against `FiniteMDP`: without an end other than the horizon, and with a discount below 1."""
    task = FAMILIES["graph-mc"].task("mid")
    P = np.pad(task.world.P, ((0, 1), (0, 0), (0, 0)))
    mdp = sb.FiniteMDP(P, np.full((22, 2), -1.0), 0.99, start=np.eye(22)[10], terminal=[21])
    pi = np.tile(task.mu(np.zeros((1, 1))), (22, 1))
    unlimited = type(task)(task.world, task.mu, task.pi, 0.99)
    assert exact_moments(unlimited, task.mu)[0] == pytest.approx(mdp.v(pi)[10], abs=1e-8)


def test_a_family_without_stored_values_asks_for_them():
    family = type(FAMILIES["clinic"])("new", FAMILIES["clinic"].build, {"near": 0.3})
    with pytest.raises(KeyError, match=r"python -m benchmarks.families.truths new"):
        family.case("near", 0, 10)


def test_families_held_out_have_names_of_their_own():
    assert len(HELD_OUT) == 21
    groups = [{f.group for f in families.values()} for families in (FAMILIES, HELD_OUT)]
    assert not groups[0] & groups[1]


needs_icu = pytest.mark.skipif(not icu_sepsis.FAMILIES, reason="icu-sepsis is not installed")


def test_icu_sepsis_is_left_out_if_it_is_not_installed():
    families, reasons = icu_sepsis.available(None)
    assert families == ()
    assert "icu-sepsis is not installed" in reasons[0]


@needs_icu
def test_icu_sepsis_has_its_published_values():
    """0.78 and 0.88, with 9.22 and 10.99 steps, here by linear equations."""
    world, clinicians, optimal, _ = icu_sepsis.patients()
    S, _ = world.sizes
    for policy, value, length in ((clinicians, 0.78, 9.22), (optimal, 0.88, 10.99)):
        on = np.einsum("sa,sat->st", policy, world.P)
        visits = np.linalg.solve((np.eye(S) - on[:, :S]).T, world.start)
        assert visits @ on[:, icu_sepsis.SURVIVAL] == pytest.approx(value, abs=0.005)
        assert visits.sum() == pytest.approx(length, abs=0.03)
        if policy is clinicians:
            values = FAMILIES["icu-states"].values("far")
            assert values.baseline == pytest.approx(visits @ on[:, icu_sepsis.SURVIVAL], abs=1e-9)
    assert (clinicians[optimal == 1] > 0).all()


@needs_icu
def test_icu_sepsis_is_the_same_by_number_and_by_measurements():
    numbered, measured = (FAMILIES[name].task("mid") for name in ("icu-states", "icu-centres"))
    states = np.random.default_rng(0).permutation(713)[:, None].astype(float)
    seen = measured.see(states)
    assert seen.shape == (713, 47)
    for name in ("mu", "pi"):
        by_number, by_measurement = getattr(numbered, name)(states), getattr(measured, name)(seen)
        np.testing.assert_array_equal(by_number, by_measurement)
