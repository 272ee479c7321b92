"""Every claim of the paper with our result and a verdict, as a page.

Verdicts follow from the numbers by the conditions stated in `saddleback.paper.claims`. The numbers
come from the stores of the other experiments, or are computed here exactly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from saddleback._paths import output_file
from saddleback.learning.run import BOUND
from saddleback.paper import QUICK, Options, mountain_car, table1
from saddleback.paper.claims import NO, PART, YES, Section
from saddleback.paper.claims import number as written
from saddleback.paper.claims.comparisons import (
    COMPARISON_HEADINGS,
    SCHEDULE_HEADINGS,
    comparison_claims,
    schedule_claims,
    summary_claims,
)
from saddleback.paper.claims.exact import exact_claims
from saddleback.paper.claims.rates import REACHED, TABLE_HEADINGS, rate_claims, table_claims
from saddleback.paper.claims.remarks import remark_claims
from saddleback.paper.claims.statements import statement_claims
from saddleback.paper.comparison import stored, study_of
from saddleback.paper.table1 import Table1Config, matrices

EXPERIMENTS = (
    "stability", "theorem1", "two-state", "baird", "step-size", "theory", "mountain-car",
)  # fmt: skip
"""Experiments with figures; the name of a figure begins with that of its experiment."""

VERDICTS = {YES: "yes", PART: "partly", NO: "no"}
"""Verdicts, and how the page abbreviates them."""

STORES = (
    "table1", "theorem1", "step-size", "step-size-mountain-car", "two-state", "baird",
    "mountain-car", "mountain-car-fixed-points", "theory-gap",
)  # fmt: skip
"""Studies whose results are needed."""

FIGURES = "../figures"
"""Folder of the figures, seen from the page in the documentation."""


def sections(options: Options) -> list[Section]:
    """Collect the claims, from the stores of the other experiments or computed here."""
    for name in STORES:
        stored(name, options)
    config = table1.config_from(options)
    texts = ("claim", "result")
    return [
        Section(
            "Theory", "", texts, (*exact_claims(options), *rate_claims(options)),
        ),
        Section(
            "Beside the theorems", "", texts,
            (*statement_claims(options), *remark_claims(options)),
        ),
        Section(
            "Table 1: convergence rates",
            f"Slope of E‖θ_T − θ*‖² over the last decade of T = {config.steps:,} steps "
            f"({config.runs} runs), and in brackets its last value, for the best scale up to "
            f"{max(config.scales):g}. *In its favour*: steps c(t₀ + t)^−η with the best t₀, or the "
            f"mean of the iterates. Reproduced: {REACHED:g} of the claimed exponent in both; "
            "partly: in one.",
            TABLE_HEADINGS,
            tuple(table_claims(options)),
        ),
        Section(
            "Constant and decaying step sizes",
            "Claim: a constant step converges significantly faster than 1/√t. MSPBE of GES with "
            "the best setting of each grid: mean over runs; median (quartiles). *Tuned*: β/α from "
            "2⁻⁵ to 2⁵, and c up to 6.4. Reproduced: mean and median are less than half, on both "
            "grids; partly: on one.",
            SCHEDULE_HEADINGS,
            tuple(schedule_claims(options)),
        ),
        Section(
            "GES against GQ, ABQ and GTB",
            "Claims at λ = 0.99: GES learns fastest (lowest error), has the lowest variance and is "
            "the most robust. Errors are those of the best of 121 settings: mean over runs; median "
            "(quartiles) of the setting with the best median. *Empirical MSPBE*: with Â, b̂ and M̂ "
            "from experience, as the paper measures it; *MSPBE of GES* and *value error* are the "
            "same function for all rules. *Spread*: between the quartiles of the value error. "
            "*Diverged*: settings of 121 that diverged in some run, that is, whose errors exceeded "
            f"{written(BOUND, 1)} times the largest of 1, |θ₀| and, on the small problems, |θ*|. "
            "*Ratio*: error of the best other rule ÷ that of GES. Reproduced: GES is ahead of all "
            "three, in mean and median; partly: of some. "
            f"{study_of('two-state', options).runs} runs on the small problems, "
            f"{study_of('mountain-car', options).runs} on MountainCar.",
            COMPARISON_HEADINGS,
            tuple(comparison_claims(options)),
        ),
        Section("The experiments together", "", texts, tuple(summary_claims(options))),
    ]  # fmt: skip


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Collect the claims, write the page, and the same as JSON."""
    parts = sections(options)
    page_path, json_path = options.out / "reproduction.md", options.out / "reproduction.json"
    lines = page(parts, options) + table_of_matrices(table1.config_from(options))
    lines += table_of_fixed_points(options)
    content = json.dumps(claims_as_dict(parts, options), indent=1, ensure_ascii=False)
    for path, text in ((page_path, "\n".join(lines)), (json_path, content)):
        with output_file(path) as file:
            file.write(text.encode())
    table = Table(
        title="The paper's claims" + " (quick run)" * options.quick,
        box=box.SIMPLE,
        title_justify="left",
    )
    table.add_column("claim")
    table.add_column("verdict", no_wrap=True)
    for part in parts:
        for claim in part.claims:
            table.add_row(claim.claim, claim.verdict)
    return [table], [page_path, json_path]


def claims_as_dict(parts: Sequence[Section], options: Options) -> dict[str, Any]:
    """Return the claims as plain data, for JSON."""
    return {
        "kind": "saddleback reproduction", "schema": 1, "quick": options.quick,
        "seed": options.seed,
        "counts": _counts(parts),
        "claims": [
            {
                "section": part.title, "claim": claim.claim, "result": claim.result,
                "verdict": claim.verdict, "figure": claim.figure,
            }
            for part in parts
            for claim in part.claims
        ],
    }  # fmt: skip


def _counts(parts: Sequence[Section]) -> dict[str, int]:
    claims = [claim for part in parts for claim in part.claims]
    return {verdict: sum(c.verdict == verdict for c in claims) for verdict in VERDICTS}


def page(parts: Sequence[Section], options: Options) -> list[str]:
    """Write the claims in Markdown, a table for each section, and the figures that show them."""
    counts = _counts(parts)
    lines = ["# Reproduction", ""]
    if options.quick:
        lines += [f"**{QUICK}** Run all experiments at full size for those.", ""]
    lines += [
        f"Written by `{options.origin}` from its results; do not edit.",
        "Each claim of *On Convergence of Gradient Expected Sarsa(λ)* is listed with our result.",
        "Where the paper leaves the protocol open, our choices are in `src/saddleback/paper/`.",
        "[Theory](theory.md) treats the statements of the theory one by one.",
        "",
        f"Of {sum(counts.values())} claims, {counts[YES]} are reproduced, {counts[PART]} in part "
        f"and {counts[NO]} not{' (quick run)' * options.quick}.",
        "",
    ]
    count = 0
    shown: dict[str, list[int]] = {}
    for part in parts:
        lines += [f"## {part.title}", "", *([part.introduction, ""] if part.introduction else [])]
        headings = ("", *part.headings, "reproduced")
        lines += [_row(headings), _row(["---"] * len(headings))]
        for number, claim in enumerate(part.claims, count + 1):
            cells = claim.cells or (claim.claim, claim.result)
            lines.append(_row((str(number), *cells, f"**{VERDICTS[claim.verdict]}**")))
            if claim.figure:
                shown.setdefault(claim.figure, []).append(number)
        count += len(part.claims)
        lines.append("")
    lines += ["## Figures", ""]
    for figure, numbers in shown.items():
        experiment = next(name for name in EXPERIMENTS if figure.startswith(name))
        plural = "s" * (len(numbers) > 1)
        lines += [f"Claim{plural} {_ranges(numbers)} (`saddleback paper {experiment}`):", ""]
        lines += [f"![{figure}]({FIGURES}/{figure}.png)", ""]
        if not options.quick:  # quick runs draw PNG only
            lines += [f"[PDF]({FIGURES}/{figure}.pdf)", ""]
    return lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _ranges(numbers: Sequence[int]) -> str:
    """Write numbers with ranges.

    Examples
    --------
    >>> _ranges([6, 9, 10, 11, 12, 14, 15])
    '6, 9–12, 14, 15'
    """
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(
        f"{group[0]}–{group[-1]}" if len(group) > 2 else ", ".join(map(str, group))
        for group in groups
    )


def table_of_matrices(config: Table1Config) -> list[str]:
    """Write the matrices of Table 1 in Markdown; algorithms with the same matrices share a row."""
    lines = [
        "## Fixed-point matrices of Table 1",
        "",
        f"Two-state problem, γ = {config.gamma:g}, λ = {config.lam:g}: action values with its two "
        "features, state values with one feature per state; π = μ where a row evaluates μ.",
        "",
        "| algorithm | A as printed | value as printed | correct value |",
        "| --- | --- | --- | --- |",
    ]
    names: dict[tuple[str, ...], list[str]] = {}
    for name, *texts in matrices(config):
        names.setdefault(tuple(texts), []).append(name)
    for (formula, *values), algorithms in names.items():
        written = [f"`{matrix.replace(chr(10), '; ')}`" for matrix in values]
        lines.append(_row((", ".join(algorithms), formula, *written)))
    return [*lines, ""]


def table_of_fixed_points(options: Options) -> list[str]:
    """Write the MSE of the fixed points on MountainCar in Markdown."""
    results = mountain_car.fixed_points(options)
    return [
        "## Fixed points on MountainCar",
        "",
        "MSE of the solution of Aθ + b = 0: with A and b that are trusted (importance traces: "
        "rollouts of π; others: experience of μ), their standard error, and with Â and b̂ from "
        f"5000 episodes: median (quartiles) of {len(results.least_squares)} seeds. What the "
        "recursions above approach is this. Sampling noise of A and b adds at most "
        f"{written(results.added)} to the MSE.",
        "",
        _row(mountain_car.FIXED_POINT_HEADINGS),
        "| --- | ---: | ---: | ---: |",
        *map(_row, results.cells()),
        "",
    ]
