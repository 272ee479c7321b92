"""Evaluations without their longest part, the consensus of candidates, where it is not tested."""

from __future__ import annotations

import hashlib
import sys

import numpy as np
import pytest


@pytest.fixture
def no_opinion(monkeypatch):
    """Evaluate given features without a second opinion, as for a log of a few episodes."""
    module = sys.modules["saddleback.ope.evaluate"]
    monkeypatch.setattr(module, "sample_consensus", lambda *_, **__: {})


@pytest.fixture(scope="module")
def known_opinions():
    """Find the consensus on the same sample and policy once for the tests of a file."""
    module = sys.modules["saddleback.ope.sample_consensus"]
    find, results = module.find_consensus, {}

    def find_once(sample, target, gamma, horizon=None, **options):
        progress = options.pop("progress", None)
        options.pop("pool", None)
        if options["given"] is not None or options["bases"] is not None:
            return find(sample, target, gamma, horizon, **options)
        content = hashlib.sha256()
        policy = {"next_pi": sample.next_pi[target], "start_pi": sample.start_pi[target]}
        for array in (vars(sample) | policy).values():
            content.update(repr(np.shape(array)).encode() + np.asarray(array).tobytes())
        key = (content.digest(), target, gamma, horizon, options["thorough"])
        if key not in results:
            results[key] = find(sample, target, gamma, horizon, **options)
        if progress is not None:
            progress(1.0)
        return results[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "find_consensus", find_once)
        yield
