"""`evaluate` from end to end: comparisons, invariance, and bad input."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from helpers.logs import mixed
from helpers.verdicts import (
    TARGET,
    always,
    walk_log,
    without_propensities,
)
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.features import Custom, Fourier, OneHot

pytestmark = pytest.mark.usefixtures("few_candidates")


def two_arms(more=2.0, n=2000):
    """The second action brings more than the first."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, n)
    data = {
        "episode_id": np.arange(n), "obs_0": rng.normal(size=n), "action": action,
        "reward": 10.0 + more * action + rng.normal(size=n), "terminated": np.ones(n, bool),
        "truncated": np.zeros(n, bool), "behavior_prob": np.full(n, 0.5),
    }  # fmt: skip
    return sb.Log(data, actions=["first", "second"])


LINE = Custom(lambda seen: np.column_stack([np.ones(len(seen)), seen]), 2)


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("second", [0.1, 0.5, 0.9])
def test_improvement_over_the_logged_policy(costs, second):
    """A policy that takes the dear action more often is worse, however high its value."""
    log = two_arms()
    result = sb.evaluate(
        log, always(1 - second, second), features=LINE, gamma=0.0, lower_is_better=costs
    )
    (verdict,) = result.verdicts
    assert verdict.trust == "usable"
    more = verdict.improvement
    assert more.baseline == pytest.approx(np.mean(log.data["reward"]))
    difference_interval = (more.high - more.low) / 2
    assert more.difference == pytest.approx(2 * (second - 0.5), abs=2 * difference_interval)
    assert more.difference == pytest.approx(verdict.value - more.baseline)
    expected = {0.1: "worse", 0.5: "undecided", 0.9: "better"}[second]
    if costs and expected != "undecided":
        expected = {"worse": "better", "better": "worse"}[expected]
    assert more.outcome == expected


def test_the_difference_from_the_baseline_is_paired():
    """Of the logged policy itself, nearly all that is uncertain is so on both sides."""
    (verdict,) = sb.evaluate(
        two_arms(more=0.2), always(0.5, 0.5), features=LINE, gamma=0.0
    ).verdicts  # fmt: skip
    more = verdict.improvement
    assert 0 < more.high - more.low - 2 * verdict.gap < 0.3 * (verdict.high - verdict.low)


def test_one_episode_is_too_few():
    with pytest.raises(
        sb.errors.InvalidParameter, match=r"at least two episodes, the log has 1.*Log more episodes"
    ):
        sb.evaluate(walk_log(episodes=1), TARGET, features=OneHot(5), gamma=0.95)


def test_too_few_draws_are_refused():
    with pytest.raises(sb.errors.InvalidParameter, match=r"5 draws are too few.*at least 20"):
        sb.evaluate(walk_log(), TARGET, features=OneHot(5), gamma=0.95, draws=5)
    with pytest.raises(sb.errors.InvalidParameter, match=r"draws are too many: .*at most 100,000"):
        sb.evaluate(walk_log(), TARGET, features=OneHot(5), gamma=0.95, draws=10**9)


@pytest.mark.parametrize("method", ["is", "pdis", "wis", "pdwis", "dr", "wdr"])
def test_weighted_methods_need_propensities_and_the_error_names_an_alternative(method):
    with pytest.raises(
        sb.errors.InvalidParameter,
        match=rf"method '{method}' needs propensities.*closed form with GES\(0\) or GTB "
        r"needs none\. Add behavior_prob, or estimate it: estimate_behaviour\(log\)\.",
    ):
        sb.evaluate(
            without_propensities(), TARGET, features=OneHot(5), gamma=0.95, rule=sb.GES(0.0),
            methods=[method],
        )  # fmt: skip


def test_the_default_rule_needs_propensities_and_the_error_names_an_alternative():
    with pytest.raises(
        sb.errors.InvalidParameter, match=r"GRetrace.*needs the probabilities.*GES\(0\) or GTB"
    ):
        sb.evaluate(without_propensities(), TARGET, features=OneHot(5), gamma=0.95)


@pytest.mark.parametrize("method", ["fqe", "dr", "wdr"])
def test_action_value_methods_reject_a_rule_of_state_values(method):
    with pytest.raises(
        sb.errors.InvalidParameter,
        match=rf"method '{method}' learns action values, but GTD2\(0.3\) learns state values.*"
        "GRetrace",
    ):
        sb.evaluate(
            walk_log(), TARGET, features=OneHot(5), gamma=0.95, rule=sb.GTD2(0.3), methods=[method]
        )


def test_unknown_methods_are_rejected_with_a_suggestion():
    with pytest.raises(sb.errors.SaddlebackError, match=r"'wdrr'.*wdr"):
        sb.evaluate(walk_log(), TARGET, features=OneHot(5), gamma=0.95, methods=["wdrr"])


def test_the_name_of_the_logged_policy_is_reserved():
    """Its sums would be those of the other."""
    with pytest.raises(sb.errors.InvalidParameter, match="is a reserved target name"):
        sb.evaluate(walk_log(), {"logged policy": TARGET}, features=OneHot(5), gamma=0.95)


def two_states(n, logged, seed=0):
    """Decisions in two states, with μ(1|s) = 0.8 and 0.2, whatever is logged."""
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=n)
    mu = np.where(state == 0, 0.8, 0.2)
    action = (rng.random(n) < mu).astype(int)
    right = np.where(action == 1, mu, 1 - mu)
    return {
        "episode_id": np.arange(n), "obs_0": state.astype(float), "action": action,
        "reward": np.where(state == 0, 1.0, -1.0) * action + rng.normal(size=n),
        "terminated": np.ones(n, bool), "truncated": np.zeros(n, bool),
        "behavior_prob": np.full(n, 0.5) if logged == "half" else right,
    }  # fmt: skip


@pytest.mark.parametrize(("logged", "level"), [("half", "refused"), ("right", "usable")])
def test_propensity_errors_that_cancel_are_detected(logged, level):
    log = sb.Log(two_states(4000, logged))
    result = sb.evaluate(log, "uniform", features=OneHot(2), gamma=0.0)
    (gate,) = [item for item in result.verdicts[0].gates if item.code == "PROPENSITIES"]
    assert gate.level == level


def test_the_verdict_does_not_depend_on_the_methods():
    log = sb.Log(two_states(2000, "right"))
    one, two = (
        sb.evaluate(log, "uniform", features=OneHot(2), gamma=0.0, methods=methods).verdicts[0]
        for methods in (None, ["fqe"])
    )
    assert one == two


@pytest.mark.slow
@pytest.mark.usefixtures("no_opinion")
def test_the_baseline_of_a_truncated_log_has_nominal_coverage():
    """V^μ is bootstrapped beyond the cut, and the interval has to know that."""
    base = sb.problems.random_mdp(0.95, rng=1, termination=0.01)
    mdp, mu = base.mdp, base.behaviour
    truth = float(mdp.start @ (mu * mdp.q(mu)).sum(axis=1))
    hits = 0
    for seed in range(60):
        log = sb.collect(base, episodes=100, limit=15, rng=seed)
        result = sb.evaluate(log, mu, features=OneHot(6), gamma=0.95, methods=())
        hits += result.logged.interval.low <= truth <= result.logged.interval.high
    assert hits >= 52


def test_exact_estimates_are_not_refused_for_lack_of_variance():
    data = two_states(500, "right") | {"reward": np.ones(500)}
    (verdict,) = sb.evaluate(sb.Log(data), "uniform", features=OneHot(2), gamma=0.0).verdicts
    assert verdict.trust == "usable"
    assert verdict.value == pytest.approx(1.0)


def test_a_path_skips_rules_that_the_log_cannot_support():
    data = two_states(500, "right")
    del data["behavior_prob"]
    result = sb.evaluate(
        sb.Log(data), "uniform", features=OneHot(2), gamma=0.0, rule=sb.GES(0.0), path=True
    )
    assert [lam for lam, _ in result.paths["uniform"]["lambda"]] == [0.0]


def test_few_episodes_in_one_block_are_refused_without_a_crash():
    for seed in range(12):
        data = two_states(2, "right", seed) | {"episode_id": np.array([seed, seed + 20])}
        text = sb.evaluate(
            sb.Log(data, actions=["0", "1"]), "uniform", features=OneHot(2), gamma=0.0,
            allow_uncovered=True,
        ).text  # fmt: skip
        assert text.startswith("No answer, the estimate is refused: ")


def test_a_ranking_follows_the_direction_of_the_evaluation():
    log = sb.Log(two_states(4000, "right"))
    result = sb.evaluate(
        log, {"zero": "always:0", "one": "always:1"}, features=OneHot(2), gamma=0.0,
        lower_is_better=True,
    )  # fmt: skip
    assert sb.rank(result).lower_is_better


def test_columns_that_are_not_a_policy_are_ignored():
    data = two_states(300, "right") | {f"lab_{j}": np.linspace(-5, 5, 300) for j in range(3)}
    (verdict,) = sb.evaluate(sb.Log(data), "uniform", features=OneHot(2), gamma=0.0).verdicts
    assert verdict.trust == "usable"


def test_a_cached_log_equals_the_log():
    log = sb.Log(mixed(2))
    kept = log.cached()
    assert kept.cached() is kept
    assert kept.summary(0.9).text == log.summary(0.9).text
    one, two = (list(source.segments()) for source in (log, kept))
    assert [len(piece) for piece in one] == [len(piece) for piece in two]
    np.testing.assert_array_equal(log.start_states(), kept.start_states())


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("lower_is_better must be True or False, got 'no'", {"lower_is_better": "no"}),
        ("shared must be True or False, got 'x'", {"shared": "x"}),
        ("methods must be a list such as ['fqe', 'dr'], got 'dr'", {"methods": "dr"}),
        ("methods must be a list such as ['fqe', 'dr'], got 3", {"methods": 3}),
        ("ridge must be a finite number >= 0, got 'a'", {"ridge": "a"}),
        ("progress must be a function, got 3", {"progress": 3}),
        ("gamma must be a number in [0, 1], got 'x'", {"gamma": "x"}),
        ("unknown features 'polynomal'. Did you mean 'polynomial'?", {"features": "polynomal:2"}),
        ("features must be an object of saddleback.features", {"features": 3}),
        ("'²' is not an integer", {"features": "rbf:²"}),
        ("no target policy", {"target": {}}),
        ("names of target policies must be strings, got 1", {"target": {1: "uniform"}}),
        ("a target must be a function", {"target": None}),
        ("a log must be files (Parquet, ", {"data": 5}),
        ("low has 1 numbers, but observations have 2", {"features": "tiles:2x2", "low": [0.0]}),
        ("low is the box of features given as a text", {"low": [0.0, 0.0]}),
    ],
)  # fmt: skip
def test_wrong_types_are_saddleback_errors(message, options):
    data = two_states(20, "right") | {"obs_1": np.zeros(20)}
    given = {"data": data, "target": "uniform", "gamma": 0.5, "features": OneHot(2)} | options
    with pytest.raises(SaddlebackError, match=re.escape(message)):
        sb.evaluate(given.pop("data"), given.pop("target"), **given)


@pytest.mark.usefixtures("no_opinion")
@pytest.mark.parametrize("rule", [sb.GES, sb.GTB])
def test_the_path_has_the_closed_form_of_every_lambda(rule):
    """GTB(λ) uses no propensities, so it has a path without them, too."""
    data, features = mixed(3, d=2), Fourier((-3.0, -3.0), (3.0, 3.0), order=1)
    policy = {"new": lambda seen: np.tile([0.2, 0.3, 0.5], (len(seen), 1))}
    options = {"features": features, "gamma": 0.9}
    if rule is sb.GTB:
        del data["behavior_prob"]
    log = sb.Log(data)
    result = sb.evaluate(log, policy, rule=rule(0.4), path=True, methods=(), **options)
    path = dict(result.paths["new"]["lambda"])
    assert list(path) == [0.0, 0.25, 0.5, 0.75, 0.9, 1.0]
    for lam in (0.0, 0.75):
        sums = sb.Statistics.of(log, rule(lam), policy, **options)
        expected = float(sums.solve(rule(lam), "new").theta @ sums.start("new"))
        assert path[lam] == pytest.approx(expected, rel=1e-9)


def test_a_bandit_needs_no_discount_and_metadata_may_give_one():
    module = importlib.import_module("saddleback.ope.evaluate")

    def log(bandit=False, **metadata):
        return SimpleNamespace(bandit=bandit, metadata=metadata)

    assert module.discount(log(True, gamma=0.5), 0.75) == 0.0
    assert module.discount(log(gamma=0.5), 0.75) == 0.75
    assert module.discount(log(gamma=0.5), 0.0) == 0.0
    assert module.discount(log(gamma=0.5), None) == 0.5
    with pytest.raises(InvalidParameter, match="no discount in the log"):
        module.discount(log(), None)


@pytest.mark.parametrize(("passes", "plural"), [(1, "pass"), (2, "passes"), (3, "passes")])
def test_streamed_estimates_tell_how_far_they_are_from_their_closed_form(passes, plural):
    module = importlib.import_module("saddleback.ope.evaluate")
    learner = SimpleNamespace(
        fit=lambda log, progress: None, passes=passes, distances_=[0.5, 0.125], alpha_=0.01234,
        beta_=0.5, outcome_="ok", effective_rule="GES(0)", value=lambda: 3.5,
    )  # fmt: skip
    note = f"12.5% from its closed form after {passes} {plural}, α = 0.0123, β = 0.5"
    estimate = module._streamed(learner, None, "new", None)
    assert (estimate.value, estimate.method, estimate.note) == (3.5, "GES(0)", note)
    learner.outcome_ = "diverges:"
    assert module._streamed(learner, None, "new", None).note == f"diverges: {note}"


def test_svrg_tells_its_distance_and_epochs():
    module = importlib.import_module("saddleback.ope.evaluate")
    learner = SimpleNamespace(
        fit=lambda log, progress: None, theta_=[1.0, 2.5], residuals_=[9.0, 3.0, 1.0], ridge=0.5,
        outcome_="ok", effective_rule="GES(0)", value=lambda: 3.5,
    )  # fmt: skip
    sums = SimpleNamespace(
        solve=lambda rule, name, ridge: SimpleNamespace(theta=np.array([1.0, 2.0])),
        M=np.diag([1.0, 4.0]),
    )
    distance = np.sqrt(4 * 0.5**2 / (1 + 4 * 2**2))
    estimate = module._svrg(learner, None, sums, "new", None)
    assert estimate.note == f"ok; {distance:.1%} from LSTD after 2 epochs"
    assert (estimate.value, estimate.method) == (3.5, "SVRG, GES(0)")
