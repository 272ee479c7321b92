"""What a log and a ranking look like when they draw themselves."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from saddleback.log import LogSummary
from saddleback.plots.result_plots import titled
from saddleback.plots.style import COLOURS
from saddleback.verdict import Ranking

MOST = 20
"""Most actions or candidates that are drawn."""

WIDTH = 5.6
"""Inches of a figure."""

ROW = 0.26
"""Inches of a row of a figure."""

TRUST = {"usable": ("blue", "o"), "doubtful": ("orange", "s"), "refused": ("black", "x")}
"""Colour and marker of candidates by whether they can be trusted."""


def card(found: LogSummary) -> npt.NDArray[np.object_]:
    """Draw how often each action was taken, and how episodes end."""
    shown = min(len(found.actions), MOST)
    with titled():
        _, (left, right) = plt.subplots(
            1, 2, figsize=(1.3 * WIDTH, 1.0 + ROW * max(4, shown)), width_ratios=[1.4, 1.0]
        )
        shares = np.array(found.taken, dtype=np.float64) / max(1, found.rows)
        order = np.arange(shown)
        if shown < len(shares):
            order = np.argsort(-shares, kind="stable")[:shown]
        names = [_short(found.actions[k]) for k in order]
        _bars(left, names, shares[order], [f"{100 * share:.3g}%" for share in shares[order]])
        rest = f", the {shown} most taken of {len(shares)}" if shown < len(shares) else ""
        left.set(title=f"Actions{rest}: {found.rows:,} rows", xlabel="share of rows")
        ends = {
            "terminated": found.terminated, "truncated": found.truncated, "no flag": found.stops,
        }  # fmt: skip
        counts = np.array(list(ends.values()), dtype=np.float64)
        share = counts / max(1, found.episodes)
        _bars(right, list(ends), share, [f"{int(count):,}" for count in counts])
        right.set(title=f"Ends of {found.episodes:,} episodes", xlabel="share of episodes")
    return np.array([left, right], dtype=object)


def _bars(ax: Axes, names: list[str], values: npt.NDArray[np.float64], texts: list[str]) -> None:
    """Draw horizontal bars from the top down, with their numbers beside them."""
    places = np.arange(len(names))
    ax.barh(places, values, color=COLOURS["blue"], height=0.62)
    for place, value, text in zip(places, values, texts, strict=True):
        ax.annotate(text, (value, place), (3, 0), textcoords="offset points", va="center", size=7)
    ax.set_yticks(places, names)
    ax.set(xlim=(0, 1.22 * max(float(values.max(initial=0.0)), 1e-9)))
    ax.invert_yaxis()
    ax.grid(False, axis="y")


def ranking(found: Ranking, ax: Axes | None) -> Axes:
    """Draw each candidate's difference to the baseline, and how far it reaches for sure."""
    shown = found.candidates[:MOST]
    sign = -1.0 if found.lower_is_better else 1.0
    with titled():
        if ax is None:
            ax = plt.subplots(figsize=(WIDTH, 1.2 + ROW * max(3, len(shown))))[1]
        ax.axvline(0, color=COLOURS["black"], lw=1)
        for place, each in enumerate(shown):
            colour, mark = TRUST[each.trust]
            if each.trust == "refused" or not np.isfinite([each.difference, each.bound]).all():
                continue
            ax.plot([sign * each.bound, each.difference], [place] * 2, color=COLOURS[colour])
            ax.plot(sign * each.bound, place, "|", color=COLOURS[colour], ms=9)
            ax.plot(each.difference, place, mark, color=COLOURS[colour], ms=5)
        names = [f"{_short(each.name)} ({each.trust})" for each in shown]
        ax.set_yticks(range(len(shown)), names)
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.margins(x=0.08)
        ax.grid(False, axis="y")
        side, better = ("upper", "lower") if found.lower_is_better else ("lower", "higher")
        count, sure = len(found.candidates), f"{1 - found.alpha:.0%}"
        bound = f"{sure} {side} bound"
        if count > 1:
            bound = f"{side} bounds, {sure} for all {count} at once"
        rest = f" (the first {len(shown)} shown)" if len(shown) < count else ""
        of = "the logged policy" if found.of == "logged policy" else "the baseline"
        ax.set(
            xlabel=f"difference to {of}, {found.baseline:.4g} ({better} is better)",
            title=f"Estimate and {bound}{rest}",
        )
    return ax


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
