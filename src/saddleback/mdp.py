"""Finite Markov decision processes, exactly.

An MDP is P[s, a, s'], a reward R[s, a] or R[s, a, s'], a discount γ, and for episodic ones a
start distribution and the transitions that end an episode. Termination is a discount of zero:
with ``ends[s, a, s']`` the probability that a transition is the last of its episode,

    γP(1 − ends) =: Γ[s, a, s']        q = r + Γ v        v(s) = Σ_a π(a|s) q(s, a),

so q^π and v^π are one linear solve, continuing or episodic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import solve

from saddleback import _validate, chain, policies
from saddleback._typing import ArrayLike, BoolArray, FloatArray
from saddleback.errors import InvalidParameter, InvalidShape, NeverEnds


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FiniteMDP:
    """A finite MDP with known dynamics.

    Parameters
    ----------
    P
        Transition probabilities [s, a, s'].
    R
        Rewards [s, a], or [s, a, s'] when they depend on where the step led.
    gamma
        Discount γ in [0, 1]; 1 only when episodes end.
    start
        Distribution of the first state of an episode, [s]. Uniform over the states in which
        actions are taken if not given.
    terminal
        What ends an episode: state indices or a boolean mask [s] (every transition into such a
        state ends), or an array [s, a, s'] of probabilities that the transition itself ends.
        None for a continuing problem. In terminal states nothing is done or earned: their rows
        of P and R are ignored, and their values are 0.

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
    A corridor of two steps, 1 for reaching its end:

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
                "an episode cannot begin where it ends."
            )
        gamma = _validate.unit("FiniteMDP", "gamma", gamma)
        if gamma == 1.0 and not (P * ends)[acting].any():
            raise InvalidParameter(
                "FiniteMDP: gamma must be < 1 on a continuing problem, got 1. Give a discount "
                "below 1, or say with `terminal` where episodes end."
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
        return self.P.shape[0]

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.P.shape[1]

    @cached_property
    def staying(self) -> FloatArray:
        """P(1 − ends): the part of P after which the episode goes on, [s, a, s']."""
        return self.P * (1.0 - self.ends)

    @cached_property
    def discounted(self) -> FloatArray:
        """Γ = γP(1 − ends): what a value at s' counts for at (s, a)."""
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

        Examples
        --------
        >>> stay = FiniteMDP([[[1.0]]], [[1.0]], gamma=0.9)
        >>> stay.v([[1.0]])
        array([10.])
        """
        pi = policies.table("policy", policy, self.n_states, self.n_actions)
        if self.gamma == 1.0:
            self._must_end(pi)
        Gamma_pi = np.einsum("sa,sat->st", pi, self.discounted)
        r_pi = (pi * self.R).sum(axis=1)
        v: FloatArray = solve(np.eye(self.n_states) - Gamma_pi, r_pi)
        return v

    def visits(self, policy: FloatArray) -> tuple[FloatArray, str]:
        """Long-run distribution of the state under ``policy``, and what is peculiar about it.

        Continuing: the stationary distribution. Episodic: expected visits per episode,
        normalised to sum to one. The second item is empty when the answer is unique, and
        otherwise the sentence that says why it depends on the start.
        """
        P = np.einsum("sa,sat->st", policy, self.staying)
        if not self.episodic:
            share, classes = chain.long_run(P, self.start)
            if len(classes) == 1:
                return share, ""
            shown = "; ".join(str(c.tolist()) for c in classes[:4])
            return share, (
                f"reducible chain: under the behaviour policy there are {len(classes)} sets of "
                f"states that are never left ({shown}); the distribution used is the one reached "
                "from `start`."
            )
        begins = chain.reachable(P, self.start > 0)
        self._must_end(policy, begins)
        inside = np.flatnonzero(begins)
        share = np.zeros(self.n_states)
        share[inside] = chain.visits_before_leaving(P, self.start, inside)
        return share / share.sum(), ""

    def _must_end(self, policy: FloatArray, begins: BoolArray | None = None) -> None:
        """Refuse a policy under which an episode can go on for ever from some state."""
        P = np.einsum("sa,sat->st", policy, self.staying)
        exits = np.einsum("sa,sat->s", policy, self.P * self.ends) > 0
        closed = chain.closed_classes(P, exits)
        stuck = [c for c in closed if begins is None or begins[c].any()]
        if stuck:
            raise NeverEnds(
                f"under this policy an episode that reaches states {stuck[0].tolist()} never "
                "ends: no terminating transition can be taken from there. Change the policy, or "
                "say with `terminal` where episodes end."
            )

    @classmethod
    def from_gymnasium(cls, env: Any, gamma: float) -> Self:
        """Read the exact transition table of a Gymnasium toy-text environment.

        ``env.unwrapped.P[s][a]`` lists (probability, next state, reward, terminated). Repeated
        successors are summed, their rewards averaged, and termination belongs to the
        transition, as it does there. Time limits of wrappers are not part of the dynamics.

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
            raise InvalidParameter(
                f"{type(core).__name__} has no transition table P; only tabular environments such "
                "as FrozenLake-v1, Taxi-v4 and CliffWalking-v1 can be read exactly."
            )
        states, actions = len(listing), len(listing[0])
        P, gain, last = (np.zeros((states, actions, states)) for _ in range(3))
        for s in range(states):
            for a in range(actions):
                for probability, successor, reward, terminated in listing[s][a]:
                    P[s, a, successor] += probability
                    gain[s, a, successor] += probability * float(reward)
                    last[s, a, successor] += probability * bool(terminated)
        R, ends = (np.divide(x, P, out=np.zeros_like(P), where=P > 0) for x in (gain, last))
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
    given = np.asarray(terminal)
    if given.shape == P.shape:
        ends = _validate.floats("terminal", given)
        _validate.finite("terminal", ends)
        if (ends < 0).any() or (ends > 1).any():
            raise InvalidParameter("terminal[s, a, s'] must hold probabilities in [0, 1].")
        # A state that is only ever entered by the last transition of an episode is terminal.
        entered = (P * (ends > 0)).any(axis=(0, 1))
        goes_on = (P * (ends < 1)).any(axis=(0, 1))
        acting = np.asarray(~entered | goes_on)
        if start is not None:
            acting |= start > 0
    elif given.dtype == bool and given.shape == (states,):
        acting = ~given
    elif given.ndim == 1 and (given.size == 0 or given.dtype.kind in "iu"):
        outside = given[(given < 0) | (given >= states)]
        if outside.size:
            raise InvalidParameter(
                f"terminal names state {outside[0]}, but states run from 0 to {states - 1}."
            )
        acting[given.astype(np.int64)] = False
    else:
        raise InvalidShape(
            f"terminal must be state indices, a boolean mask [{states}], or probabilities of the "
            f"shape of P; got shape {list(given.shape)} of {given.dtype}."
        )
    if not acting.any():
        raise InvalidParameter("every state is terminal: there is nothing to do in this problem.")
    ends[:, :, ~acting] = 1.0
    return ends, acting
