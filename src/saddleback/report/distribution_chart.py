"""The chart of the distribution of the return under a target, beside the logged policy."""

from __future__ import annotations

from saddleback.ope.distribution_text import (
    distribution_note,
    distribution_rows,
    missing_distributions,
    origin,
)
from saddleback.ope.return_distribution import MODEL
from saddleback.ope.text_report import units
from saddleback.report.theme import COLOURS
from saddleback.report.vega import Record, axis, category, chart, figure, tooltip


def distribution(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw the quantiles of the return under a target and the logged policy."""
    of_target = [one for one in result.get("distributions", ()) if one["target"] == name]
    shown = next(iter([one for one in of_target if one["reliable"]] or of_target), None)
    if shown is None:
        return None
    outcome = "reward" if result.get("bandit") else "return"
    policies = (name, "logged policy")
    rows = [
        {"policy": policy, "level": level, "value": value}
        for level, *both in shown["curve"]
        for policy, value in zip(policies, both, strict=True)
        if value is not None
    ]
    if not rows:
        return None
    worst, *quantiles = distribution_rows(shown)
    median = next((row for row in quantiles if row[0] == "50% quantile"), None)
    caption = f"{worst[0]}: {worst[1]} {worst[2]}, logged policy {worst[3]}."
    if median is not None:
        caption += f" Median: {median[1]} {median[2]}, logged policy {median[3]}."
    bars = [
        one | {"policy": name}
        for one in shown["quantiles"]
        if one["low"] is not None and one["high"] is not None
    ]
    caption += " Bars are 95% confidence intervals of quantiles." if bars else ""
    caption += (
        " From a model of the log."
        if origin(shown) == MODEL
        else f" From weighted {units(result)}."
    )
    note = distribution_note(shown)
    caption += f" {note[0].upper()}{note[1:]}" if note else ""
    missing = [reason for origin, reason in missing_distributions(result, name) if origin == MODEL]
    caption += "".join(f" No model of the log, since {reason}." for reason in missing)
    styles = dict(zip(policies, COLOURS, strict=False))
    colour = category("policy", styles, legend={"title": None, "orient": "top"})
    y = axis("level", f"share of {outcome}s ≤ x", scale={"domain": [0, 1], "nice": False},
             axis={"format": ".0%", "tickCount": 5})  # fmt: skip
    curves = {
        "mark": {"type": "line", "interpolate": "step-before"},
        "encoding": {
            "x": axis("value", outcome, scale={"zero": False}), "y": y, "color": colour,
            "order": {"field": "level"},
            "tooltip": tooltip(policy="", level=".0%", value=".4g")},
    }  # fmt: skip
    intervals = {
        "data": {"values": bars}, "mark": {"type": "rule", "strokeWidth": 3, "aria": False},
        "encoding": {"x": axis("low", outcome, scale={"zero": False}),
                     "x2": {"field": "high"}, "y": y, "color": colour},
    }  # fmt: skip
    layer = [curves, intervals] if bars else [curves]
    spec = chart(f"Cumulative distribution of the {outcome}", 240, layer=layer)
    return figure("distribution", f"Distribution of the {outcome}", caption, spec, rows)
