"""Minari datasets in and out, and where they keep propensities.

Minari has no field for them, so they travel among the infos, which have a row more than there are
actions: T + 1 for T steps, like the observations. Whoever wrote them chose one of two places,

    "t"      the probability of action t is in row t        (infos made by hand, [:-1])
    "t+1"    the probability of action t is in row t + 1    (infos that env.step returns, [1:])

and reading the other one is wrong without a sign. So the place is tested: a row that is no
probability at one end gives it away, a supplied behaviour policy does, or it must be named.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from saddleback import _registry
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.log import Log
from saddleback.log.policy_query import ask
from saddleback.policies import Policy

KEYS = ("behavior_prob", "behavior_probs")
"""Where `to_minari` keeps μ of the action taken, and of all actions; the place is "t"."""

STAMP = "saddleback_estimated"
"""Key of the metadata that says how propensities were estimated."""

AGREE = 1e-5
"""How near a propensity must be to μ to count as the same; infos may be of single precision."""

Align = Literal["auto", "t", "t+1"]


def from_minari(
    dataset: Any,
    prob_key: str | None = None,
    prob_align: Align = "auto",
    behaviour: Policy | None = None,
) -> Log:
    """Return a Minari dataset as a log.

    Parameters
    ----------
    dataset
        A ``MinariDataset``, or the id of one that is on this machine.
    prob_key
        Key of the infos that hold the probabilities: of the action taken, or of all actions. If it
        is not given, ``"behavior_prob"`` and ``"behavior_probs"`` are looked for.
    prob_align
        Row of the infos that belongs to action t: ``"t"`` or ``"t+1"``; ``"auto"`` finds out,
        or asks.
    behaviour
        μ as a function from observations [n, d] to probabilities [n, K]: to find the place of the
        propensities, and to take their place where there are none.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> from saddleback import collect, problems
    >>> from saddleback.log import to_minari
    >>> log = collect(problems.mountain_car(), episodes=3, rng=0)
    >>> with (
    ...     tempfile.TemporaryDirectory() as folder,
    ...     patch.dict(os.environ, {"MINARI_DATASETS_PATH": folder}),
    ... ):
    ...     dataset = to_minari(log, "car/pump-v0", author="us", author_email="us@example.org")
    ...     print(from_minari("car/pump-v0", prob_align="t"))
    Log(rows=448, observation=2, actions=3)
    """
    minari = the_library("from_minari")
    _registry.check_name("prob_align", prob_align, ("auto", "t", "t+1"))
    try:
        found = minari.load_dataset(dataset) if isinstance(dataset, str) else dataset
    except FileNotFoundError:
        there = ", ".join(minari.list_local_datasets()) or "none"
        raise InvalidParameter(
            f"from_minari: no dataset {dataset!r} on this machine. There are: {there}."
        ) from None
    except ImportError as error:
        raise InvalidParameter(f"from_minari: {error} {INSTALL}") from None
    if not hasattr(found, "iterate_episodes"):
        raise InvalidParameter(
            "from_minari: a MinariDataset or the id of one is wanted, got "
            f"{type(dataset).__name__}."
        )
    space = found.action_space
    if not (hasattr(space, "n") and hasattr(space, "start")):
        raise InvalidParameter(
            f"from_minari: actions must be Discrete, got {space!r}; continuous actions are not "
            "supported."
        )
    count, first = int(space.n), int(space.start)
    episodes = [_Episode(each, count, first, prob_key) for each in found.iterate_episodes()]
    episodes = [each for each in episodes if len(each.rewards)]
    if not episodes:
        raise LogError([Finding("E193", f"the log is empty: {found.id} has no steps.")])
    keys = {key for each in episodes for key in each.given}
    table = {name: np.concatenate(parts) for name, parts in _columns(episodes).items()}
    if keys:
        shift = _place(episodes, prob_align, behaviour, count, prob_key or min(keys))
        table |= _propensities(episodes, shift)
    stamp = found.storage.metadata.get(STAMP)
    return Log(
        pa.table({k: pa.array(v, from_pandas=k.startswith("next_")) for k, v in table.items()}),
        actions=[str(a) for a in range(count)],
        behaviour=behaviour,
        estimated=None if stamp is None else str(stamp),
    )


INSTALL = "Install what it needs: pip install 'saddleback[minari]'"


def the_library(asker: str) -> Any:
    """Return Minari, or say how to get it."""
    try:
        import minari
        import minari.data_collector
    except ImportError:
        raise InvalidParameter(f"{asker} needs Minari: pip install 'saddleback[minari]'") from None
    return minari


class _Episode:
    """An episode with T steps, T + 1 observations, and what its infos say of propensities."""

    def __init__(self, episode: Any, n_actions: int, first: int, key: str | None) -> None:
        self.id = int(episode.id)
        self.rewards = np.asarray(episode.rewards, dtype=np.float64)
        steps = len(self.rewards)
        self.observations = _flat(episode.observations)
        self.actions = np.asarray(episode.actions, dtype=np.int64).reshape(steps) - first
        self.terminated = np.asarray(episode.terminations, dtype=np.bool_)
        self.truncated = np.asarray(episode.truncations, dtype=np.bool_)
        if len(self.observations) != steps + 1:
            raise InvalidParameter(
                f"from_minari: episode {self.id} has {steps} steps and "
                f"{len(self.observations)} observations; there must be one more than steps."
            )
        infos = episode.infos or {}
        if key is not None and key not in infos:
            there = ", ".join(infos) or "none"
            raise InvalidParameter(
                f"from_minari: no infos {key!r} in episode {self.id}; there are: {there}."
            )
        self.given: dict[str, FloatArray] = {}
        for name in KEYS if key is None else (key,):
            if name in infos:
                self.given[name] = self._checked(name, infos[name], n_actions)

    def _checked(self, name: str, given: Any, n_actions: int) -> FloatArray:
        found = np.asarray(given, dtype=np.float64)
        if found.ndim == 2 and found.shape[1] == 1:
            found = found[:, 0]
        fits = found.ndim == 1 or (found.ndim == 2 and found.shape[1] == n_actions)
        if not fits or len(found) != len(self.observations):
            raise InvalidParameter(
                f"from_minari: infos {name!r} of episode {self.id} has shape {list(found.shape)}; "
                f"wanted [{len(self.observations)}] for the action taken, or "
                f"[{len(self.observations)}, {n_actions}] for all actions."
            )
        return found

    def taken(self, shift: int) -> FloatArray:
        """Return μ of the actions taken if that of action t is in row t + shift."""
        rows = slice(shift, shift + len(self.rewards))
        for each in self.given.values():
            if each.ndim == 1:
                return each[rows]
        (each,) = self.given.values()
        return np.asarray(each[rows][np.arange(len(self.rewards)), self.actions])


def _flat(given: Any) -> FloatArray:
    """Return observations [T + 1, d], entries of dicts and tuples one after the other."""
    if isinstance(given, dict):
        return np.hstack([_flat(each) for each in given.values()])
    if isinstance(given, tuple):
        return np.hstack([_flat(each) for each in given])
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter("from_minari: observations must be numbers.") from None
    return found.reshape(len(found), -1)


def _columns(episodes: list[_Episode]) -> dict[str, list[Any]]:
    """Return the columns of a log but for propensities, in parts."""
    found: dict[str, list[Any]] = {}
    for each in episodes:
        steps = len(each.rewards)
        cut = np.zeros(steps, dtype=np.bool_)
        cut[-1] = not each.terminated[-1]
        columns: dict[str, Any] = {"episode_id": np.full(steps, each.id), "step": np.arange(steps)}
        columns |= {f"obs_{j}": x for j, x in enumerate(each.observations[:-1].T)}
        columns |= {
            "action": each.actions, "reward": each.rewards, "terminated": each.terminated,
            "truncated": each.truncated,
        }  # fmt: skip
        for j, x in enumerate(each.observations[1:].T):
            columns[f"next_obs_{j}"] = np.where(cut, x, np.nan)
        for name, part in columns.items():
            found.setdefault(name, []).append(part)
    return found


def _place(
    episodes: list[_Episode], align: Align, behaviour: Policy | None, n_actions: int, key: str
) -> int:
    """Return 0 if the probability of action t is in row t of the infos, 1 if in row t + 1."""
    if align != "auto":
        return 0 if align == "t" else 1
    legal = [
        all(bool(np.all((p > 0) & (p <= 1 + AGREE))) for p in (e.taken(shift) for e in episodes))
        for shift in (0, 1)
    ]
    if legal[0] != legal[1]:
        return 0 if legal[0] else 1
    if behaviour is None:
        raise InvalidParameter(
            f"from_minari: infos {key!r} has a row more than there are actions, and both ways to "
            'read it are possible. Say where the probability of action t is: prob_align="t" '
            '(row t, infos made by hand) or prob_align="t+1" (row t+1, infos that env.step '
            "returned); or give the behaviour policy to find out: behaviour=function."
        )
    agree, steps = np.zeros(2), 0
    for each in episodes:
        n = len(each.rewards)
        mu = ask("behaviour", behaviour, each.observations[:-1], n_actions)
        own = mu[np.arange(n), each.actions]
        for shift in (0, 1):
            agree[shift] += int((np.abs(each.taken(shift) - own) <= AGREE).sum())
        steps += n
    share = agree / steps
    if share.max() < 0.99:
        raise LogError(
            [
                Finding(
                    "E151",
                    f"infos {key!r} matches your behaviour policy neither in row t ({share[0]:.1%} "
                    f"of steps) nor in row t+1 ({share[1]:.1%}). Check the policy and the key, or "
                    'say where it is: prob_align="t" or "t+1".',
                )
            ]
        )
    return int(share.argmax())


def _propensities(episodes: list[_Episode], shift: int) -> dict[str, FloatArray]:
    found = {"behavior_prob": np.concatenate([each.taken(shift) for each in episodes])}
    tables = [[p for p in each.given.values() if p.ndim == 2] for each in episodes]
    if not all(tables):
        return found
    for a in range(tables[0][0].shape[1]):
        rows = [
            each[0][shift : shift + len(e.rewards), a]
            for each, e in zip(tables, episodes, strict=True)
        ]
        found[f"mu_{a}"] = np.concatenate(rows)
    if shift == 0:  # the row after the last action is μ of the last observation, if it is known
        for a in range(tables[0][0].shape[1]):
            last = [
                np.append(np.full(len(e.rewards) - 1, np.nan), _known(each[0][-1])[a])
                for each, e in zip(tables, episodes, strict=True)
            ]
            found[f"next_mu_{a}"] = np.concatenate(last)
    return found


def _known(row: FloatArray) -> FloatArray:
    """Return a row of probabilities, NaN if it is none."""
    return row if abs(row.sum() - 1.0) <= AGREE else np.full_like(row, np.nan)
