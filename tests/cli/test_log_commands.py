"""The commands check, stats, merge and evaluate."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import saddleback as sb
from helpers.linear_quadratic import simulate
from saddleback.cli.group import group

pytestmark = pytest.mark.usefixtures("few_candidates")

CAR = sb.problems.mountain_car()
BOX = ["--features", "tiles:4x2", "--low=-1.2,-0.07", "--high=0.6,0.07"]
"""Few tiles, for speed: a command takes a fifth of a second instead of two."""

CAR_BOX = ["--features", "tiles:8x4", *BOX[2:]]
"""The tiles of ``CAR``."""

POLICY = """
import numpy as np

def probs(obs):
    right = obs[:, 1] > 0
    return np.where(right[:, None], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1])

def short(obs):
    return np.ones((len(obs), 2)) / 2

def nothing(obs):
    return np.full((len(obs), 3), np.nan)

def lines(obs):
    return np.column_stack([np.ones(len(obs)), obs])

def talking(obs):
    print("asked for", len(obs))
    return probs(obs)
"""


VERDICTS = (0, 3, 4)
"""Exit statuses of evaluate: usable, refused, doubtful."""


def run(*words, status=None):
    result = CliRunner().invoke(group, [str(argument) for argument in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    allowed = (status,) if status is not None else VERDICTS if words[0] == "evaluate" else (0,)
    assert result.exit_code in allowed, result.output + result.stderr
    return result


def flat(text):
    """Return text without line breaks."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    (folder / "pol.py").write_text(POLICY)
    sb.collect(CAR, episodes=300, rng=0, out=folder / "a.parquet")
    sb.collect(CAR, episodes=200, rng=1, out=folder / "b.parquet")
    sb.collect(CAR, episodes=3, rng=2, out=folder / "few.parquet")
    return folder


def test_check_of_a_good_log(folder):
    output = run("check", folder / "a.parquet", "--gamma", 0.99).stdout
    lines = output.splitlines()
    assert lines[0].startswith("39,765 rows")
    assert "300 episodes" in lines[0]
    assert "terminated 300   truncated 0" in lines[0]
    assert lines[1].startswith("actions, share of rows   0 0.4")
    assert "mean return of completed episodes -7" in lines[2]
    assert lines[3].startswith("behavior_prob  min 0.01  median 0.98   OK: order, flags, no NaN")
    assert lines[-1] == "no warnings. Ready."


def test_check_reports_every_problem_and_exits_with_2(folder, tmp_path):
    table = pq.read_table(folder / "a.parquet").to_pandas()
    table.loc[5, "reward"] = np.nan
    table.loc[7, "behavior_prob"] = 0.0
    table.loc[9, "terminated"] = True
    bad = tmp_path / "bad.parquet"
    table.to_parquet(bad)
    result = run("check", bad, status=2)
    for code in ("E101 behavior_prob is 0 on 1 row", "E120 reward is NaN in 1 row", "E132 termin"):
        assert code in flat(result.stdout)
    assert "3 errors" in result.stdout
    assert "Fix the errors before use." in result.stdout
    plain = json.loads(run("check", bad, "--json", status=2).stdout)
    assert {finding["code"] for finding in plain["findings"]} >= {"E101", "E120", "E132"}
    repaired = run("check", bad, "--drop-bad", "--min-prob", 0.01).stdout
    assert "W121 dropped 1 episode with NaN or infinities" in repaired
    assert "1 warning. Ready." in repaired
    assert "mean -1  max -1" in repaired


@pytest.mark.slow
def test_evaluate_takes_a_function_from_a_file(folder):
    output = run(
        "evaluate", folder / "a.parquet", "--target", f"{folder / 'pol.py'}:probs", "--gamma", 0.99,
        "--features", "tiles:4x4", *BOX[2:], "--path", "--method", "fqe",
    ).stdout  # fmt: skip
    assert "LSTD, GRetrace(0.5)" in output
    assert "; the answer" in output
    assert "observed; our estimator gives −7" in flat(output)
    assert "FQE" in output
    assert "λ ceiling of GES 0.6" in output
    assert "value by λ 0: −" in flat(output)
    assert "value by ridge 0: −" in flat(output)


@pytest.mark.slow
def test_evaluate_in_json_equals_python(folder):
    plain = json.loads(
        run("evaluate", folder / "a.parquet", "--target", "new=pump:0.8", "--gamma", 0.99, *CAR_BOX,
            "--rule", "GES:0.3", "--ridge", 0.001, "--json").stdout
    )  # fmt: skip
    assert plain["estimates"][0]["target"] == "new"
    one = sb.LSTD(
        target="pump:0.8", features=CAR.features, gamma=0.99, rule=sb.GES(0.3), ridge=0.001
    ).fit(str(folder / "a.parquet"))
    assert plain["estimates"][0]["value"] == pytest.approx(one.value(), rel=1e-12)
    assert plain["logged"]["value"] == pytest.approx(-73, abs=1.5)
    assert plain["logged"]["estimate"] == pytest.approx(plain["logged"]["value"], rel=0.05)
    assert plain["lambda_ceiling"]["new"] == pytest.approx(0.62, abs=0.04)


@pytest.mark.slow
def test_statistics_of_parts_merge_to_those_of_all(folder, tmp_path):
    options = ["--target", "new=pump:0.8", "--target", "uniform", "--gamma", 0.99, *BOX]
    options += ["--rule", "GES:0.3", "--rule", "GRetrace:0.9", "--blocks", 3]
    both = [folder / "a.parquet", folder / "b.parquet"]
    # Ids repeat from file to file, so one go needs them apart.
    apart = pq.read_table(both[1]).to_pandas()
    apart["episode_id"] += 1000
    apart.to_parquet(tmp_path / "b.parquet")
    both[1] = tmp_path / "b.parquet"
    for name, files in (("one", both[:1]), ("two", both[1:]), ("all", both)):
        output = run("stats", *files, *options, "--out", tmp_path / f"{name}.stats").stdout
        assert "4 rules, 3 targets" in output  # with λ = 0, and the logged policy too
    run("merge", tmp_path / "one.stats", tmp_path / "two.stats", "--out", tmp_path / "sum.stats")
    complete, merged = (sb.load_statistics(tmp_path / f"{n}.stats") for n in ("all", "sum"))
    for name in ("A", "b", "M", "starts", "squares"):
        np.testing.assert_allclose(
            getattr(merged, name), getattr(complete, name), rtol=1e-11, atol=1e-11
        )
    for name in ("steps", "episodes"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(complete, name))
    output = run("evaluate", tmp_path / "sum.stats", "--rule", "GRetrace:0.9").stdout
    assert "LSTD, GRetrace(0.9)" in output
    assert "uniform" in output
    for words in (["--gamma", 0], ["--method", "fqe"], ["--shared"]):
        refused = run("evaluate", tmp_path / "sum.stats", *words, status=2)
        assert f"{words[0]} applies to logs only; it is fixed in a statistics file" in flat(
            refused.stderr
        )
    both = run("evaluate", tmp_path / "one.stats", tmp_path / "two.stats", status=2)
    assert "merge them first" in flat(both.stderr)
    duplicate = run("merge", tmp_path / "sum.stats", tmp_path / "two.stats", "--out", "x", status=2)
    assert "200 episodes are in both, with identical rows" in flat(duplicate.stderr)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "{a}", "--target", "{p}:probs"], "metadata. Pass one: --gamma 0.99."),
        (["evaluate", "{a}", "--gamma", "0.9"], "Missing --target: the policy to evaluate"),
        (["evaluate", "{a}", "--gamma", "1.5", "--target", "uniform"], "gamma must be a number in"),
        (["evaluate", "{a}", "--gamma", "0.9", "--target", "{p}:prob"], "Did you mean 'probs'?"),
        (["evaluate", "{a}", "--gamma", "0.9", "--target", "nix.py:f"], "is not a file"),
        (["evaluate", "{a}", "--gamma", "0.9", "--target", "unifrm"], "Did you mean 'uniform'?"),
        (["evaluate", "{a}", "--gamma", "0.9", "--target", "{p}:short"], "E141"),
        (["evaluate", "{a}", "--gamma", "0.9", "--target", "{p}:nothing"], "E144"),
        (["evaluate", "{a}", "--gamma", "0.9", "--target", "columns"], "has no columns pi_0"),
        (
            ["evaluate", "{a}", "--gamma", "0.9", "--target", "uniform", "--features", "tile:8"],
            "Did you mean 'tiles'?",
        ),
        (
            ["evaluate", "{a}", "--gamma", "0.9", "--target", "uniform", "--features", "tiles:ax4"],
            "is not an integer",
        ),
        (
            ["evaluate", "{a}", "--gamma", "0.9", "--target", "uniform", "--low", "1"],
            "1 numbers, but observations have 2 entries",
        ),
        (
            ["evaluate", "{a}", "--gamma", "0.9", "--target", "uniform", "--rule", "GESS:0.5"],
            "Did you mean 'GES'?",
        ),
        (
            ["evaluate", "{a}", "--gamma", "0.9", "--target", "uniform", "--rule", "GES:x"],
            "'x' is not a number",
        ),
        (
            ["evaluate", "{a}", "--gamma", "0.9", "--target", "a=uniform", "--target", "a=logged"],
            "the name 'a' is already in use",
        ),
        (["stats", "{a}", "--gamma", "0.9", "--out", "x"], "Missing --target: the policy"),
        (
            ["evaluate", "{a}", "--gamma", "0.9", "--target", "uniform", "--low=9,9", "--high=1,1"],
            "low[0] = 9 must be less than high[0] = 1",
        ),
        (
            ["evaluate", "{a}", "--gamma", "0.9", "--target", "uniform", "--features", "{p}:short",
             "--rule", "TD:0.5", "--method", "fqe"],
            "learns action values, but TD(0.5) learns state values",
        ),
        (["check", "{a}", "--column", "reward"], "write ROLE=NAME"),
        (["check", "nix.parquet"], "E190 nix.parquet: no such file."),
        (["merge", "{p}", "--out", "x"], "is not statistics saved by saddleback, or is damaged"),
        (["merge", "nix.stats", "--out", "x"], "cannot read nix.stats: No such file"),
    ],
)  # fmt: skip
def test_bad_arguments_are_reported_in_a_sentence(words, message, folder):
    filled = [w.format(a=folder / "a.parquet", p=folder / "pol.py") for w in words]
    result = CliRunner().invoke(group, filled)
    assert result.exit_code == 2
    assert message in flat(result.stderr)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("words", "p"),
    [
        (["--features", "hash:100"], 300), (["--features", "rbf:26"], 78),
        (["--features", "fourier:2"], 27), (["--features", "polynomial:1"], 12),
        (["--features", "{p}:lines"], 9), (["--features", "tiles"], 1944), ([], 972),
        (["--features", "tiles:2x1", "--shared"], 36),
    ],
)  # fmt: skip
def test_features_by_name(words, p, folder):
    filled = [w.format(p=folder / "pol.py") for w in words]
    output = run(
        "evaluate", folder / "few.parquet", "--gamma", 0.9, "--target", "pump:0.8", *filled
    ).stdout
    assert f"p = {p}:" in output


@pytest.mark.slow
def test_discrete_states_are_recognised(tmp_path):
    problem = sb.problems.random_mdp(0.5, rng=0, termination=0.2)
    sb.collect(problem, episodes=300, rng=0, out=tmp_path / "finite.parquet")
    output = run(
        "evaluate", tmp_path / "finite.parquet", "--gamma", 0.5, "--target", "logged"
    ).stdout
    assert "OneHot(size=6)" in flat(output)


@pytest.mark.slow
def test_estimated_propensities_are_reported(folder, tmp_path):
    bare = pq.read_table(folder / "a.parquet").drop(["behavior_prob", "mu_0", "mu_1", "mu_2"])
    pq.write_table(bare, tmp_path / "bare.parquet")
    words = [tmp_path / "bare.parquet", "--gamma", 0.99, "--target", "pump:0.8", *BOX]
    refused = run("evaluate", *words, status=2)
    assert "the log has none. Rules without ratios, such as GES(0) or GTB, need none." in flat(
        refused.stderr
    )
    assert "--estimate-behaviour counts" in flat(refused.stderr)
    assert "W106 the log has no propensities" in flat(run("check", words[0]).stdout)
    output = run("evaluate", *words, "--estimate-behaviour", "counts").stdout
    assert "propensities were estimated: counts in a grid" in output
    plain = json.loads(run("evaluate", *words, "--estimate-behaviour", "counts", "--json").stdout)
    assert plain["propensities"].startswith("estimated: counts")


def test_the_discount_is_read_from_the_log(folder, tmp_path):
    sb.Log(str(folder / "b.parquet")).write(tmp_path / "named.parquet", gamma=0.9)
    output = run("evaluate", tmp_path / "named.parquet", "--target", "uniform", *BOX).stdout
    assert "γ = 0.9," in output


def test_action_names_are_listed_in_their_order(tmp_path):
    rows = sb.collect(CAR, episodes=20, rng=0).data.to_pandas()
    rows["action"] = rows["action"].map({0: "left", 1: "coast", 2: "right"})
    rows.drop(columns=["mu_0", "mu_1", "mu_2"]).to_parquet(tmp_path / "named.parquet")
    output = flat(run("check", tmp_path / "named.parquet").stdout)
    assert "W148 actions are sorted as text: 0='coast', 1='left', 2='right'." in output
    assert "For another order, list them in it: --actions coast,left,right." in output
    output = run("check", tmp_path / "named.parquet", "--actions", "left,coast,right").stdout
    assert "W148" not in output
    assert "actions, share of rows   0 left 0." in output
    rows["action"] = rows["action"].map({"left": 1, "coast": 2, "right": 3})
    rows.drop(columns=["mu_0", "mu_1", "mu_2"]).to_parquet(tmp_path / "from1.parquet")
    assert "W149 no row has action 0" in flat(run("check", tmp_path / "from1.parquet").stdout)


def test_three_columns_get_random_fourier_features_by_default(tmp_path):
    rows = sb.collect(CAR, episodes=3, rng=0).data
    rows = rows.append_column("obs_2", pc.multiply(rows["obs_0"], rows["obs_1"]))
    sb.Log(rows.drop(["next_obs_0", "next_obs_1"])).write(tmp_path / "three.parquet")
    output = run(
        "evaluate", tmp_path / "three.parquet", "--gamma", 0.9, "--target", "uniform"
    ).stdout
    assert "RandomFourier" in flat(output)
    assert "closed form with p = 132:" in output


def test_policy_files_may_import_neighbouring_modules(folder):
    (folder / "numbers_beside.py").write_text("SHARE = 0.2\n")
    (folder / "uses.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "import numpy as np\nfrom numbers_beside import SHARE\n\n"
        "@dataclass\nclass Kind:\n    share: float\n\n"
        "def probs(obs):\n    s = Kind(SHARE).share\n"
        "    return np.tile([s, s, 1 - 2 * s], (len(obs), 1))\n"
    )
    words = ["--target", f"{folder / 'uses.py'}:probs", "--gamma", 0.9, *BOX]
    assert "uses.py:probs" in run("evaluate", folder / "b.parquet", *words).stdout


@pytest.mark.slow
def test_json_output_has_no_nan(folder):
    result = run(
        "evaluate", folder / "b.parquet", "--gamma", 0, "--target", "uniform", *BOX, "--json"
    )
    assert json.loads(result.stdout)["lambda_ceiling"]["uniform"] is None
    output = json.loads(run("check", "nix.parquet", "--json", status=2).stdout)
    assert output["findings"][0]["code"] == "E190"


@pytest.mark.slow
def test_weighted_estimates_come_with_their_diagnostics(folder):
    words = ["--target", "pump:0.8", "--gamma", 0.99, *BOX]
    words += [w for name in ("is", "pdis", "wis", "pdwis", "dr", "wdr") for w in ("--method", name)]
    output = run("evaluate", folder / "a.parquet", *words).stdout
    for name in ("IS", "PDIS", "WIS", "PDWIS", "DR", "WDR"):
        assert f"  {name} " in output
    assert "V^π; ESS" in output
    assert "IS, PDIS, WIS, PDWIS, DR, WDR: importance weights are heavy-tailed" in output
    assert max(map(len, output.split("features never active")[0].splitlines())) <= 80
    plain = json.loads(run("evaluate", folder / "a.parquet", *words, "--json").stdout)
    by = {estimate["method"]: estimate for estimate in plain["estimates"]}
    assert by["PDIS"]["value"] > -60
    assert by["PDIS"]["ess"] < 20
    assert by["DR"]["estimand"] == "V^π"


CONTINUOUS = """
import numpy as np
from saddleback.policies import Gaussian

def steady(obs):
    return 0.5 * obs

gaussian = Gaussian(steady, [0.1, 0.2])
"""


@pytest.mark.slow
def test_continuous_actions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.py").write_text(CONTINUOUS)
    sb.Log(simulate(30, 4)).write(tmp_path / "log.parquet", gamma=0.9)
    words = ["evaluate", "log.parquet", "--target", "policy.py:gaussian", "--save", "out.json"]
    done = CliRunner().invoke(group, [*words, "--features", "monomials:2", "--report", "out.html"])
    assert done.exit_code in VERDICTS, done.output
    saved = json.loads((tmp_path / "out.json").read_text())
    assert saved["actions"] == ["action_0, action_1"]
    assert "Gaussian" in saved["verdicts"][0]["policy"]["description"]
    assert CliRunner().invoke(group, ["explain", "out.json"]).exit_code in (0, *VERDICTS)
    for command in (["stats", "log.parquet", "-o", "out.stats"], ["rank", "log.parquet"]):
        done = CliRunner().invoke(group, [*command, "--target", "policy.py:gaussian"])
        assert not isinstance(done.exception, (TypeError, KeyError, AssertionError)), done


def test_what_a_policy_prints_is_not_part_of_the_result(folder):
    target = f"{folder / 'pol.py'}:talking"
    result = run(
        "evaluate", folder / "b.parquet", "--target", target, "--gamma", 0.99, "--json", *BOX
    )
    assert json.loads(result.stdout)["kind"] == "saddleback evaluation"
    assert "asked for" in result.stderr
