"""The table, on a terminal and as Markdown."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

HEADS = ("tool", "estimator", "of", "value", "error", "95 % interval", "covers", "s", "MB")
NUMBERS = ("value", "error", "s", "MB")


def number(value):
    """Return a number with four digits, in the sign the documentation uses."""
    return f"{value:.4g}".replace("-", "−")


def cells(row):
    """Return the cells of a row; those of a tool that failed are marked as such."""
    if "error_text" in row:
        return (row["tool"], row["estimator"], *("–" for _ in HEADS[2:]))
    interval = covers = "–"
    if row["low"] is not None:
        interval = f"[{number(row['low'])}, {number(row['high'])}]"
        covers = "yes" if row["covers"] else "no"
    seconds = f"{row['seconds']:.0f}" if row["seconds"] >= 10 else f"{row['seconds']:.2f}"
    return (
        row["tool"], row["estimator"], row["of"], number(row["value"]), number(row["error"]),
        interval, covers, seconds, f"{row['peak_mb']:.0f}",
    )  # fmt: skip


def message(row):
    """Return the warning or error of the tool itself, or "nothing"."""
    return row.get("error_text") or row["says"] or "nothing"


def title(name, case):
    """Return the title of a case: its log, and the true values."""
    truths = ", ".join(f"V of {policy} = {number(v)}" for policy, v in case["truth"].items())
    return f"{name}, {case['rows']:,} rows; {truths}"


def terminal(name, case):
    """Print the table of a case."""
    table = Table(box=box.SIMPLE, title=title(name, case))
    for head in HEADS:
        table.add_column(head, justify="right" if head in NUMBERS else "left", no_wrap=True)
    table.add_column("says")
    table.add_column("how")
    for row in case["table"]:
        table.add_row(*cells(row), message(row), row.get("how", ""))
    Console(width=200).print(table)


def markdown(name, case):
    """Return the table of a case as Markdown."""
    heads = (*HEADS, "says", "how")
    lines = [f"**{title(name, case)}**", "", f"| {' | '.join(heads)} |"]
    lines.append("| " + " | ".join("---:" if h in NUMBERS else "---" for h in heads) + " |")
    for row in case["table"]:
        lines.append("| " + " | ".join((*cells(row), message(row), row.get("how", ""))) + " |")
    return "\n".join(lines) + "\n"
