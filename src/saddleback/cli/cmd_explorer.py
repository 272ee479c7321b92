"""``saddleback explorer``: an interactive deadly-triad demo."""

from __future__ import annotations

from pathlib import Path

import click

from saddleback.cli.files import check_outputs
from saddleback.cli.terminal import echo


@click.command()
@click.option(
    "--out", default="explorer.html", show_default=True, metavar="FILE",
    type=click.Path(path_type=Path), help="Page to write.",
)  # fmt: skip
def command(out: Path) -> None:
    """Write an HTML page with sliders for the deadly triad, the spectrum of A and the iterates.

    The page is one file and needs no network. It shows why off-line Expected Sarsa(λ) diverges and
    GES(λ) does not, and where even GES diverges because its step size is too large.

    \b
    Examples:
      saddleback explorer
      saddleback explorer --out lecture.html
    """
    check_outputs(page=out)
    echo(f"saddleback explorer -> {out}", err=True)
    from saddleback.report import ready

    ready()
    from saddleback.report import explorer_page, write

    echo(f"wrote {write(explorer_page(), out)}")
