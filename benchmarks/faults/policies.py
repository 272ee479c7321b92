"""Strategies of policies that fail, or return anything but probabilities."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import scipy.sparse
from hypothesis import strategies as st

import saddleback as sb
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, earlier

from .logs import answer_of, clean_rows, reference
from .trial import Answer, Trial


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


def _probabilities(signs: Any) -> Any:
    weights = np.exp(np.clip(signs / [100.0, 100.0, 5.0], -5.0, 5.0))
    return weights / weights.sum(axis=1, keepdims=True)


@st.composite
def _impure(draw: st.DrawFn) -> Trial:
    """A policy or features that write, are random or look at the batch."""
    name, seed = draw(st.sampled_from(sorted(IMPURE))), draw(st.integers(0, 2**32 - 1))
    is_policy = draw(st.booleans())

    def use(folder: Path) -> Answer:
        noise = np.random.default_rng(seed)

        def given(signs: Any) -> Any:
            other = IMPURE[name](signs, noise)
            return signs if other is None else other

        if is_policy:
            return answer_of(log(), lambda signs: _probabilities(given(signs)))
        return answer_of(log(), features=lambda signs: given(signs) / [100.0, 100.0, 5.0])

    return Trial(f"{'policy' if is_policy else 'features'}: {name}", use, reference)


@st.composite
def _drifting(draw: st.DrawFn) -> Trial:
    """A policy or features that are another function after some calls."""
    later, is_policy = draw(st.integers(0, 30)), draw(st.booleans())
    change = draw(st.sampled_from((1e-6, 0.01, 1.0)))

    def use(folder: Path) -> Answer:
        calls = itertools.count()

        def given(signs: Any) -> Any:
            return signs * (1.0 + change * (next(calls) >= later))

        if is_policy:
            return answer_of(log(), lambda signs: _probabilities(given(signs)))
        return answer_of(log(), features=lambda signs: given(signs) / [100.0, 100.0, 5.0])

    def before() -> Answer:
        return _before_drift(is_policy)

    what = "policy" if is_policy else "features"
    return Trial(f"{what} that change by {change} after {later} calls", use, before)


@functools.cache
def _before_drift(is_policy: bool) -> Answer:
    """Return the answer of a function of `_drifting` that does not change."""
    if is_policy:
        return answer_of(log(), _probabilities)
    return answer_of(log(), features=lambda signs: signs / [100.0, 100.0, 5.0])


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
    "the first of two": lambda p: (p, p),
    "a frame": pandas.DataFrame,
    "a series": lambda p: pandas.Series(list(p)),
    "nullable": lambda p: pandas.DataFrame(p).astype("Float64").mask(p > 0.5),
    "sparse": scipy.sparse.csr_matrix,
    "sparse coordinates": scipy.sparse.coo_array,
    "an array of another library": lambda p: _Foreign(p),
    "an array that fails": lambda p: _Foreign(None),
    "a memory view": lambda p: memoryview(np.ascontiguousarray(p)),
    "decimals": lambda p: [[Decimal(float(x)) for x in row] for row in p],
    "fractions": lambda p: [[Fraction(float(x)) for x in row] for row in p],
    "huge integers": lambda p: [[10**400, 0, 0] for row in p],
    "big-endian": lambda p: p.astype(">f8"),
    "long double": lambda p: p.astype(np.longdouble),
    "reversed": lambda p: p[::-1, ::-1],
    "records": lambda p: np.zeros(len(p), [("x", "f8"), ("y", "f8"), ("z", "f8")]),
    "a coroutine": lambda p: _Coroutine(),
    "denormal": lambda p: np.where(p > 0.5, 1.0, 5e-324),
    "−0": lambda p: np.where(p == p.max(axis=1, keepdims=True), 1.0, -0.0),
    "more rows": lambda p: np.vstack([p, p]),
    "a set": lambda p: {1.0, 0.0},
    "a function": lambda p: lambda: p,
}


class _Foreign:
    """An array of another library, such as a tensor; without content it cannot be converted."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.content is None:
            raise RuntimeError("can't convert a tensor that requires grad")
        return np.array(self.content, dtype)


class _Coroutine:
    """What an asynchronous function returns; a real one would warn that nobody awaited it."""

    def __await__(self) -> Any:
        yield


ERRORS = (
    ValueError("no"), KeyError("sofa"), ZeroDivisionError(), AssertionError(), OSError(5, "I/O"),
    MemoryError(), RuntimeError("\x1b[31m"), StopIteration(), SystemExit(3),
    UnicodeDecodeError("utf-8", b"", 0, 1, ""), ExceptionGroup("both", [ValueError("1")]),
    Warning("w"), np.linalg.LinAlgError("singular"), RecursionError(),
    ValueError("assignment destination is read-only"), TimeoutError(), EOFError(), Exception(),
    ValueError("\udcff"), ValueError("x" * 10**6),
)  # fmt: skip

TARGETS = (
    3, None, "", "uniform:3", "always:", "always:dose", "always:-1", "pump:0.8", "columns",
    "columns:mu", "nowhere.py:policy", "nowhere.py", ":", "logged:1", [], {}, {"a": 3},
    {1: "uniform"}, {"": "uniform"}, np.ones((3, 3)), np.full((3, 3), 1 / 3), {"logged": "uniform"},
    object(), type, len, _recursive, ["uniform", "uniform"], {"a": ["uniform"]}, b"uniform",
    np.nan, "\udcff", "\0", "uniform:", "pump:nan", "pump:1e999", "pump:", "always:none:x",
    [[1.0]], np.zeros((0, 3)), {"a\0": "uniform"}, {"x" * 10**5: "uniform"}, range(3), 1j,
    np.array("uniform"), np.full((3, 3), "x"), lambda: 0, print, dict, {"\udcff": "uniform"},
    Path("nowhere.py:policy"),
)  # fmt: skip

FILES = (
    "def policy(:\n", "raise ValueError('at import')\n", "import nowhere_at_all\n", "policy = 3\n",
    "\0", "\xed\xa0\x80", "", "import sys; sys.exit(1)\n",
    "def policy(a, b, c):\n    return a\n", "def policy():\n    return 1\n",
    "class policy:\n    pass\n",
    "def policy(signs: 'nonsense'):\n    return signs\n",
    "def policy(signs):\n    yield signs\n",
    "from policy import policy\n", "policy = property()\n", "\ufeffpolicy = 'x'\n",
    "policy = None\n", "import policy\n", "def __getattr__(name):\n    raise ZeroDivisionError\n",
    "class P:\n    def __call__(self, x):\n        return x\n    def __getattr__(self, n):\n"
    "        raise ZeroDivisionError\npolicy = P()\n",
    "# coding: nowhere\npolicy = 1\n", "1 / 0\n",
    "policy = lambda *, signs: signs\n", "policy = lambda *signs: signs[0]\n",
)  # fmt: skip


def log() -> sb.Log:
    """Return the log without damage."""
    return sb.Log(clean_rows(), observations=SIGNS, actions=DOSES)


@st.composite
def _wrong_output(draw: st.DrawFn) -> Trial:
    """A policy that returns something else after some calls."""
    name, later = draw(st.sampled_from(sorted(WRONG))), draw(st.integers(0, 7))

    def use(folder: Path) -> Answer:
        calls = itertools.count()
        answer = answer_of(
            log(), lambda p: earlier(p) if next(calls) < later else WRONG[name](earlier(p))
        )
        return answer if later else replace(answer, notes=answer.notes | {"another policy"})

    return Trial(f"output: {name} after {later}", use, reference)


@st.composite
def _wrong_features(draw: st.DrawFn) -> Trial:
    """Features that fail, or return something else, after some calls."""
    name, later = draw(st.sampled_from(sorted(WRONG))), draw(st.integers(0, 7))
    error = draw(st.none() | st.none() | st.sampled_from(ERRORS))

    def use(folder: Path) -> Answer:
        calls = itertools.count()

        def function(signs: Any) -> Any:
            if next(calls) < later:
                return _features(signs)
            if error is not None:
                raise error
            return WRONG[name](_features(signs))

        answer = answer_of(log(), features=function)
        return answer if later else replace(answer, notes=answer.notes | {"other features"})

    damage = f"features: {name if error is None else repr(error)[:60]} after {later}"
    return Trial(damage, use, _with_features)


def _features(signs: Any) -> Any:
    return np.column_stack([np.ones(len(signs)), signs / [100.0, 100.0, 5.0]])


@functools.cache
def _with_features() -> Answer:
    return answer_of(log(), features=_features)


@st.composite
def _raising(draw: st.DrawFn) -> Trial:
    """A policy that raises."""
    error = draw(st.sampled_from(ERRORS))

    def policy(signs: Any) -> Any:
        raise error

    return Trial(f"raises {error!r:.60}", lambda folder: answer_of(log(), policy), reference)


@st.composite
def _wrong_target(draw: st.DrawFn) -> Trial:
    """Something else in the place of a policy; the result of a valid one names it."""
    target = draw(st.sampled_from(TARGETS) | st.text(max_size=5))

    def use(folder: Path) -> Answer:
        answer = answer_of(log(), target)
        return replace(answer, notes=answer.notes | {"another target"})

    return Trial(f"target {target!r:.60}", use, reference)


@st.composite
def _wrong_file(draw: st.DrawFn) -> Trial:
    """A file in which there is no policy."""
    content = draw(st.sampled_from(FILES) | st.text(max_size=10)).encode(errors="surrogatepass")

    def use(folder: Path) -> Answer:
        path = folder / "policy.py"
        path.write_bytes(content)
        return answer_of(log(), f"{path}:policy")

    return Trial(f"file {content!r}", use, reference)


def wrong_policy() -> st.SearchStrategy[Trial]:
    """Evaluations of policies and features that do not do what these do."""
    return st.one_of(
        _wrong_output(), _wrong_features(), _raising(), _wrong_target(), _wrong_file(), _impure(),
        _drifting(),
    )  # fmt: skip
