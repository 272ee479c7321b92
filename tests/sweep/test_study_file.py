"""Study files: every error is reported with its line, and valid files are read exactly."""

import copy
import json
import re
import tomllib

import numpy as np
import pyarrow.compute as pc
import pytest

import saddleback as sb
from helpers.studies import SMALL, bits, edit_good_study, errors_in, run_study_rows, write_study
from saddleback.errors import InvalidParameter
from saddleback.sweep import (
    Store,
    Study,
    StudyError,
    read_study,
)
from saddleback.sweep.toml_lines import key_lines

TOY = """\
from saddleback import problems

def good(gamma=0.9, **rest):
    return problems.two_state(gamma=gamma)

def divides():
    return 1 / 0

def number():
    return 5

def stream():
    import numpy as np
    from saddleback import Stream
    return Stream.of(phi=np.eye(2), bootstrap=np.eye(2), rewards=[0, 1], discounts=0.9, decay=0.5)

constant = 7
"""

SIZES = (
    "alpha must be a list of numbers above 0 without duplicates, or { scale = 0.1, powers = "
    "[-10, 0] }, meaning 0.1·2^-10 … 0.1·2^0, got "
)
LONG = "the length is missing: add steps = 50_000, or episodes = 500."
WEIGHTS = "2: theta0 must be a number up to 1e+100, or a list of one for each weight, got "
POINTS = (
    "checkpoints must be a whole number from 2 to 100,000, { log = 100 } for a logarithmic scale, "
    "or a list of steps or episodes, got "
)
LISTS = "each must be a table of lists, such as { gamma = [0.9, 0.99] }, got "
TWO = 'give name = "two_state", or make = "module.py:function".'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "toy.py").write_text(TOY)
    return tmp_path


# Invalid input: a line, its replacement, and the expected message.


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 1", "seed = -1", "2: seed must be a whole number from 0 to 1,000,000,000,000, got -1."),
        ("seed = 1", "seed = 1.5", "2: seed must be a whole number from 0 to 1,000,000,000,000, got 1.5."),
        ("seed = 1", "seed = true", "2: seed must be a whole number from 0 to 1,000,000,000,000, got True."),
        ("runs = 2", "runs = 0", "3: runs must be a whole number from 1 to 1,000,000,000,000, got 0."),
        ("runs = 2", "runs = '2'", "3: runs must be a whole number from 1 to 1,000,000,000,000, got '2'."),
        ("seed = 1", "sample = 0", "2: sample must be a whole number from 1 to 1,000,000,000,000, got 0."),
        ("seed = 1", "theta0 = 'a'", WEIGHTS + "'a'."),
        ("seed = 1", "theta0 = inf", WEIGHTS + "inf."),
        ("seed = 1", "theta0 = -1e308", WEIGHTS + "-1e+308."),
        ("seed = 1", "theta0 = 1" + 400 * "0", WEIGHTS + "1000"),
        ("seed = 1", "sead = 1", "2: unknown key 'sead'. Did you mean 'seed'? Known: title, seed"),
        ("seed = 1", "xyzzy = 1", "2: unknown key 'xyzzy'. Known: title, seed"),
        ("steps = 100", "", "1: " + LONG),
        ("steps = 100", "steps = 5\nepisodes = 5", "2: give steps or episodes, not both."),
        ("steps = 100", "steps = 0", "1: steps must be a whole number from 1 to 1,000,000,000,000, got 0."),
        ("steps = 100", "steps = 1e3", "1: steps must be a whole number from 1 to 1,000,000,000,000, got 1000.0."),
        ("seed = 1", "metrics = []", "2: metrics must be a list of names without duplicates, got []."),
        ("seed = 1", "metrics = 'mse'", "2: metrics must be a list of names without duplicates, got 'mse'."),
        ("seed = 1", "metrics = ['mse', 'mse']", "2: metrics must be a list of names without duplicates, got ['mse', 'mse']."),
        ("seed = 1", "metrics = ['mspb']", "2: unknown metric 'mspb'. Did you mean 'mspbe'? Known: mspbe, mse, norm."),
        ("seed = 1", "metrics = [['mse']]", "2: metric must be a name, got ['mse']. Known: mspbe, mse, norm."),
        ("seed = 1", "checkpoints = 1", f"2: {POINTS}1."),
        ("seed = 1", "checkpoints = true", f"2: {POINTS}True."),
        ("seed = 1", "checkpoints = 2.5", f"2: {POINTS}2.5."),
        ("seed = 1", "checkpoints = 'all'", f"2: {POINTS}'all'."),
        ("seed = 1", "checkpoints = []", f"2: {POINTS}[]."),
        ("seed = 1", "checkpoints = [1, 2.5]", f"2: {POINTS}[1, 2.5]."),
        ("seed = 1", "checkpoints = [[1], [2, 3]]", f"2: {POINTS}[[1], [2, 3]]."),
        ("seed = 1", "checkpoints = [5, 101]", "2: checkpoint 101 is out of range: two_state has steps 0 to 100."),
        ("seed = 1", "checkpoints = [-1]", "2: checkpoint -1 is out of range: two_state has steps 0 to 100."),
        ("[grid]\nalpha = [0.1, 0.2]", "[[grid]]", "4: step sizes are missing: add [grid] with alpha = [0.1, …]."),
        ("alpha = [0.1, 0.2]", "", "4: step sizes are missing: add [grid] with alpha = [0.1, …]."),
        ("alpha = [0.1, 0.2]", "beta = [0.1]\nxyzzy = 1", "4: step sizes are missing: add [grid] with alpha = [0.1, …]."),
        ("alpha = [0.1, 0.2]", "alpha = []", "5: " + SIZES + "[]."),
        ("alpha = [0.1, 0.2]", "alpha = [0.1, 0.1]", "5: " + SIZES + "[0.1, 0.1]."),
        ("alpha = [0.1, 0.2]", "alpha = ['x']", "5: " + SIZES + "['x']."),
        ("alpha = [0.1, 0.2]", "alpha = [true]", "5: " + SIZES + "[True]."),
        ("alpha = [0.1, 0.2]", "alpha = [0.1, 0]", "5: " + SIZES + "[0.1, 0]."),
        ("alpha = [0.1, 0.2]", "alpha = [nan]", "5: " + SIZES + "[nan]."),
        ("alpha = [0.1, 0.2]", "alpha = inf", "5: " + SIZES + "inf."),
        ("alpha = [0.1, 0.2]", "alpha = { scale = 1.0 }", "5: " + SIZES + "{"),
        ("alpha = [0.1, 0.2]", "alpha = { scale = 1.0, powers = [1, 0] }", "5: " + SIZES + "{'scale': 1.0, 'powers': [1, 0]}."),
        ("alpha = [0.1, 0.2]", "alpha = { scale = 1.0, powers = [0, 3000] }", "5: " + SIZES + "{'scale': 1.0, 'powers': [0, 3000]}."),
        ("alpha = [0.1, 0.2]", "alpha = { scale = 1.0, powers = [0.0, 1.0] }", "5: " + SIZES + "{"),
        ("alpha = [0.1, 0.2]", "alpha = 1" + 400 * "0", "5: " + SIZES + "1000"),
        ("alpha = [0.1, 0.2]", "alpha = { scale = 1" + 400 * "0" + ", powers = [0, 1] }", "5: " + SIZES + "{"),
        ("alpha = [0.1, 0.2]", "alpha = { scale = 'a', powers = [0, 1] }", "5: " + SIZES + "{"),
        ("alpha = [0.1, 0.2]", "alpha = { scale = -1, powers = [0, 1] }", "5: " + SIZES + "{'scale': -1, 'powers': [0, 1]}."),
        ("alpha = [0.1, 0.2]", "alpha = { scale = 1.0, power = [0, 1] }", "5: unknown key 'power' in alpha. Did you mean 'powers'? Known: scale, powers."),
        ("ratio = [1.0]", "ratio = [-1.0]", "6: " + SIZES.replace("alpha", "ratio") + "[-1.0]."),
        ("ratio = [1.0]", "ratio = [1.0]\nbeta = [0.1]", "7: give beta or ratio (β/α), not both."),
        ("ratio = [1.0]", "", "4: rules with two step sizes need ratio = [1.0, …] (β/α), or beta."),
        ("ratio = [1.0]", "ratio = 1.0\nschedule = 'invers'", "7: unknown schedule 'invers'. Did you mean 'inverse'?"),
        ("ratio = [1.0]", "ratio = 1.0\nschedule = ['a']", "7: schedule must be a name, got ['a']."),
        ("ratio = [1.0]", "ratio = 1.0\nalpa = 1.0", "7: unknown key 'alpa' in [grid]. Did you mean 'alpha'? Known: alpha, beta"),
        ("[[problem]]", "[problem]", "7: write each problem as a separate table, [[problem]]."),
        ('name = "two_state"', "", "7: " + TWO),
        ('name = "two_state"', 'name = "two_state"\nmake = "toy.py:good"', "7: " + TWO),
        ('name = "two_state"', 'name = "two_sate"', "8: unknown problem 'two_sate'. Did you mean 'two_state'?"),
        ('name = "two_state"', "name = 5", "8: problem must be a name, got 5."),
        ('name = "two_state"', 'name = "two_state"\ngama = 0.5', "9: unknown key 'gama' in [[problem]] two_state. Did you mean 'gamma'? Known: name, make, label, steps, episodes, theta0, each, gamma, rewards."),
        ('name = "two_state"', 'name = "two_state"\ngamma = 2', "9: FiniteMDP: gamma must be a number in [0, 1], got 2."),
        ('name = "two_state"', 'name = "two_state"\nsteps = 5\nepisodes = 5', "10: give steps or episodes, not both."),
        ('name = "two_state"', 'name = "two_state"\nsteps = -5', "9: steps must be a whole number from 1 to 1,000,000,000,000, got -5."),
        ('name = "two_state"', 'name = "two_state"\nepisodes = 5', "9: two_state has no episodes; give steps instead."),
        ('name = "two_state"', 'name = "two_state"\neach = { gama = [0.5] }', "9: unknown key 'gama' in each of two_state. Did you mean 'gamma'? Known: gamma, rewards."),
        ('name = "two_state"', 'name = "two_state"\neach = 3', "9: " + LISTS + "3."),
        ('name = "two_state"', 'name = "two_state"\neach = { gamma = 0.5 }', "9: " + LISTS + "{'gamma': 0.5}."),
        ('name = "two_state"', 'name = "two_state"\neach = { gamma = [] }', "9: gamma is an empty list."),
        ('name = "two_state"', 'name = "two_state"\neach = { gamma = [0.5, 0.5] }', "7: duplicate problem 'two_state gamma=0.5': give it another label."),
        ('name = "two_state"', 'name = "two_state"\n[[problem]]\nname = "two_state"', "9: duplicate problem 'two_state': give it another label."),
        ('name = "two_state"', 'name = "random_mdp"', "7: random_mdp is random: add a seed, rng = 0."),
        ('name = "two_state"', "make = 5", "8: make = 5: write path/to/module.py:function."),
        ('name = "two_state"', 'make = "toy.py"', "8: make = 'toy.py': write path/to/module.py:function."),
        ('name = "two_state"', 'make = "toy.py:goof"', "'goof'. Did you mean 'good'?"),
        ('name = "two_state"', 'make = "toy.py:divides"', "7: ZeroDivisionError: division by zero."),
        ('name = "two_state"', 'make = "toy.py:number"', "7: study: problem must be a Problem, got 5."),
        ('name = "two_state"', 'make = "toy.py:stream"', "7: toy.py:stream is a fixed stream of 2 steps; a study needs a problem that it can sample."),
        ('name = "two_state"', 'make = "toy.py:constant"', "7: TypeError: 'int' object is not callable."),
        ('name = "two_state"', 'make = "nowhere.py:good"', "nowhere.py: No such file or directory."),
        ('name = "two_state"', 'make = "toy.py:good"\nday = 2020-01-01', "parameters must be numbers, strings, booleans, or lists and tables of them; got {'day': datetime"),
        ('name = "two_state"', 'make = "toy.py:good"\nfar = inf', "parameters must be numbers, strings, booleans, or lists and tables of them; got {'far': inf}."),
        ("[[rule]]", "[rule]", "9: write each rule as a separate table, [[rule]]."),
        ('name = "GES"', "", '9: the rule has no name: add name = "GES".'),
        ('name = "GES"', "name = 3", "10: rule must be a name, got 3."),
        ('name = "GES"', 'name = "GSE"', "10: unknown rule 'GSE'. Did you mean 'GES'?"),
        ('name = "GES"', 'name = "TD"', "9: TD(0) on two_state: TD(0) learns state values but the problem's features describe action values"),
        ('name = "GES"', 'name = "Sarsa"', "9: Sarsa(0) on two_state: Sarsa(0) evaluates the behaviour policy"),
        ("lam = [0.0, 0.5]", "", "9: GES: missing parameter 'lam'."),
        ("lam = [0.0, 0.5]", "lam = []", "11: lam is an empty list."),
        ("lam = [0.0, 0.5]", "lam = 2", "11: Importance: lam must be a number in [0, 1], got 2."),
        ("lam = [0.0, 0.5]", "lam = 1" + 400 * "0", "11: Importance: lam must be a number in [0, 1], got 1000"),
        ("lam = [0.0, 0.5]", "lamb = 0", "11: unknown key 'lamb' in [[rule]] GES. Did you mean 'lam'? Known: name, label, form, bootstrap, lam."),
        ("lam = [0.0, 0.5]", "lam = [0.5, 0.5]", "9: duplicate rule GES(0.5)."),
        ("lam = [0.0, 0.5]", "lam = 0\n[[rule]]\nname = 'GES'\nlam = 0.0", "12: duplicate rule GES(0)."),
        ('"GES"\nlam = [0.0, 0.5]', '"TDRC"\nlam = 0\n[[rule]]\nname = "TDRC"\nlam = 0\neta = 1.0', "12: duplicate rule TDRC(0)."),
    ],
)  # fmt: skip
def test_every_error_names_its_line(folder, old, new, message):
    assert any(message in line for line in errors_in(folder, edit_good_study(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 100", "stpes = 100", "1: unknown key 'stpes'. Did you mean 'steps'? Known: title, seed"),
        ("[grid]", "[gird]", "4: unknown key 'gird'. Did you mean 'grid'? Known: title, seed"),
        ("alpha = [0.1, 0.2]", "alhpa = [0.1]", "5: unknown key 'alhpa' in [grid]. Did you mean 'alpha'? Known: alpha, beta, ratio, schedule, label, lam."),
        ("ratio = [1.0]", "ration = [1.0]", "6: unknown key 'ration' in [grid]. Did you mean 'ratio'?"),
        ("[[problem]]", "[[problm]]", "7: unknown key 'problm'. Did you mean 'problem'?"),
        ('name = "two_state"', 'nmae = "two_state"', "8: unknown key 'nmae' in [[problem]]. Did you mean 'name'?"),
        ('name = "GES"', 'nmae = "GES"', "10: unknown key 'nmae' in [[rule]]. Did you mean 'name'?"),
        ("lam = [0.0, 0.5]", "lmbda = 0.5", "11: unknown key 'lmbda' in [[rule]] GES."),
    ],
)  # fmt: skip
def test_a_misspelt_key_is_reported_once(folder, old, new, message):
    (error,) = errors_in(folder, edit_good_study(old, new))
    assert error.startswith(message)


def test_all_errors_are_reported_together_without_duplicates(folder):
    text = "runs = 0\n" + edit_good_study("seed = 1", "sead = 1").replace("GES", "ges").replace(
        "runs = 2\n", ""
    )
    errors = errors_in(folder, text)
    assert [line.split(":")[0] for line in errors] == ["1", "3", "10"]
    assert errors_in(folder, "") == [
        "1: no problem given: add at least one [[problem]].",
        "1: no rule given: add at least one [[rule]].",
        "1: step sizes are missing: add [grid] with alpha = [0.1, …].",
    ]  # fmt: skip


def test_every_rule_is_tried_on_every_problem(folder):
    text = edit_good_study(
        'name = "two_state"', 'name = "two_state"\n[[problem]]\nname = "random_walk"'
    )
    errors = errors_in(folder, text)
    assert [line.split(" learns")[0] for line in errors] == [
        "11: GES(0) on random_walk: GES(0)", "11: GES(0.5) on random_walk: GES(0.5)",
    ]  # fmt: skip


def test_unavailable_metrics_are_reported_once(folder):
    text = edit_good_study('name = "two_state"', 'name = "mountain_car"')
    assert read_study(write_study(folder, text)).metrics == ("mspbe",)
    (error,) = errors_in(folder, "metrics = ['norm', 'mse']\n" + text)  # once, for all rules
    assert error == (
        "1: mountain_car: mse is not available: the true values are unknown. Remove it."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = = 3", "invalid TOML: Invalid value (at line 1, column 8)."),
        ("seed = 1\nseed = 2", "invalid TOML: Cannot overwrite a value"),
        ("[grid\n", "invalid TOML: Expected ']' at the end of a table declaration (at line 1"),
    ],
)
def test_invalid_toml_is_reported(tmp_path, text, message):
    with pytest.raises(StudyError, match=re.escape(f"study.toml: {message}")):
        read_study(write_study(tmp_path, text))


def test_unreadable_files_are_reported(tmp_path):
    for path, why in [
        (tmp_path / "none.toml", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (tmp_path / "bytes.toml", "not a text file"),
    ]:
        (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InvalidParameter, match=re.escape(f"cannot read {path}: {why}.")):
            read_study(path)


def test_line_numbers_are_right_after_multi_line_values():
    text = '''title = """
[[rule]]
seed = 3"""
metrics = [  # with ] and "
  "mse",
  "a = [",
]
seed = 1
[[rule]]
lam = { a = "}" }
lom = \'\'\'
seed = 4\'\'\'
[[ rule ]] # second
lam = 3
'''
    assert key_lines(text) == {
        ("title",): 1, ("metrics",): 4, ("seed",): 8, ("rule", 0): 9, ("rule",): 9,
        ("rule", 0, "lam"): 10, ("rule", 0, "lom"): 11, ("rule", 1): 13, ("rule", 1, "lam"): 14,
    }  # fmt: skip


# Good input.


def test_step_sizes_may_be_powers_or_single_numbers(folder):
    text = edit_good_study("alpha = [0.1, 0.2]", "alpha = { scale = 0.1, powers = [-2, 1] }")
    text = text.replace("ratio = [1.0]", "beta = 0.5\nschedule = 'inverse'")
    study = read_study(write_study(folder, text))
    assert study.alphas == (0.025, 0.05, 0.1, 0.2)
    assert study.betas == (0.5,)
    assert (study.ratio, study.schedule, study.title) == (False, "inverse", "study")
    (part,) = study.task_specs()
    alpha, beta = study.step_sizes(part)
    assert alpha.at(4).ravel().tolist() == [a / 4 for a in study.alphas]
    assert beta.at(4).ravel().tolist() == [0.125] * 4


def test_a_ratio_multiplies_each_alpha(folder):
    study = read_study(write_study(folder, edit_good_study("ratio = [1.0]", "ratio = [0.5, 2.0]")))
    (part,) = study.task_specs()
    assert study.step_sizes(part)[1].tolist() == [[0.05, 0.2], [0.1, 0.4]]


@pytest.mark.parametrize(("name", "size"), [("two_state", 2), ("baird", 7)])
@pytest.mark.parametrize(("rewards", "problem"), [("[1, 2]", "shape"), ("'a'", "array")])
def test_wrong_rewards_are_reported_at_their_line(folder, name, size, rewards, problem):
    text = edit_good_study('"two_state"', f'"{name}"\nrewards = {rewards}')
    (error,) = errors_in(folder, text)
    shapes = f"shape [{size}, 2] or [{size}, 2, {size}], got [2]."
    expected = {"shape": shapes, "array": "a rectangular array of numbers: it holds str32."}
    assert error.startswith("9: rewards must ")
    assert error.endswith(expected[problem])


def test_each_combines_parameters_and_problems_may_set_their_length(folder):
    more = """name = "two_state"
label = "toy"
steps = 50
each = { gamma = [0.5, 0.9], rewards = [[[1, 2], [3, 4]]] }
[[problem]]
name = "two_state"
"""
    study = read_study(write_study(folder, edit_good_study('name = "two_state"\n', more)))
    cases = [(case.label, case.count, case.points[-1]) for case in study.cases]
    assert cases == [
        ("toy gamma=0.5, rewards=[[1, 2], [3, 4]]", 50, 50),
        ("toy gamma=0.9, rewards=[[1, 2], [3, 4]]", 50, 50),
        ("two_state", 100, 100),
    ]
    assert study.cases[0].build(folder).mdp.gamma == 0.5


@pytest.mark.parametrize(
    ("given", "points"),
    [("3", (0, 25, 100)), ("[50, 5, 5]", (5, 50, 100)), ("[0, 100]", (0, 100))],
)
def test_checkpoints_may_be_a_number_or_a_list(folder, given, points):
    text = edit_good_study("seed = 1", f"checkpoints = {given}")
    assert read_study(write_study(folder, text)).cases[0].points == points


def test_a_study_may_count_episodes(folder):
    text = edit_good_study('name = "two_state"', 'name = "random_walk"\nepisodes = 20')
    text = text.replace("GES", "TD").replace("ratio = [1.0]\n", "")
    study = read_study(write_study(folder, text))
    (case,) = study.cases
    assert (case.unit, case.count) == ("episodes", 20)
    assert case.length == pytest.approx(9, rel=0.1)  # from the middle of five states
    rows = run_study_rows(folder / "study.toml", folder / "s")
    assert max(rows["point"].to_pylist()) == 20
    assert min(rows["updates"].to_pylist()) == 0


def test_a_custom_problem_equals_the_built_in_one(folder):
    text = edit_good_study(
        'name = "two_state"', 'make = "toy.py:good"\neach = { gamma = [0.5, 0.9] }'
    )
    study = read_study(write_study(folder, text))
    assert [case.label for case in study.cases] == [
        "toy.py:good gamma=0.5",
        "toy.py:good gamma=0.9",
    ]
    rows = run_study_rows(folder / "study.toml", folder / "own")
    named = edit_good_study(
        'name = "two_state"', 'name = "two_state"\neach = { gamma = [0.5, 0.9] }'
    )
    same = run_study_rows(write_study(folder, named), folder / "named")
    custom, built_in = bits(rows), bits(same)
    assert custom.pop("problem") != built_in.pop("problem")
    assert custom == built_in

    (folder / "toy.py").write_text(TOY + "\n# another version\n")
    with pytest.raises(InvalidParameter, match=r"toy\.py has changed since the study was read"):
        study.cases[0].build(folder)
    other = read_study(write_study(folder, text))
    assert other != study
    with pytest.raises(InvalidParameter, match=r"study: cases: toy\.py:good gamma=0\.5: mark is"):
        Store.open(folder / "own", other.as_dict(), "")


def test_a_study_survives_a_round_trip_through_json(folder):
    (folder / "study.toml").write_text(SMALL)
    study = read_study(folder / "study.toml")
    assert Study.from_dict(json.loads(json.dumps(study.as_dict()))) == study


OTHERS = ("x", "", -1, 0, 1e308, float("nan"), 10**400, [], [[]], [{}], {}, {"x": 1}, True, ...)
"""Values that replace each value of a study; ``...`` removes it."""

COMPLETE = (
    SMALL.replace("[[rule]]", "label = 'other'\nsteps = 3\n[[rule]]", 1)
    + "[parameters]\nx = 1\n[quick]\nruns = 1\nproblem = { steps = 5 }\n"
)


def mutations(data):
    """Yield the study with one value replaced or removed, and restore it."""
    places = [(data, key) for key in (data if isinstance(data, dict) else range(len(data)))]
    for holder, key in places:
        kept = holder[key]
        for other in OTHERS:
            if other is ... and isinstance(holder, list):
                continue
            if other is ...:
                del holder[key]
            else:
                holder[key] = copy.deepcopy(other)
            yield
            holder[key] = kept
        if isinstance(kept, (dict, list)):
            yield from mutations(kept)


@pytest.mark.slow
@pytest.mark.parametrize("quick", [False, True])
def test_parameters_are_a_table_of_what_json_can_keep(folder, quick):
    start = "parameters must be"
    for parameters, smaller, errors in (
        ("3", "{ a = 1 }", [f"1: {start} a table, got 3."]),
        ("{ a = 1 }", "{ a = nan }",
         ["13: a must be a finite number, a text, true or false, or lists and tables of them, got "
          "nan."]),
    ):  # fmt: skip
        text = f"parameters = {parameters}\n" + edit_good_study("seed = 1\n", "")
        path = folder / "study.toml"
        path.write_text(f"{text}[quick]\nparameters = {smaller}\n")
        with pytest.raises(StudyError) as raised:
            read_study(path, quick=quick)
        assert str(raised.value).split("\n") == [f"{path}:{error}" for error in errors]


@pytest.mark.slow
@pytest.mark.parametrize("quick", [False, True])
def test_no_change_of_a_study_ends_in_a_crash(folder, monkeypatch, quick):
    path = write_study(folder, COMPLETE.replace("steps = 200", "steps = 20"))
    data = tomllib.loads(path.read_text())
    monkeypatch.setattr("saddleback.sweep.study_file.tomllib.loads", lambda _: copy.deepcopy(data))
    refused = accepted = 0
    for _ in mutations(data):
        try:
            read_study(path, quick=quick)
            accepted += 1
        except StudyError:
            refused += 1
    assert refused > 300
    assert accepted > 30


def test_checkpoints_may_be_even_on_a_logarithmic_scale(tmp_path):
    text = edit_good_study("seed = 1", "seed = 1\ncheckpoints = { log = 5 }")
    (case,) = read_study(write_study(tmp_path, text)).cases
    assert case.points == (1, 3, 10, 31, 100)


def test_each_weight_may_have_an_initial_value(tmp_path):
    text = edit_good_study("seed = 1", "seed = 1\ntheta0 = [1, -0.5]")
    study = read_study(write_study(tmp_path, text))
    assert study.initial_weights(0) == (1.0, -0.5)
    assert Study.from_dict(json.loads(json.dumps(study.as_dict()))) == study
    rows = run_study_rows(tmp_path / "study.toml", tmp_path / "out")
    exact = sb.System.exact(sb.problems.two_state(), sb.GES(0.0))
    first = rows.filter((pc.field("point") == 0) & (pc.field("rule") == "GES(0)"))
    assert set(first["mspbe"].to_pylist()) == {float(exact.mspbe(np.array([1.0, -0.5])))}
    text = edit_good_study("seed = 1", "seed = 1\ntheta0 = [1, 2, 3]")
    error = "two_state: theta0 must be a number or have shape [2], got [3]."
    assert errors_in(tmp_path, text) == [f"3: {error}"]
    text = edit_good_study('"two_state"', '"two_state"\ntheta0 = [1, 2, 3]')
    assert errors_in(tmp_path, text) == [f"9: {error}"]
