"""What a shell may complete, besides commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

PROBLEMS = ("two_state", "baird", "random_walk", "boyan_chain", "random_mdp")
"""Names of `saddleback.problems.NAMED`, which would load NumPy; a test holds them together."""

RULES = (
    "GES", "GQ", "ABQ", "GTB", "GRetrace", "ExpectedSarsa", "Sarsa", "TD", "GTD", "GTD2", "TDC",
    "TDRC", "ETD",
)  # fmt: skip
"""Names of `saddleback.rules.NAMED`, likewise."""


def rule_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Rules whose names begin so."""
    return [name for name in RULES if name.startswith(begun)]


def problem_or_file(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Problems whose names begin so, or else files."""
    named = [CompletionItem(name) for name in PROBLEMS if name.startswith(begun)]
    return named or [CompletionItem(begun, type="file")]
