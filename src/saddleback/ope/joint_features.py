"""Features of observation and continuous action from a text, a function, or by default."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from saddleback._plugins import USER_ERRORS, load
from saddleback._user_functions import ImpureFunction, call
from saddleback.errors import InvalidParameter
from saddleback.features.standardised import median_distance
from saddleback.features.state_action import (
    JointCustom,
    JointFourier,
    JointMonomials,
    JointScaling,
    StateActionFeatures,
)
from saddleback.log.callable_fingerprint import fingerprint
from saddleback.ope.candidates import MAX_GIVEN
from saddleback.ope.consensus import MAX_FEATURES
from saddleback.ope.episode_sample import EpisodeSample
from saddleback.ope.feature_spec import is_automatic, positive_int


def as_joint_features(given: Any, sample: EpisodeSample) -> StateActionFeatures:
    """Return features of observation and action: an object, a function, a text, or the default."""
    assert sample.action_values is not None
    scaling = JointScaling.of(sample.states, sample.action_values)
    if is_automatic(given):
        square = JointMonomials(scaling, 2)
        return square if square.size <= MAX_FEATURES else JointMonomials(scaling, 1)
    if isinstance(given, str):
        kind, _, rest = given.partition(":")
        if kind == "monomials":
            both = np.concatenate([sample.states, sample.next_states[sample.continues]])
            covering = replace(scaling, states=scaling.states.covering(both))
            return _small(JointMonomials(covering, positive_int(given, rest, 2)))
        if kind == "random-fourier":
            points = [scaling.states(sample.states), scaling.actions(sample.action_values)]
            width = round(median_distance(np.column_stack(points)), 3)
            return _small(JointFourier(scaling, positive_int(given, rest, 100), width))
        if not kind.endswith(".py"):
            raise InvalidParameter(
                f"features {given!r} are for discrete actions. For continuous ones, write "
                "monomials:2, random-fourier:100, or module.py:function, a function of "
                "observations [n, d] and actions [n, k]."
            )
        given = load(given)
    if not callable(given):
        raise InvalidParameter(
            "features for continuous actions must be a function of observations [n, d] and actions "
            f"[n, k], or a text such as 'monomials:2'; got {type(given).__name__}."
        )
    try:
        shape = np.shape(call("features", given, sample.states[:2], sample.action_values[:2]))
    except ImpureFunction:
        raise
    except USER_ERRORS as error:
        raise InvalidParameter(f"features failed: {type(error).__name__}: {error}") from error
    rows = len(sample.states[:2])
    if len(shape) != 2 or shape[0] != rows:
        raise InvalidParameter(
            f"features: for {rows} observations and actions the function must return "
            f"[{rows}, size], got {list(shape)}."
        )
    return _small(JointCustom(given, int(shape[1])))


def _small(features: StateActionFeatures) -> StateActionFeatures:
    if features.size > MAX_GIVEN:
        raise InvalidParameter(
            f"at most {MAX_GIVEN:,} features of observation and action can be used; these are "
            f"{features.size:,}."
        )
    return features


def describe(features: StateActionFeatures) -> str:
    """Return features in words, equal for equal features of the same log.

    Examples
    --------
    >>> from saddleback.features import Scaling
    >>> describe(JointMonomials(JointScaling(Scaling((0.0,), (1.0,)), (0.0,), (1.0,)), degree=2))
    'monomials of observation and action up to degree 2'
    """
    if isinstance(features, JointMonomials):
        return f"monomials of observation and action up to degree {features.degree}"
    if isinstance(features, JointFourier):
        return (
            f"{features.waves} random Fourier features of observation and action, bandwidth "
            f"{features.bandwidth:g}"
        )
    assert isinstance(features, JointCustom)
    return f"{fingerprint(features.function)}, {features.size} features of observation and action"
