"""What most questions are asked of: a problem with a rule, or a system, which knows its own."""

from __future__ import annotations

from saddleback import _validate
from saddleback.errors import InvalidParameter
from saddleback.problem import Problem
from saddleback.rules import Rule, each_rule
from saddleback.system import System


def system_of(owner: str, source: Problem | System, rule: Rule | None) -> System:
    """Return the system of a source, refusing a rule that is missing or is not the system's."""
    if isinstance(source, System):
        if rule is not None and rule != source.rule:
            raise InvalidParameter(f"{owner}: the system is that of {source.rule}, not of {rule}.")
        return source
    _validate.instance(owner, "problem", source, Problem)
    return System.exact(source, each_rule(rule)[0])
