"""``saddleback evaluate``: the value of a policy from a log, with a verdict on the estimate."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saddleback._json import json_text
from saddleback._paths import output_file
from saddleback._provenance import provenance
from saddleback.cli.files import check_outputs
from saddleback.cli.log_options import LogFiles, bandit_option, log_options
from saddleback.cli.messages import as_option
from saddleback.cli.options import (
    command_line,
    costs_option,
    default_threads,
    horizon_option,
    json_option,
    quiet_option,
    ridge_option,
    rule_option,
)
from saddleback.cli.progress import display
from saddleback.cli.target_options import RULE, check_targets, target_options
from saddleback.cli.terminal import echo, echo_lines, text_width

if TYPE_CHECKING:
    from saddleback.ope import Evaluation

METHODS = [
    "fqe", "streamed", "svrg", "is", "pdis", "wis", "pdwis", "dr", "wdr", "dros", "switch-dr",
    "snipw", "ipw", "dm", "marginal-dr",
]  # fmt: skip
STATUS = {"refused": 3, "doubtful": 4, "usable": 0}
"""Exit status by verdict, the worst first."""


@click.command()
@log_options
@bandit_option
@target_options
@horizon_option
@rule_option
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(METHODS), metavar="NAME",
    help="Additional estimators (repeatable): fqe, streamed, svrg, is, pdis, wis, pdwis, dr, wdr; "
    "with --bandit dr, dros, switch-dr, snipw, ipw, dm, marginal-dr.  [default: wdr, dr, pdwis, "
    "pdis; all with --bandit]",
)  # fmt: skip
@click.option("--learner", metavar=RULE, help="Rule of the streamed estimator.  [default: GES:0]")
@click.option(
    "--passes", default=1, show_default=True, type=click.IntRange(min=1),
    help="Passes of the streamed estimator over the log.",
)  # fmt: skip
@ridge_option
@click.option("--path", is_flag=True, help="Show the value for a range of λ and of ridges.")
@click.option(
    "--bootstrap", "draws", type=int, metavar="N",
    help="Number of block-bootstrap resamples.  [default: 20 with up to 400 features given by "
    "hand, else none]",
)  # fmt: skip
@costs_option
@click.option(
    "--distribution", is_flag=True,
    help="Show quantiles and CVaR of the return under each target.",
)  # fmt: skip
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE", help="Save the result as JSON."
)
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE",
    help="Write an HTML report; implies --path.",
)  # fmt: skip
@quiet_option
@json_option
def command(
    log: LogFiles,
    save: Path | None,
    report: Path | None,
    quiet: bool,
    as_json: bool,
    distribution: bool,
    **options: Any,
) -> None:
    """Estimate the value of target policies from a log, and judge whether to trust the estimates.

    FILE is a log (see saddleback check), or one file from saddleback stats or merge. Exit status
    0 if every estimate is usable, 3 if one is refused, 4 if one is doubtful or cannot be judged, 2
    for invalid input.

    \b
    Examples:
      saddleback evaluate visits.parquet --target new.py:probs --gamma 0.97
      saddleback evaluate car.parquet --target pump:0.8 --gamma 0.99 \\
          --features tiles:8x4 --low -1.2,-0.07 --high 0.6,0.07 --save car.json
      saddleback evaluate clicks.parquet --target new.py:probs --bandit
      saddleback evaluate week.stats --json --report week.html
    """
    specs = (*options["targets"].values(), options["features"])
    check_outputs(save, page=report, inputs=log.files, specs=specs)
    if report is not None:
        from saddleback.report import ready

        ready()
        options["path"] = True
    options["methods"] = options["methods"] or None
    options["distribution"] = distribution or report is not None
    evaluation = evaluate_files(log, quiet or as_json, **options)
    _output(evaluation, log.files, save, report, as_json, distribution)


STATISTICS_OPTIONS = {
    "files", "rule", "ridge", "path", "draws", "lower_is_better", "save", "report", "quiet",
    "as_json", "baseline", "alpha",
}  # fmt: skip
"""Options allowed with a statistics file."""


def evaluate_files(
    log: LogFiles, quiet: bool, targets: dict[str, str], **options: Any
) -> Evaluation:
    """Evaluate a log or a statistics file; the options are parameters of `evaluate`."""
    statistics = log.statistics_file(STATISTICS_OPTIONS)
    if statistics is not None:
        from saddleback.ope import evaluate_statistics, load_statistics

        chosen = {name: options[name] for name in options if name in STATISTICS_OPTIONS}
        return evaluate_statistics(
            load_statistics(statistics, options["rule"]), threads=default_threads(), **chosen
        )
    check_targets(targets)
    # What policies and features print does not belong to the result on standard output.
    with display(quiet) as progress, redirect_stdout(sys.stderr):  # before the heavy imports
        progress(0.0, "reading")
        from saddleback.ope import evaluate

        return evaluate(
            log.open(), targets, threads=default_threads(), progress=progress, **options
        )


def _output(
    evaluation: Evaluation,
    files: tuple[str, ...],
    save: Path | None,
    report: Path | None,
    as_json: bool,
    distribution: bool,
) -> None:
    """Save and print the result; exit with the status of the worst verdict.

    Files come first: the reader of standard output may leave early, as ``head`` does.
    """
    from saddleback.ope.distribution_text import distribution_lines
    from saddleback.ope.result_schema import digest
    from saddleback.ope.text_report import result_lines

    result = evaluation.as_dict() | {"made": provenance(command_line(), files, seed=0)}
    result["warnings"] = [finding.render(as_option) for finding in evaluation.warnings]
    result["digest"] = digest(result)
    written: list[Path] = []
    if save is not None:
        with output_file(save) as file:
            file.write(json_text(result).encode())
        written.append(save)
    if report is not None:
        from saddleback.report import evaluation_page, write

        written.append(write(evaluation_page(result), report))
    if as_json:
        echo(json_text(result))
    else:
        lines = result_lines(result, text_width())
        echo_lines(lines + distribution_lines(result, text_width()) * distribution)
    for path in written:
        echo(f"wrote {path}", err=True)
    verdicts = {verdict["trust"] for verdict in result["verdicts"]}
    sys.exit(next((STATUS[trust] for trust in STATUS if trust in verdicts), STATUS["doubtful"]))
