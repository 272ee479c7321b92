"""A base install has no Matplotlib: figures are refused, and everything else works."""

import sys

import pytest
from click.testing import CliRunner

import saddleback as sb
from saddleback.cli.group import group
from saddleback.errors import InvalidParameter

REFUSAL = "figures need Matplotlib: pip install 'saddleback[plots]'."


@pytest.fixture(autouse=True)
def no_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [*sys.modules]:
        if name.startswith(("saddleback.plots", "saddleback.paper")):
            monkeypatch.delitem(sys.modules, name)
    for name in ("plots", "paper"):
        monkeypatch.delattr(sb, name, raising=False)


def run(*words):
    done = CliRunner().invoke(group, words)
    return done.exit_code, done.stdout, " ".join(done.stderr.split())


def test_plot_names_the_extra():
    walk = sb.problems.random_walk()
    with pytest.raises(InvalidParameter, match=r"pip install 'saddleback\[plots\]'"):
        sb.System.exact(walk, sb.TD(0.0)).plot()


def test_an_evaluation_is_shown_without_its_figure():
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    log = sb.collect(walk, episodes=50, rng=0)
    shown = sb.evaluate(log, walk.target, features="states", gamma=0.9)._repr_html_()
    assert f"<p>No figure: {REFUSAL}</p>" in shown
    assert "<table" in shown


def test_analyse_prints_its_table_without_a_figure(tmp_path):
    status, table, messages = run("analyse", "two_state", "--out", str(tmp_path))
    assert (status, "error floor" in table) == (0, True)
    assert messages.endswith(f"no figure: {REFUSAL}")


def test_the_experiments_are_refused_before_any_work(tmp_path):
    status, _, messages = run("paper", "stability", "--out", str(tmp_path / "results"))
    assert (status, messages.endswith(f"error: {REFUSAL}")) == (2, True)
    assert not (tmp_path / "results").exists()
