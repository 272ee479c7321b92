"""The forest plot: all estimates of a policy below each other, and the logged policy."""

from __future__ import annotations

from saddleback._display import axis_range
from saddleback.ope.text_report import NOT_USED, USED, Row, trusted
from saddleback.report.theme import COLOURS, INK, MUTED, PAPER
from saddleback.report.vega import Record, axis, chart, figure

KINDS = {
    "used": COLOURS[0], "refused": MUTED, "of V^π": COLOURS[0], "other": COLOURS[5],
    "unreliable": MUTED, "logged": COLOURS[1],
}  # fmt: skip
"""Kinds of rows and their colours."""

NARROW = 480
"""Pixels below which labels omit the estimand."""

BIAS_LABEL = "V^π, including the estimated bias"


def forest(
    k: int, name: str, result: Record, verdict: Record | None, table: list[Row]
) -> Record | None:
    """Draw all estimates below each other, with the logged policy as reference."""
    refused = verdict is not None and verdict["trust"] == "refused"
    rows = _rows(name, result, verdict, table)
    if not rows:
        return None
    reliable, unreliable = (
        [
            row[part]
            for row in rows
            if (row["kind"] == "unreliable") is which
            for part in ("value", "low", "high")
            if row[part] is not None
        ]
        for which in (False, True)
    )
    low, high = axis_range(reliable or [rows[0]["value"]], unreliable)
    sentences = []
    if refused:
        sentences.append("The estimate is refused: grey numbers must not be used.")
    if any(row["low"] is not None for row in rows):
        sentences.append("Bars are 95% confidence intervals.")
    if result.get("logged") is not None:
        sentences.append("Dashed line: the logged policy.")
    if any(row["kind"] == "unreliable" for row in rows):
        sentences.append("Hollow: unreliable, since the importance weights are heavy-tailed.")
    every = [row[part] for row in rows for part in ("value", "low", "high")]
    if any(not low <= end <= high for end in every if end is not None):
        sentences.append("An arrow marks an interval that leaves the axis.")
    caption = " ".join(sentences)
    return figure(k, "forest", "All estimates", caption, _spec(low, high, len(rows)), rows)


def _rows(name: str, result: Record, verdict: Record | None, table: list[Row]) -> list[Record]:
    """The logged policy, the estimates of a target, and its value with the bias."""
    logged = result.get("logged")
    refused = verdict is not None and verdict["trust"] == "refused"
    estimates: list[tuple[str, Record]] = []
    if logged is not None:
        estimates.append(("logged", logged | {"method": "logged policy"}))
    for j, estimate in enumerate(e for e in result["estimates"] if e["target"] == name):
        unreliable = estimate["ess"] is not None and not trusted(estimate, result)
        kind = "unreliable" if unreliable else "other"
        if j == 0 and verdict is not None:
            kind = "refused" if refused else "used"
        estimates.append((kind, estimate))
    rows = [
        {"method": estimate["method"], "kind": kind, "value": estimate["value"],
         "low": estimate["low"], "high": estimate["high"], "estimand": estimate["estimand"],
         "ess": estimate.get("ess"), "k_hat": estimate.get("k_hat"),
         "label": f"{method}  {value} {interval}  {notes}".rstrip(),
         "brief": f"{method}  {value} {interval}  {_mark(notes)}".rstrip()}
        for (kind, estimate), (method, value, interval, notes) in zip(estimates, table, strict=True)
    ]  # fmt: skip
    if verdict is not None and not refused:
        low, high = verdict["interval_with_gap"]
        with_bias = {
            "method": BIAS_LABEL, "kind": "of V^π", "value": verdict["value"], "low": low,
            "high": high, "estimand": "V^π", "ess": None, "k_hat": None, "label": BIAS_LABEL,
            "brief": BIAS_LABEL,
        }  # fmt: skip
        rows.insert(1 + (logged is not None), with_bias)
    baseline = None if logged is None else logged["value"]
    return [
        row | {"position": position, "logged": baseline}
        for position, row in enumerate(rows)
        if row["value"] is not None
    ]


def _mark(notes: str) -> str:
    """Return the mark of the main estimate, used or refused; empty for the others."""
    return next((mark for mark in (USED, NOT_USED) if mark in notes), "")


def _spec(low: float, high: float, count: int) -> Record:
    scale = {"domain": [low, high], "nice": False, "zero": False}
    x = {"x": axis("value", "value of the policy", scale=scale, axis={"tickCount": 10})}
    y = {"y": {"field": "position", "type": "ordinal", "axis": None, "scale": {"type": "band"}}}
    by_kind = {"field": "kind", "type": "nominal", "legend": None,
               "scale": {"domain": list(KINDS), "range": list(KINDS.values())}}  # fmt: skip
    colour = {"color": by_kind}
    hollow = {"condition": {"test": "datum.kind === 'unreliable'", "value": PAPER}}
    numbers = [{"field": part, "format": ".5g"} for part in ("value", "low", "high")]
    tooltip = {"tooltip": [{"field": "method"}, {"field": "estimand"}, *numbers]}
    dash = {"strokeDash": {"condition": {"test": "datum.kind === 'unreliable'", "value": [4, 3]},
                           "value": [1, 0]}}  # fmt: skip
    label = {"type": "text", "align": "left", "yOffset": -9, "aria": False, "color": INK,
             "limit": {"expr": "width"},
             "text": {"expr": f"width < {NARROW} ? datum.brief : datum.label"}}  # fmt: skip
    return chart(
        "Forest plot: a value and an interval for each estimate", 46 * count,
        view={"stroke": None},
        layer=[
            {"transform": [{"aggregate": [{"op": "min", "field": "logged", "as": "logged"}]},
                           {"filter": "isValid(datum.logged)"}],
             "mark": {"type": "rule", "strokeDash": [5, 4], "color": COLOURS[1], "aria": False},
             "encoding": {"x": axis("logged", "value of the policy", scale=scale)}},
            {"mark": {"type": "rule", "strokeWidth": 3, "clip": True, "aria": False,
                      "yOffset": 8},
             "encoding": y | colour | dash | {
                 "x": axis("low", "value of the policy", scale=scale), "x2": {"field": "high"}}},
            {"mark": {"type": "point", "size": 90, "strokeWidth": 2, "clip": True, "opacity": 1,
                      "yOffset": 8},
             "encoding": x | y | colour | tooltip | {"fill": hollow | by_kind}},
            *({"transform": [{"filter": outside}],
               "mark": {"type": "text", "text": arrow, "align": side, "yOffset": 8, "fontSize": 16,
                        "aria": False},
               "encoding": y | colour | {"x": {"value": edge}}}
              for outside, arrow, side, edge in (
                  (f"datum.value < {low} || isValid(datum.low) && datum.low < {low}",
                   "◀", "left", 0),
                  (f"datum.value > {high} || isValid(datum.high) && datum.high > {high}",
                   "▶", "right", {"expr": "width"}))),
            # The line of the logged policy passes behind the labels: the first text is a halo.
            {"mark": label | {"stroke": PAPER, "strokeWidth": 5},
             "encoding": y | {"x": {"value": 2}}},
            {"mark": label, "encoding": y | {"x": {"value": 2}}},
        ],
    )  # fmt: skip
