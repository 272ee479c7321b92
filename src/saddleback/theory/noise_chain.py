"""The noise of a learner as a finite Markov chain, with the update at each of its transitions.

The randomness of an update is in the state, the transition and the trace. A node of the chain is a
state s with the discounted trace c = γ'e of the previous step (and the action, if the bootstrap is
sampled). An event is a transition: with probability q it leads from node i to node j, and maps
z = (θ − θ*, ω, 1), with δ* the TD error at θ*, by

    z ← T z        T = B + Σ_k U_k V_kᵀ        B = diag(1, 1 − β·shrink, 1)

    V = (d, 0, δ*), (0, e, 0), (0, φ, 0)        d = γ'b − φ,  y = saddle·d + correction·γ'x
    U = (α·td·e, β·dual·e, 0), (−α·y, 0, 0), (0, −β·gram·φ, 0)

Without a trace (λ = 0) the nodes are the states. With a trace, exploration starts at zero traces,
the most probable nodes first; equal traces share a node. Exploration ends if ρ = 0 or the end of an
episode resets every trace. Otherwise it stops at a given number of nodes, and transitions to other
nodes lead to the nearest one instead. The share of the trace that this drops is reported.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from saddleback import _validate, markov_chain
from saddleback._typing import FloatArray, IntArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.problem import Problem
from saddleback.rules import Coefficients, Rule, Terms
from saddleback.system import System
from saddleback.system.trace_history import unroll
from saddleback.theory.trace_ceiling import above_ceiling, trace_radius

NEGLIGIBLE = 1e-9
"""Traces that differ by less than this share of the features share a node."""

LARGEST = 400_000
"""Largest number of second moments over all nodes, N·(2p)², for exact computation."""


class Jumps(NamedTuple):
    """Nodes i → j of each event and its probability q given i, [E]."""

    source: IntArray
    target: IntArray
    probability: FloatArray


class Factors(NamedTuple):
    """T = B + Σ_k U_k V_kᵀ of each event: U and V [E, rank, n + 1], and the diagonal B [n + 1]."""

    U: FloatArray
    V: FloatArray
    B: FloatArray


@dataclass(frozen=True, eq=False)
class Noise:
    """Events of a learner's noise chain, with features as coordinates in their span.

    Attributes
    ----------
    weight
        Long-run share of each node, [N].
    source, target, probability
        Nodes of each event, and its probability given the source, [E].
    e, d, y, phi
        Trace, γ'b − φ, saddle·d + correction·γ'x, and φ of each event, [E, k].
    delta
        The TD error of each event at θ*, [E].
    basis
        Orthonormal basis of the span of the features, [p, k]; weights are constant outside it.
    start
        Distribution over the nodes of a learner's first step, [N].
    truncation_loss
        Root mean square of the trace dropped by truncation, relative to that of the trace.
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
    truncation_loss: float

    @cached_property
    def recurrent(self) -> Noise:
        """The recurrent part of the chain, in the span of its features."""
        inside = self.weight > 0
        if inside.all():
            return self
        kept, number = inside[self.source], np.cumsum(inside) - 1
        basis = _span(np.concatenate([self.phi[kept], self.d[kept]]))
        start = self.start[inside] if self.start[~inside].sum() == 0 else self.weight[inside]
        return replace(
            self, weight=self.weight[inside], source=number[self.source[kept]],
            target=number[self.target[kept]], probability=self.probability[kept],
            e=self.e[kept] @ basis, d=self.d[kept] @ basis, y=self.y[kept] @ basis,
            phi=self.phi[kept] @ basis, delta=self.delta[kept], basis=self.basis @ basis,
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

    @property
    def jumps(self) -> Jumps:
        """The nodes and probability of each event."""
        return Jumps(self.source, self.target, self.probability)

    def factors(self, alpha: float, beta: float) -> Factors:
        """The step of each event; z ends in a constant 1."""
        c, k, n, events = self.coefficients, self.k, self.n, len(self.delta)
        rank = 3 if n > k else 1
        U, V = np.zeros((2, events, rank, n + 1))
        V[:, 0, :k], V[:, 0, n] = self.d, self.delta
        U[:, 0, :k] = alpha * c.td * self.e
        if rank == 3:
            V[:, 1, k:n], V[:, 2, k:n] = self.e, self.phi
            U[:, 0, k:n] = beta * c.dual * self.e
            U[:, 1, :k] = -alpha * self.y
            U[:, 2, :k] = alpha * c.gram_theta * self.phi
            U[:, 2, k:n] = -beta * c.gram * self.phi
        B = np.ones(n + 1)
        B[k:n] -= beta * c.shrink
        return Factors(U, V, B)


def _check_size(rule: Rule, nodes: int, rank: int) -> None:
    """Refuse a chain with too many second moments, before exploration by a lower bound."""
    size = nodes * (2 * rank) ** 2
    if size > LARGEST:
        raise InvalidParameter(
            f"{rule} has at least {nodes} × {2 * rank}² = {size:,} second moments on this problem, "
            f"more than {LARGEST:,}. Use fewer nodes, or small_step_floor, which needs only the "
            "covariance of the noise."
        )


def noise_chain(problem: Problem, rule: Rule, nodes: int = 400) -> Noise:
    """Build the noise chain of a rule on a finite problem, with about ``nodes`` nodes at most.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> noise_chain(problems.two_state(gamma=0.9), GES(0.0)).weight
    array([0.5, 0.5])
    >>> noise_chain(problems.two_state(gamma=0.9), GES(0.4), nodes=60).truncation_loss < 1e-4
    True
    """
    if rule.form.has_further_traces:
        raise Undefined(
            f"the noise of {rule}, which has further traces, is not modelled. Give step sizes, or "
            'choose them with step_sizes(…, method="mean").'
        )
    system = System.exact(problem, rule)
    if problem.note:
        raise Undefined(f"the long-run distribution is not unique: {problem.note}")
    if trace_radius(problem, rule) >= 1.0:
        raise Undefined(above_ceiling(rule))
    problem, t, _ = unroll(problem, rule)
    c = rule.form.coefficients
    visited = problem.Phi[problem.weights > 0]
    _check_size(rule, int((problem.visits > 0).sum()), int(np.linalg.matrix_rank(visited)))
    explored = Exploration(problem, t, _validate.count("noise_chain", "nodes", nodes))
    source, target, q, pair, next_pair, reward, gamma, e, missed, carried = map(
        np.array, zip(*explored.events, strict=True)
    )
    phi = t.phi[pair]
    d = gamma[:, None] * t.bootstrap[next_pair] - phi
    y = c.saddle * d + c.correction * gamma[:, None] * t.correction[next_pair]
    basis = _span(np.concatenate([phi, d]))
    if not basis.size:
        raise Undefined(f"{rule} never changes θ: the features of all visited states are 0.")
    count = len(explored.nodes)
    _check_size(rule, count, basis.shape[1])
    P = np.zeros((count, count))
    np.add.at(P, (source, target), q)
    weight = markov_chain.long_run(P, explored.start)[0]
    share = weight[source] * q
    return Noise(
        coefficients=c, system=system, weight=weight, source=source, target=target, probability=q,
        e=e @ basis, d=d @ basis, y=y @ basis, phi=phi @ basis, basis=basis,
        delta=reward + d @ system.fixed_point, start=explored.start,
        truncation_loss=float(np.sqrt(share @ missed / max(share @ carried, np.finfo(float).tiny))),
    )  # fmt: skip


def _span(rows: FloatArray) -> FloatArray:
    """Orthonormal basis of the span of some rows."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[(sizes > 1e-11 * sizes[0]) & (sizes > 0)].T)


class Node(NamedTuple):
    """A state (and action, if needed) with the discounted trace γ'e and follow-on trace βρf."""

    s: int
    a: int
    trace: FloatArray
    follow: float


class Event(NamedTuple):
    """A transition between nodes; truncation drops ``missed`` of the squared trace ``carried``."""

    source: int
    target: int
    probability: float
    pair: int
    next_pair: int
    reward: float
    discount: float
    e: FloatArray
    missed: float
    carried: float


class Exploration:
    """Explores nodes and events of a rule's noise, starting at zero traces, most probable first."""

    def __init__(self, problem: Problem, t: Terms, max_nodes: int) -> None:
        self._problem, self._terms, self._max_nodes = problem, t, max_nodes
        mdp = problem.mdp
        self._kappa = t.kappa.reshape(mdp.n_states, -1)
        self._follow = t.follow_decay(mdp.gamma)
        b = t.bootstrap.reshape(mdp.n_states, mdp.n_actions, -1)
        self._sampled = bool((b != b[:, :1]).any())
        self._scale = float(np.abs(t.phi).max()) or 1.0
        self.nodes: list[Node] = []
        self._index: dict[tuple[int, int, bytes], int] = {}
        self._alike: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._queue: list[tuple[float, int]] = []
        self.events: list[Event] = []
        zero_traces = [
            (self._node_index(Node(s, a, np.zeros(problem.p), 0.0), 1.0), probability)
            for s in np.flatnonzero(mdp.acting).tolist()
            for a, probability in self._node_actions(s)
        ]
        self._resets = [
            (n, float(mdp.start[self.nodes[n].s]) * probability)
            for n, probability in zero_traces
            if mdp.start[self.nodes[n].s]
        ]
        while self._queue:
            mass, n = heapq.heappop(self._queue)
            self._expand(n, -mass)
        self.start = np.zeros(len(self.nodes))
        for n, probability in self._resets:
            self.start[n] += probability

    def _node_actions(self, s: int) -> list[tuple[int, float]]:
        """Actions of the nodes in state s: all if the bootstrap is sampled, otherwise one."""
        return _support(self._problem.behaviour[s]) if self._sampled else [(0, 1.0)]

    def _node_index(self, node: Node, mass: float) -> int:
        """Return the index of a node: existing, new, or the nearest if there are too many."""
        key_values = np.append(node.trace, node.follow * self._scale) / self._scale
        key = (node.s, node.a, (np.round(key_values / NEGLIGIBLE) + 0.0).tobytes())
        if key in self._index:
            return self._index[key]
        if len(self.nodes) >= self._max_nodes and key_values.any():
            near = self._alike[node[:2]]
            return near[int(self._distances(node, [self.nodes[n] for n in near]).argmin())]
        self._index[key] = len(self.nodes)
        self._alike[node[:2]].append(len(self.nodes))
        self.nodes.append(node)
        heapq.heappush(self._queue, (-mass, self._index[key]))
        return self._index[key]

    def _distances(self, node: Node, others: list[Node]) -> FloatArray:
        """Squared distances between the trace of a node and those of others."""
        gaps = node.trace - np.array([other.trace for other in others])
        by_follow = self._scale * (node.follow - np.array([other.follow for other in others]))
        return np.asarray((gaps**2).sum(axis=1) + by_follow**2)

    def _expand(self, n: int, mass: float) -> None:
        """Add every event of a node."""
        mdp, t, node = self._problem.mdp, self._terms, self.nodes[n]
        follow = node.follow + 1.0
        actions = [(node.a, 1.0)] if self._sampled else _support(self._problem.behaviour[node.s])
        for a, probability in actions:
            pair = node.s * mdp.n_actions + a
            emphasis = 1.0 - t.emphasis + t.emphasis * follow
            e = t.kappa[pair] * node.trace + t.weight[pair] * emphasis * t.phi[pair]
            for s in np.flatnonzero(mdp.P[node.s, a]).tolist():
                q, end = probability * mdp.P[node.s, a, s], mdp.ends[node.s, a, s]
                reward, next_pair = float(mdp.rewards[node.s, a, s]), s * mdp.n_actions
                if end > 0:
                    for j, start in self._resets:
                        last = (q * end * start, pair, next_pair, reward, 0.0, e, 0.0, 0.0)
                        self.events.append(Event(n, j, *last))
                if end == 1:
                    continue
                trace = mdp.gamma * t.lead[pair] * e * bool(self._kappa[s].any())
                passed = self._follow * t.rho[pair] * follow if t.emphasis else 0.0
                for a1, choice in self._node_actions(s):
                    part, successor = q * (1.0 - end) * choice, Node(s, a1, trace, passed)
                    j = self._node_index(successor, mass * part)
                    zero = Node(s, a1, np.zeros_like(trace), 0.0)
                    lost = self._distances(successor, [self.nodes[j], zero]).tolist()
                    following = (part, pair, next_pair + a1, reward, mdp.gamma, e, *lost)
                    self.events.append(Event(n, j, *following))


def _support(probabilities: FloatArray) -> list[tuple[int, float]]:
    return [(int(a), float(probabilities[a])) for a in np.flatnonzero(probabilities)]
