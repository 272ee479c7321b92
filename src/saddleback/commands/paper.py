"""``saddleback paper``: the paper's experiments on finite problems."""

from __future__ import annotations

from pathlib import Path

import click

from saddleback._names import known

EXPERIMENTS = {
    "stability": "where off-line Expected Sarsa(λ) is stable, over (γ, λ)",
    "two-state": "Expected Sarsa diverges and GES converges, γ = 0.999",
    "baird": "TD(0) diverges and GTD2(0), TDC(0) do not, on Baird's star",
}


@click.command()
@click.argument("experiment", metavar="[EXPERIMENT]", default="all")
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for the figures.",
)
@click.option(
    "--runs",
    default=10,
    type=click.IntRange(min=1),
    show_default=True,
    help="Independent runs of each learner.",
)
@click.option(
    "--seed",
    default=0,
    type=click.IntRange(min=0),
    show_default=True,
    help="Seed from which the runs are spawned.",
)
def command(experiment: str, out: Path, runs: int, seed: int) -> None:
    """Run an experiment of the paper and draw its figures as PNG and PDF.

    \b
    EXPERIMENT is one of
      stability   the stable region of off-line Expected Sarsa(λ), exactly
      two-state   diverging Expected Sarsa beside convergent GES
      baird       diverging TD(0) beside GTD2(0) and TDC(0), γ = .99 and .9
      all         all of them

    \b
    Examples:
      saddleback paper all
      saddleback paper baird --runs 30 --seed 7 --out results/baird
    """  # fmt: skip
    known("experiment", experiment, [*EXPERIMENTS, "all"])
    chosen = list(EXPERIMENTS) if experiment == "all" else [experiment]
    click.echo(f"saddleback paper: {', '.join(chosen)} -> {out}/", err=True)

    from saddleback._jit import announce
    from saddleback.paper import prepare, run

    announce(lambda: click.echo("compiling kernels, this first time only …", err=True))
    prepare(out)
    for name in chosen:
        click.echo(f"\n{name}: {EXPERIMENTS[name]}", err=True)
        run(name, out=out, runs=runs, seed=seed)
