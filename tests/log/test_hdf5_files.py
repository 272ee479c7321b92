"""HDF5 files in the layout of D4RL."""

import sys
from contextlib import suppress

import h5py
import numpy as np
import pytest
from benchmarks.faults.mutations import damaged, generated

from helpers.log_cases import error_matching, parquet
from helpers.logs import assert_same_content, columns, content
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.log import Log, LogError, row_source

ENDS = ["terminated", "truncated", "terminated", "truncated"]


def arrays(**more):
    """Return a log in the layout of D4RL, and its columns."""
    data = columns([4, 7, 1, 5], ENDS, mu=False)
    layout = {
        "observations": np.column_stack([data["obs_0"], data["obs_1"]]),
        "next_observations": np.column_stack([data["next_obs_0"], data["next_obs_1"]]),
        "actions": data["action"], "rewards": data["reward"], "terminals": data["terminated"],
        "timeouts": data["truncated"], "infos/action_log_probs": np.log(data["behavior_prob"]),
    }  # fmt: skip
    return {name: a for name, a in (layout | more).items() if a is not None}, data


def write(path, layout):
    with h5py.File(path, "w") as file:
        for name, array in layout.items():
            file[name] = array
    return path


@pytest.mark.parametrize("batch", [1, 3, 1 << 15])
def test_d4rl_files_give_the_same_transitions(batch, tmp_path, monkeypatch):
    monkeypatch.setattr(row_source, "BATCH", batch)
    layout, data = arrays()
    log = Log(write(tmp_path / "log.hdf5", layout))
    one, other = content(log), content(Log(data))
    np.testing.assert_allclose(one.pop("propensity"), other.pop("propensity"), rtol=1e-14)
    assert len(set(one.pop("ids"))) == len(set(other.pop("ids"))) == 4
    assert_same_content(one, other)
    column = Log(write(tmp_path / "column.h5", arrays(actions=data["action"][:, None])[0]))
    assert column.summary().text == log.summary().text


def test_optional_arrays_may_be_missing(tmp_path):
    layout, _ = arrays(next_observations=None, timeouts=None)
    del layout["infos/action_log_probs"]
    summary = Log(write(tmp_path / "log.hdf5", layout)).summary()
    assert (summary.episodes, summary.terminated, summary.stops) == (3, 2, 1)
    assert summary.propensity is None


def test_bad_files_are_reported(tmp_path, monkeypatch):
    path = tmp_path / "log.hdf5"
    write(path, arrays(rewards=None)[0])
    with error_matching(LogError, f"E190 {path} is HDF5 without rewards: the layout of D4RL"):
        Log(path)
    write(path, arrays(rewards=np.zeros(3))[0])
    with error_matching(LogError, f"E190 the arrays of {path} differ in length: ", "'rewards': 3"):
        Log(path)
    write(path, arrays(**{"infos/action_log_probs": np.zeros((17, 2))})[0])
    with error_matching(LogError, f"action_log_probs of {path} has shape (17, 2): one number per"):
        Log(path)
    path.write_bytes(path.read_bytes()[:600])
    with error_matching(LogError, f"E190 {path} cannot be read as HDF5 ("):
        Log(path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InvalidParameter, match=r"needs h5py: pip install 'saddleback\[hdf5\]'"):
        Log(path)


def test_damaged_files_are_read_or_refused(tmp_path):
    """Errors of h5py other than those of the disk were tracebacks."""
    path = write(tmp_path / "log.hdf5", arrays()[0])
    damage = damaged(path.read_bytes())
    for seed in range(80):
        path.write_bytes(generated(damage, seed)[1])
        with suppress(SaddlebackError):
            Log(path).summary()


def test_continuous_actions_become_numbered_columns(tmp_path):
    actions = np.random.default_rng(0).normal(size=(17, 2))
    densities = np.random.default_rng(1).uniform(0.01, 3.0, 17)
    layout, _ = arrays(actions=actions, **{"infos/action_log_probs": np.log(densities)[:, None]})
    log = Log(write(tmp_path / "log.hdf5", layout))
    rows = [segment.rows for segment in log.segments()]
    np.testing.assert_array_equal(np.concatenate([part.tables["action"] for part in rows]), actions)
    np.testing.assert_allclose(np.concatenate([part.propensity for part in rows]), densities)
    assert not log.summary().errors
    layout["infos/action_log_probs"][4] = np.nan
    log = Log(write(tmp_path / "missing.hdf5", layout))
    option = "or use estimates that need no densities: Log(…, ignore_propensities=True)."
    assert str(log.summary().errors[0]).endswith(option)
    assert not log.with_options(ignore_propensities=True).summary().errors


def test_a_pattern_of_formats_is_one_log(tmp_path):
    layout, _ = arrays(**{"infos/action_log_probs": None})
    write(tmp_path / "a.hdf5", layout)
    path = parquet(tmp_path / "b.parquet", Log(tmp_path / "a.hdf5").sources[0].schema.empty_table())
    assert Log([tmp_path / "a.hdf5", path]).rows == 17
