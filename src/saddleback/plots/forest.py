"""Forest plot of an evaluation: all estimates with their intervals, and the logged policy."""

from __future__ import annotations

import io
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from saddleback._display import axis_range
from saddleback._json import json_ready
from saddleback.ope.text_report import trusted, units
from saddleback.plots.result_plots import centred_titles
from saddleback.plots.style import COLOURS, GREY, plain_text

ROW, HEAD, WIDTH = 0.27, 1.1, 6.4
"""Height of a row, height of the margins, and width of the figure, in inches."""


def forest(result: dict[str, Any], ax: Axes | None) -> Axes:
    """Draw the estimates of all targets, from the dictionary of an evaluation."""
    result = json_ready(result, plain_text)
    targets = list(dict.fromkeys(estimate["target"] for estimate in result["estimates"]))
    several = len(targets) > 1
    rows: list[str | dict[str, Any]] = []  # the name of a target, then its estimates
    for name in targets:
        rows += [name] * several
        rows += [estimate for estimate in result["estimates"] if estimate["target"] == name]
    estimates = [(y, row) for y, row in enumerate(rows) if not isinstance(row, str)]
    verdicts = {verdict["target"]: verdict for verdict in result["verdicts"]}
    with centred_titles():
        if ax is None:
            ax = plt.subplots(figsize=(WIDTH, HEAD + ROW * len(rows)), layout="constrained")[1]
        extents: list[float] = []
        for y, estimate in estimates:  # the verdict is on the first estimate of a target
            extents += _draw(ax, y, estimate, verdicts.pop(estimate["target"], None), result)
        ends = [value for _, estimate in estimates for value in _value_and_interval(estimate)]
        extents = extents or [e["value"] for _, e in estimates if e["value"] is not None]
        logged = result.get("logged")
        if logged is not None:
            ax.axvline(logged["value"], color=COLOURS["orange"], ls="--", lw=1.2)
            span = _ends(logged["value"], logged["low"], logged["high"])
            ax.axvspan(*span, color=COLOURS["orange"], alpha=0.15, lw=0)
            extents += span
        if extents:
            ax.set_xlim(*axis_range(extents, ends))
        _mark_outside(ax, estimates)
        labels = [row if isinstance(row, str) else row["method"] for row in rows]
        ax.set_yticks(range(len(rows)), labels)
        if several:
            for text in ax.get_yticklabels():
                text.set_fontweight("bold" if text.get_text() in targets else "normal")
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.grid(False, axis="y")
        title = "Estimated value" + (f" of {targets[0]}" if len(targets) == 1 else "")
        caption = f"{result['episodes']:,} {units(result)}; bars are 95% confidence intervals"
        caption += ", grey and dashed: unreliable" * _any_unreliable(result)
        ax.set(xlabel="value", title=f"{title}\n{caption}")
        ax.title.set_fontsize(8)
        if logged is not None:
            ax.annotate(
                "logged policy", (logged["value"], 0.0), (4, 3), color=COLOURS["orange"],
                fontsize=7, xycoords=ax.get_xaxis_transform(), textcoords="offset points",
            )  # fmt: skip
    return ax


def _value_and_interval(estimate: dict[str, Any]) -> list[float]:
    """Return the value and the ends of the interval, as far as they are known."""
    return [estimate[part] for part in ("value", "low", "high") if estimate[part] is not None]


def _mark_outside(ax: Axes, estimates: list[tuple[int, dict[str, Any]]]) -> None:
    """Draw arrows for estimates and intervals outside the axis."""
    low, high = ax.get_xlim()
    for y, estimate in estimates:
        ends = _value_and_interval(estimate)
        for outside, edge, mark in ((min(ends, default=low) < low, low, "<"),
                                   (max(ends, default=high) > high, high, ">")):  # fmt: skip
            if outside:
                ax.plot(edge, y, mark, ms=5, color=GREY, clip_on=False)


def _draw(
    ax: Axes,
    y: float,
    estimate: dict[str, Any],
    verdict: dict[str, Any] | None,
    result: dict[str, Any],
) -> tuple[float, ...]:
    """Draw one estimate; return its extent, empty if the axis need not include it."""
    value, low, high = (estimate[part] for part in ("value", "low", "high"))
    if value is None:
        ax.text(0.5, y, "undefined", transform=ax.get_yaxis_transform(), fontsize=7, va="center")
        return ()
    refused = verdict is not None and verdict["trust"] == "refused"
    unreliable = refused or (estimate["ess"] is not None and not trusted(estimate, result))
    colour = GREY if unreliable else COLOURS["blue"]
    line = "--" if unreliable else "-"
    if low is not None and high is not None:
        ax.plot([low, high], [y] * 2, color=colour, ls=line, lw=1.6)
    mark, fill = "X" if refused else "o", "white" if unreliable else colour
    ax.plot(value, y, mark, ms=5.5, color=colour, mfc=fill)
    if verdict is None or refused:
        return () if unreliable else _ends(value, low, high)
    adjusted = verdict["interval_with_gap"]  # includes the estimated bias
    if adjusted[0] is not None and adjusted[1] is not None:
        ax.plot(adjusted, [y] * 2, color=colour, lw=0.8)
        for end in adjusted:
            ax.plot([end] * 2, [y - 0.15, y + 0.15], color=colour, lw=0.8)
    return _ends(value, *adjusted)


def _ends(value: float, low: float | None, high: float | None) -> tuple[float, float]:
    return value if low is None else low, value if high is None else high


def _any_unreliable(result: dict[str, Any]) -> bool:
    return any(e["ess"] is not None and not trusted(e, result) for e in result["estimates"])


def forest_svg(result: dict[str, Any]) -> str:
    """Return the plot as SVG, for HTML."""
    with plt.rc_context({"svg.hashsalt": "saddleback", "svg.fonttype": "none"}):
        ax = forest(result, None)
        file = io.StringIO()
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    text = file.getvalue()
    return text[text.index("<svg") :]
