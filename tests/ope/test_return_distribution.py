"""Quantiles and CVaR of the return against definitions written out, and known distributions."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import saddleback as sb
from saddleback.errors import InvalidParameter
from saddleback.ope import return_distribution
from saddleback.ope.distribution_text import distribution_lines, distribution_note
from saddleback.ope.return_distribution import SortedReturns, return_distributions

PI, MU = np.array([0.2, 0.8]), np.array([0.6, 0.4])


def policy(contexts):
    return np.tile(PI, (len(contexts), 1))


def draw(n, seed):
    """Return decisions whose reward is normal with mean 2a, with some ties."""
    rng = np.random.default_rng(seed)
    a = (rng.random(n) > MU[0]).astype(int)
    reward = 2.0 * a + rng.normal(size=n)
    return {
        "obs_0": np.zeros(n), "action": a, "reward": reward, "behavior_prob": MU[a],
    }  # fmt: skip


def weighted(data):
    log = sb.Log(data, bandit=True)
    return sb.importance_sampling(log, {"new": policy}, gamma=0.0)["new"]


def worst_mean(returns, weights, tail):
    """Fill up the share ``tail`` with the smallest returns, and return their mean."""
    left, total = tail, 0.0
    for value, weight in sorted(zip(returns, weights / weights.sum(), strict=True)):
        taken = min(left, weight)
        total += taken * value
        left -= taken
    return total / tail


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_and_cvar_are_their_definitions(seed):
    data = draw(80, seed)
    data["reward"] = data["reward"].round(1)  # ties
    w, g = PI[data["action"]] / MU[data["action"]], data["reward"]
    percents, units = (1, 10, 50, 77, 99), (3 * w).round().astype(int)  # sums without rounding
    shown = return_distribution(weighted(data), levels=[p / 100 for p in percents], tail=0.13)
    for percent, one in zip(percents, shown.quantiles, strict=True):
        reached = [x for x in np.unique(g) if 100 * units[g <= x].sum() >= percent * units.sum()]
        assert one.value == min(reached)
        assert one.logged == min(x for x in g if 100 * (g <= x).sum() >= percent * 80)
        assert one.low <= one.value <= one.high
    assert shown.cvar.value == pytest.approx(worst_mean(g, w, 0.13), rel=1e-12)
    assert shown.cvar.logged == pytest.approx(worst_mean(g, np.ones(80), 0.13), rel=1e-12)
    mean = np.average(g, weights=w)
    spread = np.sqrt(np.average((g - mean) ** 2, weights=w))
    assert shown.standard_deviation == pytest.approx(spread, rel=1e-12)


def test_of_costs_the_largest_are_the_worst():
    data = draw(200, 0)
    mirrored = data | {"reward": -data["reward"]}
    costs = return_distribution(weighted(data), lower_is_better=True).cvar
    rewards = return_distribution(weighted(mirrored)).cvar
    assert (costs.value, costs.low, costs.high) == pytest.approx(
        (-rewards.value, -rewards.high, -rewards.low), rel=1e-9
    )


def true_quantile(level):
    def excess(x):
        return PI @ stats.norm.cdf(x, [0.0, 2.0]) - level

    return optimize.brentq(excess, -10, 10)


def true_cvar(tail):
    end = true_quantile(tail)
    mean, _ = integrate.quad(lambda x: x * (PI @ stats.norm.pdf(x, [0.0, 2.0])), -12, end)
    return mean / tail


@pytest.mark.statistical
def test_intervals_cover_a_known_distribution():
    levels, tail = (0.1, 0.5, 0.9), 0.2
    truths = [*map(true_quantile, levels), true_cvar(tail)]
    hits = np.zeros(4)
    for seed in range(400):
        shown = return_distribution(weighted(draw(400, seed)), levels=levels, tail=tail)
        functionals = (*shown.quantiles, shown.cvar)
        hits += [
            one.low <= truth <= one.high for one, truth in zip(functionals, truths, strict=True)
        ]
    assert ((hits >= 366) & (hits <= 394)).all(), hits  # 95% ± 3 standard errors


def test_an_end_that_the_data_leave_open_is_infinite():
    shown = return_distribution(weighted(draw(20, 0)), levels=(0.02, 0.5, 0.98))
    first, middle, last = shown.quantiles
    assert first.low == -np.inf
    assert last.high == np.inf
    assert np.isfinite([middle.low, middle.high]).all()


def test_with_few_of_the_worst_returns_only_their_quantile_bounds_cvar():
    data = draw(50, 1)  # the worst are 8 in effect
    shown = return_distribution(weighted(data), levels=(0.05,), tail=0.05)
    (quantile,) = shown.quantiles
    assert (shown.cvar.low, shown.cvar.high) == (-np.inf, quantile.high)
    costs = weighted(data | {"reward": -data["reward"]})
    mirrored = return_distribution(costs, levels=(0.95,), tail=0.05, lower_is_better=True)
    assert (mirrored.cvar.low, mirrored.cvar.high) == (mirrored.quantiles[0].low, np.inf)
    finite = return_distribution(weighted(draw(2000, 1)), tail=0.05).cvar
    assert np.isfinite([finite.low, finite.high]).all()


@pytest.mark.statistical
def test_intervals_of_cvar_cover_with_few_decisions():
    truth = true_cvar(0.05)
    shown = [return_distribution(weighted(draw(60, seed))).cvar for seed in range(400)]
    hits = sum(one.low <= truth <= one.high for one in shown)
    assert hits >= 366  # 95% − 3 standard errors


def test_levels_must_lie_between_0_and_1():
    for options in ({"levels": (0.0,)}, {"levels": (2.0,)}, {"tail": 1.0}):
        with pytest.raises(InvalidParameter, match=r"between 0 and 1|in \[0, 1\]"):
            return_distribution(weighted(draw(20, 0)), **options)


@pytest.mark.slow
def test_an_evaluation_of_episodes_has_it_too():
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    log = sb.collect(walk, episodes=200, rng=0)
    features = sb.features.OneHot(walk.mdp.n_states)
    result = sb.evaluate(log, {"new": walk.target}, features=features, gamma=0.9)
    shown = result.distributions["new"]
    plain = sb.importance_sampling(log, {"new": walk.target}, gamma=0.9)["new"]
    assert shown.quantiles == return_distribution(plain).quantiles
    saved = result.as_dict()
    assert saved["distributions"][0]["cvar"]["value"] == shown.cvar.value
    lines = [line.text for line in distribution_lines(saved)]
    assert lines[1].startswith("Distribution of the return")
    assert lines[2].startswith("  5% worst, mean (CVaR)")
    notes = [bool(distribution_note(one)) for one in saved["distributions"]]
    assert len(lines) == 8 * len(notes) + sum(notes)


@pytest.mark.parametrize("name", ["new", "a/policy/of/a/long/name.py:function"])
def test_rows_are_not_broken_by_a_long_name(name):
    one = {"level": 0.05, "value": -13.54, "low": None, "high": -4.811, "logged": -13.74}
    shown = {"target": name, "quantiles": [one], "cvar": one, "reliable": True, "comparable": True}
    estimates = [{"target": name}, {"target": "other"}]
    lines = distribution_lines({"distributions": [shown], "estimates": estimates})
    table = [line.text for line in lines if "none, since" not in line.text]
    assert sum(line.endswith("−13.74") for line in table) == 2
    assert max(map(len, table)) <= 79
    assert [line for line in table if "target" in line and "95% CI" in line and "logged" in line]


def test_notes():
    assert distribution_note({"reliable": True, "comparable": True}) == ""
    note = distribution_note({"reliable": False, "comparable": False, "ess": 3.2})
    assert note.startswith("unreliable: a few importance weights dominate (ESS 3); episodes were")


@pytest.mark.parametrize("n", [200, 300, 600])
def test_ten_of_the_worst_returns_are_enough_whatever_the_rounding(n):
    returns = np.sort(np.random.default_rng(n).normal(size=n))
    own, costs = (SortedReturns(one, np.full(n, 1.0 / n)) for one in (returns, -returns[::-1]))
    assert np.isfinite([*own.cvar(10 / n, costs=False), *costs.cvar(10 / n, costs=True)]).all()
    assert own.cvar(9 / n, costs=False)[1] == -np.inf


def ends_by_hand(g, w, level):
    """The quantile interval of Woodruff, one episode at a time; F with ≤ or <, the wider."""
    order = sorted(range(len(g)), key=lambda i: g[i])

    def quantile(at):
        total = 0.0
        for i in order:
            total += w[i]
            if total >= at * (1 - 1e-12):
                return g[i]
        return g[order[-1]]

    value, errors = quantile(level), []
    for inside in ([x <= value for x in g], [x < value for x in g]):
        share = sum(weight for weight, is_in in zip(w, inside, strict=True) if is_in)
        errors.append(
            sum((weight * (is_in - share)) ** 2 for weight, is_in in zip(w, inside, strict=True))
        )
    width = stats.t.ppf(0.975, len(g) - 1) * max(errors) ** 0.5
    low, high = level - width, level + width
    return (
        value, quantile(low) if low > 0 else -np.inf, quantile(high) if high < 1 else np.inf
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [12, 40, 90])
def test_intervals_are_those_of_plain_sums(n, seed):
    rng = np.random.default_rng(seed)
    g, w = np.sort(rng.normal(size=n).round(1)), rng.exponential(size=n)
    own = SortedReturns(g, w / w.sum())
    w = (w / w.sum()).tolist()
    for level in (0.05, 0.2, 0.5, 0.9):
        expected = ends_by_hand(g.tolist(), w, level)
        assert (own.quantile(level), *own.quantile_ends(level)) == expected
    for tail, costs in ((0.05, False), (0.3, False), (0.4, True)):
        level = 1 - tail if costs else tail
        at, low, high = ends_by_hand(g.tolist(), w, level)
        worse = [max(x - at, 0) if costs else max(at - x, 0) for x in g]
        terms = [at + extra / tail if costs else at - extra / tail for extra in worse]
        value = sum(weight * term for weight, term in zip(w, terms, strict=True))
        square = sum((weight * (term - value)) ** 2 for weight, term in zip(w, terms, strict=True))
        width = stats.t.ppf(0.975, n - 1) * (square * n / (n - 1)) ** 0.5
        worst = [weight for weight, x in zip(w, g, strict=True) if (x >= at if costs else x <= at)]
        if sum(worst) ** 2 >= 10 * sum(weight**2 for weight in worst):
            expected = (value, value - width, value + width)
        else:
            expected = (value, low, np.inf) if costs else (value, -np.inf, high)
        assert own.cvar(tail, costs) == pytest.approx(expected, rel=1e-9)


def test_without_weight_there_are_no_quantiles():
    none = SortedReturns(np.arange(3.0), np.full(3, np.nan))
    assert np.isnan(none.quantile(0.5))
    assert SortedReturns(np.array([3.0]), np.ones(1)).quantile(0.5) == 3.0


def test_the_largest_return_ends_all_quantiles_whatever_the_rounding():
    short = SortedReturns(np.array([1.0, 2.0]), np.array([0.5, 0.5 - 1e-9]))
    assert [short.quantile(level) for level in (0.5, 0.6, 1.0)] == [1.0, 2.0, 2.0]


def test_what_is_shown_by_default():
    """The median and two pairs of quantiles, the worst twentieth, and a curve in percents."""
    (shown,) = return_distributions([weighted(draw(40, 0))], lower_is_better=False).values()
    assert [one.level for one in shown.quantiles] == [0.05, 0.25, 0.5, 0.75, 0.95]
    assert shown.cvar.level == 0.05
    assert [round(100 * level) for level, *_ in shown.curve] == list(range(1, 100))
    assert all(0.0 < level < 1.0 for level, *_ in shown.curve)
    with pytest.raises(InvalidParameter, match=r"between 0 and 1, got 1\.0"):
        return_distribution(weighted(draw(20, 0)), levels=(1.0,))
