"""Options that take a list: names with commas, quotes and spaces, in every command and message."""

import ast
import re
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import saddleback as sb
from helpers.studies import invoke
from saddleback.cli.group import group
from saddleback.cli.lists import LIST, join_list, split_list

PRESSURE, PIPE, LEAD, ACTIONS = "pressure, mean", '5" pipe', " lead", ["no, thanks", 'the "best"']
POLICY = """
import numpy as np

def treat(obs: dict):
    high = (obs["pressure, mean"] > 0)[:, None]
    return np.where(high, [0.2, 0.8], [0.7, 0.3])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    rng, n = np.random.default_rng(0), 240
    dose = rng.integers(2, size=n)
    columns = {
        "episode_id": np.arange(n) // 3, PRESSURE: rng.normal(size=n), PIPE: rng.normal(size=n),
        LEAD: rng.integers(0, 4, n), "action": np.array(ACTIONS)[dose],
        "reward": dose + rng.normal(size=n), "terminated": np.arange(n) % 3 == 2,
        "truncated": np.zeros(n, dtype=bool), "behavior_prob": np.full(n, 0.5),
    }  # fmt: skip
    pq.write_table(pa.table(columns), folder / "log.parquet")
    (folder / "policy.py").write_text(POLICY)
    return folder


NAMES = ["--obs", '"pressure, mean","5"" pipe"," lead"', "--actions", '"no, thanks","the ""best"""']


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_list_is_read_as_it_is_written(names):
    assert split_list(join_list(names) if names else '""') == (names or [""])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("hr,bp", ["hr", "bp"]),
        ("hr, bp", ["hr", "bp"]),
        ('hr," bp"', ["hr", " bp"]),
        ('"a, b",c', ["a, b", "c"]),
        ('5" pipe,c', ['5" pipe', "c"]),
        ('"alive, well"=1,died=-1', ["alive, well=1", "died=-1"]),
        ("hr\nbp,x", ["hr\nbp", "x"]),
        ("", [""]),
        ("hr,", ["hr", ""]),
        ('"a" ,b', ["a", "b"]),
        ('"a"  , "b "  ', ["a", "b "]),
        ('"a" =1,b =2', ["a =1", "b =2"]),
    ],
)
def test_what_is_typed(text, names):
    assert split_list(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,"b', "a quote is not closed"),
        ('"a" "b,c', "a quote is not closed"),
        ('"a"b"', "a quote is not closed"),
        ('"a" "b",c', "a quote follows a closed one"),
        ('a,"b"="1"', "a quote follows a closed one"),
    ],
)
def test_quotes_that_are_not_around_a_name(text, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        split_list(text)


@pytest.mark.parametrize("option", ["--obs", "--actions", "--categorical", "--reward-values"])
def test_a_quote_that_is_not_closed(option, folder):
    done = invoke("check", folder / "log.parquet", option, 'hr,"pressure, mean')
    assert done.exit_code == 2
    message = " ".join(done.stderr.split())
    assert f'{option} hr,"pressure, mean: a quote is not closed.' in message
    assert """in quotes: 'hr,"pressure, mean"'.""" in message


@pytest.mark.parametrize("values", ["", ",", "died=-1,"])
def test_an_empty_reward_value_is_refused(values, folder):
    done = invoke("check", folder / "log.parquet", "--reward-values", values)
    assert done.exit_code == 2
    assert "Error: --reward-values '': write TEXT=NUMBER, such as died=-1" in done.stderr


def test_an_empty_list_of_observations_is_refused(folder):
    done = invoke("check", folder / "log.parquet", "--obs", "")
    assert done.exit_code == 2
    assert "must be a list of names; it is empty" in done.stderr


def test_check_evaluate_rank_and_stats_take_them(folder):
    log, target = folder / "log.parquet", f"new={folder / 'policy.py'}:treat"
    done = invoke("check", log, *NAMES, "--categorical", '" lead"')
    assert done.exit_code == 0, done.output
    assert "observation column ' lead' is encoded as 4 entries" in " ".join(done.stdout.split())
    assert "no, thanks" in done.stdout
    how = ["--target", target, "--gamma", "0.9", "--features", "monomials:1", "--quiet"]
    for command in (["evaluate"], ["rank"], ["stats", "--out", folder / "log.stats"]):
        done = invoke(*command, log, *NAMES, *how)
        assert done.exit_code in (0, 3, 4, 5), done.output


def test_names_that_a_message_suggests_can_be_typed(folder):
    """Nothing is told; the errors name the columns, in quotes for the shell and for the list."""
    done = invoke("check", folder / "log.parquet")
    suggested = re.search(r"(--obs '.*')\.$", done.stderr, re.MULTILINE)[1]
    assert shlex.split(suggested) == ["--obs", join_list([PRESSURE, PIPE, LEAD])]
    assert invoke("check", folder / "log.parquet", *shlex.split(suggested)).exit_code == 0


def test_python_is_told_names_that_can_be_typed(folder):
    with pytest.raises(sb.log.LogError) as error:
        sb.Log(folder / "log.parquet")
    code = re.search(r"observations=(\[.*\])\.", str(error.value))[1]
    assert ast.literal_eval(code) == [PRESSURE, PIPE, LEAD]
    assert "The log has episode_id, 'pressure, mean', '5\" pipe', ' lead', a" in str(error.value)


def test_several_columns_to_map_are_options_of_their_own(tmp_path):
    n = np.arange(4)
    table = pa.table(
        {
            "episode_id": n,
            "obs_0": n / 7,
            "action_1": n / 3,
            "action_2": n / 5,
            "reward": n / 2,
            "terminated": n >= 0,
            "truncated": n < 0,
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    message = " ".join(invoke("check", tmp_path / "log.parquet").stderr.split())
    suggested = re.search(r"map it: (--column .*?)\.(?= |$)", message)[1]
    assert suggested == "--column action_0=action_1 --column action_1=action_2"


@pytest.mark.parametrize(
    ("line", "shell", "offered"),
    [
        ("--obs re", "bash", ["reward"]),
        ("--obs reward,ep", "bash", ["reward,episode_id"]),
        ("--obs reward,re", "bash", []),
        ('--obs "pr', "zsh", ['"pressure, mean"']),
        ('--categorical "pressure, mean",tr', "zsh", ['"pressure, mean",truncated']),
        ("--obs reward,", "bash", None),
        ("--order-by pres", "bash", ["'pressure, mean'"]),
        ("--order-by 'pres", "bash", ["pressure, mean"]),
        ("--column reward=pres", "zsh", ["reward=pressure, mean"]),
        ("--actions re", "bash", []),
    ],
)
def test_columns_are_completed(line, shell, offered, folder, monkeypatch):
    option, incomplete = line.split(" ", 1)
    monkeypatch.setenv("_SADDLEBACK_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", f"saddleback\ncheck\nlog.parquet\n{option}\n{incomplete}")
    command = group.get_command(None, "check")
    context = command.make_context("check", [str(folder / "log.parquet")], resilient_parsing=True)
    parameter = next(one for one in command.params if option in one.opts)
    if incomplete.startswith("'"):
        incomplete = incomplete[1:]
    items = [item.value for item in parameter.shell_complete(context, incomplete)]
    if offered is None:
        assert """'reward,"pressure, mean"'""" in items
        assert len(items) == 8
    else:
        assert items == offered


def test_no_columns_of_a_file_that_is_none(tmp_path):
    command = group.get_command(None, "check")
    context = command.make_context("check", [str(tmp_path / "no.parquet")], resilient_parsing=True)
    assert LIST.shell_complete(context, command.params[1], "h") == []
