"""Evidence, verdicts and small logs for tests of the verdict."""

from __future__ import annotations

import numpy as np

import saddleback as sb
from saddleback.ope import Verdict
from saddleback.ope.evidence import Evidence
from saddleback.ope.sandwich import Interval

GOOD = Evidence(
    episodes=500, steps=5000, value=12.3456, error=0.02, spread=1.0, uncovered=0.0, coverage=1.0,
    unvisited=0.0, imbalance=0.01, hidden=0.01, hidden_in="step", miscalibrated=0.001,
    calibration_z=1.0, trace_ratio=0.5, self_check=0.01,
    self_check_error=0.01, unique=True, stable=1.0, agreement=0.01, agreement_error=0.02, gap=0.05,
    sensitivity=0.01, ridge_shift=0.01, error_without_ridge=0.02, limit=40,
    limit_share=0.0, truncated_weight=0.1, outside=0.0, dropped=0.001, imputed=0.0, clipped=0.01,
    outside_box=0.01, outlying=0.0, influential=100.0, units="500 episodes",
)  # fmt: skip

CODES = (
    "EPISODES", "SUPPORT", "COVERAGE", "ROWS", "PROPENSITIES", "CEILING", "SELF-CHECK",
    "SOLUTION", "STABILITY", "AGREEMENT", "HIDDEN", "GAP", "PRECISION", "SENSITIVITY", "RIDGE",
    "ENDS", "HORIZON",
    "DROPPED", "IMPUTED", "CLIPPED", "BOX", "OUTLIERS", "INFLUENCE", "RANGE",
)  # fmt: skip

SURE = {"calibration_z": 9.0}
WITHOUT_LOG = {"imbalance": None}

# For each gate, evidence that makes an estimate doubtful, and evidence that makes it refused.
BAD = {
    "EPISODES": ({"episodes": 49}, {"episodes": 9}),
    "SUPPORT": ({"uncovered": 0.01}, {"uncovered": 0.06}),
    "COVERAGE": ({"imbalance": 0.6}, {"imbalance": 2.1}),
    "ROWS": (WITHOUT_LOG | {"coverage": 0.9}, WITHOUT_LOG | {"coverage": 0.7}),
    "PROPENSITIES": ({"miscalibrated": 0.1} | SURE, {"miscalibrated": 0.3} | SURE),
    "CEILING": ({"trace_ratio": 1.05}, {"trace_ratio": 1.2}),
    "SELF-CHECK": ({"self_check": -0.3}, {"self_check": 0.6}),
    "SOLUTION": ({"unique": False}, None),
    "STABILITY": ({"stable": 0.9}, None),
    "AGREEMENT": ({"agreement": -0.07}, None),
    "HIDDEN": ({"hidden": 0.6}, None),
    "GAP": ({"gap": 0.6}, {"gap": 2.1}),
    "PRECISION": ({"error": 0.3}, None),
    "SENSITIVITY": ({"sensitivity": 0.6}, {"sensitivity": 2.1}),
    "RIDGE": ({"ridge_shift": 0.03}, {"ridge_shift": 0.05}),
    "ENDS": ({"limit_share": 0.3}, None),
    "HORIZON": ({"truncated_weight": 0.6}, {"truncated_weight": 0.95}),
    "DROPPED": ({"dropped": 0.02}, {"dropped": 0.3}),
    "IMPUTED": ({"imputed": 0.02}, None),
    "CLIPPED": ({"clipped": 0.06}, {"clipped": 0.6}),
    "BOX": ({"outside_box": 0.11}, {"outside_box": 0.6}),
    "OUTLIERS": ({"outlying": 0.001, "outliers": "a"}, {"outlying": 0.02, "outliers": "a"}),
    "INFLUENCE": ({"influential": 1.5}, {"influential": 1.05}),
    "RANGE": (None, {"outside": 0.01}),
}


def verdict_on(evidence, *, improvement=None, target="mine"):
    """Return the verdict on some evidence."""
    value = evidence.value
    interval = (value, value - 2 * evidence.error, value + 2 * evidence.error)
    return Verdict.of(
        target, interval, evidence, improvement, "action 'high' where lactate > 6 (7 rows)"
    )


def gate_of(verdict, code):
    return next(gate for gate in verdict.gates if gate.code == code)


def difference_interval(value, low, high):
    """An interval of a difference."""
    return Interval(value, low, high, 0.95, (high - low) / 4, "", "", 100)


def always(*pi):
    return lambda observations: np.tile(pi, (len(observations), 1))


def walk_log(seed=0, episodes=400, mu=(0.5, 0.5), **extra):
    """A random walk over five states, with a reward at the right end."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        s = 2
        while 0 <= s < 5:
            a = int(rng.random() < mu[1])
            s_next = s + (1 if a else -1)
            rows.append((episode, s, a, float(s_next == 5), not 0 <= s_next < 5))
            s = s_next
    table = np.array(rows)
    data = {
        "episode_id": table[:, 0].astype(int), "obs_0": table[:, 1],
        "action": table[:, 2].astype(int), "reward": table[:, 3],
        "terminated": table[:, 4].astype(bool), "truncated": np.zeros(len(table), bool),
        "behavior_prob": np.array(mu)[table[:, 2].astype(int)],
    }  # fmt: skip
    return sb.Log(data | extra, actions=["left", "right"])


def without_propensities():
    log = walk_log()
    data = {name: column for name, column in log.data.items() if name != "behavior_prob"}
    return sb.Log(data, actions=["left", "right"])


TARGET = always(0.4, 0.6)
