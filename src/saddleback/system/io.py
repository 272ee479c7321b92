"""Systems on disk: their matrices and rule in an ``.npz`` file. Nothing is pickled."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from saddleback import _npz, _validate
from saddleback.engine import Moments
from saddleback.errors import InvalidParameter
from saddleback.rules import Rule, as_rule
from saddleback.rules.parse import stored_rule
from saddleback.system.system import System

SCHEMA = 3
"""Version of the file format."""


def save(system: System, path: str | os.PathLike[str]) -> Path:
    """Write a system to an ``.npz`` file, atomically.

    The file holds A, b, M, C, standard errors, batches and the rule, but not the problem.

    Examples
    --------
    >>> import tempfile
    >>> from saddleback import GES, problems
    >>> system = System.exact(problems.two_state(gamma=0.9), GES(0.4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(system, Path(folder) / "two.npz"))
    System(GES(0.4), p=2, rank=2)
      the semi-gradient update θ + α(Aθ + b) diverges for every α: A has an eigenvalue with real
      part 0.015625.
    """
    _validate.instance("save", "system", system, System)
    target = Path(path)
    if target.suffix != ".npz":
        raise InvalidParameter(f"a system is saved as an .npz file, got {str(path)!r}.")
    arrays: dict[str, Any] = {name: getattr(system, name) for name in ("A", "b", "M", "C")}
    if system.A_mu is not None:
        arrays["A_mu"] = system.A_mu
    if system.errors is not None:
        arrays |= {f"errors_{n}": a for n, a in system.errors._asdict().items()}
    if system.batches is not None:
        for n in Moments._fields:
            arrays[f"batches_{n}"] = np.array([getattr(batch, n) for batch in system.batches])
        arrays["batch_steps"] = np.array(system.batch_steps)
    rule = system.rule
    _npz.write(target, {"schema": SCHEMA, "rule": rule.spec, "label": rule.label}, arrays)
    return target


def load(path: str | os.PathLike[str], rule: Rule | str | None = None) -> System:
    """Read a system that `save` wrote.

    Parameters
    ----------
    path
        The file.
    rule
        The rule of the system, which is needed if it is your own: no code is imported from the
        file.

    Examples
    --------
    >>> import tempfile
    >>> from saddleback import GQ, problems
    >>> system = System.exact(problems.two_state(gamma=0.9), GQ(0.4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = load(save(system, Path(folder) / "two.npz"))
    >>> np.array_equal(loaded.A, system.A), loaded.problem
    (True, None)
    """
    given = [] if rule is None else [as_rule(rule)]
    system = _npz.read(path, SCHEMA, "a system", partial(_build, given))
    if given and given[0] != system.rule:
        raise InvalidParameter(f"{path} is the system of {system.rule}, not of {given[0]}.")
    return system


def _build(given: list[Rule], arrays: dict[str, Any], metadata: dict[str, Any]) -> System:
    """Build a system from the content of a file."""
    rule = replace(stored_rule(metadata["rule"], given), label=metadata["label"])
    errors = batches = steps = None
    if "errors_A" in arrays:
        errors = Moments(*(arrays[f"errors_{n}"] for n in Moments._fields))
    if "batches_A" in arrays:
        columns = [arrays[f"batches_{n}"] for n in Moments._fields]
        for name, column in zip(Moments._fields, columns, strict=True):
            _validate.finite(f"batches_{name}", column)
        batches = [Moments(*batch) for batch in zip(*columns, strict=True)]
        steps = int(arrays["batch_steps"])
    matrices = {name: arrays[name] for name in ("A", "b", "M", "C", "A_mu") if name in arrays}
    return System(**matrices, rule=rule, errors=errors, batches=batches, batch_steps=steps)
