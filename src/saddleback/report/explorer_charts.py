"""The four charts of the explorer: two complex planes, the error, and the path of two weights."""

from __future__ import annotations

import numpy as np

from saddleback.report.theme import COLOURS, INK
from saddleback.report.vega import Record, axis, category, chart, tooltip

RULE_COLOUR = category("rule", {"one": COLOURS[1], "two": COLOURS[0]})
RULE_SHAPE = category("rule", {"one": "diamond", "two": "circle"})
RULE_SIZE = category("rule", {"one": 300, "two": 90}, type="ordinal")
RULE_DASH = category("rule", {"one": [6, 3], "two": [1, 0]})
RUN_WIDTH = category("run", {"expected": 2.5, "sampled": 1}, type="ordinal")
"""Rules by colour and dash, runs by width."""

HEIGHT = 168
"""Pixels: the four charts fit a screen of 900."""

PLACEHOLDER = {
    "re": -1, "im": 0, "x": 0, "y": 0, "step": 0, "mspbe": 1, "rule": "one", "run": "expected",
}  # fmt: skip


def _placeholder(name: str) -> Record:
    """Data that the page replaces."""
    return {"name": name, "values": [PLACEHOLDER]}


def charts() -> Record:
    """Specifications of the four charts; the page fills in their data."""
    return {"errors": _errors(), "path": _path(), "spectrum": _spectrum(), "map": _map()}


def _between(field: str, title: str, low: str, high: str) -> Record:
    """Encode a number on an axis with limits given by expressions."""
    limits = {"domainMin": {"expr": low}, "domainMax": {"expr": high}}
    scale = limits | {"nice": False, "zero": False}
    return axis(field, title, axis={"tickCount": 6}, scale=scale)


def _plane(title: str, left: str, right: str, height: str) -> Record:
    """Encode a complex number."""
    return {
        "x": _between("re", f"real part {title}", left, right),
        "y": _between("im", "imaginary part", f"-{height}", height),
    }


BY_RULE: Record = {
    "color": RULE_COLOUR, "shape": RULE_SHAPE, "size": RULE_SIZE,
    "tooltip": tooltip(name=("rule", ""), re=("real", ".5g"), im=("imaginary", ".5g")),
}  # fmt: skip

LINE_BY_RULE: Record = {"color": RULE_COLOUR, "strokeDash": RULE_DASH, "size": RUN_WIDTH}

POINT = {"type": "point", "filled": True, "clip": True, "opacity": 1, "stroke": INK,
         "strokeWidth": 1}  # fmt: skip


def _spectrum() -> Record:
    plane = _plane("(left of 0: stable)", "left", "right", "height_")
    line = {"type": "rule", "color": INK, "strokeWidth": 1.5, "aria": False}
    return chart(
        "Eigenvalues of A in the complex plane, with the imaginary axis", HEIGHT,
        params=[{"name": name, "value": value}
                for name, value in (("left", -1), ("right", 1), ("height_", 1))],
        layer=[
            {"data": {"values": [{"from": 0}]},
             "mark": {"type": "rect", "color": "var(--shade)", "aria": False},
             "encoding": {"x": {"field": "from", "type": "quantitative"},
                          "x2": {"value": {"expr": "width"}}}},
            {"data": {"values": [{}]}, "mark": line,
             "encoding": {"x": {"datum": 0, "type": "quantitative"}}},
            {"data": _placeholder("locus"), "mark": {"type": "point", "filled": True, "size": 5,
             "clip": True, "opacity": 1, "aria": False},
             "encoding": plane | {"color": RULE_COLOUR}},
            {"data": _placeholder("eigenvalues"), "mark": POINT,
             "encoding": plane | BY_RULE},
        ],
    )  # fmt: skip


def _map() -> Record:
    limits = ("-1.3 * max(1, width / height)", "1.3 * max(1, width / height)")
    plane = _plane("(inside the circle: converges)", *limits, "1.3 * max(1, height / width)")
    circle = [
        {"re": float(np.cos(t)), "im": float(np.sin(t)), "k": k}
        for k, t in enumerate(np.linspace(0, 2 * np.pi, 121))
    ]
    return chart(
        "Eigenvalues of the update with these step sizes, with the unit circle", HEIGHT,
        layer=[
            {"data": {"values": circle}, "mark": {"type": "line", "color": INK, "strokeWidth": 1.5,
             "clip": True, "aria": False}, "encoding": plane | {"order": {"field": "k"}}},
            {"data": _placeholder("eigenvalues"), "mark": POINT,
             "encoding": plane | BY_RULE},
        ],
    )  # fmt: skip


def _errors() -> Record:
    return chart(
        "Mean square projected Bellman error of the iterates, on a logarithmic axis", HEIGHT,
        params=[{"name": "low", "value": 1e-6}, {"name": "high", "value": 1}],
        data=_placeholder("iterates"), mark={"type": "line", "clip": True},
        encoding={
            "x": axis("step", "iteration", scale={"nice": False},
                      axis={"tickCount": 5, "format": ",d"}),
            "y": axis("mspbe", "MSPBE",
                      scale={"type": "log", "nice": False, "domainMin": {"expr": "low"},
                             "domainMax": {"expr": "high"}},
                      axis={"tickCount": 5, "labelExpr": "powerOfTen(datum.value)"}),
            **LINE_BY_RULE,
            "tooltip": tooltip(name=("rule", ""), run="", step="", mspbe=("MSPBE", ".4g")),
        },
    )  # fmt: skip


def _path() -> Record:
    xy = {
        "x": _between("x", "first weight", "x0", "x1"),
        "y": _between("y", "second weight", "y0", "y1"),
    }
    return chart(
        "The path of two weights, from their initial values to the fixed point", HEIGHT,
        params=[{"name": n, "value": v} for n, v in (("x0", -1), ("x1", 1), ("y0", -1), ("y1", 1))],
        layer=[
            {"data": _placeholder("path"), "mark": {"type": "line", "clip": True},
             "encoding": xy | LINE_BY_RULE | {"order": {"field": "step"}}},
            {"data": _placeholder("marks"), "mark": {"type": "point", "size": 120,
             "strokeWidth": 2, "clip": True, "filled": False, "color": INK},
             "encoding": xy | {
                 "shape": category("label", {"start": "circle", "fixed point": "cross"}),
                 "tooltip": tooltip(label="", x=".4g", y=".4g")}},
        ],
    )  # fmt: skip
