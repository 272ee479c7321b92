"""SCOPE-RL's estimators on one log; run in their own environment.

Arguments: arrays, then ``weights`` (TIS, PDIS and their self-normalised forms) or ``values`` (DM,
DR and SNDR, with Q by FQE). SCOPE-RL takes trajectories of one length. Rows after the end of an
episode are filled with reward 0, Q = 0, and an action of probability 1 under both policies, so
that weights stay as they were. Its default, ``disable_reward_after_done``, also takes away the
reward of the step that ends the episode, so it is switched off here and shown once, as "by
default". Q is the one ``run_d3rlpy.py`` left, by the same version of d3rlpy: fitted on the rows
that were logged, with next actions drawn from π; SCOPE-RL's own preparation would fit it with the
greedy action of the policy under its stochastic head. Estimators
of marginal ratios (DICE and minimax learning) need a second learner and are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import d3rlpy
import numpy as np
import scope_rl
import torch
from fitted import RATES, target_probabilities
from measure import report, row, timed
from scope_rl.ope import OffPolicyEvaluation
from scope_rl.ope import discrete as estimators

REPLICATES = 1000
VERSIONS = {
    "scope-rl": scope_rl.__version__, "d3rlpy": d3rlpy.__version__, "torch": torch.__version__
}  # fmt: skip
WEIGHTS = {
    "TIS": estimators.TrajectoryWiseImportanceSampling,
    "PDIS": estimators.PerDecisionImportanceSampling,
    "SNTIS": estimators.SelfNormalizedTIS,
    "SNPDIS": estimators.SelfNormalizedPDIS,
}
VALUES = {
    "DM": estimators.DirectMethod,
    "DR": estimators.DoublyRobust,
    "SNDR": estimators.SelfNormalizedDR,
}


class Padded:
    """Where rows of a log go in a table of trajectories of one length."""

    def __init__(self, terminated):
        last = np.flatnonzero(terminated)
        lengths = np.diff(last, prepend=-1)
        self.shape = (len(last), int(lengths.max()))
        self.filled = np.arange(self.shape[1]) < lengths[:, None]

    def __call__(self, column, otherwise):
        """Return a column as [trajectories × length, …], filled up after the ends."""
        table = np.empty((*self.shape, *column.shape[1:]), dtype=column.dtype)
        table[:] = otherwise
        table[self.filled] = column
        return table.reshape(-1, *column.shape[1:])


def inputs(log, q):
    """Return SCOPE-RL's two dictionaries: the log, and the columns of the evaluated policy."""
    padded, K = Padded(log["terminated"]), log["policy"].shape[1]
    n, longest = padded.shape
    data = {
        "size": n * longest, "n_trajectories": n, "step_per_trajectory": longest,
        "action_type": "discrete", "n_actions": K, "action_dim": None,
        "state_dim": log["observations"].shape[1],
        "state": padded(log["observations"], 0), "action": padded(log["action"], 0),
        "reward": padded(log["reward"], 0), "pscore": padded(log["behaviour"], 1),
        "done": padded(log["terminated"].astype(float), 1),
        "terminal": padded(log["terminated"].astype(float), 1),
    }  # fmt: skip
    pi = target_probabilities(log, log["observations"])
    values = None if q is None else padded(q, 0)
    starts = np.flatnonzero(np.roll(log["terminated"], 1))
    added = {
        "evaluation_policy_action": None,
        "evaluation_policy_action_dist": padded(pi, np.eye(K)[0]),
        "state_action_value_prediction": values,
        "initial_state_value_prediction": None if q is None else (pi * q)[starts].sum(axis=1),
        "on_policy_policy_value": None,
        "gamma": float(log["gamma"]),
    }
    return data, {"π": added}


def point(data, added, estimator, strict=False):
    """Return SCOPE-RL's evaluation, and the name and the value of its one estimator."""
    evaluation = OffPolicyEvaluation(data, [estimator()], disable_reward_after_done=strict)
    name = evaluation.ope_estimators[0].estimator_name
    return evaluation, name, float(evaluation.estimate_policy_value(added)["π"][name])


def estimate(data, added, estimator, strict):
    """Return value and 95 % bootstrap interval of one estimator."""
    evaluation, name, value = point(data, added, estimator, strict)
    interval = evaluation.estimate_intervals(added, n_bootstrap_samples=REPLICATES, random_state=0)
    ends = interval["π"][name]
    return value, ends["95.0% CI (lower)"], ends["95.0% CI (upper)"]


def main(path, group):
    """Estimate by every estimator of a group."""
    log, rows = dict(np.load(path)), []
    if group == "weights":
        data, added = inputs(log, None)
        for name, estimator in WEIGHTS.items():
            (value, low, high), seconds, warned = timed(estimate, data, added, estimator, False)
            rows.append(row(name, value, seconds, warned, low=low, high=high))
        result, seconds, warned = timed(estimate, data, added, WEIGHTS["PDIS"], True)
        how = "loses the reward of each last step"
        value, low, high = result
        rows.append(row("PDIS, by default", value, seconds, warned, low=low, high=high, how=how))
        return report(rows, **VERSIONS)
    for rate in RATES:
        fitted = np.load(Path(path).with_suffix(f".q-{rate}.npz"))
        data, added = inputs(log, fitted["q"])
        for name, estimator in VALUES.items():
            (value, low, high), seconds, warned = timed(estimate, data, added, estimator, False)
            warned = "; ".join(filter(None, (str(fitted["heard"]), warned)))
            how = f"Q by FQE, rate {rate}, whose seconds and memory are in these"
            one = row(
                name, value, float(fitted["seconds"]) + seconds, warned, low=low, high=high, how=how
            )
            rows.append(one | {"peak_mb": float(fitted["peak_mb"])})
    return report(rows, **VERSIONS)


if __name__ == "__main__":
    main(*sys.argv[1:])
