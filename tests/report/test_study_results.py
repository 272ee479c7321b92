"""Results of a study as arrays and as the data of a page."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import saddleback as sb
from helpers.study_store import ALPHAS, POINTS, RATIOS, RULES, RUNS, rows
from saddleback.report import page as page_module
from saddleback.report import read_results, study_html, study_page
from saddleback.sweep import Store, parquet_bytes, read_study, run_study


def test_arrays_are_the_rows(folder):
    study = read_results(folder)
    assert study.metrics == ("mspbe", "norm")
    assert [(result.problem, result.rule) for result in study.rules] == [
        (problem, rule) for problem in ("star & more", "walk") for rule in RULES
    ]
    ges = next(r for r in study.rules if r.problem == "walk" and r.rule == "GES(0.9)")
    assert (ges.lam, ges.omega_name) == (0.9, "β/α")
    assert ges.alphas.tolist() == list(ALPHAS)
    assert ges.omega_steps.tolist() == list(RATIOS)
    table = pa.concat_tables([rows("walk", run) for run in range(RUNS)]).to_pylist()
    for row in table[::37]:
        if row["rule"] == ges.rule:
            index = (row["run"], POINTS.index(row["point"]), ALPHAS.index(row["alpha"]))
            value = ges.values["norm"][(*index, RATIOS.index(row["beta"] / row["alpha"]))]
            assert value == row["norm"]
    assert ges.diverged.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert np.isinf(ges.mean_final("mspbe")[2]).all()


GRIDS = """
title = "x"
seed = 5
runs = 3
steps = 300
checkpoints = 21
common_random_numbers = true
rule = [
  {name = "GES", label = "the <first>"},
  {name = "GTB", form = "Correction", label = "GTB corr."},
  {name = "ExpectedSarsa", lam = 0.5, label = "Expected Sarsa"},
]
quick = {runs = 2}
[[grid]]
label = "some"
lam = 0.9
alpha = [0.01, 0.1, 2.0]
ratio = [0.1, 1.0]
[[grid]]
label = "others"
lam = 0.3
alpha = [0.1]
beta = [0.1, 0.2]
[[problem]]
name = "two_state"
gamma = 0.99
rewards = [[1, -1], [0.5, 2]]
"""


def test_results_are_those_of_the_learner(tmp_path):
    (tmp_path / "x.toml").write_text(GRIDS)
    run_study(tmp_path / "x.toml", tmp_path / "s", command="saddleback paper x --quick")
    results = read_results(tmp_path / "s")
    labels = ["the <first>", "GTB corr.", "Expected Sarsa"]
    shown = [(result.problem, result.rule, result.name, result.lam) for result in results.rules]
    assert shown == [
        (f"{grid}, two_state", label, name, 0.5 if name == "ExpectedSarsa" else lam)
        for grid, lam in (("some", 0.9), ("others", 0.3))
        for label, name in zip(labels, ("GES", "GTB", "ExpectedSarsa"), strict=True)
    ]
    problem = sb.problems.two_state(0.99, rewards=[[1, -1], [0.5, 2]])
    alpha = np.array([[0.01], [0.1], [2.0]])
    some = results.on("some, two_state")
    for rule, result in zip(
        (sb.GES(0.9), sb.Rule(sb.TreeBackup(0.9), sb.Correction(), sb.Expected()),
         sb.ExpectedSarsa(0.5)),
        some, strict=True,
    ):  # fmt: skip
        beta = alpha * [0.1, 1.0] if rule.form.has_dual else None
        runs = [
            sb.learn(
                rule, problem, alpha=alpha, beta=beta, steps=300, record=result.points,
                rng=np.random.SeedSequence(5, spawn_key=(run,)),
                metrics={"mspbe": sb.System.exact(problem, rule).mspbe},
            )
            for run in range(3)
        ]  # fmt: skip
        curves = np.stack([run.curves["mspbe"] for run in runs])
        assert np.array_equal(result.values["mspbe"], curves)
        diverged = np.stack([run.diverged_at >= 0 for run in runs])
        assert np.array_equal(result.diverged, diverged.sum(axis=0))
        final = np.where(diverged.any(axis=0), np.inf, curves[:, -3:].mean(axis=1).mean(axis=0))
        assert np.array_equal(result.mean_final("mspbe"), final)
        assert result.best("mspbe") == np.unravel_index(final.argmin(), final.shape)
        i, j = result.best("mspbe")
        assert np.array_equal(result.curve("mspbe"), curves[:, :, i, j].T)
        assert result.alphas.tolist() == alpha.ravel().tolist()
        assert np.array_equal(result.betas, beta if beta is not None else np.full((3, 1), np.nan),
                              equal_nan=True)  # fmt: skip
    assert some[2].diverged.any()
    assert (results.done, results.tasks, results.missing) == (4, 4, ())


def test_a_page_of_several_grids_has_cases_and_a_quick_one_warns(tmp_path):
    (tmp_path / "x.toml").write_text(GRIDS)
    run_study(tmp_path / "x.toml", tmp_path / "s", command="saddleback paper x --quick")
    text = study_page(read_results(tmp_path / "s"))
    assert "saddleback paper x --quick" in text
    assert "Quick run:" not in text  # the study says so, not the command
    assert "its only run" not in text
    assert "Seeds: 5;" in text
    assert "key k" in text
    assert text.count("2 cases: 20 settings, 3 runs each.") == 1
    quick = read_study(tmp_path / "x.toml", quick=True)
    run_study(quick, tmp_path / "quick")
    assert "Quick run:" in study_page(read_results(tmp_path / "quick"))


def test_best_settings_have_medians_and_quartiles_over_runs(folder):
    result = read_results(folder).rules[0]
    best = study_html.best(result, "mspbe", np.arange(len(result.points)))
    i, j = result.best("mspbe")
    ends = sorted(result.final("mspbe")[:, i, j])
    assert len(ends) == 3
    assert best["mean"] == pytest.approx(np.mean(ends))
    assert best["median"] == ends[1]
    assert best["lower"] == pytest.approx((ends[0] + ends[1]) / 2)
    assert best["upper"] == pytest.approx((ends[1] + ends[2]) / 2)
    assert best["cell"] == i * len(RATIOS) + j
    curve = np.sort(result.values["mspbe"][:, :, i, j], axis=0)
    assert best["medianCurve"] == pytest.approx(curve[1].tolist(), rel=1e-5)
    assert best["upperCurve"] == pytest.approx(((curve[1] + curve[2]) / 2).tolist(), rel=1e-5)


def test_the_interval_of_a_non_negative_metric_never_reaches_below_zero(folder):
    """One run out of ten is a million times worse: quartiles stay where nine runs are."""
    result = read_results(folder).rules[0]
    values = np.tile(result.values["mspbe"][:1], (10, 1, 1, 1))
    values[0] *= 1e6
    heavy = replace(result, values={"mspbe": values}, runs=np.arange(10))
    best = study_html.best(heavy, "mspbe", np.arange(len(result.points)))
    assert best["mean"] > 1e4 * best["median"]
    assert 0 < best["lower"] <= best["median"] <= best["upper"] < 10


def test_median_curves_end_where_a_run_diverged(folder):
    result = next(r for r in read_results(folder).rules if r.rule == "GES(0.9)")
    curve = study_html.median_curve(result.values["mspbe"])
    assert np.isinf(curve[10:, 2]).all()
    assert np.isfinite(curve[:10, 2]).all()
    assert np.array_equal(curve[:, 0], np.median(result.values["mspbe"], axis=0)[:, 0])


def test_metrics_that_compare_rules_on_equal_terms_come_first(folder):
    text = study_page(read_results(folder))
    assert text.index("MSPBE (each rule&#39;s own)") < text.index('<option value="norm">')
    titles = study_html.metric_titles(["norm", "mspbe", "mine", "mse"], several=False)
    assert titles == {"mse": "MSE", "mspbe": "MSPBE", "norm": "‖θ‖", "mine": "mine"}


def test_too_much_is_thinned_and_then_refused(folder, tmp_path, monkeypatch):
    study = read_results(folder)
    assert study_html.thinning(study) == 1
    monkeypatch.setattr(study_html, "MAX_CHARACTERS", 10_000)
    stride = study_html.thinning(study)
    table = study_html.rule_data(study.rules[0], ["mspbe"], stride)
    assert stride > 1
    assert table["points"][-1] == POINTS[-1]
    assert np.diff(table["points"]).max() == 10 * stride
    assert f"One point in {stride} is shown." in study_page(study)
    few = rows("walk", 0).to_pylist()[:1] * 30_000
    for k, row in enumerate(few):
        few[k] = row | {"point": k, "updates": k}
    monkeypatch.undo()
    with Store.open(tmp_path / "long", {}, "") as store:
        store.put("some", parquet_bytes(pa.Table.from_pylist(few)))
    assert len(study_page(read_results(tmp_path / "long"))) < 3.2e6  # thinned until it fits
    monkeypatch.setattr(page_module, "MAX_BYTES", 900_000)
    with pytest.raises(sb.errors.InvalidParameter, match=r"take 0\.9 MB|take 1\.0 MB"):
        study_page(study)


def test_the_page_shows_how_the_study_was_made(path):
    text = path.read_text(encoding="utf-8")
    assert "saddleback sweep x.toml --out sweep" in text
    assert "Seeds: 7;" in text
    assert f"saddleback {sb.__version__}" in text
    assert re.search(r"Hash of the study definition: <code>[0-9a-f]{16}</code>", text)


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


def test_results_of_a_sweep_are_read_as_they_were_written(tmp_path):
    (tmp_path / "x.toml").write_text(SWEEP)
    store = run_study(tmp_path / "x.toml", tmp_path / "s")
    study = read_results(tmp_path / "s")
    assert set(study.metrics) == {"norm", "mspbe"}
    assert [result.rule for result in study.rules] == ["GTD2(0)", "TD(0)"]
    assert [result.diverged.shape for result in study.rules] == [(2, 2), (2, 1)]
    assert study.done == study.tasks == 2
    text = study_page(study)
    assert "<h1>a real one</h1>" in text
    assert "key (c, k), where c is the number of the problem" in text
    assert '"units": {"random_walk": "episodes"}' in text or '"random_walk":"episodes"' in text
    assert "Unfinished" not in text
    store.path("p000-0001-run00000").unlink()
    half = study_page(read_results(tmp_path / "s"))
    assert "<strong>Unfinished:</strong> 1 of 2 tasks are done; no results yet: TD(0) on " in half


def test_problems_without_results_are_named(tmp_path):
    text = SWEEP + '[[problem]]\nname = "boyan_chain"\n'
    (tmp_path / "x.toml").write_text(text)
    store = run_study(tmp_path / "x.toml", tmp_path / "s")
    for name in ("p001-0000-run00000", "p001-0001-run00000", "p000-0001-run00000"):
        store.path(name).unlink()
    half = study_page(read_results(tmp_path / "s"))
    assert "1 of 4 tasks are done; no results yet: TD(0) on random_walk, boyan_chain. Run" in half
