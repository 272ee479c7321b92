"""Names for the array types that signatures share."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

ArrayLike: TypeAlias = npt.ArrayLike
BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]
IndexArray: TypeAlias = npt.NDArray[np.uint32]
"""Indices of features; unsigned, so that compiled code need not look for negative ones."""
OffsetArray: TypeAlias = npt.NDArray[np.uint64]
"""Where rows begin in sparse columns; unsigned for the same reason."""
FloatArray: TypeAlias = npt.NDArray[np.float64]
ComplexArray: TypeAlias = npt.NDArray[np.complex128]
RNG: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None
