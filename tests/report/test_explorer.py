"""The explorer computes in the browser what the library computes, and says what follows."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import saddleback as sb
from saddleback import problems
from saddleback.report import explorer_html, explorer_page, write
from saddleback.theory import MeanStability

MAKE = {
    "two_state": lambda g: problems.two_state(g, rewards=[[1.0, -1.0], [0.5, 2.0]]),
    "baird": lambda g: problems.baird(g, features="classic"),
    "baird_paper": problems.baird,
    "random_walk": lambda g: problems.random_walk(g, features="dependent", target_right=0.9),
    "random_mdp": lambda g: problems.random_mdp(g, rng=1),
}

SYSTEM = """([problem, rule, gamma, lam]) => {
  const { system, eigenvalues, pageData: held } = window.explorer;
  const found = system(held.problems[problem], held.rules[rule], gamma, lam);
  return { ...found, spectrum: eigenvalues(found.A) };
}"""

RUN = """([problem, rule, gamma, lam, alpha, beta, steps]) => {
  const { system, generator, update, iterate, pageData: held } = window.explorer;
  const { theta0, inverse } = held.problems[problem], { form } = held.rules[rule];
  const found = system(held.problems[problem], held.rules[rule], gamma, lam);
  const { radius, limit } = update(generator(found, form), theta0.length, alpha, beta);
  return { radius, limit, iterates: iterate(found, form, { alpha, beta, steps, theta0, inverse }) };
}"""


def made(rule, lam):
    return sb.GTD() if rule == "GTD" else sb.rules.NAMED[rule](lam)


def fitting(problem):
    kind = MAKE[problem](0.5).values
    return [
        name for name in explorer_html.RULES if explorer_html.rule_table(name)["values"] == kind
    ]


CASES = [(problem, rule) for problem in MAKE for rule in fitting(problem)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(explorer_page(), tmp_path_factory.mktemp("explorer") / "explorer.html")


def test_the_page_is_made_of_these_problems_and_can_be_carried():
    assert set(explorer_html.problems()) == set(MAKE)
    for name, (_, _, problem, _) in explorer_html.problems().items():
        assert np.array_equal(problem.features, MAKE[name](0.5).features)
    assert len(explorer_page().encode()) < 4e6


@pytest.mark.parametrize(("gamma", "lam"), [(0.0, 0.0), (0.85, 0.4), (0.99, 0.9), (0.999, 1.0)])
def test_systems_are_those_of_the_library(visit, path, gamma, lam):
    page = visit(path)
    for name, rule in CASES:
        problem = MAKE[name](gamma)
        exact = sb.System.exact(problem, made(rule, lam))
        U = explorer_html.span(problem)
        found = page.evaluate(SYSTEM, [name, rule, gamma, lam])
        scale = max(1.0, np.abs(exact.A).max())
        for part in "AMC":
            wanted = U.T @ getattr(exact, part) @ U
            assert np.allclose(found[part], wanted, rtol=0, atol=1e-10 * scale), (name, rule, part)
        assert np.allclose(found["b"], U.T @ exact.b, rtol=0, atol=1e-10 * scale)
        ours = np.array([complex(*each) for each in found["spectrum"]])
        theirs = list(np.linalg.eigvals(U.T @ exact.A @ U))
        size = np.abs(theirs).max()
        assert len(ours) == len(theirs) == U.shape[1]
        for z in ours:  # each has a partner; those that coincide are known to few digits
            nearest = int(np.argmin(np.abs(np.array(theirs) - z)))
            assert abs(theirs.pop(nearest) - z) < 1e-5 * size, (name, rule)


@pytest.mark.parametrize(
    ("gamma", "lam", "alpha", "beta"), [(0.8, 0.3, 0.1, 0.2), (0.99, 0.5, 0.5, 0.1)]
)
def test_iterates_and_limits_are_those_of_the_library(visit, path, gamma, lam, alpha, beta):
    page = visit(path)
    for name, rule in CASES:
        system = sb.System.exact(MAKE[name](gamma), made(rule, lam))
        found = page.evaluate(RUN, [name, rule, gamma, lam, alpha, beta, 150])
        mean = MeanStability(system)
        dual = system.rule.form.has_dual
        radius = float(mean.radius(alpha, beta))
        assert found["radius"] == pytest.approx(radius, abs=1e-6), (name, rule)
        limit = mean.max_step_size(beta / alpha if dual else 1.0)
        assert found["limit"] == pytest.approx(limit, rel=1e-5, abs=1e-9), (name, rule)
        steps = [each["step"] for each in found["iterates"]]
        run = sb.iterate(
            system, alpha=alpha, **({"beta": beta} if dual else {}), steps=steps[-1] or 1,
            theta0=1.0, record=steps, metrics={"mspbe": system.mspbe}, bound=1e290,
        )  # fmt: skip
        ours = [each["mspbe"] for each in found["iterates"]]
        assert np.allclose(ours, run.curves["mspbe"], rtol=1e-7, atol=1e-20), (name, rule)
        basis = explorer_html.span(MAKE[name](gamma))
        table = explorer_html.problem_table(MAKE[name](gamma))
        outside = np.array(table["outside"])
        assert np.allclose(outside + basis @ found["iterates"][-1]["theta"], run.theta, rtol=1e-7)


def test_a_minute_with_the_teacher(visit, path):
    page = visit(path)
    said = {}
    for k in range(4):
        page.locator(".step").nth(k).click()
        page.wait_for_function(f"document.querySelectorAll('.step')[{k}].ariaPressed === 'true'")
        page.wait_for_timeout(100)
        said[k] = [page.inner_text(f"#word-{place}") for place in ("one", "two")]
    works, fails = "✓ converges with these steps", "✕ diverges with these steps"
    assert said == {0: [works] * 2, 1: [fails, works], 2: [fails] * 2, 3: [fails, works]}
    for place, words in (
        ("one", "updates diverge"),
        ("two", "updates along A alone would diverge"),
    ):
        assert f"Off-line {words} for every α" in page.inner_text(f"#a-{place}")


def test_what_the_teacher_says_is_true():
    def lead(name, rule, gamma):
        system = sb.System.exact(MAKE[name](gamma), rule)
        return max(z.real for z in system.spectrum if abs(z) > 1e-9)

    at = 5 / 5.5
    assert "5/(6 − λ), here 0.909" in explorer_html.TOUR[1]["words"]
    assert lead("two_state", sb.ExpectedSarsa(0.5), at - 1e-3) < 0
    assert lead("two_state", sb.ExpectedSarsa(0.5), at + 1e-3) > 0
    assert "near γ = 0.88" in explorer_html.TOUR[3]["words"]
    assert lead("baird", sb.TD(0.0), 0.875) < 0 < lead("baird", sb.TD(0.0), 0.885)
    assert lead("baird", sb.TD(0.9), 0.95) < 0


def test_what_is_written_follows_the_sliders(visit, path):
    """By keyboard: γ from 0.99 to 0.9 and the eigenvalue goes left, to where the library says."""
    page = visit(path)
    assert "+0.2203" in page.inner_text("#a-one")
    assert "α < 0.4477" in page.inner_text("#step-two")
    page.focus("#gamma")
    for _ in range(90):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.getElementById('gamma-said').textContent === '0.9'")
    page.wait_for_function("document.getElementById('a-one').textContent.includes('−')")
    system = sb.System.exact(MAKE["two_state"](0.9), sb.ExpectedSarsa(0.5))
    lead = system.spectrum[0].real
    assert f"eigenvalue of A: −{-lead:.4g}." in page.inner_text("#a-one")
    assert f"α < {system.max_step_size:.4g}." in page.inner_text("#a-one")
    x = page.evaluate("window.explorer.state.rules.one.spectrum[0][0]")
    assert x == pytest.approx(lead, abs=1e-12)
    assert page.locator("#spectrum .mark-symbol").last.locator("path").count() == 4


def test_rules_fit_the_problem_and_the_code_shown_runs(visit, path, capsys):
    page = visit(path)
    for name in MAKE:
        page.select_option("#problem", name)
        page.wait_for_function(f"window.explorer.state.problem === '{name}'")
        page.wait_for_timeout(50)
        listed = page.eval_on_selector_all("#one option", "all => all.map((one) => one.value)")
        assert listed == fitting(name)
        exec(page.inner_text("#python"), {})
        values = [
            complex(*each) for each in page.evaluate("window.explorer.state.rules.two.spectrum")
        ]
        problem = MAKE[name](page.evaluate("window.explorer.state.gamma"))
        rule = made(page.input_value("#two"), page.evaluate("window.explorer.state.lam"))
        exact = sb.System.exact(problem, rule).spectrum
        assert max(z.real for z in values) == pytest.approx(
            max(z.real for z in exact if abs(z) > 1e-9), abs=1e-6
        )
    assert capsys.readouterr().out.count("[") >= 2 * len(MAKE)


def test_the_numbers_can_be_taken_away(visit, path):
    page = visit(path)
    page.click("summary")
    assert page.locator("#numbers tbody tr").count() == 2 + 2 + 2 + 4
    found = {}
    for name in ("eigenvalues", "for-every-γ", "iterates"):
        with page.expect_download() as caught:
            page.click(f"[data-csv={name}]")
        assert caught.value.suggested_filename == f"{name}.csv"
        with caught.value.path().open(newline="", encoding="utf-8") as file:
            found[name] = list(csv.DictReader(file))
    assert len(found["eigenvalues"]) == 2 + 2 + 2 + 4
    system = sb.System.exact(MAKE["two_state"](0.99), sb.GES(0.5))
    run = sb.iterate(system, alpha=0.2, beta=0.2, steps=1000, theta0=1.0)
    last = found["iterates"][-1]
    assert (last["rule"], last["step"]) == ("GES(0.5)", "1000")
    assert [float(last[f"θ_{k}"]) for k in (1, 2)] == pytest.approx(run.theta.tolist())
    assert float(last["mspbe"]) == pytest.approx(float(run.curves["mspbe"][-1]), rel=1e-6)
    far = found["for-every-γ"][-1]
    exact = sb.System.exact(MAKE["two_state"](float(far["γ"])), sb.GES(0.5)).spectrum
    assert min(abs(exact - complex(float(far["real part"]), 0))) < 1e-10


def put(page, **values):
    """Move sliders to values; α and β are logarithms."""
    for name, value in values.items():
        page.locator(f"#{name}").evaluate(
            "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); }",
            value if name in ("gamma", "lam") else float(np.log10(value)),
        )
    page.wait_for_timeout(100)


def test_words_hold_for_what_is_set(visit, path):
    """Also where steps are as small, or ratios as bad, as the sliders allow."""
    page = visit(path)
    page.locator(".step").nth(3).click()
    page.wait_for_function("window.explorer.state.problem === 'baird'")
    assert "a pair of eigenvalues crosses" in page.inner_text("#tour-words")
    put(page, gamma=0.99, alpha=0.1, beta=0.005)
    assert page.inner_text("#tour-words") == "Moved by hand. A button goes back to its step."
    assert "no α helps at this β/α." in page.inner_text("#step-two")
    assert "no α helps." in page.inner_text("#step-one")
    put(page, alpha=1e-4)
    system = sb.System.exact(MAKE["baird"](0.99), sb.TD(0.0))
    off = float(MeanStability(system).radius(1e-4)) - 1
    assert f"multiplied by 1 + {off / 1e-5:.2g}·10⁻⁵ " in page.inner_text("#step-one")


def test_the_code_that_is_shown_prints_the_numbers_that_are_shown(visit, path, capsys):
    page = visit(path)
    for step in (1, 3):  # in the last one rule leaves all bounds on the way
        page.locator(".step").nth(step).click()
        page.wait_for_function(f"document.querySelectorAll('.step')[{step}].ariaPressed === 'true'")
        page.wait_for_timeout(300)
        exec(page.inner_text("#python"), {})
        printed = [line for line in capsys.readouterr().out.splitlines() if line[0] not in "[ "]
        for place, radius, mspbe in (("one", *printed[:2]), ("two", *printed[2:])):
            shown = page.evaluate(f"window.explorer.state.rules.{place}")
            assert float(radius) == pytest.approx(shown["radius"], abs=1e-6)
            assert float(mspbe) == pytest.approx(shown["iterates"][-1]["mspbe"], rel=1e-6)


def test_captions_of_tables_come_and_go(visit, path):
    page = visit(path)
    page.click("summary")
    caption = page.locator("#numbers caption")
    first = caption.text_content()
    page.select_option("#problem", "baird_paper")
    page.wait_for_function("document.querySelector('#numbers caption').textContent.includes('60')")
    page.select_option("#problem", "two_state")
    page.wait_for_function(f"document.querySelector('#numbers caption').textContent === '{first}'")
