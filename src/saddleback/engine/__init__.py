"""The engine: experience becomes a stream of numbers, and one kernel runs every rule on it."""

from saddleback.engine.backward import BackwardSums
from saddleback.engine.expected import ExpectedLearners
from saddleback.engine.experience import CHUNK, Experience, Sampler, sample
from saddleback.engine.featured import Trajectory
from saddleback.engine.given import Stream
from saddleback.engine.learners import Learners, Workers
from saddleback.engine.logged import LoggedStreamer, check_logged, copies_of, needs_ratios, taken
from saddleback.engine.offline import OfflineLearners
from saddleback.engine.pieces import Pieces, record_points
from saddleback.engine.schedule import Schedule, StepSize, as_schedule, inverse, inverse_sqrt
from saddleback.engine.scores import Scores
from saddleback.engine.source import FiniteSource, Simulation, Source, as_source
from saddleback.engine.stream import Columns
from saddleback.engine.sums import Moments, Sums
from saddleback.engine.visits import (
    count_known,
    count_mass,
    count_policy,
    count_ratios,
    count_visits,
)

__all__ = [
    "CHUNK",
    "BackwardSums",
    "Columns",
    "ExpectedLearners",
    "Experience",
    "FiniteSource",
    "Learners",
    "LoggedStreamer",
    "Moments",
    "OfflineLearners",
    "Pieces",
    "Sampler",
    "Schedule",
    "Scores",
    "Simulation",
    "Source",
    "StepSize",
    "Stream",
    "Sums",
    "Trajectory",
    "Workers",
    "as_schedule",
    "as_source",
    "check_logged",
    "copies_of",
    "count_known",
    "count_mass",
    "count_policy",
    "count_ratios",
    "count_visits",
    "inverse",
    "inverse_sqrt",
    "needs_ratios",
    "record_points",
    "sample",
    "taken",
]
