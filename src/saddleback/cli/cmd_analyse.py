"""``saddleback analyse``: stability, rate and step sizes of a rule on a problem."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback._display import visible
from saddleback._json import json_text
from saddleback.cli.completion import problem_names
from saddleback.cli.files import prepare_folder
from saddleback.cli.target_options import RULE
from saddleback.cli.terminal import echo
from saddleback.errors import InvalidParameter

if TYPE_CHECKING:
    from saddleback.theory import Analysis

KIND = "saddleback analysis"

COMPLETIONS = {"source": problem_names}


@click.command()
@click.argument("source", metavar="PROBLEM|FILE.npz")
@click.option("--rule", metavar=RULE, help="The rule.  [default: GES, or GTD2 for state values]")
@click.option("--lam", type=float, help="λ of the rule (ζ for ABQ), also NAME:λ.  [default: 0]")
@click.option("--gamma", type=float, help="Discount.  [default: that of the problem]")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of random_mdp.  [default: 0]")
@click.option(
    "--steps", default=10_000, show_default=True, type=click.IntRange(min=1),
    help="Number of steps to recommend step sizes for.",
)  # fmt: skip
@click.option(
    "--out", default="results", show_default=True, type=click.Path(path_type=Path),
    help="Folder for the figure.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON; draw no figure.")
def command(
    source: str,
    rule: str | None,
    lam: float | None,
    gamma: float | None,
    seed: int | None,
    steps: int,
    out: Path,
    as_json: bool,
) -> None:
    """Report stability, convergence rate, error floor and step sizes of a rule on a problem.

    PROBLEM is two_state, baird, random_walk, boyan_chain or random_mdp. FILE.npz is a system saved
    by saddleback.system.save, including its rule; give --rule if that is your own.

    \b
    Examples:
      saddleback analyse two_state --gamma 0.999 --lam 0.9 --rule GES
      saddleback analyse random_mdp --rule GQ --steps 100000 --json
    """
    echo(f"analysing {source} …", err=True)
    from saddleback.theory import analyse

    subject: tuple[Any, ...]
    if source.endswith(".npz"):
        from saddleback.system import load

        for name, value in (("--lam", lam), ("--gamma", gamma), ("--seed", seed)):
            if value is not None:
                raise click.UsageError(
                    f"{name} applies to problems only; it is fixed in the system {source}."
                )
        system = load(source, rule)
        title, subject = f"{system.rule.display_name}, {Path(source).name}", (system,)
    else:
        problem, chosen = _make_problem(source, rule, lam, gamma, seed)
        name = chosen.display_name
        title, subject = f"{name}, {source}, γ = {problem.mdp.gamma:g}", (problem, chosen)
    title = visible(title, keep="")
    if not as_json:
        prepare_folder(out)
    analysis = analyse(*subject, steps=steps)
    if as_json:
        echo(json_text({"kind": KIND, "schema": 1, "title": title} | analysis.as_dict()))
        return

    from rich.console import Console

    notes = _draw(analysis, title, out, f"analyse-{Path(source).stem}")
    Console().print(_table(title, analysis))
    for note in notes:
        echo(note, err=True)


def _draw(analysis: Analysis, title: str, out: Path, name: str) -> list[str]:
    """Draw the figure; return what was written, or why there is none."""
    try:
        from saddleback import plots
    except InvalidParameter as error:
        return [f"no figure: {error}"]
    with plots.style():
        paths = plots.save(plots.overview(analysis, title), out, name)
    return [f"wrote {path}" for path in paths]


def _make_problem(
    source: str, rule: str | None, lam: float | None, gamma: float | None, seed: int | None
) -> tuple[Any, Any]:
    """Build problem and rule from their names."""
    from saddleback import problems, rules
    from saddleback._registry import check_name, required_parameters

    options: dict[str, Any] = {} if gamma is None else {"gamma": gamma}
    if source not in problems.NAMED and Path(source).exists():
        kind = "a folder" if Path(source).is_dir() else "a file"
        raise InvalidParameter(
            f"{source} is {kind}: give the name of a problem, {', '.join(problems.NAMED)}, or a "
            "system, FILE.npz."
        )
    check_name("problem", source, problems.NAMED)
    if source == "random_mdp":
        options["rng"] = seed or 0
    elif seed is not None:
        raise click.UsageError("--seed applies to random_mdp only.")
    rule = rule or ("GTD2" if source in ("random_walk", "boyan_chain") else "GES")
    if lam is None:
        chosen = rules.as_rule(rule)
    elif ".py:" in rule and "(" not in rule:  # a rule of the user, which takes λ first
        chosen = rules.as_rule(f"{rule}({lam!r})")
    elif rule in rules.NAMED and required_parameters(rules.NAMED[rule]):
        chosen = rules.make_with(rule, lam)
    else:
        reason = "" if rule in rules.NAMED else ": it has its parameters already"
        raise click.UsageError(f"{rule} takes no --lam{reason}.")
    if source == "random_mdp":
        options["values"] = chosen.values
    if chosen.bootstrap.on_policy_only and source == "random_mdp":
        options["off_policy"] = 0.0
    problem = problems.make(source, **options)
    if chosen.values != problem.values:
        named = {name: rules.make_with(name, 0.0) for name in rules.NAMED}
        matching = (name for name, other in named.items() if other.values == problem.values)
        raise InvalidParameter(
            f"{chosen} learns {chosen.values} values, but {source} has features for "
            f"{problem.values} values. Choose another --rule: {', '.join(matching)}."
        )
    return problem, chosen


def _table(title: str, analysis: Any) -> Any:
    """Return the verdicts as a table of two columns."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(title),
        box=box.SIMPLE,
        show_header=False,
        title_justify="left",
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in analysis.verdicts:
        table.add_row(name, text)
    return table
