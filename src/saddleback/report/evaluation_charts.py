"""The charts of an evaluation: forest plot, weights, coverage, spectrum, λ, calibration."""

from __future__ import annotations

import math

from saddleback._display import axis_range
from saddleback.ope.estimate import format_distinct
from saddleback.ope.number_format import with_minus
from saddleback.ope.text_report import NOT_USED, USED, has_ceiling, trusted, units
from saddleback.ope.text_report import rows as table_rows
from saddleback.ope.weight_diagnostics import k_hat_threshold
from saddleback.report.theme import BAD, COLOURS, DOUBT, GOOD, INK, MUTED, PAPER
from saddleback.report.vega import Record, axis, category, chart, dashed, figure, tooltip

KINDS = {
    "used": COLOURS[0], "refused": MUTED, "of V^π": COLOURS[0], "other": COLOURS[5],
    "unreliable": MUTED, "logged": COLOURS[1],
}  # fmt: skip
"""Kinds of rows of the forest plot and their colours."""

GRADES = {"covered": GOOD, "doubtful": DOUBT, "not covered": BAD}
"""Grades of coverage and their colours."""

ON_TOP = {"title": None, "orient": "top"}
"""A legend above a chart."""

NARROW = 480
"""Pixels below which labels of the forest plot omit the estimand."""

BIAS_LABEL = "V^π, including the estimated bias"

MAX_EIGENVALUES = 600
"""Largest number of eigenvalues of resamples drawn: those with the largest real parts."""

DOT = {"filled": True, "size": 30, "color": COLOURS[0]}
"""Points on a line."""

MAX_STEPS = 500
"""Largest number of steps drawn."""

MIN_WEIGHT = 0.01
"""Smallest weight that is drawn, relative to the mean."""

CROWDED = 0.02
"""Eigenvalues are crowded if half of them are this close to 0, relative to the largest."""


def forest(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw all estimates below each other, with the logged policy as reference."""
    rows = _rows(name, result, verdict)
    if not rows:
        return None

    def ends(reliable: bool) -> list[float]:
        chosen = [row for row in rows if (row["kind"] != "unreliable") is reliable]
        values = [row[part] for row in chosen for part in ("value", "low", "high")]
        return [value for value in values if value is not None]

    low, high = axis_range(ends(True) or [rows[0]["value"]], ends(False))
    sentences = {
        "The estimate is refused: grey numbers must not be used.": _is_refused(verdict),
        "Bars are 95% confidence intervals.": any(row["low"] is not None for row in rows),
        "Dashed line: the logged policy.": result.get("logged") is not None,
        "Hollow: unreliable, since a few importance weights dominate.": bool(ends(False)),
        "An arrow marks an interval that leaves the axis.": any(
            not low <= end <= high for end in [*ends(True), *ends(False)]
        ),
    }
    caption = " ".join(sentence for sentence, applies in sentences.items() if applies)
    return figure("forest", "All estimates", caption, _spec(low, high, len(rows)), rows)


def _rows(name: str, result: Record, verdict: Record | None) -> list[Record]:
    """The logged policy, the estimates of a target, and its value with the bias."""
    logged, refused = result.get("logged"), _is_refused(verdict)
    table, _ = table_rows(result, name, verdict)
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


def _is_refused(verdict: Record | None) -> bool:
    return verdict is not None and bool(verdict["trust"] == "refused")


def _mark(notes: str) -> str:
    """Return the mark of the main estimate, used or refused; empty for the others."""
    return next((mark for mark in (USED, NOT_USED) if mark in notes), "")


def _spec(low: float, high: float, count: int) -> Record:
    scale = {"domain": [low, high], "nice": False, "zero": False}
    x = {"x": axis("value", "value of the policy", scale=scale, axis={"tickCount": 10})}
    y = {"y": {"field": "position", "type": "ordinal", "axis": None, "scale": {"type": "band"}}}
    by_kind = category("kind", KINDS)
    colour = {"color": by_kind}
    hollow = {"condition": {"test": "datum.kind === 'unreliable'", "value": PAPER}}
    lines = tooltip(method="", estimand="", value=".5g", low=".5g", high=".5g")
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
             "encoding": x | y | colour | {"tooltip": lines, "fill": hollow | by_kind}},
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


def effective_sample_size(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw the effective sample size step by step."""
    steps = result.get("ess_by_step", {}).get(name)
    if not steps:
        return None
    kept = {round(k * (len(steps) - 1) / (MAX_STEPS - 1)) for k in range(MAX_STEPS)}
    rows = [
        {"step": t + 1, "ess": size}
        for t, size in enumerate(steps)
        if size is not None and (len(steps) <= MAX_STEPS or t in kept)
    ]
    n, last = result["episodes"], steps[-1]
    half = next((row["step"] for row in rows if row["ess"] < n / 2), None)
    caption = f"At the last step the effective sample size is {last:,.0f} of {n:,} episodes"
    caption += f"; it is below half from step {half} on." if half else "."
    caption += f" Dashed line: all {n:,} episodes."
    if any(row["ess"] <= 0 for row in rows):
        caption += " A logarithmic axis omits steps where it is 0."
    spec = chart(
        "Effective sample size at each step", 220,
        layer=[
            {"mark": {"type": "line", "color": COLOURS[0], "point": len(rows) < 40 and DOT},
             "encoding": {
                 "x": axis("step", "step of the episode", scale={"nice": False, "zero": False},
                           axis={"tickMinStep": 1, "tickCount": 8, "format": ",d"}),
                 "y": axis("ess", "effective sample size", scale={"zero": True}),
                 "tooltip": tooltip(step="", ess=("ESS", ".1f"))}},
            {"data": {"values": [{"n": n}]}} | dashed({"field": "n"}, "y", MUTED),
        ],
    )  # fmt: skip
    return figure(
        "ess", "Effective sample size by step", caption, spec, rows, axis="y",
        scales={"linear": "linear", "log": "logarithmic"},
    )  # fmt: skip


def weight_tail(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw the tail of the importance weights."""
    pairs = result.get("tails", {}).get(name)
    shape = next(
        (estimate["k_hat"] for estimate in result["estimates"]
         if estimate["target"] == name and estimate["k_hat"] is not None), None,
    )  # fmt: skip
    if not pairs:
        return None
    rows = [{"weight": w, "share": share} for w, share in pairs if w >= MIN_WEIGHT]
    if not rows:
        return None
    limit = k_hat_threshold(result["episodes"])
    caption, line = "There are too few distinct weights to estimate k̂.", []
    if shape is not None:
        tail = "too heavy" if shape > limit else "light" if shape <= 0.5 else "acceptable"
        line = limiting_tail(rows, limit, result["episodes"])
        dashed = " (dashed line: a flatter tail makes weighted estimates unreliable)" * bool(line)
        k_hat, highest = format_distinct(shape, limit)
        caption = (
            f"k̂ is {k_hat}: the tail is {tail}. With {result['episodes']:,} {units(result)}, k̂ up "
            f"to {highest} is acceptable{dashed}."
        )
    if len(rows) < len(pairs):
        caption += f" Weights below {MIN_WEIGHT:g} of the mean are omitted."
    log = {"type": "log", "nice": False}
    domain = [0.7 * rows[0]["share"], 1.2 * rows[-1]["share"]]
    spec = chart(
        f"Fraction of {units(result)} with at least a given importance weight, on logarithmic axes",
        220,
        encoding={
            "x": axis("weight", f"{units(result)[:-1]} weight ÷ mean", scale=log),
            "y": axis("share", f"fraction of {units(result)} ≥ x", scale=log | {"domain": domain}),
            "tooltip": tooltip(weight=("weight ÷ mean", ".4g"), share=("fraction", ".4g")),
        },
        layer=[
            {"mark": {"type": "line", "color": COLOURS[3],
                      "point": {"filled": True, "size": 25, "color": COLOURS[3]}}},
            {"data": {"values": line},
             "mark": {"type": "line", "color": MUTED, "strokeDash": [5, 4], "clip": True,
                      "aria": False}},
        ],
    )  # fmt: skip
    return figure("tail", "Tail of the importance weights", caption, spec, rows)


def limiting_tail(rows: list[Record], shape: float, n: int) -> list[Record]:
    """Return two points of w^(−1/k), from the start of the tail that k̂ is fitted to, if any."""
    fitted = min(0.2, 3 / math.sqrt(n))
    start = next((row for row in rows if row["share"] >= fitted), rows[-1])
    largest = rows[0]["weight"]
    if shape <= 0 or largest <= start["weight"]:
        return []
    factor = (largest / start["weight"]) ** (-1 / shape)
    return [start, {"weight": largest, "share": start["share"] * factor}]


def coverage(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw the fraction of the target's decisions that the data cover, along a column."""
    support = None if verdict is None else verdict["support"]
    parts = (support or {}).get("parts")
    if support is None or not parts:
        return None
    columns = list(dict.fromkeys(part["column"] for part in parts))
    worst = min(parts, key=lambda part: (part["coverage"], -part["share"]))
    rows = [
        part | {"where": with_minus(part["where"]), "order": order}
        for order, part in enumerate(parts)
    ]
    most = max(sum(part["column"] == name for part in parts) for name in columns)
    caption = (
        f"{support['coverage']:.1%} of the target's decisions have at least 10 effective rows. "
        f"Least covered: {with_minus(worst['where'])}, {worst['coverage']:.0%}."
    )
    grade = (
        "datum.coverage >= 0.95 ? 'covered' : datum.coverage >= 0.75 ? 'doubtful' : 'not covered'"
    )
    where = {"field": "where", "type": "nominal", "sort": {"field": "order", "op": "min"},
             "title": None, "axis": {"labelLimit": 200}}  # fmt: skip
    x = axis("coverage", "fraction covered", scale={"domain": [0, 1.25], "nice": False},
             axis={"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 1]})  # fmt: skip
    spec = chart(
        "Fraction of the policy's probability with enough rows, by part of a column",
        22 * most, params=[{"name": "column", "value": worst["column"]}],
        transform=[{"filter": "datum.column === column"}, {"calculate": grade, "as": "grade"}],
        layer=[
            {"mark": {"type": "bar", "height": {"band": 0.7}},
             "encoding": {
                 "x": x, "y": where,
                 "color": category("grade", GRADES, legend=ON_TOP | {"columns": 3}),
                 "tooltip": tooltip(where=("part", ""), share=("share of the policy", ".1%"),
                                    coverage=".1%", rows=("rows of the log", ","))}},
            {"mark": {"type": "text", "align": "left", "dx": 4, "aria": False},
             "encoding": {"x": x, "y": where, "text": {"field": "coverage", "format": ".0%"}}},
        ],
    )  # fmt: skip
    return figure(
        "coverage", "Coverage", caption, spec, rows, columns=columns, column=worst["column"]
    )


def spectrum(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw the eigenvalues of Â, and of its resamples."""
    cloud = None if verdict is None else verdict["spectrum"]
    if cloud is None:
        return None
    per_draw = max(1, MAX_EIGENVALUES // max(1, cloud["draws"]))
    rows = [{"of": "Â", "draw": 0, "re": re, "im": im} for re, im in cloud["values"]]
    rows += [
        {"of": "resample", "draw": number, "re": re, "im": im}
        for number, draw in enumerate(cloud["cloud"][:MAX_EIGENVALUES], start=1)
        for re, im in draw[:per_draw]
    ]
    caption = (
        f"Â is {cloud['outcome']}: in {cloud['stable']} of {cloud['draws']} resamples of the "
        "episodes all eigenvalues lie left of the imaginary axis."
    )
    drawn = min(per_draw, len(cloud["cloud"][0]))
    if drawn < len(cloud["values"]):
        caption += f" Only the {drawn} with the largest real parts are drawn for each resample."
    left, right = (edge(row["re"] for row in rows) for edge in (min, max))
    width = max(right, 0.0) - min(left, 0.0) or 1.0
    up = max(0.05 * width, 1.1 * max(abs(row["im"]) for row in rows))
    domain = [min(left, 0.0) - 0.04 * width, max(right, 0.0) + 0.06 * width]
    nearest = max(1e-9 * width, min((abs(row["re"]) for row in rows if row["re"]), default=width))
    spec = chart(
        "Eigenvalues of Â and of its resamples in the complex plane", 260,
        usermeta={"constant": nearest},
        layer=[
            {"mark": {"type": "point", "filled": True, "opacity": 1, "strokeWidth": 1},
             "encoding": {
                 "x": axis("re", "real part", scale={"domain": domain, "nice": False},
                           axis={"tickCount": 6}),
                 "y": axis("im", "imaginary part", scale={"domain": [-up, up], "nice": False},
                           axis={"tickCount": 5}),
                 "color": category("of", {"Â": COLOURS[0], "resample": COLOURS[1]}, legend=ON_TOP),
                 "shape": category("of", {"Â": "circle", "resample": "diamond"}, legend=ON_TOP),
                 "size": {"condition": {"test": "datum.of === 'Â'", "value": 60}, "value": 30},
                 "tooltip": tooltip(of="", re=("real", ".4g"), im=("imaginary", ".4g"))}},
            {"data": {"values": [{"zero": 0}]},
             "mark": {"type": "rule", "color": INK, "strokeWidth": 1.5, "aria": False},
             "encoding": {"x": {"field": "zero", "type": "quantitative"}}},
        ],
    )  # fmt: skip
    scales = {"linear": "linear", "symlog": "logarithmic on both sides of 0"}
    near_zero = sum(abs(re) < CROWDED * width for re, _ in cloud["values"])
    if near_zero > len(cloud["values"]) / 2:
        scales = dict(reversed(scales.items()))
    return figure("spectrum", "Spectrum of Â", caption, spec, rows, axis="x", scales=scales)


def lambda_path(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw the value over λ, on an axis that includes the interval of the main estimate."""
    path = result["paths"].get(name, {}).get("lambda", ())
    rows = [{"λ": lam, "value": value} for lam, value in path if value is not None]
    if len(rows) < 2:
        return None
    values = [row["value"] for row in rows]
    change = max(values) - min(values)
    caption = f"From λ = {rows[0]['λ']:g} to {rows[-1]['λ']:g} the closed form changes by "
    caption += f"{change:.3g}"
    colour = MUTED if _is_refused(verdict) else COLOURS[0]
    layers: list[Record] = []
    if verdict is not None and verdict["high"] is not None and math.isfinite(verdict["high"]):
        low, high = verdict["low"], verdict["high"]
        comparison = "more" if change > high - low else "less"
        main = next(one["method"] for one in result["estimates"] if one["target"] == name)
        caption += f", {comparison} than the width of the 95% CI of {main} (band), {high - low:.3g}"
        layers.append(
            {"data": {"values": [{"low": low, "high": high}]},
             "mark": {"type": "rect", "color": colour, "opacity": 0.14, "aria": False},
             "encoding": {"y": axis("low", "value"), "y2": {"field": "high"}, "x": None,
                          "tooltip": None}}
        )  # fmt: skip
    caption += "."
    flat = {} if change or layers else {"domain": [values[0] - 1, values[0] + 1]}
    ceiling = result["lambda_ceiling"].get(name)
    layers.append({"mark": {"type": "line", "color": colour, "point": DOT | {"color": colour}}})
    if ceiling is not None and ceiling <= 1:
        own = verdict is not None and has_ceiling(verdict)
        whose = "The trace has" if own else "An importance trace (GES, GQ) would have"
        caption += f" {whose} bounded variance up to λ = {ceiling:.2f} (dashed line)"
        caption += "." if own else f"; the trace of {result['rule']} has no such limit."
        layers.append(
            {"data": {"values": [{"ceiling": ceiling}]},
             **dashed({"field": "ceiling"}, "x", COLOURS[1], (5, 4), y=None)}
        )  # fmt: skip
    spec = chart(
        "Value of the closed-form estimate over λ", 220, layer=layers,
        encoding={
            "x": axis("λ", "λ", scale={"domain": [0, 1]}, axis={"tickCount": 6}),
            "y": axis("value", "value", scale={"zero": False} | flat),
            "tooltip": tooltip(λ="", value=".5g"),
        },
    )  # fmt: skip
    return figure("path", "Sensitivity to λ", caption, spec, rows)


def calibration(name: str, result: Record, verdict: Record | None) -> Record | None:
    """Draw how often actions were taken against their estimated propensity."""
    rows = [
        {"predicted": row["estimated"], "observed": row["taken"], "n": row["pairs"]}
        for row in (result.get("card") or {}).get("calibration", [])
    ]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row["n"] * abs(row["predicted"] - row["observed"]))
    caption = (
        f"Propensities were estimated. Held-out {units(result)}, by estimated probability; points "
        "on the dashed line are calibrated. Most of the error: predicted "
        f"{worst['predicted']:.3f}, observed {worst['observed']:.3f} (n = {worst['n']:,})."
    )
    unit = {"domain": [0, 1], "nice": False}
    x = axis("predicted", "estimated propensity", scale=unit)
    y = axis("observed", "observed frequency", scale=unit)
    spec = chart(
        "Observed frequency of actions against their estimated propensity", 220,
        layer=[
            {"data": {"values": [{"predicted": 0, "observed": 0}, {"predicted": 1, "observed": 1}]},
             "mark": {"type": "line", "color": MUTED, "strokeDash": [4, 3], "aria": False},
             "encoding": {"x": x, "y": y}},
            {"mark": {"type": "line", "color": COLOURS[0], "point": DOT},
             "encoding": {
                 "x": x, "y": y,
                 "tooltip": tooltip(predicted=".3f", observed=".3f", n=",")}},
        ],
    )  # fmt: skip
    return figure("calibration", "Calibration of the propensities", caption, spec, rows)
