"""Can the answer be trusted? Estimates side by side, diagnostics, and a verdict that may be no."""

from saddleback.verdict.answer import Evaluation, evaluate, of_statistics
from saddleback.verdict.diagnose import Diagnosis, Logged
from saddleback.verdict.estimate import Estimate
from saddleback.verdict.gates import Gate
from saddleback.verdict.verdict import Improvement, Verdict

__all__ = [
    "Diagnosis", "Estimate", "Evaluation", "Gate", "Improvement", "Logged", "Verdict", "evaluate",
    "of_statistics",
]  # fmt: skip
