"""Parameter sweeps: execution of independent tasks, and a crash-safe store of their results."""

from saddleback.sweep.cost_estimate import Plan, plan
from saddleback.sweep.executors import cluster as cluster
from saddleback.sweep.executors import threads as threads
from saddleback.sweep.run_study import run_study
from saddleback.sweep.statistics_chunks import ChunkedStatistics as ChunkedStatistics
from saddleback.sweep.statistics_chunks import run_chunks as run_chunks
from saddleback.sweep.store import Store
from saddleback.sweep.store import parquet_bytes as parquet_bytes
from saddleback.sweep.study import Case, Study
from saddleback.sweep.study_file import StudyError, read_study
from saddleback.sweep.study_results import RuleResults as RuleResults
from saddleback.sweep.study_results import StudyResults as StudyResults
from saddleback.sweep.study_results import read_results as read_results
from saddleback.sweep.study_results import summary
from saddleback.sweep.task import tasks_of as tasks_of
from saddleback.sweep.task_runner import Shard as Shard
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
