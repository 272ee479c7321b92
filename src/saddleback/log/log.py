"""`Log`: logged decisions, one row for each, validated as they are read, whatever their number."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow.compute as pc

from saddleback import _registry, _validate
from saddleback._progress import Progress
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log.arrow_decode import Decoder, Rows, plain
from saddleback.log.diagnostics import Finding, LogError, refuse
from saddleback.log.reader import Reading, Returns
from saddleback.log.row_sources import Part, common_layout, parts, write_parts
from saddleback.log.schema import Layout, is_text
from saddleback.log.segmentation import SEGMENT, Piece
from saddleback.log.summary import Card
from saddleback.policies import Policy


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """Logged decisions: episodes of observation, action, reward, and the propensity of the action.

    Nothing but file footers is read until rows are needed; then they are streamed, and validated
    as they are read. Everything that is wrong is collected and said at once.

    Parameters
    ----------
    data
        Parquet files (a path, several, or a pattern such as ``"logs/*.parquet"``), an Arrow table,
        a pandas or polars frame, or a dict of arrays. Columns: ``episode_id``, ``step`` (else the
        order of rows), ``obs_0``, … (or ``obs`` as lists, or ``phi_0``, … for features),
        ``action``, ``reward``, ``terminated``, ``truncated``; on truncated last rows
        ``next_obs_0``, …; ``behavior_prob`` (or ``behavior_logp``), or all of ``mu_0``, …
    observations
        Columns of the observation, if they are called otherwise; then ``next_NAME`` is the next.
    columns
        Other names of other columns: ``{"reward": "cost"}``.
    actions
        Names of the actions 0, 1, …; needed for text only to fix their order.
    behaviour
        μ as a function from observations [n, d] to probabilities [n, K], where the log does not
        hold it, or to check what it holds.
    estimated
        How that function was estimated, stamped on all that follows; `estimate_behaviour` sets it.
    ignore_propensities
        Do not read propensities that the log holds.
    min_prob
        Raise smaller propensities to this.
    drop_bad
        "episode" drops episodes that hold NaN or infinities; else they are refused.
    drop_autoreset
        Drop the row that an environment's automatic reset leaves after each episode.
    time_limit
        "artifact": a truncated episode would have gone on, so its end bootstraps. "task": the
        limit is part of the task, so it ends there; the observation should then hold the time.
    segment
        Steps after which a long episode is handed on in part, so that memory stays bounded.

    Examples
    --------
    >>> log = Log(
    ...     {
    ...         "episode_id": [0, 0, 1],
    ...         "obs_0": [0.0, 1.0, 0.0],
    ...         "action": [1, 0, 0],
    ...         "reward": [0.0, 1.0, 0.5],
    ...         "terminated": [False, True, True],
    ...         "truncated": [False, False, False],
    ...         "behavior_prob": [0.25, 0.75, 0.75],
    ...     }
    ... )
    >>> log
    Log(rows=3, observation=1, actions=2)
    >>> print(log.card().text)
    3 rows, 2 episodes (mean 1.5)   terminated 2   truncated 0
    actions, share of rows   0 0.667   1 0.333
    reward  min 0  mean 0.5  max 1
    behavior_prob  min 0.25  median 0.75   OK: order, flags, NaN
    """

    data: Any
    observations: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    actions: Sequence[str] | None = None
    behaviour: Policy | None = None
    estimated: str | None = None
    ignore_propensities: bool = False
    min_prob: float | None = None
    drop_bad: Literal["episode"] | None = None
    drop_autoreset: bool = False
    time_limit: Literal["artifact", "task"] = "artifact"
    segment: int = SEGMENT

    def __post_init__(self) -> None:
        _registry.check_name("time_limit", self.time_limit, ("artifact", "task"))
        if self.drop_bad is not None:
            _registry.check_name("drop_bad", self.drop_bad, ("episode",))
        if self.min_prob is not None:
            _validate.positive("Log", "min_prob", _validate.unit("Log", "min_prob", self.min_prob))
        _validate.count("Log", "segment", self.segment)
        for name in ("actions", "observations"):
            _listed(name, getattr(self, name))
        object.__setattr__(self, "parts", parts(self.data))
        layout = common_layout(self.parts, self.observations, self.columns or {})
        if self.ignore_propensities:
            layout = layout.without_propensities()
        object.__setattr__(self, "layout", layout)
        refuse(self._misnamed())

    parts: tuple[Part, ...] = ()
    layout: Layout = None  # type: ignore[assignment]
    _held: tuple[list[Piece], Reading, set[str]] | None = None

    def _misnamed(self) -> list[Finding]:
        """Names of actions that do not fit the columns."""
        tables = {t: len(c) for t, c in self.layout.tables.items() if t in ("mu", "pi")}
        given = self.actions if self.actions is not None else self.metadata.get("actions")
        if given is not None:
            return [
                Finding(
                    "E141",
                    f"{name}_* has {size} columns, but {len(given)} actions are named "
                    f"({', '.join(map(str, given))}).",
                )
                for name, size in tables.items()
                if size != len(given)
            ]
        column = self.layout.names["action"]
        if tables and is_text(self.parts[0].schema.field(column).type):
            name = next(iter(tables))
            return [
                Finding(
                    "E147",
                    f"column {column!r} holds text, but {name}_0, {name}_1, … are numbered: say "
                    "which action is which, in that order: actions=[…].",
                )
            ]
        return []

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(part.rows for part in self.parts)

    @property
    def dimensions(self) -> int:
        """Entries of an observation."""
        return self.layout.dimensions

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Names of the entries of an observation."""
        names = self.layout.observations
        if self.layout.as_list:
            return tuple(f"{names[0]}[{i}]" for i in range(self.dimensions))
        return names

    @property
    def metadata(self) -> dict[str, Any]:
        """What the files say of themselves: gamma, actions, …"""
        return self.parts[0].metadata

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions, in order."""
        given = self.actions if self.actions is not None else self.metadata.get("actions")
        if given is not None:
            return tuple(map(str, given))
        for table in ("mu", "pi"):
            if table in self.layout.tables:
                return tuple(map(str, range(len(self.layout.tables[table]))))
        name = self.layout.names["action"]
        values: set[Any] = set()
        for part in self.parts:
            for batch in part.batches([name]):
                values |= set(pc.unique(plain(batch.column(name))).to_pylist())
        values.discard(None)
        if is_text(self.parts[0].schema.field(name).type):
            return tuple(sorted(values))
        most = int(max(values, default=-1)) + 1
        if most > MOST_ACTIONS:
            what = (
                f"column {name!r} goes up to {most - 1:,}: actions are numbered 0 … K−1, at most "
                f"{MOST_ACTIONS:,} of them. Number them without gaps, or turn them into text."
            )
            raise LogError([Finding("E145", what)])
        return tuple(map(str, range(most)))

    @property
    def names_given(self) -> bool:
        """Whether somebody said what the actions are called, and in which order."""
        return self.actions is not None or self.metadata.get("actions") is not None

    @property
    def text_actions(self) -> bool:
        """Whether actions are logged by name."""
        return is_text(self.parts[0].schema.field(self.layout.names["action"]).type)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.action_names)

    @property
    def propensity(self) -> str:
        """Where μ of the action taken comes from; empty if it is not known."""
        for name in ("behavior_prob", "behavior_logp"):
            if name in self.layout.names:
                return self.layout.names[name]
        return "mu" if "mu" in self.layout.tables or self.behaviour is not None else ""

    @property
    def whole_behaviour(self) -> bool:
        """Whether μ of every action is known, not only of the one taken."""
        return "mu" in self.layout.tables or self.behaviour is not None

    @property
    def reading(self) -> str:
        """How the rows are read, in words: logs that differ in it must not be added up."""
        said = [f'time_limit="{self.time_limit}"']
        for name in ("min_prob", "drop_bad", "drop_autoreset", "estimated"):
            value = getattr(self, name)
            if value:
                said.append(f"{name}={value!r}")
        return ", ".join(said)

    def but(self, **changes: Any) -> Self:
        """Return the log read with other options."""
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in FOUND}
        return type(self)(**(kept | changes))

    # Reading.

    def pieces(
        self,
        tables: Sequence[str] = (),
        progress: Progress | None = None,
        warnings: list[Finding] | None = None,
    ) -> Iterator[Piece]:
        """Return the transitions in pieces of whole episodes; at the end refuse a bad log.

        ``tables`` names tables of probabilities to read beside ``mu``, such as ``pi``; what is odd
        but no error is appended to ``warnings``.
        """
        if self._held is not None:
            yield from self._again(progress, warnings)
            return
        reading = Reading(self)
        done = 0
        for rows in self._decoded(tables):
            yield from reading.take(rows)
            done += len(rows)
            if progress is not None:
                progress(done / self.rows)
        yield from reading.finish()
        found = reading.findings()
        refuse(found)
        if warnings is not None:
            warnings += found

    def held(self, tables: Sequence[str] = (), progress: Progress | None = None) -> Self:
        """Return the log with its pieces kept in memory, to be read again and again.

        ``tables`` names tables that will be asked for, beside ``mu`` and ``pi``.
        """
        wanted = {"pi", *tables}
        if self._held is not None and wanted <= self._held[2]:
            return self
        found, reading = copy(self), Reading(self)
        pieces: list[Piece] = []
        done = 0
        for rows in self._decoded(sorted(wanted)):
            pieces += reading.take(rows)
            done += len(rows)
            if progress is not None:
                progress(done / self.rows)
        pieces += reading.finish()
        object.__setattr__(found, "_held", (pieces, reading, wanted))
        return found

    def _again(self, progress: Progress | None, warnings: list[Finding] | None) -> Iterator[Piece]:
        """Return the pieces that are kept; at the end refuse a bad log."""
        assert self._held is not None
        pieces, reading, _ = self._held
        done = 0
        for piece in pieces:
            yield piece
            done += len(piece.rows)
            if progress is not None:
                progress(min(1.0, done / self.rows))
        found = reading.findings()
        refuse(found)
        if warnings is not None:
            warnings += found

    def _decoded(self, tables: Sequence[str]) -> Iterator[Rows]:
        named = dict.fromkeys(("mu", *tables))
        wanted = [t for name in named for t in (name, f"next_{name}")]
        decode = Decoder(self.layout, self.action_names, self.n_actions, wanted)
        columns = [
            *self.layout.names.values(), *self.layout.observations, *self.layout.next_observations,
        ]  # fmt: skip
        columns += [c for name in wanted for c in self.layout.tables.get(name, ())]
        columns = list(dict.fromkeys(columns))
        for part in self.parts:
            for batch in part.batches(columns):
                if batch.num_rows:
                    yield decode(batch)

    def card(self, gamma: float | None = None, progress: Progress | None = None) -> Card:
        """Read the whole log once: its numbers, and all that is wrong with it.

        Parameters
        ----------
        gamma
            The discount for which it is meant to be used, if it is to be checked too.
        progress
            Called with the fraction of the rows that is read.
        """
        returns = Returns(gamma, self.time_limit == "task")
        if self._held is not None:
            pieces, reading, _ = self._held
            for piece in pieces:
                returns.add(piece)
        else:
            reading, done = Reading(self), 0
            for rows in self._decoded(["pi"]):
                for piece in reading.take(rows):
                    returns.add(piece)
                done += len(rows)
                if progress is not None:
                    progress(done / self.rows)
            for piece in reading.finish():
                returns.add(piece)
        findings = reading.findings()
        counts = reading.counts(findings)
        return Card.of(self, counts, reading.cutter, findings, gamma, returns.mean)

    def start_states(self) -> FloatArray:
        """Observations in which the episodes begin, [episodes, d]."""
        found = [piece.observations[piece.first_states] for piece in self.pieces()]
        return np.concatenate(found) if found else np.zeros((0, self.dimensions))

    def write(self, path: str | os.PathLike[str], **metadata: Any) -> Path:
        """Write the log as one Parquet file, whole or not at all.

        ``metadata`` (gamma=…, provenance=…) is kept in the file, with the names of the actions.
        """
        if self.ignore_propensities or self.behaviour is not None:
            raise InvalidParameter(
                "write: it keeps what the files hold, not propensities that a function gave. Write "
                "the log they were made for, and keep the function beside it."
            )
        words = self.metadata | {"actions": list(self.action_names)} | metadata
        return write_parts(self.parts, Path(path), words)

    def __repr__(self) -> str:
        stamp = ", propensities estimated" if self.estimated else ""
        files = f"files={len(self.parts)}, " if len(self.parts) > 1 else ""
        return (
            f"Log({files}rows={self.rows:,}, observation={self.dimensions}, "
            f"actions={self.n_actions}{stamp})"
        )


FOUND = ("parts", "layout", "_held")
"""Fields that are found, not given."""

MOST_ACTIONS = 10_000
"""Greatest number of actions that are taken to be numbered."""


def _listed(name: str, given: Sequence[str] | None) -> None:
    """Refuse names that are not listed one by one."""
    if given is None:
        return
    if isinstance(given, str):
        raise InvalidParameter(
            f"{name} must be a list of names, got {given!r}. Write {given.split(',')}."
        )
    if not len(given):
        raise InvalidParameter(f"{name} must be a list of names; it is empty.")
    twice = [each for i, each in enumerate(given) if each in list(given)[:i]]
    if twice:
        raise InvalidParameter(f"{name} names {twice[0]!r} twice.")
