"""Can the answer be trusted? Estimates side by side, diagnostics, and a verdict that may be no."""

from saddleback.evaluation.estimate import Estimate
from saddleback.verdict.baseline import Logged
from saddleback.verdict.evaluate import evaluate
from saddleback.verdict.evaluate_statistics import of_statistics
from saddleback.verdict.evidence_from_statistics import Diagnosis
from saddleback.verdict.gates import CHECKS, Gate
from saddleback.verdict.ranking import Ranking, rank
from saddleback.verdict.result import Evaluation
from saddleback.verdict.verdict import Improvement, Verdict

__all__ = [
    "CHECKS", "Diagnosis", "Estimate", "Evaluation", "Gate", "Improvement", "Logged", "Ranking",
    "Verdict", "evaluate", "of_statistics", "rank",
]  # fmt: skip
