"""The value of a policy from a log: mergeable statistics, and estimates computed from them."""

from saddleback.evaluation.doubly_robust import doubly_robust
from saddleback.evaluation.episode_weights import Trajectories
from saddleback.evaluation.estimate import WeightedEstimate
from saddleback.evaluation.estimator import Estimator, default_rule
from saddleback.evaluation.fqe import FQE
from saddleback.evaluation.importance_sampling import importance_sampling
from saddleback.evaluation.lstd import LSTD
from saddleback.evaluation.statistics import Statistics
from saddleback.evaluation.statistics_io import load_statistics, save_statistics
from saddleback.evaluation.streaming import Streamed
from saddleback.evaluation.svrg_estimator import SVRG

__all__ = [
    "FQE", "LSTD", "SVRG", "Estimator", "Statistics", "Streamed", "Trajectories",
    "WeightedEstimate", "default_rule", "doubly_robust", "importance_sampling", "load_statistics",
    "save_statistics",
]  # fmt: skip
