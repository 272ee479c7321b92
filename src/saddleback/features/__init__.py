"""Features of observations: sparse by nature, compiled, usable on arrays."""

from saddleback.features.tiles import Tiles

__all__ = ["Tiles"]
