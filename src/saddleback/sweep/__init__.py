"""Piles of independent tasks, and a store of their results that survives interruption."""

from saddleback.sweep.best_settings import summary
from saddleback.sweep.cost_estimate import Plan, plan
from saddleback.sweep.executors import cluster as cluster
from saddleback.sweep.executors import threads as threads
from saddleback.sweep.run_study import run_study
from saddleback.sweep.statistics_chunks import Summing as Summing
from saddleback.sweep.statistics_chunks import sum_groups as sum_groups
from saddleback.sweep.store import Store
from saddleback.sweep.store import packed as packed
from saddleback.sweep.study import Case, Study
from saddleback.sweep.study_file import StudyError, read_study
from saddleback.sweep.task import rows_of as rows_of
from saddleback.sweep.task import tasks_of as tasks_of
from saddleback.sweep.task_progress import TaskProgress as TaskProgress
from saddleback.sweep.task_runner import Task as Task
from saddleback.sweep.task_runner import run_tasks as run_tasks

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
