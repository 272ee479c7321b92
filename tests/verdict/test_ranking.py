"""Many candidates at once; verdicts from statistics alone; and the commands that tell them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import saddleback as sb
from saddleback import errors
from saddleback.cli.group import group
from saddleback.features import OneHot
from saddleback.log import BehaviourTarget
from saddleback.log.behaviour_target import NAME
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier, usual
from saddleback.verdict import evaluate_statistics, rank
from saddleback.verdict.ranking import Candidate, Ranking

GAMMA = 0.8


def small(episodes, seed=0, limit=None):
    """A log of a small problem, candidates for it, and their true improvements."""
    base = sb.problems.random_mdp(GAMMA, rng=3, off_policy=0.4, termination=0.2)
    log = sb.collect(base, episodes=episodes, rng=seed, limit=limit)
    mdp, mu = base.mdp, base.behaviour
    best = np.eye(mdp.n_actions)[mdp.q(mu).argmax(axis=1)]
    worst = np.eye(mdp.n_actions)[mdp.q(mu).argmin(axis=1)]
    candidates = {
        "same": mu, "better": 0.6 * mu + 0.4 * best, "a little": 0.95 * mu + 0.05 * best,
        "worse": 0.6 * mu + 0.4 * worst,
    }  # fmt: skip

    def value(policy):
        return float(mdp.start @ (policy * mdp.q(policy)).sum(axis=1))

    truth = {name: value(each) - value(mu) for name, each in candidates.items()}
    return log, candidates, truth


def evaluated(log, candidates, **options):
    size = int(log.summary().high[0]) + 1
    return sb.evaluate(log, candidates, features=OneHot(size), gamma=GAMMA, **options)


def test_the_best_candidate_ranks_first_and_others_do_not_beat():
    log, candidates, truth = small(3000)
    found = rank(evaluated(log, candidates))
    assert [each.name for each in found.candidates if each.beats] == ["better", "a little"]
    assert found.best.name == "better"
    assert found.status == 0
    bounds = [each.bound for each in found.candidates]
    assert bounds == sorted(bounds, reverse=True)
    for each in found.candidates:
        assert each.bound < truth[each.name] < each.bound + 1.0


def test_costs_reverse_the_order():
    log, candidates, truth = small(3000)
    found = rank(evaluated(log, candidates, lower_is_better=True))
    assert found.best.name == "worse"
    for each in found.candidates:
        assert each.bound < -truth[each.name]
    assert "upper" in found.as_dict()
    assert found.as_dict()["upper"] < found.baseline


@pytest.mark.statistical
def test_bounds_hold_for_all_candidates_at_once():
    """In at least 95 % of logs none of the bounds is above the truth."""
    wrong = 0
    for seed in range(60):
        log, candidates, truth = small(250, seed)
        found = rank(evaluated(log, candidates, methods=()))
        wrong += any(each.bound > truth[each.name] for each in found.candidates)
    assert wrong <= 7  # 3 are expected, 8 or more have a chance of 1 in 100


def test_more_candidates_make_bounds_wider():
    log, candidates, _ = small(500)
    alone = rank(evaluated(log, {"better": candidates["better"]})).candidates[0]
    among = {each.name: each for each in rank(evaluated(log, candidates)).candidates}["better"]
    assert among.difference == pytest.approx(alone.difference)
    assert among.bound < alone.bound


@pytest.mark.parametrize(
    ("trusts", "bounds", "status"),
    [
        (["usable", "refused"], [0.1, 1.0], 0), (["usable", "doubtful"], [-0.1, 1.0], 5),
        (["doubtful", "refused"], [1.0, 1.0], 4), (["refused", "refused"], [1.0, 1.0], 3),
    ],
)  # fmt: skip
def test_the_exit_status_reflects_the_outcome(trusts, bounds, status):
    from saddleback.verdict.ranking import Candidate, Ranking

    each = [
        Candidate(str(k), trust, "because", 1.0, 0.5, bound)
        for k, (trust, bound) in enumerate(zip(trusts, bounds, strict=True))
    ]
    found = Ranking(0.5, "logged policy", 0.05, False, tuple(each))
    assert found.status == status
    assert max(map(len, found.text.splitlines())) <= 80
    refused = [line for line in found.text.splitlines() if line.endswith("refused")]
    assert all("+1" not in line for line in refused)  # no number that nobody should use


def test_a_number_can_replace_the_baseline():
    log, candidates, _ = small(3000)
    found = rank(evaluated(log, candidates), baseline=-100.0)
    assert all(each.beats for each in found.candidates)
    assert (found.baseline, found.of) == (-100.0, "as given")


def test_rankings_without_verdicts_or_with_bad_alpha_are_rejected():
    log, candidates, _ = small(200)
    found = evaluated(log, candidates)
    with pytest.raises(sb.errors.InvalidParameter, match=r"alpha must be in \(0, 1\), got 0"):
        rank(found, alpha=0.0)
    sums = sb.Statistics.of(
        log, sb.GRetrace(0.5), candidates, features=OneHot(6), gamma=GAMMA, blocks=1
    )
    alone = evaluate_statistics(sums)
    assert alone.findings[-1].code == "W173"
    with pytest.raises(sb.errors.InvalidParameter, match="the evaluation has no verdicts"):
        rank(alone)


# Verdicts from statistics alone.


def summed(log, candidates, blocks=20):
    return sb.Statistics.of(
        log, sb.GRetrace(0.5), candidates | {NAME: BehaviourTarget.of(log)}, features=OneHot(6),
        gamma=GAMMA, blocks=blocks,
    )  # fmt: skip


def test_statistics_and_log_give_similar_rankings():
    log, candidates, _ = small(3000)
    whole, part = evaluated(log, candidates), evaluate_statistics(summed(log, candidates))
    assert [each.target for each in part.verdicts] == list(candidates)
    assert part.logged.interval.value == pytest.approx(whole.logged.interval.value)
    assert part.logged.self_check == pytest.approx(whole.logged.self_check)
    assert part.logged.spread == pytest.approx(whole.logged.spread)
    for one, two in zip(whole.verdicts, part.verdicts, strict=True):
        assert one.trust == two.trust == "usable"
        assert two.value == pytest.approx(one.value)
        assert two.evidence.error == pytest.approx(one.evidence.error, rel=0.6)
        assert two.improvement.difference == pytest.approx(one.improvement.difference)
        assert two.evidence.coverage == pytest.approx(one.evidence.coverage, abs=0.02)
        assert two.evidence.truncated_weight == one.evidence.truncated_weight
    unchecked = {each.code for each in two.gates if each.level == "not checked"}
    assert unchecked == {"AGREEMENT", "CEILING"}
    sentences = {each.code: each.sentence for each in two.gates}
    assert "evaluate the log itself" in sentences["AGREEMENT"]


def test_the_estimate_is_the_baseline_of_truncated_logs():
    log, candidates, _ = small(2000, limit=4)
    part = evaluate_statistics(summed(log, candidates))
    assert part.logged.interval.value == part.logged.estimate
    assert part.logged.self_check is None
    assert part.verdicts[0].evidence.truncated_weight > 0.05
    whole = evaluated(log, candidates)
    assert part.logged.estimate == pytest.approx(whole.logged.estimate)
    bare = sb.Statistics.of(
        log, sb.GRetrace(0.5), candidates, features=OneHot(6), gamma=GAMMA, blocks=20
    )
    alone = evaluate_statistics(bare)
    assert alone.logged is None
    assert "no baseline is available" in alone.text
    with pytest.raises(sb.errors.InvalidParameter, match="rank: no baseline"):
        rank(alone)


# Commands.


def run(*words, status=0):
    found = CliRunner().invoke(group, [str(word) for word in words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == status, found.output + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    log = sb.Log(clinic(600, rng=1), observations=SIGNS, actions=DOSES)
    log.write(folder / "visits.parquet", gamma=0.97)
    (folder / "pol.py").write_text(
        "from saddleback.problems.synthetic_clinic import earlier, usual\n"
        "def later(signs):\n    return 0.5 * usual(signs) + [0.5, 0.0, 0.0]\n"
    )
    return folder


OPTIONS = ["--obs", "hr,bp,lactate", "--features", "polynomial:2"]


def targets(place, *names):
    return [word for name in names for word in ("--target", f"{name}={place / 'pol.py'}:{name}")]


def test_rank_on_a_log_and_on_its_statistics(place):
    words = [*targets(place, "earlier", "later", "usual"), *OPTIONS]
    said = run("rank", place / "visits.parquet", *words)
    assert said.startswith("Better: earlier is at least ")
    assert max(map(len, said.splitlines())) <= 80
    run("stats", place / "visits.parquet", *words, "--out", place / "v.stats")
    plain = json.loads(run("rank", place / "v.stats", "--json"))
    assert plain["best"] == "earlier"
    assert plain["lower"] > plain["baseline"]
    assert set(plain["usable"]) | set(plain["doubtful"]) == {"earlier", "later", "usual"}
    costs = json.loads(run("rank", place / "v.stats", "--json", "--lower-is-better"))
    assert costs["best"] == "later"
    run("rank", place / "v.stats", "--baseline", 100, status=5)
    for bad, message in (
        (["--baseline", "best"], "write logged, or a number"),
        (["--gamma", 0], "applies to logs only"),
        (["--lower", 2], "write an error rate between 0 and 1"),
    ):  # fmt: skip
        found = CliRunner().invoke(group, ["rank", str(place / "v.stats"), *map(str, bad)])
        assert found.exit_code == 2
        assert message in " ".join(found.stderr.split())


def test_a_saved_result_prints_the_same_text(place):
    words = [*targets(place, "earlier"), *OPTIONS, "--save", place / "r.json"]
    said = run("evaluate", place / "visits.parquet", *words)
    again = run("explain", place / "r.json")
    assert again.startswith(said.rstrip("\n"))
    assert "\nChecks\n  ok    EPISODES " in again
    for code in ("EPISODES", "COVERAGE", "SELF-CHECK", "GAP"):
        assert code in again
    assert max(map(len, again.splitlines())) <= 80
    printed = run("evaluate", place / "visits.parquet", *words, "--json")
    assert json.loads(printed) == json.loads((place / "r.json").read_text())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not JSON"), ("[1]", "holds other JSON"),
        ('{"kind": "saddleback ranking"}', "holds saddleback ranking"),
        ('{"kind": "saddleback evaluation", "schema": 9}', "has schema 9"),
    ],
)  # fmt: skip
def test_files_that_are_not_results_are_rejected(text, message, tmp_path):
    (tmp_path / "x.json").write_text(text)
    found = CliRunner().invoke(group, ["explain", str(tmp_path / "x.json")])
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.split())


@pytest.mark.slow
def test_quickstart_goes_from_a_log_to_an_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run("quickstart")
    for part in ("1. Is the log valid?", "no warnings. Ready.", "Better: difference +",
                 "; the estimate is reliable.", "3. Interpretation", "The candidate is",
                 "explain"):  # fmt: skip
        assert part in said
    assert max(map(len, said.splitlines())) <= 80
    assert sorted(p.name for p in (tmp_path / "saddleback-quickstart").iterdir()) == [
        "policy.py", "report.html", "result.json", "visits.parquet",
    ]  # fmt: skip


@pytest.mark.statistical
def test_the_clinic_matches_its_description():
    """The truth of the quickstart, by simulation: its verdict has to cover it."""
    rows = clinic(40_000, rng=9, policy=earlier)
    returns = np.bincount(rows["episode_id"], 0.97 ** rows["step"] * rows["reward"])
    cut = rows["truncated"].sum() / 40_000
    assert cut < 0.01  # so that returns are values, nearly
    found = sb.evaluate(
        sb.Log(clinic(2000, rng=0), observations=SIGNS, actions=DOSES), earlier,
        features=sb.features.Polynomial((50, 50, 0), (150, 130, 12), degree=2), gamma=0.97,
    )  # fmt: skip
    low, high = found.verdicts[0].interval_with_gap
    assert low - 0.02 < returns.mean() < high + 0.02
    now = clinic(40_000, rng=9, policy=usual)
    assert (
        returns.mean() > np.bincount(now["episode_id"], 0.97 ** now["step"] * now["reward"]).mean()
    )
    assert {each.min() for each in (rows["behavior_prob"],)} <= {0.1, 0.15}


@pytest.mark.parametrize("lower_is_better", [False, True])
def test_the_answer_rounds_the_bound_down(lower_is_better):
    """Whatever the direction, and rounded towards nothing."""
    sign = -1.0 if lower_is_better else 1.0
    for bound, least in ((39.715, "39.7"), (0.03, "0.03"), (0.96, "0.9")):
        candidate = Candidate("new", "usable", "", 100.0, sign * (bound + 2.0), bound)
        ranking = Ranking(1.0, "logged policy", 0.05, lower_is_better, (candidate,))
        assert f"is at least {least} {'lower' if lower_is_better else 'higher'} " in ranking.answer


@pytest.mark.parametrize("baseline", ["x", math.nan, math.inf])
def test_a_baseline_is_a_number(baseline):
    log = sb.Log(clinic(60, rng=0), observations=SIGNS, actions=DOSES)
    result = sb.evaluate(log, earlier, gamma=0.9, features="polynomial:1", methods=[])
    with pytest.raises(errors.InvalidParameter, match="baseline must be a finite number"):
        sb.rank(result, baseline=baseline)
    with pytest.raises(errors.SaddlebackError, match="rank: result must be"):
        sb.rank(None)
