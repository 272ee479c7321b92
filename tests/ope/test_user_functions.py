"""Functions of a user that write, are random, or depend on the batch are refused everywhere."""

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import saddleback as sb
from helpers.linear_quadratic import NEW, simulate
from helpers.logs import columns
from saddleback.cli.group import group
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.features import Active, Custom, Polynomial

pytestmark = pytest.mark.usefixtures("few_candidates")

LOG = columns([5] * 60, "terminated", seed=1)
BOX = Polynomial((-4.0, -4.0), (4.0, 4.0), 1)
OPTIONS = {"gamma": 0.9, "methods": []}

SOURCE = """
import numpy as np

def softmax(obs):
    z = np.exp(np.column_stack([obs, np.zeros(len(obs))]))
    return z / z.sum(axis=1, keepdims=True)

def writing(obs):
    obs -= obs.mean(axis=0)
    return softmax(obs)

def writing_by_name(obs: dict):
    obs["obs_0"][:] = 0.0
    return softmax(np.column_stack(list(obs.values())))

def sampled(obs):
    return np.eye(3)[np.random.default_rng().integers(3, size=len(obs))]

def centred(obs):
    return softmax(obs - obs.mean(axis=0))

def hardly_centred(obs):
    return softmax(obs - 1e-7 * obs.mean(axis=0))

def single(obs):  # a network whose last layer has double precision
    hidden = obs.astype(np.float32) @ np.array([[1.0, 0.1], [0.1, 1.0]], dtype=np.float32)
    return softmax(hidden * np.float32(1 + 1e-6 * len(obs) / 256))
"""
MODULE: dict = {}
exec(SOURCE, MODULE)

FAULTS = [
    ("writing", r"writing writes into the observations that it is given. Let it work on a copy"),
    ("writing_by_name", "writing_by_name writes into the observations"),
    ("sampled", "sampled gives the same observations other results when it is called again"),
    ("centred", r"centred gives an observation another result in another batch \(by up to 0"),
    ("hardly_centred", r"hardly_centred gives an observation .* batch \(by up to \d\.?\d*e-0[89]"),
]


def refused(fault, place):
    code = "E144 " if place.endswith("policy") else ""
    return pytest.raises(InvalidParameter, match=f"^{code}{place}: {fault}")


@dataclass
class Own:
    """Features of a user that are not `Custom`."""

    function: object
    size: int = 3
    dimensions: int = 2

    def encode(self, observations):
        value = self.function(observations)
        return Active(np.tile(np.arange(3, dtype=np.uint32), (len(value), 1)), value)


@pytest.mark.kernel
@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_faulty_functions_are_refused(name, fault):
    function, log = MODULE[name], sb.Log(LOG)
    with refused(fault, "target 'new' policy"):
        sb.evaluate(log, {"new": function}, features=BOX, **OPTIONS)
    with refused(fault, "target 'new' policy"):
        sb.importance_sampling(log, {"new": function}, gamma=0.9)
    with refused(fault, "target 'new' policy"):
        sb.Statistics.of(log, sb.GES(0.0), {"new": function}, features=BOX, gamma=0.9)
    with refused(fault, "behaviour policy"):
        sb.Log(LOG, behaviour=function).summary()
    with refused(fault, "features"):
        sb.evaluate(log, "uniform", features=function, **OPTIONS)
    if "by_name" not in name:
        with refused(fault, "features"):
            sb.evaluate(log, "uniform", features=Custom(function, 3), **OPTIONS)
        with refused(fault.replace(name, "Own.encode"), "features"):
            sb.evaluate(log, "uniform", features=Own(function), **OPTIONS)


def both(obs, actions):
    return np.column_stack([np.ones(len(obs)), obs, actions, obs * obs, actions * actions])


JOINT_SOURCE = """
import numpy as np

def writing(obs, actions):
    obs -= 0.5
    return both(obs, actions)

def writing_actions(obs, actions):
    actions[:] = 0.0
    return both(obs, actions)

def sampled(obs, actions):
    return both(obs, actions) + np.random.default_rng().normal(size=(len(obs), 9))

def centred(obs, actions):
    return both(obs - obs.mean(axis=0), actions)
"""
JOINT: dict = {"both": both}
exec(JOINT_SOURCE, JOINT)
CONTINUOUS = simulate(24, 6, noise=0.05, ends="terminated")


def linear(obs):
    return obs @ NEW.T


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("writing", "writing writes into the observations or actions that it is given"),
        ("writing_actions", "writing_actions writes into the observations or actions"),
        ("sampled", "sampled gives the same observations other results when it is called again"),
        ("centred", r"centred gives an observation another result in another batch \(by up to 0"),
    ],
)
def test_faulty_functions_of_continuous_actions_are_refused(name, fault):
    with refused(fault, "features"):
        sb.evaluate(sb.Log(CONTINUOUS), linear, features=JOINT[name], **OPTIONS)


def test_features_of_continuous_actions_may_return_one_array_again():
    buffer = np.zeros((10_000, 9))

    def reusing(obs, actions):
        rows = buffer[: len(obs)]
        rows[:] = both(obs, actions)
        return rows

    results = [
        sb.evaluate(sb.Log(CONTINUOUS), linear, features=features, **OPTIONS)
        for features in (both, reusing)
    ]
    values = [result.verdicts[0].value for result in results]
    gaps = [result.verdicts[0].gap for result in results]
    assert (values[0], gaps[0]) == (values[1], gaps[1])


@pytest.mark.parametrize("horizon", [None, pytest.param(10, marks=pytest.mark.slow)])
def test_features_of_continuous_actions_that_change_later_are_refused(horizon):
    calls, later = [], [np.inf]

    def moody(obs, actions):
        calls.append(len(obs))
        features = both(obs, actions)
        return features if len(calls) <= later[0] else features + 1.0

    def evaluate():
        calls.clear()
        return sb.evaluate(sb.Log(CONTINUOUS), linear, features=moody, horizon=horizon, **OPTIONS)

    evaluate()
    for later[0] in (6, len(calls) - 2):
        with refused("moody gives the same observations other results", "features"):
            evaluate()


@pytest.mark.parametrize(
    ("fault", "returned"),
    [
        (r"for \d+ observations and actions the function must return", lambda f: f[:-1]),
        ("failed: ValueError: no", None),
        ("every entry must be finite", lambda f: f * np.nan),
    ],
)
def test_features_of_continuous_actions_that_fail_later_are_reported(fault, returned):
    def features(obs, actions):
        if len(obs) <= 2:
            return both(obs, actions)
        if returned is None:
            raise ValueError("no")
        return returned(both(obs, actions))

    with pytest.raises(SaddlebackError, match=fault):
        sb.evaluate(sb.Log(CONTINUOUS), linear, features=features, **OPTIONS)


@pytest.mark.parametrize(
    ("name", "fault"), [fault for fault in FAULTS if "by_name" not in fault[0]]
)
def test_a_faulty_q_is_refused(name, fault):
    with refused(fault, "q of 'uniform'"):
        sb.doubly_robust(sb.Log(LOG), "uniform", gamma=0.9, q=MODULE[name])


def test_a_q_that_changes_later_is_refused():
    calls = []

    def moody(obs):
        calls.append(len(obs))
        return MODULE["softmax"](obs) + (len(calls) > 5)

    with refused("moody gives the same observations other results", "q of 'uniform'"):
        sb.doubly_robust(sb.Log(LOG), "uniform", gamma=0.9, q=moody)


def test_a_q_may_return_one_array_again():
    """Where it replaces the tails of truncated episodes it is called twice for a segment."""
    log, buffer = sb.Log(columns([5, 8] * 30, "truncated", seed=1)), np.zeros((1000, 3))

    def reusing(obs):
        rows = buffer[: len(obs)]
        rows[:] = MODULE["softmax"](obs)
        return rows

    fresh, reused = (
        sb.doubly_robust(log, "uniform", gamma=0.9, q=q, bootstrap_truncated=True)["uniform"]
        for q in (MODULE["softmax"], reusing)
    )
    assert fresh.estimate("DR").value == reused.estimate("DR").value
    assert fresh.estimate("WDR").value == reused.estimate("WDR").value


def test_a_write_past_numpy_is_found():
    def hidden(observations):
        address = observations.__array_interface__["data"][0]
        np.ctypeslib.as_array((np.ctypeslib.ctypes.c_double * 1).from_address(address))[0] += 1.0
        return MODULE["softmax"](observations)

    with refused("hidden writes", "target 'hidden' policy"):
        sb.evaluate(sb.Log(LOG), hidden, features=BOX, **OPTIONS)


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["softmax", "single"])
def test_good_functions_pass(name):
    """The rounding of single precision may depend on the batch, whatever is returned."""
    function, log = MODULE[name], sb.Log(LOG)
    result = sb.evaluate(log, {"new": function}, features=function, **OPTIONS)
    other = sb.evaluate(
        log, {"new": lambda o: function(o.copy())}, features=Own(function), **OPTIONS
    )
    assert result.estimates[0].value == pytest.approx(other.estimates[0].value, rel=1e-9)


def test_a_policy_may_return_its_argument():
    data = LOG | {f"obs_{a}": LOG[f"mu_{a}"] for a in range(3)}
    data |= {f"next_obs_{a}": np.full(300, np.nan) for a in range(3)}
    result = sb.evaluate(sb.Log(data), lambda obs: obs, features=lambda obs: obs, **OPTIONS)
    assert np.isfinite(result.estimates[0].value)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"features": "auto"}, {"horizon": 5}])
@pytest.mark.parametrize("place", ["target 'new' policy", "features"])
def test_a_function_that_changes_later_is_refused(place, options):
    calls, later = [], [np.inf]

    def moody(obs):
        calls.append(len(obs))
        return MODULE["softmax"](obs) if len(calls) <= later[0] else np.full((len(obs), 3), 1 / 3)

    def evaluate():
        calls.clear()
        if place == "features":
            return sb.evaluate(sb.Log(LOG), "uniform", **OPTIONS | options | {"features": moody})
        return sb.evaluate(sb.Log(LOG), {"new": moody}, **{"features": BOX} | OPTIONS | options)

    evaluate()
    for later[0] in (6, len(calls) - 2):  # after the check; before the last pass ends
        with refused(".*moody gives the same observations other results", place):
            evaluate()


@pytest.mark.slow
def test_policies_may_return_the_same_array_again():
    log, shared = sb.Log(LOG, segment=50), np.empty((len(LOG["reward"]), 3))

    def into(policy):
        def filled(obs):
            shared[: len(obs)] = policy(obs)
            return shared[: len(obs)]

        return filled

    plain = {"new": MODULE["softmax"], "even": lambda obs: np.full((len(obs), 3), 1 / 3)}
    policies = {name: into(policy) for name, policy in plain.items()}
    results = [sb.evaluate(log, given, features=BOX, **OPTIONS) for given in (plain, policies)]
    assert results[0].as_dict()["estimates"] == results[1].as_dict()["estimates"]


def test_an_object_that_fails_when_it_is_looked_at_is_refused():
    class Proxy:
        def __call__(self, obs):
            return MODULE["softmax"](obs)

        def __getattr__(self, name):
            return 3

    with pytest.raises(InvalidParameter, match="target 'Proxy' cannot be used as a policy: TypeE"):
        sb.evaluate(sb.Log(LOG), Proxy(), features=BOX, **OPTIONS)


def test_what_numpy_does_with_overflows_is_not_theirs_to_set():
    def strict(obs):
        np.seterr(all="raise")
        return MODULE["softmax"](obs)

    before = np.geterr()
    usual = sb.evaluate(sb.Log(LOG), {"new": MODULE["softmax"]}, features=BOX, **OPTIONS)
    with np.errstate(all="raise"):
        result = sb.evaluate(sb.Log(LOG), {"new": strict}, features=BOX, **OPTIONS)
    assert result.as_dict()["estimates"] == usual.as_dict()["estimates"]
    assert np.geterr() == before


def test_an_error_of_their_own_is_reported_as_such():
    def broken(observations):
        np.broadcast_to(0.0, 3)[0] = 1.0

    with pytest.raises(sb.errors.SaddlebackError, match="failed: ValueError: assignment dest"):
        sb.evaluate(sb.Log(LOG), broken, features=BOX, **OPTIONS)


@pytest.mark.parametrize("command", ["evaluate", "rank", "stats"])
def test_commands_refuse_them(command, tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    pq.write_table(sb.Log(LOG).sources[0].table, tmp_path / "log.parquet")
    arguments = [command, tmp_path / "log.parquet", "--gamma", 0.9]
    arguments += ["--out", tmp_path / "x.stats"] * (command == "stats")
    for name, part in (
        ("writing", "obs.copy()"),
        ("sampled", "deterministic"),
        ("centred", "alone"),
    ):
        for target, features in ((f"{tmp_path}/mine.py:{name}", "polynomial:1"),
                                 ("uniform", f"{tmp_path}/mine.py:{name}")):  # fmt: skip
            more = [*arguments, "--target", target, "--features", features]
            result = CliRunner().invoke(group, list(map(str, more)))
            assert result.exit_code == 2, result.output
            assert part in " ".join(result.stderr.split())
