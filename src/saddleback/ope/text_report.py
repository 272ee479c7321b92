"""A result as text, rendered from its saved data, with the answer first.

The terminal, ``saddleback explain``, notebooks and HTML reports all render the same data, so that
they agree.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from saddleback._display import visible
from saddleback.ope.gates import DOUBTFUL, REFUSED, UNKNOWN, USABLE
from saddleback.ope.number_format import (
    bracket,
    decimals,
    distinct,
    number,
    short,
    span,
    with_minus,
)
from saddleback.ope.spectrum import MIN_SOLVED_DRAWS
from saddleback.ope.weight_diagnostics import reliable_weights
from saddleback.ope.windowed_ratios import share_of_change

WIDTH = 79
MARKS = {USABLE: "ok", DOUBTFUL: "doubt", REFUSED: "NO", UNKNOWN: "-"}
ESTIMANDS = {
    "TD fixed point of these features": "TD fixed point", "finite-horizon value": "H-step",
}  # fmt: skip
"""Short forms of estimands in a table."""
USED, NOT_USED = "the answer", "REFUSED, do not use"

BETTER, WORSE, INCONCLUSIVE, NO_VERDICT = "better", "worse", "inconclusive", "unjudged"
"""Outcomes of an answer, besides doubtful and refused."""


class Line(NamedTuple):
    """A line of text, and the outcome that determines its colour, if any."""

    text: str
    outcome: str = ""


class Answer(NamedTuple):
    """The answer to whether a target is better: an outcome and one sentence."""

    outcome: str
    text: str


def answer(verdict: dict[str, Any] | None) -> Answer:
    """Return the answer for a verdict.

    A doubtful estimate is inconclusive whatever its interval, since the reason for the doubt may
    reverse the conclusion.
    """
    if verdict is None:
        return Answer(NO_VERDICT, "No verdict: the reliability of the estimate is unknown.")
    trust, improvement = verdict["trust"], verdict["improvement"]
    if trust == REFUSED:
        return Answer(REFUSED, f"No answer, the estimate is refused: {verdict['reason']}.")
    if improvement is None:
        outcome, text = INCONCLUSIVE, "no baseline is available"
    else:
        outcome = {"undecided": INCONCLUSIVE}.get(improvement["outcome"], improvement["outcome"])
        places = decimals(improvement)
        reach = span(improvement["low"], improvement["high"], places, sign=True)
        costs = "; lower is better" if improvement["lower_is_better"] else ""
        text = f"difference {number(improvement['difference'], places, sign=True)} "
        text += f"(95% CI {reach}{costs})"
    if trust == DOUBTFUL:
        return Answer(
            DOUBTFUL, f"Inconclusive: {text}, but the estimate is doubtful: {verdict['reason']}."
        )
    return Answer(outcome, f"{outcome.capitalize()}: {text}; the estimate is reliable.")


def value_line(verdict: dict[str, Any]) -> str:
    """Return the value of a target as a sentence; empty if it is refused."""
    if verdict["trust"] == REFUSED:
        return ""
    places = decimals(verdict)
    low, high = verdict["interval_with_gap"]
    bias = f", including an estimated bias of {short(verdict['gap'])}" if verdict["gap"] else ""
    return f"{number(verdict['value'], places)} (95% CI {span(low, high, places)}{bias})."


def baseline_line(plain: dict[str, Any]) -> str:
    """Return the value of the logged policy as a sentence; empty if it is unknown."""
    logged = plain.get("logged")
    if logged is None:
        return ""
    places = decimals(logged)
    how = "" if logged["estimand"] == "V^μ" else ", bootstrapped at truncation"
    reach = span(logged["low"], logged["high"], places)
    return f"{number(logged['value'], places)} (95% CI {reach}{how})."


def least_data(verdict: dict[str, Any]) -> str:
    """Return the region with the least data for the target's decisions."""
    return with_minus(verdict["weakest"]) + "."


def altered_line(plain: dict[str, Any]) -> str:
    """Return what was dropped, cut or clipped; empty if nothing was."""
    lines = plain.get("altered", ())
    return "; ".join(lines) + "." if lines else ""


def failed_checks(verdict: dict[str, Any]) -> list[tuple[str, str]]:
    """Return code and sentence of each failed check, refusals first."""
    order = (REFUSED, DOUBTFUL)
    failed = [gate for gate in verdict["gates"] if gate["level"] in order]
    return [
        (gate["code"], gate["sentence"] + ".")
        for gate in sorted(failed, key=lambda gate: order.index(gate["level"]))
    ]


def joined(lines: Iterable[Line]) -> str:
    """Return lines as text; names cannot add lines of their own."""
    return "\n".join(visible(line.text, keep="") for line in lines)


def format_result(plain: dict[str, Any], width: int = WIDTH) -> str:
    """Return a result as text: answers, values, warnings, then tables."""
    return joined(result_lines(plain, width))


def result_lines(plain: dict[str, Any], width: int = WIDTH) -> list[Line]:
    """Return a result as lines; lines of an answer carry its outcome."""
    verdicts = {verdict["target"]: verdict for verdict in plain["verdicts"]}
    targets = list(dict.fromkeys(estimate["target"] for estimate in plain["estimates"]))
    several = len(targets) > 1
    lines: list[Line] = []

    def add(head: str, text: str, indent: str = "  ", outcome: str = "") -> None:
        lines.extend(Line(row, outcome) for row in wrap(head, text, indent, width))

    for target in targets:
        outcome, text = answer(verdicts.get(target))
        add(f"{target}: " if several else "", text, outcome=outcome)
    lines.append(Line(""))
    for target in targets:
        value = value_line(verdicts[target]) if target in verdicts else ""
        if value:
            add(f"Value of {target}: ", value)
    if baseline_line(plain):
        add("Logged policy: ", baseline_line(plain))
    for target, verdict in verdicts.items():
        add(f"Least data{f' for {target}' * several}: ", least_data(verdict))
    if altered_line(plain):
        add("Not used as logged: ", altered_line(plain))
    warnings = [
        (f"  {f'{target}: ' * several}{code} ", text)
        for target, verdict in verdicts.items()
        for code, text in failed_checks(verdict)
    ]
    warnings += [("  ", warning) for warning in plain["warnings"]]
    if warnings:
        lines += [Line(""), Line("Warnings")]
        for head, text in warnings:
            add(head, text, "    ")
    for target in targets:
        lines += [Line(""), *map(Line, _table(plain, target, verdicts.get(target), width))]
        lines += map(Line, _paths(plain, target, width))
        if target in verdicts:
            lines += map(Line, _diagnostics(plain, verdicts[target], width))
    return [*lines, Line(""), *map(Line, _footer(plain, width))]


def format_result_verbose(plain: dict[str, Any], width: int = WIDTH) -> str:
    """Return a result as text, with the value and thresholds of every check."""
    return joined(verbose_lines(plain, width))


def verbose_lines(plain: dict[str, Any], width: int = WIDTH) -> list[Line]:
    """Return a result as lines, with the value and thresholds of every check."""
    lines = result_lines(plain, width)
    several = len(plain["verdicts"]) > 1
    for verdict in plain["verdicts"]:
        of = f" of {verdict['target']}" if several else ""
        lines += [Line(""), *map(Line, wrap("Checks", of, "  ", width))]
        for gate in verdict["gates"]:
            head = f"  {MARKS[gate['level']]:5} {gate['code']:12} "
            text = gate["sentence"] + _thresholds(gate)
            lines += map(Line, wrap(head, text, " " * len(head), width))
        lines += [Line(""), *map(Line, _details(plain, verdict, width))]
    return lines


def _details(plain: dict[str, Any], verdict: dict[str, Any], width: int) -> Iterator[str]:
    """Yield details: the parts of the bias, the weights, the features."""
    parts = [
        f"{name} {short(part)}" for name, part in verdict["gap_parts"].items() if part is not None
    ]
    text = ", ".join(parts).replace("_", "-")
    yield from wrap("  estimated bias, the largest of: ", text, "    ", width)
    weighted = [e for e in plain["estimates"] if e["ess"] is not None]
    for estimate in [e for e in weighted if e["target"] == verdict["target"]][:1]:
        share = estimate["max_share"]
        largest = "none" if share is None else f"{share:.0%}"
        text = f"ESS {estimate['ess']:,.1f} of {plain['episodes']:,}, largest weight {largest}, "
        text += f"k̂ {short(estimate['k_hat'])}"
        yield from wrap(f"  {units(plain)[:-1]} weights: ", text, "    ", width)
    steps = plain.get("ess_by_step", {}).get(verdict["target"], [])
    if steps:
        at = sorted({0, len(steps) // 4, len(steps) // 2, len(steps) - 1})
        text = ", ".join(f"{steps[k]:,.0f} at step {k + 1}" for k in at)
        yield from wrap("  ESS by step: ", text, "    ", width)
    if verdict.get("consensus") is not None:
        yield from _candidate_table(verdict["consensus"], width)
    if plain.get("bandit"):
        return
    text = f"rank {verdict['rank']:,} of {plain['p']:,}, "
    text += f"condition number {short(verdict['condition'])}"
    yield from wrap("  features: ", text, "    ", width)


def _candidate_table(consensus: dict[str, Any], width: int) -> Iterator[str]:
    """Yield the weight of each basis, and the values of its candidates."""
    yield from wrap("  candidate features: ", "weight, and values over their ridges", "    ", width)
    for (view, basis), weight in weights_by_basis(consensus).items():
        values = [
            candidate["value"]
            for candidate in consensus["candidates"]
            if (candidate["view"], candidate["basis"]) == (view, basis)
            and candidate["value"] is not None
        ]
        if values:
            seen = f" and the {view}" if view in OTHER_VIEWS else ""
            share = "  –" if view in OTHER_VIEWS else f"{weight:3.0%}"
            reach = f"{short(min(values))} to {short(max(values))}"
            yield from wrap(f"    {share}  ", f"{basis}{seen}: {reach}", " " * 10, width)


Row = tuple[str, str, str, str]
"""An estimate as text: method, value, interval, and estimand with notes."""


def rows(
    plain: dict[str, Any], target: str, verdict: dict[str, Any] | None
) -> tuple[list[Row], dict[str, list[str]]]:
    """Return the logged policy and the estimates of a target as rows, and notes by method."""
    estimates = [e for e in plain["estimates"] if e["target"] == target]
    logged = plain.get("logged")
    places = distinct([*([] if logged is None else [logged]), *estimates])
    table: list[Row] = []
    if logged is not None:
        digits, places = places[0], places[1:]
        note = "bootstrapped at truncation"
        if logged["estimand"] == "V^μ":
            note = "observed"
            if logged["estimate"] is not None:
                note += f"; our estimator gives {number(logged['estimate'], digits)}"
        table.append(
            ("logged policy", number(logged["value"], digits), bracket(logged, digits), note)
        )
    notes: dict[str, list[str]] = {}
    for k, (estimate, digits) in enumerate(zip(estimates, places, strict=True)):
        remarks = []
        if estimate["low"] is not None:
            estimand = estimate["estimand"]
            estimand = estimand.partition(" (")[0]
            remarks.append(ESTIMANDS.get(estimand, estimand))
        if estimate["ess"] is not None:
            remarks.append(f"ESS {estimate['ess']:,.0f}")
            remarks += [] if trusted(estimate, plain) else ["unreliable"]
        if k == 0 and verdict is not None:
            remarks.append(NOT_USED if verdict["trust"] == REFUSED else USED)
        value, reach = number(estimate["value"], digits), bracket(estimate, digits)
        table.append((estimate["method"], value, reach, "; ".join(remarks)))
        if estimate["note"] != "ok":
            notes.setdefault(estimate["note"], []).append(estimate["method"])
    return table, notes


MIN_NOTES_WIDTH = 20
"""Smallest width of the column of notes."""

HEADINGS = ("estimator", "value", "95% CI", "estimand and notes")


def _table(
    plain: dict[str, Any], target: str, verdict: dict[str, Any] | None, width: int
) -> Iterator[str]:
    """Yield one line per estimate."""
    table, notes = rows(plain, target, verdict)
    table = [(target, *HEADINGS[1:]), *table]
    widths = [max(len(row[k]) for row in table[1:]) for k in range(3)]
    widths = [max(w, len(h)) for w, h in zip(widths, ("", *HEADINGS[1:3]), strict=True)]
    first = table[0][0] if len(table[0][0]) <= widths[0] + 2 else ""
    if not first:
        yield from wrap("", target, "  ", width)
    start = sum(widths) + 8
    for k, row in enumerate(table):
        name = f"  {row[0]}" if k else first
        cells = f"{name:<{widths[0] + 2}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}"
        if width - start >= MIN_NOTES_WIDTH:
            yield from wrap("", f"{cells}  {row[3]}".rstrip(), " " * start, width)
        elif k == 0 or len(cells.rstrip()) <= width:  # no room for a column: notes go below
            yield from wrap("", cells.rstrip(), " " * 8, width) if first or k else ()
            yield from wrap(" " * 8, row[3], " " * 8, width) if k and row[3] else ()
        else:
            yield from wrap("  ", row[0], " " * 4, width)
            below = "; ".join(filter(None, (f"{row[1]} {row[2]}".strip(), row[3])))
            yield from wrap(" " * 8, below, " " * 8, width)
    for note, methods in notes.items():
        yield from wrap(f"  {', '.join(methods)}: ", note, "    ", width)


def _diagnostics(plain: dict[str, Any], verdict: dict[str, Any], width: int) -> Iterator[str]:
    """Yield the main diagnostics and the policy as evaluated."""
    cloud, ceiling = verdict["spectrum"], plain["lambda_ceiling"].get(verdict["target"])
    whose = "" if has_ceiling(verdict) else " of GES"
    parts = [f"λ ceiling{whose} {ceiling:.2g}"] if ceiling else []
    consensus, mean = verdict.get("consensus"), verdict["evidence"].get("mean_weight")
    if mean is not None:
        parts.append(f"mean weight {mean:.3f}")
    elif consensus is None:
        parts.append(f"coverage {verdict['evidence']['coverage']:.1%}")
    else:
        parts.append(f"out of balance by {short(consensus['imbalance'])}")
    parts.append(f"estimated bias {short(verdict['gap'])}")
    if cloud is not None:
        parts.append(f"Â {cloud['outcome']} ({cloud['stable']}/{cloud['draws']} resamples)")
    yield from wrap("  ", " | ".join(parts), "    ", width)
    if cloud is not None and cloud["draws"] >= MIN_SOLVED_DRAWS:
        low, high = cloud["bootstrap"]
        reach = span(low, high, decimals(verdict))
        text = f"bootstrap 95% CI {reach} of the fixed point, {cloud['draws']} block resamples"
        yield from wrap("  ", text, "    ", width)
    if verdict.get("consensus") is not None:
        yield from wrap("  candidates: ", _consensus(verdict["consensus"]), "    ", width)
    yield from wrap("  policy as evaluated: ", describe_policy(verdict["policy"]), "    ", width)


def weights_by_basis(consensus: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return the weights of all bases as primals, by view and name, largest first.

    Those without a residual are only duals.
    """
    weights: dict[tuple[str, str], float] = {}
    for candidate in consensus["candidates"]:
        if candidate["residual"] is None:
            continue
        key = candidate["view"], candidate["basis"]
        weights[key] = weights.get(key, 0.0) + (candidate["primal"] or 0.0)
    return dict(sorted(weights.items(), key=lambda item: (item[0][0] in OTHER_VIEWS, -item[1])))


OTHER_VIEWS = ("step", "history")
"""Views whose candidates do not count."""


def _consensus(consensus: dict[str, Any]) -> str:
    """Return the bases with most weight, and the estimates of features that see more."""
    most = [
        f"{basis} {weight:.0%}"
        for (view, basis), weight in weights_by_basis(consensus).items()
        if view not in OTHER_VIEWS and weight >= 0.05
    ][:4]
    text = f"{len(consensus['candidates'])}, most weight on {', '.join(most)}"
    text += f"; they differ by {short(consensus['dispersion'])} (SD)"
    seen = [
        f"with the {view} {short(value)}"
        for view, value in consensus["opinions"].items()
        if view in OTHER_VIEWS
    ]
    return " ".join(["; ".join([text, *seen]) + ".", *windowed_change(consensus)])


def windowed_change(consensus: dict[str, Any]) -> list[str]:
    """Return a sentence about what windowed ratios changed, if they did."""
    change, error = consensus.get("windowed") or (None, None)
    if not consensus.get("is_windowed") or change is None or error is None:
        return []
    places = decimals({"low": change - error, "high": change + error})
    text = f"would change the estimate by {number(change, places, sign=True)} "
    text += f"(standard error {short(error)}); {share_of_change(change, error):.0%} of that is "
    return [f"Windowed ratios, of the logged propensities, {text}included."]


def has_ceiling(verdict: dict[str, Any]) -> bool:
    """Whether the λ ceiling applies to the rule itself, not only to other rules."""
    return any(gate["code"] == "CEILING" and gate["value"] is not None for gate in verdict["gates"])


def describe_policy(policy: dict[str, Any]) -> str:
    """Describe the policy as evaluated, in one line.

    Examples
    --------
    >>> describe_policy({"mass": {"none": 0.25, "low": 0.75}, "greedy": 1.0, "entropy": 0.0})
    'low 75%, none 25%; deterministic'
    """
    if policy.get("description"):
        return str(policy["description"])
    most = sorted(policy["mass"].items(), key=lambda item: -item[1])[:6]
    shares = ", ".join(f"{name} {share:.0%}" for name, share in most)
    shares += ", …" * (len(policy["mass"]) > 6)
    if policy["entropy"] < 0.005:
        return f"{shares}; deterministic"
    return f"{shares}; stochastic (entropy {policy['entropy']:.0%} of uniform)"


def _paths(plain: dict[str, Any], target: str, width: int) -> Iterator[str]:
    for kind, points in plain["paths"].get(target, {}).items():
        line = "   ".join(f"{at:g}: {number(value, None)}" for at, value in points)
        yield from wrap(f"  value by {'λ' if kind == 'lambda' else kind}   ", line, "    ", width)


def units(plain: dict[str, Any]) -> str:
    """Return what the data consist of: episodes, or decisions."""
    return "decisions" if plain.get("bandit") else "episodes"


def _footer(plain: dict[str, Any], width: int) -> Iterator[str]:
    yield from _decisions(plain, width) if plain.get("bandit") else _episodes(plain, width)
    if plain["propensities"] != "logged":
        yield from wrap("", f"propensities were {plain['propensities']}", "  ", width)
    names = plain["actions"]
    numbered = names == [str(k) for k in range(len(names))] or len(names) == 1
    shown = [name if numbered else f"{k} = {name!r}" for k, name in enumerate(names[:12])]
    yield from wrap("actions: ", ", ".join([*shown, *["…"] * (len(names) > 12)]), "  ", width)


def _decisions(plain: dict[str, Any], width: int) -> Iterator[str]:
    """Yield the number of decisions, and what they depend on."""
    columns = plain.get("observations", [])
    context = ", ".join([*columns[:8], *["…"] * (len(columns) > 8)])
    text = f"{plain['episodes']:,} decisions; context: {context}; features of the direct model: "
    yield from wrap("", text + shortened(plain["features"]), "  ", width)


def _episodes(plain: dict[str, Any], width: int) -> Iterator[str]:
    """Yield the size of the log, and the features of the closed form."""
    text = f"{plain['steps']:,} steps, {plain['episodes']:,} episodes, γ = {plain['gamma']:g}, "
    yield from wrap("", f"{text}closed form with p = {plain['p']}:", "  ", width)
    yield from wrap("  ", shortened(plain["features"]), "  ", width)


def shortened(text: str) -> str:
    """Return features as text without scaling, with numbers cut to at most three decimals.

    Examples
    --------
    >>> shortened("RandomFourier(scaling=Scaling(centre=(1.5,), scale=(2.0,)), bandwidth=0.12345)")
    'RandomFourier(bandwidth=0.123)'
    >>> shortened("Monomials(degree=2, scaling=JointScaling(states=Scaling(((1.0,),)), actions=2))")
    'Monomials(degree=2)'
    """
    while match := re.search(r"(, )?scaling=\w+\(", text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        rest = text[end:]
        text = text[: match.start()] + (rest if match[1] else rest.removeprefix(", "))
    return re.sub(r"(\d\.\d{3})\d+", r"\1", text)


def trusted(estimate: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether the weights behind an estimate give a reliable one."""
    k_hat, ess = estimate["k_hat"], estimate["ess"]
    return k_hat is not None and reliable_weights(k_hat, ess, plain["episodes"])


def limits(gate: dict[str, Any]) -> str:
    """Return the thresholds of a check as text."""
    both = [("doubtful", gate["doubtful"]), ("refused", gate["refused"])]
    both = both[1:] if gate["doubtful"] == gate["refused"] else both
    side = "below" if gate["good"] == "large" else "above"
    return ", ".join(f"{level} {side} {limit:g}" for level, limit in both if limit is not None)


def gate_value(value: float | None) -> str:
    """Format the value of a check; empty if it was not applicable.

    Examples
    --------
    >>> gate_value(2000.0), gate_value(0.01234)
    ('2,000', '0.0123')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _thresholds(gate: dict[str, Any]) -> str:
    return "." if gate["value"] is None else f". [{gate_value(gate['value'])}; {limits(gate)}]"


def wrap(head: str, text: str, indent: str = "  ", width: int = WIDTH) -> list[str]:
    """Break a text into lines of at most ``width`` columns."""
    return textwrap.wrap(
        head + text, width, subsequent_indent=indent, break_on_hyphens=False
    ) or [head]  # fmt: skip
