"""Results that experiments of the paper read from the stores of others."""

import pytest

from helpers.studies import invoke
from saddleback.cli.cmd_paper import EXPERIMENTS
from saddleback.paper import MissingResults, Options, theorem1
from saddleback.paper.claims.rates import rate_claims
from saddleback.paper.comparison import STUDIES, comparisons, compute, stored, study_of
from saddleback.paper.mountain_car_reference import reference, simulation
from saddleback.paper.reproduction import STORES
from saddleback.sweep import Store, run_tasks, tasks_of, threads


@pytest.mark.parametrize(
    ("study", "read"),
    [("theorem1", theorem1.growth_rates),
     ("two-state", lambda options: comparisons("two-state", options))],
)  # fmt: skip
def test_unfinished_results_are_not_read(study, read, tmp_path):
    options = Options(tmp_path, quick=True, workers=1)
    settings = study_of(study, options)
    tasks = tasks_of(settings, STUDIES)
    with threads(1) as executor, Store.open(tmp_path / study, settings.as_dict(), "") as store:
        run_tasks(tasks[:2], store, executor)
    with pytest.raises(MissingResults) as raised:
        read(options)
    assert raised.value.message == (
        f"{tmp_path} has 2 of {len(tasks)} results of {study}: run it first, or all experiments."
    )


def test_the_fixed_points_share_the_reference_of_the_comparisons():
    options = Options(None, quick=True)
    own = study_of("mountain-car-fixed-points", options).parameters
    car = simulation(own["gamma"], own["bins"], own["tilings"])
    for name in ("mountain-car", "step-size-mountain-car"):
        study = study_of(name, options)
        settings = {"sample": study.sample, **study.parameters, "seed": 0}
        assert reference(study.cases[0].build(STUDIES), settings) is reference(
            car, {**own, "seed": 0}
        )


@pytest.mark.parametrize("study", [path.stem for path in STUDIES.glob("*.toml")])
def test_missing_results_name_the_experiment_that_computes_them(study, tmp_path):
    with pytest.raises(MissingResults) as raised:
        stored(study, Options(tmp_path, quick=True))
    assert study.startswith(raised.value.experiment)
    assert raised.value.experiment in EXPERIMENTS


def test_the_page_of_claims_asks_for_the_fixed_points(tmp_path, monkeypatch):
    needed = "mountain-car-fixed-points"
    assert needed in STORES
    monkeypatch.setattr("saddleback.paper.reproduction.STORES", (needed,))
    done = invoke("paper", "reproduction", "--quick", "--out", tmp_path)
    assert (
        f"no results of {needed} yet: run saddleback paper mountain-car --quick --out {tmp_path} "
    ) in " ".join(done.stderr.split())


def test_claims_about_the_gap_are_those_of_its_study(tmp_path):
    options = Options(tmp_path, quick=True, workers=1)
    with pytest.raises(MissingResults, match="no results of theory-gap yet"):
        rate_claims(options)
    compute("theory-gap", options)
    last = stored("theory-gap", options).table().to_pylist()[-1]
    mean, high = (claim.result for claim in rate_claims(options)[-2:])
    assert f"gap {last['mean']:.3f}, bound {last['bound']:.2f}. " in mean
    assert f"95% of 10 runs are below {last['high']:.3f}; " in high
    assert "theory-gap" in STORES
