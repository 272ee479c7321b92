"""The paper's experiments: each a short recipe over the rooms below."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

from rich.console import Console

from saddleback.errors import InvalidParameter


def prepare(out: Path) -> None:
    """Make the folder for figures, before any work is done that could be lost."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InvalidParameter(
            f"cannot write into {out}: {error.strerror}. Choose another folder with --out."
        ) from None


def run(name: str, out: Path, runs: int, seed: int) -> None:
    """Run one experiment: print its table, write its figures, say where they are."""
    recipe = importlib.import_module(f"saddleback.paper.{name.replace('-', '_')}")
    table, paths = recipe.run(out, runs, seed)
    console = Console()
    console.print(table)
    for path in paths:
        console.print(f"  {path}", highlight=False)
