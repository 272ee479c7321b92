"""saddleback beside other tools, on the same logs. Run by ``make peers``.

d3rlpy (FQE) and SCOPE-RL (weighted episodes, with its bootstrap intervals) read the same
MountainCar and FrozenLake logs as saddleback; every estimate is held against the truth of the
policy that was really evaluated. Each tool runs in a process of its own, one after the other, on
one thread, for its seconds and peak memory. ``--install`` makes the peers' environments under
``results/peers``; without them nothing is compared. Answers are kept there too, and a tool is asked
again only by ``--again TOOL``. Writes ``results/peers.json`` and ``results/peers.md``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import environments
import table
from cases import CASES, write

HERE = Path(__file__).parent
RESULTS = Path("results")
FOLDER = RESULTS / "peers"
LIMIT = 1800
"""Seconds after which a worker is given up."""

WORKERS = {
    "saddleback": [("run_saddleback.py", "folder", "case")],
    "d3rlpy": [
        ("run_d3rlpy.py", "arrays", choice, rate)
        for choice in ("greedy", "sampled")
        for rate in ("1e-4", "1e-3")
    ],
    "scope-rl": [("run_scope_rl.py", "arrays", "weights"), ("run_scope_rl.py", "arrays", "values")],
}


def kept(tool, case, again, script, *words):
    """Run one worker, unless its answer is there from before; return rows and versions."""
    name = "-".join([case, Path(script).stem, *words[1:]])
    path = FOLDER / "answers" / f"{name}.json"
    if path.exists() and tool not in again:
        return json.loads(path.read_text())
    found = work(tool, case, script, *words)
    if found[1]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    return found


def work(tool, case, script, *words):
    """Run one worker; return its rows, and the versions it found."""
    known = {"folder": str(FOLDER), "case": case, "arrays": str(FOLDER / f"{case}.npz")}
    python = sys.executable if tool == "saddleback" else environments.python(FOLDER, tool)
    command = [python, str(HERE / script), *(known.get(word, word) for word in words)]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        last = (said.stderr.strip().splitlines() or ["no word"])[-1]
        failure = f"ended with {said.returncode}: {last}" if said.returncode else ""
    except subprocess.TimeoutExpired:
        failure = f"no answer in {LIMIT} s"
    if failure:
        return [{"tool": tool, "estimator": " ".join(words[1:]), "error_text": failure}], {}
    found = json.loads(said.stdout.splitlines()[-1])
    rows = [
        row | {"tool": tool, "peak_mb": max(found["peak_mb"], row.get("peak_mb", 0.0))}
        for row in found["rows"]
    ]
    return rows, found["versions"]


def judged(row, truths):
    """Return a row with its error against the truth of what was evaluated."""
    if "error_text" in row:
        return row
    truth = truths[row["of"]]
    covers = None if row["low"] is None else row["low"] <= truth <= row["high"]
    return row | {"truth": truth, "error": row["value"] - truth, "covers": covers}


def prepared(install):
    """Return the environments' errors by tool, or leave if they are not there."""
    errors = {}
    if install:
        for tool in environments.missing(FOLDER):
            print(f"installing {', '.join(environments.PINNED[tool])}")
            errors[tool] = environments.install(FOLDER, tool)
    elif environments.missing(FOLDER):
        absent = " and ".join(environments.missing(FOLDER))
        sys.exit(f"peers: no environment for {absent}; make peers INSTALL=--install makes them.")
    return {tool: error for tool, error in errors.items() if error}


def main():
    """Make the logs, run every tool on them, print, write."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--install", action="store_true", help="make the peers' environments")
    options.add_argument(
        "--again", nargs="*", default=[], metavar="TOOL", choices=WORKERS,
        help="tools that are asked again, though their answers are there from before",
    )  # fmt: skip
    chosen = options.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    errors = prepared(chosen.install)
    content = {"date": datetime.date.today().isoformat(), "versions": {}, "cases": {}}
    text = []
    for case, name in CASES.items():
        made = write(case, FOLDER) | {"table": []}
        for tool, jobs in WORKERS.items():
            if tool in errors:
                row = {"tool": tool, "estimator": "not installed", "error_text": errors[tool]}
                made["table"].append(row)
                continue
            for job in jobs:
                rows, versions = kept(tool, case, chosen.again, *job)
                made["table"] += [judged(row, made["truth"]) for row in rows]
                content["versions"].setdefault(tool, {}).update(versions)
        content["cases"][name] = made
        table.terminal(name, made)
        text.append(table.markdown(name, made))
    versions = [f"{t} ({', '.join(f'{n} {v}' for n, v in of.items())})"
                for t, of in content["versions"].items()]  # fmt: skip
    text.append(f"{content['date']}: {'; '.join(versions)}.\n")
    print(text[-1])
    (RESULTS / "peers.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / "peers.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
