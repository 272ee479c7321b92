"""Functions of observations that take named columns, ``obs["sofa"]``, instead of positions."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from saddleback._display import frame, join_names
from saddleback._typing import FloatArray
from saddleback.policies import COLUMNS


def with_columns(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Return a function of observations [n, d], converting the argument if necessary.

    A function takes named columns if `saddleback.policies.named_columns` marks it, or if its first
    parameter is annotated as a dict or Mapping, a pandas or polars DataFrame, or an Arrow Table.

    Examples
    --------
    >>> import numpy as np
    >>> def sick(obs: dict) -> object:
    ...     return obs["lactate"] > 2
    >>> with_columns(sick, ["hr", "lactate"])(np.array([[80.0, 3.0], [90.0, 1.0]]))
    array([ True, False])
    """
    kind = columns_kind(function)
    return function if kind is None else partial(_call, function, kind, tuple(names))


def columns_kind(function: Any) -> str | None:
    """Return the type of table a function takes: dict, pandas, polars, pyarrow, or None."""
    wrapped = getattr(function, "__wrapped__", None)  # an adapter has a signature of its own
    if getattr(function, COLUMNS, False) and not getattr(wrapped, COLUMNS, False):
        return "dict"
    try:
        signature = inspect.signature(function, follow_wrapped=False)
        first = next(iter(signature.parameters.values()), None)
    except (TypeError, ValueError):
        return None
    if first is None or first.annotation is inspect.Parameter.empty:
        return None
    return _annotation_kind(_resolve_annotation(function, first))


def _resolve_annotation(function: Any, parameter: inspect.Parameter) -> Any:
    """Return an annotation as a type, or as text if it cannot be resolved."""
    routine = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(routine).get(parameter.name, parameter.annotation)
    except Exception:  # a name that is imported for type checking only
        return parameter.annotation


def _annotation_kind(annotation: Any) -> str | None:
    if isinstance(annotation, str):
        name = annotation.partition("[")[0].rpartition(".")[2].strip()
        if name in ("dict", "Mapping"):
            return "dict"
        if name == "Table":
            return "pyarrow"
        if name == "DataFrame":
            return "polars" if annotation.startswith(("pl.", "polars.")) else "pandas"
        return None
    origin = typing.get_origin(annotation) or annotation
    if origin in (dict, Mapping):
        return "dict"
    root = getattr(origin, "__module__", "").partition(".")[0]
    if root in ("pandas", "polars", "pyarrow") and origin.__name__ in ("DataFrame", "Table"):
        return str(root)
    return None


def _categories_as_text(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text of categorical columns, of which there is one entry ``ward=icu`` per value.

    Examples
    --------
    >>> _categories_as_text({"ward=er": np.array([1.0, 0.0]), "ward=icu": np.array([0.0, 1.0])})
    {'ward': array(['er', 'icu'], dtype='<U3')}
    """
    groups: dict[str, dict[str, Any]] = {}
    for name, column in columns.items():
        group, separator, value = name.partition("=")
        if separator:
            groups.setdefault(group, {})[value] = column
    return {
        name: np.array(list(group))[np.argmax(list(group.values()), axis=0)]
        for name, group in groups.items()
    }


def _call(
    function: Callable[..., Any],
    kind: str,
    names: Sequence[str],
    observations: FloatArray,
    *others: Any,
) -> Any:
    """Call a function with the columns of observations by name, and its other arguments."""
    columns = dict(zip(names, observations.T, strict=True))
    columns = _categories_as_text(columns) | columns
    argument: Any = columns
    if kind == "pyarrow":
        import pyarrow as pa

        argument = pa.table(columns)
    elif kind != "dict":
        argument = frame(kind, columns)
    try:
        return function(argument, *others)
    except KeyError as error:
        if error.args and error.args[0] in names:
            raise
        raise KeyError(
            f"{error.args[0] if error.args else ''}: the observation has the columns "
            f"{join_names(names)}"
        ) from error
