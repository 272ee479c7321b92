"""Values far outside all others are found, with their rows; legitimate extremes are not."""

import re

import numpy as np
import pytest

import saddleback as sb
from helpers.logs import columns
from saddleback.log.outliers import CODES

N, T = 300, 10
ROWS = N * T


def data(seed=0, **changes):
    """Return a log of 300 episodes of 10 steps, with propensities of the taken actions only."""
    kept = columns([T] * N, "terminated", seed=seed)
    return {name: values for name, values in kept.items() if "mu" not in name} | changes


def with_values(name, rows, value, given=None):
    given = data() if given is None else given
    changed = given[name].astype(float)
    changed[rows] = value
    return given | {name: changed}


def outliers_of(given, **options):
    """Return the warnings about outliers, and the number of rows that count."""
    summary = sb.Log(given, **options).summary()
    warnings = [str(one) for one in summary.findings if one.code == "W155"]
    return warnings, summary.altered.outlying


def test_a_code_for_missing_values_is_named_with_its_rows():
    given = with_values("reward", [21, 22, 37], -9999)
    low, high = (f(np.delete(given["reward"], [21, 22, 37])) for f in (np.min, np.max))
    assert outliers_of(given) == (
        [
            "W155 reward is -9999 in 3 rows (episode 12 steps 1, 2; episode 13 step 7), and from "
            f"{low:.6g} to {high:.6g} in all others: probably a code for missing values."
        ],
        3,
    )


@pytest.mark.parametrize(
    ("name", "value", "rows"),
    [
        ("reward", -9999.0, 1), ("reward", 999.0, 2), ("reward", -99.0, 5), ("reward", -3.5e33, 1),
        ("reward", 1e20, 40), ("reward", 2.0**31 - 1, 3), ("reward", 1234.0, 1),
        ("reward", -54321.0, 7), ("obs_1", -9999.0, ROWS // 2), ("obs_0", 99999.0, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("segment", [7, 1 << 16])
def test_outliers_are_found(name, value, rows, segment):
    where = np.random.default_rng(1).choice(ROWS, rows, replace=False)
    warnings, count = outliers_of(with_values(name, where, value), segment=segment)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"W155 {name} is {value:.6g} in {rows:,} row")
    assert count == (rows if name == "reward" else min(rows, ROWS // 100))


def test_two_codes_and_two_corrupted_numbers_are_found():
    given = with_values("reward", [5], -9999, with_values("reward", [6, 7], 999))
    assert len(outliers_of(given)[0]) == 2
    assert len(outliers_of(with_values("reward", [6, 7], [-2e33, -3e33]))[0]) == 1


@pytest.mark.parametrize("segment", [7, 1 << 16])
def test_slips_of_a_unit_are_found_together(segment):
    """None of them is far from the next one, but they decide about every mean."""
    rewards = data()["reward"]
    rows = np.random.default_rng(1).choice(np.flatnonzero(~LAST), 8, replace=False)
    given = with_values("reward", rows, 1000.0 * rewards[rows])
    (warning,), count = outliers_of(given, segment=segment)
    largest = given["reward"][np.argmax(np.abs(given["reward"]))]
    assert re.match(
        rf"W155 reward: {count} of 3,000 rows make up \d\d% of the sum of sizes, above all 1 row "
        rf"\(episode \d+ step \d+\) with {largest:.6g}: probably an error\.$", warning
    )  # fmt: skip
    assert 6 <= count <= 8


def test_large_rewards_that_are_equal_or_at_the_end_are_no_slips():
    rng = np.random.default_rng(1)
    rare = rng.choice(np.flatnonzero(~LAST), 8, replace=False)
    assert outliers_of(with_values("reward", rare, 700.0)) == ([], 0)
    last = rng.choice(np.flatnonzero(LAST), 8, replace=False)
    assert outliers_of(with_values("reward", last, rng.uniform(200, 900, 8))) == ([], 0)


def test_an_absurd_reward_for_missing_ones_is_found():
    given = with_values("reward", [21, 22, 37], np.nan)
    assert outliers_of(given, fill_reward=0) == ([], 0)
    (warning,), count = outliers_of(given, fill_reward=50)
    assert warning.startswith("W155 reward is 50 in 3 rows (episode 12 steps 1, 2; episode 13 st")
    assert count == 3
    at_end = with_values("reward", ~LAST, np.nan) | {"episode_id": data()["episode_id"]}
    at_end["reward"][LAST] += 100
    assert outliers_of(at_end, fill_reward=0) == ([], 0)


def test_an_improbable_propensity_is_found():
    warnings, count = outliers_of(with_values("behavior_prob", [12], 1e-9))
    assert warnings == [
        "W155 behavior_prob is 1e-09 in 1 row (episode 11 step 2): actions of that probability are "
        "hardly ever taken in 3,000 rows."
    ]
    assert count == 1
    assert outliers_of(with_values("behavior_prob", [12, 13], 1e-4)) == ([], 0)


RNG = np.random.default_rng(2)
LAST = data()["terminated"]
SUCCESS = np.repeat(RNG.random(N) < 0.1, T)
LEGITIMATE = {
    "+1 at the end": LAST * SUCCESS * 1.0,
    "+1 at one end": (np.arange(ROWS) == ROWS - 1) * 1.0,
    "+100 at the end": np.where(LAST & SUCCESS, 100.0, -0.1 * RNG.random(ROWS) ** 2),
    "-1 a step, then 0": np.where(LAST, 0.0, -1.0),
    "-1 a step, 20 at the end, -10 rarely": np.where(
        LAST, 20.0, np.where(RNG.random(ROWS) < 0.01, -10.0, -1.0)
    ),
    "-100 for a crash": np.where(RNG.random(ROWS) < 0.002, -100.0, RNG.random(ROWS)),
    "constant": np.ones(ROWS),
    "counts": RNG.poisson(0.01, ROWS) * 1.0,
    "states 0 to 999": RNG.integers(0, 1000, ROWS) * 1.0,
    "large": 1e9 + RNG.normal(size=ROWS),
    "exponential": RNG.exponential(size=ROWS),
    "lognormal, 1": RNG.lognormal(0.0, 1.0, ROWS),
    "lognormal, 2": RNG.lognormal(0.0, 2.0, ROWS),
    "Student, 2": RNG.standard_t(2, ROWS),
    "Pareto, 1.5": RNG.pareto(1.5, ROWS),
}


@pytest.mark.parametrize("kind", LEGITIMATE)
def test_legitimate_extremes_are_not_outliers(kind):
    assert outliers_of(data(reward=LEGITIMATE[kind])) == ([], 0)
    assert outliers_of(data(obs_0=LEGITIMATE[kind])) == ([], 0)
    assert outliers_of(data(reward=-LEGITIMATE[kind])) == ([], 0)


@pytest.mark.statistical
@pytest.mark.parametrize("draw", ["standard_t", "pareto", "lognormal"])
def test_heavy_tails_are_seldom_outliers(draw):
    parameter = {"standard_t": (2,), "pareto": (2,), "lognormal": (0, 2)}[draw]
    rng, given = np.random.default_rng(3), data()
    alarms = sum(
        bool(outliers_of(given | {"reward": getattr(rng, draw)(*parameter, ROWS)})[0])
        for _ in range(60)
    )
    assert alarms <= 1


def test_propensities_of_a_greedy_policy_are_not_improbable():
    rng = np.random.default_rng(4)
    explore = rng.random(ROWS) < 0.003
    given = data(behavior_prob=np.where(explore, 0.001, 0.998))
    assert outliers_of(given) == ([], 0)


def test_codes_are_those_in_use():
    assert {-99, 999, -999, -9999, 9999, 99999, -32768, 2147483647} <= CODES
    assert not CODES & {0, 1, -1, 99, 100, -100, 1000, -1000}


def test_a_name_with_braces():
    given = {name: values for name, values in data().items() if "next" not in name}
    given["x{0}"] = with_values("obs_0", [1], 1e30)["obs_0"]
    (warning,), _ = outliers_of(given, observations=["x{0}", "obs_1"])
    assert warning.startswith("W155 x{0} is 1e+30 in 1 row")
