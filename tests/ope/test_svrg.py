"""A fixed data set: its samples against plain sums, SVRG against a direct solve."""

from functools import cache

import numpy as np
import pytest

from helpers.decision_logs import target
from helpers.logs import mixed
from saddleback import GES, GTB, SVRG, Stream, System, problems
from saddleback.engine import as_source
from saddleback.errors import InvalidParameter, InvalidShape
from saddleback.features import Custom, Fourier, Tiles
from saddleback.log import Log
from saddleback.ope import sparse_samples as samples_module
from saddleback.ope.sparse_samples import Table
from saddleback.ope.svrg_solver import Samples, SVRGSolution, _steps, solve
from saddleback.problems.mountain_car import HIGH, LOW

REWARDS = [[1.0, -1.0], [0.5, 2.0]]
BOX = ((-3.0, -3.0), (3.0, 3.0))


def logged(problem, rule, steps, rng):
    """Columns of a log of μ, and the number of features."""
    source = as_source("test", problem)
    piece = source.sampler(np.random.default_rng(rng)).take(steps)
    return source.streamer([rule])(piece)[0], source.p


def two_state(gamma, lam, steps=5000, rng=0):
    return Samples.of(*logged(problems.two_state(gamma, REWARDS), GES(lam), steps, rng))


def car(lam, steps, **tiles):
    simulation = problems.mountain_car(features=Tiles(LOW, HIGH, **tiles))
    return logged(simulation, GES(lam), steps, 0)


def sums(samples, ridge=0.0):
    """Â − η diag M̂, b̂ and M̂, dense."""
    e, d, phi = (rows.toarray() for rows in (samples.e, samples.d, samples.phi))
    T = len(e)
    M = phi.T @ phi / T
    return e.T @ d / T - ridge * np.diag(np.diag(M)), e.T @ samples.rewards / T, M


def random_stream(rng, steps=400, p=7):
    """A stream that no problem made: signed features, uneven decay and weights, starts."""
    dense = rng.normal(size=(2, steps, p)) * (rng.random((2, steps, p)) < 0.4)
    return dense, {
        "rewards": rng.normal(size=steps),
        "discounts": rng.uniform(0.0, 1.0, steps),
        "decay": rng.uniform(0.0, 1.2, steps),
        "weight": rng.uniform(0.0, 2.0, steps),
        "starts": rng.random(steps) < 0.05,
    }


# The samples.


@pytest.mark.kernel
def test_traces_equal_a_dense_recursion():
    (phi, b), columns = random_stream(np.random.default_rng(1))
    samples = Samples.of(Stream.of(phi=phi, bootstrap=b, **columns))
    e, expected = np.zeros(phi.shape[1]), []
    for t in range(len(phi)):
        decay = 0.0 if columns["starts"][t] else columns["decay"][t]
        e = decay * e + columns["weight"][t] * phi[t]
        expected.append(e)
    scale = np.abs(expected).max(axis=1, keepdims=True) + 1e-300
    np.testing.assert_allclose(samples.e.toarray() / scale, expected / scale, rtol=0, atol=1e-12)
    difference = columns["discounts"][:, None] * b - phi
    np.testing.assert_allclose(samples.d.toarray(), difference, rtol=1e-15)
    assert np.array_equal(samples.phi.toarray(), phi)


@pytest.mark.kernel
def test_negligible_entries_of_a_trace_are_dropped():
    phi = np.eye(60)
    stream = Stream.of(phi=phi, bootstrap=phi, rewards=0.0 * phi[0], discounts=1.0, decay=0.3)
    entries = np.diff(Samples.of(stream).e.indptr)
    assert entries.max() == entries[-1] == 27  # 0.3^26 > 1e-14 > 0.3^27


@pytest.mark.parametrize("make", ["finite", "hashed", "given"])
def test_sums_equal_those_of_the_system(make):
    if make == "given":
        (phi, b), columns = random_stream(np.random.default_rng(2))
        stream = Stream.of(phi=phi, bootstrap=b, **columns)
    elif make == "finite":
        stream = Stream(*logged(problems.random_mdp(rng=5), GES(0.6), 400, 0))
    else:  # tiles that meet in one place
        stream = Stream(*car(0.5, 400, bins=4, tilings=4, table=40))
    system = System.estimate(stream, GES(0.5), batches=2)
    for actual, expected in zip(
        sums(Samples.of(stream)), (system.A, system.b, system.M), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12 * abs(expected).max())


def test_concatenated_chunks_equal_the_stream():
    """A piece knows where it begins; two logs together have the mean of their sums."""
    columns, p = logged(problems.random_mdp(rng=6, termination=0.2), GES(0.6), 300, 0)
    cut = int(np.flatnonzero(columns.decay == 0.0)[-3])
    parts = [Stream(columns, p).part(slice(*ends)) for ends in ((0, cut), (cut, 300))]
    complete = Samples.of(columns, p)
    both = Samples.concatenate([Samples.of(part, p) for part in parts])
    for name in ("e", "d", "phi"):
        assert np.array_equal(getattr(complete, name).toarray(), getattr(both, name).toarray())
    assert np.array_equal(complete.rewards, both.rewards)
    assert repr(both) == f"Samples(steps=300, p={p}, trace entries={complete.e.nnz})"


# The solution.


@pytest.mark.parametrize("lam", [0.0, 0.4])
@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_two_state_converges_to_the_direct_solve(gamma, lam):
    samples = two_state(gamma, lam)
    A, b, _ = sums(samples)
    solution = solve(samples, rng=1)
    assert solution.outcome == "ok"
    np.testing.assert_allclose(solution.theta, np.linalg.solve(A, -b), rtol=1e-8)
    assert np.linalg.norm(solution.omega) < 1e-8


@pytest.mark.parametrize(("gamma", "lam"), [(0.5, 0.0), (0.5, 0.4), (0.99, 0.0), (0.99, 0.4)])
def test_plain_steps_converge_linearly(gamma, lam):
    """Without combining snapshots. Of 120 runs (3 logs, 10 seeds each) all but 2 keep below 0.65^n;
    the median factor is 0.43 to 0.48 per epoch, and one run in 120 took 125 epochs.
    """
    residuals = solve(two_state(gamma, lam), rng=1, memory=0).residuals
    epoch = np.arange(len(residuals))
    slope = np.polyfit(epoch, np.log(residuals), 1)[0]
    print(f"residual x {np.exp(slope):.3f} an epoch")
    assert np.exp(slope) < 0.6
    assert (residuals <= 2 * 0.65**epoch).all()
    assert residuals[-1] <= 1e-10


@cache
def random_samples(p):
    problem = problems.random_mdp(rng=3, states=2 * p, features=p)
    return Samples.of(*logged(problem, GES(0.4), 10_000, 0))


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("memory", [0, 20])
@pytest.mark.parametrize("p", [20, 40])
@pytest.mark.slow
def test_random_problems(p, memory, ridge):
    samples = random_samples(p)
    A, b, _ = sums(samples, ridge)
    solution = solve(samples, rng=1, memory=memory, ridge=ridge)
    assert solution.outcome == "ok"
    np.testing.assert_allclose(solution.theta, np.linalg.solve(A, -b), rtol=0, atol=1e-8)


@pytest.mark.kernel
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_single_steps_equal_a_dense_recursion(ridge):
    """The corrected steps of an epoch as in the paper: each adds the full gradient, at O(p)."""
    rng = np.random.default_rng(9)
    (phi, b), columns = random_stream(rng, steps=60)
    samples = Samples.of(Stream.of(phi=phi, bootstrap=b, **columns))
    e, d = samples.e.toarray(), samples.d.toarray()
    chosen, weight = rng.integers(60, size=100), rng.uniform(0.5, 2.0, 60)
    inverse, drift, step = rng.uniform(0.5, 2.0, 7), 0.01 * rng.normal(size=(2, 7)), 0.01
    theta = omega = np.zeros(7)
    for t in chosen:
        diagonal = ridge * np.diag(phi[t] ** 2)
        A, M = np.outer(e[t], d[t]) - diagonal, np.outer(phi[t], phi[t]) + diagonal
        by = step * weight[t] * inverse
        theta, omega = (
            theta + drift[0] - by * (A.T @ omega),
            omega + drift[1] + by * (A @ theta - M @ omega),
        )
    moved = np.zeros((2, 7))
    tables = (Table.of(rows) for rows in (samples.e, samples.d, samples.phi))
    _steps(chosen, weight, *tables, inverse, step, ridge, drift, moved)
    np.testing.assert_allclose(moved + 100 * drift, [theta, omega], rtol=1e-9)


def solve_dense(samples, epochs, memory, ridge, seed, tolerance=0.0):
    """Follow the module's equations with dense matrices; return θ, ω, residuals and failures."""
    e, d, phi = (rows.toarray() for rows in (samples.e, samples.d, samples.phi))
    (A, b, M), T, rng = sums(samples, ridge), len(e), np.random.default_rng(seed)
    D = np.diag(M)
    M = M + ridge * np.diag(D)
    e_size, d_size, size = (np.sqrt((rows**2 / D).sum(axis=1)) for rows in (e, d, phi))
    q = np.full(T, 1 / T)
    if (e_size * d_size).any():
        q = 0.5 / T + 0.5 * e_size * d_size / (e_size @ d_size)
    v = 1 / (T * q)
    step, growth, failures = 0.25 / max(v * (e_size * d_size + size**2)), 1.5, 0

    def field(theta, omega):
        return np.array([-A.T @ omega / D, (A @ theta + b - M @ omega) / D])

    def norm(vectors):
        return np.sqrt((D * vectors**2).sum())

    def residual(theta):
        return norm((A @ theta + b) / D) / norm(b / D)

    z = np.zeros((2, len(D)))
    past, residuals = [z], [1.0]
    for _ in range(epochs):
        now, moved = field(*z), np.zeros_like(z)
        for u in rng.random(T):
            t = min(int((np.cumsum(q) <= u).sum()), T - 1)
            delta, gamma = moved
            single = np.outer(e[t], d[t]) - ridge * np.diag(phi[t] ** 2)
            gram = np.outer(phi[t], phi[t]) + ridge * np.diag(phi[t] ** 2)
            moved = (
                moved
                + step * now
                + step * v[t] / D * np.array([-single.T @ gamma, single @ delta - gram @ gamma])
            )
        if norm(field(*(z + moved))) < norm(now):
            z, step = z + moved, step * growth
            if memory:
                past = [*past[-memory:], z]
                fields = [(np.sqrt(D) * field(*one)).ravel() for one in past]
                apart = np.array([one - fields[-1] for one in fields[:-1]])
                share = np.linalg.lstsq(apart.T, -fields[-1], rcond=1e-12)[0]
                z = z + sum(c * (one - past[-1]) for c, one in zip(share, past, strict=False))
                past[-1] = z
        else:
            step, growth, failures = step / 2, max(1.02, (1 + growth) / 2), failures + 1
        residuals.append(residual(z[0]))
        if residuals[-1] <= tolerance:
            break
    return *z, residuals, failures


@pytest.mark.parametrize(
    ("memory", "ridge", "epochs"), [(0, 0.0, 12), (0, 0.2, 55), (2, 0.0, 8), (3, 0.3, 8)]
)
def test_epochs_equal_those_of_dense_matrices(memory, ridge, epochs):
    """Of a problem for which some epochs fail, until the step grows by no more than 2 %."""
    (phi, b), columns = random_stream(np.random.default_rng(4), steps=40, p=4)
    samples = Samples.of(Stream.of(phi=phi, bootstrap=b, **columns))
    options = {"memory": memory, "ridge": ridge, "epochs": epochs}
    theta, omega, residuals, failures = solve_dense(samples, **options, seed=5)
    solution = solve(samples, **options, rng=5, tolerance=1e-300)
    np.testing.assert_allclose(solution.residuals, residuals, rtol=1e-6)
    np.testing.assert_allclose(solution.theta, theta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(solution.omega, omega, rtol=1e-6, atol=1e-9)
    assert failures > 1


def test_samples_of_no_difference_are_drawn_alike():
    """Every state leads to itself: Â = 0, and ω solves M̂ω = b̂."""
    phi = np.random.default_rng(6).normal(size=(30, 2)) * [1.0, 5.0]
    stream = Stream.of(phi=phi, bootstrap=phi, rewards=1.0, discounts=1.0, decay=0.0)
    samples = Samples.of(stream)
    _, omega, residuals, _ = solve_dense(samples, 6, 0, 0.0, seed=2)
    solution = solve(samples, rng=2, memory=0, epochs=6)
    np.testing.assert_allclose(solution.omega, omega, rtol=1e-9)
    assert solution.residuals.tolist() == residuals == [1.0] * 7


def test_what_is_done_by_default():
    (phi, b), columns = random_stream(np.random.default_rng(3), steps=60, p=30)
    samples = Samples.of(Stream.of(phi=phi, bootstrap=0.3 * b, **columns | {"decay": 0.0}))
    endless = solve(samples, rng=0, tolerance=1e-300, memory=0)
    assert endless.outcome.endswith("after 200 epochs")
    assert len(endless.residuals) == 201
    usual = solve(samples, rng=0, epochs=30)
    for memory, is_usual in ((20, True), (21, False), (19, False)):
        other = solve(samples, rng=0, epochs=30, memory=memory, tolerance=1e-10, ridge=0.0)
        assert np.array_equal(usual.residuals, other.residuals) == is_usual


def test_a_solution_says_how_far_it_came():
    residuals = np.array([1.0, 0.25, 0.00125])
    solution = SVRGSolution(np.zeros(7), np.zeros(7), residuals, "ok")
    assert repr(solution) == "SVRGSolution(p=7, epochs=2, residual=1.3e-03, outcome='ok')"


@pytest.mark.kernel
def test_a_small_solve_with_features_of_any_size():
    """Scaled features give scaled weights: the units do not matter to the path."""
    columns, p = logged(problems.random_mdp(rng=7, features=3), GES(0.4), 200, 0)
    samples = Samples.of(columns, p)
    units = np.array([1e-3, 1.0, 1e4])
    scaled = Samples(
        *(type(r)(r.multiply(units)) for r in (samples.e, samples.d, samples.phi)),
        samples.rewards,
    )
    plain, other = (solve(data, rng=2, epochs=15, ridge=0.1) for data in (samples, scaled))
    np.testing.assert_allclose(plain.residuals[1:6], other.residuals[1:6], rtol=1e-6)
    A, b, _ = sums(samples, 0.1)
    np.testing.assert_allclose(plain.theta, np.linalg.solve(A, -b), rtol=1e-6)


@pytest.mark.slow
def test_tiles_with_a_ridge():
    """Tiles are collinear: with a ridge the solution is unique, though only slowly found."""
    samples = Samples.of(*car(0.0, 2500, bins=4, tilings=2))
    A, b, M = sums(samples, 1e-2)
    active = np.diag(M) > 0
    assert np.linalg.matrix_rank(M) < active.sum() < len(M)
    theta = np.zeros(len(b))
    theta[active] = np.linalg.solve(A[np.ix_(active, active)], -b[active])
    solution = solve(samples, ridge=1e-2, rng=0, memory=100, epochs=2000)
    assert solution.outcome == "ok"
    assert not solution.theta[~active].any()
    values = samples.phi @ theta
    gap = samples.phi @ solution.theta - values
    assert np.linalg.norm(gap) < 1e-8 * np.linalg.norm(values)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_a_million_features(ridge):
    """Hashed tiles, of which few are ever active; the path has the same bits whatever p."""
    columns, p = car(0.5, 3000, bins=50, tilings=8, table=333_334)
    assert p > 1_000_000
    large = solve(Samples.of(columns, p), rng=0, epochs=5, ridge=ridge)
    active, inverse = np.unique(columns.phi_index, return_inverse=True)
    assert len(active) > 5000
    assert np.isfinite(large.theta).all()
    assert not np.delete(large.theta, active).any()
    assert large.residuals[-1] < large.residuals[0]
    inside = np.isin(columns.next_index, active)
    small = columns._replace(
        phi_index=inverse.astype(np.uint32),
        next_index=np.searchsorted(active, columns.next_index).clip(max=len(active) - 1)
        .astype(np.uint32),
        next_b=np.where(inside, columns.next_b, 0.0),
    )  # fmt: skip
    other = solve(Samples.of(small, len(active)), rng=0, epochs=5, ridge=ridge)
    assert np.array_equal(large.theta[active], other.theta)


@pytest.mark.kernel
def test_same_seed_same_bits():
    samples = two_state(0.9, 0.4, steps=300)
    first, repeated, other = (solve(samples, rng=seed, epochs=3) for seed in (4, 4, 5))
    assert np.array_equal(first.theta, repeated.theta)
    assert np.array_equal(first.residuals, repeated.residuals)
    assert not np.array_equal(first.theta, other.theta)


def test_progress_and_residuals_are_those_of_the_definition():
    samples, reported = two_state(0.9, 0.0, steps=500), []
    solution = solve(samples, rng=0, epochs=3, progress=lambda *now: reported.append(now))
    assert reported == list(enumerate(solution.residuals))[1:]
    A, b, M = sums(samples)
    root = np.sqrt(np.diag(M))
    residual = np.linalg.norm((A @ solution.theta + b) / root) / np.linalg.norm(b / root)
    assert solution.residuals[-1] == pytest.approx(residual, rel=1e-9)
    assert solution.outcome == f"not converged: residual {residual:.1e} after 3 epochs"


# Failures are outcomes; misuse is refused.


def without_solution():
    """The second state leads to itself undiscounted with reward 1: no values fit."""
    rng = np.random.default_rng(3)
    states = rng.integers(2, size=200)
    phi = rng.normal(size=(2, 2))[states]
    return Stream.of(
        phi=phi, bootstrap=phi, rewards=1.0, discounts=np.where(states, 1.0, 0.5), decay=0.0
    )


def test_no_solution_is_an_outcome():
    stream = without_solution()
    solution = solve(Samples.of(stream), rng=0)
    assert solution.outcome.startswith("not converged: residual ")
    assert "at the saddle point: b̂ is outside the range of Â" in solution.outcome
    assert solution.residuals[-1] > 0.1
    assert solve(Samples.of(stream), rng=0, ridge=0.1).outcome == "ok"


def test_no_rewards_need_no_steps():
    solution = solve(Samples.of(*logged(problems.two_state(), GES(0.4), 50, 0)), rng=0)
    assert solution.outcome == "ok"
    assert not solution.theta.any()
    assert len(solution.residuals) == 1


def test_overflowing_traces_are_an_outcome():
    phi = np.ones((400, 1))
    stream = Stream.of(phi=phi, bootstrap=phi, rewards=phi[:, 0], discounts=0.9, decay=10.0)
    solution = solve(Samples.of(stream), rng=0)
    assert solution.outcome == "not converged: the samples are not finite. Use a smaller λ."


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ridge": -1.0}, "solve: ridge must be a finite number >= 0, got -1.0"),
        ({"tolerance": 0.0}, "solve: tolerance must be a finite number > 0, got 0.0"),
        ({"epochs": 0}, "solve: epochs must be a whole number >= 1, got 0"),
        ({"memory": -1}, "solve: memory must be a whole number >= 1, got -1"),
        ({"rng": -1}, "rng must be a whole number >= 0"),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        solve(two_state(0.9, 0.0, steps=10), **wrong)


def test_bad_samples(monkeypatch):
    columns, p = logged(problems.random_mdp(rng=8), GTB(0.9), 100, 0)
    samples = Samples.of(columns, p)
    with pytest.raises(InvalidParameter, match="samples must be a Samples"):
        solve(columns)
    with pytest.raises(InvalidParameter, match="p must be a whole number"):
        Samples.of(columns)
    with pytest.raises(InvalidShape, match=r"rewards must have shape \[100\] like phi, got \[9\]"):
        Samples(samples.e, samples.d, samples.phi, samples.rewards[:9])
    with pytest.raises(InvalidShape, match=r"the same features, got p = \[4, 5\]"):
        Samples.concatenate([samples, Samples.of(columns, 5)])
    monkeypatch.setattr(samples_module, "MAX_ENTRIES", 300)
    with pytest.raises(InvalidParameter, match=r"more than 300 entries\. Use a smaller λ"):
        Samples.of(columns, p)
    with pytest.raises(InvalidParameter, match="more than 300 entries"):
        Samples.concatenate([samples, samples])


def decisions(rows, **options):
    """Return an estimator fitted to decisions with three dense features, and its progress."""
    rng = np.random.default_rng(0)
    data = {
        "obs_0": rng.normal(size=rows), "obs_1": rng.normal(size=rows),
        "action": np.zeros(rows, dtype=int), "reward": rng.normal(size=rows),
        "behavior_prob": np.ones(rows),
    }  # fmt: skip
    features = Custom(lambda seen: np.column_stack([np.ones(len(seen)), seen]), 3)
    reports = []
    one = SVRG(target="uniform", features=features, gamma=0.0, rule=GES(0.0), rng=0, **options)
    log = Log(data, bandit=True)
    return one.fit(log, lambda fraction, *_: reports.append(fraction)), log, reports


@pytest.mark.parametrize(
    ("rows", "ridge", "outcome"),
    [(2, 0.0, "solved, but not uniquely: 3 features for 2 steps, so predictions"),
     (2, 0.1, "ok"), (3, 0.0, "ok")],
)  # fmt: skip
def test_fewer_steps_than_features_are_not_solved_uniquely(rows, ridge, outcome):
    one, _, _ = decisions(rows, ridge=ridge, epochs=5000, tolerance=1e-5)
    assert one.outcome_.startswith(outcome)


def test_an_estimator_reports_the_share_of_its_epochs():
    one, log, reports = decisions(40, epochs=8, tolerance=1e-300)
    assert one.outcome_.endswith("after 8 epochs")
    assert reports[-8:] == [0.5 + k / 16 for k in range(1, 9)]  # after reading
    usual = SVRG(target="uniform", features=one.features, gamma=0.0, rule=GES(0.0), rng=0)
    assert (usual.ridge, usual.tolerance, usual.epochs) == (0.0, 1e-10, 200)
    usual.fit(log)
    given = decisions(40, ridge=0.0, tolerance=1e-10, epochs=200)[0]
    assert np.array_equal(usual.residuals_, given.residuals_)


def test_a_trace_is_not_cut_between_segments():
    """Of two logs the samples are those of each, whatever the segments."""
    parts = []
    for segment in (1 << 16, 5):
        one = SVRG(target=target, features=Fourier(*BOX, order=1), gamma=0.9, rule=GES(0.5), rng=0)
        for seed in (0, 1):
            log = Log(mixed(seed) | {"episode_id": mixed(seed)["episode_id"] + 100 * seed},
                      segment=segment)  # fmt: skip
            (one.fit if seed == 0 else one.partial_fit)(log)
        parts.append(one.samples_[0])
    first, second = parts
    for name in ("e", "d", "phi"):
        assert np.array_equal(getattr(first, name).toarray(), getattr(second, name).toarray())
    assert np.array_equal(first.rewards, second.rewards)


def test_it_stops_at_the_first_residual_that_is_small_enough():
    for tolerance in (1e-3, 1e-10):
        solution = solve(two_state(0.9, 0.4, steps=500), rng=1, tolerance=tolerance)
        *before, last = solution.residuals
        assert last <= tolerance < min(before)


@pytest.mark.parametrize("tolerance", [0.05, 0.02])
def test_it_stops_where_the_gradients_are_small_beside_the_residual(tolerance):
    """At a saddle point of values that no weights have, with the residual that is reached."""
    stream = without_solution()
    samples = Samples.of(stream)
    A, b, M = sums(samples)
    D, last = np.diag(M), None
    for epochs in range(1, 60):
        solution = solve(samples, rng=0, memory=0, tolerance=tolerance, epochs=epochs)
        rise = A @ solution.theta + b
        gradients = np.sqrt(
            ((rise - M @ solution.omega) ** 2 / D).sum() + ((A.T @ solution.omega) ** 2 / D).sum()
        )
        size = np.sqrt((rise**2 / D).sum())
        is_small = gradients <= tolerance * size
        if is_small:
            last = epochs
            break
        assert solution.outcome.endswith(f"after {epochs} epochs")
    assert last is not None
    assert len(solution.residuals) == last + 1
    assert solution.outcome.startswith(
        f"not converged: residual {solution.residuals[-1]:.1e} at the saddle point"
    )


@pytest.mark.parametrize(("less", "fits"), [(0, True), (1, False)])
def test_the_entries_of_traces_may_be_as_many_as_allowed(monkeypatch, less, fits):
    columns, p = logged(problems.random_mdp(rng=8), GTB(0.9), 40, 0)
    samples = Samples.of(columns, p)
    monkeypatch.setattr(samples_module, "MAX_ENTRIES", samples.e.nnz - less)
    for make in (lambda: Samples.of(columns, p), lambda: Samples.concatenate([samples])):
        if fits:
            assert make().e.nnz == samples.e.nnz
        else:
            with pytest.raises(InvalidParameter, match=f"more than {samples.e.nnz - 1} entries"):
                make()
    with pytest.raises(InvalidShape, match=r"the same features, got p = \[\]"):
        Samples.concatenate([])
