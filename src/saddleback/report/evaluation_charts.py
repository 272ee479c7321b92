"""The charts below the forest plot of an evaluation: ratios, coverage, spectrum, λ."""

from __future__ import annotations

import math

from saddleback.evaluation.estimate import format_distinct
from saddleback.evaluation.weight_diagnostics import k_hat_threshold
from saddleback.report.theme import BAD, COLOURS, INK, MUTED, chart
from saddleback.report.vega import Plain, axis, decades, figure
from saddleback.verdict.text_report import Row, has_ceiling

MOST = 600
"""Most eigenvalues of resamples that are drawn: those with the largest real parts."""

DOT = {"filled": True, "size": 30, "color": COLOURS[0]}
"""Points on a line."""

STEPS = 500
"""Most steps of which the effective sample size is drawn."""

LIGHTEST = 0.01
"""Weight, in means, from which on a weight is drawn."""


def effective(
    k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]
) -> Plain | None:
    """Draw how many episodes still count, step by step."""
    steps = result.get("ess_by_step", {}).get(name)
    if not steps:
        return None
    kept = {round(k * (len(steps) - 1) / (STEPS - 1)) for k in range(STEPS)}
    rows = [
        {"step": t + 1, "ess": each}
        for t, each in enumerate(steps)
        if each is not None and (len(steps) <= STEPS or t in kept)
    ]
    n, last = result["episodes"], steps[-1]
    half = next((row["step"] for row in rows if row["ess"] < n / 2), None)
    words = f"Of {n:,} episodes {last:,.0f} count after the last step"
    words += f"; fewer than half from step {half} on." if half else "."
    words += " The dashed line is all of them."
    if any(row["ess"] <= 0 for row in rows):
        words += " A logarithmic axis leaves out the steps at which none counts."
    spec = chart(
        "Effective number of episodes at each step", 220,
        layer=[
            {"mark": {"type": "line", "color": COLOURS[0], "point": len(rows) < 40 and DOT},
             "encoding": {
                 "x": axis("step", "step of the episode", scale={"nice": False, "zero": False},
                           axis={"tickMinStep": 1, "format": ",d"}),
                 "y": axis("ess", "effective episodes", scale={"zero": True}),
                 "tooltip": [{"field": "step"}, {"field": "ess", "format": ".1f"}]}},
            {"data": {"values": [{"n": n}]},
             "mark": {"type": "rule", "color": MUTED, "strokeDash": [4, 3], "aria": False},
             "encoding": {"y": {"field": "n", "type": "quantitative"}}},
        ],
    )  # fmt: skip
    ways = {"linear": "linear", "log": "logarithmic"}
    return figure(k, "ess", "Effective sample size by step", words, spec, rows, axis="y", ways=ways)


def tail(k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]) -> Plain | None:
    """Draw how heavy the tail of the weights is."""
    pairs = result.get("tails", {}).get(name)
    shape = next(
        (each["k_hat"] for each in result["estimates"]
         if each["target"] == name and each["k_hat"] is not None), None,
    )  # fmt: skip
    if not pairs:
        return None
    rows = [{"weight": w, "share": share} for w, share in pairs if w >= LIGHTEST]
    if not rows:
        return None
    limit = k_hat_threshold(result["episodes"])
    words, line = "Too few different weights for k-hat.", []
    if shape is not None:
        grade = "too heavy" if shape > limit else "light" if shape <= 0.5 else "usable"
        line = steepness(rows, limit, result["episodes"])
        dashed = ", the dashed line; a tail that falls less steeply makes them void"
        words = (
            f"k-hat is {format_distinct(shape, limit)[0]}: {grade}. With so many episodes weighted "
            f"estimates can be used up to {format_distinct(shape, limit)[1]}{dashed * bool(line)}."
        )
    if len(rows) < len(pairs):
        words += f" Weights below {LIGHTEST:g} are not drawn."
    log = {"type": "log", "nice": False}
    reach = [0.7 * rows[0]["share"], 1.2 * rows[-1]["share"]]
    spec = chart(
        "Share of episodes whose weight is at least so large, both on logarithmic axes", 220,
        encoding={
            "x": axis("weight", "weight of an episode, in means", scale=log,
                       axis={"format": "~g", "values": decades(rows, "weight")}),
            "y": axis("share", "share with at least that", scale=log | {"domain": reach},
                       axis={"format": "~g", "values": decades(rows, "share")}),
            "tooltip": [{"field": "weight", "format": ".4g"}, {"field": "share", "format": ".4g"}],
        },
        layer=[
            {"mark": {"type": "line", "color": COLOURS[3],
                      "point": {"filled": True, "size": 25, "color": COLOURS[3]}}},
            {"data": {"values": line},
             "mark": {"type": "line", "color": MUTED, "strokeDash": [5, 4], "clip": True,
                      "aria": False}},
        ],
    )  # fmt: skip
    return figure(k, "tail", "Tail of the ratios", words, spec, rows)


def steepness(rows: list[Plain], shape: float, n: int) -> list[Plain]:
    """Return two points of w^(−1/k), from where the tail begins that k-hat is fitted to, if any."""
    fitted = min(0.2, 3 / math.sqrt(n))
    first = next((row for row in rows if row["share"] >= fitted), rows[-1])
    far = rows[0]["weight"]
    if shape <= 0 or far <= first["weight"]:
        return []
    falls = (far / first["weight"]) ** (-1 / shape)
    return [first, {"weight": far, "share": first["share"] * falls}]


def coverage(
    k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]
) -> Plain | None:
    """Draw, along a column of the log, how much of what the policy does the data cover."""
    support = None if verdict is None else verdict["support"]
    parts = (support or {}).get("parts")
    if support is None or not parts:
        return None
    columns = list(dict.fromkeys(each["column"] for each in parts))
    worst = min(parts, key=lambda each: (each["coverage"], -each["share"]))
    rows = [each | {"order": at} for at, each in enumerate(parts)]
    most = max(sum(each["column"] == name for each in parts) for name in columns)
    words = (
        f"{support['coverage']:.1%} of what the policy does rests on at least 10 rows. Least "
        f"covered: {worst['where']}, {worst['coverage']:.0%}."
    )
    grade = (
        "datum.coverage >= 0.95 ? 'covered' : datum.coverage >= 0.75 ? 'doubtful' : 'not covered'"
    )
    where = {"field": "where", "type": "nominal", "sort": {"field": "order", "op": "min"},
             "title": None, "axis": {"labelLimit": 200}}  # fmt: skip
    x = axis("coverage", "share covered", scale={"domain": [0, 1.25], "nice": False},
             axis={"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 1]})  # fmt: skip
    spec = chart(
        "Share of the policy's probability that rests on enough rows, by part of a column",
        22 * most, params=[{"name": "column", "value": worst["column"]}],
        transform=[{"filter": "datum.column === column"}, {"calculate": grade, "as": "grade"}],
        layer=[
            {"mark": {"type": "bar", "height": {"band": 0.7}},
             "encoding": {
                 "x": x, "y": where,
                 "color": {"field": "grade", "type": "nominal", "scale": {
                     "domain": ["covered", "doubtful", "not covered"],
                     "range": ["var(--good)", "var(--doubt)", BAD]},
                     "legend": {"title": None, "orient": "top", "columns": 2}},
                 "tooltip": [{"field": "where", "title": "part"},
                             {"field": "share", "title": "share of the policy", "format": ".1%"},
                             {"field": "coverage", "format": ".1%"},
                             {"field": "rows", "title": "rows of the log", "format": ","}]}},
            {"mark": {"type": "text", "align": "left", "dx": 4, "aria": False},
             "encoding": {"x": x, "y": where, "text": {"field": "coverage", "format": ".0%"}}},
        ],
    )  # fmt: skip
    return figure(
        k, "coverage", "Coverage", words, spec, rows, columns=columns, column=worst["column"]
    )


def spectrum(
    k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]
) -> Plain | None:
    """Draw the eigenvalues of Â, and of its resamples."""
    cloud = None if verdict is None else verdict["spectrum"]
    if cloud is None:
        return None
    per_draw = max(1, MOST // max(1, cloud["draws"]))
    rows = [{"of": "Â", "draw": 0, "re": re, "im": im} for re, im in cloud["values"]]
    rows += [
        {"of": "resample", "draw": at + 1, "re": re, "im": im}
        for at, draw in enumerate(cloud["cloud"][:MOST])
        for re, im in draw[:per_draw]
    ]
    words = (
        f"Â is {cloud['outcome']}: {cloud['stable']} of {cloud['draws']} resamples of the episodes "
        "have all eigenvalues left of the axis."
    )
    drawn = min(per_draw, len(cloud["cloud"][0]))
    if drawn < len(cloud["values"]):
        words += f" Of each resample the {drawn} with the largest real parts are drawn."
    scale = {"domain": ["Â", "resample"]}
    left, right = (edge(each["re"] for each in rows) for edge in (min, max))
    wide = max(right, 0.0) - min(left, 0.0) or 1.0
    up = max(0.05 * wide, 1.1 * max(abs(each["im"]) for each in rows))
    across = [min(left, 0.0) - 0.04 * wide, max(right, 0.0) + 0.06 * wide]
    close = max(1e-9 * wide, min((abs(each["re"]) for each in rows if each["re"]), default=wide))
    spec = chart(
        "Eigenvalues of Â and of its resamples in the complex plane", 260,
        usermeta={"constant": close},
        layer=[
            {"mark": {"type": "point", "filled": True, "opacity": 1, "strokeWidth": 1},
             "encoding": {
                 "x": axis("re", "real part", scale={"domain": across, "nice": False},
                            axis={"tickCount": 6}),
                 "y": axis("im", "imaginary part", scale={"domain": [-up, up], "nice": False},
                            axis={"tickCount": 5}),
                 "color": {"field": "of", "type": "nominal",
                           "scale": scale | {"range": [COLOURS[0], COLOURS[1]]},
                           "legend": {"title": None, "orient": "top"}},
                 "shape": {"field": "of", "type": "nominal",
                           "scale": scale | {"range": ["circle", "diamond"]},
                           "legend": {"title": None, "orient": "top"}},
                 "size": {"condition": {"test": "datum.of === 'Â'", "value": 60}, "value": 30},
                 "tooltip": [{"field": "of"}, {"field": "re", "title": "real", "format": ".4g"},
                             {"field": "im", "title": "imaginary", "format": ".4g"}]}},
            {"data": {"values": [{"zero": 0}]},
             "mark": {"type": "rule", "color": INK, "strokeWidth": 1.5, "aria": False},
             "encoding": {"x": {"field": "zero", "type": "quantitative"}}},
        ],
    )  # fmt: skip
    ways = {"linear": "linear", "symlog": "logarithmic from 0"}
    return figure(k, "spectrum", "Spectrum of Â", words, spec, rows, axis="x", ways=ways)


def path(k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]) -> Plain | None:
    """Draw the value along λ."""
    along = result["paths"].get(name, {}).get("lambda", ())
    rows = [{"λ": lam, "value": value} for lam, value in along if value is not None]
    if len(rows) < 2:
        return None
    values = [each["value"] for each in rows]
    moved = max(values) - min(values)
    words = f"From λ = {rows[0]['λ']:g} to {rows[-1]['λ']:g} the value moves by {moved:.3g}."
    refused = verdict is not None and verdict["trust"] == "refused"
    colour = MUTED if refused else COLOURS[0]
    if verdict is not None and verdict["high"] is not None and math.isfinite(verdict["high"]):
        wide = verdict["high"] - verdict["low"]
        than = "more" if moved > wide else "no more"
        words += f" That is {than} than the width of its interval, {wide:.3g}."
    flat = {} if moved else {"domain": [values[0] - 1, values[0] + 1]}
    ceiling = result["lambda_ceiling"].get(name)
    layers: list[Plain] = [
        {"mark": {"type": "line", "color": colour, "point": DOT | {"color": colour}}}
    ]
    if ceiling is not None and ceiling <= 1:
        own = verdict is not None and has_ceiling(verdict)
        whose = "The trace has" if own else "An importance trace (GES, GQ) would have"
        words += f" {whose} a bounded variance up to λ = {ceiling:.2f}, the dashed line"
        words += "." if own else f"; that of {result['rule']} has no such limit."
        layers.append(
            {"data": {"values": [{"at": ceiling}]},
             "mark": {"type": "rule", "strokeDash": [5, 4], "color": COLOURS[1], "aria": False},
             "encoding": {"x": {"field": "at", "type": "quantitative"}, "y": None}}
        )  # fmt: skip
    spec = chart(
        "Value of the closed form along λ", 220, layer=layers,
        encoding={
            "x": axis("λ", "λ", scale={"domain": [0, 1]}),
            "y": axis("value", "value", scale={"zero": False} | flat),
            "tooltip": [{"field": "λ"}, {"field": "value", "format": ".5g"}],
        },
    )  # fmt: skip
    return figure(k, "path", "Along λ", words, spec, rows)
