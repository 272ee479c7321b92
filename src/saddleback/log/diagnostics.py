"""What is wrong with a log: every problem found, with its code, its places and the fix.

Codes with E are errors: the log is not used. Codes with W are warnings: it is, and they are said.
All of them are collected before anything is refused, so that a log needs one round of repairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from saddleback.errors import SaddlebackError

SHOWN = 3
"""How many places of a problem are named."""


@dataclass(frozen=True)
class Finding:
    """One problem of a log.

    Examples
    --------
    >>> print(Finding("W150", "no episode terminated."))
    W150 no episode terminated.
    """

    code: str
    message: str

    @property
    def is_error(self) -> bool:
        """Whether the log cannot be used."""
        return self.code.startswith("E")

    def __str__(self) -> str:
        return f"{self.code} {self.message}"


class LogError(SaddlebackError):
    """A log that cannot be used; ``findings`` says all that is wrong with it."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__("\n".join(map(str, self.findings)))


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raise all errors among the findings at once, if there are any."""
    errors = [each for each in findings if each.is_error]
    if errors:
        raise LogError(errors)


Place = tuple[Any, int]
"""Episode and step of a row; without an episode, the number of the row."""


class ProblemCounter:
    """Counts of each kind of problem, with the first places where it was met.

    A kind is (code, what…); details are those of its first place. Words are in
    `saddleback.log.messages`.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], tuple[int, list[Place], tuple[str, ...]]] = {}

    def __contains__(self, code: str) -> bool:
        return any(kind[0] == code for kind in self._found)

    def add(
        self,
        kind: tuple[str, ...],
        count: int,
        places: Iterable[Place],
        details: tuple[str, ...] = (),
    ) -> None:
        """Count rows with a problem, given in order."""
        if count:
            before, known, first = self._found.get(kind, (0, [], details))
            self._found[kind] = (before + count, [*known, *places][:SHOWN], first)

    def findings(self, words: dict[str, Callable[..., str]]) -> list[Finding]:
        """Say what was found, in the order of the codes."""
        return [
            Finding(
                kind[0],
                words[kind[0]](*kind[1:], *details, count=count, where=_where(count, places)),
            )
            for kind, (count, places, details) in sorted(
                self._found.items(), key=lambda item: (item[0][0][1:], item[0])
            )
        ]


def _where(count: int, places: list[Place]) -> str:
    """Name places: all of a few, the first of many."""
    few = places[: 1 if count > len(places) else None]
    steps: dict[Any, list[int]] = {}
    for episode, step in few:
        steps.setdefault(episode, []).append(step)
    named = "; ".join(
        f"{'row' if episode is None else f'episode {episode} step'}{'s' if len(each) > 1 else ''} "
        f"{', '.join(map(str, each))}"
        for episode, each in steps.items()
    )
    return named if count == len(few) else f"first: {named}"


def rows(count: int) -> str:
    """Return "1 row" or "3 rows"."""
    return f"{count:,} row{'' if count == 1 else 's'}"
