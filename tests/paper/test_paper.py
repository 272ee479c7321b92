"""The paper's experiments from inside: rules by name, sizes, what is shared, what is drawn."""

import io
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import saddleback as sb
from helpers.studies import invoked
from saddleback import paper, plots
from saddleback.errors import InvalidParameter, RuleMismatch, UnknownName
from saddleback.paper import (
    Options,
    comparison_figures,
    mountain_car,
    small_comparison,
    table1,
    theorem1,
    two_state,
)
from saddleback.paper.claims import YES, Claim
from saddleback.paper.comparison import chosen_rules, family, rule_names
from saddleback.paper.mountain_car_reference import (
    Effort,
    Objective,
    fixed_point,
    from_experience,
    half_inverse,
)
from saddleback.paper.reproduction import page
from saddleback.paper.table1_matrices import matrices, printed_holds
from saddleback.paper.table1_rows import Choices, rows
from saddleback.paper.truth import Once, Truth
from saddleback.rules import NAMED, Expected, RegularisedCorrection, UpdateNorm
from saddleback.sweep import Store

# Rules by name.


def test_the_usual_rules_if_none_is_named():
    assert chosen_rules((), 0.3, 0.4) == family(0.3, 0.4)
    assert list(family(0.3, 0.4))[:6] == ["GES", "GQ", "ABQ", "GTB", "GRetrace", "Expected Sarsa"]
    assert set(NAMED) < set(rule_names())


def test_any_rule_by_name_with_its_parameters_filled_in():
    names = ("ABQ", "GTB corr.", "GTB reg.", "ExpectedSarsa", "TDRC", "GTD", "GTD2", "TDC")
    found = chosen_rules(names, 0.3, 0.4)
    assert tuple(found) == names
    assert found["ABQ"] == sb.ABQ(0.4)
    assert found["GTB corr."].trace == sb.TreeBackup(0.3)
    assert found["GTB reg."] == sb.Rule(sb.TreeBackup(0.3), RegularisedCorrection(1.0), Expected())
    # Rules of state values in their version for state-action pairs.
    assert found["GTD2"] == sb.GES(0.3)
    assert found["TDC"] == sb.GQ(0.3)
    assert found["TDRC"] == sb.Rule(sb.Importance(0.3), RegularisedCorrection(1.0), Expected())
    assert found["GTD"] == sb.Rule(sb.NoTrace(), UpdateNorm(), Expected())
    with pytest.raises(UnknownName, match=r"unknown rule 'GEZ'\. Did you mean 'GES'\?"):
        chosen_rules(("GES", "GEZ"), 0.3, 0.4)


@pytest.mark.parametrize("recipe", [two_state, mountain_car])
def test_every_rule_either_fits_or_is_refused_beforehand(recipe, tmp_path):
    for name in rule_names():
        options = Options(tmp_path, rules=(name,), quick=True)
        if name in ("Sarsa", "ETD"):
            with pytest.raises(RuleMismatch):
                recipe.check(options)
        else:
            assert recipe.check(options) > 0


@pytest.mark.slow
def test_rules_on_the_command_line(tmp_path):
    out = ("--quick", "--out", str(tmp_path))
    done = invoked("paper", "two-state", "--rule", "GES", "--rule", "TDRC", *out)
    assert done.exit_code == 0, done.stderr
    study = json.loads((tmp_path / "two-state" / "manifest.json").read_text())["study"]
    assert list(study["paper-rewards"]["rules"]) == ["GES", "TDRC"]
    before = {path: path.read_bytes() for path in (tmp_path / "two-state").rglob("*.*")}
    done = invoked("paper", "two-state", "--rule", "GES", *out)
    assert done.exit_code == 2
    assert "holds another study" in done.stderr
    assert "rules: TDRC is 'Rule(" in " ".join(done.stderr.split())
    assert "here nothing" in done.stderr
    assert {path: path.read_bytes() for path in (tmp_path / "two-state").rglob("*.*")} == before


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("unknown rule 'GQS'. Did you mean 'GQ'?", ("two-state", "--rule", "GES", "--rule", "GQS")),
        ("--rule is for the comparisons", ("table1", "--rule", "GES")),
        ("--rule is for the comparisons", ("all", "--rule", "GES")),
        ("--json prints the claims: it is for reproduction and all", ("baird", "--json")),
        ("ETD(0.99) learns state values", ("mountain-car", "--rule", "ETD")),
        ("--runs 10000000: the results of baird would", ("baird", "--runs", "10000000")),
        ("memory has room for", ("all", "--runs", str(10**30))),
        ("'--runs': 0 is not in the range", ("baird", "--runs", "0")),
        ("'--episodes': 0 is not in the range", ("mountain-car", "--episodes", "0")),
        ("'--episodes': 10000000000000 is not", ("mountain-car", "--episodes", str(10**13))),
        ("'--seed': -1 is not in the range", ("two-state", "--seed", "-1")),
        ("'--threads': 0 is not in the range", ("two-state", "--threads", "0")),
        ("--lam must be a number in [0, 1], got 1.5", ("two-state", "--lam", "1.5")),
        ("--zeta must be a number in [0, 1], got nan", ("two-state", "--zeta", "nan")),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_any_work(message, arguments, tmp_path):
    done = invoked("paper", *arguments, "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_page_of_claims_needs_results(tmp_path):
    done = invoked("paper", "reproduction", "--quick", "--out", str(tmp_path))
    assert done.exit_code == 2
    assert (
        f"{tmp_path} has no results of table1 yet: run saddleback paper table1 --quick --out "
        f"{tmp_path} first, or all experiments."
    ) in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_results_that_the_disk_cannot_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5e6))
    with pytest.raises(InvalidParameter, match=r"has room for 0\.005 GB\. Make room, or choose"):
        paper.check(["stability", "two-state"], Options(tmp_path))
    with pytest.raises(InvalidParameter, match=r"--runs 9: .* Use at most 3\."):
        paper.check(["mountain-car"], Options(tmp_path, runs=9))
    paper.check(["mountain-car"], Options(tmp_path, quick=True))


def test_a_small_lambda_does_not_make_two_comparisons_one(tmp_path):
    options = Options(tmp_path, lam=0.2, quick=True)
    plans = small_comparison.plan("two-state", two_state.make, two_state.COMPARISON, options)
    assert len(plans) == 4


# What is worked out once.


def test_once_for_all_threads():
    asked, gate = [], threading.Barrier(4)

    def work(key):
        asked.append(key)
        if key < 0:
            raise ValueError(key)
        return [key]

    once = Once(work)

    def ask(key):
        gate.wait()
        return once(key)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, [1, 1, 2, 1]))
    assert sorted(asked) == [1, 2]
    assert found[0] is found[1] is found[3]
    for _ in range(2):
        with pytest.raises(ValueError, match="-1"):
            once(-1)
    assert sorted(asked) == [-1, 1, 2]


def test_truth_does_not_depend_on_who_asks_first():
    c = replace(mountain_car.chosen(Options(None, quick=True)), bins=2)
    effort = Effort(starts=40, steps=2000, pairs=5, returns=3)
    chosen = [sb.GES(0.99), sb.GTB(0.99), sb.GQ(0.99), sb.ABQ(0.5)]
    theta = np.random.default_rng(0).normal(size=(2, 3, mountain_car.simulation(c).p))

    def measured(order, threads):
        truth = Truth(mountain_car.simulation(c), effort, 1000, seed=0)
        with ThreadPoolExecutor(threads) as pool:
            found = dict(zip(order, pool.map(lambda r: truth.metrics(r, 0.99), order), strict=True))
        return {
            (str(rule), name): metric(theta)
            for rule, metrics in found.items()
            for name, metric in metrics.items()
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
    found = Objective(system, half_inverse(system.M)).mspbe(theta)
    np.testing.assert_allclose(found, system.mspbe(theta))


def test_the_fixed_point_on_active_features_is_that_of_all():
    car = mountain_car.simulation(replace(mountain_car.Choices(), bins=3))
    system = from_experience(car, sb.GTB(0.9), 20_000, np.random.SeedSequence(0))
    assert (np.diag(system.M) == 0).any()
    np.testing.assert_allclose(fixed_point(system), system.fixed_point, rtol=1e-6, atol=1e-6)


def test_results_of_another_comparison_are_not_read(tmp_path):
    options = Options(tmp_path, quick=True)
    case = next(
        iter(small_comparison.plan("x", two_state.make, two_state.COMPARISON, options).values())
    )
    with (
        Store.open(tmp_path / "s", {case.name: case.study() | {"seed": 5}}, "") as store,
        pytest.raises(InvalidParameter, match="paper-rewards: seed is 5, here 0"),
    ):
        case.results(store)


# Theorem 1 and Table 1.


def test_growth_of_iterates_has_the_sign_of_the_spectrum():
    counted = theorem1.count(theorem1.Choices())
    for each in counted.values():
        assert each.agree == each.predicted.size
        assert 0 < (each.predicted > 0).sum() < each.predicted.size
        # log|1 + αz|/α = x − α Re(z²)/2 + …
        assert each.gap < 0.01


def test_table_1_prints_one_matrix_that_is_not_the_rules():
    c = Choices()
    shown = {name: (printed, true) for name, _, printed, true in matrices(c)}
    assert [name for name, (printed, true) in shown.items() if printed != true] == ["GTB(λ)"]
    assert [row.name for row in rows(c.lam) if not printed_holds(row, c)] == ["GTB(λ)"]
    A = sb.System.exact(sb.problems.two_state(c.gamma), sb.GES(c.lam)).A
    read = [[float(x) for x in line.split()] for line in shown["GES(λ)"][1].splitlines()]
    np.testing.assert_allclose(read, A, atol=6e-4)


def test_the_fair_version_of_table_1_has_its_offsets(tmp_path):
    options = Options(tmp_path, quick=True, runs=1)
    table1.run(options)
    store, c = Store.load(tmp_path / "table1"), table1.chosen(options)
    for n, row in enumerate(rows(c.lam)):
        printed, fair = table1.best_slopes(store, n, row, c)
        assert printed.offset == 0
        assert fair.error <= printed.error
        assert len(row.offsets(c)) == (3 if "t" in row.steps and row.slow else 1)


@pytest.mark.parametrize("recipe", [small_comparison, mountain_car])
def test_tables_of_comparisons_fit_80_columns(recipe):
    """With the longest numbers that there are, nothing is cut."""
    grid = SimpleNamespace(alphas=(9.77e-5,), ratios=(9.77e-5,))
    results = SimpleNamespace(
        comparison=SimpleNamespace(rules=family(0.0, 0.0), grid=grid),
        arrays={"diverged_at": np.zeros((1, 1, 1, 11, 11))},
        diverged=lambda _: np.ones((11, 11)), best=lambda *_: (0, 0),
        final=lambda *_: np.full((1, 1), 2.5e-12),
    )  # fmt: skip
    metrics = recipe.METRICS | {"mspbe_paper": "by Â of μ"}
    said = io.StringIO()
    Console(file=said, width=80).print(comparison_figures.tabulate(results, "title", metrics))
    lines = said.getvalue().splitlines()
    assert sum(line.rstrip().endswith("2.5e-12  9.77e-05, 9.77e-05") for line in lines) == 9
    caption = " ".join(" ".join(lines).split())
    assert "the last tenth of the checkpoints. div.: settings that diverged in a run." in caption


def test_quickly_every_figure_is_drawn_too(tmp_path):
    quick, full = (Options(tmp_path, quick=q) for q in (True, False))
    for recipe in (two_state, mountain_car):
        sizes = [recipe.check(options) for options in (quick, full)]
        assert 0 < sizes[0] < sizes[1]
    plans = [
        small_comparison.plan("x", two_state.make, two_state.COMPARISON, options)
        for options in (quick, full)
    ]
    assert list(plans[0]) == list(plans[1])
    kept = [mountain_car.fixed_point_tasks(mountain_car.chosen(o), 0) for o in (quick, full)]
    assert all(kept)
    for options, kinds in ((quick, {".png"}), (full, {".png", ".pdf"})):
        with plots.style():
            written = options.save(plots.column(1, 1.0, gap=0)[0], "x")
        assert {path.suffix for path in written} == kinds


@pytest.mark.slow
def test_a_quick_run_cannot_be_taken_for_the_real_one(tmp_path):
    claims = [Claim("it works", "it does", YES, figure="two-state-paper-zero-curves")]
    quick, full = (
        "\n".join(page(claims, Options(tmp_path, quick=q, seed=q * 3))) for q in (True, False)
    )
    assert "**A quick run, from little data" in quick.split("\n| |")[0]
    assert "are not to be quoted.**" in quick
    assert "Written by `saddleback paper all --seed 3 --quick` from" in quick
    assert "1 are reproduced, 0 in part and 0 not (in a quick run)." in quick
    assert "quick" not in full
    assert "Claims 1; `saddleback paper two-state` draws this:" in full
    assert "Written by `saddleback paper all` from" in full
    for words, quoted in ((["--quick"], True), ([], False)):
        done = invoked("paper", "stability", "--out", str(tmp_path), *words)
        assert ("are not to be quoted" in " ".join(done.stdout.split())) == quoted


def test_the_page_in_the_documentation_is_of_a_full_run():
    found = (Path(__file__).parents[2] / "docs" / "paper" / "reproduction.md").read_text(
        encoding="utf-8"
    )
    assert "quick" not in found
    assert "Written by `saddleback paper all` from" in found


def test_the_help_says_what_quick_leaves_out():
    said = " ".join(invoked("paper", "--help").stdout.split())
    assert "With --quick figures are PNG only" in said
