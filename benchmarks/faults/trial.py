"""One try: a damaged input, the answer without damage, and how the two compare."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from saddleback.cli.group import group
from saddleback.errors import InvalidParameter, SaddlebackError


class Outcome(StrEnum):
    """What became of a damaged input."""

    REFUSED = "refused"
    SAME = "same"
    WARNED = "told"
    TRACEBACK = "traceback"
    HANG = "hang"
    SILENT = "silent"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Answer:
    """What is compared: exact content, or a value with its standard error.

    Attributes
    ----------
    content
        Equal content is the same answer.
    value, error
        A value within one standard error of the reference is the same answer, too.
    notes
        Warnings and the verdict; a note that the reference lacks tells of the fault.
    """

    content: Any = None
    value: float | None = None
    error: float = 0.0
    notes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Trial:
    """A damaged input, as the strategies generate it.

    Attributes
    ----------
    damage
        What was done.
    use
        Uses the input, in an empty folder.
    reference
        Returns the answer without damage.
    """

    damage: str
    use: Callable[[Path], Answer]
    reference: Callable[[], Answer]


class Skip(Exception):
    """A try that this machine does not allow."""


class Broken(Exception):
    """A promise was not kept, such as that an old file survives; counts as a traceback."""


def judge(trial: Trial, reference: Answer, folder: Path) -> tuple[Outcome, str]:
    """Use a damaged input; return the outcome and its description."""
    try:
        answer = trial.use(folder)
    except SaddlebackError as error:
        message = str(error)
        clear = len(message) > 10 and "Traceback" not in message
        return (Outcome.REFUSED if clear else Outcome.TRACEBACK), f"{trial.damage}: {message}"
    except Skip as reason:
        return Outcome.SKIPPED, str(reason)
    except Exception:
        return Outcome.TRACEBACK, f"{trial.damage}\n{traceback.format_exc()}"
    return compare(answer, reference), f"{trial.damage}: {answer.value} for {reference.value}"


def printed(*words: Any) -> Answer:
    """Run a command in this process; return what it prints, or raise its error."""
    done = CliRunner().invoke(group, list(map(str, words)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code == 2:
        message = done.stderr.strip()
        if "rror:" not in message:
            raise Broken(f"exit 2 without a message: {message}")
        raise InvalidParameter(message.partition("rror:")[2])
    return Answer(content=done.stdout)


def compare(answer: Answer, reference: Answer) -> Outcome:
    """Compare an answer with the reference."""
    if answer.content is not None and answer.content == reference.content:
        return Outcome.SAME
    if answer.notes - reference.notes:
        return Outcome.WARNED
    if answer.value is None or reference.value is None:
        return Outcome.SILENT
    near = abs(answer.value - reference.value) <= reference.error
    return Outcome.SAME if near else Outcome.SILENT
