"""Public names, import times, and the commands paper and analyse."""

import contextlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import saddleback as sb
from helpers.fork_server import run_forked
from helpers.studies import invoke

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "scipy", "numba", "matplotlib", "pyarrow", "pandas", "rich", "gymnasium"}
HEAVY |= {"jinja2", "vl_convert"}


def saddleback(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "saddleback", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


def flat(text):
    """Return text without line breaks."""
    return " ".join(text.split())


def loaded_by(*command):
    """Return the top-level packages that a new interpreter imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command], capture_output=True, text=True, check=True
    )
    return {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}


@pytest.mark.parametrize(
    "command",
    [
        ("-c", "import saddleback"),
        ("-m", "saddleback", "--version"),
        ("-c", "import saddleback.report; saddleback.report.ready"),
    ],
    ids=lambda c: " ".join(c[-2:]),
)
def test_nothing_heavy_is_loaded(command):
    assert not HEAVY & loaded_by(*command)


def test_the_check_notices_heavy_imports():
    assert "numpy" in loaded_by("-c", "import saddleback; saddleback.GES")


def test_every_public_name_exists_and_is_documented():
    assert set(dir(sb)) == set(sb.__all__)
    for name in sb.__all__:
        value = getattr(sb, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            assert value.__doc__, name
            assert ">>>" in value.__doc__ or inspect.isclass(value), name


def test_type_checkers_see_exactly_the_public_names():
    source = (ROOT / "src/saddleback/__init__.pyi").read_text()
    seen = set(re.findall(r"import (\w+) as \1", source))
    assert re.findall(r"^from (\S+) import \*", source, re.MULTILINE) == ["saddleback.rules.named"]
    named = sb.rules.named
    seen |= {name for name, value in vars(named).items() if inspect.isfunction(value)}
    assert seen - {"named_rule"} == set(sb.__all__) - {"__version__"}
    assert set(sb.rules.NAMED) <= seen


def test_version():
    assert saddleback("--version").stdout == f"saddleback {sb.__version__}\n"


def test_unknown_command_and_experiment():
    done = invoke("papr")
    assert done.exit_code == 2
    assert "unknown command 'papr'. Did you mean 'paper'?" in flat(done.stderr)
    done = invoke("paper", "two_state")
    assert done.exit_code == 2
    assert "unknown experiment 'two_state'. Did you mean 'two-state'?" in flat(done.stderr)
    done = invoke("paper", "baird", "--runs", "0")
    assert done.exit_code == 2
    assert "0 is not in the range x>=1" in flat(done.stderr)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    done = invoke("paper", "stability", "--out", str(blocker / "results"))
    assert done.exit_code == 2
    assert "cannot write into" in flat(done.stderr)
    assert "Choose another folder: --out …" in flat(done.stderr)


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """A quick run of all experiments: its folder and its output."""
    # One run for all workers of the suite, which share the folder above their own.
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, kept = shared / "quick", shared / "quick.json"
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        done = run_forked("paper", "all", "--quick", "--out", folder)
        output = {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        (shared / "quick.part").write_text(json.dumps(output))
        (shared / "quick.part").rename(kept)
    for _ in range(1200):
        if kept.exists():
            break
        time.sleep(0.1)
    output = json.loads(kept.read_text())
    assert output["status"] == 0, output["stderr"]
    return folder, SimpleNamespace(**output)


@pytest.mark.slow
def test_experiments_are_bit_reproducible(quick_run, tmp_path):
    """With one thread and with two, figures and numbers are bit-identical."""
    done = run_forked(
        "paper", "two-state", "--quick", "--threads", "1", "--out", tmp_path / "again"
    )
    assert done.returncode == 0, done.stderr
    for printed in (quick_run[1].stdout, done.stdout):
        assert "GES(0)" in printed
        assert "rewards, λ = 0.5" in printed
    paths = sorted(
        path.relative_to(tmp_path / "again")
        for path in (tmp_path / "again").rglob("*")
        if path.suffix in (".png", ".pdf", ".parquet")
    )
    assert len(paths) == 1 + 4 * 3 + 4 * 4 + 2 * 2
    for path in paths:
        assert (quick_run[0] / path).read_bytes() == (tmp_path / "again" / path).read_bytes(), path


@pytest.mark.slow
def test_finished_work_is_kept_and_another_study_refused(quick_run, tmp_path):
    shutil.copytree(quick_run[0] / "baird", tmp_path / "baird")
    arguments = ("paper", "baird", "--quick", "--out", str(tmp_path))
    manifest = json.loads((tmp_path / "baird" / "manifest.json").read_text())
    assert manifest["versions"]["saddleback"] == sb.__version__
    assert manifest["command"].startswith("saddleback paper all --quick")
    shards = tmp_path / "baird" / "shards"
    times = {path: path.stat().st_mtime_ns for path in shards.iterdir()}
    (shards / "p000-0000-run00000.parquet").unlink()
    broken = shards / "p000-0000-run00001.parquet"
    broken.write_bytes(broken.read_bytes()[:100])
    done = invoke(*arguments)
    assert done.exit_code == 0
    assert "p000-0000-run00001.parquet was damaged; moved to damaged/ and recomputed" in flat(
        done.stderr
    )
    assert (shards.parent / "damaged" / "p000-0000-run00001.parquet").exists()
    rewritten = {
        path for path in shards.glob("*.parquet") if times[path] != path.stat().st_mtime_ns
    }
    assert {path.stem for path in rewritten} == {"p000-0000-run00000", "p000-0000-run00001"}
    done = invoke(*arguments, "--zeta", "0.5")
    assert done.exit_code == 2
    assert "holds another study" in flat(done.stderr)


@pytest.mark.slow
def test_analyse(tmp_path):
    arguments = ("two_state", "--gamma", "0.999", "--lam", "0.9", "--rule", "GES")
    done = run_forked("analyse", *arguments, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    output = " ".join(done.stdout.split())
    assert "diverges for every α: A has an eigenvalue with real part 0.235134" in output
    assert "0.708, exceeded: E‖e‖² is infinite" in output
    assert (tmp_path / "analyse-two_state.png").stat().st_size > 5000
    done = invoke("analyse", *arguments, "--json", "--out", str(tmp_path / "none"))
    plain = json.loads(done.stdout)
    assert plain["offline"]["stable"] is False
    assert not (tmp_path / "none").exists()
    for kind in (("random_mdp", "--rule", "ExpectedSarsa"), ("random_walk", "--rule", "TD")):
        done = invoke("analyse", *kind, "--steps", "1000", "--out", str(tmp_path))
        assert done.exit_code == 0, done.stderr
        assert "smallest expected error after 1000 steps" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_analyse_of_a_saved_system(tmp_path):
    problem = sb.problems.random_mdp(0.9, rng=0)
    system = sb.System.estimate(
        problem, sb.GES(0.2), steps=20_000, rng=0, batches=100, keep_batches=True
    )
    path = sb.system.save(system, tmp_path / "some.npz")
    done = invoke("analyse", str(path), "--out", str(tmp_path))
    assert done.exit_code == 0, done.stderr
    assert "advice, 10,000 steps" in done.stdout
    assert (tmp_path / "analyse-some.png").exists()
    done = invoke("analyse", str(path), "--lam", "0.3")
    assert done.exit_code == 2
    assert "--lam applies to problems only" in flat(done.stderr)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("unknown problem 'two-state'. Did you mean 'two_state'?", ("two-state",)),
        ("unknown rule 'GEZ'. Did you mean 'GES'?", ("two_state", "--rule", "GEZ")),
        ("lam must be a number in [0, 1], got 2.0", ("two_state", "--lam", "2")),
        ("gamma must be", ("two_state", "--gamma", "-1")),
        ("GTD takes no --lam", ("random_walk", "--rule", "GTD", "--lam", "0.1")),
        ("--seed applies to random_mdp only", ("two_state", "--seed", "1")),
        ("cannot read none.npz", ("none.npz",)),
        (
            "GES(0) learns action values, but random_walk has features for state values. Choose "
            "another --rule: TD, VTrace, GTD",
            ("random_walk", "--rule", "GES"),
        ),
        ("Choose another --rule: GES, GQ, ABQ", ("two_state", "--rule", "TD")),
        (". is a folder: give the name of a problem, two_state", (".",)),
    ],
)
def test_bad_arguments_of_analyse_are_refused(message, arguments, tmp_path):
    done = invoke("analyse", *arguments, "--out", str(tmp_path))
    assert done.exit_code == 2
    assert message in flat(done.stderr)


@pytest.mark.slow
def test_an_experiment_at_full_size_is_drawn_as_pdf_too(tmp_path):
    """The one that takes the least time."""
    done = invoke("paper", "theorem1", "--out", str(tmp_path))
    assert done.exit_code == 0, done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"theorem1.png", "theorem1.pdf", "theorem1"}
    assert "do not cite its numbers" not in flat(done.stdout), "a warning of quick runs"


@pytest.mark.slow
def test_every_claim_gets_a_verdict(quick_run, tmp_path):
    """The page of claims from a quick run of all experiments."""
    folder, done = quick_run
    for part in ("MountainCar, λ = 0.99", "Table 1, computed"):
        assert part in done.stdout
    page = (folder / "reproduction.md").read_text(encoding="utf-8")
    assert page.count("| **") > 40
    assert "**Quick run" in page
    assert "do not cite its numbers or verdicts" in flat(done.stdout)
    assert "The paper's claims (quick run)" in done.stdout
    assert "Off-line Expected Sarsa(λ) can be unstable" in page
    assert "| GTB(λ) | ΦᵀΞ(I−γλP^μ)⁻¹(γP^π−I)Φ | ` 0.216 -0.259;" in page
    assert len(list(folder.glob("*.png"))) == 6 + 2 * 4 * 3 + 2 * 3
    for figure in re.findall(r"figures/(.*?)\.png", page):
        assert (folder / f"{figure}.png").exists()
    messages = done.stderr.replace(str(folder), "results")
    assert max(map(len, messages.splitlines())) <= 80
    done = invoke("paper", "reproduction", "--quick", "--json", "--out", str(folder))
    output = json.loads(done.stdout)
    assert (output["kind"], output["schema"], output["quick"]) == (
        "saddleback reproduction",
        1,
        True,
    )
    assert len(output["claims"]) == page.count("| **") == sum(output["counts"].values())
    short = {"reproduced": "yes", "reproduced in part": "partly", "not reproduced": "no"}
    for number, claim in enumerate(output["claims"], 1):
        assert re.search(
            rf"^\| {number} \| .* \| \*\*{short[claim['verdict']]}\*\* \|$", page, re.M
        )
        if claim["section"] == "Theory":
            assert f"| {number} | {claim['claim']} | {claim['result']} | **" in page
    done = invoke("paper", "reproduction", "--out", str(tmp_path / "elsewhere"))
    assert done.exit_code == 2
    assert "has no results of table1 yet: run saddleback paper table1 --out" in flat(done.stderr)
