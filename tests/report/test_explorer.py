"""The explorer computes in the browser what the library computes, and describes it correctly."""

from __future__ import annotations

import csv
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import saddleback as sb
from saddleback import problems
from saddleback.report import explorer_html, explorer_page, write
from saddleback.report.explorer_html import interpolated
from saddleback.theory import MeanStability

MAKE = {
    "two_state": lambda g: problems.two_state(g, rewards=[[1.0, -1.0], [0.5, 2.0]]),
    "baird": lambda g: problems.baird(g, features="classic"),
    "baird_paper": problems.baird,
    "random_walk": lambda g: problems.random_walk(g, features="dependent", target_right=0.9),
    "random_mdp": lambda g: problems.random_mdp(g, rng=1),
}

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
  return { experience, run: learnFrom(experience, between, one, lam, linear, { alpha, beta }) };
}"""


def named_rule(rule, lam):
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


def test_the_page_holds_these_problems_and_is_small():
    assert set(explorer_html.problems()) == set(MAKE)
    for name, (_, _, problem, _) in explorer_html.problems().items():
        assert np.array_equal(problem.features, MAKE[name](0.5).features)
    assert len(explorer_page().encode()) < 4e6


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
def test_systems_are_those_of_the_library(visit, path, gamma, lam, x, y):
    page = visit(path)
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
def test_iterates_and_limits_are_those_of_the_library(visit, path, gamma, lam, alpha, beta, x, y):
    page = visit(path)
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


def as_experience(steps):
    columns = ("state", "action", "reward", "nextState", "nextAction", "discount", "start")
    return sb.Experience(*(np.array([step[name] for step in steps]) for name in columns))


@pytest.mark.parametrize(("x", "y"), [(1.0, 1.0), (0.5, 0.5), (0.0, 0.0)])
def test_a_sampled_run_is_the_run_of_the_library_on_the_same_transitions(visit, path, x, y):
    page = visit(path)
    alpha, beta, gamma, lam = 0.02, 0.05, 0.9, 0.6
    for name, rule in CASES:
        problem = interpolated(MAKE[name](gamma), x, y)
        shown = page.evaluate(SAMPLED, [name, rule, x, y, gamma, lam, alpha, beta, 300, 3])
        experience = as_experience(shown["experience"])
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
def test_transitions_are_drawn_from_the_problem(visit, path, name):
    """Frequencies of pairs and of next states, within five standard errors of an upper bound."""
    page = visit(path)
    problem = interpolated(MAKE[name](0.9), 0.6, 1.0)
    rule = fitting(name)[0]
    steps = 40_000
    shown = page.evaluate(SAMPLED, [name, rule, 0.6, 1.0, 0.9, 0.0, 0.01, 0.01, steps, 11])
    experience = as_experience(shown["experience"])
    experience.check(problem)
    pairs = np.zeros_like(problem.pair_visits)
    np.add.at(pairs, (experience.states, experience.actions), 1)
    assert np.abs(pairs / steps - problem.pair_visits).max() < 0.02
    for s, a in np.argwhere(pairs > 1000):
        here = (experience.states == s) & (experience.actions == a)
        counts = np.bincount(experience.next_states[here], minlength=problem.mdp.n_states)
        p = problem.mdp.P[s, a]
        error = np.sqrt(p * (1 - p) / here.sum())
        assert (np.abs(counts / here.sum() - p) <= 5 * error + 1e-12).all()
        taken = pairs[s, a] / pairs[s].sum()
        mu = problem.behaviour[s, a]
        assert abs(taken - mu) <= 5 * np.sqrt(mu * (1 - mu) / pairs[s].sum()) + 1e-12


def test_a_seed_gives_one_sampled_run(visit, path):
    page = visit(path)
    arguments = ["two_state", "GES", 1.0, 1.0, 0.9, 0.5, 0.05, 0.05, 200]
    first, other, again = (page.evaluate(SAMPLED, [*arguments, seed]) for seed in (5, 6, 5))
    assert first == again
    assert first["experience"] != other["experience"]


def redrawn(page):
    page.wait_for_timeout(150)


def test_the_tour_shows_the_three_legs(visit, path):
    page = visit(path)
    outcomes = {}
    for k in range(6):
        page.locator(".step").nth(k).click()
        page.wait_for_function(f"document.querySelectorAll('.step')[{k}].ariaPressed === 'true'")
        redrawn(page)
        outcomes[k] = [page.inner_text(f"#outcome-{place}")[2:] for place in ("one", "two")]
    yes, no = "converges", "diverges"
    assert outcomes == {
        0: [yes, yes], 1: [no, yes], 2: [yes, yes], 3: [yes, yes], 4: [no, no], 5: [no, yes],
    }  # fmt: skip


def test_the_numbers_of_the_tour_hold():
    def lead(name, rule, gamma, x=1.0, y=1.0):
        system = sb.System.exact(interpolated(MAKE[name](gamma), x, y), rule)
        return max(z.real for z in system.spectrum if abs(z) > 1e-9)

    texts = [step["text"] for step in explorer_html.TOUR]
    rule, gamma = sb.ExpectedSarsa(0.5), 5 / 5.5
    assert "5/(6 − λ), here 0.909" in texts[1]
    assert lead("two_state", rule, gamma - 1e-3) < 0 < lead("two_state", rule, gamma + 1e-3)
    assert "crosses near x = 0.15" in texts[2]
    assert lead("two_state", rule, 0.99, x=0.145) < 0 < lead("two_state", rule, 0.99, x=0.16)
    assert "crosses near y = 0.52" in texts[3]
    assert lead("two_state", rule, 0.99, y=0.515) < 0 < lead("two_state", rule, 0.99, y=0.53)
    assert "near γ = 0.88" in texts[5]
    assert lead("baird", sb.TD(0.0), 0.875) < 0 < lead("baird", sb.TD(0.0), 0.885)
    assert lead("baird", sb.TD(0.9), 0.95) < 0


def test_no_card_contradicts_its_verdict(visit, path):
    """A card that diverges does not claim that ω stabilises it, and the reverse."""
    page = visit(path)
    stabilised = "the auxiliary weights ω stabilise them."
    page.locator(".step").nth(4).click()
    page.wait_for_function(
        "window.explorer.state.alpha === 0.603 || window.explorer.state.alpha === 0.6"
    )
    redrawn(page)
    assert page.inner_text("#outcome-two") == "✕ diverges"
    assert page.inner_text("#offline-two").endswith("stabilise them only for smaller steps.")
    assert page.inner_text("#rate-two").startswith("Errors grow by a factor ")
    page.locator(".step").nth(1).click()
    redrawn(page)
    assert page.inner_text("#outcome-two") == "✓ converges"
    assert page.inner_text("#offline-two").endswith(stabilised)
    assert page.inner_text("#rate-two").startswith("Errors shrink by a factor ")
    page.locator(".step").nth(5).click()
    put(page, gamma=0.99, alpha=0.1, beta=0.005)
    assert page.inner_text("#outcome-two") == "✕ diverges"
    assert page.inner_text("#offline-two").endswith("do not stabilise them.")
    for alpha in (0.01, 0.1, 1.0):
        for beta in (0.01, 0.1, 1.0):
            put(page, alpha=alpha, beta=beta)
            diverges = page.inner_text("#outcome-two") == "✕ diverges"
            assert (stabilised in page.inner_text("#offline-two")) == (not diverges)
            assert page.inner_text("#rate-two").startswith(
                f"Errors {'grow' if diverges else 'shr'}"
            )


def test_cards_follow_the_sliders_by_keyboard(visit, path):
    """γ from 0.99 to 0.9: the eigenvalue moves left, to the value of the library."""
    page = visit(path)
    assert "+0.2203" in page.inner_text("#offline-one")
    assert "α < 0.4477" in page.inner_text("#rate-two")
    page.focus("#gamma")
    for _ in range(90):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.getElementById('gamma-value').textContent === '0.9'")
    page.wait_for_function("document.getElementById('offline-one').textContent.includes('−')")
    system = sb.System.exact(MAKE["two_state"](0.9), sb.ExpectedSarsa(0.5))
    lead = system.spectrum[0].real
    assert f"eigenvalue of A: −{-lead:.4g}." in page.inner_text("#offline-one")
    assert f"α < {system.max_step_size:.4g}." in page.inner_text("#offline-one")
    shown = page.evaluate("window.explorer.state.rules.one.spectrum[0][0]")
    assert shown == pytest.approx(lead, abs=1e-12)
    assert page.locator("#spectrum .mark-symbol").last.locator("path").count() == 4


@pytest.mark.parametrize(("slider", "field"), [("x", "off_policy"), ("y", "shared")])
def test_the_new_legs_move_by_keyboard(visit, path, slider, field):
    page = visit(path)
    page.focus(f"#{slider}")
    for _ in range(60):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"document.getElementById('{slider}-value').textContent === '0.4'")
    page.wait_for_function(f"window.explorer.state.{slider} === 0.4")
    redrawn(page)
    problem = interpolated(MAKE["two_state"](0.99), **{field: 0.4})
    lead = max(z.real for z in sb.System.exact(problem, sb.ExpectedSarsa(0.5)).spectrum)
    text = f"{abs(lead):.4g}"
    assert f"A: {'+' if lead > 0 else '−'}{text}." in page.inner_text("#offline-one")
    assert page.get_attribute(f"#{slider}", "aria-valuetext") == "0.4"


def test_rules_fit_the_problem_and_the_code_shown_runs(visit, path, capsys):
    page = visit(path)
    for x, y in ((1.0, 1.0), (0.3, 1.0), (0.7, 0.4)):
        put(page, x=x, y=y)
        for name in MAKE:
            page.select_option("#problem", name)
            page.wait_for_function(f"window.explorer.state.problemName === '{name}'")
            redrawn(page)
            listed = page.eval_on_selector_all("#one option", "all => all.map((one) => one.value)")
            assert listed == fitting(name)
            exec(page.inner_text("#python"), {})
            shown = page.evaluate("window.explorer.state.rules.two.spectrum")
            problem = interpolated(MAKE[name](page.evaluate("window.explorer.state.gamma")), x, y)
            rule = named_rule(page.input_value("#two"), page.evaluate("window.explorer.state.lam"))
            exact = sb.System.exact(problem, rule).spectrum
            assert max(complex(*z).real for z in shown) == pytest.approx(
                max(z.real for z in exact if abs(z) > 1e-9), abs=1e-6
            )
    assert capsys.readouterr().out.count("[") >= 3 * 2 * len(MAKE)


def test_numbers_can_be_downloaded(visit, path):
    page = visit(path)
    page.click("summary")
    assert page.locator("#numbers tbody tr").count() == 2 + 2 + 2 + 4
    page.check("#sampled")
    redrawn(page)
    files = {}
    for name in ("eigenvalues", "for-every-γ", "iterates", "sampled-run"):
        with page.expect_download() as caught:
            page.click(f"[data-csv={name}]")
        assert caught.value.suggested_filename == f"{name}.csv"
        with caught.value.path().open(newline="", encoding="utf-8") as file:
            files[name] = list(csv.DictReader(file))
    assert len(files["eigenvalues"]) == 2 + 2 + 2 + 4
    system = sb.System.exact(MAKE["two_state"](0.99), sb.GES(0.5))
    run = sb.iterate(system, alpha=0.2, beta=0.2, steps=1000, theta0=1.0)
    last = files["iterates"][-1]
    assert (last["rule"], last["step"]) == ("GES(0.5)", "1000")
    assert [float(last[f"θ_{k}"]) for k in (1, 2)] == pytest.approx(run.theta.tolist())
    assert float(last["mspbe"]) == pytest.approx(float(run.curves["mspbe"][-1]), rel=1e-6)
    far = files["for-every-γ"][-1]
    exact = sb.System.exact(MAKE["two_state"](float(far["γ"])), sb.GES(0.5)).spectrum
    assert min(abs(exact - complex(float(far["real part"]), 0))) < 1e-10
    assert {row["seed"] for row in files["sampled-run"]} == {"1"}


def put(page, **values):
    """Move sliders to values; α and β are logarithms."""
    for name, value in values.items():
        page.locator(f"#{name}").evaluate(
            "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); }",
            float(np.log10(value)) if name in ("alpha", "beta") else value,
        )
    redrawn(page)


def test_sentences_hold_at_the_ends_of_the_sliders(visit, path):
    """Where steps are as small, or ratios as bad, as the sliders allow."""
    page = visit(path)
    page.locator(".step").nth(5).click()
    page.wait_for_function("window.explorer.state.problemName === 'baird'")
    assert "a pair of eigenvalues crosses" in page.inner_text("#tour-text")
    put(page, gamma=0.99, alpha=0.1, beta=0.005)
    assert page.inner_text("#tour-text").startswith("Your own setting.")
    assert "no α is stable at this β/α." in page.inner_text("#rate-two")
    assert "no α is stable." in page.inner_text("#rate-one")
    put(page, alpha=1e-4)
    system = sb.System.exact(MAKE["baird"](0.99), sb.TD(0.0))
    distance = float(MeanStability(system).radius(1e-4)) - 1
    assert f"factor 1 + {distance / 1e-5:.2g}·10⁻⁵ per step" in page.inner_text("#rate-one")


def test_the_code_shown_prints_the_numbers_shown(visit, path, capsys):
    page = visit(path)
    for step in (1, 2, 3, 5):  # in the last one rule leaves all bounds
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


def test_a_sampled_run_can_be_laid_over_the_expected_one(visit, path):
    page = visit(path)
    lines = "#errors .mark-line path"
    assert page.locator(lines).count() == 2
    assert page.locator("#sampled-two").is_hidden()
    page.focus("#sampled")
    page.keyboard.press("Space")
    page.wait_for_function(f"document.querySelectorAll('{lines}').length === 4")
    assert page.locator("#path .mark-line path").count() == 4
    widths = page.locator(lines).evaluate_all(
        "all => all.map((line) => parseFloat(getComputedStyle(line).strokeWidth))"
    )
    assert sorted(widths) == [1, 1, 2.5, 2.5]
    assert "One sampled run (seed 1): MSPBE" in page.inner_text("#sampled-two")
    assert "Thin lines: one sampled run, seed 1." in page.inner_text("figure:has(#errors)")
    shown = page.evaluate("window.explorer.state.rules.two.sampled.at(-1)")
    page.fill("#seed", "9")
    page.wait_for_function("window.explorer.state.seed === 9")
    redrawn(page)
    assert page.evaluate("window.explorer.state.rules.two.sampled.at(-1)") != shown
    assert "seed 9" in page.inner_text("#sampled-two")


def test_a_setting_can_be_linked_to(visit, path, browser):
    page = visit(path)
    page.select_option("#problem", "random_walk")
    page.select_option("#one", "TDC")
    put(page, gamma=0.95, x=0.3, y=0.8, lam=0.2, alpha=0.05, beta=0.5)
    page.check("#sampled")
    page.fill("#seed", "12")
    redrawn(page)
    url = page.evaluate("window.location.href")
    setting = {name: values[0] for name, values in parse_qs(urlsplit(url).fragment).items()}
    assert setting == {
        "problem": "random_walk", "one": "TDC", "two": "GTD2", "steps": "1000", "gamma": "0.95",
        "x": "0.3", "y": "0.8", "lam": "0.2", "alpha": "0.0501", "beta": "0.501", "seed": "12",
    }  # fmt: skip
    keys = ["gamma", "x", "y", "lam", "alpha", "beta", "problemName", "steps", "seed"]
    read = f"(({{ {', '.join(keys)} }}) => [{', '.join(keys)}])(window.explorer.state)"
    other = browser.new_page()
    other.goto(url)
    other.wait_for_selector("body[data-ready=yes]")
    assert other.evaluate(read) == page.evaluate(read)
    rules = "Object.values(window.explorer.state.rules).map((rule) => rule.name)"
    assert other.evaluate(rules) == page.evaluate(rules) == ["TDC(0.2)", "GTD2(0.2)"]
    assert other.evaluate("window.location.href") == url
    other.evaluate("window.location.hash = 'gamma=0.5&x=2&y=no&alpha=-1&problem=nothing&steps=7'")
    other.wait_for_function("window.explorer.state.gamma === 0.5")
    assert other.evaluate(read) == [0.5, 1, 0.8, 0.2, 0.0501, 0.501, "random_walk", 1000, 12]
    other.evaluate("window.location.hash = 'main'")
    other.wait_for_timeout(100)
    assert other.evaluate("window.explorer.state.gamma") == 0.5
    other.close()


def test_sliders_and_charts_are_above_the_fold(visit, path):
    page = visit(path, width=1280, height=900)
    for name in (
        "gamma",
        "x",
        "y",
        "lam",
        "alpha",
        "beta",
        "sampled",
        "errors",
        "spectrum",
        "path",
    ):
        box = page.locator(f"#{name}").bounding_box()
        assert box["y"] + box["height"] < 900, name
    page = visit(path, width=390, height=844)
    page.evaluate("window.scrollTo(0, document.getElementById('map').offsetTop)")
    for name in ("gamma", "x", "y", "lam", "alpha", "beta"):
        assert 0 <= page.locator(f"#{name}").bounding_box()["y"] < 300, name
