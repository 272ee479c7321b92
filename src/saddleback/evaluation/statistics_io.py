"""Statistics on disk: plain arrays in one ``.npz`` file, and their setting in words.

Only features that were ever met are written, so a file is as large as what was seen.
"""

from __future__ import annotations

import io
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback.evaluation.log_counts import Portrait, Tally
from saddleback.evaluation.statistics import Statistics
from saddleback.evaluation.statistics_key import Setting
from saddleback.log import Finding
from saddleback.system.io import pack, read, rule_from, rule_words, write

SCHEMA = 4
"""Version of the layout of the file."""

PLAIN = ("steps", "episodes", "squares", "ids", "prints", "unfinished")
COUNTS = ("returns", "rewards", "beyond", "lengths")
PORTRAIT = ("chances", "shape", "ratios", "known", "least")


def save_statistics(sums: Statistics, path: str | os.PathLike[str]) -> Path:
    """Write statistics to a file, whole or not at all.

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
    write(target, *_plain(sums), squeeze=False)
    return target


def packed_statistics(sums: Statistics) -> bytes:
    """Return what `save_statistics` writes."""
    file = io.BytesIO()
    pack(file, *_plain(sums), squeeze=False)
    return file.getvalue()


def _plain(sums: Statistics) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return statistics as words and arrays."""
    met = np.flatnonzero((np.diag(sums.M) > 0) | (sums.A != 0).any(axis=(0, 1, 2, 3)))
    met = np.union1d(met, np.flatnonzero((sums.starts != 0).any(axis=(0, 1))))
    met = np.union1d(met, np.flatnonzero((sums.tally.mass != 0).any(axis=0)))
    arrays: dict[str, Any] = {name: getattr(sums, name) for name in PLAIN}
    arrays |= {name: getattr(sums.tally, name) for name in COUNTS}
    arrays |= {
        name: np.array([getattr(each, name) for each in sums.tally.portraits]) for name in PORTRAIT
    }
    arrays |= {
        "visits": sums.tally.visits[met],
        "mass": sums.tally.mass[:, met],
        "met": met,
        "A": sums.A[..., met[:, None], met],
        "b": sums.b[..., met],
        "M": sums.M[np.ix_(met, met)],
        "starts": sums.starts[..., met],
    }
    words = {
        "schema": SCHEMA,
        "setting": asdict(sums.setting) | {"rules": [rule_words(r) for r in sums.setting.rules]},
        "estimated": sums.estimated,
        "findings": [(each.code, each.message) for each in sums.findings],
    }
    return words, arrays


def load_statistics(path: str | os.PathLike[str]) -> Statistics:
    """Read statistics that `save_statistics` wrote.

    Examples
    --------
    >>> load_statistics("nothing.stats")
    Traceback (most recent call last):
    ...
    saddleback.errors.InvalidParameter: cannot read nothing.stats: No such file or directory.
    """
    return read(path, SCHEMA, "statistics", _build)


def _build(arrays: dict[str, Any], words: dict[str, Any]) -> Statistics:
    given = words["setting"]
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    setting = Setting(**(given | lists | {"rules": tuple(map(rule_from, given["rules"]))}))
    p, met = setting.p, arrays["met"]
    lead = (len(setting.targets), len(setting.rules), setting.blocks)
    for name, expected in _shapes(setting, len(met), len(arrays["ids"])).items():
        _validate.shape(name, arrays[name], expected)
    A, b, M = np.zeros((*lead, p, p)), np.zeros((*lead, p)), np.zeros((p, p))
    starts, visits, mass = np.zeros((lead[0], lead[2], p)), np.zeros(p), np.zeros((lead[0], p))
    A[..., met[:, None], met], b[..., met] = arrays["A"], arrays["b"]
    M[np.ix_(met, met)], starts[..., met] = arrays["M"], arrays["starts"]
    visits[met], mass[:, met] = arrays["visits"], arrays["mass"]
    for name in ("A", "b", "M", "starts"):
        _validate.finite(name, arrays[name])
    plain = {name: arrays[name] for name in PLAIN}
    portraits = tuple(map(Portrait, *(arrays[name] for name in PORTRAIT)))
    return Statistics(
        setting, A, b, M, starts, **plain,
        tally=Tally(visits, mass, **{name: arrays[name] for name in COUNTS}, portraits=portraits),
        estimated=words["estimated"],
        findings=tuple(Finding(code, message) for code, message in words["findings"]),
    )  # fmt: skip


def _shapes(setting: Setting, met: int, episodes: int) -> dict[str, tuple[int | str, ...]]:
    """Return the shape of each array."""
    T, R, B, K = len(setting.targets), len(setting.rules), setting.blocks, len(setting.actions)
    return {
        "A": (T, R, B, met, met), "b": (T, R, B, met), "M": (met, met), "starts": (T, B, met),
        "visits": (met,), "mass": (T, met), "steps": (B,), "episodes": (B,), "squares": (T,),
        "prints": (episodes,), "unfinished": (episodes,), "returns": (B, 3), "rewards": (2,),
        "beyond": (1,), "lengths": ("n", 2), "chances": (T, K), "shape": (T, 3),
        "ratios": (T, 4, 1, K), "known": (T, 2, 1, K), "least": (T, K),
    }  # fmt: skip
