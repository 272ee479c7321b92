"""Accuracy of the automatic answer beside every candidate by hand, and beside other methods.

Run by ``make accuracy``. For each case, a family with a level and a number of episodes, the mean
squared error over logs of the automatic choice; of every candidate, by its plug-in value from the
same run; of importance sampling and doubly robust estimates; and, on the first 50 logs, of a tree
FQE and MAGIC. Cases with an aim of their own get 200 logs. Ratios are to the best
candidate in hindsight, which was chosen on the same logs; "split" is the ratio if it is chosen on
half of the logs and judged on the other half. With ``--peers 5``, d3rlpy's FQE and
SCOPE-RL's estimators get the first logs of a few cases too, in the environments of ``make peers``;
a second table compares them on these logs. Writes ``results/accuracy.json``, ``accuracy.md`` and a
figure; results so far are in ``results/accuracy.jsonl`` and ``accuracy-peers.jsonl``, where a run
that was stopped continues.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from saddleback import plots

from . import errors_of_peers as peers
from .errors_by_method import AUTOMATIC, CLOSED, FIRST, SLOW, WEIGHTED, errors_by_method
from .machine import machine, machine_line
from .resumable import budget, code_digest, files_digest, measure_cases

CASES = {
    ("cartpole-50", "far"): (50, 200, 500, 1000),
    ("mountain-car", "far"): (200, 500),
    ("graph", "near"): (256,),
    ("graph", "mid"): (256,),
    ("graph", "far"): (64, 256, 1024),
    ("graph-sparse", "near"): (256,),
    ("graph-sparse", "mid"): (256,),
    ("graph-sparse", "far"): (256,),
    ("graph-pomdp", "near"): (256, 1024),
    ("graph-pomdp", "mid"): (256, 1024),
    ("graph-pomdp", "far"): (256, 1024),
    ("graph-mc", "near"): (128, 512),
    ("graph-mc", "mid"): (128, 512),
    ("graph-mc", "far"): (128, 512),
    ("gridworld", "near"): (64, 256),
    ("gridworld", "far"): (64, 256, 1024),
    ("model-win", "far"): (50, 200, 1000),
    ("model-fail", "far"): (50, 200, 1000),
    ("icu-states", "far"): (200, 1000),
    ("icu-centres", "far"): (200,),
}
"""Numbers of episodes by family and level."""

TARGETS = {
    ("cartpole-50", "far", 50): 50.0, ("cartpole-50", "far", 200): 8.0,
    ("cartpole-50", "far", 500): 6.0, ("cartpole-50", "far", 1000): 7.0,
    ("mountain-car", "far", 200): 9.0, ("mountain-car", "far", 500): 9.0,
}  # fmt: skip
"""Mean squared errors to reach."""

HIDDEN = ("model-fail", "graph-pomdp")
"""Families whose observations hide part of the state."""

TYPICAL, WORST, MARGIN, REFUSED = 2.0, 5.0, 1.25, 0.5
"""Targets: median and largest ratio to the best candidate; ratio to the better of closed form and
WDR, and share of refused verdicts, where the state is hidden."""

EXACT = 0.01
"""Root mean squared error, in standard deviations of a return, below which a ratio is also left out
of the largest one: errors that do not matter differ by large factors."""

LEAST = 1e-3
"""Smallest ratio that is drawn."""

OTHERS = (CLOSED, *WEIGHTED, *SLOW)
"""Methods beside the automatic choice and its candidates."""

BESIDE = (AUTOMATIC, "WDR", "tree FQE")
"""Methods of the table beside other packages."""


def squared_errors(logs):
    """Return the squared errors of each method that has one on every log, or is slow."""
    squares = defaultdict(list)
    for log in logs:
        for method, error in log["errors"].items():
            squares[method].append(error**2)
    complete = {name for name, one in squares.items() if len(one) == len(logs)} | {*SLOW}
    return {name: np.array(one) for name, one in squares.items() if name in complete}


def means(squares):
    """Return the mean of squared errors by method, and its standard error."""
    mse = {name: float(one.mean()) for name, one in squares.items()}
    s_e = {name: float(one.std() / np.sqrt(max(1, len(one) - 1))) for name, one in squares.items()}
    return mse, s_e


def summarise(logs):
    """Return the mean squared errors of a case, with standard errors, from those of its logs."""
    complete = squared_errors(logs)
    candidates = {name: one for name, one in complete.items() if name.startswith("observation: ")}
    mse, s_e = means(complete)
    best = min(candidates, key=mse.__getitem__)
    trust = [log["trust"] for log in logs]
    return {
        "logs": len(logs), "mse": mse, "s.e.": s_e, "best": best,
        "best of all views": min((name for name in mse if ": " in name), key=mse.__getitem__),
        "ratio": mse[AUTOMATIC] / max(mse[best], 1e-300),
        "ratio, chosen on other logs": mse[AUTOMATIC] / max(split_error(candidates), 1e-300),
        "median candidate": float(np.median([mse[name] for name in candidates])),
        "trust": {level: trust.count(level) for level in ("usable", "doubtful", "refused")},
        "bias": float(np.mean([log["errors"][AUTOMATIC] for log in logs])),
        "spread": logs[0]["spread"], "seconds": float(np.median([log["seconds"] for log in logs])),
    }  # fmt: skip


def without_candidates(summary):
    """Return a summary with the errors of the best candidate and of other methods alone."""
    kept = {name for name in summary["mse"] if ": " not in name} | {summary["best"]}
    errors = ("mse", "s.e.")
    return summary | {
        key: {name: x for name, x in summary[key].items() if name in kept} for key in errors
    }


def beside_peers(results, of_peers):
    """Return the errors by case on the logs that other packages got, and our own."""
    logs = defaultdict(list)
    for (*case, seed), theirs in of_peers.items():
        if (*case, seed) in results:
            own = results[(*case, seed)]["errors"]
            both = {name: own[name] for name in BESIDE if name in own} | theirs["errors"]
            logs[tuple(case)].append({"errors": both})
    both = {case: means(squared_errors(same)) for case, same in logs.items()}
    return {
        case: {"logs": len(logs[case]), "mse": mse, "s.e.": s_e}
        for case, (mse, s_e) in both.items()
    }


def split_error(candidates):
    """Return the error of the best candidate of half of the logs on the other half, both ways."""
    every = np.array(list(candidates.values()))
    halves = every[:, ::2], every[:, 1::2]
    if not halves[1].size:
        return np.nan
    chosen = [half.mean(axis=1).argmin() for half in halves]
    return float(np.mean([halves[1][chosen[0]].mean(), halves[0][chosen[1]].mean()]))


def verdicts(summaries):
    """Yield each target with whether it was reached."""
    for case, target in TARGETS.items():
        if case in summaries:
            mse = summaries[case]["mse"][AUTOMATIC]
            yield f"{label(case)}: MSE {mse:.3g}, at most {target:g}", mse <= target
    ratios = {case: one["ratio"] for case, one in summaries.items()}
    median, worst = np.median(list(ratios.values())), max(ratios, key=ratios.__getitem__)
    yield f"median ratio to the best candidate {median:.2f}, at most {TYPICAL:g}", median <= TYPICAL
    text = f"largest ratio {ratios[worst]:.3g} ({label(worst)}), at most {WORST:g}"
    yield text, ratios[worst] <= WORST
    given = {case: ratios[case] for case, one in summaries.items() if is_answered(one)}
    if given and worst not in given:
        worst = max(given, key=given.__getitem__)
        text = f"largest ratio where errors matter and an answer is given {given[worst]:.3g}"
        yield f"{text} ({label(worst)}), at most {WORST:g}", given[worst] <= WORST
    for case, one in summaries.items():
        if case[0] in HIDDEN:
            mse, refused = one["mse"], one["trust"]["refused"] / one["logs"]
            ratio = mse[AUTOMATIC] / min(mse[CLOSED], mse["WDR"])
            text = f"{label(case)}: {ratio:.2f} of closed form or WDR, at most {MARGIN:g}"
            yield text, ratio <= MARGIN
            yield f"{label(case)}: {refused:.0%} refused, at most {REFUSED:.0%}", refused <= REFUSED


def is_answered(summary):
    """Whether errors are not negligible, and most logs get an answer, usable or doubtful."""
    negligible = summary["mse"][AUTOMATIC] <= (EXACT * summary["spread"]) ** 2
    return not negligible and summary["trust"]["refused"] <= REFUSED * summary["logs"]


def label(case):
    """Name a case."""
    return f"{case[0]} {case[1]}, n = {case[2]}"


def show(summaries, console):
    """Print the table, and return it as Markdown."""
    names = ["logs", AUTOMATIC, "s.e.", "best", "ratio", "split", "median cand.", *OTHERS, "u/d/r"]
    rows = {}
    for case, one in summaries.items():
        mse = one["mse"]
        numbers = [mse[AUTOMATIC], one["s.e."][AUTOMATIC], mse[one["best"]]]
        cells = [str(one["logs"]), *map(short, numbers), short(one["ratio"])]
        cells.append(short(one["ratio, chosen on other logs"]))
        cells += [short(one["median candidate"]), *(short(mse.get(name)) for name in OTHERS)]
        rows[case] = [*cells, "/".join(str(count) for count in one["trust"].values())]
    return show_table("mean squared error of the value", names, rows, console)


def show_peers(beside, console):
    """Print the table beside other packages, and return it as Markdown."""
    names = list(dict.fromkeys(name for one in beside.values() for name in one["mse"]))
    rows = {}
    for case, one in beside.items():
        cells = [f"{short(one['mse'][name])} ± {short(one['s.e.'][name])}" for name in names]
        rows[case] = [str(one["logs"]), *cells]
    return show_table("the same on the logs other packages got", ["logs", *names], rows, console)


def show_table(title, names, rows, console):
    """Print cells by case, and return them as Markdown."""
    table = Table(box=box.SIMPLE, title=title)
    table.add_column("case")
    for name in names:
        table.add_column(name, justify="right")
    lines = ["| case | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for case, cells in rows.items():
        table.add_row(label(case), *cells)
        lines.append(f"| {label(case)} | " + " | ".join(cells) + " |")
    console.print(table)
    return lines


def short(number):
    """Write a number in three digits."""
    return "" if number is None else f"{number:.3g}"


def draw(summaries, beside, out):
    """Draw the mean squared errors relative to the best candidate, a line for each case."""
    caption = (
        "Mean squared error of the value ÷ that of the best candidate in hindsight; a bar "
        "ends at the median candidate. Logs for each case: "
        f"{min(one['logs'] for one in summaries.values())} or more"
    )
    if beside:
        caption += f"; of other packages: {min(one['logs'] for one in beside.values())}"
    caption += f". Ratios below {LEAST:g} are drawn there"
    marks = {
        CLOSED: ("green", "s"), "WDR": ("orange", "^"), "MAGIC": ("purple", "v"),
        "tree FQE": ("pink", "D"), "d3rlpy FQE": ("slate", "P"), "SCOPE-RL DR": ("black", "x"),
    }  # fmt: skip
    with plots.style():
        figure, (ax,) = plots.panels(
            1, 1, 0.145 * len(summaries), caption=f"{caption}.", legend_rows=1, left=1.75
        )
        handles = {}
        for k, (case, one) in enumerate(summaries.items()):
            mse = beside.get(case, one)["mse"] | one["mse"]
            best = max(one["mse"][one["best"]], 1e-300)
            ax.plot([1, one["median candidate"] / best], [k, k], color="#D0D0D0", lw=3, zorder=1)
            for name, (colour, mark) in marks.items():
                if name in mse:
                    handles[name] = ax.plot(
                        max(LEAST, mse[name] / best), k, mark, ms=3.2, color=plots.COLOURS[colour],
                        label=name, ls="none",
                    )[0]  # fmt: skip
            handles[AUTOMATIC] = ax.plot(
                max(LEAST, one["ratio"]),
                k,
                "o",
                ms=4.5,
                color=plots.COLOURS["blue"],
                label=AUTOMATIC,
                zorder=5,
            )[0]
        ax.axvline(1, color=plots.COLOURS["black"], lw=0.8)
        ax.set(xscale="log", xlabel="mean squared error ÷ best candidate in hindsight")
        ax.set_yticks(range(len(summaries)), [label(case) for case in summaries])
        ax.set_ylim(len(summaries) - 0.4, -0.6)
        plots.legend_above(figure, list(handles.values()), len(handles))
        plots.save(figure, out, "accuracy")


def main():
    """Measure, print, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=budget(), help="time budget")
    parser.add_argument("--logs", type=int, default=50, help="logs of each case")
    parser.add_argument("--more", type=int, default=200, help="logs of cases with an aim")
    parser.add_argument("--only", nargs="*", default=[], help="families; all by default")
    parser.add_argument("--peers", type=int, help="logs of a few cases to give to other packages")
    given = parser.parse_args()
    if given.peers and not peers.is_installed():
        sys.exit("accuracy: no environments of other packages; run make peers INSTALL=--install.")
    console, out = Console(width=190), Path("results")
    print(machine_line())
    began, code = time.perf_counter(), code_digest("errors_by_method.py", "tree_fqe.py")
    ordered = [(*case, n) for case, sizes in CASES.items() for n in sizes]
    chosen = [case for case in ordered if not given.only or case[0] in given.only]
    listed = [
        (*case, FIRST + k) for k in range(max(given.logs, given.more)) for case in chosen
        if k < given.logs or (k < given.more and (case in TARGETS or case[0] in HIDDEN))
    ]  # fmt: skip
    results = measure_cases(errors_by_method, listed, out / "accuracy.jsonl", code, given.minutes)
    seeds = range(FIRST, FIRST + (given.peers or given.logs))
    of_peers = measure_cases(
        peers.errors_of_peers, [(*case, seed) for seed in seeds for case in peers.CASES],
        out / "accuracy-peers.jsonl", files_digest(*peers.SOURCES),
        given.minutes if given.peers else 0.0, workers=1,
    )  # fmt: skip
    logs = defaultdict(list)
    for (*case, _), result in results.items():
        logs[tuple(case)].append(result)
    summaries = {case: summarise(logs[case]) for case in ordered if case in logs}
    lines, beside = show(summaries, console), beside_peers(results, of_peers)
    if beside:
        lines += ["", *show_peers(beside, console)]
    targets = [(target, bool(reached)) for target, reached in verdicts(summaries)]
    for target, reached in targets:
        print(f"{'reached' if reached else 'MISSED '}  {target}")
    print(f"{len(results)} of {len(listed)} logs, {time.perf_counter() - began:.0f} s")
    cases = {label(case): without_candidates(one) for case, one in summaries.items()}
    content = {"machine": machine(), "cases": cases, "targets": targets}
    content["beside other packages"] = {label(case): one for case, one in beside.items()}
    (out / "accuracy.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    (out / "accuracy.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(summaries, beside, out)


if __name__ == "__main__":
    main()
