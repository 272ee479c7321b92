"""Style of charts and pages: one palette, as CSS variables of the page.

A chart names a variable instead of a colour, so that one chart serves both themes.
"""

from __future__ import annotations

from typing import Any

from saddleback._palette import CATEGORICAL, DARK, LIGHT, SEQUENTIAL_STOPS

INK, MUTED, GRID, PAPER = "var(--ink)", "var(--muted)", "var(--grid)", "var(--paper)"
GOOD, DOUBT, BAD = "var(--good)", "var(--doubt)", "var(--bad)"
"""Outcomes; a setting that diverged, or an eigenvalue right of the axis, is bad."""

COLOURS = tuple(f"var(--{name})" for name in CATEGORICAL)
"""Six distinct colours of lines, with a contrast of at least 4.5 : 1 in either theme."""

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [8, 2, 2, 2, 2, 2])
"""Dash patterns: for more lines than there are colours, and for readers who see no colour."""

VARIABLES = {"black": "ink", "grey": "muted"}
"""Names of variables that are not names of colours, since they change with the theme."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"

CONFIG: dict[str, Any] = {
    "background": None,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK, "titleColor": INK, "domainColor": MUTED, "tickColor": MUTED,
        "gridColor": GRID, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal",
        "labelFont": FONT, "titleFont": FONT, "labelOverlap": "greedy", "labelSeparation": 6,
    },
    "legend": {
        "labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12,
        "titleFontWeight": "normal", "symbolOpacity": 1, "labelFont": FONT, "titleFont": FONT,
        "symbolStrokeWidth": 2, "labelLimit": 220,
    },
    "title": {"color": INK, "font": FONT, "fontSize": 13, "fontWeight": 600, "anchor": "start"},
    "text": {"color": INK, "font": FONT, "fontSize": 12},
    "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "labelFont": FONT},
    "line": {"strokeWidth": 2},
    "range": {"heatmap": list(SEQUENTIAL_STOPS), "ramp": list(SEQUENTIAL_STOPS)},
}  # fmt: skip
"""Configuration of Vega-Lite, shared by all charts."""


def css_variables() -> str:
    """Return the palette as CSS: the light theme, and on screens the dark one.

    Examples
    --------
    >>> css_variables().splitlines()[0][:24]
    ':root { --blue: #0072B2;'
    """
    ramp = f"--ramp: linear-gradient(to right, {', '.join(SEQUENTIAL_STOPS)});"
    return (
        f":root {{ {_declarations(LIGHT)} {ramp} }}\n"
        f'@media screen {{ :root[data-theme="dark"] {{ {_declarations(DARK)} }} }}\n'
    )


def _declarations(colours: dict[str, str]) -> str:
    return " ".join(f"--{VARIABLES.get(name, name)}: {value};" for name, value in colours.items())
