"""Results show themselves: a short text, HTML for notebooks, plots, and tables."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import saddleback as sb
from saddleback import Rule, System, features, problems
from saddleback.errors import InvalidParameter
from saddleback.evaluation import Statistics
from saddleback.rules import Correction, Expected, Retrace, Saddle, SemiGradient, State
from saddleback.system import load, save


@dataclass(frozen=True)
class Capped(sb.Trace):
    """κ = λ min(cap, ρ)."""

    lam: float
    cap: float

    def kappa(self, pi, mu):
        return self.lam * np.minimum(self.cap, sb.policies.ratio(pi, mu))


CAPPED = Rule(trace=Capped(0.5, 1.5), form=Saddle(), bootstrap=Expected())
LABELLED = replace(CAPPED, label="Capped 1.5")


def test_a_rule_is_shown_by_its_label_then_its_name_then_its_parts():
    assert LABELLED.display_name == "Capped 1.5"
    assert replace(sb.GES(0.5), label="ours").display_name == "ours"
    assert sb.GES(0.5).display_name == "GES(0.5)"
    assert CAPPED.display_name == "Capped(lam=0.5, cap=1.5) + Saddle"
    state = Rule(Retrace(0.5), SemiGradient(), State())
    assert state.display_name == "Retrace(lam=0.5) + SemiGradient + State"


def test_a_label_changes_neither_str_nor_what_a_rule_is_equal_to():
    ours = replace(sb.GES(0.5), label="ours")
    assert str(ours) == "GES(0.5)"
    assert str(CAPPED) == repr(CAPPED)
    assert ours == sb.GES(0.5)
    assert hash(ours) == hash(sb.GES(0.5))
    assert ours.kind == sb.GES(0.5).kind
    assert repr(LABELLED) == (
        "Rule(trace=Capped(lam=0.5, cap=1.5), form=Saddle(), bootstrap=Expected(), "
        "label='Capped 1.5')"
    )
    with pytest.raises(InvalidParameter, match="label must be text, got 3"):
        replace(CAPPED, label=3)


def test_a_label_survives_saving_and_is_not_needed_to_load(tmp_path):
    problem = problems.two_state(gamma=0.9)
    rule = Rule(Retrace(0.5), Correction(), Expected(), label="ours")
    assert load(save(System.exact(problem, rule), tmp_path / "a.npz")).rule.label == "ours"
    plain = replace(rule, label="")
    assert load(save(System.exact(problem, plain), tmp_path / "b.npz")).rule.label == ""
    log = sb.collect(problem, steps=50, rng=0)
    options = dict(features=features.OneHot(2), gamma=0.9)
    first = Statistics.of(log, rule, problem.target, **options)
    sb.save_statistics(first, tmp_path / "day.stats")
    again = sb.load_statistics(tmp_path / "day.stats")
    assert again.setting.rules[0].label == "ours"
    assert again.setting == Statistics.of(log, plain, problem.target, **options).setting


def test_a_label_is_not_passed_on_to_the_rules_of_other_lambda():
    from saddleback.verdict.closed import along

    ours = replace(sb.GRetrace(0.5), label="ours")
    assert [rule.display_name for rule in along(ours).values()][:2] == [
        "GRetrace(0)", "GRetrace(0.25)",
    ]  # fmt: skip
