"""Logs to try things on, and what they become."""

import numpy as np

ENDS = ("terminated", "truncated", "stops")


def columns(lengths, ends, *, d=2, actions=3, seed=0, mu=True, following=True, step=True):
    """Return the columns of a log with episodes of these lengths that end so.

    ``following``: whether truncated rows say what was observed next.
    """
    rng = np.random.default_rng(seed)
    n = int(np.sum(lengths))
    last = np.cumsum(lengths) - 1
    how = np.full(n, "", dtype="<U10")
    how[last] = np.broadcast_to(ends, len(lengths))
    whole = rng.dirichlet(np.ones(actions), n) * 0.7 + 0.3 / actions
    action = np.array([rng.choice(actions, p=row / row.sum()) for row in whole])
    found = {"episode_id": np.repeat(np.arange(len(lengths)) + 10, lengths)}
    if step:
        found["step"] = np.concatenate([np.arange(length) for length in lengths])
    found |= {f"obs_{j}": rng.normal(size=n) for j in range(d)}
    found |= {"action": action, "reward": rng.normal(size=n)}
    found |= {"terminated": how == "terminated", "truncated": how == "truncated"}
    if following:
        for j in range(d):
            found[f"next_obs_{j}"] = np.where(how == "truncated", rng.normal(size=n), np.nan)
    found["behavior_prob"] = whole[np.arange(n), action]
    if mu:
        found |= {f"mu_{a}": whole[:, a] for a in range(actions)}
        if following:
            there = rng.dirichlet(np.ones(actions), n)
            for a in range(actions):
                found[f"next_mu_{a}"] = np.where(how == "truncated", there[:, a], np.nan)
    return found


def mixed(seed=0, **options):
    """Return a log with episodes of all lengths and ends, one-row episodes among them."""
    rng = np.random.default_rng(seed)
    lengths = np.append(rng.integers(1, 12, 14), [1, 1, 1, 30])
    ends = np.append(rng.choice(ENDS, 14), [*ENDS, "terminated"])
    return columns(lengths, ends, seed=seed, **options)


def content(log, tables=()):
    """Return all that the pieces of a log say, whatever pieces it came in."""
    found = {}

    def add(name, value):
        found.setdefault(name, []).append(value)

    for piece in log.segments(tables):
        after = piece.next_states[piece.continues]
        add("here", piece.observations[piece.states])
        add("after", piece.observations[after])
        for name, table in piece.tables.items():
            add(name, table[piece.states])
            add(f"{name} after", table[after])
        for name in ("actions", "rewards", "continues", "starts", "ids", "unfinished"):
            add(name, getattr(piece, name))
        if piece.propensity is not None:
            add("propensity", piece.propensity)
        add("first", piece.observations[piece.first_states])
        add("goes on", [piece.continues_in_next])
        add("lengths", [len(piece)])
    goes_on = found.pop("goes on")
    assert not goes_on[-1][0]
    found.pop("lengths")
    return {name: np.concatenate(each) for name, each in found.items()}


def alike(one, other):
    """Assert that two contents are equal to the bit."""
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
