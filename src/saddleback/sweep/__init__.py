"""Piles of independent tasks, and a store of their results that survives interruption."""

from saddleback.sweep.compute import rows_of, tasks_of
from saddleback.sweep.place import Place, cluster, threads
from saddleback.sweep.planning import Plan, plan
from saddleback.sweep.progress import telling
from saddleback.sweep.read import StudyError, read_study
from saddleback.sweep.run import Task, run_tasks
from saddleback.sweep.store import Store, packed
from saddleback.sweep.study import Study
from saddleback.sweep.sums import Summing, remove, sum_groups
from saddleback.sweep.tables import summary
from saddleback.sweep.whole import run_study

__all__ = [
    "Place",
    "Plan",
    "Store",
    "Study",
    "StudyError",
    "Summing",
    "Task",
    "cluster",
    "packed",
    "plan",
    "read_study",
    "remove",
    "rows_of",
    "run_study",
    "run_tasks",
    "sum_groups",
    "summary",
    "tasks_of",
    "telling",
    "threads",
]
