"""Where learners run, and what is refused: with a GPU emulated on the CPU, and without one."""

import logging
import sys
from dataclasses import replace

import numpy as np
import pytest

import saddleback as sb
from helpers.cuda_on_cpu import CpuSlot
from helpers.device_cases import assert_same
from helpers.problems import problem_for
from helpers.studies import sweep
from saddleback.cuda.gpu import Device
from saddleback.errors import InvalidParameter
from saddleback.learning.device import STEP_BYTES, choose_device, engine_on
from saddleback.sweep import plan, read_study, run_study

CAR = sb.problems.mountain_car()
OPTIONS = dict(alpha=[0.01, 0.02], beta=0.01, episodes=2, rng=0)

STUDY = """
runs = 5
steps = 300
checkpoints = 3
metrics = ["mspbe", "mse", "norm"]
[grid]
alpha = [0.1, 0.05]
ratio = [1.0, 0.5]
[[problem]]
name = "two_state"
rewards = [[1.0, -1.0], [0.5, 2.0]]
[[rule]]
name = "GES"
lam = [0.0, 0.5]
[[rule]]
name = "ExpectedSarsa"
lam = 0.5
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


@pytest.mark.slow
def test_metrics_of_the_user_are_computed_on_the_host(emulated):
    metrics = {
        "largest": lambda theta: np.abs(theta).max(axis=-1),
        "pair": lambda theta: theta[..., :2],
    }
    expected, run = (
        sb.learn(sb.GES(0.9), CAR, metrics=metrics, device=device, **OPTIONS)
        for device in ("cpu", "cuda")
    )
    assert_same(expected, run)
    assert run.curves["pair"].shape == (3, 2, 2)


def test_rules_and_runs_side_by_side(emulated):
    rules = [sb.GES(0.9), sb.GQ(0.5), sb.ExpectedSarsa(0.9)]
    pairs = [sb.learn(rules, CAR, runs=3, device=d, threads=2, **OPTIONS) for d in ("cpu", "cuda")]
    for expected, run in zip(*pairs, strict=True):
        assert_same(expected, run)
    assert emulated.launches == 2  # one chunk for each of the points


def test_rules_with_and_without_further_traces_side_by_side(emulated):
    rules = [sb.GTD2(0.9), sb.TrueOnlineGTD(0.9), sb.HTD(0.9), sb.TD(0.5)]
    problem = problem_for("TD", seed=5)
    options = dict(alpha=[0.01, 0.02, 2.0], beta=0.05, steps=500, rng=0, bound=1e4, metrics={})
    pairs = [sb.learn(rules, problem, runs=3, device=d, **options) for d in ("cpu", "cuda")]
    for expected, run in zip(*pairs, strict=True):
        assert_same(expected, run)
    assert emulated.launches == 1


def test_a_gpu_needs_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(InvalidParameter, match=r'needs CuPy: pip install "saddleback\[cuda\]"'):
        Device()


def test_learners_that_do_not_fit_are_refused_before_any_work(emulated, monkeypatch):
    monkeypatch.setattr(emulated, "free", 10**6)
    with pytest.raises(
        InvalidParameter, match=r"2 learners of 972 features need 0.0275 GB on .*about 0 fit"
    ):
        sb.learn(sb.GES(0.9), CAR, device="cuda", **OPTIONS)
    assert not emulated.launches


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (sb.GQ(0.9), CAR),
        (sb.GES(0.99), sb.problems.mountain_car(
            features=sb.features.Tiles([-1.2, -0.07], [0.6, 0.07], bins=8, tilings=8)
        )),
        (sb.TrueOnlineGTD(0.9), sb.problems.boyan_chain()),
        (sb.HTD(0.9), sb.problems.random_mdp(0.9, rng=0, values="state")),
    ],
    ids=str,
)  # fmt: skip
def test_the_memory_of_a_chunk_suffices(emulated, monkeypatch, rule, problem):
    sizes, steps, reserve = [], 2000, CpuSlot.reserve

    def recorded(slot, number, size):
        sizes.append(size)
        return reserve(slot, number, size)

    monkeypatch.setattr(CpuSlot, "reserve", recorded)
    sb.learn(rule, problem, alpha=0.01, beta=0.01, steps=steps, rng=0, device="cuda", metrics={})
    allocated = 1.25 * max(sizes)  # buffers have room for a quarter more
    assert 0.3 * STEP_BYTES * steps < allocated < STEP_BYTES * steps


def test_steps_with_too_many_active_features_are_refused(emulated, monkeypatch):
    monkeypatch.setattr(emulated, "shared_memory", 1000)
    with pytest.raises(InvalidParameter, match="16 features active in a step need"):
        sb.learn(sb.GES(0.9), CAR, device="cuda", **OPTIONS)


def test_runs_that_fit(emulated):
    engine, forms = engine_on("cuda"), [sb.GES(0.9).form, sb.GQ(0.9).form]
    size = ([64, 64], 972, np.dtype(np.float64), forms)
    one, two = engine.needs([64, 64], *size[1:]), engine.needs([64] * 4, *size[1:])
    for free, fit in ((one, 1), (two - 1, 1), (two, 2), (10**12, 7), (0, 1)):
        emulated.free = free
        assert engine.runs_that_fit(*size, 7) == fit
    assert engine_on("cpu").runs_that_fit(*size, 7) == 7
    weights, dutch = 64 * 2 * 973 * 8, [sb.GES(0.9).form, sb.TrueOnlineTD(0.9).form]
    assert engine.needs(*size[:3], dutch) - one == 2 * weights


@pytest.mark.kernel
def test_auto_takes_a_gpu_where_it_pays(emulated, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="saddleback")
    assert choose_device("auto", [(100_000, 1e6)], threads=2) == "cuda"
    assert choose_device("auto", [(10, 1e6)], threads=2) == "cpu"
    assert choose_device("auto", [(100_000, 10)], threads=2) == "cpu"
    assert choose_device("cuda", [(1, 1)], threads=2) == "cuda"
    monkeypatch.setattr("saddleback.cuda.current_device", Device)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert choose_device("auto", [(100_000, 1e6)], threads=2) == "cpu"
    first, second, _, last = caplog.messages
    assert first.startswith(
        "device: cuda (the CPU; about 4.2e+02 s on 2 threads of the CPU, 12 s on"
    )
    assert second.startswith("device: cpu (about 0.042 s on 2 threads")
    assert last == 'device: cpu (device "cuda" needs CuPy: pip install "saddleback[cuda]")'
    run = sb.learn(sb.GES(0.9), CAR, device="auto", **OPTIONS)
    assert run.ok.all()


def test_an_unknown_device_is_refused():
    with pytest.raises(sb.errors.UnknownName, match="unknown device 'gpu'"):
        sb.learn(sb.GES(0.9), CAR, device="gpu", **OPTIONS)


def test_a_study_on_a_gpu_has_the_results_of_the_cpu(study, tmp_path, emulated):
    on_cpu = run_study(study, tmp_path / "cpu", workers=2).table()
    on_gpu = run_study(replace(read_study(study), device="cuda"), tmp_path / "gpu", workers=2)
    assert emulated.launches
    assert on_gpu.manifest["study"]["device"] == "cuda"
    assert_same_rows(on_gpu.table(), on_cpu)


def assert_same_rows(table, expected):
    """Two stores have the same rows, in any order, with the same numbers to rounding."""
    assert table.column_names == expected.column_names
    order = [(name, "ascending") for name in ("rule", "run", "point", "alpha", "beta")]
    for name in expected.column_names:
        actual, desired = (rows.sort_by(order)[name].to_numpy() for rows in (table, expected))
        if desired.dtype.kind == "f":
            np.testing.assert_allclose(actual, desired, rtol=1e-9, atol=1e-12)
        else:
            assert (actual == desired).all()


def test_runs_of_a_study_are_divided_where_memory_is_short(study, tmp_path, emulated):
    chosen = replace(read_study(study), device="cuda")
    emulated.free = engine_on("cuda").needs(
        [4] * 4, 2, np.dtype(np.float64), []
    )  # two runs, two rules
    few = run_study(chosen, tmp_path / "few").table()
    launches, emulated.launches, emulated.free = emulated.launches, 0, 10**9
    assert_same_rows(few, run_study(chosen, tmp_path / "all").table())
    assert launches > emulated.launches


@pytest.mark.slow
def test_the_plan_of_a_study_on_a_gpu(study, emulated):
    study.write_text('device = "cuda"\n' + STUDY)
    cost = plan(read_study(study), study.parent, workers=2)
    assert cost.device == emulated.name
    assert (cost.learners, cost.tasks) == (50, 2)
    assert 10**6 < cost.memory < 10**9
    text = sweep(study, "--plan").stdout
    assert "s on the CPU, at " in text
    assert "B there, plus " in text


def test_a_study_names_its_device(study):
    study.write_text('device = "gpu"\n' + STUDY)
    with pytest.raises(InvalidParameter, match=r"study.toml:1: unknown device 'gpu'"):
        read_study(study)
