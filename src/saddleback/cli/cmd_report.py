"""``saddleback report``: results as an HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from saddleback.cli.files import check_outputs
from saddleback.cli.terminal import echo


@click.command()
@click.argument("source", metavar="FOLDER|RESULT.json", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE",
    help="Page to write.  [default: FOLDER/report.html, RESULT.html]",
)  # fmt: skip
def command(source: Path, out: Path | None) -> None:
    """Write results as one self-contained HTML page, without network access.

    FOLDER holds the results of a sweep, or of an experiment of the paper that compares rules; the
    page shows learning curves, step-size maps, best settings and divergence. RESULT.json was
    written by saddleback evaluate --save.

    \b
    Examples:
      saddleback report results/two-state
      saddleback report results/mountain-car --out car.html
      saddleback report new.json
    """
    is_result = source.is_file()
    target = out or (source.with_suffix(".html") if is_result else source / "report.html")
    if source.exists():  # otherwise reading it raises the better error
        check_outputs(page=target, inputs=[source])
    echo(f"saddleback report: {source} -> {target}", err=True)
    from saddleback.report import ready

    ready()
    if is_result:
        from saddleback.cli.cmd_explain import read_result

        result = read_result(source)
        from saddleback.report import evaluation_page, write

        echo(f"wrote {write(evaluation_page(result), target)}")
        return
    from saddleback.report import read_results, study_page, write

    study = read_results(source)
    echo(f"wrote {write(study_page(study, source.name), target)}")
