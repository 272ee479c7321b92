"""What a shell may complete besides commands, options and files: words, by parameter."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import click
from click.shell_completion import CompletionItem

PROBLEMS = ("two_state", "baird", "random_walk", "boyan_chain", "random_mdp")
"""Names of `saddleback.problems.NAMED`, which would load NumPy; a test holds them together."""

RULES = (
    "GES", "GQ", "ABQ", "GTB", "GRetrace", "ExpectedSarsa", "Sarsa", "TD", "GTD", "GTD2", "TDC",
    "TDRC", "ETD",
)  # fmt: skip
"""Names of `saddleback.rules.NAMED`, likewise."""

WORDS: dict[str, Iterable[str]] = {
    "source": PROBLEMS,
    "rule": RULES,
    "rules": RULES,
    "learner": RULES,
    "targets": ("uniform", "logged", "columns", "always:"),
    "features": ("tiles:", "hash:", "rbf:", "fourier:", "polynomial:", "states", "given"),
}
FILES = ("source", "targets", "features")
"""Parameters that may also be files."""


def offer(
    known: Iterable[str], or_file: bool, context: click.Context, begun: str
) -> list[CompletionItem]:
    """Return those of the known words that begin so, or else files."""
    found = [CompletionItem(word) for word in known if word.startswith(begun)]
    return found or ([CompletionItem(begun, type="file")] if or_file else [])


def completed(command: click.Command, **more: Iterable[str]) -> click.Command:
    """Return a command whose parameters offer words to a shell; ``more`` of them by name."""
    for parameter in command.params:
        known = (WORDS | more).get(str(parameter.name))
        if known:
            ask = partial(offer, known, parameter.name in FILES)
            parameter.shell_complete = ask  # type: ignore[method-assign]
    return command
