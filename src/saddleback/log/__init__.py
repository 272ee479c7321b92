"""Logs of decisions: reading, validation, segmentation; target policies and propensities."""

from saddleback.log.behaviour_target import BehaviourTarget
from saddleback.log.collect import collect
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.log import Log
from saddleback.log.minari import from_minari, to_minari
from saddleback.log.propensity_estimation import Behaviour, estimate_behaviour
from saddleback.log.sample import LogSample
from saddleback.log.segmentation import Segment
from saddleback.log.summary import LogSummary
from saddleback.log.target_policies import Target, as_target

__all__ = [
    "Behaviour", "BehaviourTarget", "Finding", "Log", "LogError", "LogSample", "LogSummary",
    "Segment", "Target", "as_target", "collect", "estimate_behaviour", "from_minari", "to_minari",
]  # fmt: skip
