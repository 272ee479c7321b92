"""Messages of the problems that are counted row by row: what is wrong, where, and a fix."""

from __future__ import annotations

from collections.abc import Callable

from saddleback.log.diagnostics import format_rows


def _zero_propensity(name: str, count: int, where: str) -> str:
    return (
        f"{name} is 0 on {format_rows(count)} ({where}). A logged action cannot have probability "
        "0. Fix the log, or pass min_prob=…"
    )


def _invalid_propensity(name: str, kind: str, count: int, where: str) -> str:
    place = f"on {format_rows(count)} ({where})"
    if kind == "log":
        return (
            f"{name} is negative {place} and never positive: these look like log-probabilities. "
            "Name the column behavior_logp, or map it: columns={'behavior_logp': …}."
        )
    fix = {
        "NaN": "every logged action needs a propensity. Fill them in, or replace all of them by "
        "estimates: estimate_behaviour(log).",
        "> 1": "probabilities must lie in (0, 1]. Densities of continuous actions are not "
        "supported.",
        "< 0": "probabilities must lie in (0, 1].",
    }[kind]
    return f"{name} is {kind} {place}: {fix}"


def _not_finite(name: str, kind: str, count: int, where: str) -> str:
    return (
        f"{name} is {kind} in {format_rows(count)} ({where}). Fill in the value (rewards known "
        'only at the end: 0 before it), or drop the episode: drop_bad="episode".'
    )


def _unknown_action(
    name: str, expected: str, value: str, suggestion: str, count: int, where: str
) -> str:
    hint = f" Did you mean {suggestion!r}?" if suggestion else ""
    return (
        f"{name} is {value}, not one of {expected}, in {format_rows(count)} ({where}).{hint} Fix "
        "the log, or list all actions: actions=[…]."
    )


def _step_jump(episode: str, before: str, after: str, count: int, where: str) -> str:
    if before == after:
        problem, fix = f"step {before} is repeated", "Remove the duplicates"
    elif int(after) < int(before):
        problem, fix = f"step goes back from {before} to {after}", "Sort by (episode_id, step)"
    else:
        problem, fix = f"step jumps from {before} to {after}", "Add the missing rows"
    return f"episode {episode}: {problem}{_more(count, 'row')}. {fix}, or renumber the episode."


def _early_flag(flag: str, step: str, length: str, episode: str, count: int, where: str) -> str:
    return (
        f"{flag}=True at step {step} of {length} in episode {episode}{_more(count, 'row')}. Only "
        "the last row of an episode may have this flag: split the episode, or clear the flag."
    )


def _late_start(episode: str, step: str, count: int, where: str) -> str:
    return (
        f"episode {episode} starts at step {step}{_more(count, 'episode')}. If its first rows are "
        "in another file, pass all files of the log together, in order; otherwise number its "
        "steps from 0."
    )


def _not_a_distribution(name: str, problem: str, count: int, where: str) -> str:
    return (
        f"{name}_* {problem} on {format_rows(count)} ({where}). Each row must be a probability "
        "distribution, within 1e-6: divide it by its sum if it was rounded."
    )


def _missing_value(name: str, role: str, count: int, where: str) -> str:
    fix = {
        "episode_id": "Every row needs the id of its episode",
        "step": "Number the steps 0 … T−1, or remove the column if the rows are in order",
    }.get(role, "Use True on the last row of an episode that ended this way, False elsewhere")
    return f"{name} has no value in {format_rows(count)} ({where}). {fix}."


def _more(count: int, noun: str) -> str:
    if count == 1:
        return ""
    return f" (and {count - 1:,} more such {noun}{'s' if count > 2 else ''})"


MESSAGES: dict[str, Callable[..., str]] = {
    "E101": _zero_propensity,
    "E102": _invalid_propensity,
    "E104": _not_a_distribution,
    "E120": _not_finite,
    "E121": _missing_value,
    "E130": _step_jump,
    "E132": _early_flag,
    "E134": _late_start,
    "E145": _unknown_action,
}
"""Functions that return the messages, by code."""
