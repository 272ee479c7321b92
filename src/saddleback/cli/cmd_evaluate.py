"""``saddleback evaluate``: the value of a policy, from a log, and whether it can be trusted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback.cli.cmd_stats import parse_rule
from saddleback.cli.executor_options import check_outputs
from saddleback.cli.log_options import (
    TARGET_OPTIONS,
    corner,
    log_options,
    named,
    open_log,
    statistics_in,
    target_options,
    threads,
)
from saddleback.cli.log_options import as_json as json_text
from saddleback.cli.progress import display
from saddleback.cli.terminal import echo_lines, text_width

if TYPE_CHECKING:
    from saddleback.verdict import Evaluation

METHODS = ["fqe", "streamed", "svrg", "is", "pdis", "wis", "pdwis", "dr", "wdr"]
STATUS = {"refused": 3, "doubtful": 4, "usable": 0}
"""Exit status for each verdict, the worst first."""


@click.command()
@log_options
@target_options
@click.option(
    "--rule", metavar="NAME[:λ]", help="Whose fixed point to solve for.  [default: GRetrace:0.5]"
)
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(METHODS), metavar="NAME",
    help="Estimate in these other ways, again for several: fqe, streamed, svrg, is, pdis, wis, "
    "pdwis, dr, wdr.  [default: wdr, dr, pdwis, pdis]",
)  # fmt: skip
@click.option(
    "--learner", metavar="NAME[:λ]", help="Rule that is streamed over the log.  [default: GES:0]"
)
@click.option(
    "--passes", default=1, show_default=True, type=click.IntRange(min=1), help="Its passes."
)
@click.option("--ridge", default=0.0, help="Ridge, relative to the size of each feature.")
@click.option("--path", is_flag=True, help="Show the value along λ and along the ridge.")
@click.option(
    "--bootstrap", "draws", type=int, metavar="N",
    help="How often blocks of episodes are drawn anew.  [default: 20, up to 1000 features]",
)  # fmt: skip
@click.option("--lower-is-better", is_flag=True, help="Rewards are costs.")
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE", help="Keep the result, as JSON."
)
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE",
    help="Write a page for the browser; implies --path.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    rule: str | None,
    methods: tuple[str, ...],
    learner: str | None,
    passes: int,
    ridge: float,
    path: bool,
    draws: int | None,
    lower_is_better: bool,
    save: Path | None,
    report: Path | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate the value of target policies from a log, and judge the answer.

    FILE is Parquet (see saddleback check), or one file of saddleback stats or merge. Exit status 0
    if every answer is usable, 3 if one is refused, 4 if one is doubtful or cannot be judged, 2 for
    bad input.

    \b
    Examples:
      saddleback evaluate visits.parquet --target new.py:probs --gamma 0.97
      saddleback evaluate car.parquet --target pump:0.8 --gamma 0.99 \\
          --features tiles:8x4 --low -1.2,-0.07 --high 0.6,0.07 --save car.json
      saddleback evaluate week.stats --json --report week.html
    """
    own = (*options["targets"], options["features"])
    check_outputs(save, page=report, read=options["files"], own=own)
    if report is not None:
        from saddleback.report import ready

        ready()
        path = True
    from saddleback.evaluation import load_statistics
    from saddleback.verdict import evaluate_statistics

    chosen = None if rule is None else parse_rule(rule)
    sums = statistics_in(options["files"])
    if sums:
        only_for_logs(len(options["files"]), FOR_STATISTICS)
        found = evaluate_statistics(
            load_statistics(sums[0]), chosen, ridge, path, draws=draws,
            lower_is_better=lower_is_better, threads=threads(),
        )  # fmt: skip
        _show(found, save, report, as_json)
        return
    found = of_log(
        options, quiet=quiet or as_json, rule=chosen, methods=methods or None, path=path,
        ridge=ridge, passes=passes, draws=draws, lower_is_better=lower_is_better,
        learner=None if learner is None else parse_rule(learner),
    )  # fmt: skip
    _show(found, save, report, as_json)


def of_log(options: dict[str, Any], *, quiet: bool, **choices: Any) -> Evaluation:
    """Evaluate the log that the options describe."""
    asked = {name: options.pop(name) for name in TARGET_OPTIONS}
    if not asked["targets"]:
        raise click.UsageError("Say which policy to evaluate: --target module.py:function.")
    with display(quiet) as progress:  # before anything heavy is loaded
        progress(0.0, "reading")
        from saddleback.verdict import evaluate

        log = open_log(options)
        low, high = (corner(asked[name], log, name) for name in ("low", "high"))
        return evaluate(
            log, named(asked["targets"]), features=asked["features"], low=low, high=high,
            gamma=asked["gamma"], shared=asked["shared"],
            allow_uncovered=asked["allow_uncovered"], threads=threads(), progress=progress,
            **choices,
        )  # fmt: skip


def only_for_logs(files: int, allowed: tuple[str, ...]) -> None:
    """Statistics have their setting already: refuse what is said besides."""
    if files > 1:
        raise click.UsageError(
            "Statistics are evaluated one file at a time: merge them first, saddleback merge."
        )
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        if given and name not in allowed:
            raise click.UsageError(
                f"{parameter.opts[-1]} is for a log; the statistics have theirs already."
            )


FOR_STATISTICS = (
    "files", "rule", "ridge", "path", "draws", "lower_is_better", "save", "report", "quiet",
    "as_json",
)  # fmt: skip
"""What may be said of statistics."""


def _show(found: Evaluation, save: Path | None, report: Path | None, as_json: bool) -> None:
    """Print and keep the result; the exit status says what it is worth."""
    from saddleback.cli.message_format import as_typed
    from saddleback.cli.provenance import made
    from saddleback.verdict.text_report import result_lines

    result = found.as_dict() | {"made": made(seed=0)}
    result["warnings"] = list(dict.fromkeys(map(as_typed, result["warnings"])))
    if as_json:
        click.echo(json_text(result))
    else:
        echo_lines(result_lines(result, text_width()))
    if save is not None:
        save.write_text(json_text(result), encoding="utf-8")
        click.echo(f"wrote {save}", err=True)
    if report is not None:
        from saddleback.report import evaluation_page, write

        click.echo(f"wrote {write(evaluation_page(result), report)}", err=True)
    words = {each["trust"] for each in result["verdicts"]}
    sys.exit(next((STATUS[word] for word in STATUS if word in words), STATUS["doubtful"]))
