"""Results of a study as arrays: for each problem and rule, all settings, runs and points.

A store holds rows in long format: problem, rule, run, point, α, β, the update of divergence, and
the metrics. The summary in a terminal, the figures and the pages all read them here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._typing import ArrayLike, FloatArray, IntArray
from saddleback.errors import InvalidParameter
from saddleback.learning.best_setting import Best, best_setting, mean_over_runs, tail_length
from saddleback.sweep.store import Store
from saddleback.sweep.study import Study
from saddleback.sweep.study_metrics import COLUMNS, metric_column

REQUIRED = ("problem", "rule", "run", "point", "alpha", "beta", "diverged_at")
NOT_RUN = -2
"""Stands for the update of divergence of a setting that was not run."""


@dataclass(frozen=True, eq=False)
class RuleResults:
    """Results of one rule on one problem, for every setting.

    Attributes
    ----------
    problem, rule, name, lam
        Names of problem and rule, the name of the algorithm, and the λ of the rule if known.
    alphas, betas
        Step sizes of θ, and those of ω, [α, ω step].
    omega_steps, omega_name
        Step sizes of ω: values of β or of β/α, and which of the two. NaN and an empty name for a
        rule without ω.
    points, runs
        Points of measurement, and numbers of the runs.
    values
        Metrics by name, [run, point, α, ω step]; infinite once diverged, NaN where not run.
    diverged_at
        The update at which a setting diverged, −1 if it did not, −2 if it was not run,
        [run, α, ω step].

    Examples
    --------
    >>> curves = np.array([[[[1.0], [1.0]], [[0.2], [np.inf]]]])
    >>> results = RuleResults("walk", "GES(0.5)", "GES", 0.5, np.array([0.1, 9.0]),
    ...                       np.array([[0.1], [9.0]]), np.array([1.0]), "β/α",
    ...                       np.array([0, 100]), np.array([0]), {"mspbe": curves},
    ...                       np.array([[[-1], [7]]]))
    >>> results.best("mspbe"), results.diverged.tolist()
    ((0, 0), [[0], [1]])
    """

    problem: str
    rule: str
    name: str
    lam: float | None
    alphas: FloatArray
    betas: FloatArray
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
        return mean_over_runs(self.final(metric), self.diverged_at >= 0)

    def best_setting(self, metric: str) -> Best | None:
        """The setting with the smallest final mean, None if all diverged."""
        alphas = np.broadcast_to(self.alphas[:, None], self.betas.shape)
        return best_setting(metric, self.final(metric), self.diverged_at >= 0, alphas, self.betas)

    def best(self, metric: str) -> tuple[int, int] | None:
        """Index of the best setting, None if all diverged."""
        best = self.best_setting(metric)
        return None if best is None else (best.index[0], best.index[1])

    def curve(self, metric: str) -> FloatArray:
        """Curves of the best setting, or of the first one if all diverged, [point, run]."""
        i, j = self.best(metric) or (0, 0)
        return np.asarray(self.values[metric][:, :, i, j].T)

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

    def on(self, problem: str) -> tuple[RuleResults, ...]:
        """Return the results of all rules on a problem."""
        return tuple(result for result in self.rules if result.problem == problem)


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
    every = [store.shard(shard) for shard in shards]
    tables = [table for table in every if set(REQUIRED) <= set(table.column_names)]
    if not tables:
        if function := store.manifest["study"].get("function"):
            raise InvalidParameter(
                f"{folder} holds results of {function}: a report shows learning only. Its rows: "
                f"saddleback.sweep.Store.load(Path({str(folder)!r})).table()."
            )
        missing = [name for name in REQUIRED if name not in every[0].column_names]
        raise InvalidParameter(
            f"{folder} holds results of another kind, without {', '.join(missing)}: a report needs "
            "a sweep, or a comparison of the paper (two-state, baird, mountain-car)."
        )
    common = set.intersection(*(set(table.column_names) for table in tables))
    rows = pa.concat_tables(
        [table.select([name for name in tables[0].column_names if name in common])
         for table in tables]
    )  # fmt: skip
    metrics = tuple(
        field.name for field in rows.schema
        if field.name not in COLUMNS and pa.types.is_floating(field.type)
    )  # fmt: skip
    if not rows.num_rows or not metrics:
        raise InvalidParameter(f"{folder} has no rows of results: nothing was measured.")
    results = tuple(_split(rows, metrics))
    study = store.manifest["study"]
    if "cases" not in study:  # the number of tasks is unknown, so all count as finished
        return StudyResults(store.manifest, metrics, results, len(shards), len(shards), ())
    plan = Study.from_dict(study)
    tasks = sum(1 for _ in plan.task_specs())
    planned = {
        case.label: [plan.rule_label(r, c) for r in range(len(plan.rules))]
        for c, case in enumerate(plan.cases)
    }
    return StudyResults(
        store.manifest, metrics, results, len(shards), tasks, _missing(planned, results)
    )


def summary(rows: pa.Table, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return, for each problem and rule, the setting with the smallest final value of a metric.

    The metric is the first one, and the first of its values if it has several. Its final value is
    the mean over runs and the last tenth of the checkpoints. Settings that diverged in any run are
    excluded. The standard error is over runs.

    Examples
    --------
    >>> rows = pa.table(
    ...     {
    ...         "problem": ["p"] * 4, "rule": ["GES(0)"] * 4, "run": [0, 1, 0, 1],
    ...         "alpha": [0.1, 0.1, 0.2, 0.2], "beta": [0.1] * 4, "point": [100] * 4,
    ...         "diverged_at": [-1, -1, -1, 40], "mspbe": [1.0, 3.0, 0.5, np.inf],
    ...     }
    ... )  # fmt: skip
    >>> (row,) = summary(rows, ["mspbe"])
    >>> row["best"], row["error"], row["alpha"], row["diverged"], row["settings"]
    (2.0, 1.0, 0.1, 1, 2)
    """
    metric = metric_column(metrics[0], rows.column_names)
    summaries = []
    for result in _split(rows, [metric]):
        best = result.best_setting(metric)
        summaries.append(
            {
                "problem": result.problem, "rule": result.rule,
                "settings": int((result.diverged_at > NOT_RUN).any(axis=0).sum()),
                "diverged": int((result.diverged > 0).sum()), "metric": metric,
                "best": None if best is None else best.value,
                "error": None if best is None else best.error,
                "alpha": None if best is None else best.alpha,
                "beta": None if best is None else best.beta,
            }
        )  # fmt: skip
    return summaries


def _missing(planned: Mapping[str, list[str]], results: tuple[RuleResults, ...]) -> tuple[str, ...]:
    """Name the problems without any results, and the rules without any on the others."""
    present = {(result.problem, result.rule) for result in results}
    names = []
    for problem, rules in planned.items():
        absent = [rule for rule in rules if (problem, rule) not in present]
        names += [problem] if absent == rules else [f"{rule} on {problem}" for rule in absent]
    return tuple(names)


def _split(rows: pa.Table, metrics: Sequence[str]) -> Iterator[RuleResults]:
    """Split the rows by problem and rule."""
    problems, problem_index = _encoded(rows["problem"])
    rules, rule_index = _encoded(rows["rule"])
    names = ("run", "point", "alpha", "beta", "diverged_at", *metrics)
    columns = {name: rows[name].to_numpy() for name in names}
    labels = {name: rows[name] for name in ("name", "lam") if name in rows.column_names}
    for i, problem in enumerate(problems):
        in_problem = problem_index == i
        for j in dict.fromkeys(rule_index[in_problem].tolist()):
            chosen = np.flatnonzero(in_problem & (rule_index == j))
            own = {name: column[chosen] for name, column in columns.items()}
            label = {name: column[int(chosen[0])].as_py() for name, column in labels.items()}
            name, lam = label.get("name") or rules[j], label.get("lam")
            lam = None if lam is None or np.isnan(lam) else float(lam)
            yield _arrays((problem, rules[j], str(name), lam), own, metrics)


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], IntArray]:
    """Distinct texts in the order of their first rows, and the index of each row's text."""
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _arrays(
    labels: tuple[str, str, str, float | None], rows: Mapping[str, Any], metrics: Sequence[str]
) -> RuleResults:
    """Arrange the rows of one rule by run, point and setting."""
    alpha, beta = rows["alpha"], rows["beta"]
    ratio = np.divide(beta, alpha, out=np.zeros_like(beta), where=alpha != 0)
    by_ratio = bool(np.isnan(beta).all()) or len(_distinct(ratio)[0]) < len(_distinct(beta)[0])
    alphas, alpha_index = _distinct(alpha)
    omega_steps, omega_index = _distinct(ratio if by_ratio else beta)
    runs, run_index = np.unique(rows["run"], return_inverse=True)
    points, point_index = np.unique(rows["point"], return_inverse=True)
    alphas[alpha_index] = alpha  # as in the rows, not rounded
    betas = np.full((len(alphas), len(omega_steps)), np.nan)
    betas[alpha_index, omega_index] = beta
    shape = (len(runs), len(points), *betas.shape)
    values = {}
    for metric in metrics:
        full = np.full(shape, np.nan)
        full[run_index, point_index, alpha_index, omega_index] = rows[metric]
        values[metric] = full
    diverged_at = np.full((len(runs), *betas.shape), NOT_RUN, dtype=np.int64)
    np.maximum.at(diverged_at, (run_index, alpha_index, omega_index), rows["diverged_at"])
    omega_name = "" if np.isnan(omega_steps).all() else "β/α" if by_ratio else "β"
    return RuleResults(
        *labels, alphas, betas, omega_steps, omega_name, points, runs, values, diverged_at
    )


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
