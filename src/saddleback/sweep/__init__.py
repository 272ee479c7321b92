"""Piles of independent tasks, and a store of their results that survives interruption."""

from saddleback.sweep.run import Task, run_tasks
from saddleback.sweep.store import Store

__all__ = ["Store", "Task", "run_tasks"]
