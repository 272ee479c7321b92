"""``saddleback evaluate``: the value of a policy, from a log."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING, Any

import click

from saddleback.commands._logs import as_json as json_text
from saddleback.commands._logs import (
    corner,
    discount,
    log_options,
    named,
    open_log,
    reading,
    target_options,
    threads,
)
from saddleback.commands.stats import parse_rule
from saddleback.commands.typed import tell

if TYPE_CHECKING:
    from saddleback.evaluation import Estimate, Evaluation
    from saddleback.log import Card

METHODS = ["fqe", "streamed", "svrg", "is", "pdis", "wis", "pdwis", "dr", "wdr"]


@click.command()
@log_options
@target_options
@click.option(
    "--rule", metavar="NAME[:λ]", help="Whose fixed point to solve for.  [default: GRetrace:0.5]"
)
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(METHODS), metavar="NAME",
    help="Estimate in another way too, again for several: fqe, streamed, svrg, is, pdis, wis, "
    "pdwis, dr, wdr.",
)  # fmt: skip
@click.option(
    "--learner", metavar="NAME[:λ]", help="Rule that is streamed over the log.  [default: GES:0]"
)
@click.option(
    "--passes", default=1, show_default=True, type=click.IntRange(min=1), help="Its passes."
)
@click.option("--ridge", default=0.0, help="Ridge, relative to the size of each feature.")
@click.option("--path", is_flag=True, help="Show the value along λ and along the ridge.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    targets: tuple[str, ...],
    gamma: float | None,
    features: str | None,
    low: str | None,
    high: str | None,
    shared: bool,
    allow_uncovered: bool,
    rule: str | None,
    methods: tuple[str, ...],
    learner: str | None,
    passes: int,
    ridge: float,
    path: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate the value of target policies at the start states of a log.

    FILE is Parquet (see saddleback check), or one file of saddleback stats or merge.

    \b
    Examples:
      saddleback evaluate visits.parquet --target new.py:probs --gamma 0.97
      saddleback evaluate car.parquet --target pump:0.8 --gamma 0.99 \\
          --features tiles:8x4 --low -1.2,-0.07 --high 0.6,0.07 --method streamed
      saddleback evaluate week.stats --json
    """
    from saddleback.evaluation import evaluate, load_statistics, of_statistics

    chosen = None if rule is None else parse_rule(rule)
    sums = [name for name in options["files"] if zipfile.is_zipfile(name)]
    if sums:
        _only_for_logs(len(options["files"]))
        found = of_statistics(load_statistics(sums[0]), chosen, ridge, path)
        _say(found, None, as_json)
        return
    if not targets:
        raise click.UsageError("Say which policy to evaluate: --target module.py:function.")
    log = open_log(options)
    rate = discount(log, gamma)
    with reading("checking", quiet or as_json) as progress:
        card = log.card(rate, progress)
    from saddleback.evaluation.spec import features_of
    from saddleback.log.findings import refuse

    refuse(card.findings)
    with reading("evaluating", quiet or as_json) as progress:
        found = evaluate(
            log, named(targets),
            features=features_of(
                features, log, card, corner(low, log, "low"), corner(high, log, "high")
            ),
            gamma=rate, rule=chosen, methods=methods, path=path, ridge=ridge, shared=shared,
            passes=passes, learner=None if learner is None else parse_rule(learner),
            allow_uncovered=allow_uncovered, threads=threads(), progress=progress,
        )  # fmt: skip
    _say(found, card, as_json)


def _only_for_logs(files: int) -> None:
    """Statistics have their setting already: refuse what is said besides."""
    if files > 1:
        raise click.UsageError(
            "Statistics are evaluated one file at a time: merge them first, saddleback merge."
        )
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        if given and name not in FOR_STATISTICS:
            raise click.UsageError(
                f"{parameter.opts[-1]} is for a log; the statistics have theirs already."
            )


FOR_STATISTICS = ("files", "rule", "ridge", "path", "quiet", "as_json")
"""What may be said of statistics."""


def _table(estimates: list[Estimate], card: Card | None) -> None:
    """Print the estimates of one target; what is to be said of them follows."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for name in (estimates[0].target, "value", "95 % interval", "of"):
        side: Any = "right" if name == "value" else "left"
        table.add_column(name, justify=side, overflow="fold")
    if card is not None and card.mean_return is not None:
        what = "observed, ended episodes only" if card.truncated + card.stops else "observed"
        table.add_row("logged policy", f"{card.mean_return:.4g}", "", what)
    notes: dict[str, list[str]] = {}
    for k, each in enumerate(estimates):
        reach = "" if each.low is None else f"[{each.low:.4g}, {each.high:.4g}]"
        what = "fixed point  <- suggested" if k == 0 else ""
        if each.ess is not None:
            what = f"{each.estimand}, ESS {each.ess:,.0f}"
        table.add_row(each.method, f"{each.value:.4g}", reach, what)
        if each.note != "ok":
            notes.setdefault(each.note, []).append(each.method)
    Console().print(table)
    for note, methods in notes.items():
        tell(f"{', '.join(methods)}: {note}")


def _say(found: Evaluation, card: Card | None, as_json: bool) -> None:
    """Print the table, or JSON."""
    if as_json:
        plain = found.as_dict()
        if card is not None:
            plain["logged_return"] = card.mean_return
            said = [*map(str, card.findings), *plain["warnings"]]
            plain["warnings"] = list(dict.fromkeys(said))
        click.echo(json_text(plain))
        return
    sums = found.statistics
    click.echo(f"target policy value (γ {sums.setting.gamma:g}, start states of the log)")
    for target in sums.setting.targets:
        _table([each for each in found.estimates if each.target == target], card)
    if found.self_check is not None and card is not None and card.mean_return is not None:
        tell(
            f"self-check: the same pipeline says {found.self_check:.4g} of the logged policy, "
            f"whose mean return was {card.mean_return:.4g}"
        )
    if found.estimates[0].low is not None:
        click.echo(f"<- {found.estimates[0].estimand}: not V^π itself, as near as they come to it")
    for target, both in found.paths.items():
        for kind, points in both.items():
            line = "   ".join(f"{at:g}: {value:.4g}" for at, value in points)
            tell(f"{target}, along {kind}   {line}")
    for name, ceiling in zip(sums.setting.targets, sums.ceilings, strict=True):
        if 0 < ceiling < float("inf"):
            click.echo(f"λ ceiling of importance traces for {name}: {ceiling:.3g}")
    click.echo(
        f"{int(sums.steps.sum()):,} steps, {int(sums.episodes.sum()):,} episodes, p = {sums.p}:"
    )
    tell("  " + re.sub(r"(\d\.\d{3})\d+", r"\1", sums.setting.features))
    if sums.estimated:
        click.echo(f"propensities were estimated: {sums.estimated}")
    if card is not None:
        shown = "   ".join(f"{k} {name}" for k, name in enumerate(card.actions[:12]))
        click.echo(f"actions: {shown}{'   …' if len(card.actions) > 12 else ''}")
    for finding in dict.fromkeys((*(card.findings if card else ()), *found.findings)):
        tell(str(finding))
