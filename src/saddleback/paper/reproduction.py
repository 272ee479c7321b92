"""Every claim of the paper beside what we measured, as a page.

Verdicts follow from the numbers by the rules stated in this file, and the numbers come from the
stores of the other experiments, or are computed exactly on the spot.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from saddleback._paths import atomic_write
from saddleback.paper import QUICK, Options, table1
from saddleback.paper.claims import NO, PART, YES, Claim, every_claim
from saddleback.paper.table1_matrices import matrices
from saddleback.paper.table1_rows import Choices

EXPERIMENTS = (
    "stability", "theorem1", "two-state", "baird", "step-size", "theory", "mountain-car",
)  # fmt: skip
"""Those that draw; a figure's name begins with that of its experiment."""

VERDICTS = (YES, PART, NO)


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Collect the claims, write the page, and the claims as plain data beside it."""
    claims = every_claim(options)
    path, beside = options.out / "reproduction.md", options.out / "reproduction.json"
    lines = page(claims, options) + table_of_matrices(table1.chosen(options))
    atomic_write(path, "\n".join(lines).encode())
    atomic_write(
        beside, json.dumps(plainly(claims, options), indent=1, ensure_ascii=False).encode()
    )
    table = Table(
        title="The paper's claims" + ", by a quick run" * options.quick,
        box=box.SIMPLE,
        title_justify="left",
    )
    table.add_column("claim")
    table.add_column("verdict", no_wrap=True)
    for claim in claims:
        table.add_row(claim.claim, claim.verdict)
    return [table], [path, beside]


def plainly(claims: list[Claim], options: Options) -> dict[str, Any]:
    """Return the claims as plain data, for JSON."""
    return {
        "kind": "saddleback reproduction", "schema": 1, "quick": options.quick,
        "seed": options.seed,
        "counts": {verdict: sum(c.verdict == verdict for c in claims) for verdict in VERDICTS},
        "claims": [asdict(claim) for claim in claims],
    }  # fmt: skip


def page(claims: list[Claim], options: Options) -> list[str]:
    """Lay the claims out in Markdown."""
    counts = {verdict: sum(c.verdict == verdict for c in claims) for verdict in VERDICTS}
    lines = [
        "# What reproduces, and what does not",
        "",
        *([f"**{QUICK}** Those of `saddleback paper all`, without `--quick`, are.", ""]
          if options.quick else []),
        f"Written by `{options.spoken('all')}` from its results; do not edit. Each claim of *On",
        "Convergence of Gradient Expected Sarsa(λ)* stands beside our measurement. The choices",
        "that fill gaps in the protocol are in the recipes, `src/saddleback/paper/`; the",
        "statements of the theory are treated one by one in [theory.md](theory.md).",
        "",
        f"Of {len(claims)} claims {counts[YES]} are reproduced, {counts[PART]} in part and "
        f"{counts[NO]} not{' (in a quick run)' * options.quick}.",
        "",
        "| | claim | what we found | verdict |",
        "| --- | --- | --- | --- |",
    ]  # fmt: skip
    lines += [f"| {n} | {c.claim} | {c.found} | **{c.verdict}** |" for n, c in enumerate(claims, 1)]
    shown = list(dict.fromkeys(c.figure for c in claims if c.figure))
    lines += ["", "## Figures", ""]
    for figure in shown:
        numbers = ", ".join(str(n) for n, c in enumerate(claims, 1) if c.figure == figure)
        experiment = next(name for name in EXPERIMENTS if figure.startswith(name))
        lines += [f"Claims {numbers}; `saddleback paper {experiment}` draws this:", ""]
        lines += [f"![{figure}](../figures/{figure}.png)", ""]
    return lines


def table_of_matrices(c: Choices) -> list[str]:
    """Lay the matrices of Table 1 out in Markdown."""
    lines = [
        "## Fixed-point matrices of Table 1",
        "",
        f"On the two-state problem, γ = {c.gamma:g}, λ = {c.lam:g}: action values with its two "
        "features, state values with a feature for each state, and π = μ where a row evaluates μ.",
        "",
        "| algorithm | A as printed | its value | A, true |",
        "| --- | --- | --- | --- |",
    ]
    for name, formula, *both in matrices(c):
        values = " | ".join(f"`{matrix.replace(chr(10), '; ')}`" for matrix in both)
        lines.append(f"| {name} | {formula} | {values} |")
    return [*lines, ""]
