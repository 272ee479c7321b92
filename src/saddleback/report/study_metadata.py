"""What a study says of itself: its tasks, and what its rules are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from saddleback.checks import named_rules
from saddleback.sweep import Study


def whole_of(study: Mapping[str, Any], names: list[str]) -> tuple[int, int, dict[str, list[str]]]:
    """Return how many tasks are done, of how many, and the rules of all problems.

    As far as a study says: a sweep does, and a comparison of the paper has a task for each run.
    """
    if "cases" in study:
        whole = Study.from_dict(study)
        rules = [whole.rule(k).display_name for k in range(len(whole.rules))]
        tasks = sum(1 for _ in whole.task_specs())
        return len(names), tasks, {case.label: rules for case in whole.cases}
    cases = {
        name: each for name, each in study.items()
        if isinstance(each, dict) and {"rules", "runs"} <= set(each)
    }  # fmt: skip
    if not cases:
        return len(names), len(names), {}
    done = sum(case_of(name) in cases for name in names)
    wanted = {name: list(each["rules"]) for name, each in cases.items()}
    return done, sum(each["runs"] for each in cases.values()), wanted


def case_of(name: str) -> str:
    """The case that a shard of the paper's experiments belongs to."""
    return re.sub(r"-run\d+$", "", name)


def rule_said(study: Mapping[str, Any], problem: str, rule: str) -> str:
    """What a study says a rule is; the experiments of the paper have names of their own."""
    case = study.get(problem)
    known = case.get("rules") if isinstance(case, dict) else None
    return str(known[rule]) if isinstance(known, dict) and rule in known else rule


def alone(said: str) -> bool:
    """Whether a rule moves θ alone, so that β does nothing, whatever a grid gave it.

    Examples
    --------
    >>> alone("ExpectedSarsa(0.5)"), alone("GES(0.5)"), alone("Rule(form=SemiGradient(), …)")
    (True, False, True)
    """
    name = said.partition("(")[0]
    names = {str(rule).partition("(")[0] for rule in named_rules() if not rule.form.has_dual}
    return name in names or "SemiGradient" in said


def lam_of(said: str) -> float | None:
    """λ of a rule, or its ζ.

    Examples
    --------
    >>> lam_of("GES(0.5)"), lam_of("GES"), lam_of("Rule(trace=TreeBackup(lam=0.99), …)")
    (0.5, None, 0.99)
    """
    found = re.search(r"(?:lam=|zeta=|^\w[\w ]*\()([\d.]+(?:e-?\d+)?)", said)
    return float(found.group(1)) if found else None
