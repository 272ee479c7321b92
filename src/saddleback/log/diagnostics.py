"""Problems in a log: each with its code, the rows it affects and a fix.

Codes that begin with E are errors: the log cannot be used. Codes that begin with W are warnings:
it can. All problems are collected before an error is raised, so one round of repairs is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from saddleback.errors import SaddlebackError

MAX_LOCATIONS = 3
"""Number of rows that a message names."""


@dataclass(frozen=True)
class Finding:
    """One problem in a log.

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
    """A log that cannot be used; ``findings`` lists every problem."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__("\n".join(map(str, self.findings)))


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raise all errors among the findings at once, if there are any."""
    errors = [finding for finding in findings if finding.is_error]
    if errors:
        raise LogError(errors)


Location = tuple[Any, int]
"""Episode and step of a row; None and the row number if its episode is unknown."""


class ProblemCounter:
    """Number of rows with each kind of problem, and the first of them.

    A kind is (code, arguments of the message…); details are those of the first row. The messages
    are in `saddleback.log.row_checks`.
    """

    def __init__(self) -> None:
        self._problems: dict[tuple[str, ...], tuple[int, list[Location], tuple[str, ...]]] = {}

    def __contains__(self, code: str) -> bool:
        return any(kind[0] == code for kind in self._problems)

    def add(
        self,
        kind: tuple[str, ...],
        count: int,
        locations: Iterable[Location],
        details: tuple[str, ...] = (),
    ) -> None:
        """Count rows with a problem, in the order of the log."""
        if count:
            before, first, first_details = self._problems.get(kind, (0, [], details))
            first = [*first, *locations][:MAX_LOCATIONS]
            self._problems[kind] = (before + count, first, first_details)

    def findings(self, messages: dict[str, Callable[..., str]]) -> list[Finding]:
        """Return a finding for each kind of problem, in the order of the codes."""
        return [
            Finding(
                kind[0],
                messages[kind[0]](
                    *kind[1:], *details, count=count, where=_format_locations(count, locations)
                ),
            )
            for kind, (count, locations, details) in sorted(
                self._problems.items(), key=lambda item: (item[0][0][1:], item[0])
            )
        ]


def _format_locations(count: int, locations: list[Location]) -> str:
    """Name all rows if there are few, the first one otherwise."""
    shown = locations[: 1 if count > len(locations) else None]
    steps_by_episode: dict[Any, list[int]] = {}
    for episode, step in shown:
        steps_by_episode.setdefault(episode, []).append(step)
    text = "; ".join(
        f"{'row' if episode is None else f'episode {episode} step'}{'s' if len(steps) > 1 else ''} "
        f"{', '.join(map(str, steps))}"
        for episode, steps in steps_by_episode.items()
    )
    return text if count == len(shown) else f"first: {text}"


def format_rows(count: int) -> str:
    """Return "1 row" or "3 rows"."""
    return f"{count:,} row{'' if count == 1 else 's'}"
