"""Evaluations without their longest part, the consensus of candidates, where it is not tested."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def no_opinion(monkeypatch):
    """Evaluate given features without a second opinion, as for a log of a few episodes."""
    module = sys.modules["saddleback.ope.evaluate"]
    monkeypatch.setattr(module, "sample_consensus", lambda *_, **__: {})
