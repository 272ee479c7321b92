"""Piles of independent tasks, and a store of their results that survives interruption."""

from saddleback.sweep.compute import rows_of as rows_of
from saddleback.sweep.compute import tasks_of as tasks_of
from saddleback.sweep.place import cluster as cluster
from saddleback.sweep.place import threads as threads
from saddleback.sweep.planning import Plan, plan
from saddleback.sweep.progress import TaskProgress as TaskProgress
from saddleback.sweep.read import StudyError, read_study
from saddleback.sweep.run import Task as Task
from saddleback.sweep.run import run_tasks as run_tasks
from saddleback.sweep.store import Store
from saddleback.sweep.store import packed as packed
from saddleback.sweep.study import Case, Study
from saddleback.sweep.sums import Summing as Summing
from saddleback.sweep.sums import sum_groups as sum_groups
from saddleback.sweep.tables import summary
from saddleback.sweep.whole import run_study

__all__ = [
    "Case",
    "Plan",
    "Store",
    "Study",
    "StudyError",
    "plan",
    "read_study",
    "run_study",
    "summary",
]
