"""The engine: experience becomes a stream of numbers, and one kernel runs every rule on it."""

from saddleback.engine.expected import ExpectedLearners
from saddleback.engine.experience import Experience, Sampler, sample
from saddleback.engine.learners import Learners
from saddleback.engine.offline import OfflineLearners
from saddleback.engine.schedule import Schedule, StepSize, as_schedule, inverse, inverse_sqrt
from saddleback.engine.stream import Stream, Streamer

__all__ = [
    "ExpectedLearners",
    "Experience",
    "Learners",
    "OfflineLearners",
    "Sampler",
    "Schedule",
    "StepSize",
    "Stream",
    "Streamer",
    "as_schedule",
    "inverse",
    "inverse_sqrt",
    "sample",
]
