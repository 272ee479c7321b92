"""Learners on a CUDA GPU, beside the engine and with its interface.

Experience, features and the shared trace of each rule are computed on the CPU, chunk by chunk; one
thread of the GPU per learner makes the updates. Weights stay on the GPU until they are asked for.
"""

from saddleback.cuda.device import current_device
from saddleback.cuda.learner_tiles import Learners, Workers, bytes_needed

__all__ = ["Learners", "Workers", "bytes_needed", "current_device"]
