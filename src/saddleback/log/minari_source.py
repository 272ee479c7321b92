"""The episodes of a Minari dataset as a source of rows.

Minari has no field for propensities, so they are stored in the infos, which have one row more than
there are actions: T + 1 for T steps, like the observations. Two alignments are in use,

    "t"      the probability of action t is in row t        (infos written by hand, [:-1])
    "t+1"    the probability of action t is in row t + 1    (infos that env.step returns, [1:])

and reading the wrong one gives wrong results without an error. So the alignment is tested: by a row
at either end that is not a probability, or against a behaviour policy. Otherwise it must be given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from saddleback._typing import FloatArray
from saddleback.errors import Fix, InvalidParameter
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.policy_query import query_policy
from saddleback.log.row_source import BATCH, RowSource, log_table
from saddleback.policies import Policy

KEYS = ("behavior_prob", "behavior_probs")
"""Infos in which `to_minari` stores μ of the logged action, and of all actions, aligned "t"."""

AGREE = 1e-5
"""Largest difference at which a propensity agrees with μ; infos may have single precision."""

Align = Literal["auto", "t", "t+1"]


class Episode:
    """An episode with T steps, T + 1 observations, and the propensities in its infos."""

    def __init__(self, episode: Any, n_actions: int, first: int, key: str | None) -> None:
        self.id = int(episode.id)
        self.rewards = np.asarray(episode.rewards, dtype=np.float64)
        steps = len(self.rewards)
        self.observations = _flatten(episode.observations)
        self.actions = (
            np.asarray(episode.actions, dtype=np.int64).reshape(steps) - first
            if n_actions
            else np.asarray(episode.actions, dtype=np.float64).reshape(steps, -1)
        )
        self.terminated = np.asarray(episode.terminations, dtype=np.bool_)
        self.truncated = np.asarray(episode.truncations, dtype=np.bool_)
        if len(self.observations) != steps + 1:
            raise InvalidParameter(
                f"from_minari: episode {self.id} has {steps} steps and "
                f"{len(self.observations)} observations; expected {steps + 1} observations."
            )
        infos = episode.infos or {}
        if key is not None and key not in infos:
            available = ", ".join(infos) or "none"
            raise InvalidParameter(
                f"from_minari: episode {self.id} has no infos {key!r}. Available: {available}."
            )
        self.propensities: dict[str, FloatArray] = {}
        for name in KEYS if key is None else (key,):
            if name in infos:
                self.propensities[name] = self._check_shape(name, infos[name], n_actions)

    def _check_shape(self, name: str, info: Any, n_actions: int) -> FloatArray:
        values = np.asarray(info, dtype=np.float64)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        tables = n_actions and values.ndim == 2 and values.shape[1] == n_actions
        if not (values.ndim == 1 or tables) or len(values) != len(self.observations):
            both = f", or [{len(self.observations)}, {n_actions}] for all actions" * bool(n_actions)
            raise InvalidParameter(
                f"from_minari: infos {name!r} of episode {self.id} has shape {list(values.shape)}; "
                f"expected [{len(self.observations)}] for the logged action{both}."
            )
        return values

    def taken(self, shift: int) -> FloatArray:
        """Return μ of the logged actions if that of action t is in row t + shift."""
        rows = slice(shift, shift + len(self.rewards))
        for values in self.propensities.values():
            if values.ndim == 1:
                return values[rows]
        (table,) = self.propensities.values()
        return np.asarray(table[rows][np.arange(len(self.rewards)), self.actions])


def _flatten(observations: Any) -> FloatArray:
    """Return observations [T + 1, d]; the entries of dicts and tuples are concatenated."""
    if isinstance(observations, dict):
        return np.hstack([_flatten(entry) for entry in observations.values()])
    if isinstance(observations, tuple):
        return np.hstack([_flatten(entry) for entry in observations])
    try:
        array = np.asarray(observations, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter("from_minari: observations must be numbers.") from None
    return array.reshape(len(array), -1)


@dataclass(frozen=True, eq=False)
class MinariSource(RowSource):
    """The episodes of a Minari dataset, read in batches."""

    kind = "a Minari dataset"
    dataset: Any = None
    # Its actions, first_action, first_action + 1, …; 0 actions if they are continuous.
    n_actions: int = 0
    first_action: int = 0
    # Key of the infos with the probabilities, or None for the usual ones.
    prob_key: str | None = None
    # 0 if the probability of action t is in row t of the infos, 1 if in row t + 1; None if there
    # are none.
    shift: int | None = None
    has_tables: bool = False  # whether the infos have the probabilities of all actions

    def episodes(self) -> Iterator[Episode]:
        """Return the episodes that have steps."""
        for data in self.dataset.iterate_episodes():
            episode = Episode(data, self.n_actions, self.first_action, self.prob_key)
            if len(episode.rewards):
                yield episode

    def tables(self) -> Iterator[Any]:
        """Return tables of complete episodes."""
        parts: list[dict[str, Any]] = []
        rows = 0
        for episode in self.episodes():
            columns = _columns(episode)
            if self.shift is not None:
                columns |= _propensity_columns(episode, self.shift, self.has_tables)
            parts.append(columns)
            rows += len(episode.rewards)
            if rows >= BATCH:
                yield _joined(parts)
                parts, rows = [], 0
        if parts:
            yield _joined(parts)

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        for table in self.tables():
            yield from table.select(list(columns)).to_batches()


def _joined(parts: list[dict[str, Any]]) -> Any:
    """Return the columns of several episodes as a table."""
    return log_table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def _columns(episode: Episode) -> dict[str, Any]:
    """Return the columns of an episode, except propensities."""
    steps = len(episode.rewards)
    truncated = np.zeros(steps, dtype=np.bool_)
    truncated[-1] = not episode.terminated[-1]
    return {
        "episode_id": np.full(steps, episode.id), "step": np.arange(steps),
        "obs": episode.observations[:-1], "action": episode.actions, "reward": episode.rewards,
        "terminated": episode.terminated, "truncated": episode.truncated,
        "next_obs": np.where(truncated[:, None], episode.observations[1:], np.nan),
    }  # fmt: skip


class Alignment:
    """Collects evidence of which row of the infos has the probability of action t."""

    def __init__(self, behaviour: Policy | None, n_actions: int) -> None:
        self._behaviour, self._n_actions = behaviour, n_actions
        self.keys: set[str] = set()
        self.has_tables = True
        self._legal, self._agree, self._steps = [True, True], np.zeros(2), 0

    def add(self, episode: Episode) -> None:
        """Add the next episode."""
        self.keys |= set(episode.propensities)
        self.has_tables &= any(values.ndim == 2 for values in episode.propensities.values())
        if not episode.propensities:
            return
        taken = [episode.taken(shift) for shift in (0, 1)]
        for shift, p in enumerate(taken):
            largest = 1 + AGREE if self._n_actions else np.inf  # of a density
            self._legal[shift] &= bool(np.all((p > 0) & (p <= largest)))
        if self._behaviour is not None:
            states, n = episode.observations[:-1], len(episode.rewards)
            mu = query_policy("behaviour", self._behaviour, states, self._n_actions)
            expected = mu[np.arange(n), episode.actions]
            self._agree += [int((np.abs(p - expected) <= AGREE).sum()) for p in taken]
            self._steps += n

    def shift(self, align: Align, key: str) -> int:
        """Return 0 if the probability of action t is in row t of the infos, 1 if in row t + 1."""
        if align != "auto":
            return 0 if align == "t" else 1
        if self._legal[0] != self._legal[1]:
            return 0 if self._legal[0] else 1
        if self._behaviour is None:
            raise InvalidParameter(
                f"from_minari: infos {key!r} has one row more than there are actions, and both "
                'alignments are possible. Set prob_align="t" (action t is in row t, infos written '
                'by hand) or prob_align="t+1" (row t+1, infos from env.step), or pass '
                "behaviour=function to determine it."
            )
        share = self._agree / self._steps
        row = "t+1" if share[1] > share[0] else "t"
        if share.max() < 0.99:
            raise LogError(
                Finding(
                    "E151",
                    f"infos {key!r} agrees with the behaviour policy neither in row t "
                    f"({share[0]:.1%} of steps) nor in row t+1 ({share[1]:.1%}). Check the policy "
                    "and the key.",
                    Fix("Or take the more likely row", "prob_align", row, f'prob_align="{row}"')
                    if share.max() > 0.5
                    else None,
                )
            )
        return int(share.argmax())


def _propensity_columns(episode: Episode, shift: int, tables: bool) -> dict[str, FloatArray]:
    """Return the propensities of an episode, and those of all actions if there are ``tables``."""
    columns = {"behavior_prob": episode.taken(shift)}
    if not tables:
        return columns
    steps = len(episode.rewards)
    table = next(values for values in episode.propensities.values() if values.ndim == 2)
    columns["mu"] = table[shift : shift + steps]
    if shift == 0:  # the row after the last action is μ of the last observation, if it is known
        columns["next_mu"] = np.full_like(columns["mu"], np.nan)
        if abs(table[-1].sum() - 1.0) <= AGREE:
            columns["next_mu"][-1] = table[-1]
    return columns
