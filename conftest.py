"""Less garbage collection in examples and tests, which takes a tenth of the time by default."""

import gc

import pytest

gc.set_threshold(30_000, 20, 20)  # compilers and parsers allocate much that is not garbage


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without it: what is imported stays, and need not be scanned later either."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
