"""Features by name, for the command line: fitted to the range of a log's observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback import _registry, _validate
from saddleback._plugins import load
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter
from saddleback.features import RBF, Custom, Features, Fourier, Identity, OneHot, Polynomial, Tiles
from saddleback.log import Log, LogSummary
from saddleback.log.named_columns import with_columns

MOST = 3000
"""Features that are taken without asking, over all actions, where tiles are hashed."""

NAMES = ("tiles", "hash", "rbf", "fourier", "polynomial", "states", "given")


def features_of(
    spec: str | None,
    log: Log,
    card: LogSummary | None,
    low: FloatArray | None = None,
    high: FloatArray | None = None,
) -> Features:
    """Build features from a few words.

        tiles:BINSxTILINGS   hash:SIZE   rbf:ABOUT   fourier:ORDER   polynomial:DEGREE
        states[:N]   given   module.py:name

    Without words: ``given`` for ``phi_…`` columns, ``states`` for one column of whole numbers,
    ``tiles:8x8`` where these are at most 3000 features over all actions, else ``hash`` with as
    many, 64 to an action at least. The box is the range of the log unless it is given. The card may
    be None if `boxed`.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
    >>> features_of("fourier:3", log, log.summary(), np.array([-1.2, -0.07]), np.array([0.6, 0.07]))
    Fourier(low=(-1.2, -0.07), high=(0.6, 0.07), order=3)
    """
    words = spec or _usual(log, card)  # type: ignore[arg-type]
    kind, _, rest = words.partition(":")
    if kind.endswith(".py"):
        return own_features(words, log)
    _registry.check_name("features", kind, NAMES)
    if kind == "given":
        return Identity(log.dimensions)
    if kind == "states":
        return OneHot(_whole(words, rest, 0 if card is None else int(card.high[0]) + 1))
    least = card.low if low is None and card is not None else low
    most = card.high if high is None and card is not None else high
    assert least is not None
    assert most is not None
    if low is None and high is None:
        most = np.where(most > least, most, least + 1.0)
    box: dict[str, Any] = {"low": tuple(least.tolist()), "high": tuple(most.tolist())}
    if kind == "tiles":
        bins, _, tilings = rest.partition("x")
        return Tiles(**box, bins=_whole(words, bins, 8), tilings=_whole(words, tilings, 8))
    if kind == "hash":
        return Tiles(**box, bins=8, tilings=8, table=_whole(words, rest, 4096))
    if kind == "rbf":
        about = _whole(words, rest, 100)
        return RBF(**box, centres=max(2, int(about ** (1 / log.dimensions) + 1e-9)))
    if kind == "fourier":
        return Fourier(**box, order=_whole(words, rest, 3))
    return Polynomial(**box, degree=_whole(words, rest, 2))


def as_features(
    features: Any,
    log: Log,
    card: LogSummary | None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
) -> Features:
    """Return features however they are given: as an object, a function, a text, or not at all.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
    >>> as_features("polynomial:2", log, log.summary(), [-1.2, -0.07], [0.6, 0.07]).size
    9
    >>> as_features(lambda seen: seen**2, log, None).size
    2
    """
    if features is None or isinstance(features, str):
        return features_of(
            features, log, card, _corner("low", low, log), _corner("high", high, log)
        )
    for name, corner in (("low", low), ("high", high)):
        if corner is not None:
            raise InvalidParameter(
                f'{name} is the box of features that are given as a text, such as "tiles:8x4"; '
                "these have their own."
            )
    return given_features(features, log, "features")


def _corner(name: str, given: ArrayLike | None, log: Log) -> FloatArray | None:
    """Return a corner of the features' box."""
    if given is None:
        return None
    corner = _validate.floats(name, given)
    _validate.finite(name, corner)
    if corner.shape != (log.dimensions,):
        raise InvalidParameter(
            f"{name} has {corner.size} numbers for observations of {log.dimensions} entries."
        )
    return corner


def boxed(spec: str, low: FloatArray | None, high: FloatArray | None) -> bool:
    """Whether features can be built without knowing the range of the log.

    Examples
    --------
    >>> boxed("tiles:8x4", None, None), boxed("states:16", None, None), boxed("states", None, None)
    (False, True, False)
    """
    kind, _, rest = spec.partition(":")
    if kind == "states":
        return bool(rest)
    return kind == "given" or kind.endswith(".py") or (low is not None and high is not None)


def _usual(log: Log, card: LogSummary) -> str:
    if log.roles.are_features:
        return "given"
    low, high = card.low, card.high
    if log.dimensions == 1 and low[0] >= 0 and (low % 1 == 0).all() and (high % 1 == 0).all():
        seen = next(log.segments()).observations
        if (seen % 1 == 0).all():
            return "states"
    each = MOST // log.n_actions
    return "tiles:8x8" if 8 * 9**log.dimensions <= each else f"hash:{max(64, each)}"


def _whole(words: str, text: str, default: int) -> int:
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise InvalidParameter(
            f"features {words!r}: {text!r} is not a whole number >= 1. Write tiles:8x4, hash:4096, "
            "rbf:200, fourier:3, polynomial:2, states:16, given, or module.py:function."
        )
    return int(text)


def own_features(words: str, log: Log) -> Features:
    """Return features ``module.py:name``: an object like ours, or a function of observations."""
    return given_features(load(words), log, f"features {words!r}")


def given_features(given: Any, log: Log, name: str) -> Features:
    """Return features that are an object like ours, or a function of observations."""
    if hasattr(given, "encode") and hasattr(given, "size") and not isinstance(given, type):
        features: Features = given
        return features
    if not callable(given) or isinstance(given, type):
        raise InvalidParameter(
            f"{name}: it must be an object of saddleback.features, a function of observations, or "
            f'a text such as "tiles:8x4" or "polynomial:2", got {given!r}.'
        )
    given = with_columns(given, log.observation_names)
    seen = next(log.segments()).observations[:2]
    try:
        shape = np.shape(given(seen))
    except Exception as error:
        raise InvalidParameter(f"{name} failed: {type(error).__name__}: {error}") from error
    if len(shape) != 2 or shape[0] != len(seen):
        raise InvalidParameter(
            f"{name}: for observations of shape {list(seen.shape)} the function must "
            f"return [{len(seen)}, size], got {list(shape)}."
        )
    return Custom(given, int(shape[1]))
