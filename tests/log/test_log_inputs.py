"""The same rows give the same transitions, from any input and after writing and reading."""

import json

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.log_cases import good, parquet
from helpers.logs import assert_same_content, columns, content, mixed
from saddleback.errors import InvalidParameter
from saddleback.log import Log, LogError, row_source
from saddleback.log.row_source import METADATA

NAMES = ["left", "stay", "right"]


def table(**options):
    """Return a mixed log as an Arrow table, with nulls for unknown values."""
    return pa.table(
        {
            name: pa.array(column, from_pandas=name.startswith("next_"))
            for name, column in mixed(**options).items()
        }
    )


# Inputs.


def as_fixed_list(data, matrix="obs"):
    """Return the columns with the observation as one matrix."""
    kept = {
        name: column for name, column in data.items() if not name.startswith(("obs", "next_obs"))
    }
    kept["obs"] = np.column_stack([data["obs_0"], data["obs_1"]])
    if "next_obs_0" in data:
        kept["next_obs"] = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    return kept


INPUTS = {
    "dict": lambda data, folder: data,
    "dict of lists": lambda data, folder: {k: v.tolist() for k, v in data.items()},
    "dict of Arrow": lambda data, folder: {k: pa.array(v) for k, v in data.items()},
    "matrix": lambda data, folder: as_fixed_list(data),
    "arrow": lambda data, folder: pa.table(data),
    "chunked arrow": lambda data, folder: pa.concat_tables(
        [pa.table(data).slice(0, 5), pa.table(data).slice(5)]
    ),
    "record batch": lambda data, folder: pa.table(data).combine_chunks().to_batches()[0],
    "arrow list": lambda data, folder: pa.table(Log(as_fixed_list(data)).sources[0].table),
    "pandas": lambda data, folder: pandas.DataFrame(data),
    "pandas, null for NaN": lambda data, folder: pandas.DataFrame(data).convert_dtypes(),
    "pandas, index": lambda data, folder: pandas.DataFrame(data).set_index("episode_id"),
    "polars": lambda data, folder: polars.DataFrame(data),
    "polars lazy": lambda data, folder: polars.LazyFrame(data),
    "polars scan": lambda data, folder: polars.scan_parquet(folder / "one.parquet"),
    "duckdb": lambda data, folder: duckdb.from_arrow(pa.table(data)),
    "duckdb file": lambda data, folder: duckdb.sql(
        f"select * from '{folder / 'one.parquet'}' order by episode_id, step"
    ),
    "polars array": lambda data, folder: polars.DataFrame(as_fixed_list(data)),
    "parquet": lambda data, folder: folder / "one.parquet",
    "list of one": lambda data, folder: [str(folder / "one.parquet")],
    "files": lambda data, folder: [folder / "parts" / f"part{i}.parquet" for i in range(4)],
    "pattern": lambda data, folder: str(folder / "parts" / "*.parquet"),
    "folder": lambda data, folder: folder / "parts",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("logs")
    data = table()
    parquet(place / "one.parquet", data, row_group=7)
    (place / "parts").mkdir()
    for i, at in enumerate([0, 3, 40, 41]):
        end = [3, 40, 41, len(data)][i]
        parquet(place / "parts" / f"part{i}.parquet", data.slice(at, end - at), row_group=5)
    return place


@pytest.mark.parametrize("form", INPUTS)
def test_every_input_gives_the_same_transitions(form, folder):
    assert_same_content(content(Log(INPUTS[form](mixed(), folder))), content(Log(mixed())))


def test_queries_are_streamed_and_run_again(monkeypatch, folder):
    monkeypatch.setattr(row_source, "BATCH", 7)
    for query in (INPUTS["polars scan"](None, folder), INPUTS["duckdb file"](None, folder)):
        log = Log(query, order_by="step")
        assert_same_content(content(log), content(Log(query).with_options(order_by="step")))
        (part,) = Log(query).sources
        assert max(batch.num_rows for batch in part.batches(["reward"])) <= 7


TEXT = {
    "dict": lambda data: data,
    "pandas": pandas.DataFrame,
    "pandas category": lambda data: pandas.DataFrame(data).astype(
        {"action": "category", "episode_id": "category"}
    ),
    "polars": polars.DataFrame,
    "polars category": lambda data: polars.DataFrame(data).with_columns(
        polars.col("action").cast(polars.Categorical),
        polars.col("episode_id").cast(polars.Categorical),
    ),
    "polars enum": lambda data: polars.DataFrame(data).with_columns(
        polars.col("action").cast(polars.Enum(["stay", "right", "left"]))
    ),
    "arrow view": lambda data: pa.table(data).cast(
        pa.schema([
            pa.field(n, pa.string_view() if n in ("action", "episode_id") else t)
            for n, t in zip(pa.table(data).column_names, pa.table(data).schema.types, strict=True)
        ])
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", TEXT)
def test_text_actions_and_ids_give_the_same_transitions(form):
    data = mixed()
    text = data | {
        "action": np.array(NAMES)[data["action"]],
        "episode_id": np.array([f"visit {i}" for i in data["episode_id"]]),
    }
    log = Log(TEXT[form](text), actions=NAMES)
    assert log.action_names == tuple(NAMES)
    expected, transitions = content(Log(data)), content(log)
    assert len(set(transitions.pop("ids"))) == len(set(expected.pop("ids")))
    assert_same_content(transitions, expected)


def test_categorical_numbers_give_the_same_transitions():
    data = mixed()
    frame = pandas.DataFrame(data).astype({"action": "category", "episode_id": "category"})
    assert_same_content(content(Log(frame)), content(Log(data)))


def test_arrays_of_another_byte_order_give_the_same_transitions():
    swapped = {
        name: column.astype(column.dtype.newbyteorder(">")) for name, column in mixed().items()
    }
    assert_same_content(content(Log(swapped)), content(Log(mixed())))


def test_masked_values_are_missing():
    masked = np.ma.masked_array(mixed()["reward"], np.arange(len(mixed()["reward"])) == 3)
    with pytest.raises(LogError, match="E120 reward is NaN in 1 row"):
        content(Log(mixed() | {"reward": masked}))


def test_numbers_that_arrow_lacks_are_refused():
    ids = [2**70 + int(number) for number in mixed()["episode_id"]]
    with pytest.raises(InvalidParameter, match="column 'episode_id' cannot be converted to Arrow"):
        Log(mixed() | {"episode_id": ids})


@pytest.mark.parametrize("value", [2, -1])
def test_flags_are_true_or_false(value):
    flags = np.where(mixed()["terminated"], value, 0)
    with pytest.raises(LogError, match=f"'terminated' contains {value}; flags must be true or fal"):
        content(Log(mixed() | {"terminated": flags}))


@pytest.mark.parametrize("actions", [{"left", "stay"}, 3, iter("ab"), {"left": 0, "stay": 1}])
def test_names_without_an_order_are_refused(actions):
    with pytest.raises(InvalidParameter, match="actions must be a list of names in their order"):
        Log(mixed(), actions=actions)


def test_steps_beyond_the_numbers_of_arrow_are_refused():
    step = mixed()["step"].astype(np.uint64) + np.uint64(2**63)
    with pytest.raises(LogError, match=r"E134 episode .* starts at step 9223372036854775808[. ]"):
        content(Log(mixed() | {"step": step}))
    step = good()["step"].astype(np.uint64)
    step[step == 2] += np.uint64(2**63)
    with pytest.raises(LogError, match=r"E130 .* step jumps from 1 to 9223372036854775810[. ]"):
        content(Log(good() | {"step": step}))


def test_action_names_are_inferred_and_sorted():
    data = mixed(mu=False)
    text = data | {"action": np.array(NAMES)[data["action"]]}
    assert Log(text).action_names == ("left", "right", "stay")
    category = polars.DataFrame(text).cast({"action": polars.Categorical})
    assert Log(category).action_names == ("left", "right", "stay")
    assert Log(data).action_names == ("0", "1", "2")
    assert Log(data | {"action": data["action"] > 0}).action_names == ("0", "1")
    assert Log(data, actions=[*NAMES, "jump"]).n_actions == 4
    assert repr(Log(data, actions=NAMES)) == "Log(rows=110, observation=2, actions=3)"


def test_feature_columns_are_read_as_observations():
    data = mixed()
    renamed = {k.replace("obs_", "phi_"): v for k, v in data.items()}
    assert Log(renamed).roles.are_features
    assert_same_content(content(Log(renamed)), content(Log(data)))


def test_other_column_names_can_be_mapped():
    data = mixed()
    own = {"obs_0": "hr", "obs_1": "bp", "next_obs_0": "next_hr", "next_obs_1": "next_bp"}
    own |= {"reward": "gain", "episode_id": "visit", "behavior_prob": "p"}
    log = Log(
        {own.get(k, k): v for k, v in data.items()},
        observations=["hr", "bp"],
        columns={"reward": "gain", "episode_id": "visit", "behavior_prob": "p"},
    )
    assert_same_content(content(log), content(Log(data)))
    assert log.propensity == "p"


def test_log_probabilities_are_exponentiated():
    data = mixed()
    logs = data | {"behavior_logp": np.log(data["behavior_prob"])}
    del logs["behavior_prob"]
    one, other = content(Log(logs)), content(Log(data))
    np.testing.assert_allclose(one.pop("propensity"), other.pop("propensity"), rtol=1e-14)
    assert_same_content(one, other)


def test_propensities_are_taken_from_mu():
    data = mixed()
    bare = {k: v for k, v in data.items() if k != "behavior_prob"}
    assert_same_content(content(Log(bare)), content(Log(data)))
    nothing = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    assert Log(nothing).propensity == ""
    assert "propensity" not in content(Log(nothing))
    assert "behavior_prob  unknown; it can be estimated" in Log(nothing).summary().text


def test_a_behaviour_function_fills_in_mu():
    nothing = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}

    def mu(observations):
        first = 1 / (1 + np.exp(observations[:, :1]))
        return np.hstack([first, (1 - first) / 2, (1 - first) / 2])

    log = Log(nothing, behaviour=mu)
    transitions = content(log)
    np.testing.assert_array_equal(transitions["mu"], mu(transitions["here"]))
    np.testing.assert_array_equal(transitions["mu after"], mu(transitions["after"]))
    np.testing.assert_array_equal(
        transitions["propensity"],
        transitions["mu"][np.arange(len(transitions["mu"])), transitions["actions"]],
    )
    assert_same_content(content(Log(nothing).with_options(behaviour=mu)), transitions)


@pytest.mark.parametrize("bad", [["drop"], []])
def test_the_behaviour_function_is_not_called_on_nan(bad):
    data = columns([3, 3, 3], "terminated", mu=False)
    data["obs_1"][4] = np.nan

    def mu(observations):
        assert np.isfinite(observations).all()
        return np.full((len(observations), 3), 1 / 3)

    log = Log(data | {"behavior_prob": np.full(9, 1 / 3)}, behaviour=mu)
    if bad:
        transitions = content(Log(log.data, behaviour=mu, drop_bad="episode"))
        assert len(transitions["here"]) == 6
        np.testing.assert_array_equal(transitions["propensity"], np.full(6, 1 / 3))
    else:
        with pytest.raises(LogError, match=r"^E120 obs_1 is NaN in 1 row \(episode 11 step 1\)"):
            content(log)


# Writing and reading.


def test_written_logs_read_back_unchanged(tmp_path):
    for data in (mixed(), as_fixed_list(mixed()), pandas.DataFrame(mixed())):
        log = Log(data, actions=NAMES)
        path = log.write(tmp_path / "log.parquet", gamma=0.9, provenance="here")
        reread = Log(path)
        assert reread.metadata == {"actions": NAMES, "gamma": 0.9, "provenance": "here"}
        assert reread.action_names == tuple(NAMES)
        assert_same_content(content(reread), content(log))
        assert reread.summary().text == log.summary().text
        rewritten = reread.write(tmp_path / "log.parquet", gamma=0.8)
        assert Log(rewritten).metadata["gamma"] == 0.8
        assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_many_files_are_written_as_one(folder, tmp_path):
    log = Log(folder / "parts")
    assert repr(log) == "Log(files=4, rows=110, observation=2, actions=3)"
    assert_same_content(content(Log(log.write(tmp_path / "all.parquet"))), content(log))


def test_columns_that_not_all_files_have_are_not_written(tmp_path):
    data = pa.table(columns([3, 4], "terminated"))
    one = parquet(tmp_path / "a.parquet", data.slice(0, 3).append_column("note", [["x"] * 3]))
    other = parquet(tmp_path / "b.parquet", data.slice(3))
    path = Log([one, other]).write(tmp_path / "c.parquet")
    assert "note" not in pq.read_schema(path).names
    assert_same_content(content(Log(path)), content(Log(data)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"not JSON", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"true", "expected `object`, got `bool`"),
        (b'{"actions": 3}', "actions: expected `array | null`, got `int`"),
        (b'{"actions": []}', "actions: expected `array` of length >= 1"),
        (b'{"actions": [["a"]]}', "actions[0]: expected `str`, got `array`"),
        (b'{"actions": ["a", "b", "a"]}', "actions: a name occurs twice"),
        (b'{"actions": ["\\ud800", "b", "c"]}', "actions: a name is not text"),
        (b'{"gamma": 2}', "gamma: expected `float` <= 1.0"),
        (b'{"gamma": NaN}', "gamma: expected `float` >= 0.0"),
    ],
)
def test_metadata_that_are_not_those_of_a_log_are_refused(tmp_path, text, problem):
    data = pa.table(columns([3], "terminated")).replace_schema_metadata({METADATA: text})
    path = tmp_path / "odd.parquet"
    parquet(path, data)
    with pytest.raises(LogError) as caught:
        Log(path)
    assert str(caught.value) == (
        f"E194 the metadata of {path} are not those of a log: {problem}. Write the file again, or "
        "remove its metadata under the key saddleback."
    )


def test_metadata_name_the_actions_and_cannot_be_written_wrong(tmp_path):
    data = pa.table(columns([3], "terminated"))
    text = json.dumps({"actions": NAMES}).encode()
    assert Log(data.replace_schema_metadata({METADATA: text})).action_names == tuple(NAMES)
    with pytest.raises(InvalidParameter, match=r"^write: invalid metadata: gamma: expected "):
        Log(data).write(tmp_path / "log.parquet", gamma=2)


def test_episode_ids_may_be_unsigned():
    data = mixed()
    ids = data["episode_id"].astype(np.uint64)
    assert_same_content(content(Log(data | {"episode_id": ids})), content(Log(data)))
    large = Log(data | {"episode_id": ids + np.uint64(2**63)})
    assert large.summary().episodes == Log(data).summary().episodes


def test_a_missing_id_is_not_taken_for_the_id_0():
    ids = pa.array([0, 0, None, 1, 1], pa.uint8())
    log = Log(columns([2, 1, 2], "terminated") | {"episode_id": ids})
    assert [finding.code for finding in log.summary().errors] == ["E121"]
