"""Learners on a CUDA GPU, beside the engine and with its interface.

The CPU produces experience and features, and the shared trace of each rule, chunk by chunk.
"""

from saddleback.cuda.device import current_device
from saddleback.cuda.learner_tiles import Learners
from saddleback.cuda.workers import Workers, bytes_needed

__all__ = ["Learners", "Workers", "bytes_needed", "current_device"]
