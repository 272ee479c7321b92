"""Aliases of array types used in signatures."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

ArrayLike: TypeAlias = npt.ArrayLike
BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]
IndexArray: TypeAlias = npt.NDArray[np.uint32]
"""Feature indices; unsigned, so that compiled code need not handle negative ones."""
OffsetArray: TypeAlias = npt.NDArray[np.uint64]
"""Offsets of rows in sparse columns; unsigned for the same reason."""
FloatArray: TypeAlias = npt.NDArray[np.float64]
ComplexArray: TypeAlias = npt.NDArray[np.complex128]
RNG: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None
