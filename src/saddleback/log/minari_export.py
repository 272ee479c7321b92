"""A log as a Minari dataset."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from saddleback.errors import InvalidParameter
from saddleback.log.log import Log
from saddleback.log.minari_import import INSTALL, KEYS, STAMP, the_library


def to_minari(log: Log, dataset_id: str, *, data_format: str | None = None, **about: Any) -> Any:
    """Write a log as a Minari dataset and return that.

    The next observation of a terminated episode is not in a log, and not needed; the last one is
    repeated in its place. Where a truncated episode does not say what was observed next, its last
    row becomes that observation. Propensities are among the infos, ``"behavior_prob"`` (and
    ``"behavior_probs"`` if all of μ is known), each in the row of its action.

    Parameters
    ----------
    log
        The log.
    dataset_id
        Such as ``"clinic/visits-v0"``.
    data_format
        "hdf5", "arrow" or "parquet"; Minari's own choice if not given.
    about
        What Minari is to note: author, description, env, …

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
    minari = the_library("to_minari")
    import gymnasium

    box = gymnasium.spaces.Box(-np.inf, np.inf, (log.dimensions,), np.float64)
    # Minari 0.5 cannot read infos of one dimension back from these formats.
    column = data_format in ("arrow", "parquet")
    buffers = []
    for i, each in enumerate(_episodes(log)):
        if column and KEYS[0] in each["infos"]:
            each["infos"][KEYS[0]] = each["infos"][KEYS[0]][:, None]
        buffers.append(minari.data_collector.EpisodeBuffer(id=i, **each))
    if not buffers:
        raise InvalidParameter("to_minari: the log has no transition that can be used.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what might be noted besides
            written = minari.create_dataset_from_buffers(
                dataset_id, buffers, action_space=gymnasium.spaces.Discrete(log.n_actions),
                observation_space=box, data_format=data_format, **about,
            )  # fmt: skip
    except ImportError as error:
        raise InvalidParameter(f"to_minari: {error} {INSTALL}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidParameter(f"to_minari: {error}") from error
    if log.estimated:
        written.storage.update_metadata({STAMP: log.estimated})
    return written


def _episodes(log: Log) -> Iterator[dict[str, Any]]:
    """Return the usable transitions of each episode as Minari wants them."""
    held: list[tuple[Any, ...]] = []
    for piece in log.segments():
        rows = piece.rows
        used = np.zeros(len(rows), dtype=np.bool_)
        used[piece.index] = True
        after = np.zeros(len(rows), dtype=np.int64)
        after[piece.index] = piece.next_states
        over = np.zeros(len(rows), dtype=np.bool_)
        over[piece.index] = ~piece.continues
        first = np.flatnonzero(rows.starts)
        bounds = np.append(first if rows.starts[0] else np.append(0, first), len(rows))
        mu = piece.tables.get("mu")
        for i, (begin, end) in enumerate(pairwise(bounds)):
            at = slice(int(begin), int(end))
            last = int(end) - 1
            where = int(after[last]) if used[last] else last
            held.append(
                (
                    rows.observations[at][used[at]], rows.actions[at][used[at]],
                    rows.rewards[at][used[at]], over[at][used[at]],
                    None if piece.propensity is None or rows.propensity is None
                    else rows.propensity[at][used[at]],
                    None if mu is None else mu[at][used[at]],
                    piece.observations[where], None if mu is None else mu[where],
                )
            )  # fmt: skip
            if piece.continues_in_next and i == len(bounds) - 2:
                continue
            yield from _buffer(held)
            held = []


def _buffer(parts: list[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
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
        following = np.full_like(parts[-1][7], np.nan) if terminated[-1] else parts[-1][7]
        infos[KEYS[1]] = np.vstack([joined(5), following])
    yield {
        "observations": np.vstack([joined(0), parts[-1][6]]),
        "actions": joined(1),
        "rewards": rewards,
        "terminations": terminated,
        "truncations": truncated,
        "infos": infos,
    }
