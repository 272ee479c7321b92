"""An evaluation as a page: the verdict first, then what it rests on.

Everything is read from the plain data that `Evaluation.as_dict` gives and JSON holds, and said in
the words of the terminal, so that the three cannot differ.
"""

from __future__ import annotations

from typing import Any

from saddleback.report import evaluation_charts as charts
from saddleback.report.forest_chart import forest
from saddleback.report.page import page
from saddleback.report.theme import CONFIG
from saddleback.verdict.result import Evaluation
from saddleback.verdict.text_report import (
    MARKS,
    answer,
    baseline_line,
    describe_policy,
    failed_checks,
    least_data,
    limits,
    rows,
    shortened,
    value_line,
)

BANNERS = {
    "better": ("good", "▲"), "worse": ("bad", "▼"), "inconclusive": ("doubt", "≈"),
    "doubtful": ("doubt", "!"), "refused": ("bad", "✕"), "unjudged": ("", ""),
}  # fmt: skip
"""Class and sign of the banner, by the outcome of the answer."""

LEVEL = {"usable": "good", "doubtful": "doubt", "refused": "bad", "not checked": ""}


def evaluation_page(result: Evaluation | dict[str, Any]) -> str:
    """Return the page of a result: an `Evaluation`, or what its JSON holds.

    Examples
    --------
    >>> import saddleback as sb
    >>> walk = sb.problems.random_walk(0.9, target_right=0.6)
    >>> log = sb.collect(walk, episodes=200, rng=0)
    >>> features = sb.features.OneHot(walk.mdp.n_states)
    >>> result = sb.evaluate(log, walk.target, features=features, gamma=0.9)
    >>> "the estimate is reliable." in evaluation_page(result)
    True
    """
    if isinstance(result, Evaluation):
        result = result.as_dict()
    verdicts = {each["target"]: each for each in result["verdicts"]}
    names = list(dict.fromkeys(each["target"] for each in result["estimates"]))
    targets = [_target(k, name, result, verdicts.get(name)) for k, name in enumerate(names)]
    figures = {
        figure["id"]: {part: figure[part] for part in ("spec", "rows", "file")}
        for each in targets
        for figure in each["figures"]
    }
    several = len(names) > 1
    sections = [("verdict", "Verdict")]
    sections += [(f"policy-{k}", name if several else "Why") for k, name in enumerate(names)][:6]
    sections += [("data-card", "Data"), ("again", "Reproduction")]
    return page(
        "evaluation.html", ("evaluation.js",), {"config": CONFIG, "figures": figures},
        title=f"Evaluation of {', '.join(names)}", kind="evaluation", sections=sections,
        result=result, targets=targets, several=several, card=_card(result),
        made=result.get("made"), drawn=any(each["spectrum"] for each in result["verdicts"]),
    )  # fmt: skip


def _target(
    k: int, name: str, result: dict[str, Any], verdict: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what the template shows of one target policy."""
    told, notes = rows(result, name, verdict)
    found: dict[str, Any] = {
        "k": k, "name": name, "verdict": verdict, "rows": told,
        "notes": [(", ".join(methods), note) for note, methods in notes.items()],
        "answer": answer(verdict).text, "statements": [], "failed": [], "gates": [], "policy": "",
        "refused": verdict is not None and verdict["trust"] == "refused",
    }  # fmt: skip
    found["look"], found["sign"] = BANNERS[answer(verdict).outcome]
    if verdict is not None:
        statements = [
            (f"Value of {name}:", value_line(verdict)), ("Logged policy:", baseline_line(result)),
            ("Least data:", least_data(verdict)),
        ]  # fmt: skip
        found["statements"] = [(head, text) for head, text in statements if text]
        found["failed"] = failed_checks(verdict)
        found["gates"] = [
            gate | {"mark": MARKS[gate["level"]], "look": LEVEL[gate["level"]],
                    "limits": limits(gate), "number": _number(gate["value"])}
            for gate in verdict["gates"]
        ]  # fmt: skip
        found["policy"] = describe_policy(verdict["policy"])
    makers = (
        forest, charts.effective, charts.tail, charts.coverage, charts.spectrum,
        charts.path,
    )  # fmt: skip
    made = [make(k, name, result, verdict, told) for make in makers]
    found["figures"] = [each for each in made if each is not None]
    return found


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _card(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Say what the log holds, in pairs."""
    card = result.get("card")
    found = [
        ("steps", f"{result['steps']:,}"), ("episodes", f"{result['episodes']:,}"),
        ("discount γ", f"{result['gamma']:g}"), ("actions", ", ".join(result["actions"])),
        ("features", f"{result['p']:,}: {shortened(result['features'])}"), ("rule", result["rule"]),
        ("propensities", result["propensities"]),
        ("fingerprint of the log", result.get("fingerprint", "not kept")),
    ]  # fmt: skip
    if card is not None:
        ends = f"{card['terminated']:,} terminated, {card['truncated']:,} truncated"
        low, mean, high = card["reward"]
        found[2:2] = [
            ("how episodes end", ends + (f", {card['stops']:,} just stop" * bool(card["stops"]))),
            ("reward", f"min {low:.4g}, mean {mean:.4g}, max {high:.4g}"),
        ]
        if card["propensity"] is not None:
            least, median = card["propensity"]
            found.append(("behavior_prob", f"min {least:.4g}, median {median:.4g}"))
        reach = zip(result.get("observations", ()), card["low"], card["high"], strict=False)
        found += [(name, f"{low:.4g} to {high:.4g}") for name, low, high in reach]
    return found
