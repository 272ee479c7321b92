"""Operations: stocks to be replenished, and workloads to be served."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback.policies import mixture, uniform

from ..situations.setups import softmax
from .family import SHARES, Family, Task


@dataclass(frozen=True, eq=False)
class Inventory:
    """Stocks of several products with gamma demand; each day one of them can be replenished.

    Actions: order nothing, or a batch of one product (with one product: half a batch or a batch).
    Unmet demand is lost and costs more than holding stock; every order costs something.
    """

    demand: np.ndarray
    batches: np.ndarray
    holding_cost: float = 0.02
    loss: float = 0.5
    order_cost: float = 0.3

    def begin(self, n, rng):
        """Start with some of everything."""
        return rng.uniform(0, 6, size=(n, len(self.demand)))

    def move(self, states, actions, rng):
        """Receive the order, serve the demand."""
        stock = np.minimum(states + self.batches[actions], 20.0)
        demand = rng.gamma(2.0, self.demand / 2, size=stock.shape)
        sold = np.minimum(stock, demand)
        stock = stock - sold
        rewards = (0.5 * sold - self.loss * (demand - sold) - self.holding_cost * stock).sum(axis=1)
        return stock, rewards - self.order_cost * (actions > 0), np.zeros(len(stock), bool)


def base_stock(world, gain, days):
    """Order what leaves the least shortage, compared with the demand of some days."""

    def policy(observations):
        cover = (observations[:, None, :] + world.batches) / world.demand
        shortage = np.maximum(days - cover, 0).sum(axis=2)
        return softmax(-gain * (shortage + world.batches.any(axis=1)))

    return policy


def stocks(share, rng):
    """Four products, cut after 60 days."""
    world = Inventory(np.array([0.6, 0.9, 1.2, 0.5]), np.vstack([np.zeros(4), 5 * np.eye(4)]))
    mu = mixture(base_stock(world, 0.2, 4.0), uniform(5), 0.3)
    return Task(world, mu, mixture(mu, base_stock(world, 1.5, 4.0), share), 0.95, limit=60)


def single_stock(share, rng):
    """One product, two sizes of an order, cut after 60 days."""
    world = Inventory(
        np.array([2.0]), np.array([[0.0], [3.0], [6.0]]), holding_cost=0.1, order_cost=0.5
    )
    mu = mixture(base_stock(world, 0.3, 2.0), uniform(3), 0.3)
    return Task(world, mu, mixture(mu, base_stock(world, 3.0, 2.5), share), 0.95, limit=60)


class Queues:
    """Work in four stations in line, and the load of arrivals; one station gets extra capacity.

    Arrivals vary slowly. The reward is minus the work waiting; the line is shut down, which ends
    the episode, when too much work is waiting.
    """

    capacity = np.array([0.8, 0.7, 0.75, 0.7])

    def begin(self, n, rng):
        """Start with little work."""
        return np.column_stack([rng.exponential(1.0, (n, 4)), rng.uniform(0.5, 1.2, n)])

    def move(self, states, actions, rng):
        """Serve for an hour."""
        work, load = states[:, :4].copy(), states[:, 4]
        capacity = self.capacity * rng.uniform(0.7, 1.3, size=work.shape)
        capacity[np.arange(len(work)), actions] += 1.2
        work[:, 0] += rng.gamma(2.0, load / 2)
        for j in range(4):
            served = np.minimum(work[:, j], capacity[:, j])
            work[:, j] -= served
            if j < 3:
                work[:, j + 1] += served
        load = np.clip(0.9 * load + 0.09 + 0.1 * rng.normal(size=len(load)), 0.2, 1.6)
        total = work.sum(axis=1)
        over = total > 40
        return np.column_stack([work, load]), -0.1 * total - 20.0 * over, over


def serve(weights):
    """Prefer stations with much work, by a weight for each."""

    def policy(observations):
        return softmax(np.sqrt(observations[:, :4]) * weights)

    return policy


def queues(share, rng):
    """A line of stations, cut after 60 hours; π prefers the first stations less than μ does."""
    mu = mixture(serve(np.array([0.6, 0.3, 0.2, 0.2])), uniform(4), 0.3)
    return Task(Queues(), mu, mixture(mu, serve(np.full(4, 2.5)), share), 0.96, limit=60)


FAMILIES = (
    Family("inventory", stocks, SHARES, (50, 200, 1000)),
    Family("inventory-single", single_stock, SHARES, (50, 200, 1000)),
    Family("queues", queues, SHARES, (50, 200, 1000)),
)
