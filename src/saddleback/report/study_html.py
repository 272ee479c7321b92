"""A study as a page: curves, step-size maps, the distribution over the grid, best settings.

All settings travel with the page, as means over runs; bands over runs, only of
the best setting of each rule. If that is more than a page should hold, points are left out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from saddleback._typing import FloatArray, IntArray
from saddleback.report.page import page
from saddleback.report.study_charts import charts
from saddleback.report.study_results import Learned, Results
from saddleback.report.theme import COLOURS, CONFIG, DASHES

ROOM = 2_200_000
"""Characters of curves that a page may hold."""

PER_CELL, PER_BAND, PER_POINT = 10.8, 54, 9
"""Characters that a point takes: of the mean curve of a setting, of a band, and its own name."""

NAMES = {
    "mspbe": "MSPBE", "mse": "MSE", "mse_absolute": "MSE, absolute", "norm": "‖θ‖",
    "error": "‖θ − θ*‖, relative", "mspbe_common": "MSPBE of GES",
    "mspbe_paper": "MSPBE as in the paper",
}  # fmt: skip
"""Metrics in words."""


def study_page(study: Results, name: str = "") -> str:
    """Return the page of a study, with a name where it has none itself.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from saddleback.report import read_results
    >>> from saddleback.sweep import Store, parquet_bytes
    >>> import pyarrow as pa
    >>> rows = {"run": [0, 0], "rule": ["GES(0.5)"] * 2, "point": [0, 9], "alpha": [0.1] * 2,
    ...         "beta": [0.1] * 2, "diverged_at": [-1, -1], "mspbe": [1.0, 0.2]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.open(Path(folder) / "s", {"seed": 0}, command="") as store:
    ...         store.put("walk-run00", parquet_bytes(pa.table(rows)))
    ...     text = study_page(read_results(Path(folder) / "s"))
    >>> "GES(0.5)" in text
    True
    """
    stride = thinning(study)
    names = list(dict.fromkeys(each.rule for each in study.learned))
    metrics = sorted(
        study.metrics, key=lambda name: list(NAMES).index(name) if name in NAMES else 99
    )
    problems = list(dict.fromkeys(each.problem for each in study.learned))
    data = {
        "config": CONFIG,
        "charts": charts(),
        "metrics": {name: NAMES.get(name, name) for name in metrics},
        "units": {name: unit(study.manifest.get("study"), name) for name in problems},
        "rules": looks(names),
        "learned": [table(each, study.metrics, stride) for each in study.learned],
    }
    sections = [
        ("curves-title", "Curves"), ("maps-title", "Step sizes"), ("grid-title", "Distribution"),
        ("best-title", "Best settings"), ("gone-title", "Divergence"), ("again", "Reproduction"),
    ]  # fmt: skip
    manifest = study.manifest
    return page(
        "study.html", ("study_rows.js", "study_text.js", "study_controls.js", "study.js"), data,
        title=f"Study: {_title(manifest, name)}", kind="study", sections=sections,
        heading=_title(manifest, name), problems=problems,
        metrics=data["metrics"], rules=data["rules"],
        zeta=any(name.startswith("ABQ") for name in names), schedule=_schedule(manifest),
        settings=sum(each.diverged.size for each in study.learned),
        runs=_runs([len(each.runs) for each in study.learned]), manifest=manifest,
        choices=json.dumps(manifest.get("study"), ensure_ascii=False, indent=1),
        seeds=", ".join(sorted(_seeds(manifest.get("study")))), stride=stride,
        key="(c, k), c the number of the problem" if "cases" in manifest.get("study", {}) else "k",
        single=max(len(each.runs) for each in study.learned) == 1,
        quick="experiment" in manifest["study"] and "--quick" in manifest["command"].split(),
        done=study.done, tasks=study.tasks, missing=study.missing,
    )  # fmt: skip


def _runs(counts: Sequence[int]) -> str:
    """How many runs each rule has on each problem, in words.

    Examples
    --------
    >>> _runs([1, 1]), _runs([10, 10]), _runs([3, 10])
    ('1 run each', '10 runs each', '3 to 10 runs each')
    """
    low, high = min(counts), max(counts)
    words = f"{high}" if low == high else f"{low} to {high}"
    return f"{words} run{'' if high == 1 else 's'} each"


def thinning(study: Results) -> int:
    """Every how manieth point is kept, so that all curves fit."""
    size = sum(
        len(each.points)
        * (len(study.metrics) * (PER_CELL * each.diverged.size + PER_BAND) + PER_POINT)
        for each in study.learned
    )
    return max(1, int(np.ceil(size / ROOM)))


def unit(study: Any, problem: str) -> str:
    """In what points are counted, as far as the study says."""
    case = study.get(problem) if isinstance(study, dict) else None
    for each in study.get("cases", ()) if isinstance(study, dict) else ():
        if each["label"] == problem:
            return str(each["unit"])
    known = [each for each in (case, study) if isinstance(each, dict)]
    return "episodes" if any("episodes" in each for each in known) else "steps"


def looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and dashes of each rule: a colour for a family, dashes for those in it.

    While any are left, no two rules look the same.

    Examples
    --------
    >>> found = looks([f"GES(0.{k})" for k in range(8)])
    >>> len({(each["colour"], str(each["dash"])) for each in found.values()})
    8
    """
    families = list(dict.fromkeys(name.partition("(")[0] for name in names))
    kinds, colours, taken = len(DASHES), len(COLOURS), set()
    found = {}
    for name in names:
        first = families.index(name.partition("(")[0])
        ways = [((first + n // kinds) % colours, n % kinds) for n in range(colours * kinds)]
        own = next((way for way in ways if way not in taken), ways[0])
        taken.add(own)
        found[name] = {"colour": COLOURS[own[0]], "dash": DASHES[own[1]]}
    return found


def table(each: Learned, metrics: Sequence[str], stride: int) -> dict[str, Any]:
    """Return one rule on one problem as plain data."""
    keep = np.arange(len(each.points))[::-1][::stride][::-1]  # the last point always
    return {
        "problem": each.problem,
        "rule": each.rule,
        "lam": each.lam,
        "alphas": each.alphas.tolist(),
        "seconds": each.seconds.tolist(),
        "second": each.second,
        "points": each.points[keep].tolist(),
        "runs": len(each.runs),
        "diverged": each.diverged.ravel().tolist(),
        "first": _first(each),
        "final": {name: _digits(each.mean_final(name).ravel()) for name in metrics},
        "curves": {name: packed(each.values[name][:, keep].mean(axis=0)) for name in metrics},
        "best": {name: best(each, name, keep) for name in metrics},
    }


def best(each: Learned, metric: str, keep: IntArray) -> dict[str, Any] | None:
    """Return the best setting by a metric: its end with an interval, and its curve with a band."""
    at = each.best(metric)
    if at is None:
        return None
    ends = each.final(metric)[:, at[0], at[1]]
    curve = each.values[metric][:, keep, at[0], at[1]]
    mean, half = float(ends.mean()), None
    if len(ends) > 1:
        error = float(ends.std(ddof=1)) / np.sqrt(len(ends))
        half = float(stdtrit(len(ends) - 1, 0.975)) * error
    return {
        "cell": at[0] * len(each.seconds) + at[1], "mean": mean, "half": half,
        "points": each.points[keep].tolist(), "middle": _digits(curve.mean(axis=0)),
        "low": _digits(curve.min(axis=0)), "high": _digits(curve.max(axis=0)),
    }  # fmt: skip


def packed(values: FloatArray) -> str:
    """Return numbers as text, [point, α, second]."""
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


def _first(each: Learned) -> list[int | None]:
    """The first update at which each setting diverged in some run."""
    never = np.iinfo(np.int64).max
    found = np.where(each.diverged_at < 0, never, each.diverged_at).min(axis=0).ravel()
    return [None if value == never else int(value) for value in found]


def _digits(values: FloatArray) -> list[float | None]:
    """Six digits of each number; None for what is not finite."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _title(manifest: Any, name: str) -> str:
    study = manifest.get("study") or {}
    said = (study.get(key) for key in ("title", "experiment", "name"))
    return str(next(filter(None, said), name or "A study"))


def _schedule(manifest: Any) -> str:
    """Name the schedule of the step sizes, where they are not constant."""
    said = manifest["study"].get("schedule", "constant")
    return "" if said == "constant" else str(said)


def _seeds(study: Any) -> set[str]:
    """All seeds that a study names."""
    if isinstance(study, dict):
        own = {str(study["seed"])} if "seed" in study else set()
        return own.union(*(_seeds(each) for each in study.values()))
    if isinstance(study, list):
        return set().union(*(_seeds(each) for each in study))
    return set()
