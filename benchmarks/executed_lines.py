"""Which lines of the package a file of tests executes: a plugin of pytest, and its result.

A line that a file does not execute cannot make it fail. Not all lines are seen: a compiled function
runs without Python, and a new process is not traced. `Executed` says which files these may concern.
"""

from __future__ import annotations

import ast
import json
import multiprocessing.process
import multiprocessing.util
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TARGET = "EXECUTED_LINES"
"""Environment variable with the file to write; the folder in front of "::" is traced."""

PROCESSES = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
DECORATORS = {"compiled", "subroutine", "inlined"}


@dataclass(frozen=True)
class Executed:
    """What one file of tests did."""

    seconds: float
    processes: bool  # it started one, whose lines are unknown
    lines: dict[str, list[int]]  # by file of the package

    def may_notice(self, name: str, span: range, compiled: bool) -> bool:
        """Return whether a change of these lines of a file can make a test fail."""
        lines = self.lines.get(name, [])
        return self.processes or bool(lines if compiled else set(span) & set(lines))


def statement_at(text: str, line: int) -> tuple[range, bool]:
    """Return the lines of the statement at a line, without its body, and whether it is compiled."""
    span, compiled = range(line, line + 1), False
    for node, inside in _statements(ast.parse(text), False):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        body = [*getattr(node, "body", ()), *getattr(node, "cases", ())]
        begins = [getattr(part, "lineno", None) or part.pattern.lineno for part in body]
        last = max(first, min(begins) - 1) if begins else node.end_lineno or first
        if first <= line <= (node.end_lineno or last):
            span, compiled = range(line, line + 1), inside
        if first <= line <= last:
            span = range(first, last + 1)
    return span, compiled


def _statements(tree: ast.AST, compiled: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield statements, outer ones first, and whether they are in a compiled function."""
    for node in ast.iter_child_nodes(tree):
        decorators = getattr(node, "decorator_list", ())
        inside = compiled or any(isinstance(d, ast.Name) and d.id in DECORATORS for d in decorators)
        if isinstance(node, ast.stmt):
            yield node, inside
        yield from _statements(node, inside)


def read(path: Path) -> Executed:
    """Return what the plugin wrote."""
    return Executed(**json.loads(path.read_text(encoding="utf-8")))


class Recorder:
    """The plugin: it traces from its import to the end of the session."""

    def __init__(self, target: str) -> None:
        import coverage

        folder, _, path = target.partition("::")
        self.path, self.folder, self.processes = Path(path), Path(folder), False
        self.begun, self.owner = time.monotonic(), os.getpid()
        sys.addaudithook(self._watch)
        for owner, name in (
            (multiprocessing.process.BaseProcess, "start"),
            (multiprocessing.util, "spawnv_passfds"),
        ):
            setattr(owner, name, self._noting(getattr(owner, name)))
        self.coverage = coverage.Coverage(data_file=None, config_file=False, source=[folder])
        self.coverage.start()

    def _watch(self, event: str, arguments: object) -> None:
        self.processes |= event in PROCESSES

    def _noting(self, function):
        def noting(*arguments, **options):
            self.processes = True
            return function(*arguments, **options)

        return noting

    def pytest_unconfigure(self) -> None:
        if os.getpid() != self.owner:
            return
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {
            Path(file).relative_to(self.folder).as_posix(): sorted(data.lines(file) or ())
            for file in data.measured_files()
        }
        seconds = time.monotonic() - self.begun
        content = {"seconds": seconds, "processes": self.processes, "lines": lines}
        self.path.write_text(json.dumps(content), encoding="utf-8")


if TARGET in os.environ:
    recorder = Recorder(os.environ.pop(TARGET))

    def pytest_configure(config) -> None:
        config.pluginmanager.register(recorder)
