"""Logs of decisions: read, validated, cut into episodes; and the policies to be judged by them."""

from saddleback.log.as_logged import Observed
from saddleback.log.behaviour import Behaviour, estimate_behaviour
from saddleback.log.card import Card
from saddleback.log.collecting import collect
from saddleback.log.episodes import Piece
from saddleback.log.findings import Finding, LogError
from saddleback.log.log import Log
from saddleback.log.minari import from_minari
from saddleback.log.minari_out import to_minari
from saddleback.log.targets import Target, as_target

__all__ = [
    "Behaviour", "Card", "Finding", "Log", "LogError", "Observed", "Piece", "Target", "as_target",
    "collect", "estimate_behaviour", "from_minari", "to_minari",
]  # fmt: skip
