"""Learning problems on which the engine on a device must agree with the engine on the CPU."""

import numpy as np

import saddleback as sb
from helpers.problems import problem_for, rule_named
from oracles import naive
from saddleback import features
from saddleback.rules import Coefficients, SemiGradient, forms

SIZES = dict(alpha=np.array([0.001, 0.03, 0.7, 3.0])[:, None], beta=np.array([0.02, 0.3]))
"""Step sizes, some of which make learners diverge."""

WEIGHTS = dict(theta0=0.3, omega0=-0.2)


def rules(termination, parameter, steps=700):
    """Return a case for every rule of the oracle."""

    def case(name):
        problem = problem_for(name, seed=11, termination=termination)
        options = dict(steps=steps, record=50, rng=2, bound=1e4, **WEIGHTS)
        return rule_named(name, parameter), problem, options

    suffix = "episodic" if termination else "continuing"
    return {f"{name}({parameter}), {suffix}": (case, name) for name in naive.ALGORITHMS}


def form(name):
    """Every form of update; those with further traces on state values."""
    update, options = FORMS[name], dict(steps=600, rng=3, bound=1e5, **WEIGHTS)
    if update.has_further_traces:
        return sb.Rule(sb.Importance(0.7), update, sb.State()), problem_for("TD", seed=14), options
    return sb.Rule(sb.Retrace(0.7), update, sb.Expected()), problem_for("GES", seed=14), options


class EveryTerm(sb.Form):
    """A form with every coefficient, and so with a second trace."""

    coefficients = Coefficients(0.9, 0.6, 0.3, 1.1, 0.7, 0.2, 0.4, 0.5)


class EveryTermTrueOnline(EveryTerm):
    """The same with dutch traces, and so without a second trace of another kind."""

    coefficients = EveryTerm.coefficients._replace(hybrid=0.0)
    true_online = True


FORMS = {
    "EveryTerm": EveryTerm(),
    "EveryTermTrueOnline": EveryTermTrueOnline(),
    "SemiGradient": SemiGradient(),
    "Saddle": forms.Saddle(),
    "SplitSaddle": forms.SplitSaddle(),
    "Correction": forms.Correction(),
    "UpdateNorm": forms.UpdateNorm(),
    "RegularisedCorrection": forms.RegularisedCorrection(2.5),
}


def schedule(power):
    """Step sizes that fall, with offsets."""
    sizes = {key: sb.Schedule(SIZES[key], power, offset) for key, offset in OFFSETS.items()}
    chosen = [sb.TDRC(0.6), sb.HTD(0.6), sb.TrueOnlineGTD(0.6)]
    return chosen, problem_for("TDRC", seed=14), dict(steps=400, rng=5, **WEIGHTS) | sizes


OFFSETS = {"alpha": 10, "beta": 3.5}


def shrinkage(beta):
    """ω shrinks by 1 − β: to zero in one step, with alternating sign, or until it is folded in."""
    sizes = dict(alpha=[1e-4, 1e-3], beta=beta)
    return sb.GTD(), problem_for("GTD", seed=20), dict(steps=1500, rng=5, bound=1e100) | sizes


def mountain_car(features_name):
    """Runs of different lengths, with binary, hashed (with repeats) or dense features."""
    car = sb.problems.mountain_car(features=FEATURES[features_name])
    chosen = [sb.GES(0.9), sb.GQ(0.99), sb.ExpectedSarsa(0.6), sb.GTB(0.0)]
    return chosen, car, EPISODES


def state_values(_):
    """The same for rules with further traces, and one without them."""
    chosen = [sb.HTD(0.9), sb.TrueOnlineTD(0.9), sb.TrueOnlineGTD(0.99), sb.TrueOnlineETD(0.6)]
    return [*chosen, sb.TDC(0.9)], sb.problems.mountain_car(values="state"), EPISODES


EPISODES = dict(episodes=6, runs=3, rng=1, record=2, theta0=-1.0)
LOW, HIGH = (-1.2, -0.07), (0.6, 0.07)
FEATURES = {
    "tiles": features.Tiles(LOW, HIGH, bins=8, tilings=5),
    "hashed": features.Tiles(LOW, HIGH, bins=8, tilings=6, table=23),
    "fourier": features.Fourier(LOW, HIGH, order=2),
}


def overflow(_):
    """A trace that grows tenfold per step until it overflows, and then stops."""
    steps = 700
    stream = sb.Stream.of(
        phi=np.eye(3)[np.arange(steps) % 3], bootstrap=np.zeros((steps, 3)), rewards=np.ones(steps),
        discounts=np.full(steps, 0.9), decay=np.repeat([10.0, 0.1], [500, steps - 500]),
    )  # fmt: skip
    return (
        [sb.GES(0.5), sb.TrueOnlineTD(0.5)],
        stream,
        dict(alpha=[1.0, 1e-300], beta=[1.0, 1e-300], bound=1e6),
    )


def endless(decay):
    """A trace that never resets, on a stream with an x of its own and sparse rows."""
    rng, steps, p = np.random.default_rng(3), 900, 40
    phi, b, x = (rng.normal(size=(steps, p)) * (rng.random((steps, p)) < 0.15) for _ in range(3))
    stream = sb.Stream.of(
        phi=phi, bootstrap=b, correction=x, rewards=rng.normal(size=steps), discounts=0.8,
        decay=decay * rng.uniform(0.5, 1.0, steps), weight=rng.uniform(0.1, 2.0, steps),
    )  # fmt: skip
    chosen = [sb.GQ(0.5), sb.GES(0.5), sb.TD(0.5), sb.TrueOnlineTD(0.5)]
    return chosen, stream, dict(bound=1e5, record=250, **WEIGHTS)


CASES = {
    **rules(0.0, 0.6), **rules(0.0, 1.0), **rules(0.15, 0.0), **rules(0.15, 0.8),
    **{f"form {name}": (form, name) for name in FORMS},
    **{f"schedule {power}": (schedule, power) for power in (0.5, 1.0)},
    **{f"shrinkage {beta}": (shrinkage, beta) for beta in (0.5, 1.0, 1.5, 2.0, 2.5)},
    **{f"MountainCar, {name}": (mountain_car, name) for name in FEATURES},
    "MountainCar, state values": (state_values, None),
    **{f"endless {decay}": (endless, decay) for decay in (1e-7, 0.3, 0.99, 1.4)},
    "overflow": (overflow, None),
}  # fmt: skip
"""Functions of one argument that return rules, a problem and options of `learn`; by name."""


def compare(name, device="cuda", **more):
    """Learn a case on the CPU and on a device; return pairs of runs, by rule."""
    make, argument = CASES[name]
    rules, problem, options = make(argument)
    options = SIZES | options | more
    pairs = []
    for one in rules if isinstance(rules, list) else [rules]:
        pairs.append([sb.learn(one, problem, device=d, **options) for d in ("cpu", device)])
    return pairs


def assert_same(expected, run, rtol=1e-9):
    """The numbers of a run on a device are those on the CPU, to rounding."""
    assert run.updates.tolist() == expected.updates.tolist()
    assert (run.ok == expected.ok).all()
    assert np.abs(run.diverged_at - expected.diverged_at).max() <= 1
    same = run.diverged_at == expected.diverged_at
    for actual, desired in ((run.theta, expected.theta), (run.omega, expected.omega)):
        scale = np.abs(desired).max(axis=-1, keepdims=True)
        assert (np.abs(actual - desired) <= rtol * scale)[same].all()
    assert run.curves.keys() == expected.curves.keys()
    for metric, curve in expected.curves.items():
        actual = run.curves[metric]
        assert (np.isinf(actual) == np.isinf(curve)).all()
        start = curve[:1]  # an objective near 0 is rounded relative to where it started
        finite = np.isfinite(curve)
        scale = np.maximum(curve, start)[finite]
        assert (np.abs(actual[finite] - curve[finite]) <= rtol * scale).all()
