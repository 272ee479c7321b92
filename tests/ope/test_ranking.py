"""Rankings of many candidates, verdicts from statistics, and the commands that print them."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import saddleback as sb
from saddleback import errors
from saddleback.cli.group import group
from saddleback.features import OneHot
from saddleback.log import BehaviourTarget
from saddleback.log.behaviour_target import NAME
from saddleback.ope import evaluate_statistics, rank
from saddleback.ope.ranking import Candidate, Ranking
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier, usual

GAMMA = 0.8

pytestmark = pytest.mark.usefixtures("few_candidates")


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

    truth = {name: value(policy) - value(mu) for name, policy in candidates.items()}
    return log, candidates, truth


def evaluate_candidates(log, candidates, **options):
    size = int(log.summary().high[0]) + 1
    return sb.evaluate(log, candidates, features=OneHot(size), gamma=GAMMA, **options)


@pytest.mark.slow
def test_the_best_candidate_ranks_first_and_others_do_not_beat():
    log, candidates, truth = small(3000)
    ranking = rank(evaluate_candidates(log, candidates))
    assert [candidate.name for candidate in ranking.candidates if candidate.beats] == [
        "better",
        "a little",
    ]
    assert ranking.best.name == "better"
    assert ranking.outcome == "better"
    bounds = [candidate.bound for candidate in ranking.candidates]
    assert bounds == sorted(bounds, reverse=True)
    for candidate in ranking.candidates:
        assert candidate.bound < truth[candidate.name] < candidate.bound + 1.0


@pytest.mark.slow
def test_a_table_that_fits_stays_one_and_a_wider_one_is_stacked():
    log, candidates, _ = small(300)
    ranking = rank(evaluate_candidates(log, candidates, methods=()))

    def texts(width):
        return [line.text for line in ranking.lines(width)]

    unwrapped = texts(1000)
    begin = next(k for k, text in enumerate(unwrapped) if text.startswith("candidate"))
    head, *rows = table = unwrapped[begin : begin + 1 + len(candidates)]
    longest = max(map(len, table))
    fits, stacked = texts(longest), texts(longest - 1)
    assert [text for text in fits if text in table] == table
    assert head not in stacked
    _, *titles, _ = re.split(r"  +", head)
    for row in rows:
        name, *numbers, trust = re.split(r"  +", row, maxsplit=4)
        named = map(" ".join, zip(titles, numbers, strict=True))
        after = stacked[stacked.index(name) + 1 :]
        below = " ".join(itertools.takewhile(lambda text: text.startswith("  "), after))
        assert below.split() == ", ".join([*named, trust]).split()


def test_costs_reverse_the_order():
    log, candidates, truth = small(3000)
    ranking = rank(evaluate_candidates(log, candidates, lower_is_better=True))
    assert ranking.best.name == "worse"
    for candidate in ranking.candidates:
        assert candidate.bound < -truth[candidate.name]
    assert "upper" in ranking.as_dict()
    assert ranking.as_dict()["upper"] < ranking.baseline


@pytest.mark.statistical
@pytest.mark.usefixtures("no_opinion")
def test_bounds_hold_for_all_candidates_at_once():
    """In at least 95 % of logs none of the bounds is above the truth."""
    wrong = 0
    for seed in range(30):
        log, candidates, truth = small(250, seed)
        ranking = rank(evaluate_candidates(log, candidates, methods=()))
        wrong += any(candidate.bound > truth[candidate.name] for candidate in ranking.candidates)
    assert wrong <= 5  # 1.5 are expected, 6 or more have a chance of 1 in 300


def test_more_candidates_make_bounds_wider():
    log, candidates, _ = small(3000)
    single = rank(evaluate_candidates(log, {"better": candidates["better"]})).candidates[0]
    among = {
        candidate.name: candidate
        for candidate in rank(evaluate_candidates(log, candidates)).candidates
    }["better"]
    assert among.difference == pytest.approx(single.difference)
    assert among.bound < single.bound


@pytest.mark.parametrize(
    ("trusts", "bounds", "outcome", "status"),
    [
        (["usable", "refused"], [0.1, 1.0], "better", 0),
        (["usable", "doubtful"], [-0.1, 1.0], "inconclusive", 5),
        (["doubtful", "refused"], [1.0, 1.0], "doubtful", 4),
        (["refused", "refused"], [1.0, 1.0], "refused", 3),
    ],
)
def test_the_exit_status_reflects_the_outcome(trusts, bounds, outcome, status):
    from saddleback.cli.cmd_rank import STATUS
    from saddleback.ope.ranking import Candidate, Ranking

    candidates = [
        Candidate(str(k), trust, "because", 1.0, 0.5, bound)
        for k, (trust, bound) in enumerate(zip(trusts, bounds, strict=True))
    ]
    ranking = Ranking(0.5, "logged policy", 0.05, False, tuple(candidates))
    assert ranking.outcome == outcome
    assert STATUS[ranking.outcome] == status
    assert max(map(len, ranking.text.splitlines())) <= 80
    refused = [line for line in ranking.text.splitlines() if line.endswith("refused")]
    assert all("+1" not in line for line in refused)  # no number that nobody should use


def test_a_number_can_replace_the_baseline():
    log, candidates, _ = small(3000)
    ranking = rank(evaluate_candidates(log, candidates), baseline=-100.0)
    assert all(candidate.beats for candidate in ranking.candidates)
    assert (ranking.baseline, ranking.of) == (-100.0, "as given")


@pytest.mark.slow
def test_rankings_without_verdicts_or_with_bad_alpha_are_rejected():
    log, candidates, _ = small(200)
    result = evaluate_candidates(log, candidates)
    with pytest.raises(sb.errors.InvalidParameter, match=r"alpha must be in \(0, 1\), got 0"):
        rank(result, alpha=0.0)
    sums = sb.Statistics.of(
        log, sb.GRetrace(0.5), candidates, features=OneHot(6), gamma=GAMMA, blocks=1
    )
    without_baseline = evaluate_statistics(sums)
    assert without_baseline.findings[-1].code == "W173"
    with pytest.raises(sb.errors.InvalidParameter, match="the evaluation has no verdicts"):
        rank(without_baseline)


def test_blocks_of_one_episode_have_verdicts():
    log, candidates, _ = small(6)
    sums = sb.Statistics.of(
        log, sb.GRetrace(0.5), {"better": candidates["better"]}, features=OneHot(6), gamma=GAMMA,
        blocks=40,
    )  # fmt: skip
    assert sums.episodes.max() == 1
    result = evaluate_statistics(sums, ridge=0.1)
    assert "W173" not in {finding.code for finding in result.findings}
    assert len(result.verdicts) == 1


# Verdicts from statistics alone.


def statistics_of(log, candidates, blocks=20):
    return sb.Statistics.of(
        log, sb.GRetrace(0.5), candidates | {NAME: BehaviourTarget.of(log)}, features=OneHot(6),
        gamma=GAMMA, blocks=blocks,
    )  # fmt: skip


def test_statistics_and_log_give_similar_rankings():
    log, candidates, _ = small(3000)
    from_log, from_statistics = (
        evaluate_candidates(log, candidates),
        evaluate_statistics(statistics_of(log, candidates)),
    )
    assert [item.target for item in from_statistics.verdicts] == list(candidates)
    assert from_statistics.logged.interval.value == pytest.approx(from_log.logged.interval.value)
    assert from_statistics.logged.self_check == pytest.approx(from_log.logged.self_check)
    assert from_statistics.logged.spread == pytest.approx(from_log.logged.spread)
    for one, two in zip(from_log.verdicts, from_statistics.verdicts, strict=True):
        assert one.trust == two.trust == "usable"
        assert two.value == pytest.approx(one.value)
        assert two.evidence.error == pytest.approx(one.evidence.error, rel=0.6)
        assert two.improvement.difference == pytest.approx(one.improvement.difference)
        assert two.evidence.coverage == pytest.approx(one.evidence.coverage, abs=0.02)
        assert two.evidence.truncated_weight == one.evidence.truncated_weight
    unchecked = {item.code for item in two.gates if item.level == "not checked"}
    assert unchecked == {"AGREEMENT", "CEILING", "COVERAGE", "HIDDEN", "RIDGE"}
    sentences = {item.code: item.sentence for item in two.gates}
    assert "evaluate the log itself" in sentences["AGREEMENT"]


@pytest.mark.usefixtures("no_opinion")
def test_the_estimate_is_the_baseline_of_truncated_logs():
    log, candidates, _ = small(2000, limit=4)
    from_statistics = evaluate_statistics(statistics_of(log, candidates))
    assert from_statistics.logged.interval.value == from_statistics.logged.estimate
    assert from_statistics.logged.self_check is None
    assert from_statistics.verdicts[0].evidence.truncated_weight > 0.05
    from_log = evaluate_candidates(log, candidates)
    assert from_statistics.logged.estimate == pytest.approx(from_log.logged.estimate)
    bare = sb.Statistics.of(
        log, sb.GRetrace(0.5), candidates, features=OneHot(6), gamma=GAMMA, blocks=20
    )
    without_baseline = evaluate_statistics(bare)
    assert without_baseline.logged is None
    assert "no baseline is available" in without_baseline.text
    with pytest.raises(sb.errors.InvalidParameter, match="rank: no baseline"):
        rank(without_baseline)


# Commands.


def run(*words, status=0):
    result = CliRunner().invoke(group, [str(argument) for argument in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    log = sb.Log(clinic(600, rng=1), observations=SIGNS, actions=DOSES)
    log.write(folder / "visits.parquet", gamma=0.97)
    (folder / "pol.py").write_text(
        "from saddleback.problems.synthetic_clinic import earlier, usual\n"
        "def later(signs):\n    return 0.5 * usual(signs) + [0.5, 0.0, 0.0]\n"
    )
    return folder


OPTIONS = ["--obs", "hr,bp,lactate", "--features", "polynomial:2"]


def targets(folder, *names):
    return [
        argument
        for name in names
        for argument in ("--target", f"{name}={folder / 'pol.py'}:{name}")
    ]


@pytest.mark.slow
def test_rank_on_a_log_and_on_its_statistics(folder):
    words = [*targets(folder, "earlier", "later", "usual"), *OPTIONS]
    output = run("rank", folder / "visits.parquet", *words)
    assert output.startswith("Better: earlier is at least ")
    assert max(map(len, output.splitlines())) <= 80
    run("stats", folder / "visits.parquet", *words, "--out", folder / "v.stats")
    plain = json.loads(run("rank", folder / "v.stats", "--json"))
    assert plain["best"] == "earlier"
    assert plain["lower"] > plain["baseline"]
    assert set(plain["usable"]) | set(plain["doubtful"]) == {"earlier", "later", "usual"}
    costs = json.loads(run("rank", folder / "v.stats", "--json", "--lower-is-better"))
    assert costs["best"] == "later"
    run("rank", folder / "v.stats", "--baseline", 100, status=5)
    for bad, message in (
        (["--baseline", "best"], "write logged, or a number"),
        (["--gamma", 0], "applies to logs only"),
        (["--lower", 2], "write an error rate between 0 and 1"),
    ):  # fmt: skip
        result = CliRunner().invoke(group, ["rank", str(folder / "v.stats"), *map(str, bad)])
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())


def test_a_saved_result_prints_the_same_text(folder):
    words = [*targets(folder, "earlier"), *OPTIONS, "--save", folder / "r.json"]
    printed = run("evaluate", folder / "visits.parquet", *words)
    verbose = run("explain", folder / "r.json")
    assert verbose.startswith(printed.rstrip("\n"))
    assert "\nChecks\n  ok    EPISODES " in verbose
    for code in ("EPISODES", "COVERAGE", "SELF-CHECK", "GAP"):
        assert code in verbose
    assert max(map(len, verbose.splitlines())) <= 80
    printed = run("evaluate", folder / "visits.parquet", *words, "--json")
    assert json.loads(printed) == json.loads((folder / "r.json").read_text())


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
    result = CliRunner().invoke(group, ["explain", str(tmp_path / "x.json")])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.statistical
def test_the_clinic_matches_its_description():
    """The truth of the quickstart, by simulation: its verdict has to cover it."""
    rows = clinic(40_000, rng=9, policy=earlier)
    returns = np.bincount(rows["episode_id"], 0.97 ** rows["step"] * rows["reward"])
    cut = rows["truncated"].sum() / 40_000
    assert cut < 0.01  # so that returns are values, nearly
    result = sb.evaluate(
        sb.Log(clinic(2000, rng=0), observations=SIGNS, actions=DOSES), earlier,
        features=sb.features.Polynomial((50, 50, 0), (150, 130, 12), degree=2), gamma=0.97,
    )  # fmt: skip
    low, high = result.verdicts[0].interval_with_gap
    assert low - 0.02 < returns.mean() < high + 0.02
    now = clinic(40_000, rng=9, policy=usual)
    assert (
        returns.mean() > np.bincount(now["episode_id"], 0.97 ** now["step"] * now["reward"]).mean()
    )
    assert {column.min() for column in (rows["behavior_prob"],)} <= {0.1, 0.15}


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


def test_candidates_that_are_not_reliable_have_their_reasons():
    log, candidates, _ = small(20)
    chosen = {name: candidates[name] for name in ("better", "worse")}
    ranking = rank(evaluate_candidates(log, chosen))
    assert ranking.outcome == "doubtful"
    text = " ".join(ranking.text.split())
    assert text.startswith("No answer: none of 2 estimates is reliable. Value of the logged policy")
    for one in ranking.candidates:
        assert f"{one.name} is {one.trust}: {' '.join(one.reason.split())}." in text


# Rankings made by hand.


def ranking_of(*candidates, baseline=1.0, of="logged policy", alpha=0.05, costs=False):
    return Ranking(baseline, of, alpha, costs, candidates)


def candidate_of(name="new", trust="usable", difference=0.5, bound=0.25, reason="because"):
    return Candidate(name, trust, reason, 1.0 + difference, difference, bound)


def test_a_ranking_made_by_hand_reads_as_written_out():
    long = "a candidate with a longer name"
    ranking = ranking_of(
        candidate_of("first"), candidate_of(long, "doubtful", 0.75, 0.125),
        candidate_of("last", "refused", 9.0, 8.0, "no data"),
    )  # fmt: skip
    assert (
        ranking.text
        == """\
Better: first is at least 0.25 higher than the logged policy (1.00), with 95%
  confidence; the estimate is reliable.

candidate                 value  difference  lower bound  reliability
first                      1.50       +0.50        +0.25  usable  ← better
a candidate with a longe   1.75       +0.75        +0.12  doubtful
last                          –           –            –  refused

a candidate with a longer name is doubtful: because.

last is refused: no data.

The lower bounds of the difference hold for all candidates at once with 95%
confidence (Bonferroni), and include the estimated bias."""
    )
    stacked = [line.text for line in ranking.lines(40)]
    begin = stacked.index("first")
    assert stacked[begin : begin + 3] == [
        "first", "  value 1.50, difference +0.50, lower", "  bound +0.25, usable  ← better",
    ]  # fmt: skip
    assert ranking.as_dict() == {
        "kind": "saddleback ranking", "schema": 1, "best": "first", "lower": 1.25, "baseline": 1.0,
        "of": "logged policy", "alpha": 0.05, "lower_is_better": False, "usable": ["first"],
        "doubtful": {long: "because"}, "refused": {"last": "no data"},
        "candidates": [vars(one) for one in ranking.candidates],
    }  # fmt: skip


def test_a_ranking_of_costs_has_upper_bounds():
    ranking = ranking_of(candidate_of(difference=-0.5), baseline=4.0, costs=True, alpha=0.1)
    assert ranking.as_dict()["upper"] == 3.75
    assert ranking.answer == (
        "Better: new is at least 0.25 lower than the logged policy (4.00), with 90% confidence; "
        "the estimate is reliable."
    )
    *_, head, row = ranking._table()
    assert head[3] == "upper bound"
    assert row[1:4] == ("0.50", "−0.50", "−0.25")
    columns = ranking._columns()
    assert (columns["name"], columns["bound"], columns["beats"]) == (["new"], [0.25], [True])
    none = ranking_of(candidate_of(bound=0.0), costs=True)
    assert (none.as_dict()["best"], none.as_dict()["upper"]) == (None, None)


def test_bounds_in_the_table_claim_no_more_than_they_are():
    for bound, text in ((0.996, "+0.99"), (-0.991, "−1.00"), (math.inf, "+inf")):
        candidates = candidate_of(difference=0.75, bound=bound), candidate_of(bound=0.25)
        assert ranking_of(*candidates)._table()[1][3] == text
        of_costs = ranking_of(*candidates, costs=True)._table()[1][3]
        assert of_costs == {"+": "−", "−": "+"}[text[0]] + text[1:]


def test_the_answer_counts_what_is_better_or_not_reliable():
    def answer(*candidates, **options):
        return ranking_of(*candidates, **options).answer

    one, zero = candidate_of(), candidate_of(bound=0.0)
    other = candidate_of("other", "doubtful")
    assert not zero.beats
    assert candidate_of(bound=1e-9).beats
    assert not other.beats
    assert answer(one, zero, other).endswith("the estimate is reliable.")
    assert answer(one, one, zero).endswith("reliable; 1 more is also better.")
    assert answer(one, one, one).endswith("reliable; 2 more are also better.")
    given = {"baseline": 2.0, "of": "as given"}
    assert answer(other, zero, **given) == (
        "Inconclusive: no candidate is shown to be better than the baseline (2.00)."
    )
    assert answer(other, **given) == (
        "No answer: the estimate is not reliable. Value of the baseline: 2.00."
    )
    assert answer(other, other).startswith("No answer: none of 2 estimates is reliable. Value of")


@pytest.mark.parametrize(
    ("distances", "places"),
    [
        ([0.25], 2), ([1.0], 1), ([0.99], 2), ([10.0], 0), ([9.9], 1), ([1000.0], 0),
        ([5.0, 0.05, 0.5], 3), ([0.0, math.inf], 1), ([0.0, 0.25], 2), ([math.inf, 20.0], 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("costs", [False, True])
def test_two_digits_of_the_smallest_distance_are_shown(distances, places, costs):
    sign = -1.0 if costs else 1.0
    candidates = [candidate_of(difference=2.0 * sign, bound=2.0 - size) for size in distances]
    ranking = ranking_of(*candidates, baseline=7.0, costs=costs)
    assert f" ({7:.{places}f})" in ranking.answer


def test_tiny_bounds_are_rounded_down_at_twelve_decimals():
    for bound, text in ((5.5e-12, "0.000000000005"), (5.5e-13, "0.000000000000"), (0.1999, "0.1")):
        ranking = ranking_of(candidate_of(difference=bound + 3.0, bound=bound))
        assert f"at least {text} higher" in ranking.answer


@pytest.fixture(scope="module")
def some_result():
    log, candidates, _ = small(60)
    return evaluate_statistics(statistics_of(log, candidates))


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize(("alpha", "baseline"), [(0.05, None), (0.2, -3.0), (0.99, 2.0)])
def test_bounds_are_those_of_bonferroni(some_result, costs, alpha, baseline):
    result = replace(some_result, lower_is_better=costs)
    ranking = rank(result, alpha=alpha, baseline=baseline)
    logged = result.logged.interval.value
    assert (ranking.baseline, ranking.alpha) == (logged if baseline is None else baseline, alpha)
    for diagnosis in result.diagnoses:
        verdict = diagnosis.verdict
        (one,) = (one for one in ranking.candidates if one.name == verdict.target)
        better, own = verdict.improvement, diagnosis.interval
        difference, error, n = (
            (better.difference, better.error, better.n)
            if baseline is None
            else (verdict.value - baseline, own.error, own.n)
        )
        width = stats.t.ppf(1 - alpha / 4, n - 1) * error
        expected = (-difference if costs else difference) - width - verdict.gap
        assert one.difference == pytest.approx(difference, rel=1e-12)
        assert one.bound == pytest.approx(expected, rel=1e-9)
    bounds = [one.bound for one in ranking.candidates]
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_error_rates_are_between_0_and_1(some_result, alpha):
    with pytest.raises(errors.InvalidParameter, match=r"alpha must be in \(0, 1\)"):
        rank(some_result, alpha=alpha)


def test_usable_candidates_rank_before_others(some_result):
    trusts = ("refused", "doubtful", "usable", "doubtful")
    diagnoses = tuple(
        replace(diagnosis, verdict=replace(diagnosis.verdict, trust=trust))
        for diagnosis, trust in zip(some_result.diagnoses, trusts, strict=True)
    )
    ranking = rank(replace(some_result, diagnoses=diagnoses), baseline=0.0)
    assert [one.trust for one in ranking.candidates] == ["usable", *["doubtful"] * 2, "refused"]
