"""Plots of the summary of a log and of a ranking."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from saddleback.log import LogSummary
from saddleback.ope import Ranking
from saddleback.plots.result_plots import centred_titles
from saddleback.plots.style import COLOURS, GREY, plain_text

MAX_ROWS = 20
"""Largest number of actions or candidates in a figure."""

WIDTH = 5.6
"""Width of a figure, in inches."""

ROW = 0.26
"""Height of a row, in inches."""

TRUST = {"usable": ("blue", "o"), "doubtful": ("orange", "s"), "refused": ("black", "x")}
"""Colour and marker of candidates by their verdict."""


def plot_log_summary(summary: LogSummary) -> npt.NDArray[np.object_]:
    """Draw the share of each action, and how episodes end."""
    shown = min(len(summary.actions), MAX_ROWS)
    with centred_titles():
        _, (left, right) = plt.subplots(
            1, 2, figsize=(1.3 * WIDTH, 1.0 + ROW * max(4, shown)), width_ratios=[1.4, 1.0]
        )
        shares = np.array(summary.taken, dtype=np.float64) / max(1, summary.rows)
        order = np.arange(shown)
        if shown < len(shares):
            order = np.argsort(-shares, kind="stable")[:shown]
        names = [_short(summary.actions[k]) for k in order]
        _bars(left, names, shares[order], [f"{100 * share:.3g}%" for share in shares[order]])
        rest = f", the {shown} most frequent of {len(shares)}" if shown < len(shares) else ""
        left.set(title=f"Actions{rest}: {summary.rows:,} rows", xlabel="share of rows")
        ends = {
            "terminated": summary.terminated, "truncated": summary.truncated,
            "no flag": summary.stops,
        }  # fmt: skip
        counts = np.array(list(ends.values()), dtype=np.float64)
        share = counts / max(1, summary.episodes)
        _bars(right, list(ends), share, [f"{int(count):,}" for count in counts])
        right.set(title=f"Ends of {summary.episodes:,} episodes", xlabel="share of episodes")
    return np.array([left, right], dtype=object)


def _bars(ax: Axes, names: list[str], values: npt.NDArray[np.float64], texts: list[str]) -> None:
    """Draw horizontal bars from the top down, each with its number."""
    rows = np.arange(len(names))
    ax.barh(rows, values, color=COLOURS["blue"], height=0.62)
    for row, value, text in zip(rows, values, texts, strict=True):
        ax.annotate(text, (value, row), (3, 0), textcoords="offset points", va="center", size=7)
    ax.set_yticks(rows, names)
    ax.set(xlim=(0, 1.22 * max(float(values.max(initial=0.0)), 1e-9)))
    ax.invert_yaxis()
    ax.grid(False, axis="y")


def ranking(result: Ranking, ax: Axes | None) -> Axes:
    """Draw the difference of each candidate to the baseline, and its confidence bound."""
    shown = result.candidates[:MAX_ROWS]
    sign = -1.0 if result.lower_is_better else 1.0
    with centred_titles():
        if ax is None:
            ax = plt.subplots(figsize=(WIDTH, 1.2 + ROW * max(3, len(shown))))[1]
        ax.axvline(0, color=COLOURS["black"], lw=1)
        for row, candidate in enumerate(shown):
            colour, mark = TRUST[candidate.trust]
            ends = [candidate.difference, candidate.bound]
            if candidate.trust == "refused" or not np.isfinite(ends).all():
                ax.annotate(
                    "not compared", (0, row), (4, 0), textcoords="offset points", va="center",
                    color=GREY, fontsize=7,
                )  # fmt: skip
                continue
            ax.plot([sign * ends[1], ends[0]], [row] * 2, color=COLOURS[colour])
            ax.plot(sign * ends[1], row, "|", color=COLOURS[colour], ms=9)
            ax.plot(ends[0], row, mark, color=COLOURS[colour], ms=5)
        names = [f"{_short(candidate.name)} ({candidate.trust})" for candidate in shown]
        ax.set_yticks(range(len(shown)), names)
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.margins(x=0.08)
        ax.grid(False, axis="y")
        side, better = ("upper", "lower") if result.lower_is_better else ("lower", "higher")
        count, level = len(result.candidates), f"{1 - result.alpha:.0%}"
        bound = f"{level} {side} bound"
        if count > 1:
            bound = f"simultaneous {level} {side} bounds of {count} candidates"
        rest = f" (first {len(shown)} shown)" if len(shown) < count else ""
        reference = "the logged policy" if result.of == "logged policy" else "the baseline"
        ax.set(
            xlabel=f"difference from {reference} (value {result.baseline:.4g}); {better} is better",
            title=f"Estimates and {bound}{rest}" if count > 1 else f"Estimate and {bound}",
        )
    return ax


def _short(name: str, limit: int = 28) -> str:
    return plain_text(name if len(name) <= limit else f"{name[: limit - 1]}…")
