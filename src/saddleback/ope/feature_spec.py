"""Features from a text such as ``"tiles:8x4"``, scaled to the range of a log's observations."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from saddleback import _registry, _validate
from saddleback._plugins import USER_ERRORS, load
from saddleback._typing import ArrayLike, FloatArray
from saddleback._user_functions import ImpureFunction, call
from saddleback.errors import InvalidParameter
from saddleback.features import (
    RBF,
    Custom,
    Features,
    Fourier,
    Identity,
    Monomials,
    OneHot,
    Polynomial,
    RandomFourier,
    Scaling,
    Tiles,
)
from saddleback.features.standardised import median_distance
from saddleback.log import Log, LogSample
from saddleback.log.named_columns import with_columns

AUTO = "auto"
"""The text that leaves the choice of features to the log."""

WAVES = 40
"""Default number of random Fourier features of an observation."""

MAX_TILES, MAX_STATES = 1000, 6000
"""Largest numbers of tiles and of states over all actions by default."""

NAMES = (
    "tiles", "hash", "rbf", "fourier", "polynomial", "monomials", "random-fourier", "states",
    "given", AUTO,
)  # fmt: skip


def parse_features(
    spec: str | None,
    log: Log,
    sample: LogSample | None,
    low: FloatArray | None = None,
    high: FloatArray | None = None,
) -> Features:
    """Build features from a text.

        tiles:BINSxTILINGS   hash:SIZE   rbf:CENTRES   fourier:ORDER   polynomial:DEGREE
        monomials:DEGREE   random-fourier:WAVES   states[:N]   given   module.py:name   auto
        FILE.stats, the features of saved statistics

    With ``auto``, the default: ``given`` for ``phi_…`` columns, ``states`` for one column of
    integers, ``tiles:8x8`` or ``tiles:8x4`` if these are at most 1000 features over all actions,
    otherwise ``random-fourier:40``. The box is the range of the log unless given; monomials and
    random Fourier features scale observations robustly, and have no box. The sample may be None
    if `box_known`.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
    >>> low, high = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
    >>> parse_features("fourier:3", log, log.sample(), low, high)
    Fourier(low=(-1.2, -0.07), high=(0.6, 0.07), order=3)
    """
    if is_automatic(spec):
        spec = _default_spec(log, sample)  # type: ignore[arg-type]
    assert spec is not None
    kind, _, rest = spec.partition(":")
    if kind.endswith(".py"):
        return load_features(spec, log, sample)
    if spec.endswith(".stats"):
        return features_of_statistics(spec)
    _registry.check_name("features", kind, NAMES)
    if kind == "given":
        return Identity(log.dimensions)
    if kind == "states":
        return OneHot(positive_int(spec, rest, 0 if sample is None else int(sample.high[0]) + 1))
    if kind in ("monomials", "random-fourier"):
        assert sample is not None
        scaling = Scaling.of(sample.states)
        if kind == "monomials":
            scaling = scaling.covering(np.stack([sample.low, sample.high]))
            return Monomials(scaling, positive_int(spec, rest, 2))
        width = median_distance(scaling(sample.states))
        return RandomFourier(scaling, positive_int(spec, rest, WAVES), round(width, 3))
    lower = sample.low if low is None and sample is not None else low
    upper = sample.high if high is None and sample is not None else high
    assert lower is not None
    assert upper is not None
    if low is None and high is None:
        upper = np.where(upper > lower, upper, lower + 1.0)
    box: dict[str, Any] = {"low": tuple(lower.tolist()), "high": tuple(upper.tolist())}
    if kind == "tiles":
        bins, _, tilings = rest.partition("x")
        return Tiles(
            **box, bins=positive_int(spec, bins, 8), tilings=positive_int(spec, tilings, 8)
        )
    if kind == "hash":
        return Tiles(**box, bins=8, tilings=8, table=positive_int(spec, rest, 4096))
    if kind == "rbf":
        total = positive_int(spec, rest, 100)
        return RBF(**box, centres=max(2, int(total ** (1 / log.dimensions) + 1e-9)))
    if kind == "fourier":
        return Fourier(**box, order=positive_int(spec, rest, 3))
    return Polynomial(**box, degree=positive_int(spec, rest, 2))


def as_features(
    features: Any,
    log: Log,
    sample: LogSample | None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
) -> Features:
    """Return features given as an object, a function, a text, or None for the default.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
    >>> as_features("polynomial:2", log, log.sample(), [-1.2, -0.07], [0.6, 0.07]).size
    9
    >>> as_features(lambda states: states**2, log, None).size
    2
    """
    if features is None or isinstance(features, str):
        return parse_features(
            features, log, sample, _corner("low", low, log), _corner("high", high, log)
        )
    for name, corner in (("low", low), ("high", high)):
        if corner is not None:
            raise InvalidParameter(
                f'{name} is the box of features given as a text, such as "tiles:8x4"; these '
                "features have their own."
            )
    return wrap_features(features, log, "features", sample)


def _corner(name: str, given: ArrayLike | None, log: Log) -> FloatArray | None:
    """Return a corner of the features' box."""
    if given is None:
        return None
    corner = _validate.floats(name, given)
    _validate.finite(name, corner)
    if corner.shape != (log.dimensions,):
        raise InvalidParameter(
            f"{name} has {corner.size} numbers, but observations have {log.dimensions} entries."
        )
    return corner


def box_known(spec: str, low: ArrayLike | None, high: ArrayLike | None) -> bool:
    """Whether features can be built without the range of the log.

    Examples
    --------
    >>> [box_known(spec, None, None) for spec in ("tiles:8x4", "states:16", "states")]
    [False, True, False]
    """
    kind, _, rest = spec.partition(":")
    if kind == "states":
        return bool(rest)
    if kind in (AUTO, "monomials", "random-fourier"):
        return False
    if spec.endswith(".stats"):
        return True
    return kind == "given" or kind.endswith(".py") or (low is not None and high is not None)


def _default_spec(log: Log, sample: LogSample) -> str:
    if log.roles.are_features:
        return "given"
    low, high = sample.low, sample.high
    whole_numbers = all((values % 1 == 0).all() for values in (low, high, sample.states))
    fits = (high[0] + 1) * log.n_actions <= MAX_STATES
    if log.dimensions == 1 and low[0] >= 0 and whole_numbers and fits:
        return "states"
    for tilings in (8, 4):
        if tilings * 9**log.dimensions * log.n_actions <= MAX_TILES:
            return f"tiles:8x{tilings}"
    return f"random-fourier:{WAVES}"


def is_automatic(features: Any) -> bool:
    """Whether the features are left to the log.

    Examples
    --------
    >>> is_automatic(None), is_automatic("auto"), is_automatic("tiles:8x4")
    (True, True, False)
    """
    return features is None or (isinstance(features, str) and features == AUTO)


def features_of_statistics(path: str) -> Features:
    """Return the features of saved statistics, to compute others that can be merged with them."""
    from saddleback.ope.statistics_io import load_statistics

    text = load_statistics(path).setting.features
    try:
        features: Features = _from_description(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError) as error:
        raise InvalidParameter(
            f"features {path!r}: its features {text!r} are code of your own: pass that instead."
        ) from error
    return features


CLASSES = {
    kind.__name__: kind
    for kind in (
        RBF, Fourier, Identity, Monomials, OneHot, Polynomial, RandomFourier, Scaling, Tiles
    )
}  # fmt: skip
"""Features that a description can name."""


def _from_description(node: ast.expr) -> Any:
    """Return the features that a description, their repr, stands for; it is not executed.

    Examples
    --------
    >>> _from_description(ast.parse("RBF(low=(0.0,), high=(1.0,), centres=3)", mode="eval").body)
    RBF(low=(0.0,), high=(1.0,), centres=3)
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES:
        given = {option.arg or "": _from_description(option.value) for option in node.keywords}
        return CLASSES[node.func.id](*map(_from_description, node.args), **given)
    return ast.literal_eval(node)


def positive_int(spec: str, text: str, default: int) -> int:
    """Return the number in a text of features, or the default if there is none."""
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise InvalidParameter(
            f"features {spec!r}: {text!r} is not an integer >= 1. Write tiles:8x4, hash:4096, "
            "rbf:200, fourier:3, polynomial:2, monomials:2, random-fourier:40, states:16, given, "
            "auto, or module.py:function."
        )
    return int(text)


def load_features(spec: str, log: Log, sample: LogSample | None = None) -> Features:
    """Return the features ``module.py:name``: a features object, or a function of observations."""
    return wrap_features(load(spec), log, f"features {spec!r}", sample)


def wrap_features(given: Any, log: Log, name: str, sample: LogSample | None = None) -> Features:
    """Return a features object as it is, or wrap a function of observations."""
    if hasattr(given, "encode") and hasattr(given, "size") and not isinstance(given, type):
        features: Features = given
        return features
    if not callable(given) or isinstance(given, type):
        raise InvalidParameter(
            f"{name} must be an object of saddleback.features, a function of observations, or a "
            f'text such as "tiles:8x4" or "polynomial:2", got {given!r}.'
        )
    given = with_columns(given, log.observation_names)
    states = (next(log.segments()).observations if sample is None else sample.states)[:2]
    try:
        shape = np.shape(call(name, given, states))
    except ImpureFunction:
        raise
    except USER_ERRORS as error:
        raise InvalidParameter(f"{name} failed: {type(error).__name__}: {error}") from error
    if len(shape) != 2 or shape[0] != len(states):
        raise InvalidParameter(
            f"{name}: for observations of shape {list(states.shape)} the function must "
            f"return [{len(states)}, size], got {list(shape)}."
        )
    return Custom(given, int(shape[1]))
