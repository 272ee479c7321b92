"""Run rules: on-line, off-line, and in expectation."""

from saddleback.learning.best_setting import Best
from saddleback.learning.iterate import iterate
from saddleback.learning.learn import learn
from saddleback.learning.learn_offline import learn_offline
from saddleback.learning.run import Run

__all__ = ["Best", "Run", "iterate", "learn", "learn_offline"]
