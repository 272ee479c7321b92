"""`Log`: logged decisions, one per row, streamed and validated as they are read."""

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
from saddleback.log.action_names import (
    MAX_ACTIONS,
    action_name_findings,
    check_list_of_names,
    logged_actions,
    with_whole_actions,
)
from saddleback.log.arrow_decode import Decoder, without_needless_flags
from saddleback.log.categories import Categories, entry_names, find_categories
from saddleback.log.column_types import FLAGS, decode_dictionary, is_text
from saddleback.log.decision_rows import are_decisions, decision_sources
from saddleback.log.diagnostics import Finding, LogError, raise_errors
from saddleback.log.episode_returns import EpisodeReturns
from saddleback.log.missing_columns import with_bandit_hint
from saddleback.log.numbers_with_symbols import with_symbols
from saddleback.log.reader import LogReader
from saddleback.log.repaired_log import write_repaired
from saddleback.log.row_source import RowSource
from saddleback.log.row_sources import common_roles, open_sources, write_sources
from saddleback.log.sample import LogSample
from saddleback.log.schema import ColumnRoles, Declared
from saddleback.log.segmentation import SEGMENT, Segment
from saddleback.log.sorted_rows import SortedSource
from saddleback.log.summary import LogSummary
from saddleback.log.text_rewards import (
    check_all_have_a_number,
    checked_reward_values,
    with_values_of_rewards,
)
from saddleback.policies import Policy


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """Logged decisions: episodes of observation, action, reward, and the propensity of the action.

    Only file footers are read until rows are needed (text files are read once, to infer types);
    then rows are streamed and validated. All problems are collected and reported at once.

    Parameters
    ----------
    data
        Files (a path, a list of paths, or a pattern such as ``"logs/*.parquet"``), an Arrow table,
        a pandas or polars frame, a DuckDB relation, or a dict of arrays. Files are Parquet, Arrow,
        CSV, TSV, JSON lines or HDF5 as in D4RL, recognised by their content. Columns:
        ``episode_id``, ``step`` (optional if rows are in order), ``obs_0``, … (or ``obs`` as
        lists, or ``phi_0``, … for features), ``action`` (or ``action_0``, … for continuous
        actions), ``reward``, ``terminated``, ``truncated``; on truncated last rows ``next_obs_0``,
        …; ``behavior_prob`` (or ``behavior_logp``; densities of continuous actions), or all of
        ``mu_0``, …
    observations
        Columns of the observation, if they have other names; the columns of the next observation
        are then ``next_NAME``.
    columns
        Names in the log of standard columns: ``{"reward": "cost"}``.
    actions
        Names of the actions 0, 1, …; sets their order if the log has them as text. Integers, such
        as 3, 17, 42, are the numbers that the log has.
    behaviour
        μ as a function from observations [n, d] to probabilities [n, K], if the log does not
        contain it, or to check the logged propensities against.
    estimated
        How ``behaviour`` was estimated; recorded in all results. `estimate_behaviour` sets it.
    calibration
        Bins of estimated probabilities with observed frequencies on held-out episodes, for the
        report. `estimate_behaviour` sets it.
    ignore_propensities
        Do not read the propensities of the log.
    min_prob
        Clip propensities from below at this value.
    drop_bad
        "episode" drops episodes that contain NaN or infinities; otherwise they are an error.
    drop_autoreset
        Drop the row that an environment's automatic reset adds after each episode.
    time_limit
        "artifact": a truncated episode would have continued, so its end bootstraps. "task": the
        limit is part of the task, so the episode ends there; the observation should then include
        the time.
    order_by
        Column of numbers, dates or times by which the rows of each episode are sorted; they need
        not be adjacent then, and steps are counted anew. Over a million rows are sorted in
        temporary files.
    episodes_end
        "terminated" or "truncated": how an episode ended whose last row has neither flag. The log
        then needs no columns of flags, and flags without a value are False.
    categorical
        Columns of the observation that are categories, coded as integers; those of text always
        are. A mapping lists the values of each. Such a column becomes one entry per value, 1 where
        the row has that value and 0 elsewhere.
    fill_reward
        Reward where it is missing: 0 if rewards are known only at the end.
    reward_values
        Reward of each value, if they are logged as text: ``{"died": -1, "discharged": 1}``.
    segment
        Number of steps after which a long episode is split, so that memory stays bounded.
    bandit
        Whether each row is a decision of its own, without consequences beyond its reward. Then
        ``episode_id``, ``step``, ``terminated`` and ``truncated`` are not needed.

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
    >>> print(log.summary().text)
    3 rows, 2 episodes (mean 1.5)   terminated 2   truncated 0
    actions, share of rows   0 0.667   1 0.333
    reward  min 0  mean 0.5  max 1
    behavior_prob  min 0.25  median 0.75   OK: order, flags, no NaN
    """

    data: Any
    observations: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    actions: Sequence[str] | None = None
    behaviour: Policy | None = None
    estimated: str | None = None
    calibration: Sequence[Mapping[str, float]] = ()
    ignore_propensities: bool = False
    min_prob: float | None = None
    drop_bad: Literal["episode"] | None = None
    drop_autoreset: bool = False
    time_limit: Literal["artifact", "task"] = "artifact"
    order_by: str | None = None
    episodes_end: Literal["terminated", "truncated"] | None = None
    categorical: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    fill_reward: float | None = None
    reward_values: Mapping[str, float] | None = None
    segment: int = SEGMENT
    bandit: bool = False

    def __post_init__(self) -> None:
        _registry.check_name("time_limit", self.time_limit, ("artifact", "task"))
        if self.drop_bad is not None:
            _registry.check_name("drop_bad", self.drop_bad, ("episode",))
        if self.episodes_end is not None:
            _registry.check_name("episodes_end", self.episodes_end, FLAGS)
        if self.fill_reward is not None:
            _validate.number("Log", "fill_reward", self.fill_reward)
        if self.reward_values is not None:
            object.__setattr__(self, "reward_values", checked_reward_values(self.reward_values))
        if self.min_prob is not None:
            _validate.positive("Log", "min_prob", _validate.unit("Log", "min_prob", self.min_prob))
        _validate.count("Log", "segment", self.segment)
        for name in ("actions", "observations"):
            check_list_of_names(name, getattr(self, name))
        _validate.flag("Log", "bandit", self.bandit)
        columns = self.columns or {}
        sources = self.sources or open_sources(self.data)
        if self.bandit and self.order_by is not None:
            raise InvalidParameter("order_by has no meaning for single decisions: leave it out.")
        if self.bandit:
            sources, columns = decision_sources(sources, columns)
        object.__setattr__(self, "sources", sources)
        try:
            declared = Declared(
                self._declared_observations, columns,
                FLAGS if self.episodes_end is not None else (), list(self.categorical or ()),
                () if self.order_by is None else ("step",), self.reward_values is not None,
            )  # fmt: skip
            roles = common_roles(self.sources, declared)
        except LogError as error:
            findings = without_needless_flags(error.findings, self.sources, columns)
            findings = with_symbols(with_bandit_hint(findings), self.sources, columns)
            action = columns.get("action", "action")
            findings = with_whole_actions(findings, self.sources, action)
            reward = columns.get("reward", "reward")
            raise LogError(*with_values_of_rewards(findings, self.sources, reward)) from None
        if self.reward_values is not None:
            check_all_have_a_number(self.sources, roles.names["reward"], self.reward_values)
        if self.order_by is not None and not isinstance(self.sources[0], SortedSource):
            names, ids = roles.all_columns, roles.names["episode_id"]
            source = SortedSource.of(self.sources, names, ids, self.order_by)
            object.__setattr__(self, "sources", (source,))
        if self.ignore_propensities:
            roles = roles.without_propensities()
        elif self.estimated is None:
            object.__setattr__(self, "estimated", self.metadata.get("estimated"))
        object.__setattr__(self, "roles", roles)
        raise_errors(action_name_findings(self))

    sources: tuple[RowSource, ...] = ()
    roles: ColumnRoles = None  # type: ignore[assignment]
    _cache: LogReader | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(source.rows for source in self.sources)

    @property
    def dimensions(self) -> int:
        """Number of entries of an observation."""
        return self.roles.dimensions if self.roles.as_list else len(self.observation_names)

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Names of the entries of an observation."""
        names = self.roles.observations
        if self.roles.as_list:
            return tuple(f"{names[0]}[{i}]" for i in range(self.dimensions))
        return entry_names(names, self.categories)

    @cached_property
    def categories(self) -> Categories:
        """Values of each column of the observation that is categorical, in order."""
        return find_categories(self)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the files: gamma, actions, …"""
        return self.sources[0].metadata

    @property
    def _declared_observations(self) -> Sequence[str] | None:
        """Columns of the observation from the argument or the metadata, or None."""
        given = self.observations
        return given if given is not None else self.metadata.get("observations")

    @property
    def declared_actions(self) -> Sequence[str] | None:
        """Names of the actions from the argument or the metadata, or None."""
        return self.actions if self.actions is not None else self.metadata.get("actions")

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions, in order; of continuous ones all columns as one name."""
        if self.has_continuous_actions:
            return (", ".join(self.roles.actions),)
        tables = [c for t, c in self.roles.tables.items() if t in ("mu", "pi")]
        if self.declared_actions is not None:
            names = tuple(map(str, self.declared_actions))
        elif tables:
            names = tuple(map(str, range(len(tables[0]))))
        else:
            names = logged_actions(self)
        if len(names) > MAX_ACTIONS:
            message = f"the log has more than {MAX_ACTIONS:,} actions. Group them into fewer."
            raise LogError(Finding("E145", message))
        return names

    @property
    def has_continuous_actions(self) -> bool:
        """Whether actions are numbers or vectors, ``action_0``, …"""
        return bool(self.roles.actions)

    @property
    def has_action_names(self) -> bool:
        """Whether names and order of the actions were declared."""
        return self.declared_actions is not None

    @property
    def has_text_actions(self) -> bool:
        """Whether actions are logged as text."""
        name = self.roles.names.get("action")
        return name is not None and is_text(self.sources[0].schema.field(name).type)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.action_names)

    @property
    def propensity(self) -> str:
        """Column or table that the propensities come from; empty if they are unknown."""
        for name in ("behavior_prob", "behavior_logp"):
            if name in self.roles.names:
                return self.roles.names[name]
        return "mu" if "mu" in self.roles.tables or self.behaviour is not None else ""

    @property
    def has_full_behaviour(self) -> bool:
        """Whether μ is known for all actions, not only for the logged one."""
        return "mu" in self.roles.tables or self.behaviour is not None

    @cached_property
    def holds_decisions(self) -> bool:
        """Whether every episode is one decision: declared so, or one row that terminated."""
        return self.bandit or are_decisions(self.sources, self.roles.names)

    @property
    def read_options(self) -> str:
        """Options that change the rows, as text: logs read differently must not be merged."""
        options = [f'time_limit="{self.time_limit}"']
        for name in (
            "min_prob", "drop_bad", "drop_autoreset", "estimated",
            "order_by", "episodes_end", "fill_reward", "reward_values",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value is not False:
                options.append(f"{name}={value!r}")
        if self.categories:
            options.append(f"categories={dict(self.categories)}")
        return ", ".join(options)

    def with_options(self, **changes: Any) -> Self:
        """Return the same log with other options."""
        options = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in DERIVED}
        if not {"data", "order_by", "observations", "columns"} & set(changes):
            options["sources"] = self.sources
        log = type(self)(**(options | changes))
        if log.sources is self.sources and "ignore_propensities" not in changes:  # read once
            for name, option in (("action_names", "actions"), ("categories", "categorical")):
                if name in self.__dict__ and option not in changes:
                    log.__dict__[name] = self.__dict__[name]
        return log

    # Reading.

    def segments(
        self,
        tables: Sequence[str] = (),
        progress: Progress | None = None,
        warnings: list[Finding] | None = None,
    ) -> Iterator[Segment]:
        """Return the transitions in segments of complete episodes; raises errors at the end.

        ``tables`` names tables of probabilities to read in addition to ``mu``, such as ``pi``.
        Warnings are appended to ``warnings``.
        """
        reader = self.reader(tables)
        yield from reader.segments(progress)
        findings = reader.findings()
        raise_errors(findings)
        if warnings is not None:
            warnings += findings

    def decoder(self, tables: Sequence[str] = ()) -> Decoder:
        """Return a decoder of the rows."""
        return Decoder(self, tables)

    def reader(self, tables: Sequence[str] = ()) -> LogReader:
        """Return a pass over the log that also collects its findings and its summary."""
        if self._cache is not None and {*tables} <= self._cache.tables:
            return self._cache
        return LogReader(self, tables)

    def cached(self, tables: Sequence[str] = (), progress: Progress | None = None) -> Self:
        """Return the log with its segments in memory, to be read repeatedly.

        ``tables`` names tables that will be needed in addition to ``mu`` and ``pi``.
        """
        names = {"pi", *tables}
        if self._cache is not None and names <= self._cache.tables:
            return self
        log, reader = copy(self), LogReader(self, sorted(names), keep=True)
        for _ in reader.segments(progress):
            pass
        object.__setattr__(log, "_cache", reader)
        return log

    def summary(self, gamma: float | None = None, progress: Progress | None = None) -> LogSummary:
        """Read the log once and return its counts, ranges and findings.

        Parameters
        ----------
        gamma
            Discount to validate the log against.
        progress
            Called with the fraction of rows read.
        """
        reader = self.reader(["pi"])
        returns = EpisodeReturns(gamma, self.time_limit == "task")
        for segment in reader.segments(progress):
            returns.add(segment)
        return reader.summary(gamma, returns.mean)

    def sample(self, progress: Progress | None = None) -> LogSample:
        """Return states spaced evenly over the rows, and counts of the actions taken.

        Unless the log is in memory or rows are dropped, only the columns of the observation and the
        action are read, and they are not validated: rows without a finite observation or a known
        action are left out. If none is left, the errors of the log are raised.
        """
        sample = LogSample(self.n_actions, self.dimensions)
        if self._cache is not None or self.drop_bad or self.drop_autoreset:
            shown = progress if self._cache is None else None  # memory is quick
            for segment in self.reader().segments(shown):
                sample.add(segment.rows.observations, segment.rows.actions)
            return sample
        decode, done = self.decoder(), 0
        columns = [*self.roles.observations]
        columns += [] if self.has_continuous_actions else [self.roles.names["action"]]
        for source in self.sources:
            for batch in source.batches(columns):
                sample.add(*decode.decisions(batch))
                done += batch.num_rows
                if progress is not None:
                    progress(done / self.rows)
        if not sample.action_counts.any():
            raise_errors(self.summary().findings)
        return sample

    def has_several_episodes(self) -> bool:
        """Whether the log has more than one episode; reads ids up to the second."""
        name, first = self.roles.names["episode_id"], None
        for source in self.sources:
            for batch in source.batches([name]):
                ids = pc.unique(decode_dictionary(batch.column(name)))
                first = ids[0] if first is None and len(ids) else first
                if len(ids) > 1 or (len(ids) and ids[0] != first):
                    return True
        return False

    def start_states(self) -> FloatArray:
        """Return the first observation of each episode, [episodes, d]."""
        starts = [segment.observations[segment.first_states] for segment in self.segments()]
        return np.concatenate(starts) if starts else np.zeros((0, self.dimensions))

    def write(self, path: str | os.PathLike[str], **metadata: Any) -> Path:
        """Write the log to one Parquet file, atomically.

        ``metadata`` (gamma=…, provenance=…) is stored in the file, with the names of the actions.
        """
        if self.ignore_propensities or self.behaviour is not None:
            raise InvalidParameter(
                "write: propensities computed by a function are not written. Write the original "
                "log and keep the function with it, or use write_repaired."
            )
        names = {} if self.has_continuous_actions else {"actions": list(self.action_names)}
        stored = self.metadata | names | metadata
        sources = [getattr(source, "source", None) or source for source in self.sources]
        return write_sources(sources, Path(path), stored)

    def write_repaired(self, path: str | os.PathLike[str], **metadata: Any) -> Path:
        """Write the rows as they are read: sorted, with marked ends, filled, without dropped ones.

        Columns get their standard names; the observations keep theirs, which are stored in the
        file, so that it is read without options. Propensities that were estimated are marked.
        Nothing is written if the log has errors.

        Examples
        --------
        >>> import tempfile
        >>> rows = {"visit": [7, 7], "at": [2, 1], "hr": [80.0, 90.0], "action": [0, 1]}
        >>> log = Log(
        ...     rows | {"reward": [1.0, None]}, ["hr"], {"episode_id": "visit"}, order_by="at",
        ...     episodes_end="terminated", fill_reward=0,
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     repaired = Log(log.write_repaired(f"{folder}/log.parquet"))
        ...     print([segment.rewards.tolist() for segment in repaired.segments()])
        [[0.0, 1.0]]
        """
        return write_repaired(self, Path(path), metadata)

    def __repr__(self) -> str:
        estimated = ", propensities estimated" if self.estimated else ""
        files = f"files={len(self.sources)}, " if len(self.sources) > 1 else ""
        actions = f"actions={self.n_actions}"
        if self.has_continuous_actions:
            actions = f"continuous action={len(self.roles.actions)}"
        return (
            f"Log({files}rows={self.rows:,}, observation={self.dimensions}, {actions}{estimated})"
        )


DERIVED = ("sources", "roles", "_cache")
"""Fields that are computed from the others."""
