"""The value of a policy from a log: sums that add up, and estimates made of them."""

from saddleback.evaluate.estimator import FQE, LSTD, Estimator, default_rule
from saddleback.evaluate.evaluation import Estimate, Evaluation, evaluate, of_statistics
from saddleback.evaluate.saddle import SVRG
from saddleback.evaluate.statistics import Statistics
from saddleback.evaluate.storage import load_statistics, save_statistics
from saddleback.evaluate.streamed import Streamed

__all__ = [
    "FQE", "LSTD", "SVRG", "Estimate", "Estimator", "Evaluation", "Statistics", "Streamed",
    "default_rule", "evaluate", "load_statistics", "of_statistics",
    "save_statistics",
]  # fmt: skip
