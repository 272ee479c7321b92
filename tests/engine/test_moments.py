"""Sums of a stream by blocks and batches, against dense traces."""

import itertools

import numpy as np
import pytest

import saddleback as sb
from saddleback.engine.moments import BackwardMoments, BatchMoments

pytestmark = pytest.mark.kernel


def sparse_stream(steps, p, active, rng, weight=True):
    """Return a stream with a few active features, and the rows of φ and b as dense tables."""
    phi, b = np.zeros((2, steps, p))
    for row in (*phi, *b):
        row[rng.permutation(p)[:active]] = rng.normal(size=active)
    starts = rng.random(steps) < 0.1
    starts[0] = True
    stream = sb.Stream.of(
        phi=phi, bootstrap=b, rewards=rng.normal(size=steps),
        discounts=np.where(rng.random(steps) < 0.2, 0.0, 0.9),
        decay=rng.uniform(0.5, 1.3, size=steps), starts=starts,
        weight=rng.uniform(0.5, 2.0, size=steps) if weight else 1.0,
    )  # fmt: skip
    return stream.columns, starts, phi, b


def sums(stream, phi, b, starts):
    """Yield e dᵀ, R e and φφᵀ of each step."""
    e = np.zeros(phi.shape[1])
    for t in range(len(phi)):
        e = (0.0 if starts[t] else stream.decay[t]) * e + stream.weight[t] * phi[t]
        yield (
            np.outer(e, stream.discount[t] * b[t] - phi[t]),
            stream.reward[t] * e,
            np.outer(phi[t], phi[t]),
        )


@pytest.mark.parametrize(("p", "active"), [(4, 2), (40, 2), (40, 30)])
@pytest.mark.parametrize("cuts", [(), (13, 14, 60)])
def test_moments_of_blocks_are_those_of_their_episodes(p, active, cuts):
    """Few and many touched entries, and episodes that go on in the next chunk."""
    rng = np.random.default_rng(p + active)
    stream, starts, phi, b = sparse_stream(90, p, active, rng)
    of_episode = rng.integers(3, size=int(starts.sum()))
    block = of_episode[np.cumsum(starts) - 1]
    A, vector, M = np.zeros((3, p, p)), np.zeros((3, p)), np.zeros((p, p))
    moments = BackwardMoments(A, vector, M)
    bounds = [0, *cuts, 90]
    for begin, end in itertools.pairwise(bounds):
        part, own = stream.part(begin, end), starts[begin:end]
        firsts = np.flatnonzero(own) if own[0] else np.append(0, np.flatnonzero(own))
        unfinished = end < 90 and not starts[end]
        moments.add(part, own, block[begin + firsts], continues=unfinished)
    expected_A, expected_b, expected_M = np.zeros((3, p, p)), np.zeros((3, p)), np.zeros((p, p))
    for k, (a, r, m) in zip(block, sums(stream, phi, b, starts), strict=True):
        expected_A[k] += a
        expected_b[k] += r
        expected_M += m
    np.testing.assert_allclose(A, expected_A, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(vector, expected_b, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(M, expected_M, rtol=1e-12, atol=1e-12)


def test_scales_beyond_all_numbers_are_folded_in():
    """Decays of 10⁸⁰ and 10⁻⁸⁰ leave the range of the scale, but not that of the sums."""
    rng = np.random.default_rng(2)
    stream, starts, phi, b = sparse_stream(12, 6, 2, rng)
    stream.decay[1:] = [1e80, 1e80, 1e-80, 1e-80, 1.0, 1e-80, 1e-80, 1e80, 1e80, 0.5, 1.0]
    starts[1:] = False
    A, vector = np.zeros((1, 6, 6)), np.zeros((1, 6))
    BackwardMoments(A, vector, np.zeros((0, 0))).add(stream, starts, np.zeros(1, int), False)
    expected = [sum(parts) for parts in zip(*sums(stream, phi, b, starts), strict=True)]
    scale = np.abs(expected[0]).max()
    np.testing.assert_allclose(A[0] / scale, expected[0] / scale, atol=1e-12)
    np.testing.assert_allclose(vector[0], expected[1], rtol=1e-9)


@pytest.mark.parametrize("chunk", [7, 50, 60])
def test_batches_are_cut_wherever_chunks_end(chunk):
    """Their traces go on from one batch to the next; steps that fill no batch do not count."""
    rng = np.random.default_rng(3)
    stream, starts, phi, b = sparse_stream(60, 5, 2, rng)
    moments = BatchMoments(5, 15, keep=True)
    for begin in range(0, 55, chunk):
        moments.add(stream.part(begin, min(begin + chunk, 55)))
    by_step = [np.array(part) for part in zip(*sums(stream, phi, b, starts), strict=True)]
    means = [part[:45].reshape(3, 15, *part.shape[1:]).mean(axis=1) for part in by_step]
    assert moments.batches == 3
    for total, error, parts, name in zip(
        moments.moments(), moments.errors(), means, ("A", "b", "M"), strict=True
    ):
        np.testing.assert_allclose(total, parts.mean(axis=0), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(error, parts.std(axis=0, ddof=1) / np.sqrt(3), atol=1e-12)
        kept = [getattr(batch, name) for batch in moments.batch_means]
        np.testing.assert_allclose(kept, parts, rtol=1e-9, atol=1e-12)
    assert BatchMoments(5, 15).batch_means is None


def test_nothing_is_added_by_no_steps():
    stream, *_ = sparse_stream(5, 4, 2, np.random.default_rng(4))
    A = np.zeros((1, 4, 4))
    none = np.zeros(0, dtype=bool)
    BackwardMoments(A, np.zeros((1, 4)), A[0]).add(stream.part(2, 2), none, none, continues=True)
    assert not A.any()


def test_a_rule_of_one_step_estimates_with_binary_features():
    """Binary features store one 1 for all entries."""
    walk = sb.problems.random_walk()
    experience = sb.sample(walk, 40, rng=0)
    estimated = sb.System.estimate(sb.engine.FiniteSource(walk, experience), sb.TD(0.0), batches=2)
    phi = walk.features[experience.states]
    np.testing.assert_allclose(estimated.M, phi.T @ phi / 40)
    after = walk.features[experience.next_states] * experience.discounts[:, None]
    np.testing.assert_allclose(estimated.A, phi.T @ (after - phi) / 40)
