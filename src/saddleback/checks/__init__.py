"""Contract checks: what saddleback relies on in a rule, a feature map, a policy or a log.

Each raises `CheckFailed` at the first property that does not hold.
"""

from saddleback.checks.input_checks import check_features, check_log, check_policy
from saddleback.checks.rule_checks import CheckFailed, check_rule, named_rules, typical_problem

__all__ = [
    "CheckFailed", "check_features", "check_log", "check_policy", "check_rule", "named_rules",
    "typical_problem",
]  # fmt: skip
