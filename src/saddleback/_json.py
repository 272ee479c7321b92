"""Nested data as JSON holds them."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """Return nested data as JSON can hold it: what is not a finite number becomes null.

    Examples
    --------
    >>> plain({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
