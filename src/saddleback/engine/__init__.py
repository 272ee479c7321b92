"""The engine: experience becomes streams of numbers, and one kernel runs every rule on them."""

from saddleback.engine.chunking import Chunker, record_points
from saddleback.engine.count_kernels import (
    TakenActions,
    count_calibration,
    count_mass,
    count_policy,
    count_ratios,
    count_visits,
)
from saddleback.engine.episode_fold import EpisodeFold
from saddleback.engine.expected_update import ExpectedLearners
from saddleback.engine.experience import CHUNK, Experience, TransitionSampler, sample
from saddleback.engine.feature_stream import LoggedStreamer, Trajectory, copies_of
from saddleback.engine.influence_scores import InfluenceScores
from saddleback.engine.learner_batch import Learners, update_settings
from saddleback.engine.metrics import MeasuredWeights, Metric, Quadratic
from saddleback.engine.moments import BackwardMoments, BatchMoments, Moments
from saddleback.engine.offline_update import OfflineLearners
from saddleback.engine.schedule import Schedule, StepSize, as_schedule, inverse, inverse_sqrt
from saddleback.engine.sources import FiniteSource, Simulation, Source, as_source, mean_length
from saddleback.engine.stream_columns import Columns
from saddleback.engine.user_stream import Stream
from saddleback.engine.worker_threads import Workers

__all__ = [
    "CHUNK",
    "BackwardMoments",
    "BatchMoments",
    "Chunker",
    "Columns",
    "EpisodeFold",
    "ExpectedLearners",
    "Experience",
    "FiniteSource",
    "InfluenceScores",
    "Learners",
    "LoggedStreamer",
    "MeasuredWeights",
    "Metric",
    "Moments",
    "OfflineLearners",
    "Quadratic",
    "Schedule",
    "Simulation",
    "Source",
    "StepSize",
    "Stream",
    "TakenActions",
    "Trajectory",
    "TransitionSampler",
    "Workers",
    "as_schedule",
    "as_source",
    "copies_of",
    "count_calibration",
    "count_mass",
    "count_policy",
    "count_ratios",
    "count_visits",
    "inverse",
    "inverse_sqrt",
    "mean_length",
    "record_points",
    "sample",
    "update_settings",
]
