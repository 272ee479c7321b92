"""d3rlpy's fitted Q evaluation of a policy that is a table, not an algorithm of d3rlpy.

FQE regresses Q(s, a) on r + γ Q(s', a'), where a' is whatever ``predict_best_action`` of the given
algorithm's implementation answers. With the likeliest action there, the greedy policy is evaluated.
With an action drawn from π at every update, the regression has the mean over π as its solution,
and π itself is evaluated: more than the documented interface offers.
"""

from __future__ import annotations

import d3rlpy
import numpy as np
import torch

STEPS = 30_000
"""Gradient steps."""

RATES = {"1e-4": "its default", "1e-3": "the other rate tried"}
"""Learning rates, both of them in the table: d3rlpy's own, and torch's own for the same optimiser.

On MountainCar the first passes the truth half-way and drifts off again; all other settings are
d3rlpy's own.
"""


class Fixed:
    """The smallest interface that FQE needs of an algorithm: the choice of next actions."""

    def __init__(self, log, sampled):
        self.policy, self.column = torch.tensor(log["policy"]), int(log["column"])
        self.sampled, self.impl = sampled, self

    def predict_best_action(self, x):
        """Return an action for every observation."""
        target_probabilities = self.policy[(x[:, self.column] > 0).long()]
        if self.sampled:
            return torch.multinomial(target_probabilities, 1)[:, 0]
        return target_probabilities.argmax(dim=1)


def fit(log, sampled, rate, steps=STEPS, watch=None):
    """Fit Q by FQE; ``watch`` is called with it after every third of the steps."""
    d3rlpy.seed(0)
    torch.set_num_threads(1)
    data = d3rlpy.dataset.MDPDataset(
        observations=log["observations"],
        actions=log["action"].reshape(-1, 1),
        rewards=log["reward"].astype(np.float32).reshape(-1, 1),
        terminals=log["terminated"].astype(np.float32),
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=log["policy"].shape[1],
    )
    config = d3rlpy.ope.FQEConfig(gamma=float(log["gamma"]), learning_rate=float(rate))
    fqe = d3rlpy.ope.DiscreteFQE(algo=Fixed(log, sampled), config=config, device="cpu")
    fqe.fit(
        data, n_steps=steps, n_steps_per_epoch=steps // 3, show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        epoch_callback=None if watch is None else lambda q, *_: watch(q),
    )  # fmt: skip
    return fqe


def q_values(fqe, observations, actions):
    """Return Q of every action, [n, K]."""
    columns = [
        fqe.predict_value(observations, np.full(len(observations), a)) for a in range(actions)
    ]
    return np.column_stack(columns)


def target_probabilities(log, observations):
    """Return π of every action, [n, K]."""
    return log["policy"][(observations[:, int(log["column"])] > 0).astype(int)]
