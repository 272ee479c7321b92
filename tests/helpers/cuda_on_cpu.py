"""The CUDA kernel compiled as C++, and a device that runs it on the CPU, one thread at a time."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from saddleback.cuda.gpu import SOURCE

SHIM = """
#include <cmath>
#include <cstddef>
using std::fabs;
#define __global__
#define __device__
#define __launch_bounds__(threads, blocks)
#define __noinline__ __attribute__((noinline))
#define __syncwarp()
#define __any_sync(mask, condition) (condition)
#define STAGE static thread_local Quad memory[1 << 16]
#define FIRST 0
#define LANES 1
struct Index { unsigned x; };
static thread_local Index threadIdx, blockIdx, gridDim;
#include "update_kernel.cu"
extern "C" void launch(long long tiles, const Group* groups, const int* group_of_tile, long long p,
                       int max_steps, int max_phi, int max_next, char* weights, real* state,
                       long long* diverged_at) {
    gridDim.x = tiles;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < TILE; threadIdx.x++)
            advance_learners(groups, group_of_tile, p, max_steps, max_phi, max_next, weights,
                             state, diverged_at);
}
"""

OPTIONS = [
    "-std=c++17", "-O2", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-ffp-contract=off", "-shared",
    "-fPIC",
]  # fmt: skip
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")


@functools.cache
def kernel(dtype, further):
    """Compile the kernel for a type of numbers, without contraction to fused multiply-adds."""
    real = {"float64": "double", "float32": "float"}[dtype]
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "shim.cpp", Path(folder) / "shim.so"
        source.write_text(SHIM)
        subprocess.run(
            [
                COMPILER,
                *OPTIONS,
                f"-DREAL={real}",
                f"-DFURTHER={further:d}",
                f"-I{SOURCE.parent}",
                "-o",
                library,
                source,
            ],
            check=True,
        )
        return ctypes.CDLL(str(library)).launch


class CpuDevice:
    """What `saddleback.cuda.gpu.Device` offers, on the CPU."""

    name, xp = "the CPU", np
    free, shared_memory = 10**9, 10**6

    def __init__(self):
        self.launches = 0

    def memory(self):
        return self.free, 10**10

    def to_host(self, array):
        return np.array(array)

    def slot(self, buffers):
        return CpuSlot(buffers)

    def launch(self, slot, sizes, tiles, shared, further, arguments):
        for number, size in sizes.items():
            slot.buffers[number][:size] = slot.host[number][:size]
        self.launches += 1
        address, *rest = arguments
        pointers = [ctypes.c_longlong(tiles), ctypes.c_void_p(int(address))]
        for one in rest:
            if isinstance(one, np.ndarray):
                assert one.flags.c_contiguous
                pointers.append(ctypes.c_void_p(one.ctypes.data))
            else:
                pointers.append({4: ctypes.c_int, 8: ctypes.c_longlong}[one.nbytes](one))
        kernel(arguments[-2].dtype.name, further)(*pointers)


class CpuSlot:
    """Two copies of each buffer, so that one that is not copied is noticed."""

    def __init__(self, buffers):
        self.host = [np.zeros(0, np.uint8)] * buffers
        self.buffers = [np.zeros(0, np.uint8)] * buffers

    def reserve(self, number, size):
        if len(self.host[number]) < size:
            self.host[number] = np.full(size, 255, np.uint8)
            self.buffers[number] = np.full(size, 255, np.uint8)
        return self.host[number], self.buffers[number].ctypes.data
