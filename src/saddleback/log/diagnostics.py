"""Problems in a log: each with its code, the rows it affects and a fix.

Codes that begin with E are errors: the log cannot be used. Codes that begin with W are warnings:
it can. All problems are collected before an error is raised, so one round of repairs is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from saddleback._display import visible
from saddleback._typing import BoolArray
from saddleback.errors import Fix, SaddlebackError, with_fix

if TYPE_CHECKING:
    from saddleback.log.arrow_decode import DecodedRows

MAX_LOCATIONS = 3
"""Number of rows that a message names."""


@dataclass(frozen=True)
class Finding:
    """One problem in a log, and the argument that repairs it.

    Examples
    --------
    >>> print(Finding("W150", "no episode terminated."))
    W150 no episode terminated.
    """

    code: str
    message: str
    fix: Fix | None = None

    @property
    def is_error(self) -> bool:
        """Whether the log cannot be used."""
        return self.code.startswith("E")

    def __str__(self) -> str:
        return self.render()

    def render(self, wording: Callable[[Fix], str] = str) -> str:
        """Return code, message and fix, as ``wording`` words it."""
        return f"{self.code} {visible(with_fix(self.message, self.fix, wording), keep='')}"


class LogError(SaddlebackError):
    """A log that cannot be used; ``findings`` lists every problem."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("\n".join(finding.message for finding in findings))
        self.args = self.findings = findings

    def render(self, wording: Callable[[Fix], str] = str) -> str:
        """Return one line for each problem, its fix as ``wording`` words it."""
        return "\n".join(finding.render(wording) for finding in self.findings)


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raise all errors among the findings at once, if there are any."""
    errors = [finding for finding in findings if finding.is_error]
    if errors:
        raise LogError(*errors)


Location = tuple[Any, int]
"""Episode and step of a row; None and the row number if its episode is unknown."""


class ProblemCounter:
    """Number of rows with each kind of problem, and the first of them.

    A kind is the key of a message, such as "E102 NaN", and values of its fields; details are those
    of the first row.
    """

    def __init__(self, row_number: Callable[[int], int] = int) -> None:
        self._row_number = row_number  # number in the log of a row that is read
        self._problems: dict[tuple[str, ...], tuple[int, list[Location], dict[str, Any]]] = {}

    @property
    def codes(self) -> set[str]:
        """Codes of the problems so far."""
        return {kind[0].split()[0] for kind in self._problems}

    def add(
        self,
        key: str,
        rows: DecodedRows,
        wrong: BoolArray,
        *values: str,
        describe: Callable[[int], dict[str, Any]] = lambda i: {},
        by_number: bool = False,
    ) -> None:
        """Count the rows of a mask, in the order of the log.

        ``describe`` returns the details of a row; rows are named by their number if
        ``by_number``, otherwise by episode and step.
        """
        where = np.flatnonzero(wrong)
        if len(where):
            kind = (key, *values)
            count, first, details = self._problems.get(kind) or (0, [], describe(int(where[0])))
            numbers = [(None, rows.first + int(i)) for i in where[:MAX_LOCATIONS]]
            locations = numbers if by_number else rows.locations(where)
            first += [
                (episode, self._row_number(number) if episode is None else number)
                for episode, number in locations[: MAX_LOCATIONS - len(first)]
            ]
            self._problems[kind] = (count + len(where), first, details)

    def findings(
        self,
        messages: Mapping[str, tuple[str, Fix | None]],
        renamed: Mapping[str, str | None] = MappingProxyType({}),
    ) -> list[Finding]:
        """Return a finding for each kind of problem, in the order of the codes.

        A message may name ``{rows}``, ``{more}`` (number of such rows after the first),
        ``{episodes}`` (the same of episodes), values by position and details by name. ``renamed``
        are other keys for some problems; None if they are none after all.
        """
        findings = []
        for (name, *values), (count, locations, details) in sorted(
            self._problems.items(), key=lambda item: (item[0][0][1:4], item[0][1:], item[0])
        ):
            key = renamed.get(name, name)
            if key is None:
                continue
            message, fix = messages[key]
            rows = describe_rows(count, locations)
            more, episodes = (
                f" (and {count - 1:,} more such {noun}{'s' * (count > 2)})" if count > 1 else ""
                for noun in ("row", "episode")
            )
            text = message.format(*values, rows=rows, more=more, episodes=episodes, **details)
            if fix is not None:
                value = fix.value
                if isinstance(value, dict):
                    value = {k.format(**details): v.format(**details) for k, v in value.items()}
                fix = replace(fix, advice=fix.advice.format(**details), value=value)
            findings.append(Finding(key.split()[0], text, fix))
        return findings


def describe_rows(count: int, locations: list[Location]) -> str:
    """Return a number of rows, and where they or the first of them are.

    Examples
    --------
    >>> describe_rows(2, [(7, 0), (7, 3)]), describe_rows(9, [(7, 0)])
    ('2 rows (episode 7 steps 0, 3)', '9 rows (first: episode 7 step 0)')
    """
    return f"{format_rows(count)} ({_format_locations(count, locations)})"


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
