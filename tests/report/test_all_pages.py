"""Every page, opened from disk in a browser: drawn, silent, readable, usable by keyboard."""

from __future__ import annotations

import pytest

import saddleback as sb
from helpers import browser as checks
from helpers import logs
from saddleback.report import evaluation_page, explorer_page, read_results, study_page, write
from saddleback.sweep import run_study

PAGES = ("explorer", "evaluation", "study")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    texts = {"explorer": explorer_page(), "evaluation": evaluation_page(evaluation())}
    texts["study"] = study_page(comparison(folder / "store"))
    return {name: write(text, folder / f"{name}.html") for name, text in texts.items()}


def evaluation():
    """Two policies: one usable, and one refused, since its log has only eight episodes."""
    centres = sb.features.RBF([-3.0, -3.0], [3.0, 3.0], centres=3)

    def of(episodes, target):
        log = sb.Log(logs.columns([6] * episodes, "terminated", seed=3, following=False))
        return sb.evaluate(log, target, features=centres, gamma=0.9, path=True).as_dict()

    result = of(300, {"uniform": "uniform", "first": "always:0"})
    result["verdicts"][1] = of(8, {"first": "always:0"})["verdicts"][0]
    assert [verdict["trust"] for verdict in result["verdicts"]] == ["usable", "refused"]
    return result


STUDY = """
title = "two-state"
runs = 3
steps = 500
checkpoints = [0, 50, 100, 200, 300, 400]
grid = {alpha = {scale = 0.1, powers = [-5, 5]}, ratio = {scale = 0.1, powers = [-5, 5]}}
problem = [{name = "two_state", gamma = 0.99, rewards = [[1, -1], [0.5, 2]]}]
rule = [{name = "GES", lam = 0.5}, {name = "GQ", lam = 0.5}, {name = "ExpectedSarsa", lam = 0.5}]
"""


def comparison(folder):
    """Three rules on the two-state problem over a grid of step sizes, some of which diverge."""
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    run_study(folder / "study.toml", folder / "store")
    return read_results(folder / "store")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("theme", checks.THEMES)
@pytest.mark.parametrize("device", checks.WIDTHS)
def test_charts_are_drawn_and_the_page_is_readable_and_accessible(
    visit, pages, name, theme, device
):
    page = visit(pages[name], theme, checks.WIDTHS[device])
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    assert page.evaluate("document.documentElement.scrollWidth") <= checks.WIDTHS[device]
    for chart in page.locator(".chart").all():
        if chart.is_visible():
            assert chart.locator("svg [class*=mark-] > *").count() > 0, chart.get_attribute("id")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    # Colours depend on the theme, not on the width.
    violations, undecided = checks.axe(page, contrast=device == "desktop")
    assert violations == {}
    assert set(undecided) <= checks.REVIEWED
    contrasts = checks.contrasts(page)
    assert {mark["kind"] for mark in contrasts} == {"text", "line"}
    limits = {"text": 4.5, "line": 3.0}
    faint = [mark for mark in contrasts if mark["ratio"] < limits[mark["kind"]]]
    assert faint == []


@pytest.mark.parametrize("name", PAGES)
def test_the_keyboard_reaches_everything(visit, pages, name):
    page = visit(pages[name])
    missed, reached = checks.tab_walk(page)
    assert missed == []
    assert reached > 5


@pytest.mark.parametrize("name", PAGES)
def test_the_theme_changes_by_keyboard_and_print_is_light(visit, pages, name):
    page = visit(pages[name], "dark")
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.keyboard.press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#theme").is_visible()
    assert page.locator(".chart svg").first.is_visible()
    if name == "study":  # without controls, but with the legend
        assert page.locator(".rule").first.is_visible()
        assert not page.locator("#metric").is_visible()


@pytest.mark.slow  # the pages are made
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_small_and_load_nothing(pages, name):
    text = pages[name].read_text(encoding="utf-8")
    assert 8e5 < len(text.encode()) < 4e6
    assert " src=" not in text.partition("<script")[0]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_blocks_requests_and_injected_scripts(blank_page, pages, name):
    page = blank_page()
    page.goto(pages[name].as_uri())
    page.evaluate("""() => {
      window.blocked = [];
      document.addEventListener("securitypolicyviolation", (event) => {
        window.blocked.push(event.effectiveDirective);
      });
      const add = (tag, set) => {
        document.body.append(Object.assign(document.createElement(tag), set));
      };
      add("script", { textContent: "window.injected = 1" });
      add("img", { src: "http://127.0.0.1:9/x.png" });
      fetch("http://127.0.0.1:9/").catch(() => {});
    }""")
    page.wait_for_function("window.blocked.length >= 3")
    assert set(page.evaluate("window.blocked")) == {"script-src-elem", "img-src", "connect-src"}
    assert page.evaluate("window.injected") is None


def test_the_checks_detect_faults(blank_page, tmp_path):
    """The tests above can fail: a page with grey text, an unnamed control, one out of reach."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><title>x</title><body style='background:#fff'><main><input>"
        "<button tabindex='-1'>b</button><div class='chart'><svg><g class='mark-text'>"
        "<text fill='#ddd'>a</text></g><g class='mark-line'><path stroke='#eee' d='M0 0L9 9'/></g>"
        "</svg></div></main>"
    )
    page = blank_page()
    page.goto(path.as_uri())
    violations, _ = checks.axe(page)
    assert {"label", "html-has-lang"} <= set(violations)
    assert [round(mark["ratio"], 1) for mark in checks.contrasts(page)] == [1.4, 1.2]
    assert checks.tab_walk(page)[0] == ["b"]
