"""The evidence behind a verdict, gathered in one more pass over the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from saddleback._progress import Progress, part_of, planned
from saddleback._typing import FloatArray
from saddleback.evaluation.episode_weights import Trajectories
from saddleback.evaluation.log_counts import Portrait
from saddleback.evaluation.sandwich import ESTIMAND, of_scores, student
from saddleback.evaluation.scoring_pass import Scored, second_pass
from saddleback.evaluation.statistics import Statistics
from saddleback.evaluation.weight_diagnostics import threshold
from saddleback.features import Features
from saddleback.log import Log, Observed, Piece, Target
from saddleback.rules import Rule
from saddleback.verdict.approximation_gap import Gap, Residual, of_trace, unmet
from saddleback.verdict.baseline import Logged, beyond
from saddleback.verdict.coverage import support
from saddleback.verdict.evidence import Evidence
from saddleback.verdict.evidence_from_statistics import NOTES, Diagnosis, Waiting, known
from saddleback.verdict.partition import Cells, Column, Thinned
from saddleback.verdict.policy_summary import Policy, RowLook
from saddleback.verdict.verdict import Verdict

CELLS, PAIRS, ROWS = 64, 640, 40
"""Most cells, most pairs of cell and action, and rows for each of those."""

FEWEST = 20.0
"""Effective episodes from which a doubly robust estimate is heard."""


def diagnose(
    log: Log,
    sums: Statistics,
    policies: Sequence[Target],
    observed: Observed,
    sample: FloatArray,
    *,
    features: Features,
    rule: Rule,
    ridge: float,
    robust: Mapping[str, Trajectories],
    spectra: Waiting,
    lower_is_better: bool,
    progress: Progress | None = None,
) -> tuple[list[Diagnosis], Logged]:
    """Look at the solutions for all targets, and judge them."""
    setting, K = sums.setting, log.n_actions
    columns = [Column.of(n, sample[:, k]) for k, n in enumerate(log.layout.observations)]
    cells = Cells.of(sample, int(np.clip(min(log.rows // ROWS, PAIRS) // K, 1, CELLS)))
    portraits = [Portrait.begin(K, cells.size) for _ in policies]
    samples = [Thinned() for _ in policies]
    rows = RowLook(K, columns)
    residuals = [Residual(cells, K, setting.gamma) for _ in policies]

    def look(piece: Piece, k: int, pi: FloatArray, deltas: FloatArray) -> None:
        if k == len(policies):
            rows.add(piece)
            return
        seen = piece.observations[piece.here]
        portraits[k].add(piece, pi, cells.find(seen))
        samples[k].add(seen, pi[piece.here])
        if setting.values == "action":
            residuals[k].add(piece, pi, deltas)

    every = second_pass(
        log, sums, [*policies, observed], features=features, rule=rule, ridge=ridge, look=look,
        progress=part_of(progress, 0.0, 0.5),
    )  # fmt: skip
    logged = Logged.of(every[-1], bool(sums.tally.beyond[0]))
    span = sums.span
    found = []
    each = zip(policies, every, portraits, samples, residuals, strict=False)
    checks = planned(part_of(progress, 0.5, 1.0), [("", 1.0)] * len(policies))
    for (policy, scored, portrait, sample_of, residual), check in zip(each, checks, strict=True):
        if check is not None:
            check(0.0)
        interval = of_scores(scored)
        states, chosen = sample_of.rows
        covered = support(features, sums, (states, chosen), columns, rows.taken, log.action_names)
        cloud, told = known(sums, rule, policy.name, interval, ridge, spectra, portrait)
        agreed = _agreement(scored, robust.get(policy.name))
        gap = Gap(
            unmet=unmet(sums, rule, policy.name, scored.theta, ridge),
            residual=abs(residual.value()) if setting.values == "action" else None,
            trace=of_trace(sums, rule, policy.name, scored.value, ridge),
            self_check=logged.gap,
            agreement=None if agreed is None else beyond(*agreed, 1.0),
        )
        notes = NOTES | {"AGREEMENT": _unheard(robust.get(policy.name))}
        evidence = Evidence(
            value=scored.value, error=interval.error, spread=logged.spread,
            coverage=covered.coverage, unmet=covered.unmet,
            self_check=logged.off, self_check_error=logged.error,
            agreement=None if agreed is None else agreed[0],
            agreement_error=None if agreed is None else agreed[1],
            gap=gap.value, notes=notes, **told,
        )  # fmt: skip
        improvement = logged.against(scored.value, scored.each, gap.value, lower_is_better)
        verdict = Verdict.of(
            policy.name, (interval.value, interval.low, interval.high), evidence, improvement,
            covered.words,
        )  # fmt: skip
        about = Policy.of(portrait, log.action_names, told["steps"])
        found.append(
            Diagnosis(verdict, interval, about, covered, cloud, gap, span.condition, span.rank)
        )
    return found, logged


def _agreement(scored: Scored, robust: Trajectories | None) -> tuple[float, float] | None:
    """Return V̂ less WDR and its standard error, if WDR is to be heard."""
    if robust is None or not robust.comparable or not np.isfinite(robust.normalised):
        return None
    heavy = not robust.k_hat <= threshold(robust.n)
    if heavy or robust.ess < FEWEST:
        return None
    both = student(0.0, scored.each - robust.scores, 0.95, ESTIMAND, "paired")
    return scored.value - robust.normalised, both.error


def _unheard(robust: Trajectories | None) -> str:
    """Say why no doubly robust estimate is heard."""
    if robust is None:
        return "no weighted doubly robust estimate was made"
    if not robust.comparable:
        return "on truncated episodes doubly robust estimates are of another value"
    shape = "no k-hat" if np.isnan(robust.k_hat) else f"k-hat {robust.k_hat:.2f}"
    many = f"{robust.ess:.0f} effective episodes"
    return f"the doubly robust estimate cannot be trusted: {many}, {shape}"
