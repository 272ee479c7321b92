"""Candidate features for a log: what a decision may depend on, and functions of it.

Views of a decision: the observation; with the step; and with the step, the previous observation and
action, and the reward so far, which may reveal a state that the observation hides. On each view:
monomials, random Fourier features of several bandwidths and sizes, cells of a partition, and one
feature per distinct value where there are few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.errors import InvalidParameter
from saddleback.features import Features, Monomials, RandomFourier, Scaling, Tiles
from saddleback.features.standardised import median_distance, repeated_columns
from saddleback.log import Finding
from saddleback.ope.episode_sample import EpisodeSample
from saddleback.ope.partition import Cells

OBSERVATION, STEP, HISTORY, GIVEN = "observation", "step", "history", "features"
"""Views of a decision; the last is that of features chosen by hand."""

MAX_CATEGORIES = 40
"""Largest number of values of a column of whole numbers that is taken as categories."""

MAX_VALUES = 400
"""Largest number of distinct points with a feature each; also at most a quarter of the rows."""

MIN_WAVES = 8
"""Smallest number of random Fourier features."""

MAX_GIVEN = 2000
"""Largest number of features over all actions, if they are chosen by hand."""

Encoder = Callable[..., FloatArray]
"""Dense features [n, m] of the points of a view [n, d]; the first is constant."""


@dataclass(frozen=True, eq=False)
class View:
    """What features may depend on: points before and after each transition, and at the start."""

    name: str
    before: FloatArray
    after: FloatArray
    start: FloatArray


@dataclass(frozen=True, eq=False)
class Basis:
    """Features of a view."""

    name: str  # the features as text, such as ``random Fourier 200, bandwidth 1.8``
    view: View
    encode: Encoder
    # Whether they vary so smoothly that few directions may contain nearly all of them.
    is_smooth: bool = field(default=False, kw_only=True)
    # Whether each distinct point has a feature of its own, so that they represent any function.
    is_exact: bool = field(default=False, kw_only=True)
    # λ of the traces of tree backup that θ and u are fitted with; features must be shared.
    lam: float = field(default=0.0, kw_only=True)
    # Whether all actions share the features; otherwise each has its own weights.
    is_shared: ClassVar[bool] = False
    # Whether rows are weighted by π(a|s)/μ(a|s), which gives a dual only (`state_candidates`).
    is_weighted: ClassVar[bool] = False

    @property
    def kind(self) -> tuple[str, str]:
        """What the features are, without their number, such as ``random Fourier``."""
        name = re.sub(r"\d\S*", "", self.name.partition(",")[0])
        return type(self).__name__, " ".join(name.split())

    def by_action(self, theta: FloatArray, n_actions: int) -> FloatArray:
        """Return weights θ [folds, p] of the features for each action, [folds, K, m]."""
        return theta.reshape(len(theta), n_actions, -1)

    def before(self, rows: IntArray) -> FloatArray:
        """Return the features before some transitions, [n, m]."""
        return self.encode(self.view.before[rows])

    def after(self, rows: IntArray) -> FloatArray:
        """Return the features after some transitions, [n, m]."""
        return self.encode(self.view.after[rows])

    def start(self) -> FloatArray:
        """Return the features at the starts of all episodes, [E, m]."""
        return self.encode(self.view.start)


def views(sample: EpisodeSample) -> Iterator[View]:
    """Return the views of a sample."""
    states, after, starts = sample.states, sample.next_states, sample.starts
    yield View(OBSERVATION, states, after, starts)
    if not sample.step.any():
        return
    distinct = [_categories(column) for column in states.T]
    states, after, starts = (_one_hot_columns(part, distinct) for part in (states, after, starts))
    step = sample.step[:, None].astype(float)
    zero = np.zeros((len(starts), 1))
    clock = np.column_stack([states, step]), np.column_stack([after, step + 1.0])
    yield View(STEP, *clock, np.column_stack([starts, zero]))
    first = sample.step == 0
    missing = np.median(states, axis=0)
    values = sample.action_values
    taken = np.eye(sample.n_actions)[sample.actions] if values is None else values
    total = np.cumsum(sample.rewards)
    before = total - sample.rewards
    offset = before[first][np.cumsum(first) - 1]
    previous = np.roll(states, 1, axis=0), np.roll(taken, 1, axis=0)
    previous[0][first], previous[1][first] = missing, 0.0
    history = np.column_stack([clock[0], *previous, before - offset])
    later = np.column_stack([clock[1], states, taken, total - offset])
    none = np.zeros((len(starts), taken.shape[1] + 1))
    begin = np.column_stack([starts, zero, np.tile(missing, (len(starts), 1)), none])
    yield View(HISTORY, history, later, begin)


def unused_columns(sample: EpisodeSample, names: Sequence[str]) -> list[Finding]:
    """Return a warning if observation columns are constant, or repeat others: nothing uses them.

    Entries of one categorical column, named ``column=value``, tell each other's value.
    """
    repeated = repeated_columns(sample.states)
    reasons = []
    for j, scale in enumerate(Scaling.of(sample.states).scale):
        column, is_category, _ = names[j].rpartition("=")
        if j in repeated and not (is_category and names[repeated[j]].startswith(f"{column}=")):
            reasons.append(f"{names[j]!r} repeats {names[repeated[j]]!r}")
        elif not scale and j not in repeated:
            reasons.append(f"{names[j]!r} is constant")
    return [Finding("W176", f"columns not used: {', '.join(reasons)}.")] if reasons else []


def _categories(column: FloatArray) -> FloatArray | None:
    """Return the values of a column of few whole numbers; None for any other column."""
    values = np.unique(column)
    few = 2 < len(values) <= MAX_CATEGORIES
    return values if few and (values % 1 == 0).all() else None


def _one_hot_columns(points: FloatArray, values: list[FloatArray | None]) -> FloatArray:
    """Return points with columns of few whole numbers as one column per value."""
    columns = [
        points[:, [k]] if own is None else (points[:, [k]] == own).astype(float)
        for k, own in enumerate(values)
    ]
    return np.column_stack(columns)


def _one(points: FloatArray) -> FloatArray:
    """Return a feature that is 1 everywhere."""
    return np.ones((len(points), 1))


def candidates(
    sample: EpisodeSample, sizes: tuple[int, ...], max_size: int, seed: int = 0
) -> Iterator[Basis]:
    """Return the bases to try, with at most ``max_size`` features of an observation."""
    for view in views(sample):
        scaling = Scaling.of(view.before)
        observed = view.name == OBSERVATION
        if observed:
            yield Basis("constant", view, _one)
        if not scaling.size:
            continue
        for degree in (1, 2) if view.name != HISTORY else (1,):
            monomials = Monomials(scaling, degree)
            if 1 < monomials.size <= max_size:
                yield Basis(("linear", "quadratic")[degree - 1], view, monomials)
        few = min(MAX_VALUES, MAX_GIVEN // sample.n_actions, len(view.before) // 4)
        values = _distinct(view, max(max_size, few))
        if values is not None:
            name = f"{len(values)} distinct values"
            yield Basis(name, view, partial(_one_hot, values), is_exact=True)
        width = median_distance(scaling(view.before))
        factors = [(sizes[-1], factor) for factor in (0.25, 0.5, 1.0, 2.0, 4.0)]
        factors += [(size, factor) for size in sizes[:-1] for factor in (1.0, 4.0)]
        waves = [
            (min(size, max_size - 1 - scaling.size), width * factor)
            for size, factor in (factors if observed else factors[2:4])
        ]
        for k, (size, bandwidth) in enumerate(waves):
            if size >= MIN_WAVES:
                features = RandomFourier(scaling, size, bandwidth, seed + k)
                name = f"random Fourier {size}, bandwidth {bandwidth:.2g}"
                yield Basis(name, view, features, is_smooth=True)
        if observed and scaling.size <= 2:
            used = np.flatnonzero(scaling.scale)
            low, high = view.before[:, used].min(axis=0), view.before[:, used].max(axis=0)
            high = np.where(high > low, high, low + 1.0)
            for bins, tilings in ((6, 4), (12, 1)):
                tiles = Tiles(tuple(low), tuple(high), bins, tilings)
                if tiles.size <= max_size:
                    yield Basis(f"tiles {bins}x{tilings}", view, partial(_tiles, tiles, used))
        if observed:
            scaled = scaling(view.before)
            cells = Cells.of(scaled, min(64, max_size, 1 + len(scaled) // 20))
            yield Basis(f"{cells.size} cells", view, partial(_cells, cells, scaling))


def middle_of_each_kind(bases: Iterable[Basis]) -> list[Basis]:
    """Return the middle one of each kind of basis on each view, such as the random Fourier ones."""
    kinds: dict[tuple[str, ...], list[Basis]] = {}
    for basis in bases:
        kinds.setdefault((basis.view.name, *basis.kind), []).append(basis)
    return [same[len(same) // 2] for same in kinds.values()]


def given_basis(features: Features, sample: EpisodeSample) -> Basis:
    """Return features chosen by hand as a basis."""
    if features.size * sample.n_actions > MAX_GIVEN:
        raise InvalidParameter(
            f"a horizon or a bandit needs at most {MAX_GIVEN:,} features over all actions; these "
            f"are {features.size * sample.n_actions:,}. Choose fewer, or leave the choice to the "
            "log."
        )
    view = View(GIVEN, sample.states, sample.next_states, sample.starts)
    return Basis("given", view, partial(_dense, features))


def _dense(features: Features, points: FloatArray) -> FloatArray:
    """Return a constant and features [n, 1 + size]."""
    active = features.encode(points).dense(features.size)
    return np.column_stack([np.ones(len(points)), active])


def _tiles(tiles: Tiles, columns: IntArray, points: FloatArray) -> FloatArray:
    return _dense(tiles, points[:, columns])


def _cells(cells: Cells, scaling: Scaling, points: FloatArray) -> FloatArray:
    return _dense(cells, scaling(points))


def _distinct(view: View, limit: int) -> FloatArray | None:
    """Return the distinct points of a view, if they are at most ``limit``."""
    few = np.unique(view.before[: 4 * limit], axis=0)
    if len(few) > limit:
        return None
    values = np.unique(np.concatenate([view.before, view.after, view.start]), axis=0)
    return values if 1 < len(values) <= limit else None


def _one_hot(values: FloatArray, points: FloatArray) -> FloatArray:
    """Return a constant, and one feature per value, which other points do not have."""
    both = np.concatenate([values, points])
    _, index = np.unique(both, axis=0, return_inverse=True)
    index = index.ravel()
    order = np.full(index.max() + 1, -1)
    order[index[: len(values)]] = np.arange(len(values))
    which = order[index[len(values) :]]
    active = (which[:, None] == np.arange(len(values))).astype(float)
    return np.column_stack([np.ones(len(points)), active])
