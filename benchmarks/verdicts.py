"""Accuracy of verdicts on situations whose truth is known.

Run by ``make verdicts``. For every kind of situation: the number of usable, doubtful and refused
verdicts; of usable ones whose bias-adjusted interval missed the truth, or whose improvement was
wrong; and of verdicts from statistics alone that were usable, and that missed. Writes
``results/verdicts.json`` and ``results/verdicts.md``.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from machine import machine, machine_line
from rich import box
from rich.console import Console
from rich.table import Table
from situations import KINDS

import saddleback as sb
from saddleback.log import BehaviourTarget
from saddleback.log.behaviour_target import NAME
from saddleback.ope import default_rule, evaluate_statistics
from saddleback.ope.approximation_gap import without_trace

SEEDS = int(os.environ.get("VERDICT_SEEDS", "20"))
FIRST = 1000
"""First seed; smaller ones were used while the checks were designed."""

TRUST = ("usable", "doubtful", "refused")


def judge(kind, seed):
    """Return the verdict on one situation, and whether it is right."""
    given = KINDS[kind](seed)
    (verdict,) = sb.evaluate(
        given.log, given.target, features=given.features, gamma=given.gamma, rule=given.rule,
        lower_is_better=given.costs, allow_uncovered=given.allow_uncovered,
    ).verdicts  # fmt: skip
    rule = default_rule() if given.rule is None else given.rule
    sums = sb.Statistics.of(
        given.log, list(dict.fromkeys((rule, without_trace(rule) or rule))),
        {"target": given.target, NAME: BehaviourTarget.of(given.log)}, features=given.features,
        gamma=given.gamma, allow_uncovered=given.allow_uncovered,
    )  # fmt: skip
    (from_statistics,) = evaluate_statistics(sums, lower_is_better=given.costs).verdicts
    low, high = verdict.interval_with_gap
    better = (given.truth > given.baseline) != given.costs
    outcome = verdict.improvement.outcome
    return {
        "kind": kind,
        "seed": seed,
        "good": given.good,
        "trust": verdict.trust,
        "missed": not low <= given.truth <= high,
        "missed_unwidened": not verdict.low <= given.truth <= verdict.high,
        "said": outcome,
        "wrong": outcome == ("worse" if better else "better"),
        "failed": [check.code for check in verdict.failed],
        "width": (high - low) / max(verdict.evidence.spread, 1e-300),
        "summed": from_statistics.trust,
        "summed_missed": not from_statistics.interval_with_gap[0]
        <= given.truth
        <= from_statistics.interval_with_gap[1],
    }


def row(situations):
    """Return the counts of verdicts and errors over situations."""
    usable = [one for one in situations if one["trust"] == "usable"]
    good = [one for one in situations if one["good"]]
    return {
        "situations": len(situations),
        **{trust: sum(one["trust"] == trust for one in situations) for trust in TRUST},
        "usable, missed": sum(one["missed"] for one in usable),
        "all, missed": sum(one["missed"] for one in situations),
        "unwidened, missed": sum(one["missed_unwidened"] for one in situations),
        "usable, decided": sum(one["said"] != "undecided" for one in usable),
        "usable, wrong improvement": sum(one["wrong"] for one in usable),
        "good": len(good),
        "good, refused": sum(one["trust"] == "refused" for one in good),
        "statistics, usable": sum(one["summed"] == "usable" for one in situations),
        "statistics, missed": sum(
            one["summed"] == "usable" and one["summed_missed"] for one in situations
        ),
    }


def main():
    """Judge, print, write."""
    print(machine_line())
    started = time.perf_counter()
    jobs = [(kind, FIRST + k) for kind in KINDS for k in range(SEEDS)]
    with ProcessPoolExecutor(2) as pool:
        results = list(pool.map(judge, *zip(*jobs, strict=True), chunksize=2))
    rows = {kind: row([one for one in results if one["kind"] == kind]) for kind in KINDS}
    rows["all"] = row(results)
    names = list(rows["all"])
    table = Table(box=box.SIMPLE, title="verdicts on situations whose truth is known")
    table.add_column("situation")
    for name in names:
        table.add_column(name, justify="right")
    lines = ["| situation | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for kind, counts in rows.items():
        cells = [str(counts[name]) for name in names]
        table.add_row(kind, *cells)
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    Console(width=170).print(table)
    total = rows["all"]
    missed = total["usable, missed"] / max(1, total["usable"])
    refused = total["good, refused"] / max(1, total["good"])
    from_statistics = total["statistics, missed"] / max(1, total["statistics, usable"])
    width = np.median([one["width"] for one in results if one["trust"] == "usable"])
    print(f"usable but missed {missed:.1%} (at most 8 %), good but refused {refused:.1%} (at most")
    print(f"10 %); a usable interval is {width:.2g} standard deviations of a return wide (median)")
    print(f"usable by statistics alone but missed {from_statistics:.1%} (at most 8 %)")
    print(f"{time.perf_counter() - started:.0f} s")
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), "rows": rows, "each": results}
    Path("results/verdicts.json").write_text(json.dumps(content, indent=1))
    Path("results/verdicts.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
