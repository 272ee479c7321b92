"""A device that runs the CUDA kernel on the CPU."""

import pytest

from helpers.cuda_on_cpu import COMPILER, CpuDevice


@pytest.fixture
def emulated(monkeypatch):
    """The device, in place of a GPU."""
    if COMPILER is None:
        pytest.skip("no C++ compiler to build the kernel with")
    device = CpuDevice()
    monkeypatch.setattr("saddleback.cuda.current_device", lambda: device)
    return device
