"""The only place that knows how kernels are compiled.

No fast-math: it would let the compiler assume that NaN and infinity never happen, and noticing
them is a feature here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a plain function of numbers and arrays, and keep the result on disk."""
    return cast(Kernel, numba.njit(cache=True, error_model="numpy", nogil=True)(kernel))
