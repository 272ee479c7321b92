"""Names from files cannot control a terminal, reverse or hide text, or add lines to a result."""

import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saddleback as sb
from helpers.logs import mixed
from helpers.studies import invoke

NASTY = "\x1b[2K\u202e\u2066\nFORGED\x9b\x07 $[/red] $x_"
"""Clears the line, reverses what follows, starts a line, rings; closes markup, begins a formula."""

TARGET = NASTY.replace("/", "")
"""A name given to a target must not look like a path."""

SHOWN = r"\x1b[2K\u202e\u2066\nFORGED\x9b\x07 $[/red] $x_"

POLICY = "import numpy as np\n\n\ndef even(obs):\n    return np.full((len(obs), 3), 1 / 3)\n"

STUDY = """
title = "s\\u001b\\u202e\\nFORGED"
steps = 20
grid = {alpha = [0.1, 0.2], ratio = [1.0]}
problem = [{name = "two_state", label = "p\\u001b\\u202e\\nFORGED [/red]"}]
rule = [{name = "GES", lam = 0.5, label = "r\\u001b\\u202e\\nFORGED [/red]"}]
"""

OBSERVATIONS = tuple(f"sign {k}{NASTY}" for k in range(2))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A log whose columns and actions have such names, a policy, a study and a system."""
    monkeypatch.chdir(tmp_path)
    data = {name: column for name, column in mixed().items() if "mu_" not in name}
    for k, name in enumerate(OBSERVATIONS):
        data[name], data[f"next_{name}"] = data.pop(f"obs_{k}"), data.pop(f"next_obs_{k}")
    data["action"] = np.array([f"{letter}{NASTY}" for letter in "abc"])[data["action"]]
    pq.write_table(pa.table(data), "log.parquet")
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "study.toml").write_text(STUDY)
    rule = replace(sb.GES(0.0), label=f"rule{NASTY}")
    sb.system.save(sb.System.exact(sb.problems.two_state(0.5), rule), "system.npz")
    return tmp_path


def check_printable(text):
    """Assert that text is printable, and shows such names."""
    assert {letter for letter in text if not letter.isprintable()} <= {"\n", "\t"}
    assert r"\u202e" in text


def check_lines(text):
    """Assert in addition that no line is that of a name."""
    check_printable(text)
    assert not [line for line in text.splitlines() if line.startswith("FORGED")]


def run(*words):
    done = invoke(*words)
    check_lines(done.stdout + done.stderr)
    return done


EVALUATION = (
    "--obs", ",".join(OBSERVATIONS), "--target", f"new{TARGET}=policy.py:even", "--gamma", "0.9",
    "--features", "polynomial:1", "--quiet",
)  # fmt: skip


@pytest.mark.slow
def test_output_of_commands_on_a_log(folder):
    assert SHOWN in run("check", "log.parquet", "--obs", ",".join(OBSERVATIONS)).stdout
    run("check", "log.parquet", "--obs", ",".join(OBSERVATIONS), "--json")
    assert run("check", "log.parquet").exit_code == 2  # the names are in its error
    files = ("--save", "result.json", "--report", "page.html")
    run("evaluate", "log.parquet", *EVALUATION, *files)
    run("evaluate", "log.parquet", *EVALUATION, "--json")
    run("rank", "log.parquet", *EVALUATION)
    run("stats", "log.parquet", *EVALUATION, "--out", "log.stats", "--json")
    run("evaluate", "log.stats")
    run("explain", "result.json")
    check_lines((folder / "result.json").read_text())
    check_printable((folder / "page.html").read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_a_result_may_have_a_name_that_is_not_text(folder, monkeypatch):
    words = ("evaluate", "log.parquet", *EVALUATION, "--save", "\udcff.json")
    monkeypatch.setattr(sys, "argv", ["saddleback", *words])
    run(*words)
    assert r"\udcff" in run("explain", "\udcff.json").stderr


def test_output_of_a_study_and_an_analysis(folder):
    run("sweep", "study.toml", "--out", "results")
    invoke("report", "results", "--out", "page.html")
    check_printable((folder / "page.html").read_text())
    run("analyse", "system.npz", "--out", "figures")


@pytest.mark.usefixtures("folder")
def test_texts_html_and_plots_in_python():
    import matplotlib.pyplot as plt

    log = sb.Log("log.parquet", observations=OBSERVATIONS)
    result = sb.evaluate(log, {f"new{NASTY}": "uniform"}, gamma=0.9, features="polynomial:1")
    check_lines(result.text)
    for results in (result, log.summary()):
        check_lines(repr(results))
        check_printable(results._repr_html_())
        axes = np.atleast_1d(results.plot())
        axes[0].get_figure().canvas.draw()
        plt.close(axes[0].get_figure())
