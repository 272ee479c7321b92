"""Policies, behaviours and features that take the columns of the observation by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import saddleback as sb
from saddleback.errors import SaddlebackError
from saddleback.log.named_columns import columns_kind
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic

if TYPE_CHECKING:
    import pandas as only_for_types

DATA = clinic(60, rng=0)


def dose_probabilities(lactate):
    sick = (np.asarray(lactate) > 3.0)[:, None]
    return np.where(sick, [0.15, 0.6, 0.25], [0.4, 0.5, 0.1])


def by_position(obs):
    return dose_probabilities(obs[:, 2])


def by_dict(obs: dict[str, np.ndarray]):
    return dose_probabilities(obs["lactate"])


def by_mapping(obs: Mapping[str, np.ndarray]):
    return dose_probabilities(obs["lactate"])


def by_pandas(obs: pd.DataFrame):
    return dose_probabilities(obs.lactate)


def by_polars(obs: pl.DataFrame):
    return dose_probabilities(obs["lactate"].to_numpy())


def by_arrow(obs: pa.Table):
    return dose_probabilities(obs["lactate"].to_numpy())


def by_unresolved(obs: only_for_types.DataFrame):
    return dose_probabilities(obs["lactate"])


@sb.policies.named_columns
def by_mark(obs):
    return dose_probabilities(obs["lactate"])


class Model:
    """A callable object with its own annotation."""

    def __call__(self, obs: dict):
        return dose_probabilities(obs["lactate"])


KINDS = {
    by_position: None, by_dict: "dict", by_mapping: "dict", by_pandas: "pandas",
    by_polars: "polars", by_arrow: "pyarrow", by_unresolved: "pandas", by_mark: "dict",
    Model(): "dict", np.sin: None, sb.policies.pump(0.8): None,
}  # fmt: skip


def name_of(value):
    return str(getattr(value, "__name__", type(value).__name__ if callable(value) else value))


@pytest.mark.parametrize(("policy", "kind"), KINDS.items(), ids=name_of)
def test_the_annotation_or_the_decorator_decides(policy, kind):
    assert columns_kind(policy) == kind


@pytest.mark.parametrize("policy", [p for p, kind in KINDS.items() if kind], ids=name_of)
def test_policies_get_columns_by_name(policy):
    log = sb.Log(DATA, observations=SIGNS, actions=DOSES)
    turned = sb.Log(DATA, observations=SIGNS[::-1], actions=DOSES)
    rows = log.start_states()
    expected = by_position(rows)
    np.testing.assert_array_equal(sb.as_target(policy, log).at(rows, 3), expected)
    np.testing.assert_array_equal(sb.as_target(policy, turned).at(rows[:, ::-1], 3), expected)


def test_a_function_in_a_file_takes_named_columns(tmp_path):
    (tmp_path / "policy.py").write_text(
        "import numpy as np\n\n\ndef probs(obs: dict):\n"
        "    sick = (obs['lactate'] > 3.0)[:, None]\n"
        "    return np.where(sick, [0.15, 0.6, 0.25], [0.4, 0.5, 0.1])\n",
        encoding="utf-8",
    )
    log = sb.Log(DATA, observations=SIGNS, actions=DOSES)
    target = sb.as_target(f"{tmp_path / 'policy.py'}:probs", log)
    rows = log.start_states()
    np.testing.assert_array_equal(target.at(rows, 3), by_position(rows))


@pytest.mark.slow
def test_behaviours_and_features_take_named_columns():
    def squares(obs: dict):
        return np.column_stack([np.ones(len(obs["hr"])), obs["hr"] / 100, obs["lactate"] / 5])

    bare = {name: values for name, values in DATA.items() if name != "behavior_prob"}
    log = sb.Log(bare, observations=SIGNS, actions=DOSES, behaviour=by_dict)
    plain = sb.Log(bare, observations=SIGNS, actions=DOSES, behaviour=by_position)
    one, other = (
        sb.evaluate(data, "uniform", gamma=0.9, features=squares, methods=[])
        for data in (log, plain)
    )
    assert one.estimates[0].value == other.estimates[0].value


def test_a_missing_column_is_reported_with_the_existing_ones():
    log = sb.Log(DATA, observations=SIGNS, actions=DOSES)

    def wrong(obs: dict):
        return obs["sofa"]

    with pytest.raises(SaddlebackError, match="sofa: the observation has the columns hr, bp, lac"):
        sb.as_target(wrong, log).at(log.start_states(), 3)


def test_entries_of_a_list_are_named_by_index():
    data = {name: values for name, values in DATA.items() if name not in SIGNS}
    data = {name: values for name, values in data.items() if not name.startswith("next_")}
    data["obs"] = np.column_stack([DATA[name] for name in SIGNS])
    log = sb.Log(data, actions=DOSES)

    def policy(obs: dict):
        return dose_probabilities(obs["obs[2]"])

    rows = log.start_states()
    np.testing.assert_array_equal(sb.as_target(policy, log).at(rows, 3), by_position(rows))


def test_the_logged_policy_takes_named_columns():
    bare = {name: values for name, values in DATA.items() if name != "behavior_prob"}
    log = sb.Log(bare, observations=SIGNS, actions=DOSES, behaviour=by_dict)
    rows = log.start_states()
    np.testing.assert_array_equal(sb.as_target("logged", log).at(rows, 3), by_position(rows))


def test_the_signature_of_an_adapter_counts():
    @functools.wraps(by_dict)
    def adapter(array):
        return by_dict({"lactate": array[:, 2]})

    @functools.wraps(by_mark)
    def other(array):
        return by_mark({"lactate": array[:, 2]})

    assert columns_kind(adapter) is None
    assert columns_kind(other) is None


def test_unresolvable_annotations_are_read_as_text():
    def policy(obs: dict[str, nowhere.array]):  # noqa: F821
        return obs

    assert columns_kind(policy) == "dict"


def test_only_functions_can_be_decorated():
    class Slotted:
        __slots__ = ()

        def __call__(self, obs):
            return obs

    with pytest.raises(SaddlebackError, match="named_columns cannot set an attribute"):
        sb.policies.named_columns(Slotted())
