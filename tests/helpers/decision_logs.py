"""Small logs and policies for tests of diagnostics."""

from __future__ import annotations

import numpy as np

import saddleback as sb
from helpers.intervals import score_episodes
from saddleback.features import Custom, Fourier
from saddleback.log import BehaviourTarget
from saddleback.ope import Baseline

FOURIER = Fourier((-3.0, -3.0), (3.0, 3.0), order=1)


def target(observations):
    """A policy over three actions that depends on the observation."""
    z = np.column_stack([observations[:, 0], -observations[:, 1], np.zeros(len(observations))])
    pi = np.exp(z)
    return pi / pi.sum(axis=1, keepdims=True)


def always(*pi):
    """Return a policy with the same probabilities for every observation."""
    return lambda observations: np.tile(pi, (len(observations), 1))


def table_log(states, actions, rewards, lengths, *, ends="terminated", mu=None, seed=0, K=2):
    """Return a log of finitely many states, from consecutive rows and episode lengths."""
    n, last = len(states), np.cumsum(lengths) - 1
    is_last = np.isin(np.arange(n), last)
    data = {
        "episode_id": np.repeat(np.arange(len(lengths)), lengths),
        "obs_0": np.asarray(states, dtype=float), "action": actions,
        "reward": np.asarray(rewards, dtype=float),
        "terminated": is_last & (ends == "terminated"),
        "truncated": is_last & (ends == "truncated"),
    }  # fmt: skip
    if ends == "truncated":
        next_state = np.random.default_rng(seed).integers(0, int(np.max(states)) + 1, n)
        data["next_obs_0"] = np.where(is_last, next_state, np.nan)
    data["behavior_prob"] = np.full(n, 1.0 / K) if mu is None else mu
    return sb.Log(data, actions=[str(a) for a in range(K)])


def random_decisions(seed, *, states=5, K=2, episodes=40, **options):
    """Return a log of random decisions in finitely many states, each of which occurs."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, episodes)
    n = int(lengths.sum())
    return table_log(
        np.append(np.arange(states), rng.integers(0, states, n - states)),
        rng.integers(0, K, n), rng.normal(size=n), lengths, K=K, **options,
    )  # fmt: skip


def rare_dose_log(seed=0, n=4000, rare=0.003):
    """Return a log of patients where the high dose is rare if lactate is over 6."""
    rng = np.random.default_rng(seed)
    lactate, age = rng.gamma(3.0, 1.5, n).round(1), rng.uniform(20, 90, n).round()
    high = np.where(lactate > 6, rare, 0.5)
    dose = rng.random(n) < high
    data = {
        "episode_id": np.arange(n), "lactate": lactate, "age": age,
        "action": np.where(dose, "high", "low"), "reward": dose * lactate - age / 50,
        "terminated": np.ones(n, bool), "truncated": np.zeros(n, bool),
        "behavior_prob": np.where(dose, high, 1 - high),
    }  # fmt: skip
    return sb.Log(data, observations=["lactate", "age"], actions=["low", "high"])


CELLS = Custom(lambda x: np.eye(24)[np.clip(x[:, 0], 0, 11.9).astype(int) * 2 + (x[:, 1] > 60)], 24)


def bandit(seed, n, mu, *, full_mu):
    """Return a log of one-step episodes under a constant policy, with correct propensities."""
    rng = np.random.default_rng(seed)
    K = len(mu)
    action = rng.choice(K, p=mu, size=n)
    data = {
        "episode_id": np.arange(n), "obs_0": rng.normal(size=n), "action": action,
        "reward": rng.normal(size=n), "terminated": np.ones(n, bool),
        "truncated": np.zeros(n, bool), "behavior_prob": np.asarray(mu)[action],
    }  # fmt: skip
    if full_mu:
        data |= {f"mu_{a}": np.full(n, mu[a]) for a in range(K)}
    return sb.Log(data, actions=[str(a) for a in range(K)])


def logged_baseline(log, features, gamma, rule, blocks=20, cut=False):
    """Return the baseline of the logged policy, and the scores it was computed from."""
    behaviour = BehaviourTarget.of(log)
    statistics = sb.Statistics.of(
        log, rule, {behaviour.name: behaviour}, features=features, gamma=gamma, blocks=blocks
    )
    (scored,) = score_episodes(
        log, statistics, [behaviour], features=features, rule=rule, ridge=0.0
    )
    return Baseline.of(scored, cut), scored


def discounted_returns(log, gamma):
    """Discounted returns of terminated episodes, by a plain loop."""
    ids = np.asarray(log.data["episode_id"])
    returns = []
    for episode in dict.fromkeys(ids.tolist()):
        total = 0.0
        for reward in np.asarray(log.data["reward"])[ids == episode][::-1]:
            total = reward + gamma * total
        returns.append(total)
    return np.array(returns)
