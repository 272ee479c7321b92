"""Features of observations: sparse by nature, usable on arrays, and by the engine."""

from saddleback.features.base import Active, Features
from saddleback.features.basis import RBF, Fourier, OneHot, Polynomial
from saddleback.features.custom import Custom, Given
from saddleback.features.tiles import Tiles

__all__ = [
    "RBF", "Active", "Custom", "Features", "Fourier", "Given", "OneHot", "Polynomial", "Tiles",
]  # fmt: skip
