"""The distribution of the return in the model of a log, against enumeration and simulated truth."""

import json
import re
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import saddleback as sb
from helpers.studies import invoke
from saddleback.errors import InvalidParameter
from saddleback.log import LogError
from saddleback.log.target_policies import as_targets
from saddleback.ope import model_distribution, model_return_distribution
from saddleback.ope.distribution_text import distribution_lines, distribution_note
from saddleback.ope.empirical_model import EmpiricalModel, OutOfSteps, Simulated, StateLabels
from saddleback.ope.episode_sample import sample_episodes
from saddleback.ope.model_distribution import MAX_STEPS, model_distributions
from saddleback.ope.result_schema import digest
from saddleback.report import evaluation_page
from saddleback.report.distribution_chart import distribution

STATES, STOP = 4, 0.25
RNG = np.random.default_rng(5)
P = RNG.dirichlet(np.full(STATES, 0.5), size=(STATES, 2))
MEANS = RNG.normal(size=(STATES, 2))
MU, PI = np.full((STATES, 2), 0.5), np.array([[0.2, 0.8], [0.85, 0.15]] * 2)


def policy(observations):
    return PI[observations[:, 0].astype(int)]


def simulate(probabilities, episodes, gamma, seed, *, noise=0.5, limit=10**9, hidden=0.0):
    """Return the rows of episodes, and their returns without the limit on logged steps.

    ``hidden`` is how much every reward depends on a number that the observation does not have.
    """
    rng = np.random.default_rng(seed)
    rows, returns = defaultdict(list), np.zeros(episodes)
    bias = hidden * rng.choice([-1.0, 1.0], episodes)
    state, alive = rng.integers(0, STATES, episodes), np.arange(episodes)
    step = 0
    while len(alive):
        s = state[alive]
        a = (rng.random(len(alive)) >= probabilities[s, 0]).astype(int)
        reward = MEANS[s, a] + noise * rng.normal(size=len(alive)) + bias[alive]
        following = (rng.random(len(alive))[:, None] > P[s, a].cumsum(axis=1)).sum(axis=1)
        ended = rng.random(len(alive)) < STOP
        returns[alive] += gamma**step * reward
        if step < limit:
            for name, column in {
                "episode_id": alive, "step": np.full(len(alive), step), "obs_0": s, "action": a,
                "reward": reward, "terminated": ended, "next_obs_0": following,
                "truncated": ~ended & (step == limit - 1), "behavior_prob": probabilities[s, a],
            }.items():  # fmt: skip
                rows[name].append(column)
        state[alive] = following
        alive, step = alive[~ended], step + 1
    columns = {name: np.concatenate(parts) for name, parts in rows.items()}
    order = np.lexsort((columns["step"], columns["episode_id"]))
    columns = {name: column[order] for name, column in columns.items()}
    return {k: v.astype(float) if "obs" in k else v for k, v in columns.items()}, returns


def sampled(log, target, horizon=None):
    named = as_targets({"new": target}, log)
    return sample_episodes(log, named, 24_000, horizon)[0], named


def enumerate_returns(sample, gamma, horizon):
    """Return the distribution of the return of the first steps in the model, as a dict."""
    groups, n = defaultdict(list), len(sample.rewards)
    for i in range(n):
        groups[float(sample.states[i, 0]), int(sample.actions[i])].append(i)
    # Where a draw is: (state, π there, return so far), with its probability.
    places = defaultdict(float)
    for e, start in enumerate(sample.starts):
        places[float(start[0]), tuple(sample.start_pi["new"][e]), 0.0] += 1 / len(sample.starts)
    finished = defaultdict(float)
    for t in range(horizon):
        following = defaultdict(float)
        for (state, pi, total), probability in places.items():
            for action, pi_action in enumerate(pi):
                rows = groups[state, action] if pi_action > 0 else []
                for i in rows:
                    after = round(total + gamma**t * sample.rewards[i], 9)
                    share = probability * pi_action / len(rows)
                    if sample.continues[i]:
                        next_pi = tuple(sample.next_pi["new"][i])
                        following[float(sample.next_states[i, 0]), next_pi, after] += share
                    else:
                        finished[after] += share
        places = following
    for (_, _, total), probability in places.items():
        finished[total] += probability
    return finished


@pytest.mark.kernel
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_model_is_that_of_an_enumeration(gamma):
    rows, _ = simulate(MU, 60, gamma, seed=0)
    rows["reward"] = rows["reward"].round()
    log = sb.Log(rows)
    sample, _ = sampled(log, policy, horizon=None)
    expected = enumerate_returns(sample, gamma, horizon=4)
    model = EmpiricalModel.of(sample, StateLabels.of(sample, None), "new")
    drawn = model.simulate(4000, gamma, 4, limit=100)
    assert drawn.unknown == 0.0
    points = np.array(sorted(expected))
    below = np.cumsum([expected[point] for point in points])
    assert below[-1] == pytest.approx(1.0)
    observed = [(drawn.returns <= point + 1e-6).mean() for point in points]
    assert np.abs(below - observed).max() < 1.63 / np.sqrt(4000)


def test_its_mean_is_the_closed_form_of_one_feature_per_state():
    rows, _ = simulate(MU, 300, 0.9, seed=1)
    log = sb.Log(rows)
    one_hot = sb.features.OneHot(STATES)
    estimator = sb.LSTD(target=policy, features=one_hot, gamma=0.9, rule=sb.GES(0.0)).fit(log)
    sample, _ = sampled(log, policy)
    model = EmpiricalModel.of(sample, StateLabels.of(sample, one_hot), "new")
    drawn = model.simulate(200_000, 0.9, None, limit=1000)
    error = drawn.returns.std() / np.sqrt(len(drawn.returns))
    assert drawn.returns.mean() == pytest.approx(estimator.value(), abs=4 * error)


def test_weights_of_episodes_are_those_of_the_rows():
    rows, _ = simulate(MU, 200, 1.0, seed=2)
    log = sb.Log(rows)
    sample, _ = sampled(log, policy)
    model = EmpiricalModel.of(sample, StateLabels.of(sample, None), "new")
    even = np.where(np.arange(200) % 2, 1.0, 1e-12)
    drawn = model.simulate(500, 1.0, None, limit=1000, weights=even).returns
    numbers = sample.numbers[np.arange(200) % 2 == 1]
    half = {k: v[np.isin(rows["episode_id"], numbers)] for k, v in rows.items()}
    sample, _ = sampled(sb.Log(half), policy)
    only_half = EmpiricalModel.of(sample, StateLabels.of(sample, None), "new")
    expected = only_half.simulate(20_000, 1.0, None, limit=1000).returns
    error = expected.std() / np.sqrt(500)
    assert drawn.mean() == pytest.approx(expected.mean(), abs=4 * error)


@pytest.mark.statistical
@pytest.mark.parametrize("limit", [10**9, 3])
def test_intervals_cover_the_truth_also_where_episodes_are_truncated(limit):
    levels, tail, n = (0.1, 0.5, 0.9), 0.2, 40
    _, truth = simulate(PI, 400_000, 0.95, seed=99)
    values = [*np.quantile(truth, levels), np.sort(truth)[: int(tail * len(truth))].mean()]
    hits, reliable = np.zeros(4), 0
    for seed in range(n):
        rows, _ = simulate(MU, 250, 0.95, seed=seed, limit=limit)
        result = model_return_distribution(
            sb.Log(rows), policy, gamma=0.95, levels=levels, tail=tail
        )
        functionals = (*result.quantiles, result.cvar)
        hits += [one.low <= v <= one.high for one, v in zip(functionals, values, strict=True)]
        reliable += result.reliable
    assert (hits >= 34).all(), hits  # 95% − 3 standard errors
    assert reliable >= 38


def test_intervals_are_those_of_student_over_resampled_models(monkeypatch):
    """CVaR ± t SD, with a resampled model less than the number of degrees of freedom."""
    seen = []

    def spied(self, *arguments, weights=None, **options):
        simulated = simulate_model(self, *arguments, weights=weights, **options)
        seen.append((weights is not None, np.sort(simulated.returns)))
        return simulated

    simulate_model = EmpiricalModel.simulate
    monkeypatch.setattr(EmpiricalModel, "simulate", spied)
    monkeypatch.setattr("saddleback.ope.model_distribution.MAX_STEPS", 200_000)
    rows, _ = simulate(MU, 60, 0.9, seed=7)
    result = model_return_distribution(sb.Log(rows), policy, gamma=0.9, levels=(0.5,), tail=0.2)
    resampled = [returns for is_resampled, returns in seen if is_resampled]
    worst = [returns[: round(0.2 * len(returns))].mean() for returns in resampled]
    width = stats.t.ppf(0.975, len(resampled) - 1) * np.std(worst, ddof=1)
    assert result.cvar.high - result.cvar.value == pytest.approx(width, rel=1e-4)
    assert result.cvar.value - result.cvar.low == pytest.approx(width, rel=1e-4)


def test_where_the_observation_hides_the_state_it_is_unreliable():
    rows, _ = simulate(MU, 800, 1.0, seed=3, noise=0.1, hidden=1.0)
    result = model_return_distribution(sb.Log(rows), policy, gamma=1.0)
    assert not result.reliable
    saved = {"method": result.method, "note": result.note, "reliable": False, "comparable": True}
    assert distribution_note(saved).startswith("unreliable: it misses the logged returns by ")
    rows, _ = simulate(MU, 800, 1.0, seed=3, noise=0.1)
    assert model_return_distribution(sb.Log(rows), policy, gamma=1.0).reliable


def test_a_target_that_leaves_the_log_has_none():
    rows, _ = simulate(np.tile([1.0, 0.0], (STATES, 1)), 100, 1.0, seed=4)
    log = sb.Log(rows, actions=["0", "1"])
    message = "[0-9]+% of the simulated returns of the target need an action in a state in which"
    with pytest.raises(InvalidParameter, match=message):
        model_return_distribution(log, policy, gamma=1.0)
    sample, named = sampled(log, policy)
    models, missing = model_distributions(sample, named, 1.0)
    assert models == {}
    assert re.match(message, missing["new"])


def test_rare_states_make_it_unreliable():
    rows, _ = simulate(np.tile([0.95, 0.05], (STATES, 1)), 60, 1.0, seed=6)
    result = model_return_distribution(sb.Log(rows), policy, gamma=1.0)
    assert "of its steps are rarely logged" in result.note
    assert not result.reliable


def test_real_observations_need_features_that_tell_states_apart():
    rows, _ = simulate(MU, 300, 0.9, seed=7)
    exact = model_return_distribution(sb.Log(rows), policy, gamma=0.9)
    jitter = np.random.default_rng(0).uniform(0.0, 0.5, len(rows["obs_0"]))
    log = sb.Log(rows | {"obs_0": rows["obs_0"] + jitter})
    with pytest.raises(InvalidParameter, match="fewer than 10 rows for each different observation"):
        model_return_distribution(log, policy, gamma=0.9)
    tiles = sb.features.Tiles((0.0,), (4.0,), bins=4, tilings=1)
    by_tiles = model_return_distribution(log, policy, gamma=0.9, features=tiles)
    assert by_tiles.quantiles[2].low <= exact.quantiles[2].value <= by_tiles.quantiles[2].high
    several = sb.features.Tiles((0.0,), (4.0,), bins=4, tilings=2)
    few = "the log has no model: the log has fewer than 10 rows for each"
    with pytest.raises(
        InvalidParameter,
        match=f"{few} different observation, and more than one feature is active, or its value v",
    ):
        model_return_distribution(log, policy, gamma=0.9, features=several)
    many = sb.features.Tiles((0.0,), (4.0,), bins=4000, tilings=1)
    with pytest.raises(InvalidParameter, match=f"{few} feature that is active. Fewer features"):
        model_return_distribution(log, policy, gamma=0.9, features=many)


@pytest.mark.slow
def test_an_evaluation_says_why_there_is_none(tmp_path):
    rows, _ = simulate(MU, 60, 0.9, seed=7)
    rows["obs_0"] = rows["obs_0"] + np.random.default_rng(0).uniform(0.0, 0.5, len(rows["obs_0"]))
    del rows["behavior_prob"]
    result = sb.evaluate(sb.Log(rows), {"new": policy}, gamma=0.9, distribution=True)
    why = result.missing_models["new"]
    assert why.startswith("the log has fewer than 10 rows for each different observation. Features")
    saved = result.as_dict()
    assert saved["missing_models"] == {"new": why}
    text = " ".join(line.text for line in distribution_lines(saved, 1000))
    weighted = "none, since no estimate weighs episodes by propensities."
    model = f"none, since {why}."
    assert f"Distribution of the return, weighted: {weighted}" in text
    assert f"Distribution of the return, model: {model}" in text
    page = evaluation_page(result)
    assert weighted in page
    assert model in page
    saved_text = tmp_path / "result.json"
    saved_text.write_text(json.dumps(saved | {"digest": digest(saved)}))
    assert "Distribution of the return, model: none, since" in invoke("explain", saved_text).stdout
    tiles = sb.features.Tiles((0.0,), (4.0,), bins=4, tilings=1)
    by_tiles = sb.evaluate(
        sb.Log(rows), {"new": policy}, gamma=0.9, features=tiles, rule=sb.GTB(0.5),
        distribution=True,
    )  # fmt: skip
    assert not by_tiles.missing_models
    assert list(by_tiles.model_distributions) == ["new"]


def test_a_rule_for_state_values_has_none():
    rows, _ = simulate(MU, 60, 0.9, seed=7)
    result = sb.evaluate(
        sb.Log(rows),
        {"new": policy},
        gamma=0.9,
        rule=sb.rules.TDC(0.0),
        features=sb.features.OneHot(STATES),
        distribution=True,
    )
    assert "learns state values" in result.missing_models["new"]


@pytest.mark.slow
def test_an_evaluation_has_it_beside_weighted_episodes():
    rows, _ = simulate(MU, 200, 0.9, seed=8)
    assert not sb.evaluate(sb.Log(rows), {"new": policy}, gamma=0.9).model_distributions
    result = sb.evaluate(sb.Log(rows), {"new": policy}, gamma=0.9, distribution=True)
    shown = result.model_distributions["new"]
    assert shown == model_return_distribution(sb.Log(rows), {"new": policy}, gamma=0.9)
    saved = result.as_dict()
    assert [one["method"] for one in saved["distributions"]] == ["weighted episodes", "model"]
    text = "\n".join(line.text for line in distribution_lines(saved))
    assert "Distribution of the return, weighted" in text
    assert "Distribution of the return, model" in text
    saved["distributions"][0]["reliable"] = False
    chart = distribution("new", saved, None)
    assert "From a model of the log." in chart["caption"]
    assert chart["caption"].startswith("5% worst, mean (CVaR): ")


def test_a_bandit_has_it_too():
    rng, n = np.random.default_rng(0), 3000
    context, action = rng.integers(0, 3, n), rng.integers(0, 2, n)
    reward = 2.0 * action + rng.normal(size=n)
    log = sb.Log({"obs_0": context, "action": action, "reward": reward}, bandit=True)
    result = sb.evaluate(log, {"new": "always:1"}, distribution=True)
    median = result.model_distributions["new"].quantiles[2]
    assert median.low <= 2.0 <= median.high
    assert median.high - median.low < 0.3


def endless(steps):
    """Return a log of episodes that are all truncated after some steps."""
    rng, n = np.random.default_rng(0), 40 * steps
    last = np.arange(n) % steps == steps - 1
    state = rng.integers(0, 3, n + 1).astype(float)
    return sb.Log({
        "episode_id": np.arange(n) // steps, "obs_0": state[:-1], "next_obs_0": state[1:],
        "action": rng.integers(0, 2, n), "reward": rng.normal(size=n), "truncated": last,
        "terminated": np.zeros(n, dtype=bool),
    })  # fmt: skip


@pytest.mark.parametrize(("gamma", "horizon"), [(0.9999, None), (0.99, None), (1.0, 5000)])
def test_simulated_steps_are_bounded(gamma, horizon, monkeypatch):
    taken, simulate_model = [], EmpiricalModel.simulate

    def counted(self, draws, *arguments, max_steps, **options):
        try:
            result = simulate_model(self, draws, *arguments, max_steps=max_steps, **options)
        except OutOfSteps:
            taken.append(max_steps)
            raise
        taken.append(result.steps * draws)
        return result

    monkeypatch.setattr(EmpiricalModel, "simulate", counted)
    log = endless(50)
    sample, named = sampled(log, "uniform", horizon)
    result, missing = model_distributions(sample, named, gamma, horizon)
    assert sum(taken) < 1.3 * MAX_STEPS  # a target, and the logged policy once
    if gamma == 0.99:
        assert list(result) == ["new"]
        return
    assert result == {}
    assert missing == {"new": "episodes are too long to simulate with 9,000,000 steps"}
    with pytest.raises(InvalidParameter, match="too long to simulate with 9,000,000 steps"):
        model_return_distribution(log, "uniform", gamma=gamma, horizon=horizon)


def test_only_steps_of_draws_that_go_on_count():
    lengths = np.append(2000, np.tile([1, 2, 3], 266))
    ids = np.repeat(np.arange(len(lengths)), lengths)
    last = np.append(ids[1:] != ids[:-1], True)
    first = np.append(True, last[:-1])
    rows = {
        "episode_id": ids, "obs_0": np.where((ids == 0) & ~first, 1.0, 0.0), "terminated": last,
        "action": np.arange(len(ids)) % 2, "reward": np.ones(len(ids)),
        "truncated": np.zeros(len(ids), dtype=bool),
    }  # fmt: skip
    sample, _ = sampled(sb.Log(rows), "uniform")
    model = EmpiricalModel.of(sample, StateLabels.of(sample, None), "new")
    drawn = model.simulate(2000, 1.0, None, limit=40_000)
    used = round(drawn.steps * 2000)
    assert model.simulate(2000, 1.0, None, limit=40_000, max_steps=used).steps == drawn.steps
    with pytest.raises(OutOfSteps):
        model.simulate(2000, 1.0, None, limit=40_000, max_steps=used - 1)


def hidden_clock(cut):
    """Return a log of three-step episodes whose observation hides the step; some are cut short.

    Each of ``cut`` is the number of an episode and the steps after which it is truncated.
    """
    rng, n = np.random.default_rng(0), 6000
    episode, step = np.arange(n) // 3, np.arange(n) % 3
    length = np.full(2000, 3)
    for number, steps in cut:
        length[number] = steps
    truncated = np.isin(episode, [number for number, _ in cut]) & (step == length[episode] - 1)
    rows = {
        "episode_id": episode, "obs_0": rng.integers(0, 3, n) * 1.0, "next_obs_0": np.ones(n),
        "action": rng.integers(0, 2, n), "reward": np.ones(n), "truncated": truncated,
        "terminated": (step == 2) & ~truncated,
    }  # fmt: skip
    return sb.Log({name: column[step < length[episode]] for name, column in rows.items()})


def test_one_truncated_episode_leaves_the_check_and_the_logged_returns():
    uncut, cut = (
        model_return_distribution(hidden_clock(which), "uniform", gamma=0.9)
        for which in ([], [(0, 2)])
    )
    for result in (uncut, cut):
        assert not result.reliable
        assert "it misses the logged returns by " in result.note
        assert result.quantiles[2].logged == pytest.approx(2.71)
    assert cut.note.endswith("logged values leave out truncated episodes (1)")
    assert "logged values" not in uncut.note


def test_where_many_are_truncated_the_first_steps_are_compared():
    result = model_return_distribution(
        hidden_clock([(i, 3) for i in range(500)]), "uniform", gamma=0.9
    )
    assert not result.reliable  # draws of the model end in the first three steps
    assert "it misses the logged returns by " in result.note
    assert result.note.endswith("logged values are the model's too, since episodes were truncated")
    rows, _ = simulate(MU, 800, 0.9, seed=3, limit=3)
    good = model_return_distribution(sb.Log(rows), policy, gamma=0.9)
    assert good.reliable
    saved = {"method": good.method, "note": good.note, "reliable": True, "comparable": True}
    assert distribution_note(saved).startswith("Logged values are the model's too")


def test_a_check_of_few_steps_is_none():
    rng = np.random.default_rng(1)
    length = rng.integers(1, 40, 300)
    ids = np.repeat(np.arange(300), length)
    last = np.append(ids[1:] != ids[:-1], True)
    state = rng.integers(0, 3, len(ids) + 1).astype(float)
    log = sb.Log({
        "episode_id": ids, "obs_0": state[:-1], "next_obs_0": state[1:], "truncated": last,
        "action": rng.integers(0, 2, len(ids)), "reward": rng.normal(size=len(ids)),
        "terminated": np.zeros(len(ids), dtype=bool),
    })  # fmt: skip
    result = model_return_distribution(log, "uniform", gamma=0.9)
    assert not result.reliable
    assert "only returns of the first steps, up to 1, could be compared" in result.note


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.5}, r"gamma must be a number in \[0, 1\], got 1.5"),
        ({"gamma": -0.5}, "gamma must be"),
        ({"gamma": float("nan")}, "gamma must be"),
        ({"horizon": 0}, "horizon must be a whole number >= 1, got 0"),
        ({"horizon": 4.5}, "horizon must be a whole number"),
        ({"target": {"a": "uniform", "b": "always:1"}}, "takes one target policy, got 2"),
    ],
)
def test_arguments_are_checked(options, message):
    given = {"target": "uniform", "gamma": 0.9} | options
    with pytest.raises(InvalidParameter, match=message):
        model_return_distribution(hidden_clock([]), **given)


def test_without_a_discount_episodes_must_end():
    log = endless(5)
    with pytest.raises(LogError, match="E160 gamma=1 requires terminating episodes, but 100%"):
        model_return_distribution(log, "uniform", gamma=1.0)
    model_return_distribution(log, "uniform", gamma=1.0, horizon=5)


def test_logged_values_are_unknown_where_the_logged_policy_leaves_the_log():
    # Action 1 leads to state 1, where no action was logged; the target avoids it.
    rng, n = np.random.default_rng(0), 900
    action = rng.integers(0, 2, n)
    log = sb.Log({
        "episode_id": np.arange(n), "obs_0": np.zeros(n), "next_obs_0": action.astype(float),
        "action": action, "reward": rng.normal(size=n), "terminated": action == 0,
        "truncated": action == 1, "behavior_prob": np.full(n, 0.5),
    })  # fmt: skip
    result = model_return_distribution(log, "always:0", gamma=0.9)
    assert np.isfinite(result.cvar.value)
    assert np.isnan([result.cvar.logged, *(one.logged for one in result.quantiles)]).all()
    assert "logged values are unknown" in result.note
    two = sb.features.OneHot(2)
    evaluated = sb.evaluate(log, "always:0", gamma=0.9, features=two, distribution=True)
    saved = evaluated.as_dict()
    assert " none" in "\n".join(line.text for line in distribution_lines(saved))


def test_tiny_returns_stay_numbers():
    rows, _ = simulate(MU, 200, 0.9, seed=8)
    result, tiny = (
        model_return_distribution(
            sb.Log(rows | {"reward": rows["reward"] * scale}), policy, gamma=0.9
        )
        for scale in (1.0, 2.0**-1000)
    )
    for one, other in zip(result.quantiles, tiny.quantiles, strict=True):
        assert one.low <= other.value * 2.0**1000 <= one.high
    assert tiny.reliable


# Parts of the distribution, one at a time.


def spy_on_simulations(monkeypatch):
    """Return a list to which every simulation is added, with its arguments and its result."""
    simulate_model, calls = EmpiricalModel.simulate, []

    def spied(self, draws, gamma, horizon, **options):
        result = simulate_model(self, draws, gamma, horizon, **options)
        calls.append((self.choice.shape[1] == 1, draws, gamma, horizon, options, result))
        return result

    monkeypatch.setattr(EmpiricalModel, "simulate", spied)
    return calls


def clipped(value, low, high):
    return int(min(max(value, low), high))


@pytest.mark.parametrize(
    ("gamma", "most", "limit"), [(0.9, 300_000, 10**9), (0.0, MAX_STEPS, 10**9), (0.9, 300_000, 3)]
)
def test_simulations_share_the_steps_and_give_the_intervals(monkeypatch, gamma, most, limit):
    """Nine tenths are planned for; half of it for 50 resamples; the logged policy has an eighth."""
    monkeypatch.setattr(model_distribution, "MAX_STEPS", most)
    monkeypatch.setattr(model_distribution._Budget, "left", most)
    monkeypatch.setattr(model_distribution._Budget.__init__, "__defaults__", (most,))
    calls = spy_on_simulations(monkeypatch)
    rows, _ = simulate(MU, 60, gamma, seed=7, limit=limit)
    rows["reward"] *= 4.0  # the largest of all simulations have the same number of digits
    levels = (0.02, 0.3, 0.5, 0.98)
    shown = model_return_distribution(
        sb.Log(rows), policy, gamma=gamma, levels=levels, tail=0.2, lower_is_better=gamma == 0.0
    )
    logged = [call for call in calls if call[0]]
    pilot, main, *resampled = [call for call in calls if not call[0]]
    endless = 20 * (rows["step"].max() + 1)
    assert all(call[4]["limit"] == endless for call in calls)
    for first, second in zip(logged[::2], logged[1::2], strict=True):
        assert (first[1], first[4]["seed"], first[4]["max_steps"]) == (200, 0, int(0.9 * most / 9))
        steps = max(1.0, first[5].steps)
        assert second[1] == clipped(0.9 * most / (8 * steps), 200, 20_000)
        assert second[4]["max_steps"] == most - round(first[5].steps * 200)
        assert second[4]["seed"] == 1
    horizons = [call[3] for call in logged]
    assert horizons == ([None] * 2 if limit > 3 else [3, 3, None, None])
    assert (pilot[1], pilot[4]["seed"]) == (200, 0)
    assert pilot[4]["max_steps"] == int(0.9 * most / 52)
    steps = max(1.0, pilot[5].steps)
    few = clipped(0.9 * most / (100 * steps), 200, 4000)
    assert main[1] == clipped((0.9 * most - 50 * few * steps) / steps, 200, 20_000)
    assert (main[4]["seed"], main[4]["weights"]) == (1, None)
    assert [call[1] for call in resampled] == [few] * 50
    weights = np.random.default_rng(2).standard_exponential((50, 60))
    np.testing.assert_array_equal([call[4]["weights"] for call in resampled], weights)
    left = most
    for call in (pilot, main, *resampled):
        if call is not pilot:
            assert call[4]["max_steps"] == left
        left -= round(call[5].steps * call[1])
    # The intervals, with one degree of freedom less than resamples.
    own, t = np.sort(main[5].returns), stats.t.ppf(0.975, 49)
    assert shown.standard_deviation == pytest.approx(own.std())
    for one, level in zip(shown.quantiles, levels, strict=True):
        value = own[int(np.ceil(level * len(own) * (1 - 1e-12))) - 1]
        errors = [
            np.std([inside(call[5].returns, value).mean() for call in resampled], ddof=1)
            for inside in (
                lambda returns, value: returns <= value + 1e-9,
                lambda returns, value: returns < value - 1e-9,
            )
        ]
        width = t * max(errors) + main[5].unknown
        low, high = (
            own[min(len(own), int(np.ceil(len(own) * at * (1 - 1e-12)))) - 1]
            for at in (level - width, level + width)
        )
        expected = (value, -np.inf if level < width else low, np.inf if level + width > 1 else high)
        print(
            level,
            width,
            errors,
            main[5].unknown,
            len(own),
            own[int(len(own) * (level - width)) - 3 :][:8],
            one,
        )
        assert (one.value, one.low, one.high) == pytest.approx(expected, abs=1e-9)
        assert one.level == level
    assert shown.cvar.level == 0.2
    assert [round(100 * level) for level, *_ in shown.curve] == list(range(1, 100))


def known_steps(lengths, ends, horizon):
    """Return the steps over which returns of episodes are known; each ends, or is cut."""
    last = np.cumsum(lengths) - 1
    continues = np.ones(sum(lengths), dtype=bool)
    continues[last] = [end == "cut" for end in ends]
    sample = SimpleNamespace(
        starts=np.zeros((len(lengths) + 1, 1)), last=np.isin(np.arange(sum(lengths)), last),
        continues=continues, step=np.concatenate([np.arange(n) for n in lengths]),
        episode=np.repeat(np.arange(len(lengths)), lengths),
    )  # fmt: skip
    return model_distribution._known_steps(sample, horizon).tolist()


def test_returns_of_cut_episodes_are_known_up_to_their_last_step():
    """The last episode has no transition."""
    lengths, ends = [3, 5, 1, 4], ["ended", "cut", "cut", "cut"]
    assert known_steps(lengths, ends, None) == [np.inf, 5.0, 1.0, 4.0, 0.0]
    assert known_steps(lengths, ends, 5) == [np.inf, np.inf, 1.0, 4.0, 0.0]
    assert known_steps(lengths, ends, 4) == [np.inf, np.inf, 1.0, np.inf, 0.0]


@pytest.mark.parametrize(("n", "left_out"), [(1, 0), (99, 0), (100, 1), (199, 1), (200, 2)])
def test_one_in_a_hundred_episodes_may_be_shorter(n, left_out):
    lengths = np.random.default_rng(0).permutation(n) + 1.0
    assert model_distribution._common_steps(lengths) == left_out + 1


def test_the_distance_of_samples_is_that_of_kolmogorov():
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (7, 5), (40, 60)):
        one, other = rng.normal(size=n).round(1), rng.normal(0.3, size=m).round(1)
        expected = max(
            abs((one <= point).mean() - (other <= point).mean()) for point in [*one, *other]
        )
        assert model_distribution._kolmogorov(one, other) == pytest.approx(expected)
        repeated = model_distribution._kolmogorov(one * (1 + 1e-15), one)
        assert repeated == 0.0
    assert model_distribution._kolmogorov(np.zeros(0), np.ones(3)) == 1.0


@pytest.mark.parametrize("largest", [1000.0, 999.0, 1001.0, -5.0, 1e-3, 1e12, 1e-288, 1e-291])
def test_returns_are_equal_to_twelve_digits_of_the_largest(largest):
    digit = 10.0 ** (np.ceil(np.log10(abs(largest))) - 12)
    tolerance = max(digit * 1e-3, 1e-300)
    unit = digit if abs(largest) > 1e-289 else None
    size = abs(largest)
    rounded = model_distribution._rounded(np.array([largest, 0.3 * largest, 0.0]), size)
    np.testing.assert_allclose(rounded, [largest, 0.3 * largest, 0.0], atol=digit)
    if unit is None:
        near = model_distribution._rounded(largest * np.array([1.0, 0.3, 0.3 + 1e-15]), size)
        assert near[1] == near[2]
        return
    near = np.array([largest, 0.4 * unit, 0.6 * unit, -1.6 * unit])
    near = model_distribution._rounded(near, size)
    np.testing.assert_allclose(near[1:], [0.0, unit, -2 * unit], atol=tolerance)


def test_returns_that_are_zero_or_infinite_are_not_rounded():
    for given in ([0.0, -0.0], [np.inf, 1.0], [np.nan, 0.123456789012345678], []):
        largest = model_distribution._largest(np.array(given))
        np.testing.assert_array_equal(model_distribution._rounded(np.array(given), largest), given)


@pytest.mark.parametrize("largest", [9.0, 12.0])
def test_a_rare_return_does_not_change_which_returns_are_equal(largest):
    """A fifth of the resampled logs are without it; their other returns are still those of ours."""
    n = 400
    rewards = np.where(np.arange(n) % 2, 4 / 3, 1.0)
    rewards[0] = largest
    actions = np.random.default_rng(0).integers(0, 2, n)
    log = sb.Log({"obs_0": np.zeros(n), "action": actions, "reward": rewards}, bandit=True)
    distribution = model_return_distribution(log, "uniform", gamma=0.0, levels=(0.75,))
    (quantile,) = distribution.quantiles
    assert (quantile.low, quantile.high) == pytest.approx((4 / 3, 4 / 3))


def simulated_as(monkeypatch, logged, others, *, unknown=0.0, rare=0.0, logged_unknown=0.0):
    """Let the model return given returns of the logged policy, and of others."""

    def simulate_model(self, draws, *_, **__):
        if self.choice.shape[1] == 1:
            return Simulated(np.array(logged), logged_unknown, 0.0, 1.0)
        return Simulated(np.array(others), unknown, rare, 1.0)

    monkeypatch.setattr(EmpiricalModel, "simulate", simulate_model)


def coins(n, heads):
    """Return decisions with a reward of 1 for a share of them, and 0 for the rest."""
    rewards = (np.arange(n) < heads).astype(float)
    return sb.Log(
        {"obs_0": np.zeros(n), "action": np.arange(n) % 2, "reward": rewards}, bandit=True
    )


@pytest.mark.parametrize(
    ("n", "m", "distance", "misses"),
    [
        (400, 400, 0.1150, False), (400, 400, 0.1175, True),  # 1.63 √(2/400) = 0.1153
        (400, 1600, 0.0900, False), (400, 1600, 0.0925, True),  # 1.63 √(5/1600) = 0.0911
        (1600, 8000, 0.0499, False), (1600, 8000, 0.0501, True),
    ],
)  # fmt: skip
def test_a_distance_beyond_chance_and_five_hundredths_is_a_miss(
    monkeypatch, n, m, distance, misses
):
    model = (np.arange(m) < round((0.5 - distance) * m)).astype(float)
    simulated_as(monkeypatch, model, [0.0, 1.0])
    shown = model_return_distribution(coins(n, n // 2), "always:1", gamma=0.0)
    text = f"it misses the logged returns by {distance:.0%} of the probability"
    assert shown.note == (text if misses else "")
    assert shown.reliable != misses


def test_shares_of_unknown_and_rare_actions_have_limits(monkeypatch):
    log = coins(400, 200)
    half = np.array([0.0, 1.0] * 200)
    for unknown, rare, note in (
        (0.0, 0.1, ""), (0.01, 0.0, ""), (0.0, 0.101, "10% of its steps are rarely logged"),
    ):  # fmt: skip
        simulated_as(monkeypatch, half, half, unknown=unknown, rare=rare)
        shown = model_return_distribution(log, "always:1", gamma=0.0, levels=(0.7,))
        assert shown.note == note
    simulated_as(monkeypatch, half, half, unknown=0.0151)
    message = "no distribution: 2% of the simulated returns of the target need an action in a state"
    with pytest.raises(InvalidParameter, match=message):
        model_return_distribution(log, "always:1", gamma=0.0)


def test_what_is_unknown_widens_intervals(monkeypatch):
    """Of returns 1 to 1000, whose resamples do not differ."""
    returns = np.arange(1.0, 1001.0)
    for unknown, low, high in ((0.0, 500.0, 500.0), (0.005, 495.0, 505.0)):
        simulated_as(monkeypatch, returns, returns, unknown=unknown)
        shown = model_return_distribution(coins(400, 200), "always:1", gamma=0.0, levels=(0.5,))
        (median,) = shown.quantiles
        assert (median.low, median.value, median.high) == (low, 500.0, high)


@pytest.mark.parametrize(("columns", "hint"), [(1, True), (2, True), (3, False)])
def test_tiles_are_suggested_for_one_or_two_columns(columns, hint):
    sample = SimpleNamespace(states=np.zeros((5, columns)))
    text = "the log has fewer than 10 rows for each different observation"
    more = ". Features of which one is active, such as tiles:8x1, would tell fewer states apart"
    assert model_distribution._too_many(sample, None) == text + (more if hint else "")
