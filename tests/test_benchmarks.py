"""The benchmarks of verdicts and accuracy: they continue, and their summaries are right."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import (
    accuracy,
    compare,
    errors_of_peers,
    executed_lines,
    judgements,
    machine,
    mutants,
    tree_fqe,
    verdicts,
)
from benchmarks.errors_by_method import AUTOMATIC, CLOSED, candidate_values, estimated_values
from benchmarks.families import FAMILIES
from benchmarks.families.family import Case
from benchmarks.ges_map import __main__ as ges_map
from benchmarks.ges_map import car
from benchmarks.resumable import measure_cases

import saddleback as sb
from saddleback.ope.consensus import CandidateFit
from saddleback.paper.rollout_systems import rollout_systems
from saddleback.sweep import RuleResults


def square(x, sign):
    return sign * x * x


def test_a_stopped_run_continues(tmp_path):
    """Stored results are kept, one of other code and a line that was cut off are not."""
    path = tmp_path / "squares.jsonl"
    lines = [
        {"case": [1, 1], "code": "a", "result": 100},
        {"case": [2, 1], "code": "b", "result": 200},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"case": [3, 1], "co')
    results = measure_cases(square, [(1, 1), (2, 1), (3, 1)], path, "a", 1.0)
    assert results == {(1, 1): 100, (2, 1): 4, (3, 1): 9}
    assert measure_cases(square, [(1, 1), (2, 1), (4, 1)], path, "a", 0.0) == {
        (1, 1): 100,
        (2, 1): 4,
    }


def verdict_of(error, gap, *, trust="usable", failed=(), features="auto"):
    """A verdict whose value is off by a number of standard deviations."""
    return {
        "features": features, "value": error, "truth": 0.0, "baseline": -1.0, "spread": 1.0,
        "estimated_spread": 1.0, "error": 0.05, "low": error - 0.1, "high": error + 0.1, "gap": gap,
        "half_width": 0.1 + gap, "trust": trust, "failed": list(failed), "outcome": "better",
        "seconds": 1.0, "parts": {},
    }  # fmt: skip


def test_the_multiplier_is_the_least_that_covers():
    """An error of .3 with a gap of .1 needs c = 2, unless another check fails."""
    good = [verdict_of(0.0, 0.1)] * 10
    assert verdicts.fit_multiplier(good) == 0.0
    assert verdicts.fit_multiplier([*good, verdict_of(0.299, 0.1)]) == 2.0
    assert verdicts.fit_multiplier([*good, verdict_of(0.299, 0.1, failed=["COVERAGE"])]) == 0.0
    usable, missed = verdicts.with_multiplier([verdict_of(0.3, 0.3, failed=["PRECISION"])], 1.0)
    assert (usable.tolist(), missed.tolist()) == ([True], [False])


def test_a_group_is_judged_by_the_multiplier_of_the_others():
    results = {
        ("taxi", "far", 100, 0): [verdict_of(0.299, 0.1)],
        ("clinic", "far", 100, 0): [verdict_of(0.05, 0.1)],
    }
    rows, multipliers, _ = verdicts.summarise(results)
    assert multipliers["left out"] == {"taxi": 0.0, "clinic": 2.0}
    taxi = rows["automatic", "discrete"]["taxi"]
    assert (taxi["usable, missed"], taxi["good"], taxi["missed at c"]) == (1, 0, 1)
    assert rows["automatic", "continuous"]["clinic"]["missed at c"] == 0
    assert rows["automatic", "all"]["all"]["usable"] == 2


def test_errors_are_relative_to_the_best_candidate():
    """In hindsight it has an error of 1; chosen on every other log, one of 4."""
    errors = {AUTOMATIC: [2, 2], "observation: a": [0, 2], "observation: b": [2, 0]}
    errors |= {"observation: c": [1, 1], "history: d": [0, 0]}
    logs = [
        {"errors": {name: one[k] for name, one in errors.items()}, "trust": "usable", "spread": 1.0,
         "seconds": 1.0}
        for k in range(2)
    ]  # fmt: skip
    case = accuracy.summarise(logs)
    assert (case["ratio"], case["ratio, chosen on other logs"]) == (4.0, 1.0)
    assert (case["best"], case["best of all views"]) == ("observation: c", "history: d")


def test_an_error_instead_of_an_answer_is_counted():
    """It is a refusal, neither good nor missed, and is listed."""
    case = FAMILIES["graph"].case("near", 0, 50)
    options = {"gamma": case.gamma, "features": "states:20000"}
    one = judgements.judged(case.as_log(), case.target, **options)
    verdict = {"truth": case.truth, "baseline": case.baseline, "spread": case.spread} | one
    rows, _, flat = verdicts.summarise({("graph", "near", 50, 0): [verdict]})
    counts = rows["by hand", "discrete"]["graph"]
    assert (counts["verdicts"], counts["usable"], counts["good"], counts["wrong"]) == (1, 0, 0, 0)
    (text,) = verdicts.unanswered(flat)
    assert text.startswith("graph: 1 without an answer")
    assert "40,000 features" in text


def test_other_packages_are_compared_on_their_own_logs():
    """Errors of 3 and 1 on two of three logs, beside those of saddleback on the same two."""
    own = dict.fromkeys(accuracy.BESIDE, 2.0)
    results = {("graph", "far", 256, seed): {"errors": own} for seed in (0, 1)}
    results["graph", "far", 256, 2] = {"errors": dict.fromkeys(accuracy.BESIDE, 100.0)}
    theirs = {("graph", "far", 256, seed): {"errors": {"FQE": e}} for seed, e in enumerate((3, 1))}
    (one,) = accuracy.beside_peers(results, theirs).values()
    assert (one["logs"], one["mse"][AUTOMATIC], one["mse"]["FQE"]) == (2, 4.0, 5.0)
    assert one["s.e."]["FQE"] == pytest.approx(np.std([9, 1], ddof=1) / np.sqrt(2))


def test_other_packages_get_whole_episodes_and_the_step():
    """ModelWin has 20 steps: the last one ends, and π is the same wherever the state is."""
    case = FAMILIES["model-win"].case("far", 0, 30)
    arrays = errors_of_peers.as_arrays(case, 0, 100)
    assert arrays["observations"].shape == (600, 4)
    assert arrays["terminated"].reshape(30, 20).sum(axis=1).tolist() == [1] * 30
    assert arrays["terminated"][19::20].all()
    np.testing.assert_allclose(arrays["observations"][:20, 3], np.arange(20) / 20, rtol=1e-6)
    np.testing.assert_allclose(arrays["policy"], [[0.27, 0.73]] * 2)


def test_other_packages_refuse_logs_they_cannot_read():
    """π of the car is decided by the velocity, not the position; and episodes must not be cut."""
    car = FAMILIES["mountain-car"].case("far", 0, 2)
    np.testing.assert_allclose(errors_of_peers.as_arrays(car, 1, 100)["policy"].sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="more than the sign of column 0"):
        errors_of_peers.as_arrays(car, 0, 100)
    with pytest.raises(ValueError, match="whole ones"):
        errors_of_peers.as_arrays(FAMILIES["glucose"].case("near", 0, 2), 0, 100)


@pytest.mark.parametrize(("name", "has_closed"), [("graph", True), ("model-win", False)])
@pytest.mark.slow
def test_estimates_keep_their_names(name, has_closed):
    """A task with a horizon has no closed form, and then IS must not take its place."""
    case = FAMILIES[name].case("near", 0, 50)
    result = sb.evaluate(
        case.as_log(), case.target, gamma=case.gamma, methods=["is", "wdr"], allow_uncovered=True
    )
    values = estimated_values(result.estimates)
    weighted = sb.importance_sampling(case.as_log(), case.target, gamma=case.gamma)
    (is_value,) = (one.estimate("IS").value for one in weighted.values())
    assert values["IS"] == is_value
    assert set(values) - {CLOSED} == {AUTOMATIC, "IS", "WDR"}
    assert (CLOSED in values) == has_closed


def test_names_of_candidates_do_not_depend_on_the_log():
    bases = [
        "12 distinct values",
        "random Fourier 60, bandwidth 1.7",
        "random Fourier 60, bandwidth 3",
    ]
    values = candidate_values(
        [CandidateFit(b, "observation", 0.1, 1.0, 5.0, 0.0, 0.0) for b in bases]
    )
    assert [name.partition(", ")[0] for name in values] == [
        "observation: distinct values",
        "observation: random Fourier 60 (1)",
        "observation: random Fourier 60 (2)",
    ]


@pytest.mark.slow
def test_tree_fqe_and_magic_on_a_finite_problem():
    """ModelWin has a few states: both come close to the value, from far away."""
    case = FAMILIES["model-win"].case("far", 0, 500)
    q, v = tree_fqe.tree_fqe(case)
    starts = tree_fqe.steps_of(case) == 0
    assert case.baseline == pytest.approx(-case.truth)
    for value in (v[starts].mean(), tree_fqe.magic(case, q, v)):
        assert abs(value - case.truth) < 0.15 * case.spread


def test_magic_is_between_the_model_and_the_mean_return_on_policy():
    case = FAMILIES["model-win"].case("far", 0, 50)
    options = vars(case) | {"target": FAMILIES["model-win"].task("far").mu}
    zero = np.zeros(len(case.log["actions"]))
    estimate = tree_fqe.magic(Case(**options), zero, zero)
    mean = case.log["rewards"].sum() / 50
    assert min(0.0, mean) <= estimate <= max(0.0, mean)


def test_numbers_that_moved_beyond_noise_are_listed():
    """A range of runs counts as a whole; a number that one side lacks does not."""
    before = [{"machine": {"cores": 2}, "s": 1.0, "ns": {"a": 10, "b": [5.0]}}]
    after = [{"machine": {"cores": 9}, "s": 1.19, "ns": {"a": 30, "b": [2.0], "c": 1}}]
    names = [(move.name, move.before, move.after) for move in compare.moved(before, after)]
    assert names == [("ns a", 10, 30), ("ns b 0", 5, 2)]
    noisy = [*before, {"s": 1.0, "ns": {"a": 28, "b": [4.0]}}]
    assert [move.name for move in compare.moved(noisy, after)] == ["ns b 0"]
    assert [move.name for move in compare.moved(before, after, 0.1)] == ["ns a", "ns b 0", "s"]
    assert str(compare.Move("s", 2.0, 1.0)) == "    0.50 ×  s: 2 → 1"


def test_files_and_folders_of_a_benchmark_are_compared(tmp_path, capsys, monkeypatch):
    for name, seconds in (("one", 1.0), ("two", 3.0)):
        (tmp_path / name).mkdir()
        content = {"machine": machine.machine(), "s": seconds}
        (tmp_path / name / "bench.json").write_text(json.dumps(content), encoding="utf-8")
    words = ["compare", str(tmp_path / "one"), str(tmp_path / "two" / "bench.json")]
    monkeypatch.setattr("sys.argv", words)
    compare.main()
    first, *moves, last = capsys.readouterr().out.splitlines()
    assert first.startswith(machine.commit())
    assert moves == ["    3.00 ×  s: 1 → 3"]
    assert last == "1 of 1 numbers moved by more than 20%."


def test_mutants_are_single_changes_of_the_code():
    path = mutants.ROOT / "src/saddleback/system/linear_stability.py"
    text = path.read_text(encoding="utf-8")
    candidates = list(mutants.mutants_of(path))
    verdict = next(m for m in candidates if "z[0].real >= 0" in text.splitlines()[m.line - 1])
    assert (verdict.old, verdict.new, verdict.package) == (">=", ">", "system")
    assert "if z[0].real > 0:" in verdict.apply(text)
    assert {(m.old, m.new) for m in candidates} >= {
        ("-", "+"),
        ("*", "/"),
        ("1e-11", "(1e-11 + 1)"),
    }
    for mutant in candidates[::7]:
        compile(mutant.apply(text), str(mutant), "exec")


def test_a_mutant_meets_the_tests_that_execute_its_statement():
    """First those that mention its module; no file whose lines are known and others."""
    path = mutants.ROOT / "src/saddleback/system/linear_stability.py"
    text = path.read_text(encoding="utf-8")
    mutant = next(m for m in mutants.mutants_of(path) if m.old == "1e-11")
    name = "saddleback/system/linear_stability.py"
    executed = {
        file: executed_lines.Executed(seconds, False, {name: [1, 2]})
        for seconds, file in enumerate(mutants.test_files("system"))
    }
    assert mutants.ordered_tests(mutant, text, executed) == []
    runs = executed_lines.Executed(9.0, False, {name: [1, mutant.line]})
    unknown = executed_lines.Executed(1.0, True, {})
    executed |= {
        "tests/theory/test_covariance.py": runs, "tests/system/test_io.py": unknown,
        "tests/system/test_system.py": runs,
    }  # fmt: skip
    assert mutants.ordered_tests(mutant, text, executed) == [
        "tests/system/test_system.py",  # names linear_stability
        "tests/theory/test_covariance.py",
        "tests/system/test_io.py",
    ]


def test_lines_of_a_statement_are_known():
    text = """
LIMIT = (
    3
)

@compiled
def kernel(x,
           y=2):
    if x > y:
        return 1
    match x:
        case 5:
            return 6

class Plain:
    def size(self, n=1):
        while n < 9: n += 1
        with open(
            self.name[0]
        ) as file:
            return len(file.read()) + 1
"""
    expected = {
        3: (range(2, 5), False), 8: (range(6, 9), True), 9: (range(9, 10), True),
        10: (range(10, 11), True), 11: (range(11, 12), True), 12: (range(12, 13), True),
        13: (range(13, 14), True), 16: (range(16, 17), False), 17: (range(17, 18), False),
        19: (range(18, 21), False), 21: (range(21, 22), False),
    }  # fmt: skip
    assert {line: executed_lines.statement_at(text, line) for line in expected} == expected


def test_a_file_may_notice_what_it_executes():
    executed = executed_lines.Executed(1.0, False, {"a.py": [1, 5], "b.py": []})
    assert executed.may_notice("a.py", range(4, 6), False)
    assert not executed.may_notice("a.py", range(2, 5), False)
    assert executed.may_notice("a.py", range(2, 5), True)  # compiled: its lines are not seen
    assert not executed.may_notice("b.py", range(1, 9), True)
    assert not executed.may_notice("c.py", range(1, 9), True)
    assert executed_lines.Executed(1.0, True, {}).may_notice("c.py", range(1, 9), False)


def test_compiled_functions_that_contain_another_file_are_compiled_afresh():
    source = mutants.ROOT / "src"
    file = source / "saddleback/engine/lazy_trace.py"
    names = {path.stem for path in mutants.compiled_dependents(source, file)}
    assert {"lazy_trace", "update_kernel", "explicit_kernel"} <= names
    assert "padded_rows" not in names
    forms = source / "saddleback/rules/forms.py"  # which kernels import from the package
    names = {path.stem for path in mutants.compiled_dependents(source, forms)}
    assert {"padded_rows", "tabular_stream", "experience"} & names == {
        "padded_rows",
        "tabular_stream",
    }
    report = source / "saddleback/ope/text_report.py"
    assert mutants.compiled_dependents(source, report) == {report}


@pytest.mark.slow
def test_equivalent_mutants_are_mutants_of_the_code():
    reasons = mutants.equivalent_mutants(mutants.EQUIVALENT.read_text(encoding="utf-8"))
    assert all(reasons.values())
    changes = {
        (mutant.file, *mutant.change((mutants.ROOT / file).read_text(encoding="utf-8")))
        for file in {file for file, _, _ in reasons}
        for mutant in mutants.mutants_of(mutants.ROOT / file)
    }
    assert reasons.keys() <= changes


@pytest.mark.slow
def test_lines_of_tests_are_recorded(tmp_path):
    """Of imports, of the tests, and whether a process was started."""
    source, out = mutants.ROOT / "src", tmp_path / "lines.json"
    test = tmp_path / "test_it.py"
    test.write_text(
        "import subprocess, sys\n"
        "from saddleback.ope.number_format import *\n"
        "from saddleback._display import *\n"
        "def test_it():\n"
        "    import saddleback.ope.slope\n"
        "    subprocess.run([sys.executable, '-c', ''])\n"
    )
    for processes in (True, False):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "benchmarks.executed_lines", "-q", str(test)],
            cwd=mutants.ROOT, capture_output=True, text=True, check=False,
            env=os.environ | {
                executed_lines.TARGET: f"{source}::{out}", "PYTHONPATH": str(source),
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        executed = executed_lines.read(out)
        assert executed.processes == processes
        lines = (source / "saddleback/ope/slope.py").read_text(encoding="utf-8").splitlines()
        seen = [lines[line - 1] for line in executed.lines["saddleback/ope/slope.py"]]
        assert any(line.startswith("def ") for line in seen)
        assert not any(line.strip().startswith("return") for line in seen)
        test.write_text(test.read_text().replace("    subprocess", "    # "))


def test_the_map_finds_the_leader_and_its_advantage():
    def results(final):
        values = np.asarray(final, dtype=float)[:, None, :, None] * np.ones((1, 2, 1, 1))
        steps = np.ones(values.shape[2])
        return RuleResults(
            "p", "r", "r", 0.5, steps, steps[:, None], np.ones(1), "β/α", np.array([0, 9]),
            np.arange(len(values)), {"error": values}, np.full(values[:, 0].shape, -1),
        )  # fmt: skip

    rules = {
        "GES": results([[1.0, 9.0], [1.2, 9.0]]), "GQ": results([[10.0, 70.0], [12.0, 0.1]]),
        "ABQ": results([[40.0, 50.0], [40.0, 50.0]]), "GTB": results([[20.0, 20.0], [20.0, 20.0]]),
    }  # fmt: skip
    for measure in ("error", "area"):
        cell = ges_map.cell_of(
            "paper's steps, α/4; 0.2, car, greedy", rules, measure, np.random.default_rng(0)
        )
        assert (cell.grid, cell.lam, cell.problem) == ("paper's steps, α/4", "0.2", "car, greedy")
        assert (cell.leader, cell.verdict) == ("GES", "ahead")
        assert cell.advantage == pytest.approx(1.0)  # GQ's best setting by the mean is its first
        assert cell.low <= cell.advantage <= cell.high


@pytest.mark.slow
def test_objectives_of_the_map_are_those_of_their_systems(monkeypatch):
    """Importance traces by rollouts, others by experience, each computed once."""
    monkeypatch.setattr(car, "LAMBDAS", (0.6,))
    problem, effort = car.reading(gamma=0.8), {"starts": 50, "experience": 3000, "seed": 1}
    own = car.mspbe(problem, sb.GES(0.6), **effort)
    assert own == car.mspbe(problem, sb.GQ(0.6), **effort)
    assert own == car.mspbe_common(problem, sb.GTB(0.6), lam=0.6, **effort)
    theta = np.random.default_rng(0).normal(size=(2, problem.p))
    followed = rollout_systems(problem, (0.6,), 50, np.random.SeedSequence([1, 97]))[0.6].system
    np.testing.assert_allclose(own(theta), followed.mspbe(theta), rtol=1e-6)
    sampled = sb.System.estimate(
        problem, sb.GTB(0.6), steps=3000, rng=np.random.SeedSequence([1, 96]), batches=2
    )
    np.testing.assert_allclose(
        car.mspbe(problem, sb.GTB(0.6), **effort)(theta), sampled.mspbe(theta), rtol=1e-6
    )


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_command_that_fails_is_explained_and_the_others_are_kept(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(compare.__file__).parent))
    commands = importlib.import_module("benchmarks.commands")
    (tmp_path / "Makefile").write_text(
        "good:\n\t@echo fine\nbad:\n\t@echo the reason; echo more >&2; exit 3\n"
    )
    targets = {"first": "good", "second": "bad", "third": "good"}
    seconds, weight_mb, failure = commands.measure(targets, tmp_path)
    assert (list(seconds), weight_mb) == (["first"], None)
    assert failure.startswith("make bad failed; its output ends:\nthe reason\nmore\n")
