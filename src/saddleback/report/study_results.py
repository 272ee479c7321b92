"""Results of a study as arrays: for each problem and rule, all settings, runs and points.

A store holds rows in long format: rule, run, point, α, β, the update of divergence, and the
metrics. Rows of a sweep name their problem; rows of the paper's experiments belong to a case, which
the name of their shard contains. The manifest of the study gives its tasks and the properties of
its rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._typing import ArrayLike, FloatArray, IntArray
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.learning.best_setting import argmin_finite, tail_length
from saddleback.rules import Rule
from saddleback.rules.parse import stored_rule
from saddleback.sweep import Store, Study

REQUIRED = ("run", "rule", "point", "alpha", "beta", "diverged_at")
NOT_METRICS = (*REQUIRED, "problem", "case", "updates", "name", "lam")
"""Columns that are not metrics."""


@dataclass(frozen=True, eq=False)
class RuleResults:
    """Results of one rule on one problem, for every setting.

    Attributes
    ----------
    problem, rule, lam
        Names of problem and rule, and the λ of the rule if known.
    alphas
        Step sizes of θ.
    omega_steps, omega_name
        Step sizes of ω: values of β or of β/α, and which of the two. NaN and an empty name for a
        rule without ω.
    points, runs
        Points of measurement, and numbers of the runs.
    values
        Metrics by name, [run, point, α, ω step]; infinite once diverged, NaN where not run.
    diverged_at
        The update at which a setting diverged, −1 if it did not, [run, α, ω step].

    Examples
    --------
    >>> curves = np.array([[[[1.0], [1.0]], [[0.2], [np.inf]]]])
    >>> results = RuleResults("walk", "GES(0.5)", 0.5, np.array([0.1, 9.0]), np.array([1.0]), "β/α",
    ...                       np.array([0, 100]), np.array([0]), {"mspbe": curves},
    ...                       np.array([[[-1], [7]]]))
    >>> results.best("mspbe"), results.diverged.tolist()
    ((0, 0), [[0], [1]])
    """

    problem: str
    rule: str
    lam: float | None
    alphas: FloatArray
    omega_steps: FloatArray
    omega_name: str
    points: IntArray
    runs: IntArray
    values: Mapping[str, FloatArray]
    diverged_at: IntArray

    def final(self, metric: str) -> FloatArray:
        """Mean over the last tenth of the points, [run, α, ω step]."""
        return np.asarray(self.values[metric][:, -tail_length(len(self.points)) :].mean(axis=1))

    def mean_final(self, metric: str) -> FloatArray:
        """Mean of `final` over runs, [α, ω step]; infinite if a run diverged, NaN if not run."""
        return np.asarray(self.final(metric).mean(axis=0))

    def best(self, metric: str) -> tuple[int, int] | None:
        """The setting with the smallest final mean, None if all diverged."""
        index = argmin_finite(self.mean_final(metric))
        return None if index is None else (index[0], index[1])

    @property
    def diverged(self) -> IntArray:
        """Number of runs in which each setting diverged, [α, ω step]."""
        return np.asarray((self.diverged_at >= 0).sum(axis=0))


@dataclass(frozen=True, eq=False)
class StudyResults:
    """All results of a store, with its manifest and its progress.

    Attributes
    ----------
    manifest
        Study, command and versions, as the store keeps them.
    metrics
        Names of the metrics.
    rules
        Results of each rule on each problem.
    done, tasks
        Number of finished tasks, and of all tasks.
    missing
        Problems, or rules on problems, without results.

    Examples
    --------
    >>> StudyResults({}, ("mspbe",), (), done=1, tasks=2, missing=("TD(0) on walk",)).missing
    ('TD(0) on walk',)
    """

    manifest: Mapping[str, Any]
    metrics: tuple[str, ...]
    rules: tuple[RuleResults, ...]
    done: int
    tasks: int
    missing: tuple[str, ...]


def read_results(folder: Path) -> StudyResults:
    """Read the store of a sweep, or of an experiment of the paper.

    Raises
    ------
    InvalidParameter
        If there is no store, or if it is empty, damaged, newer or of another kind.

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
    ...     study = read_results(Path(folder) / "results")
    >>> ges = study.rules[0]
    >>> ges.rule, ges.alphas.tolist(), ges.mean_final("mspbe").shape
    ('GES(0.5)', [0.1, 0.2], (2, 1))
    """
    inner = sorted(path.parent for path in folder.glob("*/manifest.json"))
    if len(inner) == 1 and not (folder / "manifest.json").exists():
        return read_results(inner[0])
    if inner and not (folder / "manifest.json").exists():
        listed = ", ".join(str(path) for path in inner[:8])
        raise InvalidParameter(f"{folder} holds several results: choose one of them, {listed}.")
    store = Store.load(folder)
    shards = store.names()
    if not shards:
        raise InvalidParameter(f"{folder} has no finished task yet: run the study first.")
    every = [_with_problem(store.shard(shard), shard) for shard in shards]
    tables = [table for table in every if set(REQUIRED) <= set(table.column_names)]
    if not tables:
        missing = [name for name in REQUIRED if name not in every[0].column_names]
        raise InvalidParameter(
            f"{folder} holds results of another kind, without {', '.join(missing)}: a report needs "
            "a sweep, or a comparison of saddleback paper (two-state, baird, mountain-car)."
        )
    metrics = [
        field.name for field in tables[0].schema
        if field.name not in NOT_METRICS and pa.types.is_floating(field.type)
        and all(field.name in table.column_names for table in tables)
    ]  # fmt: skip
    chosen = [*REQUIRED, "problem", *metrics]
    chosen += ["lam"] * all("lam" in part.column_names for part in tables)  # a sweep records it
    table = pa.concat_tables([part.select(chosen) for part in tables])
    if not table.num_rows or not metrics:
        raise InvalidParameter(f"{folder} has no rows of results: nothing was measured.")
    study = dict(store.manifest["study"])
    rules = tuple(_split(table, metrics, study))
    done, tasks, planned = study_progress(study, shards)
    absent = _missing(planned, rules)
    return StudyResults(store.manifest, tuple(metrics), rules, done, tasks, absent)


def study_progress(
    study: Mapping[str, Any], shards: list[str]
) -> tuple[int, int, dict[str, list[str]]]:
    """Return the number of finished tasks, of all tasks, and the planned rules by problem.

    A sweep lists its tasks; a comparison of the paper has one for each run. Other studies do not
    record the number of their tasks, so all count as finished.
    """
    if "cases" in study:
        plan = Study.from_dict(study)
        rules = [plan.rule_label(k) for k in range(len(plan.rules))]
        tasks = sum(1 for _ in plan.task_specs())
        return len(shards), tasks, {case.label: rules for case in plan.cases}
    cases = {
        name: case for name, case in study.items()
        if isinstance(case, dict) and {"rules", "runs"} <= set(case)
    }  # fmt: skip
    if not cases:
        return len(shards), len(shards), {}
    done = sum(case_of(shard) in cases for shard in shards)
    planned = {name: list(case["rules"]) for name, case in cases.items()}
    return done, sum(case["runs"] for case in cases.values()), planned


def case_of(shard: str) -> str:
    """Return the case that a shard of the paper's experiments belongs to."""
    return re.sub(r"-run\d+$", "", shard)


def rule_description(study: Mapping[str, Any], problem: str, rule: str) -> str:
    """Return the definition of a rule; the paper's experiments name rules by their own labels."""
    case = study.get(problem)
    rules = case.get("rules") if isinstance(case, dict) else None
    return str(rules[rule]) if isinstance(rules, dict) and rule in rules else rule


def has_no_dual(description: str) -> bool:
    """Whether a rule of the library updates θ only, so that β has no effect.

    Examples
    --------
    >>> has_no_dual("ExpectedSarsa(0.5)"), has_no_dual("GES(0.5)"), has_no_dual("Mine(0.5)")
    (True, False, False)
    """
    rule = _rule_of(description)
    return rule is not None and not rule.form.has_dual


def lambda_of(description: str) -> float | None:
    """Return λ of a rule of the library, or its ζ.

    Examples
    --------
    >>> lambda_of("GES(0.5)"), lambda_of("GTD()"), lambda_of("TreeBackup(0.99)+Correction")
    (0.5, None, 0.99)
    """
    rule = _rule_of(description)
    return None if rule is None else rule.trace.parameter


def _rule_of(description: str) -> Rule | None:
    """Return the rule of a text; None if it is not one of the library's."""
    try:
        return stored_rule(description)
    except SaddlebackError:
        return None


def _missing(planned: Mapping[str, list[str]], results: tuple[RuleResults, ...]) -> tuple[str, ...]:
    """Name the problems without any results, and the rules without any on the others."""
    present = {(result.problem, result.rule) for result in results}
    names = []
    for problem, rules in planned.items():
        absent = [rule for rule in rules if (problem, rule) not in present]
        names += [problem] if absent == rules else [f"{rule} on {problem}" for rule in absent]
    return tuple(names)


def _with_problem(table: pa.Table, shard: str) -> pa.Table:
    """Return the rows of a shard with a column for the problem."""
    if "problem" in table.column_names:
        return table
    return table.append_column("problem", pa.array([case_of(shard)] * table.num_rows))


def _split(table: pa.Table, metrics: list[str], study: Mapping[str, Any]) -> Iterator[RuleResults]:
    """Split the rows by problem and rule."""
    problems, problem_index = _encoded(table["problem"])
    rules, rule_index = _encoded(table["rule"])
    columns = {name: table[name].to_numpy() for name in (*REQUIRED, *metrics) if name != "rule"}
    for i, problem in enumerate(problems):
        in_problem = problem_index == i
        for j in dict.fromkeys(rule_index[in_problem].tolist()):
            chosen = in_problem & (rule_index == j)
            rows = {name: column[chosen] for name, column in columns.items()}
            description = rule_description(study, problem, rules[j])
            if has_no_dual(description):
                rows["beta"] = np.full_like(rows["beta"], np.nan)
            lam = lambda_of(description)
            if "lam" in table.column_names:
                first = float(table["lam"].to_numpy()[chosen][0])
                lam = None if np.isnan(first) else first
            yield _arrays(problem, rules[j], lam, rows, metrics)


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], IntArray]:
    """Distinct texts in the order of their first rows, and the index of each row's text."""
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _arrays(
    problem: str, rule: str, lam: float | None, rows: Mapping[str, Any], metrics: list[str]
) -> RuleResults:
    """Arrange the rows of one rule by run, point and setting."""
    alpha, beta = rows["alpha"], rows["beta"]
    ratio = np.divide(beta, alpha, out=np.zeros_like(beta), where=alpha != 0)
    by_ratio = bool(np.isnan(beta).all()) or len(_distinct(ratio)[0]) < len(_distinct(beta)[0])
    alphas, alpha_index = _distinct(alpha)
    omega_steps, omega_index = _distinct(ratio if by_ratio else beta)
    runs, run_index = np.unique(rows["run"], return_inverse=True)
    points, point_index = np.unique(rows["point"], return_inverse=True)
    shape = (len(runs), len(points), len(alphas), len(omega_steps))
    values = {}
    for metric in metrics:
        full = np.full(shape, np.nan)
        full[run_index, point_index, alpha_index, omega_index] = rows[metric]
        values[metric] = full
    diverged_at = np.full((shape[0], *shape[2:]), -1, dtype=np.int64)
    np.maximum.at(diverged_at, (run_index, alpha_index, omega_index), rows["diverged_at"])
    omega_name = "" if np.isnan(omega_steps).all() else "β/α" if by_ratio else "β"
    return RuleResults(
        problem, rule, lam, alphas, omega_steps, omega_name, points, runs, values, diverged_at
    )  # fmt: skip


def _distinct(values: ArrayLike) -> tuple[FloatArray, IntArray]:
    """Distinct numbers, to nine digits, and the index of each value among them.

    Examples
    --------
    >>> _distinct([0.1 + 0.2, 0.3, 0.1])
    (array([0.1, 0.3]), array([1, 1, 0]))
    """
    array = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore"):
        exponent = np.where(array == 0, 0.0, np.floor(np.log10(np.abs(array))))
    scale = 10.0 ** (9 - exponent)
    distinct, index = np.unique(np.round(array * scale) / scale, return_inverse=True)
    return distinct, index
