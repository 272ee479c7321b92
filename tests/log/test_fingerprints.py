"""Fingerprints of episodes depend on every number, not on how the log is read."""

import numpy as np
import pytest

from helpers.logs import columns, mixed
from saddleback.log import Log, row_source
from saddleback.log.episode_hashes import Fingerprints


def fingerprints(log):
    result = Fingerprints()
    for segment in log.segments():
        result.add(segment)
    return result.arrays()


@pytest.mark.parametrize("segment", [1, 2, 3, 100])
def test_fingerprints_do_not_depend_on_segments(segment, monkeypatch):
    data = mixed()
    monkeypatch.setattr(row_source, "BATCH", 4)
    for one, other in zip(
        fingerprints(Log(data, segment=segment)), fingerprints(Log(data)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert len(set(fingerprints(Log(data))[1].tolist())) == 18


def test_any_changed_number_changes_a_fingerprint():
    data = columns([3, 3], "terminated")
    before = fingerprints(Log(data))[1]
    for name in ("obs_0", "obs_1", "reward"):
        changed = dict(data) | {name: data[name].copy()}
        changed[name][4] = np.nextafter(changed[name][4], 9.0)
        after = fingerprints(Log(changed))[1]
        assert after[0] == before[0]
        assert after[1] != before[1]
