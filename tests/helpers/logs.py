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
    end = np.full(n, "", dtype="<U10")
    end[last] = np.broadcast_to(ends, len(lengths))
    probabilities = rng.dirichlet(np.ones(actions), n) * 0.7 + 0.3 / actions
    action = np.array([rng.choice(actions, p=row / row.sum()) for row in probabilities])
    data = {"episode_id": np.repeat(np.arange(len(lengths)) + 10, lengths)}
    if step:
        data["step"] = np.concatenate([np.arange(length) for length in lengths])
    data |= {f"obs_{j}": rng.normal(size=n) for j in range(d)}
    data |= {"action": action, "reward": rng.normal(size=n)}
    data |= {"terminated": end == "terminated", "truncated": end == "truncated"}
    if following:
        for j in range(d):
            data[f"next_obs_{j}"] = np.where(end == "truncated", rng.normal(size=n), np.nan)
    data["behavior_prob"] = probabilities[np.arange(n), action]
    if mu:
        data |= {f"mu_{a}": probabilities[:, a] for a in range(actions)}
        if following:
            next_mu = rng.dirichlet(np.ones(actions), n)
            for a in range(actions):
                data[f"next_mu_{a}"] = np.where(end == "truncated", next_mu[:, a], np.nan)
    return data


def mixed(seed=0, **options):
    """Return a log with episodes of all lengths and ends, one-row episodes among them."""
    rng = np.random.default_rng(seed)
    lengths = np.append(rng.integers(1, 12, 14), [1, 1, 1, 30])
    ends = np.append(rng.choice(ENDS, 14), [*ENDS, "terminated"])
    return columns(lengths, ends, seed=seed, **options)


def content(log, tables=()):
    """Return the concatenated content of all segments of a log, however it is segmented."""
    parts = {}

    def add(name, value):
        parts.setdefault(name, []).append(value)

    for segment in log.segments(tables):
        after = segment.next_states[segment.continues]
        add("here", segment.observations[segment.states])
        add("after", segment.observations[after])
        for name, table in segment.tables.items():
            add(name, table[segment.states])
            add(f"{name} after", table[after])
        for name in ("actions", "rewards", "continues", "starts", "ids", "unfinished"):
            add(name, getattr(segment, name))
        if segment.propensity is not None:
            add("propensity", segment.propensity)
        add("first", segment.observations[segment.first_states])
        add("continues_in_next", [segment.continues_in_next])
        add("lengths", [len(segment)])
    continues = parts.pop("continues_in_next")
    assert not continues[-1][0]
    parts.pop("lengths")
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def assert_same_content(one, other):
    """Assert that two contents are bit-identical."""
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
