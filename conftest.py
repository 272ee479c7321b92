"""Marks of examples; less garbage collection, which takes a tenth of the time by default."""

import gc

import pytest

gc.set_threshold(30_000, 20, 20)  # compilers and parsers allocate much that is not garbage


SLOW_EXAMPLES = {
    "checks.rule_checks.check_rule", "features.state_action.JointFourier",
    "learning.iterate.iterate", "ope.baseline.Baseline", "ope.diagnosis.Diagnosis",
    "ope.evaluate.evaluate", "ope.ranking.Ranking", "ope.ranking.rank", "ope.result.Evaluation",
    "ope.verdict.Improvement", "ope.verdict.Verdict", "report.evaluation_html.evaluation_page",
    "system.system.System.estimate", "theory.analyse.Analysis",
    "theory.step_size_advice.Advice",
}  # fmt: skip
"""Examples that take more than about half a second."""


def pytest_collection_modifyitems(items):
    """Mark slow examples, whose docstrings cannot hold a mark."""
    for item in items:
        if item.name.removeprefix("saddleback.") in SLOW_EXAMPLES:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without it: what is imported stays, and need not be scanned later either."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
