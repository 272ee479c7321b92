"""Is an estimate reliable? Several estimators, diagnostics, and a verdict that may refuse."""

from saddleback.evaluation.estimate import Estimate
from saddleback.verdict.baseline import Baseline
from saddleback.verdict.evaluate import evaluate
from saddleback.verdict.evaluate_statistics import evaluate_statistics
from saddleback.verdict.evidence_from_statistics import Diagnosis
from saddleback.verdict.gates import CHECKS, Gate
from saddleback.verdict.ranking import Ranking, rank
from saddleback.verdict.result import Evaluation
from saddleback.verdict.verdict import Improvement, Verdict

__all__ = [
    "CHECKS", "Baseline", "Diagnosis", "Estimate", "Evaluation", "Gate", "Improvement", "Ranking",
    "Verdict", "evaluate", "evaluate_statistics", "rank",
]  # fmt: skip
