"""The page of a study: the numbers of the store, worked by mouse and keyboard; and bad stores."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from scipy.stats import t as student

import saddleback as sb
from saddleback.cli.group import group
from saddleback.paper.comparison import Comparison, Grid
from saddleback.report import page as page_module
from saddleback.report import read_results, study_html, study_page, write
from saddleback.sweep import Store, parquet_bytes, run_study, run_tasks, threads

EVIL = "<img src=x onerror='window.hacked=1'>(0.5)"
RULES = ("GES(0)", "GES(0.9)", EVIL)
ALPHAS, RATIOS, POINTS, RUNS = (0.01, 0.1, 0.4), (0.25, 1.0), tuple(range(0, 210, 10)), 3


def rows(problem, run, seed=0):
    """Curves that fall from 1 and end at a level of their own; the largest α diverges in run 1."""
    rng = np.random.default_rng([seed, run, len(problem)])
    found = []
    for rule in RULES:
        for alpha in ALPHAS:
            for ratio in RATIOS:
                gone = alpha == 0.4 and run == 1 and rule != "GES(0)"
                floor = alpha * (1 + ratio) * (1 + 0.2 * rng.random()) * (2 if rule == EVIL else 1)
                for point in POINTS:
                    value = floor + np.exp(-alpha * point)
                    left = gone and point >= 100
                    found.append({
                        "problem": problem, "rule": rule, "run": run, "point": point,
                        "updates": point, "alpha": alpha, "beta": alpha * ratio,
                        "diverged_at": 95 if gone else -1,
                        "mspbe": np.inf if left else value, "norm": np.inf if left else 3 * value,
                    })  # fmt: skip
    return pa.Table.from_pylist(found)


STUDY = {"name": "a <b>sweep</b>", "seed": 7, "steps": 200}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store as a sweep leaves it."""
    where = tmp_path_factory.mktemp("study") / "sweep"
    with Store.open(where, STUDY, "saddleback sweep x.toml --out sweep") as store:
        for run in range(RUNS):
            for problem in ("walk", "star & more"):
                store.put(f"{problem[:4]}-{run}", parquet_bytes(rows(problem, run)))
        other = pa.table({"rule": ["GES"], "mse": [1.0]})  # of another kind: passed over
        store.put("beside", parquet_bytes(other))
    return where


@pytest.fixture(scope="module")
def path(folder):
    return write(study_page(read_results(folder)), folder.parent / "study.html")


def test_arrays_are_the_rows(folder):
    found = read_results(folder)
    assert found.metrics == ("mspbe", "norm")
    assert [(each.problem, each.rule) for each in found.learned] == [
        (problem, rule) for problem in ("star & more", "walk") for rule in RULES
    ]
    each = next(one for one in found.learned if one.problem == "walk" and one.rule == "GES(0.9)")
    assert (each.lam, each.second) == (0.9, "β/α")
    assert each.alphas.tolist() == list(ALPHAS)
    assert each.seconds.tolist() == list(RATIOS)
    table = pa.concat_tables([rows("walk", run) for run in range(RUNS)]).to_pylist()
    for row in table[::37]:
        if row["rule"] == each.rule:
            at = (row["run"], POINTS.index(row["point"]), ALPHAS.index(row["alpha"]))
            value = each.values["norm"][(*at, RATIOS.index(row["beta"] / row["alpha"]))]
            assert value == row["norm"]
    assert each.diverged.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert np.isinf(each.mean_final("mspbe")[2]).all()


def test_results_of_the_paper_are_read_as_the_paper_reads_them(tmp_path):
    problem = sb.problems.two_state(0.99, rewards=[[1, -1], [0.5, 2]])
    rules = {"GES": sb.GES(0.5), "Expected Sarsa": sb.ExpectedSarsa(0.5)}
    grid = Grid((0.01, 0.1, 2.0), (0.1, 1.0))
    made = Comparison(
        "paper-some", lambda: problem, rules, grid, 300, "steps", (0, 10, 50, 100, 200, 300), 3, 5,
        0.0, lambda rule: {"mspbe": sb.System.exact(problem, rule).mspbe},
    )  # fmt: skip
    study = {"experiment": "x", "choices": {"runs": 9}, "paper-some": made.study()}
    with Store.open(tmp_path / "s", study, "saddleback paper x") as store, threads(1) as place:
        run_tasks(made.tasks(), store, place)
    wanted, found = made.results(store), read_results(tmp_path / "s")
    assert [each.rule for each in found.learned] == list(rules)
    assert {each.problem for each in found.learned} == {"paper-some"}
    assert [each.lam for each in found.learned] == [0.5, 0.5]
    for index, each in enumerate(found.learned):
        columns = len(each.seconds)
        assert columns == (1 if each.rule == "Expected Sarsa" else 2)  # there β does nothing
        assert np.array_equal(each.mean_final("mspbe"), wanted.final(index, "mspbe")[:, :columns])
        assert np.array_equal(each.diverged, wanted.diverged(index)[:, :columns])
        assert each.best("mspbe") == wanted.best(index, "mspbe")
    assert found.learned[1].diverged.any()
    assert (found.done, found.tasks, found.missing) == (3, 3, ())
    text = study_page(found)
    assert "saddleback paper x" in text
    assert "A quick run:" not in text
    quick = replace(
        found, manifest=dict(found.manifest) | {"command": "saddleback paper x --quick"}
    )
    assert "A quick run:" in study_page(quick)
    assert "its only run" not in text
    assert "Seeds: 5;" in text
    assert study_page(found).count("1 problem: 9 settings, 3 runs each.") == 1


def test_best_settings_have_students_interval(folder):
    each = read_results(folder).learned[0]
    found = study_html.best(each, "mspbe", np.arange(len(each.points)))
    i, j = each.best("mspbe")
    ends = each.final("mspbe")[:, i, j]
    low, high = student.interval(0.95, RUNS - 1, ends.mean(), ends.std(ddof=1) / np.sqrt(RUNS))
    assert found["mean"] - found["half"] == pytest.approx(low)
    assert found["mean"] + found["half"] == pytest.approx(high)
    assert found["cell"] == i * len(RATIOS) + j
    assert found["low"][-1] == pytest.approx(each.values["mspbe"][:, -1, i, j].min(), rel=1e-5)


def test_too_much_is_thinned_and_then_refused(folder, tmp_path, monkeypatch):
    found = read_results(folder)
    assert study_html.thinning(found) == 1
    monkeypatch.setattr(study_html, "ROOM", 10_000)
    stride = study_html.thinning(found)
    table = study_html.table(found.learned[0], ["mspbe"], stride)
    assert stride > 1
    assert table["points"][-1] == POINTS[-1]
    assert np.diff(table["points"]).max() == 10 * stride
    assert f"one point in {stride}" in study_page(found)
    few = rows("walk", 0).to_pylist()[:1] * 30_000
    for k, row in enumerate(few):
        few[k] = row | {"point": k, "updates": k}
    monkeypatch.undo()
    with Store.open(tmp_path / "long", {}, "") as store:
        store.put("some", parquet_bytes(pa.Table.from_pylist(few)))
    assert len(study_page(read_results(tmp_path / "long"))) < 3.2e6  # thinned until it fits
    monkeypatch.setattr(page_module, "LARGEST", 900_000)
    with pytest.raises(sb.errors.InvalidParameter, match=r"take 0\.9 MB|take 1\.0 MB"):
        study_page(found)


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
        store.put("some", parquet_bytes(pa.Table.from_pylist(table)))
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
        store.put("some", parquet_bytes(pa.Table.from_pylist(table)))
    return write(study_page(read_results(tmp_path / "s")), tmp_path / "x.html")


def test_only_what_a_problem_has_can_be_chosen(visit, folder, tmp_path):
    """The λ of another problem would leave nothing, and nothing is not divergence."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    table = [row for row in rows("third", 0).to_pylist() if row["rule"] == "GES(0)"]
    with Store.open(copy, STUDY, "") as store:
        store.put("third", parquet_bytes(pa.Table.from_pylist(table)))
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
        store.put("some", parquet_bytes(pa.Table.from_pylist(table)))
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


def test_how_it_was_made_is_said(path):
    text = path.read_text(encoding="utf-8")
    assert "saddleback sweep x.toml --out sweep" in text
    assert "Seeds: 7;" in text
    assert f"saddleback {sb.__version__}" in text
    assert re.search(r"Hash of the choices: <code>[0-9a-f]{16}</code>", text)


def run(*arguments):
    return CliRunner().invoke(group, [str(each) for each in arguments])


def refused(*arguments):
    done = run("report", *arguments)
    assert done.exit_code == 2, done.output
    return " ".join(done.stderr.split())


def test_the_command_writes_beside_the_results_or_where_it_is_told(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    done = run("report", copy)
    assert done.stdout == f"wrote {copy / 'report.html'}\n"
    assert (copy / "report.html").stat().st_size < 4e6
    assert run("report", copy, "--out", tmp_path / "x.html").exit_code == 0
    assert (tmp_path / "x.html").exists()


def test_bad_stores(folder, tmp_path):
    assert "holds no results: no such file or folder." in refused(tmp_path / "none")
    assert "it has no manifest.json, which saddleback sweep" in refused(tmp_path)
    assert f"Did you mean {folder}?" in refused(folder / "shards")
    shutil.copytree(folder, tmp_path / "two" / "one")
    assert run("report", tmp_path / "two", "--out", tmp_path / "one.html").exit_code == 0
    shutil.copytree(folder, tmp_path / "two" / "two")
    assert f"choose one of them, {tmp_path / 'two' / 'one'}" in refused(tmp_path / "two")
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shard = sorted((copy / "shards").iterdir())[0]
    shard.write_bytes(shard.read_bytes()[:200])
    assert "is damaged. Run the study again" in refused(copy)
    for each in (copy / "shards").iterdir():
        each.unlink()
    assert "holds no finished task yet" in refused(copy)
    Store.load(copy).put("other", parquet_bytes(pa.table({"square": [1.0]})))
    assert "results of another kind, without run, rule, point" in refused(copy)
    Store.load(copy).put("other", parquet_bytes(rows("walk", 0).slice(0, 0)))
    assert "holds no rows of results" in refused(copy)
    manifest = copy / "manifest.json"
    sound = json.loads(manifest.read_text())
    for broken in ({"study": [1]}, {"study": STUDY | {"cases": 5}}, {"versions": None}):
        manifest.write_text(json.dumps(sound | broken))
        assert "manifest.json is damaged, or not the manifest of a store" in refused(copy)
    manifest.write_text(json.dumps(sound | {"schema": 99}))
    assert "schema 99" in refused(copy)
    manifest.write_text("{")
    assert "damaged" in refused(copy)
    assert not (copy / "report.html").exists()


def test_bad_results_and_bad_paths(folder, tmp_path, monkeypatch):
    other = tmp_path / "other.json"
    other.write_text('{"kind": "shopping list"}')
    assert "holds shopping list: give a file written by saddleback evaluate" in refused(other)
    other.write_text("not JSON")
    assert "is not JSON" in refused(other)
    assert "it is a folder" in refused(folder, "--out", tmp_path)
    assert "there is no folder" in refused(folder, "--out", tmp_path / "no" / "x.html")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "needs the extra report: pip install 'saddleback[report]'" in refused(folder)
    assert "pip install 'saddleback[report]'" in " ".join(
        run("explorer", "--out", tmp_path / "e.html").stderr.split()
    )


# A real sweep.

SWEEP = """\
title = "a real one"
seed = 3
runs = 2
episodes = 5
metrics = ["norm", "mspbe"]
[grid]
alpha = [0.05, 0.1]
beta = [0.1, 0.2]
[[problem]]
name = "random_walk"
[[rule]]
name = "GTD2"
lam = 0.0
[[rule]]
name = "TD"
lam = 0.0
"""


def test_a_sweep_is_read_as_it_is_written(tmp_path):
    (tmp_path / "x.toml").write_text(SWEEP)
    store = run_study(tmp_path / "x.toml", tmp_path / "s")
    found = read_results(tmp_path / "s")
    assert set(found.metrics) == {"norm", "mspbe"}
    assert [each.rule for each in found.learned] == ["GTD2(0)", "TD(0)"]
    assert [each.diverged.shape for each in found.learned] == [(2, 2), (2, 1)]
    assert found.done == found.tasks == 2
    text = study_page(found)
    assert "<h1>a real one</h1>" in text
    assert "key (c, k), c the number of the problem" in text
    assert '"units": {"random_walk": "episodes"}' in text or '"random_walk":"episodes"' in text
    assert "Unfinished" not in text
    store.path("p000-0001-run00000").unlink()
    half = study_page(read_results(tmp_path / "s"))
    assert (
        "<strong>Unfinished:</strong> 1 of 2 tasks are done; there is nothing yet of TD(0) on "
        in half
    )


def test_problems_without_results_are_named(tmp_path):
    text = SWEEP + '[[problem]]\nname = "boyan_chain"\n'
    (tmp_path / "x.toml").write_text(text)
    store = run_study(tmp_path / "x.toml", tmp_path / "s")
    for name in ("p001-0000-run00000", "p001-0001-run00000", "p000-0001-run00000"):
        store.path(name).unlink()
    half = study_page(read_results(tmp_path / "s"))
    assert (
        "1 of 4 tasks are done; there is nothing yet of TD(0) on random_walk, boyan_chain. The"
        in half
    )
