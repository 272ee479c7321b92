"""``saddleback paper``: the paper's experiments."""

from __future__ import annotations

import os
import shlex
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from saddleback._registry import check_name
from saddleback.cli.files import prepare_folder
from saddleback.cli.options import command_line
from saddleback.cli.progress import display
from saddleback.cli.target_options import RULE
from saddleback.cli.terminal import echo
from saddleback.errors import InvalidParameter

if TYPE_CHECKING:
    from rich.console import Console

    from saddleback.paper import Options

EXPERIMENTS = {
    "stability": "where off-line Expected Sarsa(λ) is stable, over (γ, λ)",
    "theorem1": "growth of off-line iterates, predicted and observed",
    "two-state": "Expected Sarsa diverges and GES converges, γ = 0.999",
    "baird": "TD(0) diverges and GTD2(0), TDC(0) do not, on Baird's star",
    "step-size": "constant step sizes and c/√t compared",
    "table1": "rates and fixed points of Table 1, computed",
    "theory": "Theorem 2, the error floor and the primal-dual gap, measured",
    "mountain-car": "MSPBE and MSE over 121 pairs of step sizes",
    "reproduction": "every claim with our result, as a page",
}

COMPLETIONS = {"experiment": (*EXPERIMENTS, "all")}

COMPARISONS = ("two-state", "baird", "mountain-car")
"""Experiments that compare rules."""


@click.command()
@click.argument("experiment", metavar="[EXPERIMENT]", default="all")
@click.option("--runs", type=click.IntRange(min=1), help="Independent runs.  [default: 10 or 20]")
@click.option(
    "--episodes", type=click.IntRange(1, 10**9), help="Episodes of MountainCar.  [default: 5000]"
)
@click.option(
    "--rule", "rules", multiple=True, metavar=RULE,
    help="Compare this rule instead of the default ones (repeatable).",
)  # fmt: skip
@click.option("--lam", type=float, help="λ of the comparisons.  [default: 0.99]")
@click.option("--zeta", type=float, help="ABQ's ζ.  [default: 0.99]")
@click.option(
    "--seed", default=0, type=click.IntRange(min=0), show_default=True,
    help="Root seed of all runs.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Tiny smoke-test run.")
@click.option(
    "--threads", default=2, type=click.IntRange(min=1), show_default=True,
    help="Number of threads; does not affect results.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="Folder for figures and results.  [default: results, or results-quick]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the claims and verdicts as JSON.")
def command(
    experiment: str,
    runs: int | None,
    episodes: int | None,
    lam: float | None,
    zeta: float | None,
    rules: tuple[str, ...],
    seed: int,
    quick: bool,
    threads: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run an experiment of the paper and draw its figures as PNG and PDF.

    Results are stored run by run, and an interrupted command resumes. Without EXPERIMENT all of
    them run, at full size, into results/: some minutes on two cores. With --quick only PNG figures
    are drawn, and the numbers and verdicts are not meaningful.

    \b
    EXPERIMENT is one of
      stability     exact stable region of off-line Expected Sarsa(λ)
      theorem1      the stability criterion, compared with iterates
      two-state     Expected Sarsa diverges, GES converges
      baird         TD(0) diverges, GTD2(0) and TDC(0) converge; γ = .99, .9
      step-size     constant steps and c/√t, as printed and tuned fairly
      table1        fixed point and rate of each row, printed and measured
      theory        Theorem 2 and its bound, the error floor, the gap
      mountain-car  nine rules over 121 pairs of step sizes, MSPBE and MSE
      reproduction  page of all claims and verdicts, from those results
      all           all of them

    With --rule, two-state, baird and mountain-car compare the named rules,
    with the given --lam and --zeta, on state-action pairs. Any rule of the
    library works, and so does a name from the tables, such as "GTB corr.".

    \b
    Examples:
      saddleback paper all
      saddleback paper mountain-car --quick
      saddleback paper two-state --rule GES --rule TDRC --out results/tdrc
      saddleback paper baird --runs 30 --seed 7 --out results/baird
      saddleback paper reproduction --json
    """
    check_name("experiment", experiment, [*EXPERIMENTS, "all"])
    chosen = list(EXPERIMENTS) if experiment == "all" else [experiment]
    if rules and not set(chosen) <= set(COMPARISONS):
        raise InvalidParameter(
            f"--rule applies to the comparisons, {', '.join(COMPARISONS)}, not to {experiment!r}."
        )
    if as_json and "reproduction" not in chosen:
        raise InvalidParameter(
            f"--json prints the claims; it applies to reproduction and all, not to {experiment!r}."
        )
    folder = out or Path("results-quick" if quick else "results")
    title = f"all {len(chosen)} experiments" if experiment == "all" else experiment
    echo(f"saddleback paper: {title} -> {folder}/", err=True)

    # One thread for linear algebra: runs already use threads, and results stay bit-identical.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from rich.console import Console

    from saddleback import _validate
    from saddleback.paper import Options, check
    from saddleback.paper.comparison import chosen_rule

    for name, value in (("lam", lam), ("zeta", zeta)):
        if value is not None:
            _validate.unit("paper", f"--{name}", value)
    for rule in rules:
        chosen_rule(rule)
    own = {"runs": runs, "episodes": episodes, "lam": lam, "zeta": zeta, "seed": seed or None}
    flags = [f"--{name} {value:g}" for name, value in own.items() if value is not None]
    origin = " ".join(["saddleback paper all", *flags, *["--quick"] * quick])
    options = Options(
        folder, runs, episodes, lam, zeta, rules, seed, quick, threads, command=command_line(),
        origin=origin,
    )  # fmt: skip
    prepare_folder(folder)
    with _missing_results(folder, quick):
        check(chosen, options)
        _run(chosen, options, Console(stderr=as_json))
    if as_json:
        echo((folder / "reproduction.json").read_text(encoding="utf-8"))


def _run(chosen: Sequence[str], options: Options, console: Console) -> None:
    """Run experiments; print their tables, and the files they wrote."""
    from saddleback.paper import QUICK, run

    begun, seconds = time.perf_counter(), {}
    with display() as progress:
        for name, tables, paths, took in run(chosen, replace(options, progress=progress)):
            seconds[name] = took
            with progress.suspended():
                echo(f"\n{name}: {EXPERIMENTS[name]}", err=True)
                for table in tables:
                    console.print(table)
                if options.quick:
                    console.print(QUICK, style="bold")
                for path in paths:
                    console.print(f"  {path}", highlight=False)
    if len(chosen) > 1:
        parts = ", ".join(f"{name} {took:.0f}" for name, took in seconds.items())
        text = (
            f"Seconds: {parts}; {time.perf_counter() - begun:.0f} in all, some at the same time, "
            f"and {time.process_time():.0f} of computing."
        )
        echo("\n" + textwrap.fill(text, 80), err=True)


@contextmanager
def _missing_results(folder: Path, quick: bool) -> Iterator[None]:
    """Name the command for results that an experiment needs."""
    from saddleback.paper import MissingResults

    try:
        yield
    except MissingResults as error:
        first = ["paper", error.experiment, *["--quick"] * quick, "--out", str(folder)]
        text = error.message.replace("run it first", f"run saddleback {shlex.join(first)} first")
        raise InvalidParameter(text) from None
