"""Display of results: short text, HTML for notebooks, plots and tables."""

import re
import subprocess
import sys
from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import saddleback as sb
from saddleback import Rule, System, features, problems
from saddleback.errors import InvalidParameter
from saddleback.ope import Statistics
from saddleback.rules import Correction, Expected, Retrace, Saddle, SemiGradient, State
from saddleback.system import load, save


@dataclass(frozen=True)
class Capped(sb.Trace):
    """κ = λ min(cap, ρ)."""

    lam: float
    cap: float

    def kappa(self, pi, mu):
        return self.lam * np.minimum(self.cap, sb.policies.ratio(pi, mu))


CAPPED = Rule(trace=Capped(0.5, 1.5), form=Saddle(), bootstrap=Expected())
LABELLED = replace(CAPPED, label="Capped 1.5")


def test_a_rule_is_shown_by_label_or_name_or_parts():
    assert LABELLED.display_name == "Capped 1.5"
    assert replace(sb.GES(0.5), label="ours").display_name == "ours"
    assert sb.GES(0.5).display_name == "GES(0.5)"
    assert CAPPED.display_name == "Capped(lam=0.5, cap=1.5) + Saddle"
    state = Rule(Retrace(0.5), SemiGradient(), State())
    assert state.display_name == "Retrace(lam=0.5) + SemiGradient + State"


def test_a_label_changes_neither_str_nor_equality():
    labelled = replace(sb.GES(0.5), label="ours")
    assert str(labelled) == "GES(0.5)"
    assert str(CAPPED) == repr(CAPPED)
    assert labelled == sb.GES(0.5)
    assert hash(labelled) == hash(sb.GES(0.5))
    assert labelled.kind == sb.GES(0.5).kind
    assert repr(LABELLED) == (
        "Rule(trace=Capped(lam=0.5, cap=1.5), form=Saddle(), bootstrap=Expected(), "
        "label='Capped 1.5')"
    )
    with pytest.raises(InvalidParameter, match="label must be text, got 3"):
        replace(CAPPED, label=3)


def test_a_label_survives_saving_and_is_not_needed_to_load(tmp_path):
    problem = problems.two_state(gamma=0.9)
    rule = Rule(Retrace(0.5), Correction(), Expected(), label="ours")
    assert load(save(System.exact(problem, rule), tmp_path / "a.npz")).rule.label == "ours"
    plain = replace(rule, label="")
    assert load(save(System.exact(problem, plain), tmp_path / "b.npz")).rule.label == ""
    log = sb.collect(problem, steps=50, rng=0)
    options = dict(features=features.OneHot(2), gamma=0.9)
    first = Statistics.of(log, rule, problem.target, **options)
    sb.save_statistics(first, tmp_path / "day.stats")
    loaded = sb.load_statistics(tmp_path / "day.stats")
    assert loaded.setting.rules[0].label == "ours"
    assert loaded.setting == Statistics.of(log, plain, problem.target, **options).setting


def test_a_label_is_not_passed_on_to_the_rules_of_other_lambda():
    from saddleback.ope.evaluate_statistics import lambda_path_rules

    labelled = replace(sb.GRetrace(0.5), label="ours")
    assert [rule.display_name for rule in lambda_path_rules(labelled).values()][:2] == [
        "GRetrace(0)", "GRetrace(0.25)",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def runs():
    """GES and Expected Sarsa, three runs, of settings [3, 2]; the last α diverges."""
    problem = problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
    return sb.learn(
        [sb.GES(0.3), replace(sb.ExpectedSarsa(0.3), label="plain")], problem,
        alpha=[[0.01], [0.02], [9.0]], beta=[0.02, 0.05], steps=400, rng=0, runs=3, record=20,
    )  # fmt: skip


def test_the_best_setting_is_that_of_the_studies_summary(runs):
    import pyarrow as pa

    from saddleback.sweep import summary

    for run in runs:
        table = pa.Table.from_pandas(run.to_pandas()).rename_columns({"recorded": "point"})
        rows = table.append_column("problem", pa.array(["two"] * len(table)))
        beta = np.tile(run.beta.ravel(), len(rows) // run.beta.size)
        rows = rows.set_column(rows.column_names.index("beta"), "beta", pa.array(beta))
        for metric in ("mspbe", "mse_absolute"):
            (row,) = summary(rows, [metric])
            best = run.best(metric)
            assert best.value == pytest.approx(row["best"], rel=1e-12)
            assert best.error == pytest.approx(row["error"], rel=1e-12)
            assert (best.alpha, run.beta[best.index]) == (row["alpha"], row["beta"])
            assert run.alpha[best.index] == best.alpha


def test_the_best_is_averaged_over_the_last_tenth(runs):
    run = sb.learn(
        sb.GES(0.3), problems.two_state(gamma=0.9), alpha=[0.1, 0.2], beta=0.1, steps=20, rng=0,
        record=1, theta0=1.0,
    )  # fmt: skip
    assert len(run.recorded) == 21
    final = run.curves["mspbe"][-3:].mean(axis=0)
    best = run.best()
    assert best.value == final.min()
    assert best.error is None
    assert best.index == (int(final.argmin()),)
    assert runs[1].best("mspbe").beta is None


def test_a_setting_that_diverged_never_wins():
    run = sb.learn(
        sb.GES(0.3), problems.two_state(gamma=0.9), alpha=[0.001, 0.002], beta=0.1, steps=20,
        rng=0, theta0=1.0, metrics={"x": lambda theta: np.array([1.0, 2.0])},
    )  # fmt: skip
    assert run.best("x").index == (0,)
    gone = replace(run, diverged_at=np.array([20, -1]))
    assert gone.best("x").index == (1,)
    none = replace(run, diverged_at=np.array([20, 3]))
    with pytest.raises(
        sb.errors.Undefined, match=r"'x' at the end: 2 of 2 diverged.*metrics are x"
    ):
        none.best("x")
    assert "best x: none, all diverged" in repr(none)
    assert "diverged at update 20" in none.plot().get_legend().get_texts()[0].get_text()


def test_an_unknown_metric_lists_the_known_ones(runs):
    for ask in (runs[0].best, runs[0].plot):
        with pytest.raises(sb.errors.UnknownName, match=r"'mspb'.*'mspbe'.*mspbe, mse_absolute"):
            ask("mspb")
    problem = problems.two_state()
    silent = sb.learn(sb.GES(0.0), problem, alpha=0.1, beta=0.1, steps=5, rng=0, metrics={})
    with pytest.raises(sb.errors.Undefined, match="no metrics were recorded"):
        silent.best()
    assert repr(silent) == "Run(GES(0), updates=5, settings=(), p=2, diverged=0 of 1)"


def test_metrics_of_several_values_are_columns_and_have_no_best():
    run = sb.learn(
        sb.GES(0.0), problems.two_state(), alpha=[0.1, 0.2], beta=0.1, steps=5, rng=0,
        metrics={"theta": lambda theta: theta},
    )  # fmt: skip
    table = run.to_pandas()
    last = table[(table.recorded == 5) & (table.setting == 1)]
    assert last[["theta_0", "theta_1"]].to_numpy().tolist() == [run.theta[1].tolist()]
    with pytest.raises(InvalidParameter, match="several values per setting"):
        run.best("theta")
    assert "best" not in repr(run)


def test_a_run_is_a_long_table(runs):
    run = runs[0]
    table = run.to_pandas()
    assert list(table.columns) == [
        "rule", "recorded", "updates", "run", "setting", "alpha", "beta", "diverged_at", "mspbe",
        "mse_absolute",
    ]  # fmt: skip
    assert len(table) == 21 * 3 * 6
    one = table[(table.run == 2) & (table.alpha == 0.02) & (table.beta == 0.05)]
    np.testing.assert_array_equal(one.mspbe, run.curves["mspbe"][:, 2, 1, 1])
    np.testing.assert_array_equal(one.updates, run.updates[:, 2])
    assert (table[table.alpha == 9.0].diverged_at > 0).all()
    assert set(runs[1].to_pandas().rule) == {"plain"}
    assert runs[1].to_pandas().beta.isna().all()
    assert run.to_polars().to_pandas().equals(table)


def test_a_missing_package_is_named(runs, monkeypatch):
    for package in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(InvalidParameter, match=f"pip install {package}"):
            getattr(runs[0], f"to_{package}")()


def test_runs_are_drawn_into_one_panel(runs):
    ax = runs[0].plot("mspbe")
    assert runs[1].plot("mspbe", ax=ax) is ax
    legend = ax.get_legend()
    assert legend.get_title().get_text() == "median and quartiles over runs"
    names = [text.get_text() for text in legend.get_texts()]
    assert names[0].startswith("GES(0.3), α = ")
    assert names[1].startswith("plain, α = ")
    assert all(name.endswith("3 runs") for name in names)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("updates", "MSPBE")
    best = runs[0].best("mspbe").index
    middle = np.median(runs[0].curves["mspbe"][:, :, *best], axis=1)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), middle)
    other = runs[0].plot("mspbe", index=(2, 0))
    assert "3 diverged" in other.get_legend().get_texts()[0].get_text()
    with pytest.raises(InvalidParameter, match=r"\(3, 0\) is not a setting.*\[3, 2\]"):
        runs[0].plot(index=(3, 0))


def test_the_value_axis_is_logarithmic_where_values_span_decades(runs):
    problem = problems.two_state(gamma=0.9)
    fast = sb.learn(sb.GES(0.0), problem, alpha=0.2, beta=0.2, theta0=1.0, steps=2000, rng=0)
    assert fast.plot().get_yscale() == "log"
    still = sb.learn(sb.GES(0.0), problem, alpha=0.2, beta=0.2, steps=20, rng=0)
    assert still.plot().get_yscale() == "linear"  # 0 throughout


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def short(text):
    return len(text.split("\n")) <= 20


def test_the_repr_of_a_run_names_rule_and_best_setting(runs):
    text = repr(runs[0])
    assert short(text)
    assert text.startswith(
        "Run(GES(0.3), updates=1200, runs=3, settings=(3, 2), p=2, diverged=6 of 18)"
    )
    best = runs[0].best("mspbe")
    assert f"best mspbe: {best.value:.2g} with alpha={best.alpha:g}, beta={best.beta:g}" in text
    html = runs[0]._repr_html_()
    assert f"{best.value:.4g}" in html
    odd = replace(runs[0], rule=replace(runs[0].rule, label="<script>"))
    assert "<script>" not in odd._repr_html_()
    assert "&lt;script&gt;" in odd._repr_html_()


def test_a_system_shows_its_stability_and_is_a_table_of_features():
    problem = problems.random_mdp(gamma=0.95, rng=0)
    system = System.exact(problem, LABELLED)
    assert repr(system).split("\n") == [
        "System(Capped 1.5, p=4, rank=4)", f"  {system.stability.reason}",
    ]  # fmt: skip
    assert "0 &lt; α" in system._repr_html_()
    table = system.to_pandas()
    assert list(table.columns) == ["feature", "fixed_point", "b"]
    np.testing.assert_array_equal(table.fixed_point, system.fixed_point)
    estimate = System.estimate(problem, sb.GES(0.4), steps=200, rng=0)
    np.testing.assert_array_equal(estimate.to_polars()["b_error"], estimate.errors.b)


def test_a_large_system_is_not_decomposed_to_be_shown():
    p = 301
    system = System(-np.eye(p), np.ones(p), np.eye(p), np.zeros((p, p)), sb.GES(0.0))
    assert repr(system) == "System(GES(0), p=301, rank=301)"
    assert "spectrum" not in vars(system)
    assert "stability" not in vars(system)


def test_the_eigenvalues_are_drawn_with_the_verdict():
    system = System.exact(problems.two_state(gamma=0.999), sb.GES(0.0))
    ax = system.plot()
    assert ax.get_title() == "GES(0)\nEigenvalues of A:\nupdate without ω diverges for every α"
    drawn = np.concatenate([line.get_xdata() for line in ax.lines if line.get_marker() in "oX"])
    np.testing.assert_allclose(np.sort(drawn), np.sort(system.spectrum.real))
    assert system.plot(ax=ax) is ax


@pytest.fixture(scope="module")
def analysis():
    return sb.theory.analyse(problems.two_state(gamma=0.9), sb.GES(0.4), steps=1000)


@pytest.mark.slow
def test_an_analysis_shows_its_verdicts_as_text(analysis):
    text = repr(analysis)
    assert short(text)
    assert text.startswith("Analysis of GES(0.4), p = 2\nwithout ω")
    assert analysis.system.stability.reason[:40] in text
    assert re.search(r"^λ ceiling +0\.786$", text, re.MULTILINE)
    assert "λ ceiling" in analysis._repr_html_()


def test_an_analysis_is_a_table_of_numbers_and_notes(analysis):
    table = analysis.to_pandas().set_index("quantity")
    assert table.value["lambda_ceiling"] == analysis.ceiling
    assert table.value["advice.alpha"] == analysis.advice.alpha
    assert np.isnan(table.value["offline.reason"])
    assert table.note["offline.reason"] == analysis.system.stability.reason
    bad = sb.theory.analyse(problems.two_state(gamma=0.999), sb.ExpectedSarsa(0.0), steps=100)
    rows = bad.to_polars().rows_by_key("quantity", named=True, unique=True)
    assert rows["advice"]["note"] == bad.advice
    assert np.isnan(rows["advice"]["value"])


def test_an_analysis_draws_three_panels():
    # With λ > 0 each of the step sizes in the second panel takes a hundred times as long.
    axes = sb.theory.analyse(problems.two_state(gamma=0.9), sb.GES(0.0), steps=1000).plot()
    assert axes.shape == (3,)
    assert axes[0].get_title().startswith("Eigenvalues of A")
    assert axes[2].get_ylabel() == "E‖θ − θ*‖²"


@pytest.fixture(scope="module")
def log_card():
    from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic

    return sb.Log(clinic(50, rng=0), observations=SIGNS, actions=DOSES).summary(gamma=0.9)


def test_the_summary_of_a_log_shows_text_and_findings(log_card):
    assert repr(log_card).startswith(log_card.text)
    many = tuple(sb.log.Finding("E100", f"<b>{k}</b> is missing") for k in range(30))
    bad = replace(log_card, findings=many)
    assert short(repr(bad))
    assert repr(bad).endswith("more lines: print(summary.text, *summary.findings)")
    assert "E100 <b>0</b> is missing" in repr(bad)
    html = bad._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;29" in html
    assert "30 errors" in html


def test_the_summary_of_a_log_is_a_table(log_card):
    table = log_card.to_pandas().set_index("quantity").value
    assert table["rows"] == log_card.rows
    assert table["share of high"] == log_card.taken[2] / log_card.rows
    assert table["mean return"] == log_card.mean_return
    unknown = replace(log_card, propensity=None, mean_return=None).to_polars()["quantity"]
    assert "mean return" not in unknown.to_list()
    assert "smallest propensity" not in unknown.to_list()


def test_actions_and_ends_are_drawn(log_card):
    left, right = log_card.plot()
    shares = [bar.get_width() for bar in left.patches]
    np.testing.assert_allclose(shares, np.array(log_card.taken) / log_card.rows)
    assert [text.get_text() for text in left.get_yticklabels()] == ["none", "low", "high"]
    assert right.patches[0].get_width() == log_card.terminated / log_card.episodes
    names, taken = tuple(f"item {k}" for k in range(30)), tuple(range(30))
    many = replace(log_card, actions=names, taken=taken).plot()[0]
    assert len(many.patches) == 20
    assert many.get_yticklabels()[0].get_text() == "item 29"
    assert "the 20 most frequent of 30" in many.get_title()


def ranking(**changes):
    from saddleback.ope.ranking import Candidate, Ranking

    candidates = (
        Candidate("new", "usable", "all gates are passed", 1.5, 0.5, 0.2),
        Candidate("<i>", "doubtful", "few & far between", 1.7, 0.7, -0.1),
        Candidate("bad", "refused", "no coverage", 9.0, 8.0, 7.0),
    )
    return replace(Ranking(1.0, "logged policy", 0.05, False, candidates), **changes)


def test_a_ranking_escapes_its_text_in_html():
    result = ranking()
    assert repr(result) == result.text
    html = result._repr_html_()
    assert "Better: new is at least 0.20 higher" in html
    assert "<i>" not in html
    assert "few &amp; far between" in html
    assert "7" not in html.partition("no coverage")[0].rpartition("bad")[2].replace("0.9", "")
    many = replace(result, candidates=result.candidates * 20)
    assert short(repr(many))
    assert "print(ranking.text)" in repr(many)


def test_a_ranking_is_a_table_of_candidates():
    table = ranking().to_pandas()
    assert list(table.columns) == [
        "name", "trust", "reason", "value", "difference", "bound", "beats",
    ]  # fmt: skip
    assert table.beats.tolist() == [True, False, False]
    assert ranking().to_polars()["bound"].to_list() == [0.2, -0.1, 7.0]


def test_a_ranking_draws_bounds_on_the_side_they_hold():
    ax = ranking().plot()
    assert [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "|"] == [0.2, -0.1]
    assert ax.get_xlabel() == "difference from the logged policy (value 1); higher is better"
    costs = ranking(lower_is_better=True, of="as given").plot()
    bounds = [line.get_xdata()[0] for line in costs.lines if line.get_marker() == "|"]
    assert bounds == [-0.2, 0.1]
    assert costs.get_xlabel() == "difference from the baseline (value 1); lower is better"
    assert "simultaneous 95% upper bounds of 3 candidates" in costs.get_title()


@pytest.mark.slow
def test_showing_results_loads_neither_matplotlib_nor_pandas():
    code = (
        "import sys, saddleback as sb\n"
        "p = sb.problems.two_state(gamma=0.9)\n"
        "system = sb.System.exact(p, sb.GES(0.0))\n"
        "run = sb.iterate(system, alpha=0.1, beta=0.1, steps=5)\n"
        "found = sb.theory.analyse(p, sb.GES(0.0), steps=10)\n"
        "for each in (system, run, found): repr(each), each._repr_html_()\n"
        "print({'matplotlib', 'pandas', 'polars'} & set(sys.modules))\n"
        "card = sb.collect(p, steps=20, rng=0).summary()  # Arrow may load pandas\n"
        "repr(card), card._repr_html_()\n"
        "print({'matplotlib', 'polars'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\nset()\n"


# Evaluations.


@pytest.fixture(scope="module")
def evaluation():
    walk = problems.random_walk(0.9, target_right=0.6)
    log = sb.collect(walk, episodes=200, rng=0)
    return sb.evaluate(
        log, {"<b>new</b>": walk.target, "other": "uniform"}, features="states", gamma=0.9
    )


def test_an_evaluation_shows_the_answer_first(evaluation):
    lines = repr(evaluation).splitlines()
    assert len(lines) == 20
    assert lines[0].startswith("<b>new</b>: ")
    assert lines[-1].endswith("more lines: print(result.text)")
    single = replace(evaluation, estimates=evaluation.estimates[:1], diagnoses=())
    assert repr(single).startswith("No verdict: ")


def test_the_html_of_an_evaluation_has_answer_table_and_plot(evaluation):
    html = evaluation._repr_html_()
    answers = evaluation.text.splitlines()[:2]
    assert html.count("<table") >= 4
    assert html.count("<svg") == 1
    assert "<b>" not in html
    assert all(part in html for part in answers[1].split()[:3])
    assert html == evaluation._repr_html_()  # the same bits each time


def test_an_evaluation_as_a_table(evaluation):
    table = evaluation.to_pandas()
    assert list(table.columns[:5]) == ["target", "estimator", "value", "note", "low"]
    assert table.used.sum() == 2
    assert list(table[table.used].trust) == [verdict.trust for verdict in evaluation.verdicts]
    assert list(table.value) == [estimate.value for estimate in evaluation.estimates]
    assert evaluation.to_polars().shape == table.shape


def test_an_evaluation_draws_itself(evaluation):
    ax = evaluation.plot()
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels[0] == "<b>new</b>"
    assert labels.count("WDR") == 2
    low, high = ax.get_xlim()
    assert low < evaluation.logged.interval.value < high
    panel = plt.subplots()[1]
    assert evaluation.plot(ax=panel) is panel
    plt.close("all")


def test_a_page_accepts_an_evaluation(evaluation):
    assert sb.report.evaluation_page(evaluation) == sb.report.evaluation_page(evaluation.as_dict())
