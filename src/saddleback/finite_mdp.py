"""Finite Markov decision processes with known dynamics.

An MDP has transition probabilities P[s, a, s'], a reward R[s, a] or R[s, a, s'], a discount γ, and
if episodic a start distribution and the transitions that end an episode. Termination is a discount
of zero: with ``ends[s, a, s']`` the probability that a transition is the last of its episode,

    γP(1 − ends) =: Γ[s, a, s']        q = r + Γ v        v(s) = Σ_a π(a|s) q(s, a),

so q^π and v^π are one linear solve, continuing or episodic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from saddleback import _validate, markov_chain, policies
from saddleback._typing import ArrayLike, BoolArray, FloatArray
from saddleback.errors import InvalidParameter, InvalidShape, NeverEnds


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FiniteMDP:
    """A finite MDP with known dynamics: q^π(s,a) = R(s,a) + γ Σ_s' p(s'|s,a) v^π(s').

    Parameters
    ----------
    P
        Transition probabilities [s, a, s'].
    R
        Rewards [s, a], or [s, a, s'] if they depend on the next state.
    gamma
        Discount γ in [0, 1]; 1 only if episodes end.
    start
        Distribution of the first state of an episode, [s]. Uniform over the states in which
        actions are taken if not given.
    terminal
        Where episodes end: state indices or a boolean mask [s] (every transition into such a state
        ends the episode), or probabilities [s, a, s'] that the transition ends the episode (then no
        action is taken in states that cannot be reached from ``start`` within an episode). None for
        a continuing problem. In states where no action is taken, rows of P and R are ignored, and
        values are 0.

    Attributes
    ----------
    P, rewards, ends
        Arrays [s, a, s'].
    R
        Expected reward [s, a].
    start, acting
        Start distribution [s], and the mask of states in which actions are taken.

    Examples
    --------
    A corridor of two steps, with reward 1 at its end:

    >>> P = np.zeros((3, 1, 3)); P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1
    >>> mdp = FiniteMDP(P, [[0.0], [1.0], [0.0]], gamma=0.5, terminal=[2])
    >>> mdp
    FiniteMDP(states=3, actions=1, gamma=0.5, episodic)
    >>> mdp.v(np.ones((3, 1)))
    array([0.5, 1. , 0. ])
    """

    P: FloatArray
    R: FloatArray
    gamma: float
    start: FloatArray
    acting: BoolArray
    rewards: FloatArray
    ends: FloatArray

    def __init__(
        self,
        P: ArrayLike,
        R: ArrayLike,
        gamma: float,
        start: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
    ) -> None:
        P = _validate.floats("P", P)
        first = None if start is None else _validate.floats("start", start)
        if P.ndim != 3 or P.shape[0] != P.shape[2] or P.size == 0:
            raise InvalidShape(f"P must have shape [S, A, S], got {list(P.shape)}.")
        states, actions, _ = P.shape
        R = _validate.floats("R", R)
        if R.shape not in ((states, actions), (states, actions, states)):
            raise InvalidShape(
                f"R must have shape [{states}, {actions}] or [{states}, {actions}, {states}] "
                f"to match P, got {list(R.shape)}."
            )
        if first is not None:
            _validate.shape("start", first, (states,))
            _validate.stochastic("start", first)

        ends, acting = _termination(terminal, P, first)
        _validate.stochastic("P", P, used=acting)
        P[~acting] = 0.0
        P[~acting, :, ~acting] = 1.0
        R[~acting] = 0.0
        ends[~acting] = 1.0
        _validate.finite("R", R)

        if first is None:
            first = acting / acting.sum()
        for state in np.flatnonzero((first > 0) & ~acting)[:1]:
            raise InvalidParameter(
                f"start[{state}] is {first[state]:g} but state {state} is terminal; "
                "an episode cannot start in a terminal state."
            )
        gamma = _validate.unit("FiniteMDP", "gamma", gamma)
        if gamma == 1.0 and not (P * ends)[acting].any():
            raise InvalidParameter(
                "FiniteMDP: gamma must be < 1 on a continuing problem, got 1. Give a discount "
                "below 1, or specify with `terminal` where episodes end."
            )

        expected = R if R.ndim == 2 else np.einsum("ijk,ijk->ij", P, R)
        rewards = R if R.ndim == 3 else np.repeat(R[:, :, None], states, axis=2)
        arrays: dict[str, FloatArray | BoolArray] = dict(
            P=P, R=expected, start=first, acting=acting, rewards=rewards, ends=ends
        )
        for name, array in arrays.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "gamma", gamma)

    @property
    def n_states(self) -> int:
        """Number of states, terminal ones included."""
        return len(self.P)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.P.shape[1])

    @cached_property
    def staying(self) -> FloatArray:
        """P(1 − ends): transitions after which the episode continues, [s, a, s']."""
        return self.P * (1.0 - self.ends)

    @cached_property
    def discounted(self) -> FloatArray:
        """Γ = γP(1 − ends): the weight of a value at s' in that of (s, a)."""
        return self.gamma * self.staying

    @property
    def episodic(self) -> bool:
        """Whether any transition ends an episode."""
        return bool((self.P * self.ends)[self.acting].any())

    def q(self, policy: ArrayLike) -> FloatArray:
        """Action values q^π[s, a] of a policy [s, a]: q = r + Γ v."""
        return self.R + self.discounted @ self.v(policy)

    def v(self, policy: ArrayLike) -> FloatArray:
        """State values v^π[s] of a policy [s, a], from v = r_π + Γ_π v.

        With γ = 1 the policy must end every episode from ``start``. Unreachable states from which
        an episode never ends have no value: NaN.

        Examples
        --------
        >>> stay = FiniteMDP([[[1.0]]], [[1.0]], gamma=0.9)
        >>> stay.v([[1.0]])
        array([10.])
        """
        pi = policies.table("policy", policy, self.acting, self.n_actions)
        Gamma_pi = np.einsum("sa,sat->st", pi, self.discounted)
        r_pi = (pi * self.R).sum(axis=1)
        v = np.full(self.n_states, np.nan)
        ends = ~self._stuck("the policy to evaluate", pi) if self.gamma == 1.0 else slice(None)
        v[ends] = markov_chain.total(Gamma_pi[ends][:, ends], r_pi[ends], "the value of a state")
        return v

    def visits(self, policy: ArrayLike) -> tuple[FloatArray, str]:
        """Return the long-run distribution of the state under ``policy``, and a note.

        Continuing: the stationary distribution. Episodic: expected visits per episode,
        normalised to sum to one. The note is empty if the distribution is unique; otherwise it
        explains why the distribution depends on the start.
        """
        pi = policies.table("policy", policy, self.acting, self.n_actions)
        P = np.einsum("sa,sat->st", pi, self.staying)
        share = np.zeros(self.n_states)
        if self.episodic:
            self._stuck("the behaviour policy", pi)
            inside = np.flatnonzero(markov_chain.reachable(P, self.start > 0))
            share[inside] = markov_chain.visits_before_leaving(P, self.start, inside)
            return share / share.sum(), ""
        inside = np.flatnonzero(self.acting)
        share[inside], classes = markov_chain.long_run(
            P[np.ix_(inside, inside)], self.start[inside]
        )
        if len(classes) == 1:
            return share, ""
        shown = "; ".join(str(inside[c].tolist()) for c in classes[:4])
        return share, (
            f"reducible chain: under the behaviour policy there are {len(classes)} sets of "
            f"states that are never left ({shown}); the distribution used is the one reached "
            "from `start`."
        )

    def _stuck(self, who: str, policy: FloatArray) -> BoolArray:
        """States from which an episode may never end; any that is reachable is refused."""
        P = np.einsum("sa,sat->st", policy, self.staying)
        exits = np.einsum("sa,sat->s", policy, self.P * self.ends) > 0
        seen = markov_chain.reachable(P, self.start > 0)
        stuck = np.zeros(self.n_states, dtype=bool)
        for members in markov_chain.closed_classes(P, exits):
            if seen[members].any():
                raise NeverEnds(
                    f"under {who} an episode that reaches states {members.tolist()} never "
                    "ends: no terminating transition can be taken from there. Change the policy, "
                    "or specify with `terminal` where episodes end."
                )
            stuck |= markov_chain.reachable(P.T, np.isin(np.arange(self.n_states), members))
        return stuck

    @classmethod
    def from_gymnasium(cls, env: Any, gamma: float) -> Self:
        """Read the exact transition table of a Gymnasium toy-text environment.

        ``env.unwrapped.P[s][a]`` lists (probability, next state, reward, terminated). The
        probabilities of repeated successors are added and their rewards averaged; termination is a
        property of the transition. Time limits of wrappers are not part of the dynamics.

        Examples
        --------
        >>> import gymnasium
        >>> lake = FiniteMDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), gamma=0.99)
        >>> lake
        FiniteMDP(states=16, actions=4, gamma=0.99, episodic)
        """
        core = getattr(env, "unwrapped", env)
        listing = getattr(core, "P", None)
        if listing is None:
            hint = (
                f" Pass the environment, gymnasium.make({env!r})." if isinstance(env, str) else ""
            )
            raise InvalidParameter(
                f"{type(core).__name__} has no transition table P.{hint} Only tabular environments "
                "such as FrozenLake-v1, Taxi-v4 and CliffWalking-v1 can be read exactly."
            )
        if getattr(core, "fickle_passenger", False):
            raise InvalidParameter(
                "Taxi with fickle_passenger=True has dynamics that its table P does not describe. "
                "Make it with fickle_passenger=False."
            )
        try:
            states, actions = len(listing), len(listing[0])
            P, total, last = (np.zeros((states, actions, states)) for _ in range(3))
            for s in range(states):
                for a in range(actions):
                    for probability, successor, reward, terminated in listing[s][a]:
                        P[s, a, successor] += probability
                        total[s, a, successor] += probability * float(reward)
                        last[s, a, successor] += probability * bool(terminated)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidParameter(
                f"{type(core).__name__}.P is not a table P[s][a] of (probability, next state, "
                f"reward, terminated) with s and a from 0: {error!r}."
            ) from None
        R, ends = (np.divide(x, P, out=np.zeros_like(P), where=P > 0) for x in (total, last))
        start = getattr(core, "initial_state_distrib", None)
        return cls(P, R, gamma, start=start, terminal=ends if ends.any() else None)

    def __repr__(self) -> str:
        kind = "episodic" if self.episodic else "continuing"
        return (
            f"FiniteMDP(states={self.n_states}, actions={self.n_actions}, "
            f"gamma={self.gamma:g}, {kind})"
        )


def _termination(
    terminal: ArrayLike | None, P: FloatArray, start: FloatArray | None
) -> tuple[FloatArray, BoolArray]:
    """Turn ``terminal`` into ends[s, a, s'] and the mask of states in which actions are taken."""
    states = len(P)
    ends = np.zeros_like(P)
    acting: BoolArray = np.ones(states, dtype=bool)
    if terminal is None:
        return ends, acting
    try:
        array = np.asarray(terminal)
    except ValueError as error:
        raise InvalidShape(f"terminal must be a rectangular array: {error}.") from None
    if array.shape == P.shape and array.ndim == 3:
        ends = _validate.floats("terminal", array)
        _validate.finite("terminal", ends)
        for s, a, t in np.argwhere((ends < 0) | (ends > 1))[:1]:
            raise InvalidParameter(
                f"terminal[{s}, {a}, {t}] is {ends[s, a, t]:g}; it must be a probability in [0, 1]."
            )
        if start is not None:  # no action is taken in states that no episode reaches
            acting = markov_chain.reachable((P * (1 - ends)).sum(axis=1), start > 0)
    elif array.dtype == bool and array.shape == (states,):
        acting = ~array
    elif array.ndim == 1 and (array.size == 0 or array.dtype.kind in "iu"):
        outside = array[(array < 0) | (array >= states)]
        if outside.size:
            raise InvalidParameter(
                f"terminal lists state {outside[0]}, but states run from 0 to {states - 1}."
            )
        repeated = array[np.flatnonzero(np.bincount(array.astype(np.int64))[array] > 1)]
        if repeated.size:
            raise InvalidParameter(
                f"terminal lists state {repeated[0]} twice. Give each state once, or a mask of "
                "booleans."
            )
        acting[array.astype(np.int64)] = False
    else:
        raise InvalidShape(
            f"terminal must be state indices, a boolean mask [{states}], or probabilities of the "
            f"shape of P; got shape {list(array.shape)} of {array.dtype}."
        )
    if not acting.any():
        raise InvalidParameter("every state is terminal; leave at least one non-terminal state.")
    ends[:, :, ~acting] = 1.0
    return ends, acting
