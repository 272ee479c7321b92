"""A study as a page: curves, step-size maps, the distribution over the grid, best settings.

The page holds the curves of all settings, as medians over runs, and quartiles over runs for the
best setting of each rule. If that is too much for a page, points are omitted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.report.page import page
from saddleback.report.study_charts import charts
from saddleback.report.theme import COLOURS, CONFIG, DASHES
from saddleback.sweep.study_results import RuleResults, StudyResults

MAX_CHARACTERS = 2_200_000
"""Characters of curves that a page may hold."""

PER_CELL, PER_BAND, PER_POINT = 10.8, 54, 9
"""Characters per point: in the curve of a setting, in a band, and for the point itself."""

METRICS = {
    "mspbe_common": "MSPBE of GES", "mse": "MSE", "error": "value error",
    "mse_absolute": "MSE (absolute)", "mspbe": "MSPBE", "mspbe_paper": "MSPBE as in the paper",
    "norm": "‖θ‖",
}  # fmt: skip
"""Titles of metrics. The first ones are the same function of θ for every rule."""


def study_page(study: StudyResults, name: str = "") -> str:
    """Return the page of a study; ``name`` is its title if the study has none.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from saddleback.report import read_results
    >>> from saddleback.sweep import Store, parquet_bytes
    >>> import pyarrow as pa
    >>> rows = {"problem": ["walk"] * 2, "rule": ["GES(0.5)"] * 2, "run": [0, 0], "point": [0, 9],
    ...         "alpha": [0.1] * 2, "beta": [0.1] * 2, "diverged_at": [-1, -1], "mspbe": [1.0, 0.2]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.open(Path(folder) / "s", {"seed": 0}, command="") as store:
    ...         store.put("walk", parquet_bytes(pa.table(rows)))
    ...     text = study_page(read_results(Path(folder) / "s"))
    >>> "GES(0.5)" in text
    True
    """
    stride = thinning(study)
    names = {result.rule: result.name for result in study.rules}
    manifest = study.manifest
    plan = manifest.get("study") or {}
    problems = list(dict.fromkeys(result.problem for result in study.rules))
    metrics = metric_titles(study.metrics, several=len(names) > 1)
    data = {
        "config": CONFIG,
        "charts": charts(),
        "metrics": metrics,
        "units": {name: unit(plan, name) for name in problems},
        "rules": line_styles(names),
        "results": [rule_data(result, study.metrics, stride) for result in study.rules],
    }
    sections = [
        ("curves-title", "Curves"), ("maps-title", "Step sizes"),
        ("distribution-title", "Distribution"), ("best-title", "Best settings"),
        ("divergence-title", "Divergence"), ("reproduction", "Reproduction"),
    ]  # fmt: skip
    title = _title(plan, name)
    return page(
        "study.html", ("study_selection.js", "study_text.js", "study.js"), data,
        title=f"Study: {title}", kind="study", sections=sections, heading=title,
        problems=problems,
        case="case" if any("grid" in case for case in plan.get("cases", ())) else "problem",
        metrics=metrics, rules=data["rules"],
        zeta="ABQ" in names.values(), schedule=_schedule(plan),
        settings=sum(result.diverged.size for result in study.rules),
        runs=_runs([len(result.runs) for result in study.rules]), manifest=manifest,
        definition=json.dumps(manifest.get("study"), ensure_ascii=False, indent=1),
        seeds=", ".join(sorted(_seeds(plan))), stride=stride,
        key="k" if plan.get("common_random_numbers") or "cases" not in plan
        else "(c, k), where c is the number of the problem",
        single=max(len(result.runs) for result in study.rules) == 1,
        quick=bool(plan.get("quick")),
        done=study.done, tasks=study.tasks, missing=study.missing,
    )  # fmt: skip


def metric_titles(metrics: Sequence[str], several: bool) -> dict[str, str]:
    """Return metrics with their titles; those that compare rules on equal terms come first.

    Examples
    --------
    >>> metric_titles(["mspbe", "mse"], several=True)
    {'mse': 'MSE', 'mspbe': "MSPBE (each rule's own)"}
    """
    order = list(METRICS)
    ordered = sorted(metrics, key=lambda name: order.index(name) if name in METRICS else 99)
    own = {"mspbe": "MSPBE (each rule's own)"} if several else {}
    return {name: own.get(name, METRICS.get(name, name)) for name in ordered}


def _runs(counts: Sequence[int]) -> str:
    """Return the number of runs of each rule as text.

    Examples
    --------
    >>> _runs([1, 1]), _runs([10, 10]), _runs([3, 10])
    ('1 run each', '10 runs each', '3 to 10 runs each')
    """
    low, high = min(counts), max(counts)
    count = f"{high}" if low == high else f"{low} to {high}"
    return f"{count} run{'' if high == 1 else 's'} each"


def thinning(study: StudyResults) -> int:
    """Return n such that all curves fit if every n-th point is kept."""
    size = sum(
        len(result.points)
        * (len(study.metrics) * (PER_CELL * result.diverged.size + PER_BAND) + PER_POINT)
        for result in study.rules
    )
    return max(1, int(np.ceil(size / MAX_CHARACTERS)))


def unit(study: Mapping[str, Any], problem: str) -> str:
    """Return the unit of the points: steps, unless the study counts episodes."""
    for case in study.get("cases", ()):
        if case["label"] == problem:
            return str(case["unit"])
    return "episodes" if "episodes" in study else "steps"


def line_styles(names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return colour and dashes of each rule: a colour for an algorithm, dashes within it.

    ``names`` are the names of the algorithms by rule. No two rules look the same unless there are
    more of them than combinations.

    Examples
    --------
    >>> styles = line_styles({f"GES(0.{k})": "GES" for k in range(8)})
    >>> len({(style["colour"], str(style["dash"])) for style in styles.values()})
    8
    """
    algorithms = list(dict.fromkeys(names.values()))
    dashes, colours, used = len(DASHES), len(COLOURS), set()
    styles = {}
    for rule, name in names.items():
        first = algorithms.index(name)
        pairs = [((first + n // dashes) % colours, n % dashes) for n in range(colours * dashes)]
        pair = next((pair for pair in pairs if pair not in used), pairs[0])
        used.add(pair)
        styles[rule] = {"colour": COLOURS[pair[0]], "dash": DASHES[pair[1]]}
    return styles


def rule_data(result: RuleResults, metrics: Sequence[str], stride: int) -> dict[str, Any]:
    """Return the results of one rule on one problem as plain data."""
    keep = np.arange(len(result.points))[::-1][::stride][::-1]  # the last point always
    return {
        "problem": result.problem,
        "rule": result.rule,
        "lam": result.lam,
        "alphas": result.alphas.tolist(),
        "omegaSteps": result.omega_steps.tolist(),
        "omegaName": result.omega_name,
        "points": result.points[keep].tolist(),
        "runs": len(result.runs),
        "diverged": result.diverged.ravel().tolist(),
        "firstDivergence": _first_divergence(result),
        "final": {name: _digits(result.mean_final(name).ravel()) for name in metrics},
        "curves": {name: packed(median_curve(result.values[name][:, keep])) for name in metrics},
        "best": {name: best(result, name, keep) for name in metrics},
    }


def median_curve(values: FloatArray) -> FloatArray:
    """Return the median over runs, [point, α, ω step]; infinite once any run diverged."""
    finite = np.isfinite(values).all(axis=0)
    return np.where(finite, np.median(np.where(finite, values, 0.0), axis=0), values.mean(axis=0))


def best(result: RuleResults, metric: str, keep: IntArray) -> dict[str, Any] | None:
    """Return the best setting by a metric: its final value and its curve, with quartiles."""
    index = result.best(metric)
    if index is None:
        return None
    ends = result.final(metric)[:, index[0], index[1]]
    curve = result.values[metric][:, keep, index[0], index[1]]
    lower, median, upper = np.quantile(ends, (0.25, 0.5, 0.75)).tolist()
    curves = np.quantile(curve, (0.25, 0.5, 0.75), axis=0)
    return {
        "cell": index[0] * len(result.omega_steps) + index[1], "mean": float(ends.mean()),
        "lower": lower, "median": median, "upper": upper, "points": result.points[keep].tolist(),
        "lowerCurve": _digits(curves[0]), "medianCurve": _digits(curves[1]),
        "upperCurve": _digits(curves[2]),
    }  # fmt: skip


def packed(values: FloatArray) -> str:
    """Return an array [point, α, ω step] encoded in base64."""
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


def _first_divergence(result: RuleResults) -> list[int | None]:
    """The first update at which each setting diverged in any run."""
    never = np.iinfo(np.int64).max
    updates = np.where(result.diverged_at < 0, never, result.diverged_at).min(axis=0).ravel()
    return [None if update == never else int(update) for update in updates]


def _digits(values: FloatArray) -> list[float | None]:
    """Round each number to six digits; None where it is not finite."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _title(study: Mapping[str, Any], name: str) -> str:
    titles = (study.get(key) for key in ("title", "name"))
    return str(next(filter(None, titles), name or "Study"))


def _schedule(study: Mapping[str, Any]) -> str:
    """Name the schedule of the step sizes, unless they are constant."""
    schedule = study.get("schedule", "constant")
    return "" if schedule == "constant" else str(schedule)


def _seeds(study: Any) -> set[str]:
    """All seeds in a study."""
    if isinstance(study, Mapping):
        own = {str(study["seed"])} if "seed" in study else set()
        return own.union(*(_seeds(value) for value in study.values()))
    if isinstance(study, list):
        return set().union(*(_seeds(value) for value in study))
    return set()
