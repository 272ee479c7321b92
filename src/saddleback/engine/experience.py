"""Experience: a record of steps, and a sampler of them from a finite problem."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled, subroutine
from saddleback._typing import RNG, BoolArray, FloatArray, IntArray
from saddleback.errors import InvalidParameter, InvalidShape, UndefinedRatio
from saddleback.problem import Problem

CHUNK = 1 << 12
"""Steps in memory at a time, few enough to stay in cache; results do not depend on it."""


@dataclass(frozen=True, eq=False, repr=False)
class Experience:
    """A sequence of steps (S, A, R, S', A') with the discount γ' of each.

    γ' is 0 where the step ended the episode. ``starts`` marks the first step of each episode; a
    truncated episode ends with γ' > 0 before the next start.

    Attributes
    ----------
    states, actions, next_states, next_actions
        Indices, [T].
    rewards, discounts
        R and γ', [T].
    starts
        Whether the step is the first of its episode, [T].

    Examples
    --------
    >>> from saddleback import problems, sample
    >>> steps = sample(problems.two_state(), 5, rng=0)
    >>> steps
    Experience(steps=5, episodes=1)
    >>> steps.rewards.shape
    (5,)
    """

    states: IntArray
    actions: IntArray
    rewards: FloatArray
    next_states: IntArray
    next_actions: IntArray
    discounts: FloatArray
    starts: BoolArray

    def __post_init__(self) -> None:
        kinds = {"starts": "b", "rewards": "fiu", "discounts": "fiu"}
        for f in fields(self):
            column = np.asarray(getattr(self, f.name))
            if column.ndim != 1 or column.dtype.kind not in kinds.get(f.name, "iu"):
                raise InvalidShape(
                    f"Experience: {f.name} must be a column of {f.type}, got shape "
                    f"{list(column.shape)} of {column.dtype}."
                )
            exact = {"b": np.bool_, "f": np.float64}.get(kinds.get(f.name, "i")[0], np.int64)
            object.__setattr__(self, f.name, np.ascontiguousarray(column, dtype=exact))
        lengths = {f.name: len(getattr(self, f.name)) for f in fields(self)}
        if len(set(lengths.values())) > 1:
            raise InvalidShape(f"Experience: columns must have one length, got {lengths}.")

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, steps: slice) -> Self:
        return type(self)(*(getattr(self, f.name)[steps] for f in fields(self)))

    def part(self, steps: slice) -> Self:
        """Return the steps of a slice."""
        return self[steps]

    def __add__(self, other: Self) -> Self:
        columns = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return type(self)(*(np.concatenate(pair) for pair in columns))

    def __repr__(self) -> str:
        return f"Experience(steps={len(self)}, episodes={int(self.starts.sum())})"

    def check(self, problem: Problem) -> None:
        """Refuse experience that ``problem`` cannot have produced, naming the step.

        Discounts may vary, and an episode may be truncated anywhere.
        """
        if not len(self):
            raise InvalidShape("experience is empty: at least one step is needed.")
        mdp = problem.mdp
        bounds = {"states": mdp.n_states, "next_states": mdp.n_states}
        bounds |= {"actions": mdp.n_actions, "next_actions": mdp.n_actions}
        for name, size in bounds.items():
            column = getattr(self, name)
            for t in np.flatnonzero((column < 0) | (column >= size))[:1]:
                raise InvalidParameter(
                    f"{name}[{t}] is {column[t]}, but {name} run from 0 to {size - 1}."
                )
        _validate.finite("rewards", self.rewards)
        for t in np.flatnonzero(~((self.discounts >= 0) & (self.discounts <= 1)))[:1]:
            raise InvalidParameter(f"discounts[{t}] is {self.discounts[t]:g}, outside [0, 1].")
        s, a, s_next = self.states, self.actions, self.next_states
        taken = problem.behaviour[s, a]
        for t in np.flatnonzero(taken == 0)[:1]:
            raise UndefinedRatio(
                f"step {t}: ρ is undefined, action {a[t]} was taken in state {s[t]} where "
                f"μ({a[t]}|{s[t]}) = 0 ({int((taken == 0).sum())} such steps). The experience does "
                "not come from this behaviour policy."
            )
        for t in np.flatnonzero((mdp.P[s, a, s_next] == 0) | ~mdp.acting[s])[:1]:
            raise InvalidParameter(
                f"step {t}: action {a[t]} in state {s[t]} cannot lead to state {s_next[t]} in "
                "this problem."
            )
        for t in np.flatnonzero((self.discounts > 0) & ~mdp.acting[s_next])[:1]:
            raise InvalidParameter(
                f"step {t}: discounts[{t}] is {self.discounts[t]:g}, but state {s_next[t]} is "
                "terminal; it must be 0."
            )
        continues = ~self.starts[1:] & (self.discounts[:-1] > 0)
        jumps = (s_next[:-1] != s[1:]) | (self.next_actions[:-1] != a[1:])
        for t in np.flatnonzero(continues & jumps)[:1] + 1:
            raise InvalidParameter(
                f"step {t} does not continue from where step {t - 1} led: mark it in `starts`, or "
                "put the steps in order."
            )


def sample(problem: Problem, steps: int, rng: RNG = None) -> Experience:
    """Follow μ for a number of steps.

    Examples
    --------
    >>> from saddleback import problems
    >>> sample(problems.random_walk(), 1000, rng=0)
    Experience(steps=1000, episodes=114)
    """
    _validate.instance("sample", "problem", problem, Problem)
    _validate.count("sample", "steps", steps)
    return TransitionSampler(problem, _validate.generator(rng)[0]).take(steps)


class Chain(NamedTuple):
    """A finite problem under μ: cumulative P, μ and start probabilities, R, ends and γ."""

    P: FloatArray
    mu: FloatArray
    start: FloatArray
    rewards: FloatArray
    ends: FloatArray
    gamma: float


class TransitionSampler:
    """Unlimited experience of μ on a finite problem, drawn in chunks of any size.

    Every step uses four uniform numbers, in order, so the sizes of the chunks do not matter.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        mdp = problem.mdp
        self._rng = rng
        self._chain = Chain(
            _cumulative(mdp.P), _cumulative(problem.behaviour), _cumulative(mdp.start), mdp.rewards,
            mdp.ends, mdp.gamma,
        )  # fmt: skip
        first = rng.random(2)
        state = int(np.searchsorted(self._chain.start, first[0], side="right"))
        action = int(np.searchsorted(self._chain.mu[state], first[1], side="right"))
        self._current = np.array([state, action, 1])

    def take(self, steps: int) -> Experience:
        """Return the next ``steps`` steps."""
        integers = np.empty((4, steps), dtype=np.int64)
        numbers = np.empty((2, steps))
        starts = np.empty(steps, dtype=np.bool_)
        uniforms = self._rng.random((steps, 4))
        _walk(uniforms, self._chain, self._current, integers, numbers, starts)
        s, a, s_next, a_next = integers
        return Experience(s, a, numbers[0], s_next, a_next, numbers[1], starts)


def _cumulative(probabilities: FloatArray) -> FloatArray:
    """Cumulative sums along the last axis, ending in exactly 1."""
    sums = np.cumsum(probabilities, axis=-1)
    return np.ascontiguousarray(sums / sums[..., -1:])


@subroutine
def _draw(cumulative: FloatArray, u: float) -> int:
    """Index of the interval of ``cumulative`` that contains u."""
    k = 0
    while cumulative[k] <= u:
        k += 1
    return k


@compiled
def _walk(
    uniforms: FloatArray,
    chain: Chain,
    current: IntArray,
    integers: IntArray,
    numbers: FloatArray,
    starts: BoolArray,
) -> None:
    """Follow μ from ``current`` = (state, action, starts an episode), filling the columns."""
    P, mu, start, rewards, ends, gamma = chain
    s, a, first = current[0], current[1], current[2]
    for t in range(len(uniforms)):
        s_next = _draw(P[s, a], uniforms[t, 0])
        over = uniforms[t, 1] < ends[s, a, s_next]
        integers[0, t], integers[1, t], integers[2, t] = s, a, s_next
        numbers[0, t] = rewards[s, a, s_next]
        numbers[1, t] = 0.0 if over else gamma
        starts[t] = first == 1
        s = _draw(start, uniforms[t, 2]) if over else s_next
        a = _draw(mu[s], uniforms[t, 3])
        first = 1 if over else 0
        integers[3, t] = 0 if over else a
    current[0], current[1], current[2] = s, a, first
