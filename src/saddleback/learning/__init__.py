"""Running rules: on-line, off-line, and in expectation."""

from saddleback.learning.best import Best
from saddleback.learning.expected import iterate
from saddleback.learning.offline import learn_offline
from saddleback.learning.online import learn
from saddleback.learning.run import Run

__all__ = ["Best", "Run", "iterate", "learn", "learn_offline"]
