"""Statistics on disk: arrays in one ``.npz`` file, with their setting as JSON.

Only active features are written, so the size of a file depends on the data, not on p.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from saddleback import _npz, _validate
from saddleback.engine import copies_of
from saddleback.errors import Fix, InvalidParameter
from saddleback.log import Finding
from saddleback.ope.log_counts import LogCounts
from saddleback.ope.policy_counts import PolicyCounts
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.ope.statistics_pass import check_memory
from saddleback.rules import Rule, as_rules
from saddleback.rules.parse import stored_rule

SCHEMA = 8
"""Version of the file layout."""

STATISTICS_ARRAYS = (
    "steps", "episodes", "squares", "kappa_squares", "ids", "fingerprints", "unfinished",
)  # fmt: skip
COUNT_ARRAYS = ("returns", "rewards", "truncated_weight", "lengths", "altered")
POLICY_ARRAYS = ("action_mass", "totals", "ratios", "residuals", "min_propensity")
WHOLE_NUMBERS = ("steps", "episodes", "lengths", "altered", "active")
NOT_NEGATIVE = (
    *WHOLE_NUMBERS, "squares", "kappa_squares", "visits", "mass", "truncated_weight",
    "action_mass", "min_propensity",
)  # fmt: skip
LARGEST_COUNT = 10**15
"""Largest number of rows; sums of larger ones could overflow."""


class SavedFinding(msgspec.Struct, array_like=True):
    """A `Finding` and its `Fix`, if it has one."""

    code: str
    message: str
    advice: str = ""
    parameter: str = ""
    value: Any = None
    python: str = ""


class SavedStatistics(msgspec.Struct):
    """Everything but the arrays; ``setting`` is a `StatisticsKey` with its rules as text."""

    setting: dict[str, Any]
    estimated: str | None
    findings: list[SavedFinding]


def save_statistics(sums: Statistics, path: str | os.PathLike[str]) -> Path:
    """Write statistics to a file, atomically.

    Examples
    --------
    >>> import tempfile
    >>> from saddleback import GES, features, problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
    >>> tiles = features.Tiles((-1.2, -0.07), (0.6, 0.07), bins=2, tilings=1)
    >>> sums = Statistics.of(log, GES(0.0), "pump:0.8", features=tiles, gamma=0.99)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_statistics(save_statistics(sums, Path(folder) / "day.stats"))
    Statistics(756 steps, 5 episodes, p=27, 1 rule, 1 target)
    """
    _validate.instance("save_statistics", "sums", sums, Statistics)
    target = Path(path)
    _npz.write(target, *_as_arrays(sums), compress=False)
    return target


def packed_statistics(sums: Statistics) -> bytes:
    """Return the bytes that `save_statistics` writes."""
    file = io.BytesIO()
    _npz.pack(file, *_as_arrays(sums), compress=False)
    return file.getvalue()


def _as_arrays(sums: Statistics) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return statistics as a JSON header and arrays."""
    active = np.flatnonzero((np.diag(sums.M) > 0) | (sums.A != 0).any(axis=(0, 1, 2, 3)))
    active = np.union1d(active, np.flatnonzero((sums.starts != 0).any(axis=(0, 1))))
    active = np.union1d(active, np.flatnonzero((sums.counts.mass != 0).any(axis=0)))
    arrays: dict[str, Any] = {name: getattr(sums, name) for name in STATISTICS_ARRAYS}
    arrays |= {name: getattr(sums.counts, name) for name in COUNT_ARRAYS}
    arrays |= {
        name: np.array([getattr(counts, name) for counts in sums.counts.by_target])
        for name in POLICY_ARRAYS
    }
    arrays |= {
        "visits": sums.counts.visits[active],
        "mass": sums.counts.mass[:, active],
        "active": active,
        "A": sums.A[..., active[:, None], active],
        "b": sums.b[..., active],
        "M": sums.M[np.ix_(active, active)],
        "starts": sums.starts[..., active],
    }
    header = {
        "schema": SCHEMA,
        "setting": sums.setting.as_dict()
        | {"rules": [(rule.spec, rule.label) for rule in sums.setting.rules]},
        "estimated": sums.estimated,
        "findings": [
            (finding.code, finding.message, *(astuple(finding.fix) if finding.fix else ()))
            for finding in sums.findings
        ],
    }
    return header, arrays


def load_statistics(
    path: str | os.PathLike[str], rule: Rule | str | Sequence[Rule | str] | None = None
) -> Statistics:
    """Read statistics that `save_statistics` wrote.

    Parameters
    ----------
    path
        The file.
    rule
        A rule of the statistics, or several. Needed if it is your own: no code is imported from
        the file.

    Examples
    --------
    >>> load_statistics("nothing.stats")
    Traceback (most recent call last):
    ...
    saddleback.errors.InvalidParameter: cannot read nothing.stats: No such file or directory.
    """
    given = as_rules(rule) if rule else []
    return _npz.read(path, SCHEMA, "statistics", partial(_build, given))


def _build(given: list[Rule], arrays: dict[str, Any], header: dict[str, Any]) -> Statistics:
    saved = msgspec.convert(header, SavedStatistics)
    specs = msgspec.convert(saved.setting["rules"], list[tuple[str, str]])
    rules = tuple(replace(stored_rule(text, given), label=label) for text, label in specs)
    setting = msgspec.convert(saved.setting | {"rules": rules}, StatisticsKey)
    p, active = setting.p, arrays["active"]
    lead = (len(setting.targets), len(setting.rules), setting.blocks)
    for name, expected in _shapes(setting, len(active), len(arrays["ids"])).items():
        _validate.shape(name, arrays[name], expected)
        if arrays[name].dtype.kind not in "biuf":
            raise InvalidParameter(f"{name} does not hold numbers")
        if name != "min_propensity":  # infinite for an action that was never taken
            _validate.finite(name, arrays[name])
    for name in WHOLE_NUMBERS:
        if arrays[name].dtype.kind not in "iu":
            raise InvalidParameter(f"{name} does not hold whole numbers")
        if arrays[name].max(initial=0) > LARGEST_COUNT:
            raise InvalidParameter(f"{name} is too large")
    for name in NOT_NEGATIVE:
        if (arrays[name] < 0).any():
            raise InvalidParameter(f"{name} is negative")
    if not arrays["steps"].any():
        raise InvalidParameter("its numbers of steps are all 0")
    if arrays["altered"][0] < arrays["steps"].sum():
        raise InvalidParameter("its numbers of rows contradict each other")
    if (np.diff(active, prepend=-1, append=p) <= 0).any():
        raise InvalidParameter("its active features are not numbered in order")
    check_memory(p, math.prod(lead))
    if p % copies_of(len(setting.actions), setting.values, setting.shared).shape[1]:
        raise InvalidParameter("its number of features does not fit its actions")
    A, b, M = np.zeros((*lead, p, p)), np.zeros((*lead, p)), np.zeros((p, p))
    starts, visits, mass = np.zeros((lead[0], lead[2], p)), np.zeros(p), np.zeros((lead[0], p))
    A[..., active[:, None], active], b[..., active] = arrays["A"], arrays["b"]
    M[np.ix_(active, active)], starts[..., active] = arrays["M"], arrays["starts"]
    visits[active], mass[:, active] = arrays["visits"], arrays["mass"]
    plain = {name: arrays[name] for name in STATISTICS_ARRAYS}
    by_target = tuple(map(PolicyCounts, *(arrays[name] for name in POLICY_ARRAYS)))
    return Statistics(
        setting, A, b, M, starts, **plain,
        counts=LogCounts(
            visits, mass, **{name: arrays[name] for name in COUNT_ARRAYS}, by_target=by_target
        ),
        estimated=saved.estimated,
        findings=tuple(
            Finding(code, message, Fix(*fix) if fix[0] else None)
            for code, message, *fix in map(msgspec.structs.astuple, saved.findings)
        ),
    )  # fmt: skip


def _shapes(setting: StatisticsKey, p: int, episodes: int) -> dict[str, tuple[int | str, ...]]:
    """Return the expected shape of each array, with p active features."""
    T, R, B, K = len(setting.targets), len(setting.rules), setting.blocks, len(setting.actions)
    return {
        "A": (T, R, B, p, p), "b": (T, R, B, p), "M": (p, p), "starts": (T, B, p),
        "visits": (p,), "mass": (T, p), "steps": (B,), "episodes": (B,), "squares": (T,),
        "kappa_squares": (T, R),
        "fingerprints": (episodes,), "unfinished": (episodes,), "returns": (B, 3), "rewards": (2,),
        "truncated_weight": (1,), "lengths": ("n", 2), "altered": (14,),
        "action_mass": (T, K), "totals": (T, 3),
        "ratios": (T, 4, 1, K), "residuals": (T, 2, 1, K), "min_propensity": (T, K),
    }  # fmt: skip
