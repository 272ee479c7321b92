"""Compilation of kernels; the only module that imports Numba.

Fast-math stays off: it would let the compiler assume that NaN and infinity never occur, and
learners must detect them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, config, event, types
from numba.extending import intrinsic

Kernel = TypeVar("Kernel", bound=Callable[..., object])

# Kernels are never called from C, and subroutines never from Python; the wrappers for that would
# take a tenth of the compile time.
KERNEL: dict[str, Any] = {
    "cache": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True
}  # fmt: skip
PART: dict[str, Any] = {**KERNEL, "no_cpython_wrapper": True}


def compiled(kernel: Kernel) -> Kernel:
    """Compile a function of numbers, arrays and records; the machine code is cached on disk.

    The cache is the first folder that can be written: ``NUMBA_CACHE_DIR``, ``__pycache__`` beside
    the module, or ``numba`` in the user's folder for caches. Without any, every process compiles.
    """
    return _compile(kernel, **KERNEL)


def subroutine(kernel: Kernel) -> Kernel:
    """Compile a function that only kernels call."""
    return _compile(kernel, **PART)


def inlined(kernel: Kernel) -> Kernel:
    """Compile a small function that is inlined into the kernels that call it."""
    return _compile(kernel, **PART, forceinline=True)


def _prefetch(typing_context: Any, table: Any, row: Any, column: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        places = [
            context.cast(builder, place, given, types.intp)
            for place, given in zip(arguments[1:], signature.args[1:], strict=True)
        ][: kind.ndim]
        array = context.make_array(kind)(context, builder, arguments[0])
        locate: Any = cgutils.get_item_pointer
        address = locate(context, builder, kind, array, places)
        pointer, flag = cgutils.voidptr_t, cgutils.int32_t
        fetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        )
        to_write, keep, data = flag(1), flag(3), flag(1)
        builder.call(fetch, [builder.bitcast(address, pointer), to_write, keep, data])
        return context.get_dummy_value()

    return types.void(table, row, column), generate


def _no_prefetch(table: Any, row: Any, column: Any) -> None:
    pass


prefetch: Any = _no_prefetch if config.DISABLE_JIT else intrinsic(_prefetch)  # type: ignore[attr-defined]
"""Start to load ``table[row, column]``, or ``table[row]``, from memory without waiting for it."""


def _compile(kernel: Kernel, **options: Any) -> Kernel:
    try:
        dispatcher: Any = numba.njit(**options)(kernel)
    except RuntimeError:  # no folder for a cache can be written
        if not options["cache"]:
            raise
        return _compile(kernel, **options | {"cache": False})
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if file is not None:
        file._load_index = _skip_unreadable(file._load_index)
    return cast(Kernel, dispatcher)


def _skip_unreadable(load: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """Treat a cache that names records of another version as empty, so that it is rewritten."""

    def load_index() -> dict[Any, Any]:
        try:
            return load()
        except (AttributeError, ImportError):
            return {}

    return load_index


class _Announcement(event.Listener):
    """Logs, once per process, that kernels are being compiled rather than loaded from disk."""

    def __init__(self) -> None:
        self._done = False

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__ or ""
        if module.startswith("saddleback.") and not self._done:
            self._done = True
            cached = hasattr(event.data["dispatcher"]._cache, "_cache_file")
            when = "once per machine" if cached else "each time: set NUMBA_CACHE_DIR to keep them"
            logging.getLogger("saddleback").info(f"compiling kernels (about 5 s, {when}) …")

    def on_end(self, event: Any) -> None:
        """Nothing to do."""


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]
