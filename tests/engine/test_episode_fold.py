"""Episodes that extend over several segments."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from saddleback.engine import EpisodeFold


@given(st.lists(st.integers(1, 9), max_size=8), st.integers(1, 12))
def test_sums_over_episodes_do_not_depend_on_segments(lengths, size):
    """Rows are cut every ``size`` rows, wherever that is in an episode."""
    n = sum(lengths)
    starts = np.zeros(n, dtype=bool)
    starts[np.cumsum([0, *lengths])[:-1]] = True
    values = np.random.default_rng(n).normal(size=n)
    fold = EpisodeFold(1)
    for begin in range(0, n, size):
        end = min(n, begin + size)
        segment = SimpleNamespace(
            first_states=np.flatnonzero(starts[begin:end]),
            begins_new_episode=starts[begin],
            continues_in_next=end < n and not starts[end],
        )
        rows = fold.begin(segment)
        np.add.at(rows[:, 0], np.cumsum(starts[begin:end]), values[begin:end])
        fold.end(segment, rows)
    expected = [part.sum() for part in np.split(values, np.cumsum(lengths)[:-1])] if n else []
    np.testing.assert_allclose(fold.rows[:, 0], expected, rtol=1e-12, atol=1e-12)
