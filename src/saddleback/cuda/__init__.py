"""Learners on a CUDA GPU, beside the engine and with its interface.

The CPU produces experience and features, and the shared trace of each rule, chunk by chunk.
"""

from saddleback.cuda.gpu import current_device
from saddleback.cuda.learner_tiles import LearnerTiles
from saddleback.cuda.tile_workers import SLOTS, TileWorkers, bytes_needed

__all__ = ["SLOTS", "LearnerTiles", "TileWorkers", "bytes_needed", "current_device"]
