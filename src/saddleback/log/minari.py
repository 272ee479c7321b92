"""Minari datasets as logs and logs as Minari datasets, with the propensities in their infos.

Minari has no field for propensities, so they are stored in the infos, which have one row more than
there are actions: T + 1 for T steps, like the observations. Two alignments are in use,

    "t"      the probability of action t is in row t        (infos written by hand, [:-1])
    "t+1"    the probability of action t is in row t + 1    (infos that env.step returns, [1:])

and reading the wrong one gives wrong results without an error. So the alignment is tested: by a row
at either end that is not a probability, or against a behaviour policy. Otherwise it must be given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from saddleback import _registry
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.log import Log
from saddleback.log.policy_query import query_policy
from saddleback.policies import Policy

KEYS = ("behavior_prob", "behavior_probs")
"""Infos in which `to_minari` stores μ of the logged action, and of all actions, aligned "t"."""

ESTIMATED_KEY = "saddleback_estimated"
"""Metadata key for how propensities were estimated."""

AGREE = 1e-5
"""Largest difference at which a propensity agrees with μ; infos may have single precision."""

INSTALL_HINT = "Install it: pip install 'saddleback[minari]'"

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
        A ``MinariDataset``, or the id of a local one.
    prob_key
        Key of the infos with the probabilities, either of the logged action or of all actions. By
        default ``"behavior_prob"`` and ``"behavior_probs"``.
    prob_align
        Row of the infos that belongs to action t: ``"t"`` or ``"t+1"``; ``"auto"`` determines it,
        or raises an error if it cannot.
    behaviour
        μ as a function from observations [n, d] to probabilities [n, K]: determines the alignment
        of the propensities, or supplies them if there are none.

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
    minari = import_minari("from_minari")
    _registry.check_name("prob_align", prob_align, ("auto", "t", "t+1"))
    try:
        loaded = minari.load_dataset(dataset) if isinstance(dataset, str) else dataset
    except FileNotFoundError:
        available = ", ".join(minari.list_local_datasets()) or "none"
        raise InvalidParameter(
            f"from_minari: no local dataset {dataset!r}. Available: {available}."
        ) from None
    except ImportError as error:
        raise InvalidParameter(f"from_minari: {error} {INSTALL_HINT}") from None
    if not hasattr(loaded, "iterate_episodes"):
        raise InvalidParameter(
            f"from_minari: expected a MinariDataset or the id of one, got {type(dataset).__name__}."
        )
    space = loaded.action_space
    if not (hasattr(space, "n") and hasattr(space, "start")):
        raise InvalidParameter(
            f"from_minari: actions must be Discrete, got {space!r}; continuous actions are not "
            "supported."
        )
    n_actions, first = int(space.n), int(space.start)
    episodes = [
        _Episode(episode, n_actions, first, prob_key) for episode in loaded.iterate_episodes()
    ]
    episodes = [episode for episode in episodes if len(episode.rewards)]
    if not episodes:
        raise LogError(Finding("E193", f"the log is empty: {loaded.id} has no steps."))
    keys = {key for episode in episodes for key in episode.propensities}
    table = {name: np.concatenate(parts) for name, parts in _columns(episodes).items()}
    if keys:
        shift = _alignment(episodes, prob_align, behaviour, n_actions, prob_key or min(keys))
        table |= _propensity_columns(episodes, shift)
    estimated = loaded.storage.metadata.get(ESTIMATED_KEY)
    return Log(
        pa.table({k: pa.array(v, from_pandas=k.startswith("next_")) for k, v in table.items()}),
        actions=[str(a) for a in range(n_actions)],
        behaviour=behaviour,
        estimated=None if estimated is None else str(estimated),
    )


class _Episode:
    """An episode with T steps, T + 1 observations, and the propensities in its infos."""

    def __init__(self, episode: Any, n_actions: int, first: int, key: str | None) -> None:
        self.id = int(episode.id)
        self.rewards = np.asarray(episode.rewards, dtype=np.float64)
        steps = len(self.rewards)
        self.observations = _flatten(episode.observations)
        self.actions = np.asarray(episode.actions, dtype=np.int64).reshape(steps) - first
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
        fits = values.ndim == 1 or (values.ndim == 2 and values.shape[1] == n_actions)
        if not fits or len(values) != len(self.observations):
            raise InvalidParameter(
                f"from_minari: infos {name!r} of episode {self.id} has shape {list(values.shape)}; "
                f"expected [{len(self.observations)}] for the logged action, or "
                f"[{len(self.observations)}, {n_actions}] for all actions."
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


def _columns(episodes: list[_Episode]) -> dict[str, list[Any]]:
    """Return the columns of a log, except propensities, as one part for each episode."""
    parts: dict[str, list[Any]] = {}
    for episode in episodes:
        steps = len(episode.rewards)
        truncated = np.zeros(steps, dtype=np.bool_)
        truncated[-1] = not episode.terminated[-1]
        columns: dict[str, Any] = {
            "episode_id": np.full(steps, episode.id), "step": np.arange(steps),
        }  # fmt: skip
        columns |= {f"obs_{j}": x for j, x in enumerate(episode.observations[:-1].T)}
        columns |= {
            "action": episode.actions, "reward": episode.rewards,
            "terminated": episode.terminated, "truncated": episode.truncated,
        }  # fmt: skip
        for j, x in enumerate(episode.observations[1:].T):
            columns[f"next_obs_{j}"] = np.where(truncated, x, np.nan)
        for name, column in columns.items():
            parts.setdefault(name, []).append(column)
    return parts


def _alignment(
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
            f"from_minari: infos {key!r} has one row more than there are actions, and both "
            'alignments are possible. Set prob_align="t" (action t is in row t, infos written by '
            'hand) or prob_align="t+1" (row t+1, infos from env.step), or pass '
            "behaviour=function to determine it."
        )
    agree, steps = np.zeros(2), 0
    for episode in episodes:
        n = len(episode.rewards)
        mu = query_policy("behaviour", behaviour, episode.observations[:-1], n_actions)
        expected = mu[np.arange(n), episode.actions]
        for shift in (0, 1):
            agree[shift] += int((np.abs(episode.taken(shift) - expected) <= AGREE).sum())
        steps += n
    share = agree / steps
    if share.max() < 0.99:
        raise LogError(
            Finding(
                "E151",
                f"infos {key!r} agrees with the behaviour policy neither in row t "
                f"({share[0]:.1%} of steps) nor in row t+1 ({share[1]:.1%}). Check the policy "
                'and the key, or set prob_align="t" or "t+1".',
            )
        )
    return int(share.argmax())


def _propensity_columns(episodes: list[_Episode], shift: int) -> dict[str, FloatArray]:
    columns = {"behavior_prob": np.concatenate([episode.taken(shift) for episode in episodes])}
    tables = [[p for p in episode.propensities.values() if p.ndim == 2] for episode in episodes]
    if not all(tables):
        return columns
    for a in range(tables[0][0].shape[1]):
        rows = [
            table[shift : shift + len(episode.rewards), a]
            for (table, *_), episode in zip(tables, episodes, strict=True)
        ]
        columns[f"mu_{a}"] = np.concatenate(rows)
    if shift == 0:  # the row after the last action is μ of the last observation, if it is known
        for a in range(tables[0][0].shape[1]):
            last = [
                np.append(np.full(len(episode.rewards) - 1, np.nan), _valid_or_nan(table[-1])[a])
                for (table, *_), episode in zip(tables, episodes, strict=True)
            ]
            columns[f"next_mu_{a}"] = np.concatenate(last)
    return columns


def _valid_or_nan(row: FloatArray) -> FloatArray:
    """Return a row of probabilities, or NaN if it does not sum to 1."""
    return row if abs(row.sum() - 1.0) <= AGREE else np.full_like(row, np.nan)


def to_minari(log: Log, dataset_id: str, *, data_format: str | None = None, **metadata: Any) -> Any:
    """Write a log as a Minari dataset and return the dataset.

    A log has no next observation for terminated episodes, which do not need one; the last
    observation is repeated. If the next observation of a truncated episode is unknown, its last row
    becomes that observation. Propensities are stored in the infos, ``"behavior_prob"`` (and
    ``"behavior_probs"`` if μ is known for all actions), each in the row of its action.

    Parameters
    ----------
    log
        The log.
    dataset_id
        Such as ``"clinic/visits-v0"``.
    data_format
        "hdf5", "arrow" or "parquet"; Minari's default if not given.
    metadata
        Metadata for Minari: author, description, env, …

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> from saddleback import collect, problems
    >>> from saddleback.log import from_minari
    >>> log = collect(problems.mountain_car(), episodes=3, rng=0)
    >>> with (
    ...     tempfile.TemporaryDirectory() as folder,
    ...     patch.dict(os.environ, {"MINARI_DATASETS_PATH": folder}),
    ... ):
    ...     dataset = to_minari(log, "car/pump-v0", author="us", author_email="us@example.org")
    ...     print(dataset.total_episodes, from_minari(dataset).rows == log.rows)
    3 True
    """
    minari = import_minari("to_minari")
    import gymnasium

    box = gymnasium.spaces.Box(-np.inf, np.inf, (log.dimensions,), np.float64)
    # Minari 0.5 cannot read one-dimensional infos from these formats.
    needs_matrix = data_format in ("arrow", "parquet")
    buffers = []
    for i, episode in enumerate(_episodes(log)):
        if needs_matrix and KEYS[0] in episode["infos"]:
            episode["infos"][KEYS[0]] = episode["infos"][KEYS[0]][:, None]
        buffers.append(minari.data_collector.EpisodeBuffer(id=i, **episode))
    if not buffers:
        raise InvalidParameter("to_minari: the log has no usable transitions.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about missing optional metadata
            dataset = minari.create_dataset_from_buffers(
                dataset_id, buffers, action_space=gymnasium.spaces.Discrete(log.n_actions),
                observation_space=box, data_format=data_format, **metadata,
            )  # fmt: skip
    except ImportError as error:
        raise InvalidParameter(f"to_minari: {error} {INSTALL_HINT}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidParameter(f"to_minari: {error}") from error
    if log.estimated:
        dataset.storage.update_metadata({ESTIMATED_KEY: log.estimated})
    return dataset


def _episodes(log: Log) -> Iterator[dict[str, Any]]:
    """Return the usable transitions of each episode as arguments of a Minari buffer."""
    parts: list[tuple[Any, ...]] = []
    for segment in log.segments():
        rows = segment.rows
        used = np.zeros(len(rows), dtype=np.bool_)
        used[segment.index] = True
        next_states = np.zeros(len(rows), dtype=np.int64)
        next_states[segment.index] = segment.next_states
        terminated = np.zeros(len(rows), dtype=np.bool_)
        terminated[segment.index] = ~segment.continues
        first = np.flatnonzero(rows.starts)
        bounds = np.append(first if rows.starts[0] else np.append(0, first), len(rows))
        mu = segment.tables.get("mu")
        for i, (begin, end) in enumerate(pairwise(bounds)):
            at = slice(int(begin), int(end))
            last = int(end) - 1
            final = int(next_states[last]) if used[last] else last
            parts.append(
                (
                    rows.observations[at][used[at]], rows.actions[at][used[at]],
                    rows.rewards[at][used[at]], terminated[at][used[at]],
                    None if segment.propensity is None or rows.propensity is None
                    else rows.propensity[at][used[at]],
                    None if mu is None else mu[at][used[at]],
                    segment.observations[final], None if mu is None else mu[final],
                )
            )  # fmt: skip
            if segment.continues_in_next and i == len(bounds) - 2:
                continue
            yield from _episode_arguments(parts)
            parts = []


def _episode_arguments(parts: list[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    def joined(k: int) -> Any:
        return np.concatenate([part[k] for part in parts])

    rewards, terminated = joined(2), joined(3)
    if not len(rewards):
        return
    truncated = np.zeros(len(rewards), dtype=np.bool_)
    truncated[-1] = not terminated[-1]
    infos: dict[str, Any] = {}
    if parts[0][4] is not None:
        infos[KEYS[0]] = np.append(joined(4), np.nan)
    if parts[0][5] is not None:
        next_mu = np.full_like(parts[-1][7], np.nan) if terminated[-1] else parts[-1][7]
        infos[KEYS[1]] = np.vstack([joined(5), next_mu])
    yield {
        "observations": np.vstack([joined(0), parts[-1][6]]),
        "actions": joined(1),
        "rewards": rewards,
        "terminations": terminated,
        "truncations": truncated,
        "infos": infos,
    }


def import_minari(caller: str) -> Any:
    """Return Minari, or raise an error with the command that installs it."""
    try:
        import minari
        import minari.data_collector  # noqa: F401
    except ImportError:
        raise InvalidParameter(f"{caller} needs Minari: pip install 'saddleback[minari]'") from None
    return minari
