"""Tiles and MountainCar: against Gymnasium, and the engine on them against the oracle."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

import saddleback as sb
from helpers.problems import steps_of
from saddleback import System, learn, problems
from saddleback.features import RBF, Custom, Fourier, Polynomial, Tiles
from saddleback.problems.mountain_car import MountainCar

BOX = Tiles(low=(-1.0, 0.0), high=(1.0, 2.0), bins=5, tilings=8)


@pytest.mark.kernel
@given(hnp.arrays(float, (7, 2), elements=st.floats(-3, 3)))
@settings(max_examples=40, deadline=None)
def test_tiles_follow_their_definition(observations):
    active = BOX(observations)
    for n, point in enumerate(observations):
        scaled = np.clip((point - np.array(BOX.low)) * (5 / 2.0), 0.0, 5.0)
        for i in range(8):
            shift = np.array([i % 8, 3 * i % 8]) / 8
            row, column = np.minimum(np.floor(scaled + shift), 5).astype(int)
            assert active[n, i] == i * 36 + row * 6 + column
    assert active.max() < BOX.size == 8 * 36


def test_tiles_of_near_points_overlap_more():
    def shared(distance):
        a, b = BOX([[0.0, 1.0], [distance, 1.0]])
        return (a == b).sum()

    assert shared(0.0) == 8
    assert 8 > shared(0.1) > shared(0.3) >= shared(0.5) == 0


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("message", "act"),
    [
        ("bins must be a whole number >= 1, got 0", lambda: Tiles((0,), (1,), 0, 4)),
        ("low[1] = 1 must be less than high[1] = 1", lambda: Tiles((0, 1), (1, 1), 8, 4)),
        ("high must have shape [2], got [1]", lambda: Tiles((0, 1), (1,), 8, 4)),
        ("tiles are more than 2147483648; hash them", lambda: Tiles((0,) * 9, (1,) * 9, 15, 4)),
        ("table must be a whole number >= 1, got 0", lambda: Tiles((0,), (1,), 8, 4, table=0)),
        ("order must be a whole number >= 1, got 0", lambda: Fourier((0,), (1,), order=0)),
        ("RBF: low[0] = 1 must be less than high[0] = 1", lambda: RBF((1,), (1,), centres=3)),
        ("box has a side from low[0] = 0 to", lambda: Tiles((0,), (5e-324,), 8, 4)),
        ("box has a side from low[0] = -1e", lambda: Polynomial((-1e308,), (1e308,), degree=1)),
        ("observations[0, 0] is inf", lambda: Polynomial((0,), (1,), degree=1)([[np.inf]])),
        ("function must be callable, got 3", lambda: Custom(3, size=2)),
        ("must have shape [1, 2], got [1, 3]", lambda: Custom(lambda o: np.ones((1, 3)), 2)([[0]])),
        ("features[0] is nan", lambda: Custom(lambda o: np.full((1, 2), np.nan), 2)([[0]])),
        ("observations[0, 1] is nan", lambda: BOX([[0.0, np.nan]])),
        ("observations must have shape [n, 2], got [1, 3]", lambda: BOX([[0.0, 0.0, 0.0]])),
    ],
)
def test_invalid_tiles_are_refused(message, act):
    with pytest.raises(sb.errors.SaddlebackError) as caught:
        act()
    assert message in str(caught.value)


def test_mountain_car_equals_gymnasiums_step_for_step():
    env = gymnasium.make("MountainCar-v0").unwrapped
    piece = MountainCar(problems.mountain_car().behaviour, 0.99, np.random.default_rng(1)).take(
        30_000
    )
    env.reset(seed=0)
    over = 0
    for t in range(len(piece.rewards)):
        if piece.starts[t]:
            assert -0.6 <= piece.observations[t, 0] <= -0.4
            assert piece.observations[t, 1] == 0.0
            env.state = tuple(piece.observations[t])
        _, reward, terminated, _, _ = env.step(int(piece.actions[t]))
        assert tuple(env.state) == tuple(piece.next_observations[t])
        assert reward == piece.rewards[t]
        assert terminated == (piece.discounts[t] == 0.0)
        over += terminated
    assert over > 150


def test_mountain_car_follows_its_policy():
    piece = MountainCar(problems.mountain_car().behaviour, 0.99, np.random.default_rng(2)).take(
        200_000
    )
    np.testing.assert_array_equal(piece.kinds, piece.observations[:, 1] > 0)
    for kind, row in enumerate(problems.mountain_car().behaviour):
        shares = (
            np.bincount(piece.actions[piece.kinds == kind], minlength=3)
            / (piece.kinds == kind).sum()
        )
        np.testing.assert_allclose(shares, row, atol=0.003)
    # Mean length of an episode under μ: 135.8 (100,000 episodes, sd 30.6).
    lengths = np.diff(np.flatnonzero(piece.starts))
    assert lengths.mean() == pytest.approx(135.8, abs=4 * 30.6 / np.sqrt(len(lengths)))


def dense_run(rule, simulation, piece, alpha, beta):
    """The oracle on tiles: plain NumPy, dense vectors, form by form."""
    pi, mu, A = simulation.target, simulation.behaviour, simulation.n_actions
    if piece.target is not None:
        pi, mu = piece.target, piece.behaviour
    by_action = simulation.values == "action"
    p = simulation.p
    kappa_of = rule.trace.kappa(pi, mu)
    c = rule.form.coefficients
    theta, omega, e, gamma = np.zeros(p), np.zeros(p), np.zeros(p), 0.0

    phi_taken = simulation.phi(piece.observations, piece.actions)
    next_rows = [
        simulation.phi(piece.next_observations, np.full(len(piece.rewards), a)) for a in range(A)
    ]

    for t in range(len(piece.rewards)):
        s, a, s1, gamma1 = piece.kinds[t], piece.actions[t], piece.next_kinds[t], piece.discounts[t]
        if piece.starts[t]:
            gamma = 0.0
        phi = phi_taken[t]
        next_phi = np.array([rows[t] for rows in next_rows])
        b = pi[s1] @ next_phi
        x = (pi[s1] - mu[s1] * kappa_of[s1]) @ next_phi
        w = 1.0 if by_action else pi[s, a] / mu[s, a]
        e = gamma * kappa_of[s, a] * e + w * phi
        delta = piece.rewards[t] + gamma1 * theta @ b - theta @ phi
        u = e @ omega
        d_theta = (
            c.td * delta * e + c.saddle * (phi - gamma1 * b) * u - c.correction * gamma1 * x * u
        )
        d_omega = c.dual * delta * e - c.gram * (phi @ omega) * phi - c.shrink * omega
        theta, omega, gamma = theta + alpha * d_theta, omega + beta * d_omega, gamma1
    return theta, omega


@pytest.mark.kernel
@pytest.mark.parametrize(
    "rule",
    [sb.GES(0.0), sb.GES(0.3), sb.GES(0.99), sb.GQ(0.6), sb.ABQ(0.9), sb.GTB(0.9),
     sb.ExpectedSarsa(0.5), sb.TD(0.5), sb.GTD(), sb.TDRC(0.9), sb.TDC(0.3)],
    ids=str,
)  # fmt: skip
def test_learning_on_tiles(rule):
    car = problems.mountain_car(values=rule.values)
    n = steps_of(3000, 150)
    run = learn(rule, car, alpha=[0.001, 0.01], beta=0.005, steps=n, rng=3, bound=1e300)
    sampler = car.sampler(np.random.default_rng(np.random.SeedSequence(3)))
    theta, omega = dense_run(rule, car, sampler.take(n), 0.01, 0.005)
    np.testing.assert_allclose(run.theta[1], theta, rtol=1e-9, atol=1e-12 * np.abs(theta).max())
    np.testing.assert_allclose(run.omega[1], omega, rtol=1e-9, atol=1e-12 * np.abs(omega).max())


LOW, HIGH = (-1.2, -0.07), (0.6, 0.07)
FEATURES = {
    "hashed": Tiles(LOW, HIGH, bins=8, tilings=4, table=30),
    "fourier": Fourier(LOW, HIGH, order=2),
    "polynomial": Polynomial(LOW, HIGH, degree=2),
    "rbf": RBF(LOW, HIGH, centres=3),
    "custom": Custom(lambda obs: obs[:, :1] > np.linspace(-1, 0, 6), size=6),
    "sparse": Custom(lambda obs: csr_array(obs[:, :1] > np.linspace(-1, 0, 6)), size=6),
}


@pytest.mark.kernel
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", FEATURES)
def test_learning_on_other_features(name, shared):
    car = problems.mountain_car(features=FEATURES[name], shared=shared)
    n = steps_of(2000, 100)
    run = learn(
        sb.GES(0.6), car, alpha=[0.01, 0.02], beta=0.02, steps=n, rng=3, bound=1e300,
        record=[1, 2, 3, 50],
    )  # fmt: skip
    sampler = car.sampler(np.random.default_rng(np.random.SeedSequence(3)))
    theta, omega = dense_run(sb.GES(0.6), car, sampler.take(n), 0.02, 0.02)
    np.testing.assert_allclose(run.theta[1], theta, rtol=1e-8, atol=1e-11 * np.abs(theta).max())
    np.testing.assert_allclose(run.omega[1], omega, rtol=1e-8, atol=1e-11 * np.abs(omega).max())


@pytest.mark.kernel
@pytest.mark.parametrize("name", [n for n in FEATURES if n != "hashed"])
def test_features_of_arrays_equal_those_of_the_engine(name):
    features = FEATURES[name]
    points = np.random.default_rng(1).uniform(LOW, HIGH, size=(20, 2))
    seen = features.encode(points)
    np.testing.assert_allclose(features(points), seen.dense(features.size))
    assert features(points).shape == (20, features.size)


@pytest.mark.kernel
def test_colliding_hashed_tiles_add_up():
    tiles = FEATURES["hashed"]
    points = np.random.default_rng(1).uniform(LOW, HIGH, size=(500, 2))
    index, value = tiles.encode(points)
    assert index.max() < tiles.size == 30
    assert (value.sum(axis=1) == 4).all()
    assert (value > 1).any()
    for row, counted in zip(index, value, strict=True):
        assert len(set(row[counted > 0])) == (counted > 0).sum() == len(set(row))
    high_dimensional = Tiles((0.0,) * 12, (1.0,) * 12, bins=8, tilings=8, table=10**6)
    spread = high_dimensional(np.random.default_rng(2).uniform(size=(400, 12)))
    assert len(np.unique(spread)) > 0.98 * spread.size


@pytest.mark.statistical
def test_the_fixed_point_of_an_estimate_predicts_the_value():
    """LSTD(0.5) on 270,000 steps; V^π = −79.83 by Monte Carlo over 200,000 episodes."""
    car = problems.mountain_car()
    system = System.estimate(car, sb.GES(0.5), steps=270_000, rng=0)
    theta = system.fixed_point
    starts = np.column_stack([np.linspace(-0.6, -0.4, 50), np.zeros(50)])
    by_action = (car.phi(starts, np.full(50, a)) @ theta for a in range(3))
    values = sum(pi * q for pi, q in zip(car.target[0], by_action, strict=True))
    assert values.mean() == pytest.approx(-79.83, abs=3.0)


@pytest.mark.kernel
def test_rules_for_other_values_are_refused():
    car = problems.mountain_car(values="state")
    assert repr(car) == "Simulation(mountain_car, gamma=0.99, state values, p=324)"
    with pytest.raises(
        sb.errors.RuleMismatch, match=r"TD\(0\) learns state values but mountain_car"
    ):
        learn(sb.TD(0.0), problems.mountain_car(), alpha=0.1, steps=10)
    with pytest.raises(sb.errors.InvalidParameter, match="learn: problem must be a Problem, got 3"):
        learn(sb.TD(0.0), 3, alpha=0.1, steps=10)


@pytest.mark.parametrize("rule", [sb.TDRC(0.5), sb.GTD(), sb.TDC(0.5), sb.TD(0.5)], ids=str)
def test_single_precision_of_every_form(rule):
    car = problems.mountain_car(values="state")
    double, single = (
        learn(rule, car, alpha=0.001, beta=0.05, steps=5000, rng=0, dtype=kind)
        for kind in ("float64", "float32")
    )
    assert double.ok
    assert single.ok
    np.testing.assert_allclose(single.theta, double.theta, atol=1e-2 * np.abs(double.theta).max())


@pytest.mark.slow
def test_single_precision_by_request():
    car = problems.mountain_car()
    double, single = (
        learn(sb.GES(0.5), car, alpha=[0.001, 0.01], beta=0.01, steps=2000, rng=3, dtype=kind)
        for kind in (np.float64, np.float32)
    )
    assert (double.theta.dtype, single.theta.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(single.theta, double.theta, atol=1e-4 * np.abs(double.theta).max())
    assert not np.array_equal(single.theta, double.theta)
    with pytest.raises(sb.errors.InvalidParameter, match="dtype must be float64 or float32"):
        learn(sb.GES(0.5), car, alpha=0.1, beta=0.1, steps=10, dtype=np.int64)


def cart_pole(**changes):
    settings = dict(
        features=Tiles((-2.4, -3, -0.2, -3), (2.4, 3, 0.2, 3), bins=3, tilings=2, table=60),
        target=lambda obs: np.column_stack(
            [0.5 + 0.4 * np.sign(obs[:, 2]), 0.5 - 0.4 * np.sign(obs[:, 2])]
        ),
        behaviour=lambda obs: np.full((len(obs), 2), 0.5),
        gamma=0.9,
    )
    env = gymnasium.make("CartPole-v1", max_episode_steps=25)
    return problems.from_gymnasium(env, **(settings | changes))


@pytest.mark.kernel
@pytest.mark.parametrize("rule", [sb.GES(0.6), sb.GTB(0.9), sb.GQ(0.3)], ids=str)
def test_learning_from_a_gymnasium_environment(rule):
    steps = 600
    run = learn(rule, cart_pole(), alpha=[0.01, 0.02], beta=0.02, steps=steps, rng=3, bound=1e300)
    cart = cart_pole()
    piece = cart.sampler(np.random.default_rng(np.random.SeedSequence(3))).take(steps)
    ends = np.flatnonzero(piece.starts)[1:] - 1
    assert {0.0, 0.9} == set(piece.discounts[ends])  # some fell, some were cut short
    going = ~piece.starts[1:]
    np.testing.assert_array_equal(
        piece.observations[1:][going], piece.next_observations[:-1][going]
    )
    np.testing.assert_array_equal(piece.actions[1:][going], piece.next_actions[:-1][going])
    theta, omega = dense_run(rule, cart, piece, 0.02, 0.02)
    np.testing.assert_allclose(run.theta[1], theta, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(run.omega[1], omega, rtol=1e-8, atol=1e-12)


@pytest.mark.kernel
def test_episodes_of_a_simulation():
    car = problems.mountain_car()
    run = learn(sb.GES(0.5), car, alpha=1e-3, beta=1e-3, episodes=3, rng=1, record=1)
    starts = np.flatnonzero(
        car.sampler(np.random.default_rng(np.random.SeedSequence(1))).take(1000).starts
    )
    assert run.updates.tolist() == [0, *starts[1:4]]


def test_action_dependent_traces_need_declared_extrema():
    with pytest.raises(sb.errors.RuleMismatch, match="needs the extrema of the policies"):
        learn(sb.ABQ(0.5), cart_pole(), alpha=0.1, beta=0.1, steps=10)
    declared = sb.Rule(sb.ActionDependent(0.5, extrema=(0.5, 0.9)), sb.Correction(), sb.Expected())
    assert str(declared) == "ABQ(0.5, extrema=(0.5, 0.9))"
    assert learn(declared, cart_pole(), alpha=0.001, beta=0.001, steps=50, rng=0).ok
    with pytest.raises(sb.errors.InvalidParameter, match="extrema must be 0 < smallest"):
        sb.ActionDependent(0.5, extrema=(0.9, 0.5))
    pi, mu = np.array([[0.8, 0.2], [0.6, 0.4]]), np.full((2, 2), 0.5)
    np.testing.assert_allclose(
        sb.ActionDependent(0.7, extrema=(0.5, 0.8)).kappa(pi[:1], mu[:1]),
        sb.ActionDependent(0.7).kappa(pi, mu)[:1],
    )


@pytest.mark.parametrize(
    ("kind", "message", "changes"),
    [
        (sb.errors.InvalidShape, "behaviour must have shape [1, 2], got [1, 3]", dict(behaviour=lambda o: np.ones((len(o), 3)) / 3)),
        (sb.errors.InvalidProbabilities, "behaviour[0, 0] is NaN", dict(behaviour=lambda o: np.full((len(o), 2), np.nan))),
        (sb.errors.CoverageError, "the target policy takes action 1 at observation [", dict(behaviour=lambda o: np.tile([1.0, 0.0], (len(o), 1)))),
        (sb.errors.InvalidParameter, "target must be a function of observations", dict(target=3)),
        (sb.errors.InvalidParameter, "from_gymnasium: gamma must be a number in [0, 1]", dict(gamma=2)),
    ],
)  # fmt: skip
def test_invalid_environments_are_refused(kind, message, changes):
    with pytest.raises(kind) as caught:
        learn(sb.GES(0.5), cart_pole(**changes), alpha=0.1, beta=0.1, steps=10, rng=0)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("message", "act"),
    [
        ("observations have 2 entries, but the features expect 3", lambda: problems.mountain_car(features=Tiles((0,) * 3, (1,) * 3, 8, 4))),
        ("observations have 4 entries, but the features expect 2", lambda: cart_pole(features=BOX)),
        ("features must be Tiles, Fourier", lambda: problems.mountain_car(features="tiles")),
        ("unknown values 'acton'. Did you mean 'action'", lambda: problems.mountain_car(values="acton")),
        ("features are too many for an index", lambda: problems.mountain_car(features=Tiles(LOW, HIGH, 8, 4, table=2**31))),
        ("evaluates the behaviour policy", lambda: learn(sb.Sarsa(0.5), problems.mountain_car(), alpha=0.1, steps=9)),
        ("rule must be a Rule, got 7", lambda: learn(7, problems.mountain_car(), alpha=0.1, steps=9)),
        ("rule must be a Rule, got None", lambda: System.estimate(problems.mountain_car(), [None], steps=9)),
        ("batches must be at least 2", lambda: System.estimate(problems.mountain_car(), sb.GES(0), steps=9, batches=1)),
        ("features need matrices", lambda: System.estimate(problems.mountain_car(features=Tiles(LOW, HIGH, 99, 4)), sb.GES(0), steps=99)),
        ("dtype must be float64 or float32, got 'foo'", lambda: learn(sb.GES(0), problems.mountain_car(), alpha=0.1, beta=0.1, steps=9, dtype="foo")),
        ("is beyond the range of float32", lambda: learn(sb.GES(0), problems.mountain_car(), alpha=0.1, beta=0.1, steps=9, dtype="float32", bound=1e300)),
        ("the box has no dimensions", lambda: Tiles((), (), 8, 4)),
    ],
)  # fmt: skip
@pytest.mark.kernel
def test_invalid_use_of_simulations_is_refused(message, act):
    with pytest.raises(sb.errors.SaddlebackError) as caught:
        act()
    assert message in str(caught.value)


class Odd(gymnasium.Env):
    """Actions 5 and 6; observations or rewards can be made NaN."""

    action_space = gymnasium.spaces.Discrete(2, start=5)
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self, seen=0.0, paid=0.0):
        self.seen, self.paid = seen, paid

    def reset(self, *, seed=None, options=None):
        return np.zeros(1), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.full(1, self.seen), self.paid, False, False, {}


def test_environments_with_shifted_actions_or_invalid_numbers():
    half = lambda obs: np.full((len(obs), 2), 0.5)  # noqa: E731
    tiles = Tiles((-1.0,), (1.0,), 4, 2)

    def run(env):
        odd = problems.from_gymnasium(env, features=tiles, target=half, behaviour=half, gamma=0.9)
        return learn(sb.GES(0.5), odd, alpha=0.1, beta=0.1, steps=20, rng=0)

    assert run(Odd()).ok
    with pytest.raises(sb.errors.InvalidNumbers, match=r"next observations\[0, 0\] is nan"):
        run(Odd(seen=np.nan))
    with pytest.raises(sb.errors.InvalidNumbers, match=r"rewards\[0\] is inf"):
        run(Odd(paid=np.inf))
    several = Odd()
    several.action_space = gymnasium.spaces.MultiBinary(2)
    with pytest.raises(sb.errors.InvalidParameter, match="action space must be Discrete"):
        run(several)


def test_continuous_actions_are_refused():
    with pytest.raises(sb.errors.InvalidParameter, match="action space must be Discrete"):
        problems.from_gymnasium(
            gymnasium.make("Pendulum-v1"), features=BOX, target=None, behaviour=None, gamma=0.9
        )


@pytest.mark.kernel
def test_one_hot_and_identity_features():
    states = sb.features.OneHot(3)
    np.testing.assert_array_equal(states([[2.0], [0.0]]), np.eye(3)[[2, 0]])
    which, value = states.encode(np.array([[1.0]]))
    assert (which.tolist(), value, states.dimensions) == ([[1]], None, 1)
    for wrong in (-1.0, 3.0, 0.5, np.nan):
        with pytest.raises(
            sb.errors.InvalidParameter, match="is not a state 0 … 2; give the number"
        ):
            states([[wrong]])
    identity = sb.features.Identity(2)
    assert identity.dimensions == 2
    np.testing.assert_array_equal(identity([[0.5, 1.0]]), [[0.5, 1.0]])
    which, value = identity.encode(np.array([[0.5, 1.0]]))
    assert (which.tolist(), value.tolist()) == ([[0, 1]], [[0.5, 1.0]])
    for kind in (sb.features.OneHot, sb.features.Identity):
        with pytest.raises(sb.errors.InvalidParameter, match="size must be a whole number >= 1"):
            kind(0)
