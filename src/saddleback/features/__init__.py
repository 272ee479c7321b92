"""Feature maps: sparse features of observations, for arrays and for the engine."""

from saddleback.features.base import Active, Features
from saddleback.features.basis import RBF, Fourier, OneHot, Polynomial
from saddleback.features.custom import Custom, Identity
from saddleback.features.standardised import Monomials, RandomFourier, Scaling
from saddleback.features.tiles import Tiles

__all__ = [
    "RBF", "Active", "Custom", "Features", "Fourier", "Identity", "Monomials", "OneHot",
    "Polynomial", "RandomFourier", "Scaling", "Tiles",
]  # fmt: skip
