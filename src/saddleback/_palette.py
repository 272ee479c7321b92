"""The colours of figures in print and on pages: one palette, and one meaning for each colour.

A colour map is dark where the value is good (a small error) and light where it is bad; a
setting that diverged has a mark instead of a colour. Blue is the estimate or the rule with a second
set of weights, orange the reference it is compared with. Every categorical colour has a contrast of
at least 4.5 : 1 with its background, and all are distinguishable with colour blindness.
"""

from __future__ import annotations

CATEGORICAL = ("blue", "orange", "green", "purple", "olive", "slate")
"""Names of the colours of lines, in the order in which they are assigned."""

LIGHT = {
    "blue": "#0072B2", "orange": "#C25500", "green": "#00805C", "purple": "#AA4499",
    "olive": "#6B5B00", "slate": "#4C5866", "black": "#1B2126", "grey": "#59636E",
    "paper": "#FFFFFF", "grid": "#E3E8ED", "good": "#0A6B4B", "doubt": "#8A5300", "bad": "#B3261E",
}  # fmt: skip
"""Colours on white: in print, and on pages with the light theme."""

DARK = {
    "blue": "#56B4E9", "orange": "#F28B45", "green": "#2FC79A", "purple": "#D98CC0",
    "olive": "#D9C64A", "slate": "#B4BFCA", "black": "#E8ECEF", "grey": "#A3ADB7",
    "paper": "#14171A", "grid": "#2B3238", "good": "#5FD3A5", "doubt": "#F0B455", "bad": "#FF8A80",
}  # fmt: skip
"""The same on pages with the dark theme: black is the colour of the text."""

SEQUENTIAL = "cividis"
"""Name of the colour map in Matplotlib, from dark (low values, good) to light (high values)."""

SEQUENTIAL_FROM = 0.15
"""Start of the map on pages: its first colours are too close to a dark background."""

SEQUENTIAL_STOPS = ("#243C6E", "#4D556C", "#6D6F72", "#8F8A78", "#B3A670", "#D9C55C", "#FEE838")
"""Evenly spaced colours of the map, from this start to its end."""
