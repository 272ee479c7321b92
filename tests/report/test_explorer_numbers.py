"""The explorer's numbers in the browser equal those of the library, at all settings."""

from __future__ import annotations

import json

import numpy as np
import pytest

import saddleback as sb
from helpers.explorer import MAKE, applicable_rules, interpolated, named_rule
from saddleback.report import explorer_page, write
from saddleback.theory import MeanStability

SYSTEM = """([problem, rule, x, y, gamma, lam]) => {
  const { interpolate, system, eigenvalues, pageData } = window.explorer;
  const between = interpolate(pageData.problems[problem], x, y);
  const linear = system(between, pageData.rules[rule], gamma, lam);
  const { basis, d, theta0, outside } = between;
  return { ...linear, spectrum: eigenvalues(linear.A), basis, d, theta0, outside };
}"""

RUN = """([problem, rule, x, y, gamma, lam, alpha, beta, steps]) => {
  const { interpolate, system, update, iterate, pageData } = window.explorer;
  const between = interpolate(pageData.problems[problem], x, y);
  const { theta0, inverse, basis, outside } = between, { form } = pageData.rules[rule];
  const linear = system(between, pageData.rules[rule], gamma, lam);
  const { radius, limit } = update(between, linear, form, alpha, beta);
  const options = { alpha, beta, steps, theta0, inverse };
  return { radius, limit, basis, outside, iterates: iterate(linear, form, options) };
}"""

SAMPLED = """([problem, rule, x, y, gamma, lam, alpha, beta, steps, seed]) => {
  const { interpolate, system, sampleExperience, learnFrom, pageData } = window.explorer;
  const between = interpolate(pageData.problems[problem], x, y);
  const experience = sampleExperience(between, gamma, steps, seed);
  const one = pageData.rules[rule], linear = system(between, one, gamma, lam);
  const columns = Object.keys(experience[0]).map((name) => experience.map((step) => step[name]));
  const run = learnFrom(experience, between, one, lam, linear, { alpha, beta });
  return JSON.stringify({ columns, run });
}"""


def sampled(page, *arguments):
    """A sampled run; as one text, since Playwright takes long for many numbers."""
    return json.loads(page.evaluate(SAMPLED, list(arguments)))


CASES = [(problem, rule) for problem in MAKE for rule in applicable_rules(problem)]


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """The explorer, opened once: the tests call functions of it that keep no state."""
    path = write(explorer_page(), tmp_path_factory.mktemp("explorer") / "explorer.html")
    opened = browser.new_page()
    opened.goto(path.as_uri())
    opened.wait_for_selector("body[data-ready=yes]")
    yield opened
    opened.close()


@pytest.mark.parametrize("name", MAKE)
def test_interpolation_ends_at_on_policy_tabular_and_at_the_problem_itself(name):
    problem = MAKE[name](0.9)
    same = interpolated(problem)
    assert np.array_equal(same.behaviour, problem.behaviour)
    assert np.array_equal(same.features, problem.features)
    end = interpolated(problem, off_policy=0.0, shared=0.0)
    assert end.on_policy
    per_state = 1 if problem.values == "state" else problem.mdp.n_actions
    acting = np.repeat(problem.mdp.acting, per_state)
    table = end.Phi[:, : acting.sum()]
    assert np.array_equal(table, np.eye(len(acting))[:, acting])
    assert not end.Phi[:, acting.sum() :].any()
    half = interpolated(problem, off_policy=0.25, shared=0.5)
    assert np.allclose(half.behaviour, 0.75 * problem.target + 0.25 * problem.behaviour)
    assert np.allclose(half.Phi[:, : problem.p] - end.Phi[:, : problem.p] / 2, problem.Phi / 2)


SETTINGS = [
    (0.0, 0.0, 1.0, 1.0), (0.85, 0.4, 1.0, 1.0), (0.99, 0.9, 1.0, 1.0), (0.999, 1.0, 1.0, 1.0),
    (0.9, 0.5, 0.0, 1.0), (0.95, 0.7, 0.35, 1.0), (0.95, 0.3, 1.0, 0.0), (0.99, 0.5, 1.0, 0.6),
    (0.9, 0.9, 0.5, 0.5), (0.99, 1.0, 0.01, 0.99), (0.8, 0.2, 0.0, 0.0),
]  # fmt: skip
"""γ, λ, x, y."""


@pytest.mark.parametrize(("gamma", "lam", "x", "y"), SETTINGS)
def test_systems_are_those_of_the_library(page, gamma, lam, x, y):
    for name, rule in CASES:
        problem = interpolated(MAKE[name](gamma), x, y)
        exact = sb.System.exact(problem, named_rule(rule, lam))
        shown = page.evaluate(SYSTEM, [name, rule, x, y, gamma, lam])
        assert np.allclose(shown["d"], problem.visits, rtol=1e-9, atol=1e-12), (name, rule)
        U = np.array(shown["basis"])
        seen = problem.Phi[problem.weights > 0]
        assert U.shape == (problem.p, np.linalg.matrix_rank(seen, tol=1e-9))
        assert np.allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-10)
        assert np.allclose(seen @ U @ U.T, seen, atol=1e-9)
        scale = max(1.0, np.abs(exact.A).max())
        for part in "AMC":
            matrix = U.T @ getattr(exact, part) @ U
            assert np.allclose(shown[part], matrix, rtol=0, atol=1e-10 * scale), (name, rule, part)
        assert np.allclose(shown["b"], U.T @ exact.b, rtol=0, atol=1e-10 * scale)
        assert np.allclose(U @ shown["theta0"] + shown["outside"], 1.0)
        spectrum = np.array([complex(*z) for z in shown["spectrum"]])
        exact_spectrum = list(np.linalg.eigvals(U.T @ exact.A @ U))
        size = np.abs(exact_spectrum).max()
        assert len(spectrum) == len(exact_spectrum) == U.shape[1]
        for z in spectrum:  # pair them up; those that coincide are accurate to few digits
            nearest = int(np.argmin(np.abs(np.array(exact_spectrum) - z)))
            assert abs(exact_spectrum.pop(nearest) - z) < 1e-5 * size, (name, rule)


@pytest.mark.parametrize(
    ("gamma", "lam", "alpha", "beta", "x", "y"),
    [
        (0.8, 0.3, 0.1, 0.2, 1.0, 1.0), (0.99, 0.5, 0.5, 0.1, 1.0, 1.0),
        (0.95, 0.5, 0.2, 0.2, 0.4, 1.0), (0.95, 0.5, 0.2, 0.4, 1.0, 0.5),
        (0.9, 0.7, 0.3, 0.3, 0.2, 0.0),
    ],
)  # fmt: skip
def test_iterates_and_limits_are_those_of_the_library(page, gamma, lam, alpha, beta, x, y):
    for name, rule in CASES:
        system = sb.System.exact(interpolated(MAKE[name](gamma), x, y), named_rule(rule, lam))
        shown = page.evaluate(RUN, [name, rule, x, y, gamma, lam, alpha, beta, 150])
        mean = MeanStability(system)
        dual = system.rule.form.has_dual
        radius = float(mean.radius(alpha, beta))
        assert shown["radius"] == pytest.approx(radius, abs=1e-6), (name, rule)
        limit = mean.max_step_size(beta / alpha if dual else 1.0)
        assert shown["limit"] == pytest.approx(limit, rel=1e-5, abs=1e-9), (name, rule)
        steps = [point["step"] for point in shown["iterates"]]
        run = sb.iterate(
            system, alpha=alpha, **({"beta": beta} if dual else {}), steps=steps[-1] or 1,
            theta0=1.0, record=steps, metrics={"mspbe": system.mspbe}, bound=1e290,
        )  # fmt: skip
        errors = [point["mspbe"] for point in shown["iterates"]]
        assert np.allclose(errors, run.curves["mspbe"], rtol=1e-7, atol=1e-20), (name, rule)
        theta = shown["outside"] + np.array(shown["basis"]) @ shown["iterates"][-1]["theta"]
        assert np.allclose(theta, run.theta, rtol=1e-7, atol=1e-9)


def as_experience(columns):
    return sb.Experience(*map(np.array, columns))


@pytest.mark.parametrize(("x", "y"), [(1.0, 1.0), (0.5, 0.5), (0.0, 0.0)])
def test_a_sampled_run_is_the_run_of_the_library_on_the_same_transitions(page, x, y):
    alpha, beta, gamma, lam = 0.02, 0.05, 0.9, 0.6
    for name, rule in CASES:
        problem = interpolated(MAKE[name](gamma), x, y)
        shown = sampled(page, name, rule, x, y, gamma, lam, alpha, beta, 300, 3)
        experience = as_experience(shown["columns"])
        experience.check(problem)
        dual = named_rule(rule, lam).form.has_dual
        steps = [point["step"] for point in shown["run"]]
        system = sb.System.exact(problem, named_rule(rule, lam))
        run = sb.learn(
            named_rule(rule, lam), problem, experience=experience, alpha=alpha,
            **({"beta": beta} if dual else {}), theta0=1.0, record=steps, bound=1e290,
            metrics={"mspbe": system.mspbe},
        )  # fmt: skip
        assert steps[-1] == 300
        assert np.allclose(shown["run"][-1]["theta"], run.theta, rtol=1e-7, atol=1e-10), (
            name,
            rule,
        )
        errors = [point["mspbe"] for point in shown["run"]]
        curve = run.curves["mspbe"].ravel()
        assert np.allclose(errors, curve, rtol=1e-5, atol=1e-9), (name, rule)


@pytest.mark.parametrize("name", MAKE)
def test_transitions_are_drawn_from_the_problem(page, name):
    """Frequencies of actions and next states are within five standard errors."""
    problem = interpolated(MAKE[name](0.9), 0.6, 1.0)
    rule = applicable_rules(name)[0]
    steps = 20_000
    shown = sampled(page, name, rule, 0.6, 1.0, 0.9, 0.0, 0.01, 0.01, steps, 11)
    experience = as_experience(shown["columns"])
    experience.check(problem)
    pairs = np.zeros_like(problem.pair_visits)
    np.add.at(pairs, (experience.states, experience.actions), 1)
    assert np.abs(pairs / steps - problem.pair_visits).max() < 0.02
    for s, a in np.argwhere(pairs > 1000):
        chosen = (experience.states == s) & (experience.actions == a)
        counts = np.bincount(experience.next_states[chosen], minlength=problem.mdp.n_states)
        p = problem.mdp.P[s, a]
        error = np.sqrt(p * (1 - p) / chosen.sum())
        assert (np.abs(counts / chosen.sum() - p) <= 5 * error + 1e-12).all()
        taken = pairs[s, a] / pairs[s].sum()
        mu = problem.behaviour[s, a]
        assert abs(taken - mu) <= 5 * np.sqrt(mu * (1 - mu) / pairs[s].sum()) + 1e-12


def test_a_seed_gives_one_sampled_run(page):
    arguments = ["two_state", "GES", 1.0, 1.0, 0.9, 0.5, 0.05, 0.05, 200]
    first, other, repeated = (sampled(page, *arguments, seed) for seed in (5, 6, 5))
    assert first == repeated
    assert first["columns"] != other["columns"]
