"""Options for target policies, features and rules, and the parsing of their values."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from saddleback.log import Log


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for target policies and features."""
    for add in reversed(
        [
            click.option(
                "--target",
                "targets",
                multiple=True,
                metavar="[NAME=]POLICY",
                help="Target policy (repeatable): module.py:function, columns[:PREFIX], uniform, "
                "always:ACTION, pump:PROBABILITY, logged.",
            ),
            click.option("--gamma", type=float, help="Discount.  [default: from the log]"),
            click.option(
                "--features",
                help="Features: tiles:8x8, hash:4096, rbf:200, fourier:3, polynomial:2, "
                "states, given, module.py:name.  [default: chosen from the columns]",
            ),
            click.option("--low", help="Lower corner of the features' box: -1.2,-0.07."),
            click.option("--high", help="Upper corner.  [default: the range of the log]"),
            click.option("--shared", is_flag=True, help="Add features shared by all actions."),
            click.option(
                "--allow-uncovered",
                is_flag=True,
                help="Warn, rather than fail, on actions never logged.",
            ),
        ]
    ):
        command = add(command)
    return command


RULE = "NAME[:λ]|FILE.py:NAME"
"""Metavariable of options for rules; `saddleback.Rule.parse` reads them."""

TARGET_OPTIONS = (
    "targets",
    "gamma",
    "features",
    "low",
    "high",
    "shared",
    "allow_uncovered",
)


def parse_targets(specs: tuple[str, ...]) -> dict[str, str]:
    """Return target policies by name, from [NAME=]POLICY."""
    targets: dict[str, str] = {}
    for spec in specs:
        name, equals, policy = spec.partition("=")
        is_name = equals and not set("/.:") & set(name)
        key, value = (name, policy) if is_name else (os.path.basename(spec), spec)
        if key in targets:
            raise click.UsageError(f"--target {spec}: the name {key!r} is already in use.")
        targets[key] = value
    return targets


def parse_corner(text: str | None, log: Log, name: str) -> Any:
    """Return a corner of the features' box from comma-separated numbers."""
    if text is None:
        return None
    import numpy as np

    try:
        corner = np.array([float(number) for number in text.split(",")])
    except ValueError:
        raise click.UsageError(
            f"--{name} {text}: write comma-separated numbers, -1.2,-0.07."
        ) from None
    if len(corner) != log.dimensions:
        raise click.UsageError(
            f"--{name} {text}: {len(corner)} numbers, but observations have {log.dimensions} "
            "entries."
        )
    return corner


def absolute_spec(spec: str) -> str:
    """Return ``module.py:name`` with an absolute path; other specs unchanged."""
    path, colon, name = spec.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon and path.endswith(".py") else spec
