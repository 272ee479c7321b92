"""Theory as computation: stability, rates of convergence and error floors."""

from saddleback.theory.analyse import Analysis, analyse
from saddleback.theory.covariance import newey_west, noise_covariance, small_step_floor
from saddleback.theory.mean_square import MeanSquare, mean_square
from saddleback.theory.mean_stability import MeanStability, Pair
from saddleback.theory.moment_model import StepModel
from saddleback.theory.primal_dual_gap import GapRun, primal_dual_gap, projected_descent
from saddleback.theory.step_size_advice import Advice, step_sizes
from saddleback.theory.theorem2 import Theorem2, theorem2
from saddleback.theory.trace_ceiling import lambda_ceiling, lambda_ceiling_of_log, trace_radius

__all__ = [
    "Advice",
    "Analysis",
    "GapRun",
    "MeanSquare",
    "MeanStability",
    "Pair",
    "StepModel",
    "Theorem2",
    "analyse",
    "lambda_ceiling",
    "lambda_ceiling_of_log",
    "mean_square",
    "newey_west",
    "noise_covariance",
    "primal_dual_gap",
    "projected_descent",
    "small_step_floor",
    "step_sizes",
    "theorem2",
    "trace_radius",
]
