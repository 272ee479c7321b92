"""The noise chain: its long-run moments against the exact system, and its truncation."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import REWARDED, problem_for, rule_named
from saddleback import System
from saddleback.theory import noise_chain as module
from saddleback.theory.noise_chain import noise_chain


def shares(noise):
    """Return the long-run share of each event."""
    return noise.weight[noise.source] * noise.probability


CASES = [
    ("GES", 0.4, REWARDED),
    ("GES", 0.0, problem_for("GES", 2, termination=0.3, states=4, features=3)),
    ("TD", 0.0, problem_for("TD", 3, termination=0.2, states=4, features=3)),
    ("Sarsa", 0.0, problem_for("Sarsa", 5, states=3, features=3)),
    ("TDRC", 0.0, problem_for("TDRC", 7, states=4, features=3)),
    ("GTB", 0.8, REWARDED),
    ("GTD2Split", 0.0, problem_for("GTD2Split", 6, states=4, features=3)),
]


@pytest.mark.parametrize(("name", "lam", "problem"), CASES, ids=lambda value: str(value)[:10])
def test_averages_over_the_events_are_those_of_the_system(name, lam, problem):
    """E[e dᵀ] = A, E[φφᵀ] = M, and the TD error at θ* has no mean along the trace."""
    rule = rule_named(name, lam)
    noise, system = noise_chain(problem, rule), System.exact(problem, rule)
    weight = shares(noise)
    assert weight.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.bincount(noise.source, noise.probability), 1.0)
    e, d, phi = (part @ noise.basis.T for part in (noise.e, noise.d, noise.phi))
    np.testing.assert_allclose(np.einsum("n,ni,nj->ij", weight, e, d), system.A, atol=1e-7)
    np.testing.assert_allclose(np.einsum("n,ni,nj->ij", weight, phi, phi), system.M, atol=1e-12)
    np.testing.assert_allclose(weight @ (noise.e * noise.delta[:, None]), 0.0, atol=1e-7)
    # The chain is stationary, and its nodes are reached with their weights.
    arrived = np.bincount(noise.target, weight, len(noise.weight))
    np.testing.assert_allclose(arrived, noise.weight, atol=1e-12)
    assert noise.truncation_loss < 1e-6
    assert noise.start.sum() == pytest.approx(1.0)


def test_without_a_trace_the_nodes_are_the_states():
    problem = problem_for("GES", 2, termination=0.3, states=4, features=3)
    noise = noise_chain(problem, sb.GES(0.0))
    np.testing.assert_allclose(noise.weight, problem.visits)
    np.testing.assert_allclose(noise.start, problem.mdp.start)


def test_all_of_a_trace_is_lost_with_one_node_for_each_state():
    """Every trace becomes zero; more nodes lose less of it."""
    problem = problem_for("GES", 3, states=3, features=3)
    losses = []
    for nodes in (3, 30):
        noise = noise_chain(problem, sb.GES(0.3), nodes=nodes)
        assert len(noise.weight) == nodes
        losses.append(noise.truncation_loss)
    assert losses[0] == pytest.approx(1.0)
    assert 0 < losses[1] < 0.5


def test_a_truncated_trace_goes_to_the_nearest_node():
    """Each event leads to the node of its state with the trace closest to its own."""
    problem, rule = problem_for("ETD", 3, states=3, features=3), sb.ETD(0.2)
    explored = module.Exploration(problem, sb.rules.terms(rule, problem), 12)
    scale = np.abs(sb.rules.terms(rule, problem).phi).max()
    t = sb.rules.terms(rule, problem)
    missed = 0
    for event in explored.events:
        follow = problem.mdp.gamma * t.rho[event.pair] * (explored.nodes[event.source].follow + 1)
        values = np.append(problem.mdp.gamma * t.lead[event.pair] * event.e, follow * scale)
        source, target = explored.nodes[event.source], explored.nodes[event.target]
        emphasised = (0.2 + 0.8 * (1 + source.follow)) * t.weight[event.pair] * t.phi[event.pair]
        np.testing.assert_allclose(event.e, t.kappa[event.pair] * source.trace + emphasised)
        gaps = [
            np.sum((values - np.append(node.trace, node.follow * scale)) ** 2)
            for node in explored.nodes
            if node.s == target.s
        ]
        assert event.missed == pytest.approx(min(gaps), abs=1e-12)
        assert event.carried == pytest.approx(values @ values)
        missed += event.missed > 1e-9
    assert missed > 0


@pytest.mark.parametrize("nodes", [1000, 2])
def test_too_many_moments_are_refused_before_and_after_exploration(monkeypatch, nodes):
    problem = problem_for("GES", 3, states=3, features=3)
    monkeypatch.setattr(module, "LARGEST", 3 * 36 - 1)
    with pytest.raises(sb.errors.InvalidParameter, match=r"at least 3 × 6² = 108 second moments"):
        noise_chain(problem, sb.GES(0.0))
    monkeypatch.setattr(module, "LARGEST", 3 * 36)
    assert len(noise_chain(problem, sb.GES(0.0)).weight) == 3
    with pytest.raises(sb.errors.InvalidParameter, match=r"at least 10 × 6² = 360 second moments"):
        noise_chain(problem, sb.GES(0.3), nodes=10)


def test_the_recurrent_part_has_no_other_nodes():
    """A transient first state: its node, events and feature go; the rest keeps its order."""
    P = np.array([[0, 1, 0], [0, 0, 1], [0, 0.5, 0.5]])[:, None, :]
    mdp = sb.FiniteMDP(P, np.array([[1.0], [0.0], [2.0]]), gamma=0.5, start=[1, 0, 0])
    only = np.ones((3, 1))
    noise = noise_chain(sb.Problem(mdp, np.eye(3), only, only), sb.TD(0.0))
    assert noise.k == 3
    np.testing.assert_allclose(noise.weight, [0, 1 / 3, 2 / 3], atol=1e-12)
    rest = noise.recurrent
    assert rest.k == rest.n == 2
    np.testing.assert_allclose(rest.weight, [1 / 3, 2 / 3])
    np.testing.assert_allclose(rest.start, rest.weight)
    assert (rest.source.tolist(), rest.target.tolist()) == ([0, 1, 1], [1, 0, 1])
    np.testing.assert_allclose(rest.phi @ rest.basis.T, np.eye(3)[[1, 2, 2]], atol=1e-12)
    assert rest.recurrent is rest


def test_factors_are_those_of_the_module():
    """T = B + Σ U Vᵀ moves (θ − θ*, ω, 1) by one step of the form's update."""
    rule = sb.TDRC(0.0)
    noise = noise_chain(problem_for("TDRC", 7, states=4, features=3), rule)
    c, k, alpha, beta = rule.form.coefficients, noise.k, 0.1, 0.3
    U, V, B = noise.factors(alpha, beta)
    x, w = np.random.default_rng(0).normal(size=(2, k))
    z = np.concatenate([x, w, [1.0]])
    for i in range(len(noise.delta)):
        error = noise.d[i] @ x + noise.delta[i]
        change = c.td * error * noise.e[i] - (w @ noise.e[i]) * noise.y[i]
        change += c.gram_theta * (w @ noise.phi[i]) * noise.phi[i]
        dual = c.dual * error * noise.e[i] - c.gram * (w @ noise.phi[i]) * noise.phi[i]
        moved = np.concatenate([x + alpha * change, w + beta * (dual - c.shrink * w), [1.0]])
        np.testing.assert_allclose(B * z + U[i].T @ (V[i] @ z), moved)


def test_rules_with_further_traces_are_not_modelled():
    with pytest.raises(sb.errors.Undefined, match="which has further traces, is not modelled"):
        noise_chain(problem_for("TD", 3, states=3), rule_named("TrueOnlineTD", 0.3))
