"""HDF5 files in the layout of D4RL as sources of rows.

    observations [N, d]   actions [N]   rewards [N]   terminals [N]   timeouts [N]
    next_observations [N, d]   infos/action_log_probs [N]

An episode ends where terminals or timeouts is true. The last line is optional, and so are timeouts.
Logarithms of probabilities are those of densities if actions are continuous.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log import row_source
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.file_format import FileFormat, extension_finding
from saddleback.log.row_source import RowSource, log_table, reading

REQUIRED = ("observations", "actions", "rewards", "terminals")
LOG_PROBABILITIES = "infos/action_log_probs"
OPTIONAL = ("timeouts", "next_observations", LOG_PROBABILITIES)

DAMAGES = (AttributeError, KeyError, MemoryError, RuntimeError, TypeError, ValueError)
"""What h5py raises, besides errors of the disk, for a damaged file or another layout."""


@dataclass(frozen=True, eq=False)
class HDF5Source(RowSource):
    """An HDF5 file in the layout of D4RL."""

    kind = "HDF5"

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the rows as record batches."""
        episode = 0
        with _open(self.name) as file:
            for start in range(0, self.rows, row_source.BATCH):
                table, episode = _rows(file, slice(start, start + row_source.BATCH), episode)
                yield from table.select(list(columns)).to_batches()


def open_hdf5_source(path: str, detected: FileFormat) -> RowSource:
    """Open an HDF5 file; reads only its first row."""
    with _open(path) as file:
        missing = [name for name in REQUIRED if name not in file]
        if missing:
            message = (
                f"{path} is HDF5 without {', '.join(missing)}: the layout of D4RL is expected."
            )
            raise LogError(Finding("E190", message))
        lengths = {name: len(file[name]) for name in (*REQUIRED, *OPTIONAL) if name in file}
        rows = lengths["rewards"]
        if set(lengths.values()) != {rows}:
            raise LogError(Finding("E190", f"the arrays of {path} differ in length: {lengths}."))
        if LOG_PROBABILITIES in file and file[LOG_PROBABILITIES].size != rows:
            shape = file[LOG_PROBABILITIES].shape
            message = (
                f"{LOG_PROBABILITIES} of {path} has shape {shape}: one number per row is needed."
            )
            raise LogError(Finding("E190", message))
        schema = _rows(file, slice(0, 1), 0)[0].schema
    return HDF5Source(path, rows, schema, extension_finding(path, detected))


def _rows(file: Mapping[str, Any], rows: slice, episode: int) -> tuple[Any, int]:
    """Return some rows as a table of a log, and the number of the episode that follows them."""
    terminated = np.asarray(file["terminals"][rows]).astype(np.bool_).ravel()
    truncated = np.zeros_like(terminated)
    if "timeouts" in file:
        truncated = np.asarray(file["timeouts"][rows]).astype(np.bool_).ravel() & ~terminated
    ended = np.cumsum(terminated | truncated, dtype=np.int64)
    actions = np.asarray(file["actions"][rows])
    discrete = actions.size == len(terminated) and actions.dtype.kind in "iub"
    columns: dict[str, Any] = {
        "episode_id": episode + ended - (terminated | truncated),
        "obs": _matrix(file["observations"][rows]),
        "action": actions.ravel().astype(np.int64) if discrete else _matrix(actions),
    }
    if LOG_PROBABILITIES in file:
        columns["behavior_logp"] = np.asarray(file[LOG_PROBABILITIES][rows], float).ravel()
    columns |= {
        "reward": np.asarray(file["rewards"][rows], float).ravel(),
        "terminated": terminated, "truncated": truncated,
    }  # fmt: skip
    if "next_observations" in file:
        following = np.where(truncated[:, None], _matrix(file["next_observations"][rows]), np.nan)
        columns["next_obs"] = following
    return log_table(columns), episode + int(ended[-1] if len(ended) else 0)


def _matrix(array: Any) -> FloatArray:
    """Return an array of any shape as [n, d]."""
    with np.errstate(invalid="ignore"):  # a signalling NaN, which a damaged file may contain
        values = np.asarray(array, dtype=np.float64)
    return values.reshape(len(values), -1)


@contextmanager
def _open(path: str) -> Iterator[Any]:
    """Open an HDF5 file."""
    try:
        import h5py
    except ImportError:
        raise InvalidParameter(
            f"{path} is HDF5, which needs h5py: pip install 'saddleback[hdf5]'"
        ) from None
    with reading(path, "HDF5", *DAMAGES), h5py.File(path, "r") as file:
        yield file
