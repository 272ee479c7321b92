"""Can the answer be trusted? Estimates side by side, diagnostics, and a verdict that may be no."""

from saddleback.verdict.answer import evaluate
from saddleback.verdict.closed import of_statistics
from saddleback.verdict.estimate import Estimate
from saddleback.verdict.evaluation import Evaluation
from saddleback.verdict.gates import CHECKS, Gate
from saddleback.verdict.logged import Logged
from saddleback.verdict.ranking import Ranking, rank
from saddleback.verdict.sums import Diagnosis
from saddleback.verdict.verdict import Improvement, Verdict

__all__ = [
    "CHECKS", "Diagnosis", "Estimate", "Evaluation", "Gate", "Improvement", "Logged", "Ranking",
    "Verdict", "evaluate", "of_statistics", "rank",
]  # fmt: skip
