"""Odd values of the options of commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .logs import clean_bytes
from .trial import Answer, Trial, printed

VALUES = (
    "", "0", "1", "-1", "2", "0.5", "1e-400", "1e400", "nan", "inf", "-inf", "x", "1,2,3", "1,2",
    "0,0,0", "3,2,1", "nan,0,1", "λ", "\u202e", "[/red]", "99999999999999999999", "0x10", "1_000",
    " 1", "--", "a=b", "=", ":", "9" * 400,
)  # fmt: skip

FEATURES = (
    "tiles", "tiles:", "tiles:0x1", "tiles:1x0", "tiles:8x", "tiles:x8", "tiles:1000x1000",
    "hash:0", "hash:-5", "hash:1e9", "hash:999999999999", "rbf:0", "rbf:1", "rbf:99999999",
    "fourier:0", "fourier:60", "fourier:99999", "polynomial:0", "polynomial:40", "polynomial:99999",
    "polynomial:nan", "states", "states:0", "states:99999999", "given", "given:3", "none", ":",
    "nowhere.py:f", "polynomial:1:2", "polynomial 1",
)  # fmt: skip

OPTIONS = (
    "--gamma", "--low", "--high", "--ridge", "--rule", "--bootstrap", "--passes", "--obs",
    "--actions", "--column", "--min-prob", "--drop-bad", "--time-limit", "--method", "--learner",
    "--features", "--target", "--horizon", "--fill-reward", "--order-by", "--episodes-end",
    "--estimate-behaviour", "--categorical",
)  # fmt: skip

RULES = (
    "GES", "GES:2", "GES:-1", "GES:nan", "GES(0.5", "GES()", "TD:0.5", "ETD:0.5", "Retrace:0.5",
    "Retrace:0.5+", "+", "Sarsa:0.5", "GES:0.5+Correction+Correction", "nowhere.py:Rule(1)",
    "__import__('os')", "GES(lam=1e999)", "Importance:1+Saddle:3", "GTB:" + "9" * 400,
)  # fmt: skip


def odd_options(rng: np.random.Generator, folder: Path) -> Trial:
    """Evaluate or check a log with an odd value of one option, or of two."""
    path = folder / "log.parquet"
    path.write_bytes(clean_bytes())
    words = ["evaluate", path, "--obs", "hr,bp,lactate", "--target", "uniform", "--quiet"]
    words += ["--features", "polynomial:1"]
    for _ in range(int(rng.integers(1, 3))):
        option = OPTIONS[rng.integers(len(OPTIONS))]
        values = {"--features": FEATURES, "--rule": RULES, "--learner": RULES}.get(option, VALUES)
        value = values[rng.integers(len(values))]
        longest = {"--passes": 9, "--horizon": 3}.get(option, 1000)
        if len(value) <= longest:  # more would take as long as they say
            words += [option, value]
    return Trial(f"{words[9:]}", lambda: _stated(words), Answer())


def _stated(words: list[object]) -> Answer:
    """Return what is printed: it states the options that were used."""
    return Answer(printed(*words).content, notes=frozenset({"stated"}))
