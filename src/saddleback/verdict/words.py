"""A result in words, within 80 columns, from the plain data that it is saved as.

The terminal, ``saddleback explain`` and a report all tell what is in those data, so that they
cannot differ.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from saddleback.evaluation.weighted import threshold
from saddleback.verdict.gates import DOUBTFUL, REFUSED, UNKNOWN, USABLE
from saddleback.verdict.spectrum import MANY

WIDTH = 79
MARKS = {USABLE: "ok", DOUBTFUL: "doubt", REFUSED: "NO", UNKNOWN: "-"}
SHORT = {"TD fixed point of these features": "TD fixed point"}


def told(plain: dict[str, Any]) -> str:
    """Return a result as it is told on the terminal."""
    lines = [f"value of the target policy (γ {plain['gamma']:g}, start states of the log)"]
    verdicts = {each["target"]: each for each in plain["verdicts"]}
    for target in dict.fromkeys(each["target"] for each in plain["estimates"]):
        lines += ["", *_table(plain, target, verdicts.get(target))]
        lines += _paths(plain, target)
        if target in verdicts:
            lines += _looks(plain, verdicts[target])
            lines += ["", *statements(verdicts[target])]
    lines += ["", *_footer(plain)]
    return "\n".join(lines)


def explained(plain: dict[str, Any]) -> str:
    """Return a result with every gate, its number and its thresholds."""
    lines = [told(plain)]
    for verdict in plain["verdicts"]:
        lines += ["", *_wrap("", f"what was looked at for {verdict['target']}:")]
        for gate in verdict["gates"]:
            head = f"  {MARKS[gate['level']]:5} {gate['code']:12} "
            lines += _wrap(head, gate["sentence"] + _thresholds(gate), " " * len(head))
        lines += ["", *_behind(plain, verdict)]
    return "\n".join(lines)


def _behind(plain: dict[str, Any], verdict: dict[str, Any]) -> Iterator[str]:
    """More numbers: the parts of the gap, the weights, the features."""
    parts = [f"{name} {_short(each)}" for name, each in verdict["gap_parts"].items()]
    yield from _wrap("  gap, the largest of: ", ", ".join(parts).replace("_", "-"), "    ")
    weights = [each for each in plain["estimates"] if each["ess"] is not None]
    for each in [one for one in weights if one["target"] == verdict["target"]][:1]:
        largest = "none" if each["max_share"] is None else f"{each['max_share']:.0%}"
        said = f"ESS {each['ess']:,.1f} of {plain['episodes']:,}, largest share {largest}"
        yield from _wrap("  weights of episodes: ", f"{said}, k-hat {_short(each['k_hat'])}")
    steps = plain.get("ess_by_step", {}).get(verdict["target"], [])
    if steps:
        at = sorted({0, len(steps) // 4, len(steps) // 2, len(steps) - 1})
        line = ", ".join(f"{steps[k]:,.0f} after {k + 1}" for k in at)
        yield from _wrap("  ESS by step: ", line, "    ")
    rank = f"rank {verdict['rank']:,} of {plain['p']:,}, condition {_short(verdict['condition'])}"
    yield from _wrap("  features: ", f"{rank} on what was met")


def statements(verdict: dict[str, Any]) -> list[str]:
    """The verdict: trust, improvement, and the weakest point, in lines."""
    return [line for head, text, indent in sentences(verdict) for line in _wrap(head, text, indent)]


def sentences(verdict: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The verdict as (head, text, indent of further lines), trust and improvement first."""
    trust, places = verdict["trust"], _places(verdict)
    value, low, high = (_number(each, places) for each in (verdict["value"], *verdict["wide"]))
    bad = [each for each in verdict["gates"] if each["level"] in (DOUBTFUL, REFUSED)]
    said = f"{trust.upper()}. "
    if trust == REFUSED:
        said += "No value is given, for the reasons below."
    else:
        said += (
            f"The value is {value}; V^π is in [{low}, {high}], 95 % sure as far as the gap of "
            f"{_short(verdict['gap'])} holds."
        )
    found = [("Trust: ", said, "  "), ("Improvement: ", _improvement(verdict), "  ")]
    order = (REFUSED, DOUBTFUL)
    for gate in sorted(bad, key=lambda each: order.index(each["level"])):
        found.append((f"  {gate['code']} ", gate["sentence"] + ".", "    "))
    return [*found, ("Weakest point: ", verdict["weakest"] + ".", "  ")]


def _improvement(verdict: dict[str, Any]) -> str:
    found = verdict["improvement"]
    if found is None:
        return "not known, for want of a baseline."
    if verdict["trust"] == REFUSED:
        return "not judged, since the value is refused."
    places = _places(found)
    numbers = [_number(found[name], places) for name in ("difference", "low", "high")]
    ahead, low, high = (each if each.startswith("-") else f"+{each}" for each in numbers)
    sign = f"{ahead} [{low}, {high}]"
    costs = ", where less is better" if found["lower_is_better"] else ""
    word = {"better": "BETTER", "worse": "WORSE", "undecided": "UNDECIDED"}[found["word"]]
    if verdict["trust"] == DOUBTFUL:
        word += ", if the doubts below are unfounded"
    return (
        f"{word}: {sign} against the logged policy ({_number(found['baseline'], places)}){costs}."
    )


Row = tuple[str, str, str, str]
"""An estimate in words: how it was found, value, interval, and of what."""


def rows(
    plain: dict[str, Any], target: str, verdict: dict[str, Any] | None
) -> tuple[list[Row], dict[str, list[str]]]:
    """The logged policy and the estimates of a target in words, and notes with their methods."""
    found: list[Row] = []
    own = plain.get("logged")
    if own is not None:
        check = "bootstrapped where cut"
        if own["estimand"] == "V^μ":
            check = f"observed, pipeline {_number(own['pipeline'], _places(own))}"
        found.append(("logged policy", _number(own["value"], _places(own)), _reach(own), check))
    notes: dict[str, list[str]] = {}
    for k, each in enumerate(each for each in plain["estimates"] if each["target"] == target):
        what = SHORT.get(each["estimand"], each["estimand"].partition(" (")[0])
        if each["low"] is None:
            what = ""
        if k == 0 and verdict is not None:
            what += "  <- refused" if verdict["trust"] == REFUSED else "  <- suggested"
        if each["ess"] is not None:
            what += f"{', ' * bool(what)}ESS {each['ess']:,.0f}"
            what += "" if trusted(each, plain) else ": void"
        found.append((each["method"], _number(each["value"], _places(each)), _reach(each), what))
        if each["note"] != "ok":
            notes.setdefault(each["note"], []).append(each["method"])
    return found, notes


def _table(plain: dict[str, Any], target: str, verdict: dict[str, Any] | None) -> Iterator[str]:
    """One line for each estimate: what, value, interval, of what."""
    found, notes = rows(plain, target, verdict)
    widths = [max(len(row[k]) for row in found) for k in range(3)]
    yield from _wrap("", target)
    for row in found:
        cells = f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}"
        yield from _wrap("", cells.rstrip(), " " * 8)
    for note, methods in notes.items():
        yield from _wrap(f"  {', '.join(methods)}: ", note, "    ")


def _looks(plain: dict[str, Any], verdict: dict[str, Any]) -> Iterator[str]:
    """What was looked at, in a line or two, and which policy it really was."""
    cloud, ceiling = verdict["spectrum"], plain["lambda_ceiling"].get(verdict["target"])
    whose = "" if ceilinged(verdict) else " of GES"
    parts = [f"λ ceiling{whose} {ceiling:.2g}"] if ceiling else []
    parts += [
        f"coverage {verdict['evidence']['coverage']:.1%}",
        f"gap {_short(verdict['gap'])}",
    ]
    if cloud is not None:
        parts.append(f"Â {cloud['word']} ({cloud['stable']}/{cloud['draws']} resamples)")
    yield from _wrap("  ", " | ".join(parts), "    ")
    if cloud is not None and cloud["draws"] >= MANY:
        low, high = (_number(each, _places(verdict)) for each in cloud["bootstrap"])
        how = f"blocks of episodes drawn {cloud['draws']} times"
        yield from _wrap("  ", f"bootstrap [{low}, {high}] of the fixed point, {how}", "    ")
    yield from _wrap("  policy as evaluated: ", policy_words(verdict["policy"]), "    ")


def ceilinged(verdict: dict[str, Any]) -> bool:
    """Whether the λ ceiling is one of the rule's own trace, and not only of other rules'."""
    return any(gate["code"] == "CEILING" and gate["value"] is not None for gate in verdict["gates"])


def policy_words(policy: dict[str, Any]) -> str:
    """The policy that was really evaluated, in a line."""
    most = sorted(policy["mass"].items(), key=lambda each: -each[1])[:6]
    shares = ", ".join(f"{name} {share:.0%}" for name, share in most)
    return (
        f"{shares}{', …' if len(policy['mass']) > 6 else ''}; greedy in {policy['greedy']:.0%} of "
        f"rows, entropy {policy['entropy']:.0%} of uniform"
    )


def _paths(plain: dict[str, Any], target: str) -> Iterator[str]:
    for kind, points in plain["paths"].get(target, {}).items():
        line = "   ".join(f"{at:g}: {_number(value, None)}" for at, value in points)
        yield from _wrap(f"  along {kind}   ", line, "    ")


def _footer(plain: dict[str, Any]) -> Iterator[str]:
    yield f"{plain['steps']:,} steps, {plain['episodes']:,} episodes, p = {plain['p']}:"
    yield from _wrap("  ", shortened(plain["features"]), "  ")
    if plain["propensities"] != "logged":
        yield from _wrap("", f"propensities were {plain['propensities']}", "  ")
    shown = "   ".join(f"{k} {name}" for k, name in enumerate(plain["actions"][:12]))
    yield from _wrap("actions: ", shown + ("   …" if len(plain["actions"]) > 12 else ""), "  ")
    for warning in plain["warnings"]:
        yield from _wrap("", warning, "  ")


def shortened(text: str) -> str:
    """Features in words, with numbers of at most three decimals."""
    return re.sub(r"(\d\.\d{3})\d+", r"\1", text)


def trusted(each: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether the weights behind an estimate are not carried by a few episodes."""
    return each["k_hat"] is not None and each["k_hat"] <= threshold(plain["episodes"])


def _reach(each: dict[str, Any]) -> str:
    if each["low"] is None and each["high"] is None:
        return ""
    low, high = (_number(each[end], _places(each)) for end in ("low", "high"))
    return f"[{low}, {high}]"


def _places(each: dict[str, Any]) -> int | None:
    """Decimals to show: two digits of half the width of the interval."""
    low, high = each["low"], each["high"]
    half = 0.0 if low is None or high is None else (high - low) / 2
    return max(0, 1 - math.floor(math.log10(half))) if 0 < half < math.inf else None


def _number(value: float | None, places: int | None) -> str:
    if value is None:
        return "none"
    if places is None or places > 6 or abs(value) >= 1e7:
        return f"{value:.4g}"
    return f"{value:z.{places}f}"  # z: no −0


def _short(value: float | None) -> str:
    if value is None:
        return "none"
    return "0" if abs(value) < 1e-12 else f"{value:.2g}"


def limits(gate: dict[str, Any]) -> str:
    """Say from where on it would have been worse."""
    both = [("doubtful", gate["doubtful"]), ("refused", gate["refused"])]
    both = both[1:] if gate["doubtful"] == gate["refused"] else both
    side = "below" if gate["good"] == "large" else "above"
    return ", ".join(f"{word} {side} {limit:g}" for word, limit in both if limit is not None)


def _thresholds(gate: dict[str, Any]) -> str:
    return "." if gate["value"] is None else f". [{gate['value']:.3g}; {limits(gate)}]"


def _wrap(head: str, text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        head + text, WIDTH, subsequent_indent=indent, break_on_hyphens=False
    ) or [head]  # fmt: skip
