"""The charts of a study; the page fills in the rows that its controls select."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saddleback.report.theme import BAD, INK, PAPER
from saddleback.report.vega import Record, axis, category, chart, tooltip

IS_HIGHLIGHTED = "highlighted === '' || datum.rule === highlighted"
HIGHLIGHT = {"condition": {"test": IS_HIGHLIGHTED, "value": 1}, "value": 0.35}
HIGHLIGHTED = [{"name": "highlighted", "value": ""}]


def charts(styles: Mapping[str, Record]) -> Record:
    """Specifications by name, given colour and dash of each rule; ``map`` is drawn for each rule.

    Of lines that coincide, the lower is wider.
    """
    width = {"field": "width", "type": "quantitative", "scale": None, "legend": None}
    by_rule: Record = {"size": width}
    for channel, part in (("color", "colour"), ("strokeDash", "dash")):
        by_rule[channel] = category("rule", {rule: style[part] for rule, style in styles.items()})
    return {"curves": _curves(by_rule), "map": _map(), "distribution": _distribution(by_rule)}


def _number(field: str, **scale: Any) -> Record:
    return axis(field, "", scale=scale)


def _curves(by_rule: Record) -> Record:
    y, x = _number("median", nice=False), _number("point", nice=False)
    lines = tooltip(
        rule="", point="", median=".4g", lower=("lower quartile", ".4g"),
        upper=("upper quartile", ".4g"),
    )  # fmt: skip
    return chart(
        "Learning curves of the best setting of each rule, with quartiles over runs", 360,
        params=HIGHLIGHTED,
        data={"name": "curves", "values": []},
        layer=[
            {"mark": {"type": "area", "clip": True, "aria": False},
             "encoding": {
                 "x": x, "y": y | {"field": "lower"}, "y2": {"field": "upper"},
                 "color": by_rule["color"],
                 "opacity": {"condition": {"test": IS_HIGHLIGHTED, "value": 0.18}, "value": 0.04}}},
            {"mark": {"type": "line", "clip": True},
             "encoding": {"x": x, "y": y, **by_rule, "opacity": HIGHLIGHT, "tooltip": lines}},
            {"data": {"name": "selected", "values": []},
             "mark": {"type": "line", "clip": True, "strokeWidth": 3, "color": INK,
                      "aria": False,
                      "point": {"filled": True, "size": 30, "color": INK, "aria": False}},
             "encoding": {"x": x, "y": y, "tooltip": lines[:3]}},
        ],
    )  # fmt: skip


def _map() -> Record:
    """Draw the final value of each setting: dark is good; a cross marks a setting that diverged."""
    x = {"field": "x", "type": "ordinal", "title": "α", "sort": None,
         "axis": {"labelAngle": 0, "labelOverlap": "greedy"}}  # fmt: skip
    y = {"field": "y", "type": "ordinal", "title": "β/α", "sort": None,
         "axis": {"labelOverlap": "greedy"}}  # fmt: skip
    is_selected = "datum.cell === selected"
    lines = tooltip(
        rule="", x=("α", ""), y=("β/α", ""), label=("final value", ""),
        diverged=("diverged runs", ""),
    )  # fmt: skip
    return chart(
        "Final value of the metric by step sizes; crosses mark settings that diverged", 230,
        params=[{"name": "selected", "value": -1}],
        data={"name": "cells", "values": []},
        encoding={"x": x, "y": y},
        layer=[
            {"transform": [{"filter": "isValid(datum.final) && datum.diverged === 0"}],
             "mark": {"type": "rect", "aria": False},
             "encoding": {
                 "color": {"field": "shade", "type": "quantitative", "legend": None,
                           "scale": {"type": "log", "clamp": True, "domain": [0.1, 1]}},
                 "tooltip": lines}},
            {"transform": [{"filter": "datum.diverged > 0"}],
             "mark": {"type": "text", "text": "✕", "color": BAD, "fontSize": 11, "aria": False},
             "encoding": {"tooltip": lines}},
            *({"mark": {"type": "rect", "fill": "transparent", "stroke": stroke, "aria": False,
                        "cursor": "pointer"},
               "encoding": {"strokeWidth": {"condition": {"test": is_selected, "value": width},
                                            "value": 0},
                            "tooltip": lines}}
              for stroke, width in ((INK, 6), (PAPER, 2))),  # visible on every colour
        ],
    )  # fmt: skip


def _distribution(by_rule: Record) -> Record:
    return chart(
        "Fraction of the settings of each rule that end at or below a value", 300,
        params=HIGHLIGHTED,
        data={"name": "distribution", "values": []},
        mark={"type": "line", "interpolate": "step-after", "clip": True},
        encoding={
            "x": _number("value", type="log", nice=False),
            "y": axis("share", "fraction of settings ≤ x", scale={"domain": [0, 1]},
                      axis={"format": ".0%", "tickCount": 5}),
            **by_rule, "opacity": HIGHLIGHT,
            "tooltip": tooltip(rule="", value=".4g", count=("settings ≤ value", ""),
                               of=("of", "")),
        },
    )  # fmt: skip
