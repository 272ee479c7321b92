"""JSON form of a saved result: `Evaluation.as_dict` writes these records, and readers check them.

Numbers that are not finite are saved as null, so every number that can be infinite or undefined
may be null. Records without such numbers are saved as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from saddleback._json import invalid_place, json_ready
from saddleback.ope.coverage import Coverage
from saddleback.ope.policy_counts import PolicySummary

SCHEMA = 1
"""Schema version of saved results."""

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Maybe = float | None
Eigenvalues = Annotated[list[tuple[float, float]], Meta(min_length=1)]


class SavedEstimate(Struct):
    """An `Estimate`."""

    target: str
    method: str
    value: Maybe
    note: str
    low: Maybe
    high: Maybe
    estimand: str
    ess: Maybe
    max_share: Maybe
    k_hat: Maybe
    comparable: bool


class SavedGate(Struct):
    """A `Gate`: one check of a verdict."""

    code: str
    level: Literal["usable", "doubtful", "refused", "not checked"]
    sentence: str
    value: Maybe
    doubtful: float
    refused: Maybe
    good: Literal["large", "small"]


class SavedImprovement(Struct):
    """An `Improvement` over the logged policy."""

    baseline: Maybe
    baseline_low: Maybe
    baseline_high: Maybe
    difference: Maybe
    low: Maybe
    high: Maybe
    error: Maybe
    n: int
    lower_is_better: bool
    outcome: Literal["better", "worse", "undecided"]


class SavedEvidence(Struct):
    """The part of `Evidence` that is shown."""

    coverage: float
    notes: dict[str, str]
    mean_weight: Maybe = None


class SavedSpectrum(Struct):
    """A `Spectrum`; eigenvalues are pairs of real and imaginary part."""

    outcome: Literal["stable", "unstable", "undecidable"]
    stable: int
    draws: int
    values: Eigenvalues
    cloud: Annotated[list[Eigenvalues], Meta(min_length=1)]
    drawn: list[Maybe]
    bootstrap: tuple[Maybe, Maybe]


class SavedCandidate(Struct):
    """A `CandidateFit` of a consensus."""

    basis: str
    view: str
    ridge: float
    pooling: float
    value: Maybe
    residual: Maybe
    imbalance: Maybe
    primal: Maybe
    dual: Maybe


class SavedConsensus(Struct):
    """A `Consensus`."""

    view: str
    value: Maybe
    error: Maybe
    dispersion: Maybe
    imbalance: Maybe
    opinions: dict[str, Maybe]
    separate: dict[str, Maybe]
    candidates: list[SavedCandidate]
    windowed: tuple[Maybe, Maybe] | None = None
    is_windowed: bool = False
    share: float = 1.0


class SavedVerdict(Struct):
    """A `Verdict` with the rest of its `Diagnosis`."""

    target: str
    trust: Literal["usable", "doubtful", "refused"]
    value: Maybe
    low: Maybe
    high: Maybe
    gap: Maybe
    gates: list[SavedGate]
    reason: str
    weakest: str
    improvement: SavedImprovement | None
    evidence: SavedEvidence
    interval_with_gap: tuple[Maybe, Maybe]
    policy: PolicySummary
    support: Coverage | None
    gap_parts: dict[str, Maybe]
    spectrum: SavedSpectrum | None
    condition: Maybe
    rank: int
    consensus: SavedConsensus | None = None


class SavedBaseline(Struct):
    """A `Baseline`: the logged policy."""

    value: Maybe
    low: Maybe
    high: Maybe
    estimand: str
    estimate: Maybe
    self_check: Maybe
    self_check_error: Maybe


class SavedFunctional(Struct):
    """A quantile or a CVaR of the return."""

    level: float
    value: Maybe
    low: Maybe
    high: Maybe
    logged: Maybe


class SavedDistribution(Struct):
    """A `ReturnDistribution`."""

    target: str
    quantiles: list[SavedFunctional]
    cvar: SavedFunctional
    standard_deviation: Maybe
    reliable: bool
    comparable: bool
    ess: Maybe
    curve: list[tuple[float, Maybe, Maybe]]
    method: str = "weighted episodes"
    note: str = ""


class SavedCalibration(Struct, rename={"low": "from", "high": "to"}):
    """One bin of the calibration of estimated propensities."""

    low: float
    high: float
    pairs: Count
    estimated: float
    taken: float


class SavedLogSummary(Struct, kw_only=True):
    """A `LogSummary`."""

    rows: int
    episodes: int
    terminated: int
    truncated: int
    stops: int
    with_next: int
    lost: int
    reward: tuple[float, float, float]
    low: list[float]
    high: list[float]
    propensity: tuple[float, float] | None
    mean_return: Maybe
    taken: list[int]
    estimated: str | None
    calibration: list[SavedCalibration] = []
    altered: dict[str, int] = {}
    time_limit_steps: int | None = None
    text: str


class SavedProvenance(Struct):
    """The `provenance` of a result, which the command line adds."""

    command: str
    versions: dict[str, str]
    seed: int
    files: list[str] = []


class SavedEvaluation(Struct, kw_only=True, omit_defaults=True, rename={"provenance": "made"}):
    """An `Evaluation`; fields with a default may be absent."""

    gamma: float
    features: str
    p: int
    rule: str
    actions: list[str]
    observations: list[str] | msgspec.UnsetType = msgspec.UNSET
    steps: Count
    episodes: Count
    fingerprint: str = ""
    bandit: bool | msgspec.UnsetType = msgspec.UNSET
    propensities: str
    lambda_ceiling: dict[str, Maybe]
    estimates: Annotated[list[SavedEstimate], Meta(min_length=1)]
    paths: Mapping[str, Mapping[str, Sequence[tuple[float, Maybe]]]]
    warnings: list[str]
    altered: list[str] | msgspec.UnsetType = msgspec.UNSET
    card: SavedLogSummary | None = None
    logged: SavedBaseline | None = None
    verdicts: list[SavedVerdict]
    ess_by_step: dict[str, list[float]] = {}
    tails: dict[str, list[tuple[float, Positive]]] = {}
    distributions: list[SavedDistribution] = []
    missing_models: dict[str, str] = {}
    provenance: SavedProvenance | None = None


def digest(result: dict[str, Any]) -> str:
    """Return a hash of a result without its ``digest``, the same before and after it is saved."""
    content = {name: value for name, value in result.items() if name != "digest"}
    return hashlib.sha256(json.dumps(json_ready(content), sort_keys=True).encode()).hexdigest()


def find_damage(result: dict[str, Any]) -> str | None:
    """Return a description of the first fault of a saved result, or None.

    Examples
    --------
    >>> find_damage({"gamma": "high"})
    'gamma: expected `float`, got `str`'
    """
    try:
        saved = msgspec.json.decode(json.dumps(result), type=SavedEvaluation)
    except msgspec.DecodeError as error:
        return invalid_place(error)
    for k, verdict in enumerate(saved.verdicts):
        if (verdict.low is None) != (verdict.high is None):
            return f"verdicts[{k}] has only one end of its interval"
    return None
