"""Policies that fail, or return anything but probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import saddleback as sb
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, earlier

from .logs import answer_of, clean_rows, reference
from .trial import Answer, Trial


def _raising(error: BaseException) -> Any:
    def policy(signs: Any) -> Any:
        raise error

    return policy


def _recursive(signs: Any) -> Any:
    return _recursive(signs)


def _centred(signs: Any) -> Any:
    signs -= signs.mean(axis=0)
    return signs


IMPURE: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "centred in place": lambda signs, rng: _centred(signs),
    "a column cleared": lambda signs, rng: signs.__setitem__((slice(None), 0), 0.0),
    "scaled by its output": lambda signs, rng: np.multiply(signs, 2.0, out=signs),
    "sorted": lambda signs, rng: signs.sort(axis=0),
    "shuffled": lambda signs, rng: rng.shuffle(signs),
    "centred": lambda signs, rng: signs - signs.mean(axis=0),
    "ranks": lambda signs, rng: np.argsort(signs, axis=0) / len(signs),
    "relative to the first": lambda signs, rng: signs - signs[0],
    "noise": lambda signs, rng: signs + rng.normal(size=signs.shape),
    "small noise": lambda signs, rng: signs * (1 + 1e-6 * rng.normal(size=signs.shape)),
}
"""What a function does with observations that it must neither change nor compare."""


def _impure(rng: np.random.Generator, log: sb.Log) -> Trial:
    """Evaluate a policy or features that write, are random or look at the batch."""
    name = sorted(IMPURE)[rng.integers(len(IMPURE))]
    noise = np.random.default_rng(rng.integers(2**32))

    def given(signs: Any) -> Any:
        other = IMPURE[name](signs, noise)
        return (signs if other is None else other) / [100.0, 100.0, 5.0]

    def policy(signs: Any) -> Any:
        weights = np.exp(np.clip(given(signs), -5.0, 5.0))
        return weights / weights.sum(axis=1, keepdims=True)

    if rng.random() < 0.5:
        return Trial(f"policy: {name}", lambda: answer_of(log, policy), reference())
    return Trial(f"features: {name}", lambda: answer_of(log, features=given), reference())


WRONG = {
    "None": lambda p: None,
    "text": lambda p: "none",
    "a number": lambda p: 1.0,
    "one row": lambda p: p[:1],
    "no rows": lambda p: p[:0],
    "one action": lambda p: p[:, :1],
    "no actions": lambda p: p[:, :0],
    "an action more": lambda p: np.column_stack([p, p[:, 0]]),
    "transposed": lambda p: p.T,
    "three dimensions": lambda p: p[None],
    "flat": lambda p: p.ravel(),
    "NaN": lambda p: np.where(np.arange(len(p))[:, None] == 0, np.nan, p),
    "infinite": lambda p: p * np.inf,
    "negative": lambda p: p - 0.5,
    "sum 0.9": lambda p: 0.9 * p,
    "sum 1 + 1e-5": lambda p: (1 + 1e-5) * p,
    "logarithms": np.log,
    "logits": lambda p: 100 * p,
    "complex": lambda p: p + 0j,
    "complex, imaginary": lambda p: p + 1j,
    "objects": lambda p: p.astype(object),
    "objects with None": lambda p: np.where(p > 0.5, None, p),
    "texts": lambda p: p.astype(str),
    "bytes": lambda p: p.astype("S8"),
    "float32": lambda p: p.astype(np.float32),
    "float16": lambda p: p.astype(np.float16),
    "flags": lambda p: p > 0.5,
    "lists": lambda p: p.tolist(),
    "ragged lists": lambda p: [[1.0], [0.5, 0.5]],
    "a generator": lambda p: (row for row in p),
    "a dict": lambda p: {"probabilities": p},
    "masked": lambda p: np.ma.masked_array(p, p > 0.5),
    "dates": lambda p: p.astype("M8[s]"),
    "a matrix": lambda p: np.asmatrix(p),
    "read-only": lambda p: np.broadcast_to(p, p.shape),
}

ERRORS = (
    ValueError("no"), KeyError("sofa"), ZeroDivisionError(), AssertionError(), OSError(5, "I/O"),
    MemoryError(), RuntimeError("\x1b[31m"), StopIteration(), SystemExit(3),
    UnicodeDecodeError("utf-8", b"", 0, 1, ""), ExceptionGroup("both", [ValueError("1")]),
)  # fmt: skip

TARGETS = (
    3, None, "", "uniform:3", "always:", "always:dose", "always:-1", "pump:0.8", "columns",
    "columns:mu", "nowhere.py:policy", "nowhere.py", ":", "logged:1", [], {}, {"a": 3},
    {1: "uniform"}, {"": "uniform"}, np.ones((3, 3)), np.full((3, 3), 1 / 3), {"logged": "uniform"},
    object(), type, len, _recursive, ["uniform", "uniform"], {"a": ["uniform"]}, b"uniform",
    np.nan,
)  # fmt: skip

FILES = (
    "def policy(:\n", "raise ValueError('at import')\n", "import nowhere_at_all\n", "policy = 3\n",
    "\0", "\xed\xa0\x80", "", "import sys; sys.exit(1)\n",
    "def policy(a, b, c):\n    return a\n", "def policy():\n    return 1\n",
    "class policy:\n    pass\n",
    "def policy(signs: 'nonsense'):\n    return signs\n",
)  # fmt: skip


def wrong_policy(rng: np.random.Generator, folder: Path) -> Trial:
    """Evaluate a policy that does not do what a policy does."""
    log = sb.Log(clean_rows(), observations=SIGNS, actions=DOSES)
    kind = ("output", "features", "error", "target", "file", "impure")[rng.integers(6)]
    if kind == "impure":
        return _impure(rng, log)
    if kind == "output":
        name = sorted(WRONG)[rng.integers(len(WRONG))]
        later = int(rng.integers(0, 3))  # the first calls are fine
        calls = []

        def policy(signs: Any) -> Any:
            calls.append(len(signs))
            right = earlier(signs)
            return right if len(calls) <= later else WRONG[name](right)

        return Trial(f"output: {name} after {later}", lambda: answer_of(log, policy), reference())
    if kind == "features":
        return _wrong_features(rng, log)
    if kind == "error":
        error = ERRORS[rng.integers(len(ERRORS))]
        return Trial(f"raises {error!r}", lambda: answer_of(log, _raising(error)), reference())
    if kind == "target":
        target = TARGETS[rng.integers(len(TARGETS))]
        return Trial(f"target {target!r}", lambda: _stated(log, target), reference())
    path = folder / "policy.py"
    path.write_text(FILES[rng.integers(len(FILES))], encoding="utf-8")
    return Trial(
        f"file {path.read_text(encoding='utf-8')!r}",
        lambda: answer_of(log, f"{path}:policy"),
        reference(),
    )


def _wrong_features(rng: np.random.Generator, log: sb.Log) -> Trial:
    """Evaluate with a function of features that fails after some calls."""
    name = sorted(WRONG)[rng.integers(len(WRONG))]
    error = ERRORS[rng.integers(len(ERRORS))] if rng.random() < 0.3 else None
    later, calls = int(rng.integers(0, 4)), []

    def function(signs: Any) -> Any:
        calls.append(len(signs))
        right = np.column_stack([np.ones(len(signs)), signs / [100.0, 100.0, 5.0]])
        if len(calls) > later and error is not None:
            raise error
        return right if len(calls) <= later else WRONG[name](right)

    def use() -> Any:
        return replace(answer_of(log, features=function), value=None, content="valid")

    damage = f"features: {name if error is None else repr(error)} after {later}"
    return Trial(damage, use, Answer(content="valid"))


def _stated(log: sb.Log, target: Any) -> Any:
    """Evaluate another valid target: its result names it."""
    answer = answer_of(log, target)
    return replace(answer, notes=answer.notes | {"another target"})
