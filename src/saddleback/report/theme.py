"""How charts look. Colours are variables of the page's style, so one chart serves both themes."""

from __future__ import annotations

from typing import Any

INK, MUTED, GRID, PAPER = "var(--ink)", "var(--muted)", "var(--grid)", "var(--paper)"

COLOURS = tuple(f"var(--c{k})" for k in range(1, 7))
"""Six colours that can be told apart, each at least 3 : 1 against the page in either theme."""

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [8, 2, 2, 2, 2, 2])
"""Dash patterns, for more lines than there are colours, and for eyes that see none."""

BAD = "var(--bad)"
"""What diverged, or is right of the axis."""

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
}  # fmt: skip
"""Vega-Lite's configuration, for all charts."""


def chart(description: str, height: int, **parts: Any) -> dict[str, Any]:
    """Return a chart as wide as its place on the page."""
    return {
        "description": description, "width": "container", "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"}, **parts,
    }  # fmt: skip
