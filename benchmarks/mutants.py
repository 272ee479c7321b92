"""Do the tests notice a wrong line? A sample of mutants of the code, and the share that is killed.

A mutant is a copy of the package with one change: a comparison, an arithmetic operator or a number.
It is killed if an example in its file or a test of its package fails, or does not end. `make
mutants` takes a random sample, prints those that survive, and writes results/mutants.json.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from .machine import machine_line

ROOT = Path(__file__).parents[1]

TESTS = {
    "rules": ("tests/rules", "tests/checks", "tests/engine"),
    "engine": ("tests/engine", "tests/learning"),
    "system": ("tests/system", "tests/theory"),
    "theory": ("tests/theory",),
    "ope": ("tests/ope",),
}
"""Packages that are mutated, and the tests that should notice."""

TIMEOUT = 900.0
"""Seconds after which a mutant counts as killed: an endless loop."""

SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
"""What replaces an operator."""


@dataclass(frozen=True)
class Mutant:
    """One change of one line."""

    file: str
    line: int
    column: int
    old: str
    new: str

    @property
    def package(self) -> str:
        """The package that it is in."""
        return Path(self.file).parts[2]

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        lines = text.splitlines(keepends=True)
        row = lines[self.line - 1].encode()
        assert row[self.column :].startswith(self.old.encode()), self
        changed = row[: self.column] + self.new.encode() + row[self.column + len(self.old) :]
        lines[self.line - 1] = changed.decode()
        return "".join(lines)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old} -> {self.new}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Return every mutant of a file."""
    text = path.read_text(encoding="utf-8")
    lines, name = text.splitlines(), path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            old = ast.get_source_segment(text, node) or ""
            yield Mutant(name, node.lineno, node.col_offset, old, f"({old} + 1)")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _between(node.left, node.comparators[0], node.ops[0], lines, name)
        elif isinstance(node, ast.BinOp):
            yield from _between(node.left, node.right, node.op, lines, name)
        elif isinstance(node, ast.BoolOp):
            yield from _between(node.values[0], node.values[1], node.op, lines, name)


def _between(
    left: ast.expr, right: ast.expr, operator: ast.AST, lines: list[str], name: str
) -> Iterator[Mutant]:
    """Return the mutant of an operator between two expressions that end and begin on one line."""
    if type(operator) not in SWAPS or left.end_lineno != right.lineno:
        return
    old, new = SWAPS[type(operator)]
    row, begin = lines[right.lineno - 1].encode(), left.end_col_offset or 0
    at = row[begin : right.col_offset].find(old.encode())
    if at >= 0:
        yield Mutant(name, right.lineno, begin + at, old, new)


def ordered_tests(package: str, module: str = "") -> list[str]:
    """Return what tests a package: examples of a module, files that mention it, the others."""
    files = [path for name in TESTS[package] for path in sorted((ROOT / name).rglob("test_*.py"))]
    if module:
        files.sort(key=lambda path: module not in path.read_text(encoding="utf-8"))
    examples = [f"saddleback.{package}.{module}"] if module else []
    return [*examples, *(path.relative_to(ROOT).as_posix() for path in files)]


def failure(source: Path, cache: Path, package: str, module: str = "") -> str:
    """Return how the tests of a package fail with the package in a folder; empty if they pass."""
    environment = os.environ | {
        "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider",
        "-m", "not slow and not browser and not cluster", "--pyargs",
        *ordered_tests(package, module),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return "the tests did not end"
    return (
        "" if done.returncode == 0 else done.stdout.decode(errors="replace")[-2000:] or "no tests"
    )


def main() -> None:
    """Draw mutants, run the tests of each, print the survivors and the share killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=25, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", choices=TESTS, help="one package instead of all")
    given = parser.parse_args()
    packages = [given.package] if given.package else list(TESTS)
    files = [p for name in packages for p in sorted((ROOT / "src/saddleback" / name).glob("*.py"))]
    candidates = [mutant for path in files for mutant in mutants_of(path)]
    rng = np.random.default_rng(given.seed)
    chosen = [candidates[k] for k in rng.choice(len(candidates), given.sample, replace=False)]
    print(machine_line())
    begun, killed = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        source, plain = Path(folder) / "src", Path(folder) / "cache"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for package in sorted({mutant.package for mutant in chosen}):
            if reason := failure(source, plain, package):
                sys.exit(f"the tests of {package} fail without any change:\n{reason}")
        for number, mutant in enumerate(chosen):
            path = Path(folder) / mutant.file
            text = path.read_text(encoding="utf-8")
            path.write_text(mutant.apply(text), encoding="utf-8")
            # Compiled callers in other files do not notice a change: such a mutant compiles afresh.
            compiles = "saddleback._jit" in text
            cache = Path(folder) / f"cache{number}" if compiles else plain
            killed.append(bool(failure(source, cache, mutant.package, path.stem)))
            path.write_text(text, encoding="utf-8")
            print(f"{'killed  ' if killed[-1] else 'SURVIVED'} {mutant}", flush=True)
            if compiles:
                shutil.rmtree(cache, ignore_errors=True)
    seconds = time.monotonic() - begun
    print(
        f"{sum(killed)} of {len(killed)} mutants killed ({np.mean(killed):.0%}), drawn with seed "
        f"{given.seed} from {len(candidates):,}; {seconds:.0f} s"
    )
    results = [asdict(mutant) | {"killed": k} for mutant, k in zip(chosen, killed, strict=True)]
    out = ROOT / "results"
    out.mkdir(exist_ok=True)
    content = {"seed": given.seed, "all": len(candidates), "seconds": seconds, "mutants": results}
    (out / "mutants.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
