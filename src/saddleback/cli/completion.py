"""Shell completion of parameter values, besides commands, options and files."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from functools import partial

import click
from click.shell_completion import CompletionItem

Choices = Iterable[str] | Callable[[], Iterable[str]]
"""Values offered for a parameter, or a function that returns them."""


def problem_names() -> list[str]:
    """Return the names of all problems, which loads NumPy."""
    from saddleback.problems import NAMED

    return list(NAMED)


def rule_names() -> list[str]:
    """Return the names of all rules, which loads NumPy."""
    from saddleback.rules import NAMED

    return list(NAMED)


CHOICES: dict[str, Choices] = {
    "rule": rule_names,
    "rules": rule_names,
    "learner": rule_names,
    "targets": ("uniform", "logged", "columns", "always:", "pump:"),
    "features": (
        "auto", "tiles:", "hash:", "rbf:", "fourier:", "polynomial:", "monomials:",
        "random-fourier:", "states", "given",
    ),
}  # fmt: skip
"""Values offered for each parameter."""

FILE_SUFFIXES = {
    "source": ".npz", "targets": ".py", "features": ".py", "rule": ".py", "rules": ".py",
    "learner": ".py",
}  # fmt: skip
"""Parameters that may also be files, and the suffix of those."""


def complete(
    choices: Choices,
    suffix: str | None,
    context: click.Context,
    prefix: str,
) -> list[CompletionItem]:
    """Return the choices and files that begin with a prefix.

    A shell that completes files itself drops the choices, so files are listed here.
    """
    offered = choices() if callable(choices) else choices
    matches = [choice for choice in offered if choice.startswith(prefix)]
    if suffix is None:
        return [CompletionItem(match) for match in matches]
    if not matches:
        return [CompletionItem(prefix, type="file")]
    paths = sorted(glob.glob(f"{glob.escape(prefix)}*"))
    matches += [path for path in paths if path.endswith(suffix)]
    matches += [f"{path}/" for path in paths if os.path.isdir(path)]
    return [CompletionItem(match) for match in matches]


def add_completion(command: click.Command, **more: Choices) -> click.Command:
    """Add shell completion to a command's parameters; ``more`` are further choices by name."""
    for parameter in command.params:
        choices = (CHOICES | more).get(str(parameter.name))
        if choices:
            suffix = FILE_SUFFIXES.get(str(parameter.name))
            parameter.shell_complete = partial(complete, choices, suffix)  # type: ignore[method-assign]
    return command
