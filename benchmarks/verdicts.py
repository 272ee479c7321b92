"""Verdicts held against situations whose truth is known, as one tests a classifier.

Run by ``make verdicts``. For every kind of situation: how often the answer was usable, doubtful or
refused; how often a usable one came with an interval, widened by the gap, that missed the truth;
and how often the improvement was told wrongly; then how often the verdict from statistics alone was
usable, and missed. Writes ``results/verdicts.json`` and
``results/verdicts.md``.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from machine import machine, told
from rich import box
from rich.console import Console
from rich.table import Table
from situations import KINDS

import saddleback as sb
from saddleback.evaluation import default_rule
from saddleback.log import Observed
from saddleback.log.behaviour_target import NAME
from saddleback.verdict import evaluate_statistics
from saddleback.verdict.approximation_gap import without_trace

SEEDS = int(os.environ.get("VERDICT_SEEDS", "20"))
FIRST = 1000
"""Seeds from here on: others were looked at while the gates were made."""

WORDS = ("usable", "doubtful", "refused")


def judge(kind, seed):
    """Return what the verdict says of one situation, and whether that is right."""
    given = KINDS[kind](seed)
    (verdict,) = sb.evaluate(
        given.log, given.target, features=given.features, gamma=given.gamma, rule=given.rule,
        lower_is_better=given.costs, allow_uncovered=given.allow_uncovered,
    ).verdicts  # fmt: skip
    rule = default_rule() if given.rule is None else given.rule
    sums = sb.Statistics.of(
        given.log, list(dict.fromkeys((rule, without_trace(rule) or rule))),
        {"target": given.target, NAME: Observed.of(given.log)}, features=given.features,
        gamma=given.gamma, allow_uncovered=given.allow_uncovered,
    )  # fmt: skip
    (summed,) = evaluate_statistics(sums, lower_is_better=given.costs).verdicts
    low, high = verdict.interval_with_gap
    better = (given.truth > given.baseline) != given.costs
    said = verdict.improvement.outcome
    return {
        "kind": kind,
        "seed": seed,
        "good": given.good,
        "trust": verdict.trust,
        "missed": not low <= given.truth <= high,
        "missed_unwidened": not verdict.low <= given.truth <= verdict.high,
        "said": said,
        "wrong": said == ("worse" if better else "better"),
        "failed": [each.code for each in verdict.failed],
        "width": (high - low) / max(verdict.evidence.spread, 1e-300),
        "summed": summed.trust,
        "summed_missed": not summed.interval_with_gap[0]
        <= given.truth
        <= summed.interval_with_gap[1],
    }


def row(each):
    """Sum situations up: counts, and what went wrong."""
    usable = [one for one in each if one["trust"] == "usable"]
    good = [one for one in each if one["good"]]
    return {
        "situations": len(each),
        **{word: sum(one["trust"] == word for one in each) for word in WORDS},
        "usable, missed": sum(one["missed"] for one in usable),
        "all, missed": sum(one["missed"] for one in each),
        "unwidened, missed": sum(one["missed_unwidened"] for one in each),
        "usable, decided": sum(one["said"] != "undecided" for one in usable),
        "usable, told wrongly": sum(one["wrong"] for one in usable),
        "good": len(good),
        "good, refused": sum(one["trust"] == "refused" for one in good),
        "statistics, usable": sum(one["summed"] == "usable" for one in each),
        "statistics, missed": sum(
            one["summed"] == "usable" and one["summed_missed"] for one in each
        ),
    }


def main():
    """Judge, print, write."""
    print(told())
    begun = time.perf_counter()
    jobs = [(kind, FIRST + k) for kind in KINDS for k in range(SEEDS)]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(judge, *zip(*jobs, strict=True), chunksize=2))
    rows = {kind: row([one for one in found if one["kind"] == kind]) for kind in KINDS}
    rows["all"] = row(found)
    names = list(rows["all"])
    table = Table(box=box.SIMPLE, title="verdicts on situations whose truth is known")
    table.add_column("situation")
    for name in names:
        table.add_column(name, justify="right")
    lines = ["| situation | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for kind, each in rows.items():
        cells = [str(each[name]) for name in names]
        table.add_row(kind, *cells)
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    Console(width=170).print(table)
    total = rows["all"]
    missed = total["usable, missed"] / max(1, total["usable"])
    refused = total["good, refused"] / max(1, total["good"])
    alone = total["statistics, missed"] / max(1, total["statistics, usable"])
    width = np.median([one["width"] for one in found if one["trust"] == "usable"])
    print(f"usable but missed {missed:.1%} (at most 8 %), good but refused {refused:.1%} (at most")
    print(f"10 %); a usable interval is {width:.2g} standard deviations of a return wide (median)")
    print(f"usable by statistics alone but missed {alone:.1%} (at most 8 %)")
    print(f"{time.perf_counter() - begun:.0f} s")
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), "rows": rows, "each": found}
    Path("results/verdicts.json").write_text(json.dumps(content, indent=1))
    Path("results/verdicts.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
