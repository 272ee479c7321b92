"""The charts of an evaluation: each a specification, the rows behind it, and a sentence."""

from __future__ import annotations

import math
from typing import Any

from saddleback.evaluation.weighted import threshold
from saddleback.report.theme import BAD, COLOURS, INK, MUTED, PAPER, chart
from saddleback.verdict.words import Row, trusted

Plain = dict[str, Any]

MOST = 600
"""Most eigenvalues that are drawn of Â, and of its resamples: those with the largest real parts."""

STEPS = 500
"""Most steps of which the effective sample size is drawn."""

LIGHTEST = 0.01
"""Weight, in means, from which on a weight is drawn."""

DOT = {"filled": True, "size": 30, "color": COLOURS[0]}

KINDS = {
    "suggested": COLOURS[0], "refused": MUTED, "of V^π": COLOURS[0], "other": COLOURS[5],
    "void": MUTED, "logged": COLOURS[1],
}  # fmt: skip
"""Colours of the rows of a forest plot."""


def _figure(
    k: int, kind: str, title: str, words: str, spec: Plain, rows: list[Plain], **more: Any
) -> Plain:
    return {
        "id": f"{kind}-{k}", "kind": kind, "title": title, "words": words, "spec": spec,
        "rows": rows, "file": f"{kind}-{k}.csv", "columns": (), "column": "", "axis": False, **more,
    }  # fmt: skip


def _axis(field: str, title: str, **more: Any) -> Plain:
    return {"field": field, "type": "quantitative", "title": title, **more}


def decades(rows: list[Plain], field: str) -> list[float]:
    """Powers of ten within the range of a field, for the ticks of a logarithmic axis.

    Examples
    --------
    >>> decades([{"x": 0.02}, {"x": 150.0}], "x")
    [0.1, 1.0, 10.0, 100.0]
    """
    found = [each[field] for each in rows]
    low, high = (math.log10(edge) for edge in (min(found), max(found)))
    between = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    return [10.0**k for k in between]


def forest(
    k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]
) -> Plain | None:
    """Draw all estimates below each other, with the logged policy as reference."""
    mine = [each for each in result["estimates"] if each["target"] == name]
    refused = verdict is not None and verdict["trust"] == "refused"
    first = "refused" if refused else "suggested"
    given: list[tuple[str, Plain]] = []
    if result.get("logged") is not None:
        given.append(("logged", result["logged"] | {"method": "logged policy"}))
    for j, each in enumerate(mine):
        void = each["ess"] is not None and not trusted(each, result)
        given.append((first if j == 0 and verdict else "void" if void else "other", each))
    rows = [
        {"method": each["method"], "kind": kind, "value": each["value"], "low": each["low"],
         "high": each["high"], "estimand": each["estimand"], "ess": each.get("ess"),
         "k_hat": each.get("k_hat"), "label": f"{method}  {value} {reach}  {what}".rstrip()}
        for (kind, each), (method, value, reach, what) in zip(given, told, strict=True)
    ]  # fmt: skip
    if verdict is not None and not refused:
        low, high = verdict["wide"]
        wide = {"method": "V^π, with the gap", "kind": "of V^π", "value": verdict["value"],
                "low": low, "high": high, "estimand": "V^π", "ess": None, "k_hat": None,
                "label": "V^π, as far as the gap holds"}  # fmt: skip
        rows.insert(1 + bool(given and given[0][0] == "logged"), wide)
    rows = [each | {"place": at} for at, each in enumerate(rows) if each["value"] is not None]
    if not rows:
        return None
    ends = [
        each[part] for each in rows if each["kind"] != "void" for part in ("value", "low", "high")
    ]
    known = [each for each in ends if each is not None] or [rows[0]["value"]]
    pad = 0.08 * (max(known) - min(known)) or 0.1 * abs(known[0]) or 1.0
    words = "Intervals are of 95 %."
    if result.get("logged") is not None:
        words += " The dashed line is what the logged policy returned."
    if any(each["kind"] == "void" for each in rows):
        words += (
            " Hollow: void, since a few episodes carry the weight; drawn as far as there is room."
        )
    if refused:
        words = (
            "The answer is refused: these numbers are shown in grey, and none is to be used. "
            + words
        )
    return _figure(
        k,
        "forest",
        "All estimates",
        words,
        _forest(min(known) - pad, max(known) + pad, len(rows)),
        rows,
    )


def _forest(low: float, high: float, count: int) -> Plain:
    scale = {"domain": [low, high], "nice": False, "zero": False}
    x = {"x": _axis("value", "value of the policy", scale=scale, axis={"tickCount": 10})}
    y = {"y": {"field": "place", "type": "ordinal", "axis": None}}
    by_kind = {"field": "kind", "type": "nominal", "legend": None,
               "scale": {"domain": list(KINDS), "range": list(KINDS.values())}}  # fmt: skip
    colour = {"color": by_kind}
    hollow = {"condition": {"test": "datum.kind === 'void'", "value": "var(--paper)"}}
    numbers = [{"field": part, "format": ".5g"} for part in ("value", "low", "high")]
    tooltip = {"tooltip": [{"field": "method"}, {"field": "estimand", "title": "of"}, *numbers]}
    dash = {"strokeDash": {"condition": {"test": "datum.kind === 'void'", "value": [4, 3]},
                           "value": [1, 0]}}  # fmt: skip
    return chart(
        "Forest plot: a value and an interval for each estimate", 46 * count,
        view={"stroke": None},
        layer=[
            {"transform": [{"filter": "datum.kind === 'logged'"}],
             "mark": {"type": "rule", "strokeDash": [5, 4], "color": COLOURS[1], "aria": False},
             "encoding": x},
            {"mark": {"type": "rule", "strokeWidth": 3, "clip": True, "aria": False,
                      "yOffset": 8},
             "encoding": y | colour | dash | {
                 "x": _axis("low", "value of the policy", scale=scale), "x2": {"field": "high"}}},
            {"mark": {"type": "point", "size": 90, "strokeWidth": 2, "clip": True, "opacity": 1,
                      "yOffset": 8},
             "encoding": x | y | colour | tooltip | {"fill": hollow | by_kind}},
            *({"mark": {"type": "text", "align": "left", "yOffset": -9, "aria": False,
                        "limit": {"expr": "width"}} | halo,
               "encoding": y | {"x": {"value": 2}, "text": {"field": "label"}}}
              for halo in ({"stroke": PAPER, "strokeWidth": 5, "strokeJoin": "round"}, {})),
        ],
    )  # fmt: skip


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
    spec = chart(
        "Effective number of episodes at each step", 220,
        layer=[
            {"mark": {"type": "line", "color": COLOURS[0], "point": len(rows) < 40 and DOT},
             "encoding": {
                 "x": _axis("step", "step of the episode", scale={"nice": False, "zero": False}),
                 "y": _axis("ess", "effective episodes", scale={"zero": True}),
                 "tooltip": [{"field": "step"}, {"field": "ess", "format": ".1f"}]}},
            {"data": {"values": [{"n": n}]},
             "mark": {"type": "rule", "color": MUTED, "strokeDash": [4, 3], "aria": False},
             "encoding": {"y": {"field": "n", "type": "quantitative"}}},
        ],
    )  # fmt: skip
    return _figure(k, "ess", "Effective sample size by step", words, spec, rows, axis=True)


def tail(k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]) -> Plain | None:
    """Draw how heavy the tail of the weights is."""
    pairs = result.get("tails", {}).get(name)
    shape = next(
        (each["k_hat"] for each in result["estimates"]
         if each["target"] == name and each["k_hat"] is not None), None,
    )  # fmt: skip
    if not pairs:
        return None
    limit = threshold(result["episodes"])
    words = "Too few different weights for k-hat."
    if shape is not None:
        grade = "light" if shape <= 0.5 else "usable" if shape <= limit else "too heavy"
        words = (
            f"k-hat is {shape:.2f}: {grade}. Up to 0.5 weights have a variance, up to {limit:.2f} "
            "weighted estimates can be used, beyond it they are void."
        )
    rows = [{"weight": w, "share": share} for w, share in pairs if w >= LIGHTEST]
    log = {"type": "log", "nice": False}
    spec = chart(
        "Share of episodes whose weight is at least so large, both on logarithmic axes", 220,
        mark={"type": "line", "color": COLOURS[3], "point": {"filled": True, "size": 25,
                                                            "color": COLOURS[3]}},
        encoding={
            "x": _axis("weight", "weight of an episode, in means", scale=log,
                       axis={"format": "~g", "values": decades(rows, "weight")}),
            "y": _axis("share", "share with at least that", scale=log,
                       axis={"format": "~g", "values": decades(rows, "share")}),
            "tooltip": [{"field": "weight", "format": ".4g"}, {"field": "share", "format": ".4g"}],
        },
    )  # fmt: skip
    return _figure(k, "tail", "Tail of the ratios", words, spec, rows)


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
        f"{support['coverage']:.1%} of what the policy does rests on at least 10 rows. Weakest: "
        f"{verdict['weakest']}."  # type: ignore[index]
    )
    grade = (
        "datum.coverage >= 0.95 ? 'covered' : datum.coverage >= 0.75 ? 'doubtful' : 'not covered'"
    )
    where = {"field": "where", "type": "nominal", "sort": {"field": "order"}, "title": None,
             "axis": {"labelLimit": 150}}  # fmt: skip
    spec = chart(
        "Share of the policy's probability that rests on enough rows, by part of a column",
        22 * most, params=[{"name": "column", "value": worst["column"]}],
        transform=[{"filter": "datum.column === column"}, {"calculate": grade, "as": "grade"}],
        layer=[
            {"mark": {"type": "bar", "height": {"band": 0.7}},
             "encoding": {
                 "x": _axis("coverage", "share covered", scale={"domain": [0, 1]},
                            axis={"format": ".0%", "tickCount": 5}),
                 "y": where,
                 "color": {"field": "grade", "type": "nominal", "scale": {
                     "domain": ["covered", "doubtful", "not covered"],
                     "range": ["var(--good)", "var(--doubt)", BAD]},
                     "legend": {"title": None, "orient": "top", "columns": 2}},
                 "tooltip": [{"field": "where", "title": "part"},
                             {"field": "share", "title": "share of the policy", "format": ".1%"},
                             {"field": "coverage", "format": ".1%"},
                             {"field": "rows", "title": "rows of the log", "format": ","}]}},
        ],
    )  # fmt: skip
    return _figure(
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
    rows = [
        {"of": "resample", "draw": at + 1, "re": re, "im": im}
        for at, draw in enumerate(cloud["cloud"][:MOST])
        for re, im in draw[:per_draw]
    ]
    rows += [{"of": "Â", "draw": 0, "re": re, "im": im} for re, im in cloud["values"][:MOST]]
    words = (
        f"Â is {cloud['word']}: {cloud['stable']} of {cloud['draws']} resamples of the episodes "
        "have all eigenvalues left of the axis."
    )
    if len(cloud["values"]) > MOST or per_draw < len(cloud["cloud"][0]):
        words += " Of many eigenvalues those with the largest real parts are drawn."
    scale = {"domain": ["Â", "resample"]}
    left, right = (edge(each["re"] for each in rows) for edge in (min, max))
    wide = max(right, 0.0) - min(left, 0.0) or 1.0
    up = max(0.05 * wide, 1.1 * max(abs(each["im"]) for each in rows))
    across = [min(left, 0.0) - 0.04 * wide, max(right, 0.0) + 0.06 * wide]
    spec = chart(
        "Eigenvalues of Â and of its resamples in the complex plane", 260,
        layer=[
            {"mark": {"type": "point", "filled": True, "opacity": 1, "strokeWidth": 1},
             "encoding": {
                 "x": _axis("re", "real part", scale={"domain": across, "nice": False},
                            axis={"tickCount": 6}),
                 "y": _axis("im", "imaginary part", scale={"domain": [-up, up], "nice": False},
                            axis={"tickCount": 5}),
                 "color": {"field": "of", "type": "nominal",
                           "scale": scale | {"range": [COLOURS[0], COLOURS[1]]},
                           "legend": {"title": None, "orient": "top"}},
                 "shape": {"field": "of", "type": "nominal",
                           "scale": scale | {"range": ["circle", "diamond"]},
                           "legend": {"title": None, "orient": "top"}},
                 "size": {"condition": {"test": "datum.of === 'Â'", "value": 50}, "value": 18},
                 "tooltip": [{"field": "of"}, {"field": "re", "title": "real", "format": ".4g"},
                             {"field": "im", "title": "imaginary", "format": ".4g"}]}},
            {"data": {"values": [{"zero": 0}]},
             "mark": {"type": "rule", "color": INK, "strokeWidth": 1.5, "aria": False},
             "encoding": {"x": {"field": "zero", "type": "quantitative"}}},
        ],
    )  # fmt: skip
    return _figure(k, "spectrum", "Spectrum of Â", words, spec, rows)


def path(k: int, name: str, result: Plain, verdict: Plain | None, told: list[Row]) -> Plain | None:
    """Draw the value along λ."""
    along = result["paths"].get(name, {}).get("lambda")
    if not along:
        return None
    rows = [{"λ": lam, "value": value} for lam, value in along if value is not None]
    values = [each["value"] for each in rows]
    moved = max(values) - min(values)
    words = f"Over λ the value moves by {moved:.3g}."
    if verdict is not None and verdict["high"] is not None and math.isfinite(verdict["high"]):
        wide = verdict["high"] - verdict["low"]
        than = "less" if moved < wide else "more"
        words += f" That is {than} than the width of its interval, {wide:.3g}."
    ceiling = result["lambda_ceiling"].get(name)
    layers: list[Plain] = [{"mark": {"type": "line", "color": COLOURS[0], "point": DOT}}]
    if ceiling is not None and ceiling <= 1:
        words += f" The trace has a bounded variance up to λ = {ceiling:.2f}, the dashed line."
        layers.append(
            {"data": {"values": [{"at": ceiling}]},
             "mark": {"type": "rule", "strokeDash": [5, 4], "color": COLOURS[1], "aria": False},
             "encoding": {"x": {"field": "at", "type": "quantitative"}, "y": None}}
        )  # fmt: skip
    spec = chart(
        "Value of the closed form along λ", 220, layer=layers,
        encoding={
            "x": _axis("λ", "λ", scale={"domain": [0, 1]}),
            "y": _axis("value", "value", scale={"zero": False}),
            "tooltip": [{"field": "λ"}, {"field": "value", "format": ".5g"}],
        },
    )  # fmt: skip
    return _figure(k, "path", "Along λ", words, spec, rows)
