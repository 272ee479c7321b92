"""Off-policy evaluation: the value of a policy from a log, and whether the answer is reliable."""

from saddleback.ope.baseline import Baseline
from saddleback.ope.decisions import Decisions
from saddleback.ope.diagnosis import Diagnosis
from saddleback.ope.doubly_robust import doubly_robust
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.estimate import Estimate, WeightedEstimate
from saddleback.ope.estimator import Estimator, default_rule
from saddleback.ope.evaluate import evaluate
from saddleback.ope.evaluate_statistics import evaluate_statistics
from saddleback.ope.fqe import FQE
from saddleback.ope.gates import BANDIT_CHECKS, CHECKS, Gate
from saddleback.ope.importance_sampling import importance_sampling
from saddleback.ope.lstd import LSTD
from saddleback.ope.model_distribution import model_return_distribution
from saddleback.ope.ranking import Ranking, rank
from saddleback.ope.result import Evaluation
from saddleback.ope.return_distribution import ReturnDistribution, return_distribution
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_io import load_statistics, save_statistics
from saddleback.ope.streaming import Streamed
from saddleback.ope.svrg_estimator import SVRG
from saddleback.ope.verdict import Improvement, Verdict

__all__ = [
    "BANDIT_CHECKS", "CHECKS", "FQE", "LSTD", "SVRG", "Baseline", "Decisions", "Diagnosis",
    "Estimate", "Estimator", "Evaluation", "Gate", "Improvement", "Ranking", "ReturnDistribution",
    "Statistics", "Streamed", "Trajectories", "Verdict", "WeightedEstimate", "default_rule",
    "doubly_robust", "evaluate", "evaluate_statistics", "importance_sampling", "load_statistics",
    "model_return_distribution", "rank", "return_distribution", "save_statistics",
]  # fmt: skip
