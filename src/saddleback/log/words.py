"""How each problem of a log reads: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable

from saddleback.log.findings import rows


def _zero(name: str, count: int, where: str) -> str:
    return (
        f"{name} is 0 on {rows(count)} ({where}). A logged action cannot have probability 0. "
        "Fix the log or pass min_prob=…"
    )


def _logs(name: str, count: int, where: str) -> str:
    return (
        f"{name} is never above 0 and negative on {rows(count)} ({where}): it looks like "
        "log-probabilities (all <= 0): use behavior_logp."
    )


def _range(name: str, what: str, count: int, where: str) -> str:
    fix = {
        "NaN": "every logged action needs its probability; estimate_behaviour(log) can estimate "
        "them all",
        "> 1": "a density? continuous actions are not supported",
        "< 0": "probabilities lie in (0, 1]",
    }[what]
    return f"{name} is {what} on {rows(count)} ({where}): {fix}."


def _bad_number(name: str, what: str, count: int, where: str) -> str:
    return (
        f'{name} is {what} in {rows(count)} ({where}). Drop the episode (drop_bad="episode") or '
        "fill; never silently skipped."
    )


def _action(what: str, count: int, where: str) -> str:
    return (
        f"action is not one of {what} in {rows(count)} ({where}). Fix the log, or name all "
        "actions: actions=[…]."
    )


def _jump(before: str, after: str, count: int, where: str) -> str:
    what = "repeats" if before == after else "jumps"
    seen = before if before == after else f"{before} -> {after}"
    more = f" (and {count - 1:,} more such places)" if count > 1 else ""
    fix = "Sort by (episode_id, step)" if int(after) < int(before) else "Rows are missing: add them"
    return f"{where}: step {what} {seen}{more}. {fix}, or renumber the episode."


WORDS: dict[str, Callable[..., str]] = {
    "E101": _zero,
    "E102": lambda *kind, **at: _logs(kind[0], **at) if kind[1] == "log" else _range(*kind, **at),
    "E104": lambda name, total, count, where: (
        f"{name}_* sums to {total} rather than 1 (to 1e-6) on {rows(count)} ({where}). Each row "
        "must be a probability distribution: divide it by its sum if it was rounded."
    ),
    "E120": _bad_number,
    "E121": lambda name, count, where: f"{name} is empty in {rows(count)}. Fill it in.",
    "E130": _jump,
    "E132": lambda what, at, length, count, where: (
        f"{what}=True at step {at} of {length} in {where}"
        + (f" (and {count - 1:,} more such rows)" if count > 1 else "")
        + ". Only the last row of an episode may end it: split the episode, or clear the flag."
    ),
    "E134": lambda at, count, where: (
        f"{where} begins at step {at}"
        + (f" (and {count - 1:,} more such episodes)" if count > 1 else "")
        + ": its first rows are in another file? Give all files of an episode together, in order; "
        "else number its steps from 0."
    ),
    "E145": _action,
}
"""Words for the problems that are counted row by row, by code."""
