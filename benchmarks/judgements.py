"""Verdicts on logs whose truth is known, as plain data."""

from __future__ import annotations

import math
import time

import saddleback as sb
from saddleback.errors import SaddlebackError
from saddleback.log import BehaviourTarget
from saddleback.log.behaviour_target import NAME
from saddleback.ope import default_rule, evaluate_statistics
from saddleback.ope.feature_spec import as_features
from saddleback.system import LARGEST

from .families import FAMILIES
from .held_out import HELD_OUT
from .situations import KINDS

NUMBERS = ("value", "low", "high", "error", "gap", "half_width", "estimated_spread")
"""What is not known of an answer that was not given."""


def features_by_hand(family, log, level, n, seed):
    """Return poor features for a family, one of a few kinds by seed, level and size.

    Kinds with too many features for matrices are passed over.
    """
    if family.continuous:
        kinds = ["monomials:1", "monomials:2"]
        kinds += ["fourier:2", "rbf:27"] if log.dimensions <= 3 else []
    else:
        kinds = ["states", "states", "monomials:1"] if log.dimensions == 1 else ["monomials:1"]
        kinds += ["monomials:2"]
    sample = log.sample()
    kinds = [k for k in kinds if as_features(k, log, sample).size * log.n_actions <= LARGEST]
    return kinds[(seed + family.levels.index(level) + family.sizes.index(n)) % len(kinds)]


def judge(name, level, n, seed):
    """Judge one log with automatic features and by hand."""
    if name in KINDS:
        return judge_situation(name, seed)
    family = (FAMILIES | HELD_OUT)[name]
    case = family.case(level, seed, n)
    log = case.as_log()
    hand = features_by_hand(family, log, level, n, seed)
    truth = {"truth": case.truth, "baseline": case.baseline, "spread": case.spread}
    options = {"gamma": case.gamma, "horizon": case.horizon, "allow_uncovered": True}
    return [
        truth | judged(log, case.target, features=features, **options)
        for features in ("auto", hand)
    ]


def judge_situation(kind, seed):
    """Judge a situation: with automatic features, its own, and by statistics alone."""
    given = KINDS[kind](seed)
    options = {
        "gamma": given.gamma, "lower_is_better": given.costs,
        "allow_uncovered": given.allow_uncovered,
    }  # fmt: skip
    results = [judged(given.log, given.target, features="auto", **options)]
    results += [
        judged(given.log, given.target, features=given.features, rule=given.rule, **options)
    ]
    rule = default_rule() if given.rule is None else given.rule
    began = time.process_time()
    sums = sb.Statistics.of(
        given.log, list(dict.fromkeys((rule, rule.with_lambda(0.0) or rule))),
        {"target": given.target, NAME: BehaviourTarget.of(given.log)}, features=given.features,
        gamma=given.gamma, allow_uncovered=given.allow_uncovered,
    )  # fmt: skip
    evaluation = evaluate_statistics(sums, lower_is_better=given.costs)
    results.append(record(evaluation, "statistics", time.process_time() - began))
    spread = results[0]["estimated_spread"]
    truth = {"truth": given.truth, "baseline": given.baseline, "spread": spread}
    truth |= {"costs": given.costs, "suitable": given.good}
    return [truth | result for result in results]


def judged(log, target, *, features, **options):
    """Evaluate and record; an error instead of an answer is recorded as a refusal without value."""
    name = features if isinstance(features, str) else "own features"
    began = time.process_time()
    try:
        evaluation = sb.evaluate(log, target, features=features, **options)
    except SaddlebackError as error:
        return {
            "features": name, **dict.fromkeys(NUMBERS, math.nan), "parts": {}, "trust": "refused",
            "failed": ["ERROR"], "outcome": str(error), "seconds": time.process_time() - began,
        }  # fmt: skip
    return record(evaluation, name, time.process_time() - began)


def record(evaluation, features, seconds):
    """Return what is measured of a verdict as plain data."""
    (diagnosis,) = evaluation.diagnoses
    verdict, others = diagnosis.verdict, diagnosis.consensus
    parts = {name: part for name, part in diagnosis.gap.parts.items() if part is not None}
    if others is not None:
        parts["dispersion"] = others.dispersion
        parts |= {view: abs(v - verdict.value) for view, v in others.opinions.items()}
    return {
        "features": features, "value": verdict.value, "low": verdict.low, "high": verdict.high,
        "error": verdict.evidence.error, "gap": verdict.gap, "parts": parts,
        "half_width": 2.0 * verdict.evidence.error + verdict.gap,
        "estimated_spread": verdict.evidence.spread, "trust": verdict.trust,
        "failed": [check.code for check in verdict.failed],
        "outcome": verdict.improvement.outcome, "seconds": seconds,
    }  # fmt: skip
