"""Target policies: π in every state of a log, however it is given.

a function f(observations [n, d]) → probabilities [n, K], or "module.py:function"; one that takes
    named columns (`saddleback.policies.named_columns`) gets them by name
columns of the log, "columns" (pi_0, …, and next_pi_0, … on truncated rows) or "columns:NAME"
a fitted scikit-learn classifier, by its predict_proba
a table [S, K] for observations 0, …, S − 1
"uniform", "always:ACTION", "pump:PROBABILITY", and "logged", which is μ itself
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from saddleback import _registry, policies
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter, InvalidShape
from saddleback.log.callable_fingerprint import mark
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.log import Log
from saddleback.log.named_columns import with_columns
from saddleback.log.policy_query import ask, sound
from saddleback.log.segmentation import Piece
from saddleback.policies import Policy

STOCK = ("uniform", "logged", "columns", "always", "pump")


@dataclass(frozen=True, eq=False)
class Target:
    """A target policy that can be asked for π in the states of a log.

    Attributes
    ----------
    name
        What it is called.
    mark
        What tells it from other policies, for merging: its source, numbers or columns.
    policy
        π as a function of observations, or None where it is in the log itself.
    table
        Name of the table of the log that holds π, or None.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
    >>> target = as_target("pump:0.8", log)
    >>> target.name, target.at(np.array([[-0.5, 0.03]]), log.n_actions).round(2)
    ('pump:0.8', array([[0.1, 0.1, 0.8]]))
    """

    name: str
    mark: str
    policy: Policy | None = None
    table: str | None = None

    @property
    def tables(self) -> list[str]:
        """Tables of the log that are needed."""
        return [] if self.table is None else [self.table]

    def probabilities(self, piece: Piece, n_actions: int) -> FloatArray:
        """Return π [m, K] in all states of a piece."""
        if self.policy is not None:
            return ask(f"target {self.name!r}", self.policy, piece.observations, n_actions)
        assert self.table is not None
        pi = piece.tables[self.table]
        unknown = np.isnan(pi[piece.following]).any(axis=1) & piece.continues
        for t in np.flatnonzero(unknown)[:1]:
            episode, step = piece.rows.place(int(piece.index[t]))
            raise LogError(
                [
                    Finding(
                        "E146",
                        f"{self.table}_* says nothing about the observation after truncated rows "
                        f"(first: episode {episode} step {step}): add next_{self.table}_0, … "
                        "there, or give the target as a function.",
                    )
                ]
            )
        return pi

    def behaviour(self, piece: Piece) -> tuple[FloatArray | None, FloatArray | None]:
        """Return μ of the actions taken [n], and the whole of μ in all states [m, K], if known."""
        return piece.propensity, piece.tables.get("mu")

    def at(self, observations: FloatArray, n_actions: int) -> FloatArray:
        """Return π [n, K] for observations that need not be in the log."""
        if self.policy is None:
            raise InvalidParameter(
                f"target {self.name!r} is known only on the rows of the log; give it as a function "
                "to ask about other observations."
            )
        return ask(f"target {self.name!r}", self.policy, observations, n_actions)


def as_target(given: Any, log: Log, name: str | None = None) -> Target:
    """Return a target policy, however it is given.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=1, rng=0)
    >>> as_target("pump:0.8", log).at(np.array([[-0.5, 0.01]]), 3).round(3)
    array([[0.1, 0.1, 0.8]])
    """
    if isinstance(given, Target):
        return given if name is None else replace(given, name=name)
    if isinstance(given, str):
        return _named(given, log, name or given)
    if hasattr(given, "predict_proba") and hasattr(given, "classes_"):
        return _classifier(given, log, name or type(given).__name__)
    if callable(given):
        policy = with_columns(given, log.observation_names)
        return Target(name or str(getattr(given, "__name__", "target")), mark(given), policy)
    try:
        table = np.asarray(given, dtype=np.float64)
        if not table.ndim:
            raise TypeError
    except (TypeError, ValueError):
        raise InvalidParameter(
            "a target is a function, 'module.py:function', 'columns', a fitted classifier, a table "
            f"or one of {', '.join(STOCK)}; got {type(given).__name__}."
        ) from None
    if table.ndim != 2 or table.shape[1] != log.n_actions:
        raise InvalidShape(
            f"a target table must have a row for each observation and {log.n_actions} columns, one "
            f"for each action; got shape {list(table.shape)}."
        )
    sound("target table", table, np.arange(len(table), dtype=np.float64)[:, None])
    digest = hashlib.sha256(table.tobytes()).hexdigest()[:16]
    return Target(name or "table", f"table {digest}", partial(_look_up, table))


def _named(given: str, log: Log, name: str) -> Target:
    kind, _, rest = given.partition(":")
    if kind.endswith(".py"):
        function = load(given)
        if hasattr(function, "predict_proba"):
            return _classifier(function, log, name)
        if not callable(function):
            raise InvalidParameter(
                f"target {given!r} is {type(function).__name__}, not a function from observations "
                "[n, d] to probabilities [n, K]."
            )
        text = mark(function, Path(kind).read_text(encoding="utf-8"))
        policy = with_columns(function, log.observation_names)
        return Target(name, f"{Path(kind).name}:{rest} {text}", policy)
    _registry.check_name("target policy", kind, STOCK)
    if kind == "uniform":
        return Target(name, given, policies.uniform(log.n_actions))
    if kind == "logged":
        if log.behaviour is not None:
            policy = with_columns(log.behaviour, log.observation_names)
            return Target(name, "logged " + mark(log.behaviour), policy)
        if "mu" not in log.layout.tables:
            raise InvalidParameter(
                "target 'logged' needs the whole behaviour policy: columns mu_0, …, or "
                "Log(…, behaviour=function), or estimate_behaviour(log)."
            )
        return Target(name, "logged", table="mu")
    if kind == "columns":
        prefix = rest or "pi"
        if prefix not in log.layout.tables:
            there = ", ".join(log.layout.tables) or "none"
            raise InvalidParameter(
                f"target {given!r}: the log has no columns {prefix}_0, {prefix}_1, …; tables of "
                f"probabilities in it: {there}."
            )
        if len(log.layout.tables[prefix]) != log.n_actions:
            raise LogError(
                [
                    Finding(
                        "E141",
                        f"{prefix}_* has {len(log.layout.tables[prefix])} columns, {log.n_actions} "
                        "actions in the log.",
                    )
                ]
            )
        return Target(name, f"columns {prefix}", table=prefix)
    if kind == "always":
        action = _registry.check_name("action", rest, log.action_names)
        index = log.action_names.index(action)
        return Target(name, given, policies.always(index, log.n_actions))
    try:
        share = float(rest)
    except ValueError:
        raise InvalidParameter(f"target {given!r}: write pump:0.8, a probability.") from None
    return Target(name, given, policies.pump(share))


def load(spec: str) -> Any:
    """Return what ``module.py:name`` names."""
    path, _, attribute = spec.rpartition(":")
    if not path or not attribute:
        file = spec.rstrip(":")
        raise InvalidParameter(f"{spec!r} names a file only; write {file}:function.")
    if not Path(path).is_file():
        raise InvalidParameter(f"{path} is not a file: write path/to/module.py:{attribute}.")
    found = importlib.util.spec_from_file_location(Path(path).stem, path)
    if found is None or found.loader is None:
        raise InvalidParameter(f"{path} is no Python file: write path/to/module.py:{attribute}.")
    module = importlib.util.module_from_spec(found)
    folder = str(Path(path).resolve().parent)
    sys.modules.setdefault(found.name, module)
    sys.path.insert(0, folder)
    try:
        found.loader.exec_module(module)
    except Exception as error:
        raise InvalidParameter(f"{path} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    names = [name for name in vars(module) if not name.startswith("_")]
    return getattr(module, _registry.check_name(f"name in {path}", attribute, names))


def _look_up(table: FloatArray, observations: FloatArray) -> FloatArray:
    """Return the rows of a table that observations name."""
    state = observations[:, 0]
    row = state.astype(np.int64)
    wrong = (observations.shape[1] != 1) | (row != state) | (row < 0) | (row >= len(table))
    for i in np.flatnonzero(np.broadcast_to(wrong, state.shape))[:1]:
        raise ValueError(
            f"a table of {len(table)} rows needs observations 0 … {len(table) - 1}, one whole "
            f"number each; got {observations[i].tolist()}."
        )
    return table[row]


def _classifier(model: Any, log: Log, name: str) -> Target:
    """Return a classifier as a policy: its classes are actions, those it never saw have π = 0."""
    places = []
    for label in model.classes_:
        plain = label.item() if hasattr(label, "item") else label
        if isinstance(plain, (bool, float)) and plain == int(plain):
            plain = int(plain)
        text = str(plain)
        if text not in log.action_names:
            raise InvalidParameter(
                f"target {name!r}: the classifier's class {plain!r} is not an action of the log "
                f"({', '.join(log.action_names)}); name the actions: actions=[…]."
            )
        places.append(log.action_names.index(text))

    policy = partial(_scattered, _by_name(model, log, name), places, log.n_actions)
    probe = np.random.default_rng(0).normal(size=(64, log.dimensions))
    digest = hashlib.sha256(np.asarray(policy(probe)).round(12).tobytes()).hexdigest()[:16]
    return Target(name, f"{type(model).__name__} {digest}", policy)


def _scattered(
    policy: Policy, places: list[int], n_actions: int, observations: FloatArray
) -> FloatArray:
    """Return probabilities of some of the actions in their places among all."""
    found = np.zeros((len(observations), n_actions))
    found[:, places] = policy(observations)
    return found


def _by_name(model: Any, log: Log, name: str) -> Policy:
    """Return the classifier's probabilities, its columns found by name if it knows their names."""
    there = list(log.layout.observations)
    names = [str(each) for each in getattr(model, "feature_names_in_", ())]
    wanted = len(names) or getattr(model, "n_features_in_", log.dimensions)
    if wanted != log.dimensions or (names and set(names) != set(there)):
        expected = f"{wanted} columns" + (f" ({', '.join(names)})" if names else "")
        raise LogError(
            [
                Finding(
                    "E140",
                    f"obs has {log.dimensions} columns ({', '.join(there)}), target {name!r} "
                    f"expects {expected}. Choose columns: observations=[…].",
                )
            ]
        )
    return partial(_predicted, model, names, [there.index(each) for each in names])


def _predicted(
    model: Any, names: list[str], order: list[int], observations: FloatArray
) -> FloatArray:
    """Return the probabilities of a classifier, which may know its columns by name."""
    if not names:
        return np.asarray(model.predict_proba(observations))
    try:
        import pandas
    except ImportError:
        return np.asarray(model.predict_proba(observations[:, order]))
    frame = pandas.DataFrame(observations[:, order], columns=names)
    return np.asarray(model.predict_proba(frame))
