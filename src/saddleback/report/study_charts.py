"""The charts of a study; the page fills them with the rows that its controls choose."""

from __future__ import annotations

from typing import Any

from saddleback.report.theme import BAD, INK, PAPER, chart

Plain = dict[str, Any]

BY_RULE: Plain = {
    "color": {"field": "rule", "type": "nominal", "scale": {"domain": [], "range": []},
              "legend": None},
    "strokeDash": {"field": "rule", "type": "nominal", "scale": {"domain": [], "range": []},
                   "legend": None},
}  # fmt: skip
"""Colour and dashes; the page puts the rules in."""

LIT = {"condition": {"test": "lit === '' || datum.rule === lit", "value": 1}, "value": 0.35}


def charts() -> Plain:
    """Specifications by name; ``map`` is drawn once for each rule."""
    return {"curves": _curves(), "map": _map(), "grid": _grid()}


def _axis(field: str, title: str, **scale: Any) -> Plain:
    return {"field": field, "type": "quantitative", "title": title, "scale": scale}


def _curves() -> Plain:
    y, x = _axis("middle", "", nice=False), _axis("point", "", nice=False)
    tooltip = [{"field": "rule"}, {"field": "point"}, {"field": "middle", "format": ".4g"},
               {"field": "low", "format": ".4g"}, {"field": "high", "format": ".4g"}]  # fmt: skip
    return chart(
        "Learning curves of the best setting of each rule, with bands over runs", 360,
        params=[{"name": "lit", "value": ""}],
        data={"name": "curves", "values": []},
        layer=[
            {"mark": {"type": "area", "clip": True, "aria": False},
             "encoding": {
                 "x": x, "y": y | {"field": "low"}, "y2": {"field": "high"},
                 "color": BY_RULE["color"],
                 "opacity": {"condition": {"test": "lit === '' || datum.rule === lit",
                                           "value": 0.18}, "value": 0.04}}},
            {"mark": {"type": "line", "clip": True, "strokeWidth": 2.2},
             "encoding": {"x": x, "y": y, **BY_RULE, "opacity": LIT, "tooltip": tooltip}},
            {"data": {"name": "picked", "values": []},
             "mark": {"type": "line", "clip": True, "strokeWidth": 3, "color": INK,
                      "aria": False,
                      "point": {"filled": True, "size": 30, "color": INK, "aria": False}},
             "encoding": {"x": x, "y": y, "tooltip": tooltip[:3]}},
        ],
    )  # fmt: skip


def _map() -> Plain:
    """Draw the end of each setting; what diverged is a cross on the bare page, never a colour."""
    x = {"field": "x", "type": "ordinal", "title": "α", "sort": None,
         "axis": {"labelAngle": -60, "labelOverlap": "greedy"}}  # fmt: skip
    y = {"field": "y", "type": "ordinal", "title": "β/α", "sort": None,
         "axis": {"labelOverlap": "greedy"}}  # fmt: skip
    at = "datum.cell === picked"
    tooltip = [{"field": "rule"}, {"field": "x", "title": "α"},
               {"field": "y", "title": "β/α"}, {"field": "said", "title": "at the end"},
               {"field": "diverged", "title": "runs that diverged"}]  # fmt: skip
    return chart(
        "The metric at the end over step sizes; crosses mark settings that diverged", 230,
        params=[{"name": "picked", "value": -1}],
        data={"name": "cells", "values": []},
        encoding={"x": x, "y": y},
        layer=[
            {"transform": [{"filter": "isValid(datum.final) && datum.diverged === 0"}],
             "mark": {"type": "rect", "aria": False},
             "encoding": {
                 "color": {"field": "shade", "type": "quantitative", "legend": None,
                           "scale": {"type": "log", "reverse": True, "clamp": True,
                                     "scheme": {"name": "viridis", "extent": [0.2, 1]},
                                     "domain": [0.1, 1]}},
                 "tooltip": tooltip}},
            {"transform": [{"filter": "datum.diverged > 0"}],
             "mark": {"type": "text", "text": "✕", "color": BAD, "fontSize": 11, "aria": False},
             "encoding": {"tooltip": tooltip}},
            *({"mark": {"type": "rect", "fill": "transparent", "stroke": stroke, "aria": False,
                        "cursor": "pointer"},
               "encoding": {"strokeWidth": {"condition": {"test": at, "value": width}, "value": 0},
                            "tooltip": tooltip}}
              for stroke, width in ((INK, 6), (PAPER, 2))),  # seen on every colour
        ],
    )  # fmt: skip


def _grid() -> Plain:
    return chart(
        "Which share of the settings of each rule ends at or below a value", 300,
        params=[{"name": "lit", "value": ""}],
        data={"name": "steps", "values": []},
        mark={"type": "line", "interpolate": "step-after", "clip": True, "strokeWidth": 2.2},
        encoding={
            "x": _axis("value", "", type="log", nice=False),
            "y": _axis("share", "settings at or below", domain=[0, 1]) | {
                "axis": {"format": ".0%", "tickCount": 5}},
            **BY_RULE, "opacity": LIT,
            "tooltip": [{"field": "rule"}, {"field": "value", "format": ".4g"},
                        {"field": "count"}, {"field": "of"}],
        },
    )  # fmt: skip
