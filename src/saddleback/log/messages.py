"""How each problem of a log reads: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable

from saddleback.log.diagnostics import format_rows as n_rows


def _zero(name: str, count: int, where: str) -> str:
    return (
        f"{name} is 0 on {n_rows(count)} ({where}). A logged action cannot have probability 0. "
        "Fix the log or pass min_prob=…"
    )


def _logs(name: str, count: int, where: str) -> str:
    return (
        f"{name} is never above 0 and negative on {n_rows(count)} ({where}): it looks like "
        "log-probabilities (all <= 0): use behavior_logp."
    )


def _range(name: str, what: str, count: int, where: str) -> str:
    fix = {
        "NaN": "every logged action needs its probability; estimate_behaviour(log) can estimate "
        "them all",
        "> 1": "a density? continuous actions are not supported",
        "< 0": "probabilities lie in (0, 1]",
    }[what]
    return f"{name} is {what} on {n_rows(count)} ({where}): {fix}."


def _bad_number(name: str, what: str, count: int, where: str) -> str:
    return (
        f'{name} is {what} in {n_rows(count)} ({where}). Drop the episode (drop_bad="episode") or '
        "fill; never silently skipped."
    )


def _action(name: str, what: str, value: str, near: str, count: int, where: str) -> str:
    hint = f" Did you mean {near!r}?" if near else ""
    return (
        f"{name} is {value}, not one of {what}, in {n_rows(count)} ({where}).{hint} Fix the log, or "
        "name all actions: actions=[…]."
    )


def _jump(episode: str, before: str, after: str, count: int, where: str) -> str:
    what = f"repeats {before}" if before == after else f"jumps {before} -> {after}"
    fix = (
        "Drop the copies" if before == after
        else "Sort by (episode_id, step)" if int(after) < int(before)
        else "Rows are missing: add them"
    )  # fmt: skip
    return f"episode {episode}: step {what}{_more(count, 'place')}. {fix}, or renumber the episode."


def _early(what: str, at: str, length: str, episode: str, count: int, where: str) -> str:
    return (
        f"{what}=True at step {at} of {length} in episode {episode}{_more(count, 'row')}. Only the "
        "last row of an episode may end it: split the episode, or clear the flag."
    )


def _late(episode: str, at: str, count: int, where: str) -> str:
    return (
        f"episode {episode} begins at step {at}{_more(count, 'episode')}: its first rows are in "
        "another file? Give all files of an episode together, in order; else number its steps "
        "from 0."
    )


def _no_distribution(name: str, what: str, count: int, where: str) -> str:
    return (
        f"{name}_* {what} on {n_rows(count)} ({where}). Each row must be a probability distribution, "
        "to 1e-6: divide it by its sum if it was rounded."
    )


def _empty(name: str, what: str, count: int, where: str) -> str:
    fix = {
        "episode_id": "say which episode each row belongs to",
        "step": "number the steps 0 … T−1, or leave the column out if rows are in order",
    }.get(what, "True on the last row of an episode that ended so, else False")
    return f"{name} is empty in {n_rows(count)} ({where}). Fill it in: {fix}."


def _more(count: int, what: str) -> str:
    if count == 1:
        return ""
    return f" (and {count - 1:,} more such {what}{'s' if count > 2 else ''})"


MESSAGES: dict[str, Callable[..., str]] = {
    "E101": _zero,
    "E102": lambda *kind, **at: _logs(kind[0], **at) if kind[1] == "log" else _range(*kind, **at),
    "E104": _no_distribution,
    "E120": _bad_number,
    "E121": _empty,
    "E130": _jump,
    "E132": _early,
    "E134": _late,
    "E145": _action,
}
"""Words for the problems that are counted row by row, by code."""
