"""Other platforms, simulated: no fcntl, a code page for output, paths with spaces and accents."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import saddleback as sb
from helpers.studies import invoke, write_study
from saddleback import _paths
from saddleback.cli import terminal

WITHOUT_FCNTL = """
import sys, warnings
sys.modules["fcntl"] = None
warnings.filterwarnings("ignore", "only soft file lock is available")
from saddleback.cli import main
main()
"""

STUDY = """\
steps = 50
grid = {alpha = [0.1], ratio = [1.0]}
[[problem]]
name = "two_state"
[[rule]]
name = "GES"
lam = 0.5
"""


@pytest.mark.slow
def test_a_study_runs_where_fcntl_is_missing(tmp_path):
    write_study(tmp_path, STUDY)
    command = [sys.executable, "-c", WITHOUT_FCNTL, "sweep", "study.toml", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "study" / "manifest.json").exists()


def test_files_are_written_where_fcntl_is_missing(tmp_path, monkeypatch):
    """Nothing tells a file in use from one that was left, so none is removed."""
    monkeypatch.setattr(_paths, "fcntl", None)
    in_use = tmp_path / ".result.json.1.part"
    in_use.touch()
    _paths.atomic_write(tmp_path / "result.json", b"{}")
    assert (tmp_path / "result.json").read_bytes() == b"{}"
    assert in_use.exists() or os.name == "nt"


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        ("−0.5 ≤ λ", "cp1252", "-0.5 <= lambda"),
        ("k̂ 0.86, t₀ = 10⁻⁴", "cp1252", "k^ 0.86, t0 = 10^-4"),
        ("Φᵀ(γP−I)Φ, log²T, T^-⅔", "ascii", "Phi^T(gammaP-I)Phi, log^2T, T^-2/3"),
        ("café, 数", "ascii", "cafe, ?"),
        ("café ×2 ²", "cp1252", "café ×2 ²"),
    ],
)
def test_what_a_code_page_lacks_is_spelled_out(text, encoding, shown):
    assert terminal  # registers the handler
    assert text.encode(encoding, "saddleback").decode(encoding) == shown


def test_help_is_printed_in_a_code_page():
    done = subprocess.run(
        [sys.executable, "-m", "saddleback", "paper", "--help"],
        capture_output=True, check=True, env=os.environ | {"PYTHONIOENCODING": "cp1252"},
    )  # fmt: skip
    assert "c/sqrtt, as printed" in done.stdout.decode("cp1252")


@pytest.mark.slow
def test_paths_may_have_spaces_and_any_letters(tmp_path, monkeypatch):
    folder = tmp_path / "Données der Größe" / "数据 1"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    sb.collect(walk, episodes=40, rng=0, out=folder / "été 1.parquet")
    Path("politique é.py").write_text(
        "import numpy as np\ndef droite(x):\n    return np.full((len(x), 2), [0.4, 0.6])\n",
        encoding="utf-8",
    )
    done = invoke(
        "evaluate", folder / "été *.parquet", "--target", f"{folder / 'politique é.py'}:droite",
        "--features", "states", "--gamma", 0.9, "--save", folder / "résultat.json",
        "--report", folder / "page ü.html", "--quiet",
    )  # fmt: skip
    assert done.exit_code in (0, 3, 4), done.stderr
    assert "politique é.py:droite" in invoke("explain", folder / "résultat.json").stdout
    assert "politique é.py:droite" in (folder / "page ü.html").read_text(encoding="utf-8")
    done = invoke("sweep", write_study(folder, STUDY, "étude.toml"), "--quiet", "--out", "sortie é")
    assert (done.exit_code, Path("sortie é/manifest.json").exists()) == (0, True)
