"""What moved between two runs of a benchmark, beyond noise.

    python benchmarks/compare.py before.json after.json
    python benchmarks/compare.py before/ after/ --noise 0.05

Arguments are JSON files that ``make bench`` writes, or folders of several such files from repeated
runs. A number has moved if the ranges of its runs are further apart than the noise, a share.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

NOISE = 0.2
"""Share by which a number of one run varies on an otherwise idle machine."""

SAME_MACHINE = ("processor", "cores")


class Move(NamedTuple):
    """A number that moved: its place in the file, and its values in the runs nearest each other."""

    name: str
    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"{self.after / self.before:8.2f} ×  {self.name}: {self.before:.4g} → {self.after:.4g}"
        )


def numbers(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield every positive number of a benchmark with its place, such as ``start_up first_s``."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key != "machine":
                yield from numbers(value, f"{name} {key}".strip())
    elif isinstance(content, list):
        for place, value in enumerate(content):
            yield from numbers(value, f"{name} {place}")
    elif isinstance(content, (int, float)) and content > 0:
        yield name, float(content)


def moved(before: list[Any], after: list[Any], noise: float = NOISE) -> list[Move]:
    """Return the numbers that moved from runs before to runs after, the furthest first."""
    old, new = ([dict(numbers(run)) for run in runs] for runs in (before, after))
    moves = []
    for name in old[0]:
        if not all(name in run for run in (*old, *new)):
            continue
        ranges = [[run[name] for run in runs] for runs in (old, new)]
        for low, high, pair in (
            (max(ranges[0]), min(ranges[1]), Move(name, max(ranges[0]), min(ranges[1]))),
            (max(ranges[1]), min(ranges[0]), Move(name, min(ranges[0]), max(ranges[1]))),
        ):
            if high > low * (1 + noise):
                moves.append(pair)
    return sorted(moves, key=lambda move: -max(move.after / move.before, move.before / move.after))


def read_runs(path: Path) -> list[Any]:
    """Return the content of a file, or of the JSON files in a folder."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise SystemExit(f"{path} has no JSON files: name one that make bench wrote.")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def main() -> None:
    """Print the commits and machines, and what moved."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--noise", type=float, default=NOISE, help="share  [default: %(default)s]")
    options = parser.parse_args()
    before, after = read_runs(options.before), read_runs(options.after)
    first, last = before[0]["machine"], after[0]["machine"]
    print(f"{first.get('commit') or 'before'} ({len(before)} runs) → "
          f"{last.get('commit') or 'after'} ({len(after)} runs), {last['processor']}")  # fmt: skip
    for key in SAME_MACHINE:
        if first[key] != last[key]:
            print(f"warning: other {key}: {first[key]} before, {last[key]} after.")
    moves = moved(before, after, options.noise)
    for move in moves:
        print(move)
    print(f"{len(moves)} of {len(dict(numbers(after[0])))} numbers moved by more than "
          f"{options.noise:.0%}.")  # fmt: skip


if __name__ == "__main__":
    main()
