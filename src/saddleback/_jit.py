"""The only place that knows how kernels are compiled.

No fast-math: it would let the compiler assume that NaN and infinity never happen, and noticing
them is a feature here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

Kernel = TypeVar("Kernel", bound=Callable[..., object])

# Nobody calls kernels from C, and parts of kernels are not called from Python either: the wrappers
# for that would take a tenth of the time of compiling.
KERNEL: dict[str, Any] = {
    "cache": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True
}  # fmt: skip
PART: dict[str, Any] = {**KERNEL, "no_cpython_wrapper": True}


def compiled(kernel: Kernel) -> Kernel:
    """Compile a plain function of numbers and arrays, and keep the result on disk."""
    return cast(Kernel, numba.njit(**KERNEL)(kernel))


def part(kernel: Kernel) -> Kernel:
    """Compile a part of kernels, which only they call."""
    return cast(Kernel, numba.njit(**PART)(kernel))


def inlined(kernel: Kernel) -> Kernel:
    """Compile a small part of a kernel, to be written out where it is called."""
    return cast(Kernel, numba.njit(**PART, forceinline=True)(kernel))


class _Announcement(event.Listener):
    """Logs, once a process, that kernels are compiled rather than read from disk."""

    def __init__(self) -> None:
        self._done = False

    def on_start(self, event: Any) -> None:
        ours = (event.data["dispatcher"].py_func.__module__ or "").startswith("saddleback.")
        if ours and not self._done:
            self._done = True
            logging.getLogger("saddleback").info(
                "compiling kernels (about 5 s, once per machine) …"
            )

    def on_end(self, event: Any) -> None:
        """Nothing to do."""


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]
