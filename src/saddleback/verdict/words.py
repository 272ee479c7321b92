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

WIDTH = 79
MARKS = {USABLE: "ok", DOUBTFUL: "doubt", REFUSED: "NO", UNKNOWN: "-"}
SHORT = {"TD fixed point of these features": "TD fixed point"}


def told(plain: dict[str, Any]) -> str:
    """Return a result as it is told on the terminal."""
    plain = finite(plain)
    lines = [f"value of the target policy (γ {plain['gamma']:g}, start states of the log)"]
    verdicts = {each["target"]: each for each in plain["verdicts"]}
    for target in dict.fromkeys(each["target"] for each in plain["estimates"]):
        mine = [each for each in plain["estimates"] if each["target"] == target]
        lines += ["", *_table(target, mine, plain, verdicts.get(target))]
        lines += _paths(plain, target)
        if target in verdicts:
            lines += _looks(plain, verdicts[target])
            lines += ["", *statements(verdicts[target])]
    lines += ["", *_footer(plain)]
    return "\n".join(lines)


def explained(plain: dict[str, Any]) -> str:
    """Return a result with every gate, its number and its thresholds."""
    plain = finite(plain)
    lines = [told(plain)]
    for verdict in plain["verdicts"]:
        lines += ["", *_wrap("", f"what was looked at for {verdict['target']}:")]
        for gate in verdict["gates"]:
            head = f"  {MARKS[gate['level']]:5} {gate['code']:12} "
            lines += _wrap(head, gate["sentence"] + _thresholds(gate), " " * len(head))
    return "\n".join(lines)


def finite(value: Any) -> Any:
    """Return nested data with None for what is not a finite number, as JSON would hold it."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def statements(verdict: dict[str, Any]) -> list[str]:
    """The verdict: trust, improvement, and the weakest point."""
    trust, value = verdict["trust"], verdict["value"]
    low, high = verdict["wide"]
    bad = [each for each in verdict["gates"] if each["level"] in (DOUBTFUL, REFUSED)]
    said = f"Trust: {trust.upper()}. "
    if trust == REFUSED:
        said += "No value is given, for the reasons below."
    else:
        said += (
            f"The value is {_number(value)}; with {_number(verdict['gap'], '.2g')} for what the "
            f"features may miss, V^π is in [{_number(low)}, {_number(high)}]."
        )
    lines = [*_wrap("", said), *_improvement(verdict)]
    order = (REFUSED, DOUBTFUL)
    for gate in sorted(bad, key=lambda each: order.index(each["level"])):
        lines += _wrap(f"  {gate['code']} ", gate["sentence"] + ".", "    ")
    lines += _wrap("Weakest point: ", verdict["weakest"] + ".", "  ")
    return lines


def _improvement(verdict: dict[str, Any]) -> list[str]:
    found = verdict["improvement"]
    if found is None:
        return ["Improvement: not known, for want of a baseline."]
    if verdict["trust"] == REFUSED:
        return _wrap("Improvement: ", "not judged, since the value is refused.", "  ")
    ahead, low, high = (_number(found[each], "+.4g") for each in ("difference", "low", "high"))
    sign = f"{ahead} [{low}, {high}]"
    costs = ", where less is better" if found["lower_is_better"] else ""
    word = {"better": "BETTER", "worse": "WORSE", "undecided": "UNDECIDED"}[found["word"]]
    if verdict["trust"] == DOUBTFUL:
        word += ", if the doubts below are unfounded"
    text = f"{word}: {sign} against the logged policy ({_number(found['baseline'])}){costs}."
    return _wrap("Improvement: ", text, "  ")


def _table(
    target: str, estimates: list[dict[str, Any]], plain: dict[str, Any], verdict: Any
) -> Iterator[str]:
    """One line for each estimate: what, value, interval, of what."""
    rows: list[tuple[str, str, str, str]] = []
    own = plain.get("logged")
    if own is not None:
        check = f"observed; pipeline says {_number(own['pipeline'])}"
        rows.append(("logged policy", _number(own["value"]), _reach(own), check))
    notes: dict[str, list[str]] = {}
    for k, each in enumerate(estimates):
        what = SHORT.get(each["estimand"], each["estimand"].partition(" (")[0])
        if each["low"] is None:
            what = ""
        if k == 0 and verdict is not None:
            what += "  <- refused" if verdict["trust"] == REFUSED else "  <- suggested"
        if each["ess"] is not None:
            what += f", ESS {each['ess']:,.0f} of {plain['episodes']:,}"
            what += "" if _trusted(each, plain) else ": void"
        rows.append((each["method"], _number(each["value"]), _reach(each), what))
        if each["note"] != "ok":
            notes.setdefault(each["note"], []).append(each["method"])
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    yield from _wrap("", target)
    for row in rows:
        cells = f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}"
        yield from _wrap("", cells.rstrip(), " " * 8)
    for note, methods in notes.items():
        yield from _wrap(f"  {', '.join(methods)}: ", note, "    ")


def _looks(plain: dict[str, Any], verdict: dict[str, Any]) -> Iterator[str]:
    """What was looked at, in a line or two, and which policy it really was."""
    cloud, ceiling = verdict["spectrum"], plain["lambda_ceiling"].get(verdict["target"])
    parts = [f"λ ceiling {ceiling:.2g}"] if ceiling else []
    parts += [
        f"coverage {verdict['support']['coverage']:.1%}",
        f"gap {_number(verdict['gap'], '.2g')}",
    ]
    if cloud is not None:
        parts.append(f"Â {cloud['word']} ({cloud['stable']}/{cloud['draws']} resamples)")
    yield from _wrap("  ", " | ".join(parts), "    ")
    policy = verdict["policy"]
    most = sorted(policy["mass"].items(), key=lambda each: -each[1])[:6]
    shares = ", ".join(f"{name} {share:.0%}" for name, share in most)
    yield from _wrap(
        "  policy as evaluated: ",
        f"{shares}{', …' if len(policy['mass']) > 6 else ''}; greedy in {policy['greedy']:.0%} of "
        f"rows, entropy {policy['entropy']:.0%} of uniform",
        "    ",
    )


def _paths(plain: dict[str, Any], target: str) -> Iterator[str]:
    for kind, points in plain["paths"].get(target, {}).items():
        line = "   ".join(f"{at:g}: {_number(value)}" for at, value in points)
        yield from _wrap(f"  along {kind}   ", line, "    ")


def _footer(plain: dict[str, Any]) -> Iterator[str]:
    yield f"{plain['steps']:,} steps, {plain['episodes']:,} episodes, p = {plain['p']}:"
    yield from _wrap("  ", re.sub(r"(\d\.\d{3})\d+", r"\1", plain["features"]), "  ")
    if plain["propensities"] != "logged":
        yield from _wrap("", f"propensities were {plain['propensities']}", "  ")
    shown = "   ".join(f"{k} {name}" for k, name in enumerate(plain["actions"][:12]))
    yield from _wrap("actions: ", shown + ("   …" if len(plain["actions"]) > 12 else ""), "  ")
    for warning in plain["warnings"]:
        yield from _wrap("", warning, "  ")


def _trusted(each: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether the weights behind an estimate are not carried by a few episodes."""
    return each["k_hat"] is not None and each["k_hat"] <= threshold(plain["episodes"])


def _reach(each: dict[str, Any]) -> str:
    if each["low"] is None and each["high"] is None:
        return ""
    return f"[{_number(each['low'])}, {_number(each['high'])}]"


def _number(value: float | None, form: str = ".4g") -> str:
    return "none" if value is None else f"{value:{form}}"


def _thresholds(gate: dict[str, Any]) -> str:
    """Say from where on it would have been worse."""
    if gate["value"] is None:
        return "."
    limits = [("doubtful", gate["doubtful"]), ("refused", gate["refused"])]
    said = [f"{word} from {limit:g}" for word, limit in limits if limit is not None]
    return f". [{gate['value']:.3g}; {', '.join(said)}]"


def _wrap(head: str, text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        head + text, WIDTH, subsequent_indent=indent, break_on_hyphens=False
    ) or [head]  # fmt: skip
