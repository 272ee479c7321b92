"""Functions of a user that write, are random, or depend on the batch are refused everywhere."""

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import saddleback as sb
from helpers.logs import columns
from saddleback.cli.group import group
from saddleback.errors import InvalidParameter
from saddleback.features import Active, Custom, Polynomial

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
    return pytest.raises(InvalidParameter, match=f"^{place}: {fault}")


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


def test_a_q_that_writes_is_refused():
    with refused("writing writes", "q of 'uniform'"):
        sb.doubly_robust(sb.Log(LOG), "uniform", gamma=0.9, q=MODULE["writing"])


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
