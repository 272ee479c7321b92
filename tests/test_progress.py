"""Progress: a fraction of all the planned work, shown as a bar or as a line every ten seconds."""

import io
import re
import sys
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from helpers.studies import SMALL, write_study
from saddleback import GES, collect, evaluate, learn, problems
from saddleback._progress import TaskProgress, part_of, split_progress
from saddleback.cli import cmd_check
from saddleback.cli import progress as cli_progress
from saddleback.cli.group import group
from saddleback.sweep import read_study, run_study, tasks_of

WILD = SMALL.replace("0.2]", "50.0]")


class Recorder:
    """Records the reports."""

    def __init__(self):
        self.reports = []

    def __call__(self, fraction, phase="", /):
        self.reports.append((fraction, phase))

    @property
    def fractions(self):
        return [fraction for fraction, _ in self.reports]


def test_nested_progress_maps_to_the_total():
    recorder = Recorder()
    first, second = split_progress(recorder, [("reading", 1.0), ("evaluating", 3.0)])
    part_of(second, 0.5, 1.0)(0.5)
    part_of(first, 0.0, 1.0, "inner")(1.0)
    assert recorder.reports == [(0.25 + 0.75 * 0.75, "evaluating"), (0.25, "inner")]
    assert split_progress(None, [("reading", 1.0)]) == [None]


def test_the_time_left_counts_down_between_reports():
    clock = cli_progress.Clock(now=0.0)
    assert clock.remaining(now=5.0) is None
    clock.report(0.1, now=10.0)
    assert [clock.remaining(now=t) for t in (10.0, 40.0, 500.0)] == [90.0, 60.0, 0.0]
    clock.report(0.5, now=60.0)
    assert clock.remaining(now=60.0) == 60.0


@pytest.mark.parametrize("cached_rows", [10**6, 0])
def test_an_evaluation_reports_every_phase_in_order(monkeypatch, cached_rows):
    """From 0 to 1 without decrease, whether the log is cached or read repeatedly."""
    monkeypatch.setattr(sys.modules["saddleback.ope.evaluate"], "CACHED_ROWS", cached_rows)
    car = problems.mountain_car()
    log = collect(car, episodes=30, rng=0)
    recorder = Recorder()
    evaluate(log, "pump:0.9", gamma=0.99, features="tiles:2x2", progress=recorder)
    assert recorder.fractions == sorted(recorder.fractions)
    assert recorder.fractions[-1] == pytest.approx(1.0)
    phases = list(dict.fromkeys(phase for _, phase in recorder.reports))
    assert phases == ["reading", "evaluating", "choosing features", "resampling"]


def test_learn_reports_progress_at_recorded_points():
    recorder = Recorder()
    problem = problems.two_state(gamma=0.9)
    learn(GES(0.0), problem, alpha=0.1, beta=0.1, steps=100, record=25, rng=0, progress=recorder)
    assert recorder.fractions == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_study_reports_progress_inside_tasks(tmp_path):
    recorder = Recorder()
    path = write_study(tmp_path, WILD)
    run_study(path, tmp_path / "s", progress=recorder)
    tasks = len(tasks_of(read_study(path), tmp_path))
    assert recorder.fractions == sorted(recorder.fractions)
    assert recorder.fractions[-1] == 1.0
    inside = {round(f * tasks, 3) for f in recorder.fractions}
    assert len(inside) > 2 * tasks
    assert re.fullmatch(
        rf"sweep, {tasks} of {tasks} tasks, [\d.]+ [kM] learner-steps/s, \d+ diverged",
        recorder.reports[-1][1],
    )


def test_the_progress_of_a_resumed_study_starts_at_zero(tmp_path):
    """Finished work is not counted, so that the remaining time is not underestimated."""
    path, out = write_study(tmp_path), tmp_path / "s"
    run_study(path, out)
    done = sorted((out / "shards").iterdir())
    done[0].unlink()
    recorder = Recorder()
    run_study(path, out, progress=recorder)
    assert recorder.fractions[0] < 0.5
    assert f", {len(done) - 1} of {len(done)} tasks" in recorder.reports[0][1]


def test_a_cluster_without_workers_is_noted():
    recorder = Recorder()
    TaskProgress(recorder, "sweep", {"a": 1}, 1, note=lambda: ", no workers").refresh()
    assert recorder.reports == [(0.0, "sweep, 0 of 1 tasks, no workers")]


def test_progress_without_a_terminal_is_plain_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(cli_progress, "LINE_INTERVAL", 0.0)
    done = CliRunner().invoke(
        group, ["sweep", str(write_study(tmp_path)), "--out", str(tmp_path / "s"), "--workers", "1"]
    )
    lines = [line for line in done.stderr.splitlines() if "% done" in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r"sweep, \d of 6 tasks.*: \d+% done(, \d+ s left)?", line)


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self):
        return True


def test_ctrl_c_before_the_context_of_the_bar_is_entered_erases_it(monkeypatch, tmp_path):
    """A signal may arrive when the bar is drawn but the with statement has not begun."""
    begun = []

    @contextmanager
    def interrupted(*quiet):
        begun.append(cli_progress.display(*quiet))
        begun[0].__enter__()
        raise KeyboardInterrupt
        yield

    collect(problems.mountain_car(), episodes=2, rng=0).write(tmp_path / "car.parquet")
    monkeypatch.setattr(cmd_check, "display", interrupted)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(SystemExit) as ended:
        group.main(["check", str(tmp_path / "car.parquet")], "saddleback")
    assert ended.value.code == 130
    drawn, end = sys.stderr.getvalue().rsplit("\r\x1b[2K", 1)
    assert "starting" in drawn
    assert end == "interrupted.\n"


def test_progress_lines_come_every_ten_seconds(tmp_path):
    done = CliRunner().invoke(
        group, ["sweep", str(write_study(tmp_path)), "--out", str(tmp_path / "s")]
    )
    assert done.exit_code == 0
    assert "% done" not in done.stderr


def test_progress_of_concurrent_runs_never_decreases():
    recorder = Recorder()
    problem = problems.two_state(gamma=0.9)
    learn(
        GES(0.0), problem, alpha=0.1, beta=0.1, steps=2000, runs=4, threads=2, rng=0,
        progress=recorder,
    )  # fmt: skip
    assert recorder.fractions == sorted(recorder.fractions)
    assert recorder.fractions[-1] == 1.0


def test_streamed_and_svrg_are_part_of_the_plan():
    """The bar does not reach the end before they finish."""
    log = collect(problems.mountain_car(), episodes=10, rng=0)
    recorder = Recorder()
    evaluate(
        log, "pump:0.9", gamma=0.99, features="tiles:2x2", methods=["streamed", "svrg"],
        passes=3, progress=recorder,
    )  # fmt: skip
    assert recorder.fractions == sorted(recorder.fractions)
    phases = list(dict.fromkeys(phase for _, phase in recorder.reports))
    assert phases[-2:] == ["streaming", "SVRG"]
