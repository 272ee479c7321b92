"""The forest plot: all estimates of a policy below each other, and the logged policy."""

from __future__ import annotations

from saddleback.report.theme import COLOURS, MUTED, chart
from saddleback.report.vega import Plain, axis, figure
from saddleback.verdict.text_report import NOT_USED, USED, Row, trusted

KINDS = {
    "used": COLOURS[0], "refused": MUTED, "of V^π": COLOURS[0], "other": COLOURS[5],
    "unreliable": MUTED, "logged": COLOURS[1],
}  # fmt: skip
"""Colours of the rows of a forest plot."""

NARROW = 480
"""Pixels below which labels do not say of what an estimate is."""


def forest(
    k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]
) -> Plain | None:
    """Draw all estimates below each other, with the logged policy as reference."""
    mine = [each for each in result["estimates"] if each["target"] == name]
    refused = verdict is not None and verdict["trust"] == "refused"
    first = "refused" if refused else "used"
    given: list[tuple[str, Plain]] = []
    if result.get("logged") is not None:
        given.append(("logged", result["logged"] | {"method": "logged policy"}))
    for j, each in enumerate(mine):
        void = each["ess"] is not None and not trusted(each, result)
        given.append((first if j == 0 and verdict else "unreliable" if void else "other", each))
    rows = [
        {"method": each["method"], "kind": kind, "value": each["value"], "low": each["low"],
         "high": each["high"], "estimand": each["estimand"], "ess": each.get("ess"),
         "k_hat": each.get("k_hat"), "label": f"{method}  {value} {reach}  {what}".rstrip(),
         "brief": f"{method}  {value} {reach}  {_mark(what)}".rstrip()}
        for (kind, each), (method, value, reach, what) in zip(given, told, strict=True)
    ]  # fmt: skip
    if verdict is not None and not refused:
        low, high = verdict["interval_with_gap"]
        wide = {"method": "V^π, with the bias", "kind": "of V^π", "value": verdict["value"],
                "low": low, "high": high, "estimand": "V^π", "ess": None, "k_hat": None,
                "label": "V^π, including the estimated bias",
                "brief": "V^π, including the estimated bias"}  # fmt: skip
        rows.insert(1 + bool(given and given[0][0] == "logged"), wide)
    logged = None if result.get("logged") is None else result["logged"]["value"]
    rows = [
        each | {"place": at, "logged": logged}
        for at, each in enumerate(rows)
        if each["value"] is not None
    ]
    if not rows:
        return None
    ends = [
        each[part]
        for each in rows
        if each["kind"] != "unreliable"
        for part in ("value", "low", "high")
    ]
    known = [each for each in ends if each is not None] or [rows[0]["value"]]
    pad = 0.08 * (max(known) - min(known)) or 0.1 * abs(known[0]) or 1.0
    words = (
        "Bars are 95% confidence intervals."
        if any(each["low"] is not None for each in rows)
        else ""
    )
    if result.get("logged") is not None:
        words += " The dashed line is what the logged policy returned."
    if any(each["kind"] == "unreliable" for each in rows):
        words += " Hollow: unreliable, since the importance weights are heavy-tailed."
    low, high = min(known) - pad, max(known) + pad
    spread = [each[part] for each in rows for part in ("value", "low", "high")]
    if any(not low <= each <= high for each in spread if each is not None):
        words += " An arrow points to what lies beyond the picture."
    if refused:
        grey = "The answer is refused: these numbers are shown in grey, and none is to be used."
        words = f"{grey} {words}"
    words = words.strip()
    return figure(k, "forest", "All estimates", words, _forest(low, high, len(rows)), rows)


def _mark(notes: str) -> str:
    """Return whether an estimate is the one that is used, or refused."""
    return next((mark for mark in (USED, NOT_USED) if mark in notes), "")


def _forest(low: float, high: float, count: int) -> Plain:
    scale = {"domain": [low, high], "nice": False, "zero": False}
    x = {"x": axis("value", "value of the policy", scale=scale, axis={"tickCount": 10})}
    y = {"y": {"field": "place", "type": "ordinal", "axis": None, "scale": {"type": "band"}}}
    by_kind = {"field": "kind", "type": "nominal", "legend": None,
               "scale": {"domain": list(KINDS), "range": list(KINDS.values())}}  # fmt: skip
    colour = {"color": by_kind}
    hollow = {"condition": {"test": "datum.kind === 'unreliable'", "value": "var(--paper)"}}
    numbers = [{"field": part, "format": ".5g"} for part in ("value", "low", "high")]
    tooltip = {"tooltip": [{"field": "method"}, {"field": "estimand", "title": "of"}, *numbers]}
    dash = {"strokeDash": {"condition": {"test": "datum.kind === 'unreliable'", "value": [4, 3]},
                           "value": [1, 0]}}  # fmt: skip
    return chart(
        "Forest plot: a value and an interval for each estimate", 46 * count,
        view={"stroke": None},
        layer=[
            {"transform": [{"filter": "isValid(datum.logged)"}],
             "mark": {"type": "rule", "strokeDash": [5, 4], "color": COLOURS[1], "aria": False},
             "encoding": {"x": axis("logged", "value of the policy", scale=scale),
                          "y": y["y"] | {"bandPosition": 0.45},
                          "y2": {"field": "place", "bandPosition": 1}}},  # below the label
            {"mark": {"type": "rule", "strokeWidth": 3, "clip": True, "aria": False,
                      "yOffset": 8},
             "encoding": y | colour | dash | {
                 "x": axis("low", "value of the policy", scale=scale), "x2": {"field": "high"}}},
            {"mark": {"type": "point", "size": 90, "strokeWidth": 2, "clip": True, "opacity": 1,
                      "yOffset": 8},
             "encoding": x | y | colour | tooltip | {"fill": hollow | by_kind}},
            *({"transform": [{"filter": beyond}],
               "mark": {"type": "text", "text": arrow, "align": side, "yOffset": 8, "fontSize": 16,
                        "aria": False},
               "encoding": y | colour | {"x": {"value": place}}}
              for beyond, arrow, side, place in (
                  (f"datum.value < {low} || isValid(datum.low) && datum.low < {low}",
                   "◀", "left", 0),
                  (f"datum.value > {high} || isValid(datum.high) && datum.high > {high}",
                   "▶", "right", {"expr": "width"}))),
            {"mark": {"type": "text", "align": "left", "yOffset": -9, "aria": False,
                      "limit": {"expr": "width"},
                      "text": {"expr": f"width < {NARROW} ? datum.brief : datum.label"}},
             "encoding": y | {"x": {"value": 2}}},
        ],
    )  # fmt: skip
