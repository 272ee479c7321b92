"""The chart of candidate features: what each of them estimates, and how much it counts."""

from __future__ import annotations

from saddleback._display import axis_range
from saddleback.ope.candidates import GIVEN, HISTORY, OBSERVATION, STEP
from saddleback.ope.text_report import weights_by_basis, windowed_change
from saddleback.report.theme import COLOURS, INK
from saddleback.report.vega import Record, axis, category, chart, dashed, figure, tooltip

VIEWS = {
    OBSERVATION: COLOURS[0], STEP: COLOURS[1], HISTORY: COLOURS[2], GIVEN: COLOURS[3],
}  # fmt: skip
"""Colours of what features are functions of."""

MAX_BASES = 24
"""Largest number of bases drawn."""


def candidates(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw the plug-in values of all candidates, one line per basis, most weight first."""
    consensus = None if verdict is None else verdict.get("consensus")
    if consensus is None or consensus["value"] is None:
        return None
    order = list(weights_by_basis(consensus))[:MAX_BASES]
    rows = [
        candidate | {"label": _label(candidate), "position": order.index(_key(candidate))}
        for candidate in consensus["candidates"]
        if candidate["value"] is not None and _key(candidate) in order
    ]
    if not rows:
        return None
    near = [row["value"] for row in rows if (row["primal"] or 0.0) >= 0.01]
    low, high = axis_range([consensus["value"], *near], [row["value"] for row in rows])
    scale = {"domain": [low, high], "nice": False, "zero": False, "clamp": True}
    views = {view: colour for view, colour in VIEWS.items() if any(r["view"] == view for r in rows)}
    legend = {"title": "function of the", "orient": "top", "columns": 2}
    spec = chart(
        "Values estimated by candidate features, and their weights", 20 * len(order),
        layer=[
            {"mark": {"type": "point", "filled": True, "opacity": 1},
             "encoding": {
                 "x": axis("value", "plug-in value of the policy", scale=scale),
                 "y": {"field": "label", "type": "nominal", "title": None,
                       "sort": {"field": "position", "op": "min"}, "axis": {"labelLimit": 260}},
                 "size": {"field": "primal", "type": "quantitative", "legend": None,
                          "scale": {"domain": [0, 1], "range": [16, 600]}},
                 "color": category("view", views, legend=legend),
                 "tooltip": tooltip(basis=("features", ""), ridge="", value=".4g", residual=".3g",
                                    imbalance=".3g", primal=("weight", ".1%"))}},
            dashed({"datum": consensus["value"]}, "x", INK),
        ],
    )  # fmt: skip
    caption = (
        f"{len(consensus['candidates'])} candidates, each with its ridge; larger points have more "
        "weight. Dashed line: their consensus. Features that also see the step or the history do "
        "not count, but differ from it if the observation hides something."
    )
    if not all(low <= row["value"] <= high for row in rows):
        caption += " Points on the edge are farther out."
    caption = " ".join([caption, *windowed_change(consensus)])
    return figure("candidates", "Candidate features", caption, spec, rows)


def _key(candidate: Record) -> tuple[str, str]:
    return candidate["view"], candidate["basis"]


def _label(candidate: Record) -> str:
    view = candidate["view"]
    return str(candidate["basis"]) + ("" if view in (OBSERVATION, GIVEN) else f", {view}")
