"""The paper's experiments: rules by name, sizes of results, references, figures and claims."""

import io
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from rich.console import Console

import saddleback as sb
from helpers.studies import invoke
from saddleback import paper, plots
from saddleback._threads import ThreadSafeCache
from saddleback.errors import InvalidParameter, RuleMismatch, UnknownName
from saddleback.paper import (
    Options,
    comparison,
    comparison_figures,
    mountain_car,
    table1,
    theorem1,
    two_state,
)
from saddleback.paper.claims import NO, YES, Claim, Section
from saddleback.paper.comparison import (
    STUDIES,
    Comparison,
    comparisons,
    rule_names,
    run,
    study_of,
)
from saddleback.paper.estimated_system import fixed_point, from_experience
from saddleback.paper.mountain_car_reference import (
    Effort,
    MountainCarReference,
    Objective,
    half_inverse,
    simulation,
)
from saddleback.paper.reproduction import claims_as_dict, page
from saddleback.paper.table1 import matrices, printed_holds, table_rows
from saddleback.rules import NAMED, Expected, RegularisedCorrection, UpdateNorm
from saddleback.sweep import RuleResults, Store, read_study

# Rules by name.


def rules_of(*names, lam=0.3, zeta=0.4, case=0):
    """Return the rules of the comparison of the two-state problem, by name."""
    study = study_of("two-state", Options(None, rules=names, lam=lam, zeta=zeta, quick=True))
    rules = [study.rule(r, case) for r in range(len(study.rules))]
    return {rule.display_name: rule for rule in rules}


def test_every_trace_is_combined_with_both_forms_if_no_rule_is_named():
    traces = {"GES": sb.Importance(0.3), "ABQ": sb.ActionDependent(0.4), "GTB": sb.TreeBackup(0.3),
              "GRetrace": sb.Retrace(0.3)}  # fmt: skip
    labels = {"GES": ("GES", "GQ"), "ABQ": ("ABQ saddle", "ABQ"), "GTB": ("GTB", "GTB corr."),
              "GRetrace": ("GRetrace", "GRetrace corr.")}  # fmt: skip
    expected = {"Expected Sarsa": sb.ExpectedSarsa(0.3)}
    for name, trace in traces.items():
        for label, form in zip(labels[name], (sb.Saddle(), sb.Correction()), strict=True):
            expected[label] = sb.Rule(trace, form, Expected())
    assert rules_of() == expected
    assert list(rules_of())[:6] == ["GES", "GQ", "ABQ", "GTB", "GRetrace", "Expected Sarsa"]
    assert set(NAMED) < set(rule_names())


def test_any_rule_can_be_named_and_gets_its_parameters():
    names = ("ABQ", "GTB corr.", "GTB reg.", "ExpectedSarsa", "TDRC", "GTD", "GTD2", "TDC")
    rules = rules_of(*names)
    assert tuple(rules) == names
    assert rules["ABQ"] == sb.ABQ(0.4)
    assert rules["GTB corr."].trace == sb.TreeBackup(0.3)
    assert rules["GTB reg."] == sb.Rule(sb.TreeBackup(0.3), RegularisedCorrection(1.0), Expected())
    # Rules for state values in their version for state-action pairs.
    assert rules["GTD2"] == sb.GES(0.3)
    assert rules["TDC"] == sb.GQ(0.3)
    assert rules["TDRC"] == sb.Rule(sb.Importance(0.3), RegularisedCorrection(1.0), Expected())
    assert rules["GTD"] == sb.Rule(sb.NoTrace(), UpdateNorm(), Expected())
    corrected, regularised = rules_of("Retrace:0.5+Correction", "TDRC(0.2, eta=2)").values()
    assert corrected == sb.Rule(sb.Retrace(0.5), sb.Correction(), Expected())
    assert regularised == sb.Rule(sb.Importance(0.2), RegularisedCorrection(2.0), Expected())
    with pytest.raises(UnknownName, match=r"unknown rule 'GEZ'\. Did you mean 'GES'\?"):
        rules_of("GES", "GEZ")


def test_lambda_stays_below_the_ceiling_where_the_study_says_so():
    cases = study_of("two-state", Options(None, lam=0.995, quick=True)).cases
    assert [case.lam for case in cases] == [0.995, 0.995, 0.5, 0.5]
    cases = study_of("two-state", Options(None, lam=0.2, quick=True)).cases
    assert [case.lam for case in cases] == [0.2] * 4
    study = study_of("step-size", Options(None, lam=0.7, quick=True))
    assert [study.rule(r).trace.lam for r in range(2)] == [0.7, 0.3]
    assert len(study_of("step-size", Options(None, lam=0.2, quick=True)).rules) == 1


def test_episodes_are_recorded_at_checkpoints_of_the_same_spacing():
    car = study_of("mountain-car", Options(None, episodes=200, quick=True))
    assert [case.points for case in car.cases] == [(0, 8, 32, 72, 128, 200)] * 2


@pytest.mark.slow
def test_the_studies_of_the_paper_are_ordinary_studies(tmp_path):
    """`saddleback sweep` runs the files themselves."""
    for path in STUDIES.glob("*.toml"):
        assert read_study(path).title == path.stem
    done = invoke("sweep", STUDIES / "step-size.toml", "--plan")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("learners       58,080\n")


@pytest.mark.parametrize("recipe", [two_state, mountain_car])
def test_every_rule_fits_or_is_rejected_before_the_run(recipe, tmp_path):
    for name in rule_names():
        options = Options(tmp_path, rules=(name,), quick=True)
        if name in ("Sarsa", "ETD") or name.startswith("TrueOnline"):
            with pytest.raises(RuleMismatch):
                recipe.check(options)
        else:
            assert recipe.check(options) > 0


@pytest.mark.slow
def test_equal_rules_may_have_two_names(tmp_path):
    """On action values GTD2 is GES; both have their results."""
    options = Options(tmp_path, rules=("GES", "GTD2", "GQ"), quick=True, runs=1)
    for results in run("two-state", options):
        assert [result.rule for result in results.results] == ["GES", "GTD2", "GQ"]
        one, other, different = (result.values["mspbe"] for result in results.results)
        assert np.array_equal(one, other)
        assert not np.array_equal(one, different)


@pytest.mark.slow
def test_rules_on_the_command_line(tmp_path):
    out = ("--quick", "--out", str(tmp_path))
    done = invoke("paper", "two-state", "--rule", "GES", "--rule", "TDRC", *out)
    assert done.exit_code == 0, done.stderr
    study = json.loads((tmp_path / "two-state" / "manifest.json").read_text())["study"]
    assert [rule[1]["label"] for rule in study["rules"]] == ["GES", "TDRC"]
    assert study["quick"] is True
    before = {path: path.read_bytes() for path in (tmp_path / "two-state").rglob("*.*")}
    done = invoke("paper", "two-state", "--rule", "GES", *out)
    assert done.exit_code == 2
    assert "holds another study" in done.stderr
    assert "rules is [['GES', {" in " ".join(done.stderr.split())
    assert {path: path.read_bytes() for path in (tmp_path / "two-state").rglob("*.*")} == before


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("unknown rule 'GQS'. Did you mean 'GQ'?", ("two-state", "--rule", "GES", "--rule", "GQS")),
        ("--rule applies to the comparisons", ("table1", "--rule", "GES")),
        ("--rule applies to the comparisons", ("all", "--rule", "GES")),
        ("--json prints the claims; it applies to reproduction and all", ("baird", "--json")),
        ("ETD(0.99) learns state values", ("mountain-car", "--rule", "ETD")),
        ("10000000 runs: the results of baird need", ("baird", "--runs", "10000000")),
        ("memory has only", ("all", "--runs", str(10**30))),
        ("'--runs': 0 is not in the range", ("baird", "--runs", "0")),
        ("'--episodes': 0 is not in the range", ("mountain-car", "--episodes", "0")),
        ("'--episodes': 10000000000000 is not", ("mountain-car", "--episodes", str(10**13))),
        ("'--seed': -1 is not in the range", ("two-state", "--seed", "-1")),
        ("'--threads': 0 is not in the range", ("two-state", "--threads", "0")),
        ("--lam must be a number in [0, 1], got 1.5", ("two-state", "--lam", "1.5")),
        ("--zeta must be a number in [0, 1], got nan", ("two-state", "--zeta", "nan")),
    ],
)  # fmt: skip
def test_bad_input_is_rejected_before_any_work(message, arguments, tmp_path):
    done = invoke("paper", *arguments, "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_page_of_claims_needs_results(tmp_path):
    done = invoke("paper", "reproduction", "--quick", "--out", str(tmp_path))
    assert done.exit_code == 2
    assert (
        f"{tmp_path} has no results of table1 yet: run saddleback paper table1 --quick --out "
        f"{tmp_path} first, or all experiments."
    ) in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_results_larger_than_the_disk_are_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5e6))
    with pytest.raises(InvalidParameter, match=r"has only 0\.005 GB\. Free some, or choose"):
        paper.check(["stability", "two-state"], Options(tmp_path))
    with pytest.raises(InvalidParameter, match=r"9 runs: .* Use fewer: runs=2\."):
        paper.check(["mountain-car"], Options(tmp_path, runs=9))
    paper.check(["mountain-car"], Options(tmp_path, quick=True))


def test_a_small_lambda_does_not_make_two_comparisons_one():
    cases = study_of("two-state", Options(None, lam=0.2, quick=True)).cases
    assert len({case.label for case in cases}) == 4


# References, computed once.


def test_a_cached_value_is_computed_once_for_all_threads():
    calls, barrier = [], threading.Barrier(4)

    def work(key):
        calls.append(key)
        if key < 0:
            raise ValueError(key)
        return [key]

    cache = ThreadSafeCache(work)

    def call(key):
        barrier.wait()
        return cache(key)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(call, [1, 1, 2, 1]))
    assert sorted(calls) == [1, 2]
    assert results[0] is results[1] is results[3]
    for _ in range(2):
        with pytest.raises(ValueError, match="-1"):
            cache(-1)
    assert sorted(calls) == [-1, 1, 2]


def test_the_reference_does_not_depend_on_the_order_of_calls():
    car = simulation(0.99, bins=2, tilings=4)
    effort = Effort(starts=40, steps=2000, pairs=5, returns=3, sample=1000)
    chosen = [sb.GES(0.99), sb.GTB(0.99), sb.GQ(0.99), sb.ABQ(0.5)]
    theta = np.random.default_rng(0).normal(size=(2, 3, car.p))

    def metrics(reference, rule):
        return {
            "mse": reference.values.mse,
            "mspbe": reference.objective(rule.trace).mspbe,
            "mspbe_common": reference.objective(sb.Importance(0.99)).mspbe,
            "mspbe_paper": reference.paper_objective(rule.trace).mspbe,
        }

    def measured(order, threads):
        reference = MountainCarReference(car, effort, seed=0)
        with ThreadPoolExecutor(threads) as pool:
            metrics_of = dict(
                zip(order, pool.map(lambda r: metrics(reference, r), order), strict=True)
            )
        return {
            (str(rule), name): metric(theta)
            for rule, named in metrics_of.items()  # not metrics: a bug of Python 3.12
            for name, metric in named.items()
        }

    one, other = measured(chosen, 1), measured(chosen[::-1], 4)
    assert set(one) == set(other)
    for key, values in one.items():
        assert values.shape == (2, 3)
        assert np.array_equal(values, other[key]), key
    assert np.array_equal(one["GES(0.99)", "mspbe"], one["GES(0.99)", "mspbe_common"])
    assert np.array_equal(one["GES(0.99)", "mspbe"], one["GQ(0.99)", "mspbe"])


def test_the_objective_is_the_mspbe():
    system = sb.System.exact(sb.problems.random_mdp(0.9, rng=3), sb.GES(0.4))
    theta = np.random.default_rng(0).normal(size=(4, 5, system.p))
    measured = Objective(system, half_inverse(system.M)).mspbe(theta)
    np.testing.assert_allclose(measured, system.mspbe(theta))


def test_the_fixed_point_on_active_features_is_that_of_all():
    car = simulation(0.99, bins=3, tilings=4)
    (system,) = from_experience(car, [sb.GTB(0.9)], 20_000, np.random.SeedSequence(0))
    assert (np.diag(system.M) == 0).any()
    np.testing.assert_allclose(fixed_point(system), system.fixed_point, rtol=1e-6, atol=1e-6)


def test_results_of_another_comparison_are_not_read(tmp_path):
    options = Options(tmp_path, quick=True)
    study = replace(study_of("two-state", options), seed=5)
    with (
        Store.open(tmp_path / "two-state", study.as_dict(), ""),
        pytest.raises(InvalidParameter, match="another study: seed is 5 there and 0 here"),
    ):
        comparisons("two-state", options)


def test_results_are_read_once_until_they_change(tmp_path, monkeypatch):
    options, reads = Options(tmp_path, quick=True, rules=("GES",)), []
    read = comparison.read_results
    monkeypatch.setattr(comparison, "read_results", lambda f: reads.append(f) or read(f))
    comparison.compute("two-state", options)
    first, second = (comparisons("two-state", options) for _ in range(2))
    assert first[0].results[0] is second[0].results[0]
    assert reads == [tmp_path / "two-state"]
    with Store.open(tmp_path / "two-state", study_of("two-state", options).as_dict(), "") as store:
        name = store.names()[0]
        store.put(name, store.path(name).read_bytes())
    comparisons("two-state", options)
    assert len(reads) == 2


# Theorem 1 and Table 1.


@pytest.mark.slow
def test_growth_of_iterates_has_the_sign_of_the_spectrum(tmp_path):
    options = Options(tmp_path)
    comparison.compute("theorem1", options)
    for rates in theorem1.growth_rates(options).values():
        assert rates.agree == rates.predicted.size
        assert 0 < (rates.predicted > 0).sum() < rates.predicted.size
        # log|1 + αz|/α = x − α Re(z²)/2 + …
        assert rates.error < 0.01


def test_table_1_prints_one_matrix_that_is_not_the_rules():
    c = table1.config_from(Options(None))
    shown = {name: (printed, true) for name, _, printed, true in matrices(c)}
    assert [name for name, (printed, true) in shown.items() if printed != true] == ["GTB(λ)"]
    assert [row.name for row in table_rows() if not printed_holds(row, c)] == ["GTB(λ)"]
    A = sb.System.exact(sb.problems.two_state(c.gamma), sb.GES(c.lam)).A
    read = [[float(x) for x in line.split()] for line in shown["GES(λ)"][1].splitlines()]
    np.testing.assert_allclose(read, A, atol=6e-4)


@pytest.mark.slow
def test_the_fair_version_of_table_1_is_at_least_as_good(tmp_path):
    options = Options(tmp_path, quick=True, runs=1)
    table1.run(options)
    results = Store.load(tmp_path / "table1").table()
    for row in table_rows():
        printed, fair = table1.best_slopes(results, row)
        assert printed.offset == 0
        assert fair.error <= printed.error
        assert len(row.offsets) == (3 if "t" in row.schedule and row.slow else 1)


def comparison_of(final, *, lam=0.5, rules=()):
    """Return a comparison with the given final values of each rule."""
    study = study_of("two-state", Options(None, rules=rules, lam=lam, zeta=lam, quick=True))
    results = []
    for index in range(len(study.rules)):
        rule = study.rule(index)
        cells = final if rule.form.has_dual else final[:, :1]
        values = np.broadcast_to(cells, (1, 1, *cells.shape))
        steps = np.ones(cells.shape[1])
        results.append(
            RuleResults("p", rule.display_name, "x", lam, np.ones(len(cells)), cells, steps, "β/α",
                        np.array([9]), np.array([0]), dict.fromkeys(METRICS, values),
                        np.where(np.isfinite(values[:, 0]), -1, 4))
        )  # fmt: skip
    return Comparison(study, 0, tuple(results))


METRICS = ("error", "mse", "mspbe", "mspbe_common", "mspbe_paper")


@pytest.mark.parametrize("labels", [comparison_figures.SMALL_METRICS, mountain_car.METRICS])
def test_tables_of_comparisons_fit_80_columns(labels):
    """Nothing is cut, even with the longest numbers."""
    results = comparison_of(np.full((11, 11), 2.5e-12))
    metrics = labels | {"mspbe_paper": "MSPBE, Â"}
    output = io.StringIO()
    Console(file=output, width=80).print(comparison_figures.tabulate(results, "title", metrics))
    lines = output.getvalue().splitlines()
    assert sum(line.rstrip().endswith("2.5e-12  9.77e-05, 9.77e-05") for line in lines) == 9
    caption = " ".join(" ".join(lines).split())
    assert "the last tenth of the checkpoints. div.: settings that diverged in a run." in caption


def test_a_rule_without_beta_has_one_setting_for_each_alpha():
    final = np.repeat(np.array([[1.0], [2.0], [np.inf], [np.inf]]), 11, axis=1)
    results = comparison_of(final, rules=("Expected Sarsa", "GES"))
    with plots.style():
        figure, (ax,) = plots.panels(1, 1, 1.0)
        comparison_figures.distribution(ax, results, "mse")
        heights = [line.get_ydata() for line in ax.lines]
        plt.close(figure)
    assert list(heights[0]) == [0, 0.25, 0.5, 0.5]
    assert (len(heights[1]), heights[1][-1]) == (24, 0.5)


def test_rules_that_coincide_have_markers_at_different_points():
    rules = rules_of(lam=0.9, zeta=0.9)
    styles = {
        name: comparison_figures.line_style(list(rules.values()), k).options(21)
        for k, name in enumerate(rules)
    }
    for group in (("GTB", "GRetrace", "ABQ saddle"), ("ABQ", "GTB corr.", "GRetrace corr."),
                  ("GES", "GQ", "Expected Sarsa")):  # fmt: skip
        appearances = {(styles[name]["color"], styles[name]["marker"], styles[name]["fillstyle"])
                 for name in group}  # fmt: skip
        assert len(appearances) == 3
    for group in (("GTB", "GRetrace", "ABQ saddle"), ("ABQ", "GTB corr.", "GRetrace corr.")):
        marked = [at for name in group for at in styles[name]["markevery"]]
        assert len(marked) == len(set(marked))


def test_a_quick_run_draws_every_figure(tmp_path):
    quick, full = (Options(tmp_path, quick=q) for q in (True, False))
    for recipe in (two_state, mountain_car):
        sizes = [recipe.check(options) for options in (quick, full)]
        assert 0 < sizes[0] < sizes[1]
    for name in ("two-state", "baird", "mountain-car", "step-size", "step-size-mountain-car"):
        labels = [[case.label for case in study_of(name, o).cases] for o in (quick, full)]
        assert labels[0] == labels[1]
    for name in ("stability", "table1", "mountain-car-fixed-points"):
        sizes = [len(study_of(name, o).combinations()) for o in (quick, full)]
        assert 0 < sizes[0] <= sizes[1]
    for options, kinds in ((quick, {".png"}), (full, {".png", ".pdf"})):
        with plots.style():
            written = options.save(plots.panels(1, 1, 1.0)[0], "x")
        assert {path.suffix for path in written} == kinds


@pytest.mark.slow
def test_a_quick_run_cannot_be_taken_for_the_real_one(tmp_path):
    claims = (Claim("it works", "it does", YES, figure="two-state-paper-zero-curves"),)
    parts = [Section("Theory", "", ("claim", "result"), claims)]
    command = "saddleback paper all --seed 3 --quick"
    quick = "\n".join(page(parts, Options(tmp_path, quick=True, seed=3, origin=command)))
    full = "\n".join(page(parts, Options(tmp_path)))
    assert "**Quick run, a smoke test on little data" in quick.split("\n| |")[0]
    assert "do not cite its numbers or verdicts.**" in quick
    assert "Written by `saddleback paper all --seed 3 --quick` from" in quick
    assert "1 are reproduced, 0 in part and 0 not (quick run)." in quick
    assert "quick" not in full
    assert "Claim 1 (`saddleback paper two-state`):" in full
    assert "Written by `saddleback paper all` from" in full
    done = invoke("paper", "stability", "--quick", "--out", str(tmp_path))
    assert "do not cite its numbers" in " ".join(done.stdout.split())


def test_claims_are_numbered_across_sections_in_the_columns_of_theirs(tmp_path):
    parts = [
        Section("Theory", "", ("claim", "result"), (Claim("a holds", "it does", YES),)),
        Section("Rates", "Slopes.", ("rule", "rate"), (Claim("b", "c", NO, "", ("GES", "T^-1")),)),
    ]
    lines = page(parts, Options(tmp_path))
    assert "| 1 | a holds | it does | **yes** |" in lines
    assert lines[lines.index("## Rates") + 2 :][:5] == [
        "Slopes.", "", "| | rule | rate | reproduced |", "| --- | --- | --- | --- |",
        "| 2 | GES | T^-1 | **no** |",
    ]  # fmt: skip
    claims = claims_as_dict(parts, Options(tmp_path))["claims"]
    assert [(claim["section"], claim["claim"]) for claim in claims] == [
        ("Theory", "a holds"), ("Rates", "b"),
    ]  # fmt: skip


PAGE = Path(__file__).parents[2] / "docs" / "paper" / "reproduction.md"


def test_the_page_in_the_documentation_is_of_a_full_run():
    text = PAGE.read_text(encoding="utf-8")
    assert "quick" not in text
    assert "Written by `saddleback paper all` from" in text


def test_rows_of_the_page_have_as_many_cells_as_their_headings():
    """No claim has a bar in its text."""
    columns = None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        bars = line.count("|") if line.startswith("|") else None
        columns = columns if columns is not None and bars is not None else bars
        assert bars == columns, line


def test_systems_from_the_same_experience_do_not_depend_on_their_number():
    car, seed = simulation(0.99, bins=2, tilings=4), np.random.SeedSequence(0)
    rules = [sb.GES(0.5), sb.GTB(0.9), sb.GES(0.0), sb.GRetrace(0.9)]
    together = from_experience(car, rules, 500, seed)
    assert [system.rule for system in together] == rules
    for rule, system in zip(rules, together, strict=True):
        assert np.array_equal(from_experience(car, [rule], 500, seed)[0].A, system.A)


def test_the_help_explains_the_quick_run():
    text = " ".join(invoke("paper", "--help").stdout.split())
    assert "With --quick only PNG figures" in text


@pytest.mark.slow
def test_step_sizes_with_one_lambda_have_fewer_panels(tmp_path):
    done = invoke("paper", "step-size", "--quick", "--lam", "0.4", "--out", str(tmp_path))
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "step-size.png").stat().st_size > 0
