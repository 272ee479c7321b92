"""The value of a policy from a log: sums that add up, and estimates made of them."""

from saddleback.evaluation.estimator import FQE, LSTD, Estimator, default_rule
from saddleback.evaluation.importance import importance_sampling
from saddleback.evaluation.robust import doubly_robust
from saddleback.evaluation.saddle import SVRG
from saddleback.evaluation.statistics import Statistics
from saddleback.evaluation.storage import load_statistics, save_statistics
from saddleback.evaluation.streamed import Streamed
from saddleback.evaluation.trajectories import Trajectories
from saddleback.evaluation.weighted import Weighted

__all__ = [
    "FQE", "LSTD", "SVRG", "Estimator", "Statistics", "Streamed", "Trajectories", "Weighted",
    "default_rule", "doubly_robust", "importance_sampling", "load_statistics", "save_statistics",
]  # fmt: skip
