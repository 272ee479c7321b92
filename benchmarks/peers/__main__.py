"""saddleback compared with other tools, on the same logs. Run by ``make peers``.

d3rlpy (FQE) and SCOPE-RL (weighted episodes, with its bootstrap intervals) read the same
MountainCar and FrozenLake logs as saddleback; every estimate is compared with the true value of the
policy that was actually evaluated. Each tool runs in a separate process, one after the other, on
one thread, to measure its time and peak memory. ``--install`` creates the environments of the tools
under ``results/peers``; without them nothing is compared. Results are cached there too, and a tool
runs again only with ``--again TOOL``. Writes ``results/peers.json`` and ``results/peers.md``.
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

SCRIPTS = Path(__file__).parent
RESULTS = Path("results")
FOLDER = RESULTS / "peers"
LIMIT = 1800
"""Time limit of a worker, in seconds."""

WORKERS = {
    "saddleback": [("run_saddleback.py", "folder", "case")],
    "d3rlpy": [
        ("run_d3rlpy.py", "arrays", choice, rate)
        for choice in ("greedy", "sampled")
        for rate in ("1e-4", "1e-3")
    ],
    "scope-rl": [("run_scope_rl.py", "arrays", "weights"), ("run_scope_rl.py", "arrays", "values")],
}


def run_cached(tool, case, rerun, script, *words):
    """Run one worker unless its result is cached; return rows and versions."""
    name = "-".join([case, Path(script).stem, *words[1:]])
    path = FOLDER / "answers" / f"{name}.json"
    if path.exists() and tool not in rerun:
        return json.loads(path.read_text(encoding="utf-8"))
    result = work(tool, case, script, *words)
    if result[1]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result), encoding="utf-8")
    return result


def work(tool, case, script, *words):
    """Run one worker; return its rows, and the versions of its packages."""
    paths = {"folder": str(FOLDER), "case": case, "arrays": str(FOLDER / f"{case}.npz")}
    python = sys.executable if tool == "saddleback" else environments.python(FOLDER, tool)
    command = [
        python,
        str(SCRIPTS / script),
        *(paths.get(argument, argument) for argument in words),
    ]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        failure = f"ended with {process.returncode}: {last}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        failure = f"no result in {LIMIT} s"
    if failure:
        return [{"tool": tool, "estimator": " ".join(words[1:]), "error_text": failure}], {}
    output = json.loads(process.stdout.splitlines()[-1])
    rows = [
        row | {"tool": tool, "peak_mb": max(output["peak_mb"], row.get("peak_mb", 0.0))}
        for row in output["rows"]
    ]
    return rows, output["versions"]


def with_error(row, truths):
    """Return a row with its error against the true value of the evaluated policy."""
    if "error_text" in row:
        return row
    truth = truths[row["of"]]
    covers = None if row["low"] is None else row["low"] <= truth <= row["high"]
    return row | {"truth": truth, "error": row["value"] - truth, "covers": covers}


def prepare_environments(install):
    """Return the installation errors by tool; exit if environments are missing."""
    errors = {}
    if install:
        for tool in environments.missing(FOLDER):
            print(f"installing {', '.join(environments.PINNED[tool])}")
            errors[tool] = environments.install(FOLDER, tool)
    elif environments.missing(FOLDER):
        absent = " and ".join(environments.missing(FOLDER))
        sys.exit(f"peers: no environment for {absent}; run make peers INSTALL=--install.")
    return {tool: error for tool, error in errors.items() if error}


def main():
    """Collect the logs, run every tool on them, print, write."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--install", action="store_true", help="create the environments of the tools"
    )
    options.add_argument(
        "--again", nargs="*", default=[], metavar="TOOL", choices=WORKERS,
        help="tools to run again although their results are cached",
    )  # fmt: skip
    chosen = options.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    errors = prepare_environments(chosen.install)
    content = {"date": datetime.date.today().isoformat(), "versions": {}, "cases": {}}
    text = []
    for case, name in CASES.items():
        results = write(case, FOLDER) | {"table": []}
        for tool, jobs in WORKERS.items():
            if tool in errors:
                row = {"tool": tool, "estimator": "not installed", "error_text": errors[tool]}
                results["table"].append(row)
                continue
            for job in jobs:
                rows, versions = run_cached(tool, case, chosen.again, *job)
                results["table"] += [with_error(row, results["truth"]) for row in rows]
                content["versions"].setdefault(tool, {}).update(versions)
        content["cases"][name] = results
        table.terminal(name, results)
        text.append(table.markdown(name, results))
    versions = [f"{t} ({', '.join(f'{n} {v}' for n, v in of.items())})"
                for t, of in content["versions"].items()]  # fmt: skip
    text.append(f"{content['date']}: {'; '.join(versions)}.\n")
    print(text[-1])
    (RESULTS / "peers.json").write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (RESULTS / "peers.md").write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
