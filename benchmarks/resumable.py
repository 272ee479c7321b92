"""Measure many cases within a time budget; a run that was stopped continues where it ended.

Results are appended to a file of JSON lines, each with its case and a digest of the code that it
depends on. Results of other code are not reused.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from rich.progress import track

import saddleback

PACKAGE, BENCHMARKS = Path(saddleback.__file__).parent, Path(__file__).parent
SOURCES = [PACKAGE / name for name in ("ope", "features", "engine", "log")]
SOURCES += [BENCHMARKS / name for name in ("families", "held_out", "situations")]


@cache
def code_digest(*extra: str) -> str:
    """Return a digest of the estimators, the families, and other files of the benchmarks."""
    files = sorted(path for folder in SOURCES for path in folder.rglob("*.py"))
    return files_digest("families/truths.json", *extra, others=files)


def files_digest(*names: str, others: Sequence[Path] = ()) -> str:
    """Return a digest of files of the benchmarks, after others."""
    files = [*others, *(BENCHMARKS / name for name in names)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def stored_results(path: Path, code: str) -> dict[str, Any]:
    """Return the results of this code by case; a last line that was cut off is ignored."""
    results = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if entry["code"] == code:
            results[json.dumps(entry["case"])] = entry["result"]
    return results


@contextmanager
def appending(path: Path, code: str) -> Iterator[Callable[[tuple, Any], None]]:
    """Open a file of results of this code; yield a function that appends a case and its result."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
            file.write("\n")

        def append(case: tuple, result: Any) -> None:
            file.write(json.dumps({"case": case, "code": code, "result": result}) + "\n")
            file.flush()

        yield append


def measure_cases(
    measure: Callable[..., Any],
    cases: Sequence[tuple],
    path: Path,
    code: str,
    minutes: float,
    workers: int = 2,
) -> dict[tuple, Any]:
    """Return the results of ``measure(*case)`` by case: those stored, and those of this run.

    Cases are measured in the given order until the time is over.
    """
    stored = stored_results(path, code)
    missing = [case for case in cases if json.dumps(case) not in stored]
    with appending(path, code) as append:
        for case, result in _in_parallel(measure, missing, minutes, workers):
            stored[json.dumps(case)] = result
            append(case, result)
    return {case: stored[key] for case in cases if (key := json.dumps(case)) in stored}


def _in_parallel(
    measure: Callable[..., Any], cases: list[tuple], minutes: float, workers: int
) -> Iterator[tuple[tuple, Any]]:
    """Yield cases with their results as they arrive; none is begun after the time is over."""
    end, rest, running = time.monotonic() + 60.0 * minutes, iter(cases), {}

    def submit(pool):
        case = next(rest, None) if time.monotonic() < end else None
        if case is not None:
            running[pool.submit(measure, *case)] = case

    def completed(pool):
        for _ in range(workers):
            submit(pool)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
                submit(pool)

    with ProcessPoolExecutor(workers) as pool:
        yield from track(completed(pool), "measuring", total=len(cases), transient=True)


def budget(default: float = 30.0) -> float:
    """Return the time budget in minutes: ``BENCHMARK_MINUTES``, or the default."""
    return float(os.environ.get("BENCHMARK_MINUTES", default))
