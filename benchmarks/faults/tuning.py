"""Odd values of what a user tunes: no verdict may be usable and wrong because of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import saddleback as sb
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, earlier

from .logs import FEATURES, GAMMA, clean_rows, notes_of, reference
from .trial import Answer, Trial

CENTRE, REACH = np.array([100.0, 90.0, 6.0]), np.array([50.0, 40.0, 6.0])
"""The box of the clinic's observations: its centre, and half its sides."""


READING = ("min_prob", "fill_reward", "episodes_end")
"""Options of the log, rather than of its evaluation."""


def _power(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10.0 ** rng.uniform(low, high))


def _rule(rng: np.random.Generator) -> dict[str, Any]:
    name = ("GES", "GTB", "GRetrace", "GQ")[rng.integers(4)]
    lam = (0.0, 1.0, rng.uniform())[rng.integers(3)]
    return {"rule": f"{name}:{lam:.3f}"}


def _features(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "features": ("polynomial:1", "polynomial:2", "polynomial:3", "tiles:1x1", "tiles:2x2",
                     "tiles:4x4", "fourier:1", "fourier:2", "rbf:3", "hash:500")[rng.integers(10)]
    }  # fmt: skip


def _box(rng: np.random.Generator) -> dict[str, Any]:
    reach = REACH * _power(rng, -3, 4)
    centre = CENTRE + REACH * rng.normal(size=3) * (rng.random() < 0.5)
    return {"low": centre - reach, "high": centre + reach}


def _missing_rewards(rng: np.random.Generator) -> dict[str, Any]:
    fill = (0.0, rng.normal(), 100 * rng.normal(), -9999.0)[rng.integers(4)]
    return {"missing": _power(rng, -3, 0), "fill_reward": float(fill)}


def _lost_ends(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "lost": _power(rng, -2, 0),
        "episodes_end": ("terminated", "truncated")[rng.integers(2)],
    }


KNOBS: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "ridge": lambda rng: {"ridge": _power(rng, -12, 6)},
    "min_prob": lambda rng: {"min_prob": _power(rng, -6, 0)},
    "rule": _rule,
    "features": _features,
    "box": _box,
    "fill_reward": _missing_rewards,
    "episodes_end": _lost_ends,
    "draws": lambda rng: {"draws": int(rng.choice([20, 50]))},
    "shared": lambda rng: {"shared": True},
}
"""Options by name, as functions of a generator."""


def odd_tuning(rng: np.random.Generator, folder: Path) -> Trial:
    """Evaluate a log with one, two or three settings at random, many of them absurd."""
    names = rng.choice(sorted(KNOBS), int(rng.integers(1, 4)), replace=False)
    options: dict[str, Any] = {"features": FEATURES}
    for name in names:
        options |= KNOBS[name](rng)
    return Trial(f"{options}", lambda: _tuned(options), reference())


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
