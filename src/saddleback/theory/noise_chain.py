"""The noise of a learner as a finite Markov chain, with what one step does in each of its states.

Nothing random enters an update but the state, what follows it, and the trace. A node of the chain
is a state s with the trace that comes along, c = γ'e of the step before (and the action, where the
bootstrap is a sampled one). An event is a transition: with probability q it leads from node i to
node j, and moves z = (θ − θ*, ω, 1), with δ* the TD error at θ*, by

    z ← T z        T = B + Σ_k U_k V_kᵀ        B = diag(1, 1 − β·shrink, 1)

    V = (d, 0, δ*), (0, e, 0), (0, φ, 0)        d = γ'b − φ,  y = saddle·d + correction·γ'x
    U = (α·td·e, β·dual·e, 0), (−α·y, 0, 0), (0, −β·gram·φ, 0)

Without a trace (λ = 0) the nodes are the states. With one, they are explored from where the trace
is fresh, the likeliest first; equal traces are one node. That ends where ρ = 0 or the end of an
episode forgets the trace; otherwise it stops at a given number of nodes, and what leads further is
led to the nearest node. How much of the trace is lost that way is reported.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from saddleback import _validate, markov_chain
from saddleback._typing import FloatArray, IntArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.problem import Problem
from saddleback.rules import Coefficients, Rule, Terms, terms
from saddleback.system import System
from saddleback.theory.trace_ceiling import above_ceiling, trace_radius

NEGLIGIBLE = 1e-9
"""Traces that differ by less than this share of the features are one node."""

LARGEST = 400_000
"""Most numbers in the second moments of all nodes, N·(2p)², that are worked with exactly."""


@dataclass(frozen=True, eq=False)
class Noise:
    """Events of a learner's noise chain; features are coordinates in the space they span.

    Attributes
    ----------
    weight
        Long-run share of each node, [N].
    source, target, probability
        From which node to which, and how likely given the first, [E].
    e, d, y, phi
        Trace, γ'b − φ, saddle·d + correction·γ'x, and φ of each event, [E, k].
    delta
        The TD error of each event at θ*, [E].
    basis
        Orthonormal basis of the span of the features, [p, k]; nothing moves outside it.
    start
        Distribution over the nodes of a learner's first step, [N].
    lost
        Root mean square of what truncation takes from the trace, over that of the trace; 0 if none.
    """

    coefficients: Coefficients
    system: System
    weight: FloatArray
    source: IntArray
    target: IntArray
    probability: FloatArray
    e: FloatArray
    d: FloatArray
    y: FloatArray
    phi: FloatArray
    delta: FloatArray
    basis: FloatArray
    start: FloatArray
    lost: float

    @cached_property
    def recurrent(self) -> Noise:
        """The part of the chain that is visited in the long run, and the features met there."""
        inside = self.weight > 0
        if inside.all():
            return self
        kept, number = inside[self.source], np.cumsum(inside) - 1
        again = _span(np.concatenate([self.phi[kept], self.d[kept]]))
        start = self.start[inside] if self.start[~inside].sum() == 0 else self.weight[inside]
        return replace(
            self, weight=self.weight[inside], source=number[self.source[kept]],
            target=number[self.target[kept]], probability=self.probability[kept],
            e=self.e[kept] @ again, d=self.d[kept] @ again, y=self.y[kept] @ again,
            phi=self.phi[kept] @ again, delta=self.delta[kept], basis=self.basis @ again,
            start=start,
        )  # fmt: skip

    @property
    def k(self) -> int:
        """Dimension of the span of the features."""
        return int(self.basis.shape[1])

    @property
    def n(self) -> int:
        """Length of z = (θ − θ*, ω): 2k, or k without a dual variable."""
        return 2 * self.k if any(self.coefficients[3:]) else self.k

    def factors(self, alpha: float, beta: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """U and V of each event, [E, rank, n + 1], and B, [n + 1]; z ends in a constant 1."""
        c, k, n, events = self.coefficients, self.k, self.n, len(self.delta)
        rank = 3 if n > k else 1
        U, V = np.zeros((2, events, rank, n + 1))
        V[:, 0, :k], V[:, 0, n] = self.d, self.delta
        U[:, 0, :k] = alpha * c.td * self.e
        if rank == 3:
            V[:, 1, k:n], V[:, 2, k:n] = self.e, self.phi
            U[:, 0, k:n] = beta * c.dual * self.e
            U[:, 1, :k] = -alpha * self.y
            U[:, 2, k:n] = -beta * c.gram * self.phi
        B = np.ones(n + 1)
        B[k:n] -= beta * c.shrink
        return U, V, B


def _room(rule: Rule, nodes: int, rank: int) -> None:
    """Refuse moments that are too many, with the least there can be before nodes are explored."""
    size = nodes * (2 * rank) ** 2
    if size > LARGEST:
        raise InvalidParameter(
            f"the exact second moments of {rule} here are {nodes} × {2 * rank}² = {size:,} numbers "
            f"or more, more than {LARGEST:,}. Use fewer nodes, or small_step_floor, which needs "
            "only the covariance of the noise."
        )


def noise_chain(problem: Problem, rule: Rule, nodes: int = 400) -> Noise:
    """Build the chain of a rule on a finite problem, with about so many nodes at most.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> noise_chain(problems.two_state(gamma=0.9), GES(0.0)).weight
    array([0.5, 0.5])
    >>> noise_chain(problems.two_state(gamma=0.9), GES(0.4), nodes=60).lost < 1e-4
    True
    """
    system = System.exact(problem, rule)
    if problem.note:
        raise Undefined(f"there is no one long run to speak of: {problem.note}")
    if trace_radius(problem, rule) >= 1.0:
        raise Undefined(above_ceiling(rule))
    t, c = terms(rule, problem), rule.form.coefficients
    met = problem.Phi[problem.weights > 0]
    _room(rule, int((problem.visits > 0).sum()), int(np.linalg.matrix_rank(met)))
    found = Exploration(problem, t, _validate.count("noise_chain", "nodes", nodes))
    source, target, here, there = (
        np.array([getattr(event, name) for event in found.events])
        for name in ("source", "target", "here", "there")
    )
    q, reward, gamma, missed, carried = (
        np.array([getattr(event, name) for event in found.events])
        for name in ("probability", "reward", "discount", "missed", "carried")
    )
    e = np.array([event.e for event in found.events])
    phi = t.phi[here]
    d = gamma[:, None] * t.bootstrap[there] - phi
    y = c.saddle * d + c.correction * gamma[:, None] * t.correction[there]
    basis = _span(np.concatenate([phi, d]))
    if not basis.size:
        raise Undefined(f"{rule} never moves here: all features that are met are 0.")
    count = len(found.nodes)
    _room(rule, count, basis.shape[1])
    P = np.zeros((count, count))
    np.add.at(P, (source, target), q)
    weight = markov_chain.long_run(P, found.start)[0]
    share = weight[source] * q
    return Noise(
        coefficients=c, system=system, weight=weight, source=source, target=target, probability=q,
        e=e @ basis, d=d @ basis, y=y @ basis, phi=phi @ basis, basis=basis,
        delta=reward + d @ system.fixed_point, start=found.start,
        lost=float(np.sqrt(share @ missed / max(share @ carried, np.finfo(float).tiny))),
    )  # fmt: skip


def _span(rows: FloatArray) -> FloatArray:
    """Orthonormal basis of the span of some rows."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[(sizes > 1e-11 * sizes[0]) & (sizes > 0)].T)


class Node(NamedTuple):
    """A state (and action, where it matters) with what comes along: γ'e and γ'ρf."""

    s: int
    a: int
    trace: FloatArray
    follow: float


class Event(NamedTuple):
    """A transition between nodes; ``missed`` of the squared length ``carried`` went astray."""

    source: int
    target: int
    probability: float
    here: int
    there: int
    reward: float
    discount: float
    e: FloatArray
    missed: float
    carried: float


class Exploration:
    """Nodes and events of a rule's noise, found from fresh traces on, the likeliest first."""

    def __init__(self, problem: Problem, t: Terms, most: int) -> None:
        self._problem, self._terms, self._most = problem, t, most
        mdp = problem.mdp
        self._kappa = t.kappa.reshape(mdp.n_states, -1)
        b = t.bootstrap.reshape(mdp.n_states, mdp.n_actions, -1)
        self._sampled = bool((b != b[:, :1]).any())
        self._unit = float(np.abs(t.phi).max()) or 1.0
        self.nodes: list[Node] = []
        self._number: dict[tuple[int, int, bytes], int] = {}
        self._queue: list[tuple[float, int]] = []
        self.events: list[Event] = []
        fresh = [
            (self._find(Node(s, a, np.zeros(problem.p), 0.0), 1.0), chance)
            for s in np.flatnonzero(mdp.acting).tolist()
            for a, chance in self._known_actions(s)
        ]
        self._resets = [
            (n, float(mdp.start[self.nodes[n].s]) * chance)
            for n, chance in fresh
            if mdp.start[self.nodes[n].s]
        ]
        while self._queue:
            mass, n = heapq.heappop(self._queue)
            self._expand(n, -mass)
        self.start = np.zeros(len(self.nodes))
        for n, chance in self._resets:
            self.start[n] += chance

    def _known_actions(self, s: int) -> list[tuple[int, float]]:
        """Actions that are part of a node in state s: all if the bootstrap is sampled, else one."""
        return _likely(self._problem.behaviour[s]) if self._sampled else [(0, 1.0)]

    def _find(self, node: Node, mass: float) -> int:
        """Return the number of a node: its own, a new one, or if there are enough the nearest."""
        whole = np.append(node.trace, node.follow * self._unit) / self._unit
        key = (node.s, node.a, (np.round(whole / NEGLIGIBLE) + 0.0).tobytes())
        if key in self._number:
            return self._number[key]
        if len(self.nodes) >= self._most and whole.any():
            near = [n for n, other in enumerate(self.nodes) if other[:2] == node[:2]]
            return min(near, key=lambda n: self._gap(node, self.nodes[n]))
        self._number[key] = len(self.nodes)
        self.nodes.append(node)
        heapq.heappush(self._queue, (-mass, self._number[key]))
        return self._number[key]

    def _gap(self, one: Node, two: Node) -> float:
        """Squared distance between what two nodes carry."""
        by_follow = self._unit * (one.follow - two.follow)
        return float(np.sum((one.trace - two.trace) ** 2) + by_follow**2)

    def _expand(self, n: int, mass: float) -> None:
        """Add every event of a node."""
        mdp, t, node = self._problem.mdp, self._terms, self.nodes[n]
        follow = node.follow + 1.0
        acts = [(node.a, 1.0)] if self._sampled else _likely(self._problem.behaviour[node.s])
        for a, chance in acts:
            here = node.s * mdp.n_actions + a
            emphasis = 1.0 - t.emphasis + t.emphasis * follow
            e = t.kappa[here] * node.trace + t.weight[here] * emphasis * t.phi[here]
            for s in np.flatnonzero(mdp.P[node.s, a]).tolist():
                q, over = chance * mdp.P[node.s, a, s], mdp.ends[node.s, a, s]
                reward, there = float(mdp.rewards[node.s, a, s]), s * mdp.n_actions
                if over > 0:
                    for j, first in self._resets:
                        end = (q * over * first, here, there, reward, 0.0, e, 0.0, 0.0)
                        self.events.append(Event(n, j, *end))
                if over == 1:
                    continue
                trace = mdp.gamma * e * bool(self._kappa[s].any())
                passed = mdp.gamma * t.rho[here] * follow if t.emphasis else 0.0
                for a1, choice in self._known_actions(s):
                    part, wanted = q * (1.0 - over) * choice, Node(s, a1, trace, passed)
                    j = self._find(wanted, mass * part)
                    missed = self._gap(wanted, self.nodes[j])
                    carried = self._gap(wanted, Node(s, a1, np.zeros_like(trace), 0.0))
                    self.events.append(
                        Event(n, j, part, here, there + a1, reward, mdp.gamma, e, missed, carried)
                    )


def _likely(probabilities: FloatArray) -> list[tuple[int, float]]:
    return [(int(a), float(probabilities[a])) for a in np.flatnonzero(probabilities)]
