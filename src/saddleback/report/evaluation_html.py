"""An evaluation as a page: the verdict first, then the evidence for it.

The page is rendered from the plain data of `Evaluation.as_dict`, with the sentences that the
terminal prints, so that page, terminal and JSON agree.
"""

from __future__ import annotations

from typing import Any

from saddleback.ope.distribution_text import missing_distributions
from saddleback.ope.number_format import number, with_minus
from saddleback.ope.result import Evaluation
from saddleback.ope.text_report import (
    altered_line,
    answer,
    baseline_line,
    describe_policy,
    failed_checks,
    gate_value,
    least_data,
    limits,
    rows,
    shortened,
    value_line,
)
from saddleback.report import evaluation_charts as charts
from saddleback.report.candidate_chart import candidates
from saddleback.report.distribution_chart import distribution
from saddleback.report.page import page
from saddleback.report.theme import CONFIG

BANNERS = {
    "better": ("good", "▲"), "worse": ("bad", "▼"), "inconclusive": ("doubt", "≈"),
    "doubtful": ("doubt", "!"), "refused": ("bad", "✕"), "unjudged": ("", ""),
}  # fmt: skip
"""Class and sign of the banner, by the outcome of the answer."""

LEVELS = {
    "usable": ("good", "passed"), "doubtful": ("doubt", "doubtful"), "refused": ("bad", "refused"),
    "not checked": ("", "not checked"),
}  # fmt: skip
"""Class and label of the result of a check."""

CHARTS = (
    charts.forest, distribution, candidates, charts.effective_sample_size, charts.weight_tail,
    charts.coverage, charts.spectrum, charts.lambda_path, charts.calibration,
)  # fmt: skip


def evaluation_page(result: Evaluation | dict[str, Any]) -> str:
    """Return the page of a result: an `Evaluation`, or its JSON as a dictionary.

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
    verdicts = {verdict["target"]: verdict for verdict in result["verdicts"]}
    names = list(dict.fromkeys(estimate["target"] for estimate in result["estimates"]))
    targets = [_target(k, name, result, verdicts.get(name)) for k, name in enumerate(names)]
    figures = {
        figure["id"]: {part: figure[part] for part in ("spec", "rows")}
        for target in targets
        for figure in target["figures"]
    }
    several = len(names) > 1
    sections = [("verdict", "Verdict")]
    sections += [(f"policy-{k}", name if several else "Evidence") for k, name in enumerate(names)][
        :6
    ]
    sections += [("log-summary", "Log"), ("reproduction", "Reproduction")]
    return page(
        "evaluation.html", ("evaluation.js",), {"config": CONFIG, "figures": figures},
        title=f"Evaluation of {', '.join(names)}", kind="evaluation", sections=sections,
        result=result, targets=targets, several=several,
        log_facts=_log_facts(result),
        made=result.get("made"), source=", ".join((result.get("made") or {}).get("files", ())),
        bandit=result.get("bandit", False),
        drawn=any(verdict["spectrum"] for verdict in result["verdicts"]),
    )  # fmt: skip


def _target(
    k: int, name: str, result: dict[str, Any], verdict: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the data that the template shows for one target policy."""
    table, notes = rows(result, name, verdict)
    banner, sign = BANNERS[answer(verdict).outcome]
    target: dict[str, Any] = {
        "k": k, "name": name, "verdict": verdict, "rows": table, "banner": banner, "sign": sign,
        "notes": [(", ".join(methods), note) for note, methods in notes.items()],
        "answer": answer(verdict).text, "statements": [], "failed": [], "gates": [], "policy": "",
        "refused": verdict is not None and verdict["trust"] == "refused",
    }  # fmt: skip
    if verdict is not None:
        statements = [
            (f"Value of {name}:", value_line(verdict)), ("Logged policy:", baseline_line(result)),
            ("Least data:", least_data(verdict)), ("Not used as logged:", altered_line(result)),
        ]  # fmt: skip
        target["statements"] = [(head, text) for head, text in statements if text]
        target["failed"] = failed_checks(verdict)
        target["gates"] = [
            gate | dict(zip(("level_class", "label"), LEVELS[gate["level"]], strict=True))
            | {"limits": limits(gate), "number": with_minus(gate_value(gate["value"]))}
            for gate in verdict["gates"]
        ]  # fmt: skip
        target["policy"] = describe_policy(verdict["policy"])
    if not any(one["target"] == name for one in result.get("distributions", ())):
        outcome = "reward" if result.get("bandit") else "return"
        target["notes"] += [
            (f"Distribution of the {outcome}, {origin}", f"none, since {reason}.")
            for origin, reason in missing_distributions(result, name)
        ]
    figures = [make(name, result, verdict) for make in CHARTS]
    target["figures"] = [
        figure | {"id": f"{figure['kind']}-{k}"} for figure in figures if figure is not None
    ]
    return target


def _log_facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return name and text of each property of the log."""
    summary = result.get("card")
    if result.get("bandit"):
        facts = [
            ("decisions", f"{result['episodes']:,}"), ("actions", ", ".join(result["actions"])),
            ("features of the direct model", shortened(result["features"])),
            ("propensities", result["propensities"]),
            ("fingerprint of the log", result.get("fingerprint", "not saved")),
        ]  # fmt: skip
        return facts + _summary_facts(result)
    facts = [
        ("steps", f"{result['steps']:,}"), ("episodes", f"{result['episodes']:,}"),
        ("discount γ", f"{result['gamma']:g}"), ("actions", ", ".join(result["actions"])),
        ("features", f"{result['p']:,}: {shortened(result['features'])}"), ("rule", result["rule"]),
        ("propensities", result["propensities"]),
        ("fingerprint of the log", result.get("fingerprint", "not saved")),
    ]  # fmt: skip
    if summary is not None:
        ends = f"{summary['terminated']:,} terminated, {summary['truncated']:,} truncated"
        ends += f", {summary['stops']:,} stop without a flag" * bool(summary["stops"])
        facts.insert(2, ("ends of episodes", ends))
    return facts + _summary_facts(result)


def _summary_facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return rewards, propensities and the ranges of the observation."""
    summary = result.get("card")
    if summary is None:
        return []
    low, mean, high = (number(value, None) for value in summary["reward"])
    facts = [("reward", f"min {low}, mean {mean}, max {high}")]
    if summary["propensity"] is not None:
        smallest, median = (number(value, None) for value in summary["propensity"])
        facts.append(("behavior_prob", f"min {smallest}, median {median}"))
    ranges = zip(result.get("observations", ()), summary["low"], summary["high"], strict=False)
    return facts + [
        (name, f"{number(low, None)} to {number(high, None)}") for name, low, high in ranges
    ]
