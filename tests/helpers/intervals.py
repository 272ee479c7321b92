"""Intervals of the closed form by themselves, without the rest of an evaluation."""

from saddleback.log import as_target
from saddleback.ope.diagnosis import measure_statistics
from saddleback.ope.log_pass import EncodeOnce, read_log
from saddleback.ope.sandwich import interval_from_scores
from saddleback.ope.scoring_pass import ScoreReducer


def score_episodes(log, sums, policies, *, features, rule, ridge, on_deltas=None):
    """Read a log once more, and score its episodes for the solution of each target."""
    once = EncodeOnce(features)
    reducers = [ScoreReducer(sums, policy, once, rule, ridge, on_deltas) for policy in policies]
    read_log(log, reducers, policies, once)
    return [reducer.scores for reducer in reducers]


def sandwich(log, sums, targets, *, features, rule=None, ridge=0.0):
    """Return the interval of each target, from the scores of episodes."""
    rule = rule or sums.setting.rules[0]
    by_name = targets if isinstance(targets, dict) else {sums.setting.targets[0]: targets}
    policies = [as_target(given, log, name) for name, given in by_name.items()]
    scored = score_episodes(log, sums, policies, features=features, rule=rule, ridge=ridge)
    return [interval_from_scores(scores) for scores in scored]


def interval_from_blocks(sums, rule=None, *, ridge=0.0):
    """Return the interval of the first target, from the sums over blocks of episodes."""
    rule = rule or sums.setting.rules[0]
    return measure_statistics(sums, rule, sums.setting.targets[0], ridge).interval
