"""What a shell may complete besides commands, options and files: words, by parameter."""

from __future__ import annotations

import glob
import os
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
    "rule": RULES,
    "rules": RULES,
    "learner": RULES,
    "targets": ("uniform", "logged", "columns", "always:", "pump:"),
    "features": ("tiles:", "hash:", "rbf:", "fourier:", "polynomial:", "states", "given"),
}
FILES = {"source": ".npz", "targets": ".py", "features": ".py"}
"""Parameters that may also be files, and what those end in."""


def offer(
    known: Iterable[str], ending: str | None, context: click.Context, begun: str
) -> list[CompletionItem]:
    """Return those of the known words that begin so, and files.

    A shell that is told to look for files itself forgets the words: beside words we look.
    """
    found = [word for word in known if word.startswith(begun)]
    if ending is None:
        return [CompletionItem(word) for word in found]
    if not found:
        return [CompletionItem(begun, type="file")]
    near = sorted(glob.glob(f"{glob.escape(begun)}*"))
    found += [name for name in near if name.endswith(ending)]
    found += [f"{name}/" for name in near if os.path.isdir(name)]
    return [CompletionItem(word) for word in found]


def completed(command: click.Command, **more: Iterable[str]) -> click.Command:
    """Return a command whose parameters offer words to a shell; ``more`` of them by name."""
    for parameter in command.params:
        known = (WORDS | more).get(str(parameter.name))
        if known:
            ask = partial(offer, known, FILES.get(str(parameter.name)))
            parameter.shell_complete = ask  # type: ignore[method-assign]
    return command
