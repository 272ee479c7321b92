"""Synthetic logs for tests."""

import numpy as np

ENDS = ("terminated", "truncated", "stops")


def columns(lengths, ends, *, d=2, actions=3, seed=0, mu=True, following=True, step=True):
    """Return the columns of a log with episodes of the given lengths and ends.

    ``following``: whether truncated rows have the next observation.
    """
    rng = np.random.default_rng(seed)
    n = int(np.sum(lengths))
    last = np.cumsum(lengths) - 1
    how = np.full(n, "", dtype="<U10")
    how[last] = np.broadcast_to(ends, len(lengths))
    probabilities = rng.dirichlet(np.ones(actions), n) * 0.7 + 0.3 / actions
    action = np.array([rng.choice(actions, p=row / row.sum()) for row in probabilities])
    data = {"episode_id": np.repeat(np.arange(len(lengths)) + 10, lengths)}
    if step:
        data["step"] = np.concatenate([np.arange(length) for length in lengths])
    data |= {f"obs_{j}": rng.normal(size=n) for j in range(d)}
    data |= {"action": action, "reward": rng.normal(size=n)}
    data |= {"terminated": how == "terminated", "truncated": how == "truncated"}
    if following:
        for j in range(d):
            data[f"next_obs_{j}"] = np.where(how == "truncated", rng.normal(size=n), np.nan)
    data["behavior_prob"] = probabilities[np.arange(n), action]
    if mu:
        data |= {f"mu_{a}": probabilities[:, a] for a in range(actions)}
        if following:
            next_mu = rng.dirichlet(np.ones(actions), n)
            for a in range(actions):
                data[f"next_mu_{a}"] = np.where(how == "truncated", next_mu[:, a], np.nan)
    return data


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
