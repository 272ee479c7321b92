"""Systems on disk."""

import numpy as np
import pytest

import saddleback as sb
from saddleback import System, problems
from saddleback.theory import noise_covariance


def test_saved_systems_are_read_back_and_damaged_files_refused(tmp_path):
    problem = problems.random_mdp(0.9, rng=1)
    rules = [sb.GES(0.3), sb.ABQ(0.4), sb.GQ(0.1)]
    for rule, system in zip(
        rules,
        System.estimate(problem, rules, steps=1000, rng=0, batches=10, keep_batches=True),
        strict=True,
    ):
        back = sb.system.load(sb.system.save(system, tmp_path / "one.npz"))
        assert back.rule == rule
        assert all(np.array_equal(getattr(back, n), getattr(system, n)) for n in "AbMC")
        assert np.array_equal(back.errors.A, system.errors.A)
        assert np.array_equal(noise_covariance(back), noise_covariance(system))
    (tmp_path / "half.npz").write_bytes((tmp_path / "one.npz").read_bytes()[:500])
    (tmp_path / "other.npz").write_bytes(b"")
    np.savez(tmp_path / "bare.npz", A=np.eye(2))
    for name in ("half.npz", "other.npz", "bare.npz"):
        with pytest.raises(sb.errors.InvalidParameter, match="is not a system saved by saddleback"):
            sb.system.load(tmp_path / name)
    with pytest.raises(sb.errors.InvalidParameter, match="cannot read"):
        sb.system.load(tmp_path / "none.npz")
    with pytest.raises(sb.errors.InvalidParameter, match="is saved as an"):
        sb.system.save(system, tmp_path / "one.pkl")
    with pytest.raises(sb.errors.InvalidParameter, match="cannot write"):
        sb.system.save(system, tmp_path / "missing" / "one.npz")
