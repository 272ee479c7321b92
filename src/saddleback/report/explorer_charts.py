"""The four charts of the explorer: two complex planes, the error, and the path of two weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback.report.theme import COLOURS, INK
from saddleback.report.vega import chart

RULE_SCALE = {"domain": ["one", "two"], "range": [COLOURS[1], COLOURS[0]]}
RULE_SHAPE = {"domain": ["one", "two"], "range": ["diamond", "circle"]}
RULE_SIZE = {"domain": ["one", "two"], "range": [300, 90]}
RULE_DASH = {"domain": ["one", "two"], "range": [[6, 3], [1, 0]]}


NOTHING = {"re": -1, "im": 0, "x": 0, "y": 0, "step": 0, "mspbe": 1, "rule": "one"}


def _empty(name: str) -> dict[str, Any]:
    """Data that the page replaces."""
    return {"name": name, "values": [NOTHING]}


def charts() -> dict[str, Any]:
    """Specifications of the four charts; the page fills their data in."""
    return {"spectrum": _spectrum(), "map": _map(), "errors": _errors(), "path": _path()}


def _plane(title: str, left: str, right: str, reach: str) -> dict[str, Any]:
    """Encode a complex number, on axes that reach as far as the expressions say."""

    def axis(field: str, words: str, low: str, high: str) -> dict[str, Any]:
        scale = {"domainMin": {"expr": low}, "domainMax": {"expr": high}}
        return {"field": field, "type": "quantitative", "title": words,
                "scale": scale | {"nice": False, "zero": False}}  # fmt: skip

    return {
        "x": axis("re", f"real part {title}", left, right),
        "y": axis("im", "imaginary part", f"-{reach}", reach),
    }


def _of_rule() -> dict[str, Any]:
    return {
        "color": {"field": "rule", "type": "nominal", "scale": RULE_SCALE, "legend": None},
        "shape": {"field": "rule", "type": "nominal", "scale": RULE_SHAPE, "legend": None},
        "size": {"field": "rule", "type": "ordinal", "scale": RULE_SIZE, "legend": None},
        "tooltip": [
            {"field": "name", "title": "rule"},
            {"field": "re", "title": "real", "format": ".5g"},
            {"field": "im", "title": "imaginary", "format": ".5g"},
        ],
    }


PARAMS = [{"name": name, "value": at} for name, at in (("left", -1), ("right", 1), ("reach", 1))]

POINT = {"type": "point", "filled": True, "clip": True, "opacity": 1, "stroke": INK,
         "strokeWidth": 1}  # fmt: skip


def _axis_of(where: dict[str, Any], width: float = 1.5) -> dict[str, Any]:
    mark = {"type": "rule", "color": INK, "strokeWidth": width, "aria": False}
    return {"data": {"values": [{}]}, "mark": mark, "encoding": where}


def _spectrum() -> dict[str, Any]:
    plane = _plane("(left of 0: stable)", "left", "right", "reach")
    return chart(
        "Eigenvalues of A in the complex plane, with the imaginary axis", 300,
        params=PARAMS,
        layer=[
            {"data": {"values": [{"from": 0}]},
             "mark": {"type": "rect", "color": "var(--shade)", "aria": False},
             "encoding": {"x": {"field": "from", "type": "quantitative"},
                          "x2": {"value": {"expr": "width"}}}},
            _axis_of({"x": {"datum": 0, "type": "quantitative"}}),
            {"data": _empty("locus"), "mark": {"type": "point", "filled": True, "size": 5,
             "clip": True, "opacity": 1, "aria": False},
             "encoding": plane | {"color": _of_rule()["color"]}},
            {"data": _empty("eigenvalues"), "mark": POINT,
             "encoding": plane | _of_rule()},
        ],
    )  # fmt: skip


def _map() -> dict[str, Any]:
    round_ = ("-1.3 * max(1, width / height)", "1.3 * max(1, width / height)")
    plane = _plane("(within the circle: converges)", *round_, "1.3 * max(1, height / width)")
    circle = [
        {"re": float(np.cos(t)), "im": float(np.sin(t)), "k": k}
        for k, t in enumerate(np.linspace(0, 2 * np.pi, 121))
    ]
    return chart(
        "Eigenvalues of the update with these step sizes, with the unit circle", 300,
        layer=[
            {"data": {"values": circle}, "mark": {"type": "line", "color": INK, "strokeWidth": 1.5,
             "clip": True, "aria": False}, "encoding": plane | {"order": {"field": "k"}}},
            {"data": _empty("eigenvalues"), "mark": POINT,
             "encoding": plane | _of_rule()},
        ],
    )  # fmt: skip


def _line(x: str, y: str) -> dict[str, Any]:
    return {
        "x": {"field": "step", "type": "quantitative", "title": x},
        "y": {"field": "mspbe", "type": "quantitative", "title": y,
              "scale": {"type": "log", "domainMin": {"expr": "low"}, "domainMax": {"expr": "high"},
                        "nice": False},
              "axis": {"tickCount": 6, "format": "~e", "grid": True}},
        "color": {"field": "rule", "type": "nominal", "scale": RULE_SCALE, "legend": None},
        "strokeDash": {"field": "rule", "type": "nominal", "scale": RULE_DASH, "legend": None},
        "tooltip": [{"field": "name", "title": "rule"}, {"field": "step"},
                    {"field": "mspbe", "title": "MSPBE", "format": ".4g"}],
    }  # fmt: skip


def _errors() -> dict[str, Any]:
    return chart(
        "Mean square projected Bellman error of the iterates, on a logarithmic axis", 260,
        params=[{"name": "low", "value": 1e-6}, {"name": "high", "value": 1}],
        data=_empty("iterates"), mark={"type": "line", "clip": True, "strokeWidth": 2.5},
        encoding=_line("iteration", "MSPBE"),
    )  # fmt: skip


def _path() -> dict[str, Any]:
    def axis(field: str) -> dict[str, Any]:
        reach = {"domainMin": {"expr": f"{field}0"}, "domainMax": {"expr": f"{field}1"}}
        return {"field": field, "type": "quantitative", "axis": {"tickCount": 6},
                "title": {"x": "first weight drawn", "y": "second"}[field],
                "scale": reach | {"nice": False, "zero": False}}  # fmt: skip

    at = {"x": axis("x"), "y": axis("y")}
    rule = {"color": _of_rule()["color"]}
    return chart(
        "The path of two weights, from where they begin to the fixed point", 260,
        params=[{"name": n, "value": v} for n, v in (("x0", -1), ("x1", 1), ("y0", -1), ("y1", 1))],
        layer=[
            {"data": _empty("path"), "mark": {"type": "line", "clip": True, "strokeWidth": 2},
             "encoding": at | rule | {
                 "order": {"field": "step"},
                 "strokeDash": {"field": "rule", "type": "nominal", "scale": RULE_DASH,
                                "legend": None}}},
            {"data": _empty("marks"), "mark": {"type": "point", "size": 120, "strokeWidth": 2,
             "clip": True, "filled": False, "color": INK},
             "encoding": at | {
                 "shape": {"field": "what", "type": "nominal", "legend": None,
                           "scale": {"domain": ["start", "fixed point"],
                                     "range": ["circle", "cross"]}},
                 "tooltip": [{"field": "what"}, {"field": "x", "format": ".4g"},
                             {"field": "y", "format": ".4g"}]}},
        ],
    )  # fmt: skip
