"""``saddleback explorer``: the deadly triad, moved by hand in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from saddleback.cli.executor_options import check_outputs


@click.command()
@click.option(
    "--out", default="explorer.html", show_default=True, metavar="FILE",
    type=click.Path(path_type=Path), help="The page to write.",
)  # fmt: skip
def command(out: Path) -> None:
    """Write a page on which sliders move the spectrum of A, and the iterates with it.

    One file that opens from disk and needs no network. It shows why off-line Expected Sarsa(λ)
    diverges and GES(λ) does not, and where even GES does for too large a step.

    \b
    Examples:
      saddleback explorer
      saddleback explorer --out lecture.html
    """
    check_outputs(page=out)
    click.echo(f"saddleback explorer -> {out}", err=True)
    from saddleback.report import ready

    ready()
    from saddleback.report import explorer_page, write

    click.echo(f"wrote {write(explorer_page(), out)}")
