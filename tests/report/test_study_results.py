"""Results of a study as arrays and as the data of a page."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import t as student

import saddleback as sb
from helpers.study_store import ALPHAS, POINTS, RATIOS, RULES, RUNS, rows
from saddleback.paper.comparison import Comparison, Grid
from saddleback.report import page as page_module
from saddleback.report import read_results, study_html, study_page
from saddleback.sweep import Store, packed, run_study, run_tasks, threads


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
        store.put("some", packed(pa.Table.from_pylist(few)))
    assert len(study_page(read_results(tmp_path / "long"))) < 3.2e6  # thinned until it fits
    monkeypatch.setattr(page_module, "LARGEST", 900_000)
    with pytest.raises(sb.errors.InvalidParameter, match=r"take 0\.9 MB|take 1\.0 MB"):
        study_page(found)


def test_how_it_was_made_is_said(path):
    text = path.read_text(encoding="utf-8")
    assert "saddleback sweep x.toml --out sweep" in text
    assert "Seeds: 7;" in text
    assert f"saddleback {sb.__version__}" in text
    assert re.search(r"Hash of the choices: <code>[0-9a-f]{16}</code>", text)


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
