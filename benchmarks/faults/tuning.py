"""Strategies of odd values of what a user tunes: no verdict may be usable and wrong by it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import saddleback as sb
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, earlier

from .logs import FEATURES, GAMMA, clean_rows, notes_of, reference
from .mutations import between
from .trial import Answer, Trial

CENTRE, REACH = np.array([100.0, 90.0, 6.0]), np.array([50.0, 40.0, 6.0])
"""The box of the clinic's observations: its centre, and half its sides."""


READING = ("min_prob", "fill_reward", "episodes_end")
"""Options of the log, rather than of its evaluation."""


def _power(low: float, high: float) -> st.SearchStrategy[float]:
    return between(low, high).map(lambda exponent: float(10.0**exponent))


@st.composite
def _box(draw: st.DrawFn) -> dict[str, Any]:
    reach = REACH * draw(_power(-3, 4))
    shift = st.tuples(*[between(-2.0, 2.0)] * 3)
    centre = CENTRE + REACH * draw(st.just((0.0, 0.0, 0.0)) | shift)
    return {"low": centre - reach, "high": centre + reach}


KNOBS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "ridge": st.fixed_dictionaries({"ridge": _power(-12, 6)}),
    "min_prob": st.fixed_dictionaries({"min_prob": _power(-6, 0)}),
    "rule": st.builds(
        "{}:{:.3f}".format, st.sampled_from(("GES", "GTB", "GRetrace", "GQ")),
        st.sampled_from((0.0, 1.0)) | between(0.0, 1.0),
    ).map(lambda rule: {"rule": rule}),
    "features": st.fixed_dictionaries({"features": st.sampled_from((
        "polynomial:1", "polynomial:2", "polynomial:3", "tiles:1x1", "tiles:2x2", "tiles:4x4",
        "fourier:1", "fourier:2", "rbf:3", "hash:500",
    ))}),
    "box": _box(),
    "fill_reward": st.fixed_dictionaries({
        "missing": _power(-3, 0),
        "fill_reward": st.sampled_from((0.0, -9999.0)) | between(-2.0, 2.0)
        | between(-200.0, 200.0),
    }),
    "episodes_end": st.fixed_dictionaries({
        "lost": _power(-2, 0), "episodes_end": st.sampled_from(("terminated", "truncated")),
    }),
    "draws": st.fixed_dictionaries({"draws": st.sampled_from((20, 50))}),
    "shared": st.just({"shared": True}),
}  # fmt: skip
"""Strategies of options, by name."""


@st.composite
def odd_tuning(draw: st.DrawFn) -> Trial:
    """An evaluation of a log with one, two or three settings at random, many of them absurd."""
    options: dict[str, Any] = {"features": FEATURES}
    names = st.lists(st.sampled_from(sorted(KNOBS)), min_size=1, max_size=3, unique=True)
    for name in draw(names):
        options |= draw(KNOBS[name])
    return Trial(f"{options}", lambda folder: _tuned(dict(options)), reference)


def _tuned(options: dict[str, Any]) -> Answer:
    """Evaluate; the answer is the value in its interval that is nearest to the reference."""
    rows, rng = clean_rows(), np.random.default_rng(0)
    data = {name: column.to_numpy().copy() for name, column in zip(
        rows.column_names, rows.columns, strict=True)}  # fmt: skip
    data["reward"][rng.random(len(data["reward"])) < options.pop("missing", 0.0)] = np.nan
    kept = ~data["terminated"] | (rng.random(len(data["reward"])) >= options.pop("lost", 0.0))
    reading = {name: options.pop(name) for name in READING if name in options}
    data = {name: column[kept] for name, column in data.items()}
    log = sb.Log(data, observations=SIGNS, actions=DOSES, **reading)
    result = sb.evaluate(log, earlier, gamma=GAMMA, methods=[], **options)
    low, high = result.verdicts[0].interval_with_gap
    expected = reference().value
    assert expected is not None
    return Answer(value=float(np.clip(expected, low, high)), notes=notes_of(result))
