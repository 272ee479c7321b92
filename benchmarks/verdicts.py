"""Accuracy of verdicts on problems whose truth is known.

Run by ``make verdicts``. Cases are logs of all `families`, at every level and size, and the
`situations`: own problems with good, poor and wrong features. Each is judged with automatic
features and with features by hand, those of families poor. With ``--held-out`` they are logs of
families that were not in view when the checks were designed, to report rates, not to tune them.
Measured by group of similar worlds:

usable, missed      usable verdicts whose widened interval misses the truth
good, not usable    answers within a tenth of a standard deviation of a return that are not usable
half-width          median of usable verdicts, in the same unit
wrong               better or worse decided the wrong way round

The gap is calibrated across environments: the smallest multiplier c with which at most 5 % of
usable verdicts of all other groups miss, with a half-width of 2·error + c·gap, is applied to the
group left out. Writes ``results/verdicts.json``, every verdict in ``verdicts-each.json``, and
tables in ``verdicts.md`` (``held-out.json`` and so on); results so far are in
``results/verdicts.jsonl``, where a run that was stopped continues.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections import Counter, defaultdict
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from .families import FAMILIES, LEFT_OUT
from .held_out import HELD_OUT
from .judgements import judge
from .machine import machine, machine_line
from .resumable import budget, code_digest, measure_cases
from .situations import KINDS

FIRST = 1000
"""First seed; smaller ones were used while the checks were designed."""

OWN = "own problems"
"""Group of the situations."""

MISSED, GOOD, PRECISE = 0.05, 0.1, 0.5
"""Largest share of usable verdicts that miss; error of a good answer; largest half-width."""

SHIPPED = 1.0
"""Multiplier of the gap in verdicts."""

MULTIPLIERS = np.round(np.arange(0.0, 5.01, 0.05), 2)


def cases(seeds, held_out=False):
    """Return all cases; those of a seed in random order, so that any part is representative."""
    listed = []
    for seed in range(FIRST, FIRST + seeds):
        block = [] if held_out else [(kind, "", 0, seed) for kind in KINDS]
        for family in (HELD_OUT if held_out else FAMILIES).values():
            block += [
                (family.name, level, n, seed) for level in family.levels for n in family.sizes
            ]
        random.Random(seed).shuffle(block)
        listed += block
    return listed


def is_missed(one):
    """Whether the widened interval misses the truth."""
    return not one["low"] - one["gap"] <= one["truth"] <= one["high"] + one["gap"]


def is_good(one):
    """Whether the answer is close to the truth."""
    return abs(one["value"] - one["truth"]) <= GOOD * one["spread"]


def is_wrong(one):
    """Whether better or worse was decided the wrong way round."""
    better = (one["truth"] > one["baseline"]) != one.get("costs", False)
    return one["outcome"] == ("worse" if better else "better")


def with_multiplier(verdicts, c):
    """Return which verdicts would be usable, and which would miss, with c times the gap."""
    half = np.array([2.0 * one["error"] + c * one["gap"] for one in verdicts])
    spread = np.array([one["estimated_spread"] for one in verdicts])
    passed = np.array([set(one["failed"]) <= {"PRECISION", "GAP"} for one in verdicts], bool)
    errors = np.array([abs(one["value"] - one["truth"]) for one in verdicts])
    return passed & (half <= PRECISE * spread), errors > half


def fit_multiplier(verdicts):
    """Return the least c with which at most 5 % of usable verdicts miss; None if there is none."""
    for c in MULTIPLIERS:
        usable, missed = with_multiplier(verdicts, c)
        if (usable & missed).sum() <= MISSED * usable.sum():
            return float(c)
    return None


def row(verdicts, c):
    """Return the counts over verdicts; ``c`` was fitted on other groups, None for a total."""
    usable = [one for one in verdicts if one["trust"] == "usable"]
    good = [one for one in verdicts if is_good(one)]
    widths = [one["half_width"] / max(one["spread"], 1e-300) for one in usable]
    counts = {
        "verdicts": len(verdicts), "usable": len(usable),
        "usable, missed": sum(map(is_missed, usable)), "good": len(good),
        "good, not usable": sum(one["trust"] != "usable" for one in good),
        "half-width": float(np.median(widths)) if widths else None,
        "wrong": sum(map(is_wrong, verdicts)),
        "usable, wrong": sum(map(is_wrong, usable)),
        "seconds": float(np.median([one["seconds"] for one in verdicts])),
    }  # fmt: skip
    if c is not None:
        passed, missed = with_multiplier(verdicts, c)
        counts |= {"c": c, "usable at c": int(passed.sum())}
        counts["missed at c"] = int((passed & missed).sum())
    return counts


def add_rows(rows):
    """Return the sum of the counts at the multipliers of several groups."""
    names = "usable at c", "missed at c"
    return {name: sum(one[name] for one in rows if name in one) for name in names}


def summarise(results):
    """Return rows by mode (automatic, by hand, statistics), kind of states, and group."""
    verdicts = defaultdict(list)
    for (name, level, n, seed), judgements in results.items():
        family = (FAMILIES | HELD_OUT).get(name)
        states = "own" if family is None else "continuous" if family.continuous else "discrete"
        group = OWN if family is None else family.group
        for one in judgements:
            mode = {"auto": "automatic", "statistics": "statistics"}.get(one["features"], "by hand")
            case = {"name": name, "level": level, "episodes": n, "seed": seed}
            verdicts[mode, states, group].append(one | case)
    both = [key for key in verdicts if key[0] != "statistics"]
    fitted = {}
    for group in {key[2] for key in both}:
        others = [one for key in both if key[2] != group for one in verdicts[key]]
        fitted[group] = fit_multiplier(others) if others else None
    rows = defaultdict(dict)
    for mode, states, group in sorted(verdicts):
        c = fitted[group] if mode != "statistics" else None
        rows[mode, states][group] = row(verdicts[mode, states, group], c)
    for (mode, states), groups in rows.items():
        own = [one for key in verdicts if key[:2] == (mode, states) for one in verdicts[key]]
        groups[f"all {states}"] = row(own, None) | add_rows(groups.values())
    for mode in dict.fromkeys(mode for mode, _ in rows):
        own = [one for key in verdicts if key[0] == mode for one in verdicts[key]]
        parts = [groups[f"all {states}"] for (m, states), groups in rows.items() if m == mode]
        rows[mode, "all"] = {"all": row(own, None) | add_rows(parts)}
    everything = [one for key in both for one in verdicts[key]]
    by_mode = {
        mode: fit_multiplier([one for key in both if key[0] == mode for one in verdicts[key]])
        for mode in dict.fromkeys(key[0] for key in both)
    }
    multipliers = {"all": fit_multiplier(everything), **by_mode, "left out": fitted}
    flat = {mode: [one for key in verdicts if key[0] == mode for one in verdicts[key]]
            for mode in dict.fromkeys(key[0] for key in verdicts)}  # fmt: skip
    return rows, multipliers, flat


COLUMNS = (
    "verdicts", "usable", "usable, missed", "good", "good, not usable", "half-width", "wrong",
    "usable, wrong", "c", "usable at c", "missed at c", "seconds",
)  # fmt: skip


def cell(value):
    """Write a count, a number, or nothing."""
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def show(rows, console):
    """Print a table for each mode, and return all as Markdown."""
    lines = []
    for mode in dict.fromkeys(mode for mode, _ in rows):
        title = f"verdicts by {mode}" if mode == "statistics" else f"verdicts, features {mode}"
        table = Table(box=box.SIMPLE, title=title)
        table.add_column("group")
        for name in COLUMNS:
            table.add_column(name, justify="right")
        lines += ["", f"{title}:", "", "| group | " + " | ".join(COLUMNS) + " |"]
        lines += ["| --- |" + " ---: |" * len(COLUMNS)]
        for (own, _), groups in rows.items():
            for group, counts in groups.items() if own == mode else ():
                cells = [cell(counts.get(name)) for name in COLUMNS]
                table.add_row(group, *cells)
                lines.append(f"| {group} | " + " | ".join(cells) + " |")
            if own == mode:
                table.add_section()
        console.print(table)
    return lines


def list_misses(flat, console):
    """Print the usable verdicts that missed."""
    table = Table(box=box.SIMPLE, title="usable and missed; numbers in standard deviations")
    for name in ("case", "features", "error", "2 s.e.", "gap", "parts of the gap"):
        table.add_column(name)
    for one in (one for verdicts in flat.values() for one in verdicts):
        if one["trust"] == "usable" and is_missed(one):
            unit = max(one["spread"], 1e-300)
            parts = ", ".join(f"{name} {part / unit:.2f}" for name, part in one["parts"].items())
            numbers = one["value"] - one["truth"], 2 * one["error"], one["gap"]
            case = f"{one['name']} {one['level']} {one['episodes'] or ''} ({one['seed']})"
            table.add_row(case, one["features"], *(f"{x / unit:.2f}" for x in numbers), parts)
    console.print(table)


def unanswered(flat):
    """Yield the errors that were raised instead of an answer, with their number."""
    errors = [
        (one["name"], one["outcome"])
        for verdicts in flat.values() for one in verdicts if one["failed"] == ["ERROR"]
    ]  # fmt: skip
    for (name, error), count in Counter(errors).items():
        yield f"{name}: {count} without an answer: {error}"


def main():
    """Judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=budget(), help="time budget")
    parser.add_argument("--seeds", type=int, default=int(os.environ.get("VERDICT_SEEDS", "20")))
    parser.add_argument("--held-out", action="store_true", help="judge families held out")
    given = parser.parse_args()
    name = "held-out" if given.held_out else "verdicts"
    console, out = Console(width=170), Path("results")
    print(machine_line())
    began, code = time.perf_counter(), code_digest("judgements.py")
    listed = cases(given.seeds, given.held_out)
    results = measure_cases(judge, listed, out / "verdicts.jsonl", code, given.minutes)
    rows, multipliers, flat = summarise(results)
    lines = show(rows, console)
    list_misses(flat, console)
    print(f"{len(results)} of {len(listed)} logs judged")
    for reason in () if given.held_out else LEFT_OUT:
        print(reason)
    for text in unanswered(flat):
        print(text)
    for mode, verdicts in flat.items():
        usable = [one for one in verdicts if one["trust"] == "usable"]
        suitable = [one for one in verdicts if one.get("suitable")]
        refused = sum(one["trust"] == "refused" for one in suitable)
        share = sum(map(is_missed, usable)) / max(1, len(usable))
        print(f"{mode}: {share:.1%} of usable verdicts missed (at most {MISSED:.0%}); of "
              f"{len(suitable)} logs with suitable features {refused} refused")  # fmt: skip
    fitted = [c for c in multipliers["left out"].values() if c is not None]
    if fitted:
        low, high = min(fitted), max(fitted)
        inside = "within" if low <= SHIPPED <= high else "OUTSIDE"
        parts = ", ".join(
            f"{mode} {cell(multipliers[mode])}" for mode in ("all", *flat) if mode in multipliers
        )
        print(
            f"multiplier of the gap, one group left out: {low:.2f} to {high:.2f}, median "
            f"{np.median(fitted):.2f} (none left out: {parts}); the shipped one, {SHIPPED}, is "
            f"{inside} that range"
        )
    print(f"{time.perf_counter() - began:.0f} s")
    tables = {f"{mode}, {states}": groups for (mode, states), groups in rows.items()}
    content = {"machine": machine(), "rows": tables, "multipliers": multipliers}
    (out / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    (out / f"{name}-each.json").write_text(json.dumps(flat, indent=1), encoding="utf-8")
    (out / f"{name}.md").write_text("\n".join(lines[1:]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
