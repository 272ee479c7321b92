"""The page of a study in a browser: the numbers of the store, by mouse and by keyboard."""

from __future__ import annotations

import csv
import shutil

import numpy as np
import pyarrow as pa
import pytest

from helpers.study_store import ALPHAS, EVIL, POINTS, RATIOS, RULES, STUDY, rows
from saddleback.report import read_results, study_page, write
from saddleback.sweep import Store, parquet_bytes


def csv_rows(page, name):
    with page.expect_download() as caught:
        page.click(f"[data-csv={name}]")
    assert caught.value.suggested_filename == f"{name}.csv"
    with caught.value.path().open(newline="") as file:
        return list(csv.DictReader(file))


def redrawn(page):
    page.wait_for_selector("body[data-ready=yes]")


def test_tables_show_the_numbers_of_the_store(visit, path, folder):
    page = visit(path)
    results = {(r.problem, r.rule): r for r in read_results(folder).rules}
    for problem, metric in (("star & more", "mspbe"), ("walk", "norm")):
        page.select_option("#problem", problem)
        page.select_option("#metric", metric)
        redrawn(page)
        for row in csv_rows(page, "best"):
            result = results[problem, row["rule"]]
            i, j = result.best(metric)
            assert float(row["final mean"]) == pytest.approx(result.mean_final(metric)[i, j])
            ends = np.sort(result.final(metric)[:, i, j])
            assert float(row["median"]) == pytest.approx(ends[1])
            assert float(row["lower quartile"]) == pytest.approx(ends[:2].mean())
            assert float(row["upper quartile"]) == pytest.approx(ends[1:].mean())
            assert (float(row["α"]), float(row["β/α"])) == (ALPHAS[i], RATIOS[j])
            assert int(row["diverged"]) == int((result.diverged > 0).sum())
        page.click("section:has(#maps-title) summary")
        cells = csv_rows(page, "cells")
        assert len(cells) == len(RULES) * 6
        for row in cells:
            result, cell = results[problem, row["rule"]], int(row["cell"])
            i, j = divmod(cell, len(RATIOS))
            assert int(row["diverged"]) == result.diverged[i, j]
            mean = result.mean_final(metric)[i, j]
            assert (
                row["final"] == ""
                if result.diverged[i, j]
                else float(row["final"]) == pytest.approx(mean, rel=1e-5)
            )
        page.click("section:has(#maps-title) summary")
        page.click("section:has(#divergence-title) summary")
        assert len(csv_rows(page, "diverged")) == 4
        page.click("section:has(#divergence-title) summary")
    assert page.locator("#divergence tbody tr").all_inner_texts()[1].split("\t")[1:] == [
        "2", "6", "0.4", "0.1", "95",
    ]  # fmt: skip


def test_rules_may_have_different_grids(visit, tmp_path):
    """One over β/α, one with β = 0 and other α, and one that was not run with every pair."""
    table = rows("walk", 0).to_pylist()
    for row in table:
        if row["rule"] == "GES(0)":
            row["beta"], row["alpha"] = 0.0, row["alpha"] * (1 + row["beta"])
    table = [row for row in table if row["rule"] != EVIL or row["alpha"] != row["beta"]]
    with Store.open(tmp_path / "s", {}, "") as store:
        store.put("some", parquet_bytes(pa.Table.from_pylist(table)))
    results = {result.rule: result for result in read_results(tmp_path / "s").rules}
    first = results["GES(0)"]
    assert (first.omega_name, first.omega_steps.tolist()) == ("β", [0.0])
    assert results["GES(0.9)"].omega_name == "β/α"
    assert first.diverged.shape == (6, 1)
    page = visit(write(study_page(read_results(tmp_path / "s")), tmp_path / "x.html"))
    by_rule = {row["rule"]: row for row in csv_rows(page, "best")}
    assert by_rule["GES(0)"]["β"] == "0"
    assert by_rule["GES(0)"]["β/α"] == ""
    assert float(by_rule["GES(0.9)"]["β/α"]) in RATIOS
    assert by_rule["GES(0.9)"]["lower quartile"] == ""  # one run has no quartiles


def changed_page(change, tmp_path):
    """A store whose rows a function changed, or left out."""
    table = [row for row in map(change, rows("walk", 0).to_pylist()) if row is not None]
    with Store.open(tmp_path / "s", {"seed": 1}, "") as store:
        store.put("some", parquet_bytes(pa.Table.from_pylist(table)))
    return write(study_page(read_results(tmp_path / "s")), tmp_path / "x.html")


def test_only_the_lambdas_of_a_problem_can_be_selected(visit, folder, tmp_path):
    """The λ of another problem would select no rows, which must not be shown as divergence."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    table = [row for row in rows("third", 0).to_pylist() if row["rule"] == "GES(0)"]
    with Store.open(copy, STUDY, "") as store:
        store.put("third", parquet_bytes(pa.Table.from_pylist(table)))
    page = visit(write(study_page(read_results(copy)), tmp_path / "x.html"))
    page.select_option("#lam", "0.9")
    redrawn(page)
    page.select_option("#problem", "third")
    redrawn(page)
    assert page.locator("#lam option").all_inner_texts() == ["all", "0"]
    assert page.input_value("#lam") == ""
    assert page.inner_text("#curves-text").startswith(
        "Lowest final MSPBE (each rule's own): GES(0), "
    )
    page.uncheck('[data-rule="GES(0)"]')
    redrawn(page)
    assert (
        page.inner_text("#curves-text")
        == page.inner_text("#distribution-text")
        == "No rule is selected."
    )


def test_a_curve_that_reaches_zero_leaves_the_other_curves_visible(visit, tmp_path):
    def vanish(row):
        if row["rule"] == "GES(0)" and row["point"]:
            row["mspbe"] *= 0.0 if row["point"] > 100 else 1e-200
        return row

    page = visit(changed_page(vanish, tmp_path))
    assert "A curve that leaves the chart at the bottom goes to 0." in page.inner_text(
        "#curves-text"
    )
    ticks = page.locator("#curves .role-axis-label text").all_text_contents()
    assert {"10⁻¹⁶", "10⁻¹"} < set(ticks)
    assert "10⁻¹⁷" not in ticks
    assert lines(page) == 3
    assert page.inner_text("#scale-high").endswith("(log scale)")
    fills = page.locator("#map-1 .mark-rect").first.locator("path")
    assert len(set(fills.evaluate_all("all => all.map((each) => getComputedStyle(each).fill)"))) > 2
    assert lines(page, "distribution") == 3


def test_the_colour_scale_begins_at_the_lowest_value(visit, tmp_path):
    def outlier(row):
        if row["rule"] == "GES(0.9)" and row["alpha"] == 0.01:
            row["mspbe"] = 1e30
        return row

    page = visit(changed_page(outlier, tmp_path))
    lowest = min(float(row["final mean"]) for row in csv_rows(page, "best"))
    assert float(page.inner_text("#scale-low")) == pytest.approx(lowest, rel=0.01)


def test_a_diverged_setting_can_be_selected_and_its_curve_is_drawn(visit, tmp_path):
    def lose(row):
        row["diverged_at"] = 95
        if row["point"] >= 100:
            row["mspbe"] = row["norm"] = np.inf
        return row

    page = visit(changed_page(lose, tmp_path))
    assert "Every setting of these rules diverged" in page.inner_text("#curves-text")
    assert page.locator("#curves").is_hidden()
    assert page.locator("#scale").is_hidden()
    page.select_option("#selected-rule", "1")
    page.wait_for_function("document.getElementById('selected-text').textContent[0] === 'G'")
    page.wait_for_selector("#curves .mark-line path")
    assert page.locator("#curves").is_visible()


def test_rules_without_a_second_step_size_have_no_column_for_it(visit, tmp_path):
    def semi(row):
        if row["rule"] == "GES(0)":
            if row["beta"] != row["alpha"]:
                return None
            row["beta"] = np.nan
        return row

    page = visit(changed_page(semi, tmp_path))
    best = csv_rows(page, "best")
    assert list(best[0])[6:9] == ["upper quartile", "α", "β/α"]
    assert best[0]["β/α"] == ""
    page.select_option("#selected-rule", "1")
    page.wait_for_function("document.getElementById('selected-text').textContent[0] === 'G'")
    assert page.locator("#selected-omega").is_disabled()
    assert "β" not in page.inner_text("#selected-text")


def test_print_states_the_selection_and_cuts_no_table(visit, path):
    page = visit(path, width=688)
    page.emulate_media(media="print")
    assert page.inner_text("#print-text") == "Shown: star & more; MSPBE (each rule's own); λ: all."
    for name in ("best", "divergence"):
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
    redrawn(page)
    assert page.input_value("#lam") == "0"
    assert lines(page) == 1
    page.keyboard.press("ArrowUp")
    redrawn(page)
    page.focus(f'[data-rule="{EVIL}"]')
    page.keyboard.press("Space")
    redrawn(page)
    assert lines(page) == lines(page, "distribution") == page.locator("#maps figure").count() == 2
    before = page.text_content("#curves svg")
    page.focus("#y-axis")
    page.keyboard.press("ArrowDown")
    redrawn(page)
    assert page.text_content("#curves svg") != before
    page.focus("#x-axis")
    page.keyboard.press("ArrowDown")
    redrawn(page)
    assert "100" in page.text_content("#curves svg")
    assert page.locator("#selected-alpha").is_disabled()
    page.focus("#selected-rule")
    page.keyboard.press("ArrowDown")
    text = "document.getElementById('selected-text').textContent"
    page.wait_for_function(f"{text}.startsWith('GES(0), α = ')")  # its best setting
    best = csv_rows(page, "best")[0]
    steps = f"α = {best['α']}, β/α = {best['β/α']}: final MSPBE (each"
    assert steps in page.inner_text("#selected-text")
    page.focus("#selected-alpha")
    page.keyboard.press("End")
    page.wait_for_function(f"{text}.includes('α = 0.4, ')")
    assert lines(page) == 3
    page.focus("#selected-rule")
    page.keyboard.press("ArrowUp")
    page.wait_for_function(f"{text} === 'No setting is selected.'")
    assert lines(page) == 2


def test_the_distribution_counts_settings_at_or_below_a_value(visit, path, folder):
    page = visit(path)
    page.select_option("#problem", "walk")
    redrawn(page)
    page.click("section:has(#distribution-title) summary")
    table = csv_rows(page, "distribution")
    for result in read_results(folder).rules:
        if result.problem == "walk":
            ends = result.mean_final("mspbe").ravel()
            steps = [row for row in table if row["rule"] == result.rule]
            assert len(steps) == np.isfinite(ends).sum()
            for row in steps:
                count = (ends <= float(row["value"]) * (1 + 1e-5)).sum()
                assert int(row["count"]) == count
                assert float(row["share"]) == count / ends.size


def test_settings_that_end_at_zero_count(visit, tmp_path):
    """No logarithm is taken of 0, and the setting is not lost."""
    table = [row for row in rows("walk", 0).to_pylist() if row["rule"] == "GES(0)"]
    for row in table:
        row["norm"] *= row["alpha"] > 0.01
    with Store.open(tmp_path / "s", {}, "") as store:
        store.put("some", parquet_bytes(pa.Table.from_pylist(table)))
    page = visit(write(study_page(read_results(tmp_path / "s")), tmp_path / "x.html"))
    page.select_option("#metric", "norm")
    redrawn(page)
    page.click("section:has(#distribution-title) summary")
    steps = [(float(row["value"]) > 0, row["count"]) for row in csv_rows(page, "distribution")]
    assert steps == [(k > 2, str(k)) for k in range(1, 7)]
    assert lines(page, "distribution") == 1
    ticks = page.locator("#distribution .role-axis-label text").all_text_contents()
    assert "100%" in ticks
    assert "0 (not visible on a logarithmic axis)" in page.inner_text("#curves-text")
    assert page.locator("#curves").is_hidden()
    page.select_option("#y-axis", "linear")
    redrawn(page)
    assert page.inner_text("#curves-text") == "Lowest final ‖θ‖: GES(0), 0."
    assert lines(page) == 1


def test_a_cell_selects_its_curve_and_a_rule_is_highlighted_everywhere(visit, path):
    page = visit(path)
    boxes = page.locator("#map-1 .mark-rect").last.locator("path")
    boxes.nth(5).click()
    page.wait_for_function(
        "document.getElementById('selected-text').textContent.includes('diverged in 1 of 3')"
    )
    assert "α = 0.4, β/α = 1: diverged in 1 of 3 runs, first at update 95" in page.inner_text(
        "#selected-text"
    )
    assert page.input_value("#selected-rule") == "2"
    widths = boxes.evaluate_all("all => all.map((each) => getComputedStyle(each).strokeWidth)")
    assert widths == ["0px"] * 5 + ["2px"]
    fill = "all => all.map((each) => getComputedStyle(each).fill)"
    first = page.locator("#map-2 .mark-rect").first.locator("path").evaluate_all(fill)
    page.select_option("#colours", "own")
    redrawn(page)
    own = page.locator("#map-2 .mark-rect").first.locator("path").evaluate_all(fill)
    assert own != first
    assert "rgb(36, 60, 110)" in own  # the lowest of a rule is the darkest
    assert page.inner_text("#scale-low") == "lowest of the rule"
    page.click("section:has(#curves-title) summary")
    curves = csv_rows(page, "curves")
    chosen = [row for row in curves if row["setting"] == "selected"]
    assert {(row["rule"], row["α"], row["β/α"]) for row in chosen} == {("GES(0.9)", "0.4", "1")}
    assert {(row["problem"], row["metric"]) for row in curves} == {("star & more", "mspbe")}
    assert [int(row["point"]) for row in chosen] == list(range(0, 100, 10))
    assert sum(row["setting"] == "best" for row in curves) == len(RULES) * len(POINTS)
    page.locator("label.rule").nth(0).hover()
    page.wait_for_selector("#maps figure.highlighted")
    page.wait_for_function("""[...document.querySelectorAll('#distribution .mark-line path')]
        .map((each) => getComputedStyle(each).opacity).join() === '1,0.35,0.35'""")
    assert page.locator("#maps figure.highlighted h3").inner_text() == "GES(0)"


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


def test_curves_that_coincide_are_all_visible_and_named(visit, tmp_path):
    """GES(0.9) takes the values of GES(0): its line is drawn on a wider one."""
    values = {
        (row["alpha"], row["beta"], row["point"]): row
        for row in rows("walk", 0).to_pylist()
        if row["rule"] == "GES(0)"
    }

    def copy(row):
        if row["rule"] == "GES(0.9)":
            return values[row["alpha"], row["beta"], row["point"]] | {"rule": "GES(0.9)"}
        return row

    page = visit(changed_page(copy, tmp_path))
    for chart, text in (("curves", "#curves-text"), ("distribution", "#distribution-text")):
        widths = page.locator(f"#{chart} .mark-line path").evaluate_all(
            "all => all.map((line) => parseFloat(getComputedStyle(line).strokeWidth))"
        )
        assert widths == [5.2, 2.2, 2.2]
        assert "coincide (within 1%): GES(0) and GES(0.9)." in page.inner_text(text)
    page.uncheck('[data-rule="GES(0)"]')
    redrawn(page)
    assert "coincide" not in page.inner_text("#curves-text")


def test_labels_of_axes_are_upright_and_the_last_tick_has_one(visit, path):
    page = visit(path)
    for k in range(len(RULES)):
        turned = page.locator(f"#map-{k} .role-axis-label text").evaluate_all(
            "all => all.filter((label) => label.getAttribute('transform').includes('rotate'))"
        )
        assert turned == []
    labels = page.locator("#curves .role-axis-label text").evaluate_all(
        "all => all.filter((each) => getComputedStyle(each).opacity !== '0')"
        ".map((each) => each.textContent)"
    )
    assert {"0", "50", "100", "150", "200"} <= set(labels)
