"""The command line: help, messages, width of lines, start-up time and exit statuses."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import saddleback as sb
from saddleback.cli.cmd_evaluate import METHODS, STATUS
from saddleback.cli.group import COMMANDS, HEADINGS, group
from saddleback.ope import methods
from saddleback.ope.decisions import DECISION_METHODS
from saddleback.problems import synthetic_clinic

HEAVY = "numpy", "scipy", "numba", "matplotlib", "pyarrow", "pandas", "rich", "gymnasium"
FIRST_LINE = f"""
import sys, click
def echo(*said, **how):
    print(*({{*{HEAVY}}} & set(sys.modules)))
    raise SystemExit(0)
click.echo = echo
from saddleback.cli import main
main()
"""
"""Fingerprints the heavy modules that are loaded when the first line is printed."""


def typed(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "saddleback", *map(str, words)],
        capture_output=True, text=True, env=os.environ | environment, check=False,
    )  # fmt: skip


def run(*words):
    return CliRunner().invoke(group, [str(argument) for argument in words])


@pytest.fixture(scope="module")
def sums(tmp_path_factory):
    """Two files of statistics."""
    folder = tmp_path_factory.mktemp("sums")
    car = sb.problems.mountain_car()
    for day in (0, 1):
        log = sb.collect(car, episodes=40, rng=day)
        statistics = sb.Statistics.of(
            log, sb.GES(0.0), {"new": "pump:0.8"}, features=car.features, gamma=0.99
        )
        sb.save_statistics(statistics, folder / f"day{day}.stats")
    return folder


def test_commands_are_listed_under_their_headings_in_order():
    help_text = typed("--help", COLUMNS="80").stdout
    headings = [*HEADINGS.values()]
    places = [help_text.index(f"\n{heading}:\n") for heading in headings]
    assert places == sorted(places)
    listed = re.findall(r"^  (\w+) {2,}\w", help_text, re.MULTILINE)
    assert listed == [*COMMANDS]
    assert next(iter(HEADINGS)) == next(iter(COMMANDS)), (
        "commands before the first heading would be lost"
    )
    assert set(HEADINGS) <= set(COMMANDS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_examples_fits_80_columns_and_loads_nothing_heavy(command):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "saddleback", *command.split(), "--help"],
        capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"}, check=True,
    )  # fmt: skip
    examples = done.stdout.partition("Examples:\n")[2].partition("\n\n")[0]
    assert re.search(rf"^ +saddleback {command}", examples, re.MULTILINE), "no example of its own"
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert not re.search(r":func:|``|\\b|#[0-9]|\.\.\.$", done.stdout)
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize(
    "words",
    [
        "check some.parquet", "evaluate some.parquet", "rank some.parquet",
        "stats some.parquet --out some.stats", "merge one.stats two.stats --out both.stats",
        "analyse two_state", "paper stability", "quickstart", "sweep study.toml",
        "sweep study.toml --plan", "explorer", "report results/study", "explain some.json",
        "check some.parquet --json", "evaluate some.parquet --json", "analyse two_state --json",
        "merge one.stats --out both.stats --json", "sweep study.toml --json",
    ],
)  # fmt: skip
def test_the_first_line_comes_before_anything_heavy(words):
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LINE, *words.split()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "\n"


@pytest.mark.slow
def test_help_takes_15_hundredths_of_a_second_of_a_processor():
    """Of its time, since other processes may keep this one waiting."""

    def seconds():
        before = os.times()
        typed("--help")
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])  # of child processes

    assert min(seconds() for _ in range(5)) < 0.15


@pytest.mark.slow
def test_touching_evaluate_loads_no_packages_of_scipy_nor_figures():
    """They take a quarter of a second, and SciPy imports each of its packages on first use."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys, saddleback as sb; sb.evaluate; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    unused = {f"scipy.{name}" for name in ("linalg", "optimize", "sparse", "special", "stats")}
    unused |= {"matplotlib", "pandas", "sklearn", "distributed"}
    assert not unused & set(done.stdout.split())


def test_ctrl_c_that_an_import_turns_into_an_error_is_an_interrupt(monkeypatch):
    """As in CPython 3.11, where ``ModuleNotFoundError`` may become a ``TypeError`` then."""

    @click.command()
    def command():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise TypeError("expected a message argument")

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(type(group), "get_command", lambda *_: command)
    done = CliRunner().invoke(group, ["explain"])
    assert (done.exit_code, done.stderr) == (130, "interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_exit_statuses_are_in_the_help():
    descriptions = dict(re.findall(r"^ +(\d+) +(\S.*)$", typed("--help").stdout, re.MULTILINE))
    assert [*descriptions] == ["0", "2", "3", "4", "5", "130"]
    for outcome, status in STATUS.items():
        assert outcome in descriptions[str(status)]


BAD = [
    "check nowhere.parquet",
    "evaluate",
    "evaluate nowhere.parquet --target uniform --bootstrap many",
    "explain nowhere.json",
    "merge nowhere.stats --out elsewhere.stats",
    "analyse two-state",
    "analyse random_walk --rule GES",
    "paper two_state",
    "paper stability --rule GES",
    "papr",
]


@pytest.mark.parametrize("words", BAD)
def test_messages_fit_80_columns_and_bad_input_exits_with_2(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*words.split())
    assert done.exit_code == 2
    assert done.stdout == ""
    assert re.search(r"^(error|Error): \S", done.stderr, re.MULTILINE)
    assert max(map(len, done.stderr.splitlines())) <= 80


@pytest.mark.slow
def test_answers_fit_80_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table(synthetic_clinic.clinic(300, rng=0))
    sb.Log(table, observations=synthetic_clinic.SIGNS, actions=synthetic_clinic.DOSES).write(
        "visits.parquet", gamma=0.97
    )
    rows = table.to_pydict()
    rows["reward"][7] = rows["hr"][9] = float("nan")
    pq.write_table(pa.table(rows), "bad.parquet")
    Path("new.py").write_text(
        "from saddleback.problems.synthetic_clinic import earlier, usual", encoding="utf-8"
    )
    obs = "--obs hr,bp,lactate"
    how = f"{obs} --features polynomial:2"
    for words, statuses in (
        (f"check visits.parquet {obs}", (0,)),
        (f"check bad.parquet {obs}", (2,)),
        (f"evaluate visits.parquet {how} --target new.py:earlier --save new.json", (0, 3, 4)),
        (
            f"rank visits.parquet {how} --target a=new.py:earlier --target b=new.py:usual",
            (0, 3, 4, 5),
        ),
        ("explain new.json", (0,)),
    ):
        done = run(*words.split())
        assert done.exit_code in statuses, done.output
        assert len(done.stdout.splitlines()) > 3
        assert max(map(len, done.output.splitlines())) <= 80, words


@pytest.mark.slow
def test_a_missing_output_folder_is_reported_in_a_sentence(sums, tmp_path):
    done = run("merge", sums / "day0.stats", "--out", tmp_path / "none" / "all.stats")
    assert done.exit_code == 2
    assert f"there is no folder {tmp_path / 'none'}." in " ".join(done.stderr.split())


@pytest.mark.slow
def test_too_little_memory_is_reported_in_a_sentence(sums, monkeypatch):
    def greedy(*_):
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr("saddleback.ope.load_statistics", greedy)
    done = run("evaluate", sums / "day0.stats")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        "error: not enough memory (Unable to allocate 7.28 TiB). Use fewer features."
    )


@pytest.mark.slow
def test_files_are_written_though_nobody_reads_the_answer(sums, tmp_path):
    """As with ``saddleback evaluate … --save FILE | head -1``."""
    saved = tmp_path / "result.json"
    words = [sys.executable, "-m", "saddleback", "evaluate", str(sums / "day0.stats")]
    words += ["--save", str(saved)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    process.wait()
    assert '"verdicts"' in saved.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a shell closes the streams")
def test_closed_streams_do_not_matter(sums, tmp_path):
    saved = tmp_path / "result.json"
    words = [sys.executable, "-m", "saddleback", "evaluate", str(sums / "day0.stats")]
    shell = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *words, "--save", str(saved)]
    assert subprocess.run(shell, check=False).returncode in (0, 3, 4)
    assert '"verdicts"' in saved.read_text(encoding="utf-8")


@pytest.mark.slow
def test_merge_summarises_its_output_as_json(sums, tmp_path):
    files = [sums / "day0.stats", sums / "day1.stats"]
    out = tmp_path / "all.stats"
    done = run("merge", *files, "--out", out, "--json")
    assert done.exit_code == 0
    assert done.stderr == f"merging {files[0]} and 1 more …\n"
    summary = json.loads(done.stdout)
    merged = sb.load_statistics(out)
    assert summary["episodes"] == 80 == merged.episodes.sum()
    assert summary["steps"] == merged.steps.sum()
    assert (summary["rules"], summary["targets"], summary["p"]) == (["GES(0)"], ["new"], merged.p)
    assert "-> " in run("merge", *files, "--out", out).stdout


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("check day.parquet --json", "check"), ("check nix.parquet --json", "check"),
        ("analyse two_state --json", "analysis"),
        ("sweep study.toml --quiet --json", "sweep"), ("sweep study.toml --plan --json", "plan"),
    ],
)  # fmt: skip
def test_json_names_its_kind_and_schema(words, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sb.collect(sb.problems.mountain_car(), episodes=2, rng=0, out="day.parquet")
    Path("study.toml").write_text(
        "steps = 50\ngrid = {alpha = [0.1], ratio = [1.0]}\n"
        '[[problem]]\nname = "two_state"\n[[rule]]\nname = "GES"\nlam = 0.5\n',
        encoding="utf-8",
    )
    output = json.loads(run(*words.split()).stdout)
    assert (output["kind"], output["schema"]) == (f"saddleback {kind}", 1)


def test_findings_in_json_name_options_not_python_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = synthetic_clinic.clinic(20, rng=0)
    rows["reward"][7] = float("nan")
    pq.write_table(pa.table(rows), "bad.parquet")
    done = run("check", "bad.parquet", "--obs", "hr,bp,lactate", "--json")
    messages = [item["message"] for item in json.loads(done.stdout)["findings"]]
    assert any("--drop-bad" in item for item in messages)
    assert "drop_bad=" not in done.stdout


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "much"])
def test_a_baseline_is_a_number(number, sums):
    done = run("rank", sums / "day0.stats", f"--baseline={number}")
    assert done.exit_code == 2
    assert f"--baseline {number}: write logged, or a number." in done.stderr


def complete(line, shell="bash", **environment):
    """Return the completions that a shell is offered at the end of a line."""
    words = line.split(" ")
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), **environment}
    done = typed(_SADDLEBACK_COMPLETE=f"{shell}_complete", **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


NEAR = ["plain,pi.py", "plain,plots/"]
"""Paths offered besides choices."""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("saddleback ev", ["plain,evaluate"]),
        ("saddleback paper the", ["plain,theorem1", "plain,theory"]),
        ("saddleback paper al", ["plain,all"]),
        ("saddleback report r", ["file,r"]),
        (
            "saddleback paper baird --rule GT",
            [f"plain,{name}" for name in sb.rules.NAMED if name.startswith("GT")],
        ),
        ("saddleback paper baird --rule GTD2", ["plain,GTD2", "plain,GTD2Split"]),
        ("saddleback analyse random", ["plain,random_walk", "plain,random_mdp"]),
        ("saddleback analyse some", ["file,some"]),
        ("saddleback check vis", ["file,vis"]),
        ("saddleback merge day", ["file,day"]),
        ("saddleback evaluate a.parquet --target un", ["plain,uniform"]),
        ("saddleback evaluate a.parquet --target pol", ["file,pol"]),
        ("saddleback evaluate a.parquet --target p", ["plain,pump:", *NEAR]),
        ("saddleback stats a.parquet --features p", ["plain,polynomial:", *NEAR]),
        ("saddleback stats a.parquet --features po", ["plain,polynomial:"]),
        ("saddleback stats a.parquet --rule Ex", ["plain,ExpectedSarsa"]),
        ("saddleback evaluate a.parquet --time-limit t", ["plain,task"]),
        ("saddleback rank a.parquet --lower-", ["plain,--lower-is-better"]),
    ],
)
def test_completion(line, offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pi.py").write_text("")
    (tmp_path / "page.html").write_text("")
    (tmp_path / "plots").mkdir()
    assert complete(line) == offered


def test_methods_are_those_of_the_library():
    assert {*METHODS} == {*methods.METHODS, *methods.CONTINUOUS, *DECISION_METHODS}


def test_completion_for_zsh_and_fish():
    offered = complete("saddleback quick", "zsh")
    assert offered[:2] == ["plain", "quickstart"]
    assert " ".join(offered[2:]) == COMMANDS["quickstart"]
    completions = complete("saddleback quick", "fish", COMP_CWORD="quick")
    assert completions[0].startswith("plain,quickstart")
    for shell, expected in (
        ("zsh", "compdef _saddleback_completion saddleback"),
        ("fish", "complete"),
    ):
        script = typed(_SADDLEBACK_COMPLETE=f"{shell}_source").stdout
        assert expected in script
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_completion_in_a_bash():
    script = """
    saddleback() { "$PYTHON" -m saddleback "$@"; }
    source /dev/stdin <<< "$(_SADDLEBACK_COMPLETE=bash_source saddleback)"
    COMP_WORDS=(saddleback qu) COMP_CWORD=1
    env() { while [[ $1 == *=* ]]; do local -x "$1"; shift; done; "$@"; }
    _saddleback_completion saddleback
    echo "${COMPREPLY[*]}"
    """
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHON": sys.executable},
    )  # fmt: skip
    assert done.stdout.strip() == "quickstart", done.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish; apt install fish")
def test_completion_in_a_fish(tmp_path):
    (tmp_path / "saddleback").write_text(f'#!/bin/sh\nexec {sys.executable} -m saddleback "$@"\n')
    (tmp_path / "saddleback").chmod(0o755)
    script = """
    _SADDLEBACK_COMPLETE=fish_source saddleback | source
    complete -C "saddleback paper the"
    """
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.split() == ["theorem1", "theory"], done.stderr


def test_shell_completion_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text("utf-8")
    for shell in ("bash", "zsh", "fish"):
        assert f"_SADDLEBACK_COMPLETE={shell}_source saddleback" in page


HOW = "--target uniform --gamma 0.9"


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (f"stats log.parquet {HOW} --out log.parquet", "log.parquet"),
        (f"evaluate log.parquet {HOW} --save log.parquet", "log.parquet"),
        (f"evaluate log.parquet {HOW} --report log.parquet", "log.parquet"),
        ("merge log.parquet --out log.parquet", "log.parquet"),
        ("report log.parquet --out log.parquet", "log.parquet"),
        # A folder or a pattern stands for its files.
        (f"stats *.parquet {HOW} --out log.parquet", "log.parquet"),
        (f"evaluate . {HOW} --save log.parquet", "log.parquet"),
        (f"evaluate deep/.. {HOW} --save deep/../log.parquet", "deep/../log.parquet"),
        # Policies and features are read, too.
        ("evaluate log.parquet --target pi.py:f --gamma 0.9 --save pi.py", "pi.py"),
        ("stats log.parquet --target new=pi.py:f --gamma 0.9 --out pi.py", "pi.py"),
        (f"evaluate log.parquet {HOW} --features phi.py:f --report phi.py", "phi.py"),
    ],
)
def test_inputs_are_never_overwritten(words, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    for name in ("log.parquet", "pi.py", "phi.py"):
        (tmp_path / name).write_bytes(b"precious")
    done = run(*words.split())
    assert done.exit_code == 2
    assert f"{target} is also an input file; choose a different output." in " ".join(
        done.stderr.split()
    )
    for name in ("log.parquet", "pi.py", "phi.py"):
        assert (tmp_path / name).read_bytes() == b"precious"


WRITES = ["evaluate log --save", "evaluate log --report", "stats log --out", "merge log --out",
          "explorer --out", "report log --out"]  # fmt: skip
"""Options that name a file to write; the log is never read."""


@pytest.mark.parametrize("words", WRITES)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "cannot write '.': give the file a name."),
        ("deep", "cannot write deep: it is a folder. Name a file, such as deep/new"),
        ("no/deeper/x.html", "there is no folder no/deeper. Create it first."),
        ("/dev/null/x.html", "cannot write /dev/null/x.html: "),
    ],
)
def test_unwritable_outputs_are_refused_before_any_work(
    words, name, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "log").write_bytes(b"not looked at")
    more = HOW.split() if "log" in words and "report log" not in words else []
    more = [] if words.startswith("merge") else more
    done = run(*words.split(), name, *more)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert "Usage" not in done.stderr
    assert {path.name for path in tmp_path.rglob("*")} == {"deep", "log"}


def test_pages_end_in_html_and_two_outputs_need_two_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("manifest.json", "both.html"):
        (tmp_path / name).write_bytes(b"precious")
    for words, message in (
        ("explorer --out manifest.json", "the name of a page must end in .html"),
        (f"evaluate log {HOW} --report manifest.json", "the name of a page must end in .html"),
        (f"evaluate log {HOW} --save both.html --report both.html", "is given for two outputs"),
        (f"evaluate log {HOW} --save both.html --report ./both.html", "is given for two outputs"),
    ):
        done = run(*words.split())
        assert done.exit_code == 2
        assert message in " ".join(done.stderr.split())
        assert (tmp_path / "both.html").read_bytes() == b"precious"
        assert (tmp_path / "manifest.json").read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["visits.parquet", "policy.py", "result.json", "report.html"])
def test_a_quickstart_never_overwrites_other_files(name, tmp_path):
    (tmp_path / name).write_bytes(b"precious")
    done = run("quickstart", "--out", tmp_path)
    assert done.exit_code == 2
    assert f"{name} exists and is not from a quickstart" in " ".join(done.stderr.split())
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"precious"]
