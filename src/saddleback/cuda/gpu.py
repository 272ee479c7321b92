"""The GPU, through CuPy: memory, copies that overlap with the kernel, and the kernel itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from saddleback.cuda.learner_tiles import TILE
from saddleback.errors import InvalidParameter

SOURCE = Path(__file__).with_name("update_kernel.cu")
"""The kernel, which NVRTC compiles on first use; CuPy keeps the result on disk."""


class Device:
    """The current CUDA device; ``xp`` is the array module of its memory, CuPy."""

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError:
            raise InvalidParameter(
                'device "cuda" needs CuPy: pip install "saddleback[cuda]".'
            ) from None
        try:
            number = cupy.cuda.runtime.getDevice()
            properties = cupy.cuda.runtime.getDeviceProperties(number)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise InvalidParameter(
                f'device "cuda" needs a CUDA GPU, and CuPy finds none ({error}).'
            ) from None
        self.xp: Any = cupy
        self.to_host, self.slot = cupy.asnumpy, partial(Slot, cupy)
        self.name: str = properties["name"].decode()
        self.shared_memory: int = properties["sharedMemPerBlockOptin"]
        self._copying = cupy.cuda.Stream(non_blocking=True)

    def memory(self) -> tuple[int, int]:
        """Return the free and the total memory, in bytes."""
        self.xp.get_default_memory_pool().free_all_blocks()
        free, total = self.xp.cuda.runtime.memGetInfo()
        return int(free), int(total)

    def launch(
        self, slot: Slot, sizes: Mapping[int, int], tiles: int, shared: int, further: bool,
        arguments: Any,
    ) -> None:  # fmt: skip
        """Copy the first bytes of some buffers of a slot, then run the kernel; return at once."""
        for number, size in sizes.items():
            slot.buffers[number][:size].set(slot.host[number][:size], stream=self._copying)
        stream = self.xp.cuda.get_current_stream()
        stream.wait_event(self._copying.record())
        kernel = compiled_kernel(self.xp, arguments[-2].dtype.name, further)
        if shared > kernel.max_dynamic_shared_size_bytes:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel((tiles,), (TILE,), arguments, shared_mem=shared)
        stream.record(slot.used)


class Slot:
    """Buffers of a chunk: in page-locked memory of the host, and in the memory of the device."""

    def __init__(self, xp: Any, buffers: int) -> None:
        self._xp, self.used = xp, xp.cuda.Event(disable_timing=True)
        self.host: list[Any] = [np.zeros(0, np.uint8)] * buffers
        self.buffers: list[Any] = [xp.zeros(0, np.uint8)] * buffers

    def reserve(self, number: int, size: int) -> tuple[Any, int]:
        """Return a buffer of at least ``size`` bytes to fill in, and its address on the device."""
        self.used.synchronize()
        if len(self.host[number]) < size:
            import cupyx

            self.host[number] = cupyx.empty_pinned(size + size // 4, np.uint8)
            self.buffers[number] = self._xp.empty(size + size // 4, np.uint8)
        return self.host[number], int(self.buffers[number].data.ptr)


@cache
def compiled_kernel(xp: Any, dtype: str, further: bool) -> Any:
    """Return the kernel for a type of numbers and kinds of traces, compiled or from the disk."""
    real = {"float64": "double", "float32": "float"}[dtype]
    options = (f"-DREAL={real}", f"-DFURTHER={further:d}", "-std=c++17", "-fmad=false")
    module = xp.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=options)
    return module.get_function("advance_learners")


@cache
def current_device() -> Device:
    """Return the device, or refuse if there is none."""
    return Device()
