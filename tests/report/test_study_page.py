"""The page of a study in a browser: the numbers of the store, by mouse and by keyboard."""

from __future__ import annotations

import csv
import shutil

import numpy as np
import pyarrow as pa
import pytest

from helpers.study_store import ALPHAS, EVIL, POINTS, RATIOS, RULES, STUDY, rows
from saddleback.report import read_results, study_page, write
from saddleback.sweep import Store, packed


def rows_of(page, name):
    with page.expect_download() as caught:
        page.click(f"[data-csv={name}]")
    assert caught.value.suggested_filename == f"{name}.csv"
    with caught.value.path().open(newline="") as file:
        return list(csv.DictReader(file))


def settle(page):
    page.wait_for_timeout(50)
    page.wait_for_selector("body[data-ready=yes]")


def test_what_is_shown_is_what_the_store_says(visit, path, folder):
    page = visit(path)
    found = {(each.problem, each.rule): each for each in read_results(folder).learned}
    for problem, metric in (("star & more", "mspbe"), ("walk", "norm")):
        page.select_option("#problem", problem)
        page.select_option("#metric", metric)
        settle(page)
        for row in rows_of(page, "best"):
            each = found[problem, row["rule"]]
            i, j = each.best(metric)
            assert float(row["at the end"]) == pytest.approx(each.mean_final(metric)[i, j])
            assert float(row["from"]) < float(row["at the end"]) < float(row["to"])
            assert (float(row["α"]), float(row["β/α"])) == (ALPHAS[i], RATIOS[j])
            assert int(row["diverged"]) == int((each.diverged > 0).sum())
        page.click("section:has(#maps-title) summary")
        cells = rows_of(page, "cells")
        assert len(cells) == len(RULES) * 6
        for row in cells:
            each, cell = found[problem, row["rule"]], int(row["cell"])
            i, j = divmod(cell, len(RATIOS))
            assert int(row["diverged"]) == each.diverged[i, j]
            wanted = each.mean_final(metric)[i, j]
            assert (
                row["final"] == ""
                if each.diverged[i, j]
                else float(row["final"]) == pytest.approx(wanted, rel=1e-5)
            )
        page.click("section:has(#maps-title) summary")
        page.click("section:has(#gone-title) summary")
        assert len(rows_of(page, "diverged")) == 4
        page.click("section:has(#gone-title) summary")
    assert page.locator("#gone tbody tr").all_inner_texts()[1].split("\t")[1:] == [
        "2", "6", "0.4", "0.1", "95",
    ]  # fmt: skip


def test_rules_may_have_grids_of_their_own(visit, tmp_path):
    """One over β/α, one with β = 0 and other α, and one that was not run with every pair."""
    table = rows("walk", 0).to_pylist()
    for row in table:
        if row["rule"] == "GES(0)":
            row["beta"], row["alpha"] = 0.0, row["alpha"] * (1 + row["beta"])
    table = [row for row in table if row["rule"] != EVIL or row["alpha"] != row["beta"]]
    with Store.open(tmp_path / "s", {}, "") as store:
        store.put("some", packed(pa.Table.from_pylist(table)))
    found = {each.rule: each for each in read_results(tmp_path / "s").learned}
    assert (found["GES(0)"].second, found["GES(0)"].seconds.tolist()) == ("β", [0.0])
    assert found["GES(0.9)"].second == "β/α"
    assert found["GES(0)"].diverged.shape == (6, 1)
    page = visit(write(study_page(read_results(tmp_path / "s")), tmp_path / "x.html"))
    by_rule = {row["rule"]: row for row in rows_of(page, "best")}
    assert by_rule["GES(0)"]["β"] == "0"
    assert by_rule["GES(0)"]["β/α"] == ""
    assert float(by_rule["GES(0.9)"]["β/α"]) in RATIOS
    assert by_rule["GES(0.9)"]["from"] == ""  # one run has no interval


def odd(changed, tmp_path):
    """A store whose rows a function changed, or left out."""
    table = [row for row in map(changed, rows("walk", 0).to_pylist()) if row is not None]
    with Store.open(tmp_path / "s", {"seed": 1}, "") as store:
        store.put("some", packed(pa.Table.from_pylist(table)))
    return write(study_page(read_results(tmp_path / "s")), tmp_path / "x.html")


def test_only_what_a_problem_has_can_be_chosen(visit, folder, tmp_path):
    """The λ of another problem would leave nothing, and nothing is not divergence."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    table = [row for row in rows("third", 0).to_pylist() if row["rule"] == "GES(0)"]
    with Store.open(copy, STUDY, "") as store:
        store.put("third", packed(pa.Table.from_pylist(table)))
    page = visit(write(study_page(read_results(copy)), tmp_path / "x.html"))
    page.select_option("#lam", "0.9")
    settle(page)
    page.select_option("#problem", "third")
    settle(page)
    assert page.locator("#lam option").all_inner_texts() == ["all", "0"]
    assert page.input_value("#lam") == ""
    assert page.inner_text("#curves-words").startswith("Least MSPBE at the end: GES(0), ")
    page.uncheck('[data-rule="GES(0)"]')
    settle(page)
    assert (
        page.inner_text("#curves-words") == page.inner_text("#grid-words") == "No rule is chosen."
    )


def test_a_learner_that_reaches_nothing_spoils_no_chart(visit, tmp_path):
    def vanish(row):
        if row["rule"] == "GES(0)" and row["point"]:
            row["mspbe"] *= 0.0 if row["point"] > 100 else 1e-200
        return row

    page = visit(odd(vanish, tmp_path))
    assert "A curve that leaves the picture below goes to 0." in page.inner_text("#curves-words")
    ticks = page.locator("#curves .role-axis-label text").all_text_contents()
    powers = [int(tick[2:].replace("−", "-")) for tick in ticks if tick.startswith("1e")]
    assert min(powers) == -16
    assert lines(page) == 3
    assert page.inner_text("#scale-high").endswith("and more, logarithmic")
    fills = page.locator("#map-1 .mark-rect").first.locator("path")
    assert len(set(fills.evaluate_all("all => all.map((each) => getComputedStyle(each).fill)"))) > 2
    assert lines(page, "grid") == 3


def test_colours_begin_at_the_least_whatever_the_worst(visit, tmp_path):
    def outlier(row):
        if row["rule"] == "GES(0.9)" and row["alpha"] == 0.01:
            row["mspbe"] = 1e30
        return row

    page = visit(odd(outlier, tmp_path))
    least = min(float(row["at the end"]) for row in rows_of(page, "best"))
    assert float(page.inner_text("#scale-low")) == pytest.approx(least, rel=0.01)


def test_a_chosen_curve_is_seen_where_no_setting_is_good(visit, tmp_path):
    def lose(row):
        row["diverged_at"] = 95
        if row["point"] >= 100:
            row["mspbe"] = row["norm"] = np.inf
        return row

    page = visit(odd(lose, tmp_path))
    assert "Every setting of these rules diverged" in page.inner_text("#curves-words")
    assert page.locator("#curves").is_hidden()
    assert page.locator("#scale").is_hidden()
    page.select_option("#pick-rule", "1")
    page.wait_for_function("document.getElementById('picked-words').textContent[0] === 'G'")
    page.wait_for_selector("#curves .mark-line path")
    assert page.locator("#curves").is_visible()


def test_rules_without_a_second_step_size_have_no_column_for_it(visit, tmp_path):
    def semi(row):
        if row["rule"] == "GES(0)":
            if row["beta"] != row["alpha"]:
                return None
            row["beta"] = np.nan
        return row

    page = visit(odd(semi, tmp_path))
    best = rows_of(page, "best")
    assert list(best[0])[5:8] == ["to", "α", "β/α"]
    assert best[0]["β/α"] == ""
    page.select_option("#pick-rule", "1")
    page.wait_for_function("document.getElementById('picked-words').textContent[0] === 'G'")
    assert page.locator("#pick-second").is_disabled()
    assert "β" not in page.inner_text("#picked-words")


def test_print_says_what_is_shown_and_cuts_nothing(visit, path):
    page = visit(path, width=688)
    page.emulate_media(media="print")
    assert page.inner_text("#shown-words") == "Shown: problem star & more, MSPBE, λ all."
    for name in ("best", "gone"):
        assert page.evaluate(f"document.getElementById('{name}').scrollWidth") <= 688


def test_diverged_cells_are_crossed_and_never_coloured(visit, path):
    page = visit(path)
    for k in range(len(RULES)):
        crosses = page.locator(f"#map-{k} .mark-text.role-mark text").all_text_contents()
        coloured = page.locator(f"#map-{k} .mark-rect").first.locator("path").count()
        assert crosses == ["✕"] * (2 if k else 0)
        assert coloured + len(crosses) == 6
    assert page.locator("#maps figcaption").all_inner_texts() == [
        "None diverged.", "2 of 6 diverged.", "2 of 6 diverged.",
    ]  # fmt: skip


def lines(page, chart="curves"):
    return page.locator(f"#{chart} .mark-line path").count()


def test_controls_work_by_keyboard(visit, path):
    page = visit(path)
    assert lines(page) == 3
    page.focus("#lam")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert page.input_value("#lam") == "0"
    assert lines(page) == 1
    page.keyboard.press("ArrowUp")
    settle(page)
    page.focus(f'[data-rule="{EVIL}"]')
    page.keyboard.press("Space")
    settle(page)
    assert lines(page) == lines(page, "grid") == page.locator("#maps figure").count() == 2
    before = page.text_content("#curves svg")
    page.focus("#y-axis")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert page.text_content("#curves svg") != before
    page.focus("#x-axis")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert "100" in page.text_content("#curves svg")
    assert page.locator("#pick-alpha").is_disabled()
    page.focus("#pick-rule")
    page.keyboard.press("ArrowDown")
    said = "document.getElementById('picked-words').textContent"
    page.wait_for_function(f"{said}.startsWith('GES(0), α = ')")  # its best setting
    best = rows_of(page, "best")[0]
    assert f"α = {best['α']}, β/α = {best['β/α']}: MSPBE at the" in page.inner_text("#picked-words")
    page.focus("#pick-alpha")
    page.keyboard.press("End")
    page.wait_for_function(f"{said}.includes('α = 0.4, ')")
    assert lines(page) == 3
    page.focus("#pick-rule")
    page.keyboard.press("ArrowUp")
    page.wait_for_function(f"{said} === 'No setting is chosen.'")
    assert lines(page) == 2


def test_the_distribution_counts_what_ends_at_or_below(visit, path, folder):
    page = visit(path)
    page.select_option("#problem", "walk")
    settle(page)
    page.click("section:has(#grid-title) summary")
    found = rows_of(page, "steps")
    for each in read_results(folder).learned:
        if each.problem == "walk":
            ends = each.mean_final("mspbe").ravel()
            mine = [row for row in found if row["rule"] == each.rule]
            assert len(mine) == np.isfinite(ends).sum()
            for row in mine:
                count = (ends <= float(row["value"]) * (1 + 1e-5)).sum()
                assert int(row["count"]) == count
                assert float(row["share"]) == count / ends.size


def test_settings_that_end_at_nothing_count(visit, tmp_path):
    """No logarithm is taken of 0, and the setting is not lost."""
    table = [row for row in rows("walk", 0).to_pylist() if row["rule"] == "GES(0)"]
    for row in table:
        row["norm"] *= row["alpha"] > 0.01
    with Store.open(tmp_path / "s", {}, "") as store:
        store.put("some", packed(pa.Table.from_pylist(table)))
    page = visit(write(study_page(read_results(tmp_path / "s")), tmp_path / "x.html"))
    page.select_option("#metric", "norm")
    settle(page)
    page.click("section:has(#grid-title) summary")
    found = [(float(row["value"]) > 0, row["count"]) for row in rows_of(page, "steps")]
    assert found == [(k > 2, str(k)) for k in range(1, 7)]
    assert lines(page, "grid") == 1
    ticks = page.locator("#grid .role-axis-label text").all_text_contents()
    assert "100%" in ticks
    assert "0: a logarithmic axis cannot show it" in page.inner_text("#curves-words")
    assert page.locator("#curves").is_hidden()
    page.select_option("#y-axis", "linear")
    settle(page)
    assert page.inner_text("#curves-words") == "Least ‖θ‖ at the end: GES(0), 0."
    assert lines(page) == 1


def test_a_cell_lights_its_curve_and_a_rule_all_its_charts(visit, path):
    page = visit(path)
    boxes = page.locator("#map-1 .mark-rect").last.locator("path")
    boxes.nth(5).click()
    page.wait_for_function(
        "document.getElementById('picked-words').textContent.includes('diverged in 1 of 3')"
    )
    assert "α = 0.4, β/α = 1: diverged in 1 of 3 runs, first at update 95" in page.inner_text(
        "#picked-words"
    )
    assert page.input_value("#pick-rule") == "2"
    widths = boxes.evaluate_all("all => all.map((each) => getComputedStyle(each).strokeWidth)")
    assert widths == ["0px"] * 5 + ["2px"]
    fill = "all => all.map((each) => getComputedStyle(each).fill)"
    first = page.locator("#map-2 .mark-rect").first.locator("path").evaluate_all(fill)
    page.select_option("#colours", "own")
    settle(page)
    own = page.locator("#map-2 .mark-rect").first.locator("path").evaluate_all(fill)
    assert own != first
    assert "rgb(253, 231, 37)" in own  # the least of a rule is the brightest
    assert page.inner_text("#scale-low") == "least of the rule"
    page.click("section:has(#curves-title) summary")
    curves = rows_of(page, "curves")
    chosen = [row for row in curves if row["setting"] == "chosen"]
    assert {(row["rule"], row["α"], row["β/α"]) for row in chosen} == {("GES(0.9)", "0.4", "1")}
    assert {(row["problem"], row["metric"]) for row in curves} == {("star & more", "mspbe")}
    assert [int(row["point"]) for row in chosen] == list(range(0, 100, 10))
    assert sum(row["setting"] == "best" for row in curves) == len(RULES) * len(POINTS)
    page.locator("label.rule").nth(0).hover()
    page.wait_for_selector("#maps figure.lit")
    page.wait_for_function("""[...document.querySelectorAll('#grid .mark-line path')]
        .map((each) => getComputedStyle(each).opacity).join() === '1,0.35,0.35'""")
    assert page.locator("#maps figure.lit h3").inner_text() == "GES(0)"


def test_names_made_of_html_are_text(visit, path):
    page = visit(path, width=390)
    assert page.evaluate("window.hacked") is None
    assert page.inner_text("h1") == "a <b>sweep</b>"
    assert page.locator("main img, main script").count() == 0
    assert EVIL in page.inner_text("fieldset")
    page.locator("#map-2 .mark-rect").last.locator("path").first.hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert EVIL in page.inner_text("#vg-tooltip-element")
    assert page.evaluate("window.hacked") is None
