"""The results of a study as arrays: for each problem and rule, all settings, runs and points.

A store holds long rows: which rule, run, point, α, β, when it diverged, and the metrics. Rows of a
sweep name their problem; those of the paper's experiments belong to a case, which their shard is
named after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._typing import ArrayLike, FloatArray, IntArray
from saddleback.errors import InvalidParameter
from saddleback.learning.best_setting import argmin_finite, tail_length
from saddleback.report.study_metadata import alone, case_of, lam_of, rule_said, whole_of
from saddleback.sweep import Store

NEEDED = ("run", "rule", "point", "alpha", "beta", "diverged_at")
OTHERS = (*NEEDED, "problem", "case", "updates", "name", "lam")
"""Columns that are not metrics."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What one rule did on one problem, with every setting.

    Attributes
    ----------
    problem, rule, lam
        Where, what, and its λ if it is known.
    alphas, seconds, second
        The grid: step sizes of θ, and of ω as β or β/α, which ``second`` says; nothing, and NaN,
        for a rule without ω.
    points, runs
        Where it was measured, and which runs.
    values
        Metrics by name, [run, point, α, second]; infinite once diverged, NaN where not run.
    diverged_at
        The update at which each diverged, −1 if never, [run, α, second].

    Examples
    --------
    >>> curves = np.array([[[[1.0], [1.0]], [[0.2], [np.inf]]]])
    >>> each = Learned("walk", "GES(0.5)", 0.5, np.array([0.1, 9.0]), np.array([1.0]), "β/α",
    ...                np.array([0, 100]), np.array([0]), {"mspbe": curves},
    ...                np.array([[[-1], [7]]]))
    >>> each.best("mspbe"), each.diverged.tolist()
    ((0, 0), [[0], [1]])
    """

    problem: str
    rule: str
    lam: float | None
    alphas: FloatArray
    seconds: FloatArray
    second: str
    points: IntArray
    runs: IntArray
    values: Mapping[str, FloatArray]
    diverged_at: IntArray

    def final(self, metric: str) -> FloatArray:
        """Mean over the last tenth of the points, [run, α, second]."""
        return np.asarray(self.values[metric][:, -tail_length(len(self.points)) :].mean(axis=1))

    def mean_final(self, metric: str) -> FloatArray:
        """Mean of that over runs, [α, second]; infinite where a run diverged, NaN where not run."""
        return np.asarray(self.final(metric).mean(axis=0))

    def best(self, metric: str) -> tuple[int, int] | None:
        """The setting with the least mean at the end, None if all diverged."""
        place = argmin_finite(self.mean_final(metric))
        return None if place is None else (place[0], place[1])

    @property
    def diverged(self) -> IntArray:
        """In how many runs each setting diverged, [α, second]."""
        return np.asarray((self.diverged_at >= 0).sum(axis=0))


@dataclass(frozen=True, eq=False)
class Results:
    """All results of a store, how they were made, how many tasks are done, and what is missing.

    Attributes
    ----------
    manifest
        What the store says of itself: study, command, versions.
    metrics
        Names of what was measured.
    learned
        What each rule did on each problem.
    done, tasks
        Tasks that are finished, of how many.
    missing
        Problems, or rules on problems, without any results yet.

    Examples
    --------
    >>> Results({}, ("mspbe",), (), done=1, tasks=2, missing=("TD(0) on walk",)).missing
    ('TD(0) on walk',)
    """

    manifest: Mapping[str, Any]
    metrics: tuple[str, ...]
    learned: tuple[Learned, ...]
    done: int
    tasks: int
    missing: tuple[str, ...]


def read_results(folder: Path) -> Results:
    """Read a store of a sweep, or of an experiment of the paper.

    Raises
    ------
    InvalidParameter
        Where there is none, or it is empty, damaged, newer, or of another kind.

    Examples
    --------
    >>> import tempfile
    >>> from saddleback.sweep import run_study
    >>> text = '''
    ... steps = 500
    ... grid = {alpha = [0.1, 0.2], ratio = [1.0]}
    ... problem = [{name = "two_state"}]
    ... rule = [{name = "GES", lam = 0.5}]
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "s.toml").write_text(text)
    ...     _ = run_study(Path(folder) / "s.toml", Path(folder) / "results")
    ...     found = read_results(Path(folder) / "results")
    >>> each = found.learned[0]
    >>> each.rule, each.alphas.tolist(), each.mean_final("mspbe").shape
    ('GES(0.5)', [0.1, 0.2], (2, 1))
    """
    inner = sorted(each.parent for each in folder.glob("*/manifest.json"))
    if len(inner) == 1 and not (folder / "manifest.json").exists():
        return read_results(inner[0])
    if inner and not (folder / "manifest.json").exists():
        listed = ", ".join(str(each) for each in inner[:8])
        raise InvalidParameter(f"{folder} is a folder of results: choose one of them, {listed}.")
    store = Store.load(folder)
    names = store.names()
    if not names:
        raise InvalidParameter(f"{folder} holds no finished task yet: run the study first.")
    every = [_with_problem(store.shard(name), name) for name in names]
    tables = [table for table in every if set(NEEDED) <= set(table.column_names)]
    if not tables:
        missing = [name for name in NEEDED if name not in every[0].column_names]
        raise InvalidParameter(
            f"{folder} holds results of another kind, without {', '.join(missing)}: a report is "
            "for a sweep, or for the comparisons of saddleback paper (two-state, baird, "
            "mountain-car)."
        )
    metrics = [
        field.name for field in tables[0].schema
        if field.name not in OTHERS and pa.types.is_floating(field.type)
        and all(field.name in table.column_names for table in tables)
    ]  # fmt: skip
    table = pa.concat_tables([each.select([*NEEDED, "problem", *metrics]) for each in tables])
    if not table.num_rows or not metrics:
        raise InvalidParameter(f"{folder} holds no rows of results: nothing was measured.")
    study = dict(store.manifest["study"])
    learned = tuple(_learned(table, metrics, study))
    done, tasks, wanted = whole_of(study, names)
    absent = _missing(wanted, learned)
    return Results(store.manifest, tuple(metrics), learned, done, tasks, absent)


def _missing(wanted: Mapping[str, list[str]], learned: tuple[Learned, ...]) -> tuple[str, ...]:
    """Name the problems without any results, and the rules without any on the others."""
    there = {(each.problem, each.rule) for each in learned}
    found = []
    for problem, rules in wanted.items():
        none = [rule for rule in rules if (problem, rule) not in there]
        whole = none == rules
        found += [problem] if whole else [f"{rule} on {problem}" for rule in none]
    return tuple(found)


def _with_problem(table: pa.Table, name: str) -> pa.Table:
    """Return the rows of a shard with the problem in a column."""
    if "problem" in table.column_names:
        return table
    return table.append_column("problem", pa.array([case_of(name)] * table.num_rows))


def _learned(table: pa.Table, metrics: list[str], study: Mapping[str, Any]) -> Iterator[Learned]:
    problems, at_problem = _coded(table["problem"])
    rules, at_rule = _coded(table["rule"])
    column = {name: table[name].to_numpy() for name in (*NEEDED, *metrics) if name != "rule"}
    for i, problem in enumerate(problems):
        here = at_problem == i
        for j in dict.fromkeys(at_rule[here].tolist()):
            mine = {name: each[here & (at_rule == j)] for name, each in column.items()}
            said = rule_said(study, problem, rules[j])
            if alone(said):
                mine["beta"] = np.full_like(mine["beta"], np.nan)
            yield _array(problem, rules[j], lam_of(said), mine, metrics)


def _coded(column: pa.ChunkedArray) -> tuple[list[str], IntArray]:
    """Distinct texts in the order of their first rows, and which one each row has."""
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy()


def _array(
    problem: str, rule: str, lam: float | None, rows: Mapping[str, Any], metrics: list[str]
) -> Learned:
    """Lay the rows of one rule out over runs, points and settings."""
    alpha, beta = rows["alpha"], rows["beta"]
    ratio = np.divide(beta, alpha, out=np.zeros_like(beta), where=alpha != 0)
    by_ratio = bool(np.isnan(beta).all()) or len(_distinct(ratio)[0]) < len(_distinct(beta)[0])
    alphas, at_alpha = _distinct(alpha)
    seconds, at_second = _distinct(ratio if by_ratio else beta)
    runs, at_run = np.unique(rows["run"], return_inverse=True)
    points, at_point = np.unique(rows["point"], return_inverse=True)
    shape = (len(runs), len(points), len(alphas), len(seconds))
    place = (at_run, at_point, at_alpha, at_second)
    values = {}
    for metric in metrics:
        full = np.full(shape, np.nan)
        full[place] = rows[metric]
        values[metric] = full
    gone = np.full((shape[0], *shape[2:]), -1, dtype=np.int64)
    np.maximum.at(gone, (at_run, at_alpha, at_second), rows["diverged_at"])
    second = "" if np.isnan(seconds).all() else "β/α" if by_ratio else "β"
    return Learned(
        problem, rule, lam, alphas, seconds, second, points, runs, values, gone
    )  # fmt: skip


def _distinct(values: ArrayLike) -> tuple[FloatArray, IntArray]:
    """Distinct numbers, to nine digits, and where each belongs.

    Examples
    --------
    >>> _distinct([0.1 + 0.2, 0.3, 0.1])
    (array([0.1, 0.3]), array([1, 1, 0]))
    """
    given = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore"):
        size = np.where(given == 0, 0.0, np.floor(np.log10(np.abs(given))))
    scale = 10.0 ** (9 - size)
    rounded = np.round(given * scale) / scale
    found, inverse = np.unique(rounded, return_inverse=True)
    return found, inverse
