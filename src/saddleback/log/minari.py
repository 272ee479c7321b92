"""Minari datasets as logs and logs as Minari datasets, with the propensities in their infos."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from saddleback import _registry
from saddleback.errors import InvalidParameter
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.log import Log
from saddleback.log.minari_source import KEYS, Align, Alignment, MinariSource
from saddleback.policies import Policy

ESTIMATED_KEY = "saddleback_estimated"
"""Metadata key for how propensities were estimated."""

INSTALL_HINT = "Install it: pip install 'saddleback[minari]'"


def from_minari(
    dataset: Any,
    prob_key: str | None = None,
    prob_align: Align = "auto",
    behaviour: Policy | None = None,
) -> Log:
    """Return a Minari dataset of discrete or continuous actions as a log that reads it in batches.

    Parameters
    ----------
    dataset
        A ``MinariDataset``, or the id of a local one.
    prob_key
        Key of the infos with the probabilities, either of the logged action or of all actions, or
        with the density of a continuous action. By default ``"behavior_prob"`` and
        ``"behavior_probs"``.
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
    continuous = hasattr(space, "low") and np.issubdtype(space.dtype, np.floating)
    if not (continuous or (hasattr(space, "n") and hasattr(space, "start"))):
        raise InvalidParameter(
            f"from_minari: actions must be Discrete, or a Box of floats, got {space!r}."
        )
    if continuous and behaviour is not None:
        raise InvalidParameter(
            "from_minari: behaviour gives probabilities, but the dataset has continuous actions. "
            'Set prob_align="t" or "t+1" instead.'
        )
    n_actions, first = (0, 0) if continuous else (int(space.n), int(space.start))
    source = MinariSource(f"dataset {loaded.id}", 0, None, (), loaded, n_actions, first, prob_key)
    alignment = Alignment(behaviour, n_actions)
    rows = 0
    for episode in source.episodes():
        rows += len(episode.rewards)
        alignment.add(episode)
    if not rows:
        raise LogError(Finding("E193", f"the log is empty: {loaded.id} has no steps."))
    if alignment.keys:
        shift = alignment.shift(prob_align, prob_key or min(alignment.keys))
        source = replace(source, shift=shift, has_tables=alignment.has_tables)
    source = replace(source, rows=rows, schema=next(source.tables()).schema)
    estimated = loaded.storage.metadata.get(ESTIMATED_KEY)
    return Log(
        source,
        actions=None if continuous else [str(a) for a in range(n_actions)],
        behaviour=behaviour,
        estimated=None if estimated is None else str(estimated),
    )


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
    actions: Any = gymnasium.spaces.Discrete(max(1, log.n_actions))
    if log.has_continuous_actions:
        actions = gymnasium.spaces.Box(-np.inf, np.inf, (len(log.roles.actions),), np.float64)
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
                dataset_id, buffers, action_space=actions, observation_space=box,
                data_format=data_format, **metadata,
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
                    rows.observations[at][used[at]],
                    rows.tables.get("action", rows.actions)[at][used[at]],
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
