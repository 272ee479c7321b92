"""Options for target policies, features and rules, and the parsing of their values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from saddleback.cli.options import together

RULE = "NAME[:λ]|FILE.py:NAME"
"""Metavariable of options for rules; `saddleback.Rule.parse` reads them."""


def _parse_corner(context: Any, parameter: Any, text: str | None) -> tuple[float, ...] | None:
    """Return a corner of the features' box."""
    try:
        return None if text is None else tuple(map(float, text.split(",")))
    except ValueError:
        raise click.UsageError(
            f"{parameter.opts[0]} {text}: write comma-separated numbers, -1.2,-0.07."
        ) from None


def _parse_targets(context: Any, parameter: Any, specs: tuple[str, ...]) -> dict[str, str]:
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


target_options = together(
    click.option(
        "--target", "targets", multiple=True, metavar="[NAME=]POLICY",
        callback=_parse_targets,
        help="Target policy (repeatable): module.py:function, columns[:PREFIX], uniform, "
        "always:ACTION, pump:PROBABILITY, logged; for continuous actions module.py:name.",
    ),
    click.option("--gamma", type=float, help="Discount.  [default: from the log]"),
    click.option(
        "--features",
        help="Features: auto, tiles:8x8, hash:4096, rbf:200, fourier:3, polynomial:2, "
        "monomials:2, random-fourier:40, states, given, module.py:name, or those of a "
        "FILE.stats.  [default: auto]",
    ),
    click.option(
        "--low", callback=_parse_corner,
        help="Lower corner of the features' box: -1.2,-0.07.",
    ),
    click.option(
        "--high", callback=_parse_corner,
        help="Upper corner.  [default: the range of the log]",
    ),
    click.option("--shared", is_flag=True, help="Add features shared by all actions."),
    click.option(
        "--allow-uncovered", is_flag=True,
        help="Warn, rather than fail, on actions never logged.",
    ),
)  # fmt: skip
"""Options for target policies and features."""


def check_targets(targets: dict[str, str]) -> None:
    """Refuse a command without a target policy."""
    if not targets:
        raise click.UsageError("Missing --target: the policy to evaluate, module.py:function.")


def absolute_spec(spec: str) -> str:
    """Return ``module.py:name`` with an absolute path; other specs unchanged."""
    path, colon, name = spec.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon and path.endswith(".py") else spec
