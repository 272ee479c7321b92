"""Do the tests notice a wrong line? A sample of mutants of the code, and the share that is killed.

A mutant is a copy of the package with one change: a comparison, an arithmetic operator or a number.
It is killed if an example in its file or a test of its package fails, or does not end. `make
mutants` takes a random sample, and prints those that survive and the share killed: of all, and of
those not in equivalent_mutants.txt, which no test can kill.

Only files of tests that execute the line are run. Results are appended to results/mutants.jsonl;
a run that was stopped continues. It works on copies of the tree, which may change meanwhile.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from .executed_lines import TARGET, Executed, read, statement_at
from .machine import machine, machine_line
from .resumable import appending, stored_results

ROOT = Path(__file__).parents[1]
WORK = ROOT / "results/mutants"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")

TESTS = {
    "rules": ("tests/rules/", "tests/checks/", "tests/engine/", "tests/test_errors.py"),
    "engine": ("tests/engine/", "tests/learning/", "tests/cuda/", "tests/test_errors.py"),
    "system": ("tests/system/", "tests/theory/", "tests/test_errors.py"),
    "theory": ("tests/theory/", "tests/test_errors.py"),
    "ope": ("tests/ope/", "tests/test_errors.py"),
}
"""Packages that are mutated, and the tests that should notice."""

TEST_TIMEOUT = 100
"""Seconds after which a test counts as failed: an endless loop. Fast tests take less than one."""

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

    @property
    def module(self) -> str:
        """The name of its file."""
        return Path(self.file).stem

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        lines = text.splitlines(keepends=True)
        row = lines[self.line - 1].encode()
        assert row[self.column :].startswith(self.old.encode()), self
        changed = row[: self.column] + self.new.encode() + row[self.column + len(self.old) :]
        lines[self.line - 1] = changed.decode()
        return "".join(lines)

    def change(self, text: str) -> tuple[str, str]:
        """Return the line in this text of the file, before and after."""
        return tuple(t.splitlines()[self.line - 1].strip() for t in (text, self.apply(text)))

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


def test_files(package: str) -> list[str]:
    """Return the files of tests of a package."""
    places = [ROOT / name for name in TESTS[package]]
    paths = [p for place in places for p in [place, *place.rglob("test_*.py")] if p.is_file()]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def ordered_tests(
    mutant: Mutant, text: str, executed: dict[str, Executed], root: Path = ROOT
) -> list[str]:
    """Return the files of tests that may notice: first those that mention the module."""
    span, compiled = statement_at(text, mutant.line)
    name = mutant.file.removeprefix("src/")
    own = [f for f in executed if f.startswith(TESTS[mutant.package])]
    files = [f for f in own if executed[f].may_notice(name, span, compiled)]

    def place(file: str) -> tuple[bool, bool, float]:
        mentions = mutant.module in (root / file).read_text(encoding="utf-8")
        runs = executed[file].may_notice(name, span, False) and not executed[file].processes
        return not mentions, not runs, executed[file].seconds

    return sorted(files, key=place)


def equivalent_mutants(text: str) -> dict[tuple[str, str, str], str]:
    """Return why mutants change no result: by file, line before, and line after.

    Each has four lines: the file, the lines before and after with "- " and "+ ", and the reason.
    """
    blocks = [block.splitlines() for block in text.split("\n\n") if not block.startswith("#")]
    return {
        (file, before.removeprefix("- "), after.removeprefix("+ ")): " ".join(reason)
        for file, before, after, *reason in filter(None, blocks)
    }


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the names that a file imports, with their modules."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def defined(path: Path) -> Iterator[str]:
    """Return the names that a file defines, which its package may offer."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = getattr(node, "targets", [getattr(node, "target", node)])
        names = [getattr(target, "id", getattr(target, "name", None)) for target in targets]
        yield from filter(None, names)


def compiled_dependents(source: Path, file: Path) -> set[Path]:
    """Return the files whose compiled functions may contain code or numbers of a file."""
    kernels = [p for p in source.rglob("*.py") if "saddleback._jit" in p.read_text("utf-8")]
    files, to_do = set(), [file]
    while to_do:
        path = to_do.pop()
        files.add(path)
        *package, module = path.relative_to(source).with_suffix("").parts
        names = {".".join([*package, name]) for name in (module, *defined(path))}
        to_do += [p for p in kernels if names & imported(p) and p not in files]
    return files


def compiled_parts(source: Path, file: Path) -> list[Path]:
    """Return the files of these functions in the cache of Numba."""
    files = sorted(compiled_dependents(source, file))
    return [p for f in files for p in (f.parent / "__pycache__").glob(f"{f.stem}.*.nb[ic]")]


class Copy:
    """A copy of the working tree, whose compiled functions are kept beside their modules."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.aside = folder, folder.with_name(f"{folder.name}-compiled")
        if self.aside.exists():  # stopped at a mutant: compiled functions may contain it
            shutil.rmtree(self.aside)
            shutil.rmtree(folder)
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        tracked = {name for name in names.stdout.split("\0") if name and (ROOT / name).is_file()}
        changed = [n for n in tracked if not same_content(ROOT / n, folder / n)]
        afresh = any(name.startswith("src/") for name in changed)
        for path in [p for p in folder.rglob("*") if p.is_file()]:
            compiled = path.suffix in (".nbi", ".nbc")
            if afresh if compiled else path.relative_to(folder).as_posix() not in tracked:
                path.unlink()
        for name in changed:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)

    def share(self, other: Copy) -> None:
        """Take the compiled functions of another copy that this one lacks."""
        indices = [*other.folder.rglob("*.nbi")]
        for index in [
            p for p in indices if not (self.folder / p.relative_to(other.folder)).exists()
        ]:
            target = (self.folder / index.relative_to(other.folder)).parent
            target.mkdir(exist_ok=True)
            for part in index.parent.glob(f"{index.stem}.*"):
                shutil.copy2(part, target)

    def pytest(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        """Run tests of this copy."""
        environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
        environment |= {
            "PYTHONPATH": str(self.folder / "src"), "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        command = [
            sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider",
            "-o", f"faulthandler_timeout={TEST_TIMEOUT}", "-o", "faulthandler_exit_on_timeout=true",
            "-m", "not slow and not browser and not cluster", *arguments,
        ]  # fmt: skip
        return subprocess.run(
            command, cwd=self.folder, env=environment | variables, check=False, text=True,
            errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def record(self, file: str, out: Path) -> None:
        """Write which lines a file of tests executes; it must pass."""
        target = f"{self.folder / 'src'}::{out}"
        done = self.pytest("-p", "benchmarks.executed_lines", file, **{TARGET: target})
        if done.returncode not in (0, 5):  # 5: all its tests are slow
            out.unlink(missing_ok=True)
            raise SystemExit(f"{file} fails without any change:\n{done.stdout[-2000:]}")

    def failure(self, mutant: Mutant, tests: list[str]) -> str:
        """Return the test that fails with a mutant; empty if they pass."""
        path = self.folder / mutant.file
        text, status = path.read_text(encoding="utf-8"), path.stat()
        source, put_aside = self.folder / "src", {}
        self.aside.mkdir()
        for number, part in enumerate(compiled_parts(source, path)):
            put_aside[part] = part.rename(self.aside / str(number))
        try:
            path.write_text(mutant.apply(text), encoding="utf-8")
            example = f"saddleback.{mutant.package}.{mutant.module}"
            done = self.pytest("--pyargs", example, *tests)
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            for part in compiled_parts(source, path):
                part.unlink()
            for part, place in put_aside.items():
                place.rename(part)
            self.aside.rmdir()
        return "" if done.returncode in (0, 5) else first_failure(done.stdout)


def same_content(one: Path, other: Path) -> bool:
    """Return whether the second file exists, with the content of the first."""
    return other.is_file() and one.read_bytes() == other.read_bytes()


def first_failure(output: str) -> str:
    """Return what pytest says of the first failure."""
    lines = [s for s in output.splitlines() if s.startswith(("FAILED", "ERROR", "Timeout"))]
    return (lines or output.splitlines() or ["no output"])[-1][:200]


def digest(*names: str) -> str:
    """Return a digest of files of the working tree."""
    files = sorted({p for name in names for p in [ROOT / name, *(ROOT / name).rglob("*")]})
    kinds = [p for p in files if p.is_file() and "__pycache__" not in p.parts]
    return sha256(b"".join(str(p).encode() + p.read_bytes() for p in kinds)).hexdigest()[:12]


@cache
def with_support(file: str) -> frozenset[str]:
    """Return a file of tests, and the modules of tests/ that it may import, by their names."""
    names, to_do = {file}, [file]
    support = [p for name in ("helpers", "oracles") for p in (ROOT / "tests" / name).rglob("*.py")]
    while to_do:
        text = (ROOT / to_do.pop()).read_text(encoding="utf-8")
        named = {p.relative_to(ROOT).as_posix() for p in support if p.stem in text} - names
        names |= named
        to_do += named
    return frozenset(names)


def executed_lines(copies: SimpleQueue, jobs: int, packages: list[str]) -> dict[str, Executed]:
    """Return which lines each file of tests executes; those of an unchanged file are kept."""
    out = WORK / "lines"
    out.mkdir(parents=True, exist_ok=True)
    common = digest("src", "tests/conftest.py", "tests/ope/conftest.py")
    files = sorted({file for package in packages for file in test_files(package)})
    targets = {f: out / f"{Path(f).stem}-{digest(*with_support(f))}-{common}.json" for f in files}

    def record(file: str) -> str:
        copy = copies.get()
        try:
            copy.record(file, targets[file])
        finally:
            copies.put(copy)
        return file

    missing = [file for file in files if not targets[file].exists()]
    with ThreadPoolExecutor(jobs) as pool:
        for number, done in enumerate(as_completed([pool.submit(record, f) for f in missing])):
            print(f"{number + 1} of {len(missing)}: lines of {done.result()}", flush=True)
    return {file: read(path) for file, path in targets.items()}


def measure(
    mutants: list[Mutant], packages: list[str], jobs: int, path: Path, survivors: bool
) -> dict[Mutant, dict]:
    """Return whether mutants are killed, and by what; those of the same code are read.

    ``survivors`` also reads those that other tests of before killed.
    """
    code = digest("src", "tests")
    stored = (killed_before(path) if survivors else {}) | stored_results(path, code)
    texts = {m: (ROOT / m.file).read_text(encoding="utf-8") for m in mutants}

    def is_stored(mutant: Mutant) -> bool:
        """Whether there is a result of this change; lines may have moved since."""
        result = stored.get(json.dumps(list(asdict(mutant).values())))
        lines = mutant.change(texts[mutant])
        return result is not None and (result["before"], result["after"]) == lines

    missing = [mutant for mutant in mutants if not is_stored(mutant)]
    copies: SimpleQueue[Copy] = SimpleQueue()
    if missing:
        trees = [Copy(WORK / f"copy{number}") for number in range(jobs)]
        for tree in trees:
            copies.put(tree)
        executed = executed_lines(copies, jobs, packages)
        for tree in trees:
            for other in trees:
                tree.share(other)
        tests = {m: ordered_tests(m, texts[m], executed, trees[0].folder) for m in missing}

    def test(mutant: Mutant) -> tuple[Mutant, dict]:
        copy, begun = copies.get(), time.monotonic()
        try:
            by = copy.failure(mutant, tests[mutant])
        finally:
            copies.put(copy)
        before, after = mutant.change(texts[mutant])
        return mutant, {
            "killed": bool(by), "by": by, "files": len(tests[mutant]), "before": before,
            "after": after, "seconds": round(time.monotonic() - begun, 1),
        }  # fmt: skip

    with appending(path, code) as append, ThreadPoolExecutor(jobs) as pool:
        done = as_completed([pool.submit(test, mutant) for mutant in missing])
        for number, (mutant, result) in enumerate((future.result() for future in done), 1):
            case = tuple(asdict(mutant).values())
            stored[json.dumps(list(case))] = result
            append(case, result)
            print(
                f"{number} of {len(missing)}: {'killed  ' if result['killed'] else 'SURVIVED'} "
                f"{mutant}  ({result['seconds']:.0f} s, {result['files']} files) {result['by']}",
                flush=True,
            )
    return {m: stored[json.dumps(list(asdict(m).values()))] for m in mutants}


def killed_before(path: Path) -> dict[str, dict]:
    """Return the results of mutants that were killed, by any tests."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    entries = [json.loads(line) for line in lines]
    return {json.dumps(e["case"]): e["result"] for e in entries if e["result"]["killed"]}


def main() -> None:
    """Draw mutants, run the tests of each, print the survivors and the share killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=25, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", choices=TESTS, help="one package instead of all")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tested at a time")
    parser.add_argument(
        "--survivors",
        action="store_true",
        help="test only the survivors, with the tests that were added since",
    )
    given = parser.parse_args()
    packages = [given.package] if given.package else list(TESTS)
    files = [p for name in packages for p in sorted((ROOT / "src/saddleback" / name).glob("*.py"))]
    candidates = [mutant for path in files for mutant in mutants_of(path)]
    rng = np.random.default_rng(given.seed)
    chosen = [candidates[k] for k in rng.choice(len(candidates), given.sample, replace=False)]
    print(machine_line(), flush=True)
    begun, measured_with = time.monotonic(), machine()
    results = measure(chosen, packages, given.jobs, ROOT / "results/mutants.jsonl", given.survivors)
    reasons = equivalent_mutants(EQUIVALENT.read_text(encoding="utf-8"))
    survivors = [mutant for mutant in chosen if not results[mutant]["killed"]]
    equivalent = []
    for mutant in survivors:
        result = results[mutant]
        reason = reasons.get((mutant.file, result["before"], result["after"]))
        equivalent += [mutant] if reason else []
        print(f"survived: {mutant}\n  - {result['before']}\n  + {result['after']}")
        print(f"  {'no test executes it' if not result['files'] else ''}" + (
            f"equivalent: {reason}" if reason else ""
        ))  # fmt: skip
    seconds, killed = time.monotonic() - begun, len(chosen) - len(survivors)
    rest = len(chosen) - len(equivalent)
    print(
        f"{killed} of {len(chosen)} mutants killed ({killed / len(chosen):.0%}); {killed} of "
        f"{rest} that are not known to be equivalent ({killed / max(rest, 1):.0%}); drawn with "
        f"seed {given.seed} from {len(candidates):,}; {seconds:.0f} s"
    )
    content = {
        "machine": measured_with, "seed": given.seed, "all": len(candidates), "seconds": seconds,
        "killed": killed, "equivalent": len(equivalent),
        "mutants": [asdict(m) | results[m] | {"equivalent": m in equivalent} for m in chosen],
    }  # fmt: skip
    out = ROOT / f"results/mutants{f'-{given.package}' if given.package else ''}.json"
    out.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
