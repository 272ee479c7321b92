"""Gymnasium environments with discrete actions as sources of experience."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from saddleback import _validate
from saddleback._typing import FloatArray
from saddleback.engine import Simulation, Trajectory
from saddleback.errors import CoverageError, InvalidParameter, RuleMismatch
from saddleback.features import Features
from saddleback.policies import Policy
from saddleback.rules import Rule


def from_gymnasium(
    env: Any,
    *,
    features: Features,
    target: Policy,
    behaviour: Policy,
    gamma: float,
    values: Literal["action", "state"] = "action",
    shared: bool = False,
) -> Simulation:
    """Return a Gymnasium environment as a simulation, in which μ acts and π is evaluated.

    Parameters
    ----------
    env
        A Gymnasium environment with a discrete action space and vectors (or numbers) as
        observations. Termination ends an episode; truncation only resets the trace.
    features
        Features of an observation.
    target, behaviour
        π and μ: functions from observations [n, d] to probabilities [n, A].
    gamma
        Discount.
    values, shared
        As for `mountain_car`.

    Examples
    --------
    >>> import gymnasium
    >>> from saddleback import GES, learn
    >>> from saddleback.features import Fourier
    >>> cart = from_gymnasium(
    ...     gymnasium.make("CartPole-v1"),
    ...     features=Fourier((-2.4, -3, -0.2, -3), (2.4, 3, 0.2, 3), order=1),
    ...     target=lambda obs: np.column_stack([obs[:, 2] < 0, obs[:, 2] >= 0]),
    ...     behaviour=lambda obs: np.full((len(obs), 2), 0.5),
    ...     gamma=0.9,
    ... )
    >>> learn(GES(0.3), cart, alpha=0.001, beta=0.01, steps=500, rng=0)
    Run(GES(0.3), updates=500, settings=(), p=32, diverged=0 of 1)
    """
    space = getattr(env, "action_space", None)
    count, first = getattr(space, "n", None), getattr(space, "start", None)
    if count is None or first is None:
        raise InvalidParameter(
            f"from_gymnasium: the environment's action space must be Discrete, got {space!r}."
        )
    actions = int(count)
    discount = _validate.unit("from_gymnasium", "gamma", gamma)
    pi, mu = (
        _checked(name, policy, actions)
        for name, policy in (("target", target), ("behaviour", behaviour))
    )
    placeholder = np.full((1, actions), 1.0 / actions)
    return Environment(
        name=getattr(getattr(env, "spec", None), "id", None) or type(env).__name__,
        simulator=lambda rng: EnvironmentSampler(env, int(first), pi, mu, discount, rng),
        features=features,
        target=placeholder,
        behaviour=placeholder,
        gamma=discount,
        dimensions=int(np.prod(env.observation_space.shape or (1,))),
        values=values,
        shared=shared,
    )


class Environment(Simulation):
    """A simulation whose policies are known only at visited observations."""

    one_at_a_time: ClassVar[bool] = True

    def streamer(self, rules: Sequence[Rule]) -> Callable[[Any], Any]:
        """Refuse traces that depend on the policies at all states."""
        for rule in rules:
            if not rule.trace.pointwise:
                raise RuleMismatch(
                    f"{rule} needs the extrema of the policies over all states, which are unknown "
                    "for an environment: declare them, e.g. "
                    "ActionDependent(zeta, extrema=(0.1, 0.9))."
                )
        return super().streamer(rules)


class EnvironmentSampler:
    """Unlimited experience of μ in an environment; only one sampler may step it at a time."""

    def __init__(
        self,
        env: Any,
        first_action: int,
        target: Policy,
        behaviour: Policy,
        gamma: float,
        rng: np.random.Generator,
    ) -> None:
        self._env, self._pi, self._mu = env, target, behaviour
        self._first = first_action
        self._gamma, self._rng = gamma, rng
        first, _ = env.reset(seed=int(rng.integers(2**31)))
        self._observation = _vector(first)
        self._action = self._choose(self._observation)
        self._start = True

    def _choose(self, observation: FloatArray) -> int:
        probabilities = np.cumsum(np.asarray(self._mu(observation[None]))[0])
        return int(np.searchsorted(probabilities, self._rng.random() * probabilities[-1], "right"))

    def take(self, steps: int) -> Trajectory:
        """Return the next ``steps`` steps."""
        rows = []
        for _ in range(steps):
            observation, action, start = self._observation, self._action, self._start
            result, reward, terminated, truncated, _ = self._env.step(self._first + action)
            following = _vector(result)
            bootstrap = self._choose(following)
            self._start = bool(terminated or truncated)
            if self._start:
                self._observation = _vector(self._env.reset()[0])
                self._action = self._choose(self._observation)
            else:
                self._observation, self._action = following, bootstrap
            discount = 0.0 if terminated else self._gamma
            rows.append((observation, following, action, bootstrap, float(reward), discount, start))
        current, following_, actions, nexts, rewards, discounts, starts = zip(*rows, strict=True)
        observations, next_observations = np.array(current), np.array(following_)
        _validate.finite("rewards", np.array(rewards))
        _validate.finite("next observations", next_observations)
        _validate.finite("observations", observations)
        both = np.concatenate([observations, next_observations])
        pi, mu = (np.asarray(f(both), dtype=np.float64) for f in (self._pi, self._mu))
        used = np.concatenate([np.ones(steps, dtype=bool), np.array(discounts) > 0])
        for n, a in np.argwhere((pi > 0) & (mu == 0) & used[:, None])[:1]:
            raise CoverageError(
                f"the target policy takes action {a} at observation {both[n].tolist()}, which the "
                "behaviour policy never takes there."
            )
        return Trajectory(
            observations=observations,
            next_observations=next_observations,
            kinds=np.arange(steps),
            next_kinds=np.arange(steps, 2 * steps),
            actions=np.array(actions, dtype=np.int64),
            next_actions=np.array(nexts, dtype=np.int64),
            rewards=np.array(rewards),
            discounts=np.array(discounts),
            starts=np.array(starts, dtype=np.bool_),
            target=pi,
            behaviour=mu,
        )


def _vector(observation: Any) -> FloatArray:
    return np.atleast_1d(np.asarray(observation, dtype=np.float64)).ravel()


def _checked(name: str, policy: Policy, actions: int) -> Policy:
    """Return the policy with validation of its probabilities."""
    if not callable(policy):
        raise InvalidParameter(f"{name} must be a function of observations, got {policy!r}.")

    def checked(observations: FloatArray) -> FloatArray:
        probabilities = _validate.floats(name, policy(observations))
        _validate.shape(name, probabilities, (len(observations), actions))
        _validate.stochastic(name, probabilities)
        return probabilities

    return checked
