"""The explorer in a browser: controls, sentences, links, downloads and the code it shows."""

from __future__ import annotations

import csv
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import saddleback as sb
from helpers import browser as checks
from helpers.explorer import MAKE, applicable_rules, interpolated, named_rule
from saddleback.report import explorer_html, explorer_page, write
from saddleback.theory import MeanStability


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(explorer_page(), tmp_path_factory.mktemp("explorer") / "explorer.html")


def test_the_page_holds_these_problems_and_is_small():
    assert set(explorer_html.problems()) == set(MAKE)
    for name, (_, _, problem, _) in explorer_html.problems().items():
        assert np.array_equal(problem.features, MAKE[name](0.5).features)
    assert len(explorer_page().encode()) < 4e6


def redrawn(page):
    page.wait_for_selector("body[data-ready=yes]")


def test_the_tour_shows_the_three_legs(visit, path):
    page = visit(path)
    outcomes = {}
    for k in range(6):
        page.locator(".step").nth(k).click()
        page.wait_for_function(f"document.querySelectorAll('.step')[{k}].ariaPressed === 'true'")
        redrawn(page)
        outcomes[k] = [page.inner_text(f"#outcome-{place}")[2:] for place in ("one", "two")]
    yes, no = "converges in expectation", "diverges"
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
    assert page.inner_text("#outcome-two") == "✓ converges in expectation"
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
    """γ to 0.9: the eigenvalue moves left, to the value of the library."""
    page = visit(path)
    assert "+0.2203" in page.inner_text("#offline-one")
    assert "α < 0.4477" in page.inner_text("#rate-two")
    put(page, gamma=0.905)
    page.focus("#gamma")
    for _ in range(5):
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
    put(page, **{slider: 0.45})
    page.focus(f"#{slider}")
    for _ in range(5):
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
            assert listed == applicable_rules(name)
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
        redrawn(page)
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


@pytest.mark.parametrize("theme", checks.THEMES)
def test_the_page_with_a_sampled_run_is_readable_and_accessible(visit, path, theme):
    page = visit(path, theme)
    page.check("#sampled")
    page.wait_for_function("document.querySelectorAll('#path .mark-line path').length === 4")
    violations, undecided = checks.axe(page)
    assert violations == {}
    assert set(undecided) <= checks.REVIEWED
    limits = {"text": 4.5, "line": 3.0}
    faint = [mark for mark in checks.contrasts(page) if mark["ratio"] < limits[mark["kind"]]]
    assert faint == []


def test_a_sampled_run_that_grows_is_explained(visit, path):
    """GES converges in expectation, but not in mean square: its sampled run grows."""
    page = visit(path)
    page.select_option("#problem", "baird_paper")
    page.select_option("#steps", "10000")
    put(page, gamma=0.9, y=0.5, alpha=0.1, beta=0.2)
    page.fill("#seed", "4")
    page.check("#sampled")
    page.wait_for_function("window.explorer.state.rules.two.sampled?.at(-1).step > 100")
    redrawn(page)
    assert page.inner_text("#outcome-two") == "✓ converges in expectation"
    assert "can diverge although its mean converges." in page.inner_text("#sampled-two")
    assert "although" not in page.inner_text("#sampled-one")


def test_a_setting_can_be_linked_to(visit, path, blank_page):
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
    other = blank_page()
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
    other.goto("about:blank")
    other.goto(url.split("#")[0] + "#gamma=0.5&alpha=abc")
    other.wait_for_selector("body[data-ready=yes]")
    assert other.evaluate(read)[:6] == [0.5, 1, 1, 0.5, 0.2, 0.2], "defaults for the rest"


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
