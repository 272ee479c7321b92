"""``saddleback evaluate``: the value of a policy from a log, with a verdict on the estimate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback._json import json_text
from saddleback._paths import output_file
from saddleback._provenance import provenance
from saddleback.cli.executor_options import command_line
from saddleback.cli.file_kinds import statistics_files
from saddleback.cli.log_options import default_threads, log_options, open_log
from saddleback.cli.output_checks import check_outputs
from saddleback.cli.progress import display
from saddleback.cli.target_options import (
    RULE,
    TARGET_OPTIONS,
    parse_corner,
    parse_targets,
    target_options,
)
from saddleback.cli.terminal import echo_lines, text_width

if TYPE_CHECKING:
    from saddleback.ope import Evaluation

METHODS = ["fqe", "streamed", "svrg", "is", "pdis", "wis", "pdwis", "dr", "wdr"]
STATUS = {"refused": 3, "doubtful": 4, "usable": 0}
"""Exit status by verdict, the worst first."""


@click.command()
@log_options
@target_options
@click.option(
    "--rule", metavar=RULE,
    help="Rule whose TD fixed point LSTD solves for.  [default: GRetrace:0.5]",
)  # fmt: skip
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(METHODS), metavar="NAME",
    help="Additional estimators (repeatable): fqe, streamed, svrg, is, pdis, wis, pdwis, dr, wdr.  "
    "[default: wdr, dr, pdwis, pdis]",
)  # fmt: skip
@click.option("--learner", metavar=RULE, help="Rule of the streamed estimator.  [default: GES:0]")
@click.option(
    "--passes", default=1, show_default=True, type=click.IntRange(min=1),
    help="Passes of the streamed estimator over the log.",
)  # fmt: skip
@click.option("--ridge", default=0.0, help="Ridge, relative to the scale of each feature.")
@click.option("--path", is_flag=True, help="Show the value for a range of λ and of ridges.")
@click.option(
    "--bootstrap", "draws", type=int, metavar="N",
    help="Number of block-bootstrap resamples.  [default: 20, up to 1000 features]",
)  # fmt: skip
@click.option("--lower-is-better", is_flag=True, help="Rewards are costs.")
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE", help="Save the result as JSON."
)
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE",
    help="Write an HTML report; implies --path.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Do not show progress.")
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
    """Estimate the value of target policies from a log, and judge whether to trust the estimates.

    FILE is Parquet (see saddleback check), or one file from saddleback stats or merge. Exit status
    0 if every estimate is usable, 3 if one is refused, 4 if one is doubtful or cannot be judged, 2
    for invalid input.

    \b
    Examples:
      saddleback evaluate visits.parquet --target new.py:probs --gamma 0.97
      saddleback evaluate car.parquet --target pump:0.8 --gamma 0.99 \\
          --features tiles:8x4 --low -1.2,-0.07 --high 0.6,0.07 --save car.json
      saddleback evaluate week.stats --json --report week.html
    """
    specs = (*options["targets"], options["features"])
    check_outputs(save, page=report, inputs=options["files"], specs=specs)
    if report is not None:
        from saddleback.report import ready

        ready()
        path = True
    from saddleback.ope import evaluate_statistics, load_statistics

    saved = statistics_files(options["files"])
    if saved:
        refuse_log_options(len(options["files"]), STATISTICS_OPTIONS)
        result = evaluate_statistics(
            load_statistics(saved[0], rule), rule, ridge, path, draws=draws,
            lower_is_better=lower_is_better, threads=default_threads(),
        )  # fmt: skip
        _output(result, save, report, as_json)
        return
    result = evaluate_log(
        options, quiet=quiet or as_json, rule=rule, methods=methods or None, path=path,
        ridge=ridge, passes=passes, draws=draws, lower_is_better=lower_is_better,
        learner=learner,
    )  # fmt: skip
    _output(result, save, report, as_json)


def evaluate_log(options: dict[str, Any], *, quiet: bool, **choices: Any) -> Evaluation:
    """Evaluate the log that the options describe."""
    values = {name: options.pop(name) for name in TARGET_OPTIONS}
    if not values["targets"]:
        raise click.UsageError("Missing --target: the policy to evaluate, module.py:function.")
    with display(quiet) as progress:  # before the heavy imports
        progress(0.0, "reading")
        from saddleback.ope import evaluate

        log = open_log(options)
        low, high = (parse_corner(values[name], log, name) for name in ("low", "high"))
        return evaluate(
            log, parse_targets(values["targets"]), features=values["features"], low=low, high=high,
            gamma=values["gamma"], shared=values["shared"],
            allow_uncovered=values["allow_uncovered"], threads=default_threads(),
            progress=progress, **choices,
        )  # fmt: skip


def refuse_log_options(files: int, allowed: tuple[str, ...]) -> None:
    """Refuse options that are fixed in a statistics file, and several such files."""
    if files > 1:
        raise click.UsageError(
            "Only one statistics file can be evaluated: merge them first with saddleback merge."
        )
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        if given and name not in allowed:
            raise click.UsageError(
                f"{parameter.opts[-1]} applies to logs only; it is fixed in a statistics file."
            )


STATISTICS_OPTIONS = (
    "files", "rule", "ridge", "path", "draws", "lower_is_better", "save", "report", "quiet",
    "as_json",
)  # fmt: skip
"""Options allowed with a statistics file."""


def _output(evaluation: Evaluation, save: Path | None, report: Path | None, as_json: bool) -> None:
    """Print and save the result; exit with the status of the worst verdict."""
    from saddleback.cli.message_format import with_options
    from saddleback.ope.text_report import result_lines

    result = evaluation.as_dict() | {"made": provenance(command_line(), seed=0)}
    result["warnings"] = list(dict.fromkeys(map(with_options, result["warnings"])))
    if as_json:
        click.echo(json_text(result))
    else:
        echo_lines(result_lines(result, text_width()))
    if save is not None:
        with output_file(save) as file:
            file.write(json_text(result).encode())
        click.echo(f"wrote {save}", err=True)
    if report is not None:
        from saddleback.report import evaluation_page, write

        click.echo(f"wrote {write(evaluation_page(result), report)}", err=True)
    verdicts = {verdict["trust"] for verdict in result["verdicts"]}
    sys.exit(next((STATUS[trust] for trust in STATUS if trust in verdicts), STATUS["doubtful"]))
