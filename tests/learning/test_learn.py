"""`learn`: what it computes once."""

import pytest

import saddleback as sb
from saddleback.engine import sources
from saddleback.system import trace_history


@pytest.mark.parametrize("runs", [None, 3])
def test_rules_are_tabulated_once(runs, monkeypatch):
    tabulated = []

    def counted(rule, problem):
        tabulated.append(rule)
        return sb.rules.terms(rule, problem)

    for module in (sources, trace_history):
        monkeypatch.setattr(module, "terms", counted)
    capped = sb.Rule.parse("CappedImportance(0.9, cap=3)+Saddle")
    rules = [sb.GES(0.5), sb.GQ(0.5), capped]
    sb.learn(rules, sb.problems.two_state(), alpha=0.1, beta=0.1, steps=20, rng=0, runs=runs)
    assert tabulated == rules
