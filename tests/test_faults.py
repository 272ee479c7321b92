"""Random faults end in a clear error, in the same answer, or in a warning; never otherwise."""

import shutil

import numpy as np
import pytest
from benchmarks.faults import QUICK, command, draw_try, run_try, studies
from benchmarks.faults import __main__ as faults_main
from benchmarks.faults.trial import Answer, Broken, Outcome, Trial, compare, judge

from saddleback.errors import InvalidParameter

TRIES = 20
"""Tries of each family; ``make faults`` makes more, kills commands and fills disks."""

GOOD = {Outcome.REFUSED, Outcome.SAME, Outcome.WARNED}


@pytest.mark.slow
@pytest.mark.usefixtures("known_opinions")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("family", QUICK)
def test_faults(family, tmp_path):
    notes = []
    for seed in range(TRIES // 2 if family == "tuning" else TRIES):  # each of which evaluates a log
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcome, note = run_try(family, seed, folder)
        if outcome not in GOOD:
            notes.append(f"{outcome}: {command(family, seed)}\n{note}")
    assert notes == []


@pytest.mark.slow
def test_a_store_is_computed_again_or_refused(tmp_path):
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert run_try("stores", seed, folder)[0] in GOOD


def raising(error):
    def use(folder):
        raise error

    return use


@pytest.mark.parametrize(
    ("use", "outcome"),
    [
        (lambda folder: Answer("same"), Outcome.SAME),
        (lambda folder: Answer("other"), Outcome.SILENT),
        (lambda folder: Answer("other", notes=frozenset({"W150"})), Outcome.WARNED),
        (lambda folder: Answer("other", value=1.05), Outcome.SAME),
        (lambda folder: Answer("other", value=1.2), Outcome.SILENT),
        (lambda folder: Answer("other", value=np.nan), Outcome.SILENT),
        (raising(InvalidParameter("the file is damaged.")), Outcome.REFUSED),
        (raising(InvalidParameter("")), Outcome.TRACEBACK),
        (raising(IndexError("0")), Outcome.TRACEBACK),
        (raising(Broken("an old file is gone")), Outcome.TRACEBACK),
    ],
)
def test_outcomes(use, outcome, tmp_path):
    reference = Answer("same", value=1.0, error=0.1, notes=frozenset({"usable"}))
    assert judge(Trial("none", use, lambda: reference), reference, tmp_path)[0] == outcome


def test_a_warning_that_is_always_there_tells_nothing():
    notes = frozenset({"usable", "W150"})
    reference = Answer(value=1.0, error=0.1, notes=notes)
    assert compare(Answer(value=2.0, notes=notes), reference) == Outcome.SILENT


@pytest.mark.slow
@pytest.mark.parametrize(("text", "old", "new"), [
    (studies.STUDY, "seed = 7", "seed = 8"), (studies.FUNCTION_STUDY, "first = 7", "first = 8"),
])  # fmt: skip
def test_a_change_of_results_that_the_manifest_lacks_is_silent(
    text, old, new, tmp_path, monkeypatch
):
    def outcome(new, quick=False):
        folders = [tmp_path / "before", tmp_path / "after"]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        texts = (text, text.replace(old, new))
        pairs = zip(folders, texts, strict=True)
        before, after = (studies.results_and_manifest(*pair, quick) for pair in pairs)
        return compare(after, before)

    assert outcome(old) == outcome(f"{old}  # as before") == outcome(old, True) == Outcome.SAME
    assert outcome(new) == Outcome.WARNED
    for module in ("benchmarks.faults.studies", "saddleback.sweep.manifest"):
        monkeypatch.setattr(f"{module}.study_hash", lambda *_: "the same")
    monkeypatch.setattr("saddleback.sweep.store.study_hash", lambda *_: "the same")
    assert outcome(new) == Outcome.SILENT


@pytest.mark.parametrize("family", QUICK)
def test_a_seed_is_a_try(family):
    tries = [draw_try(family, seed).damage for seed in range(10)]
    assert [draw_try(family, seed).damage for seed in range(10)] == tries
    assert len({*tries}) > 5


def test_a_stopped_campaign_continues(tmp_path, monkeypatch):
    tried = []

    def campaign(trials, jobs):
        tried.extend(trials)
        return ((trial, ("refused", "note", 0.1)) for trial in trials)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(faults_main, "campaign", campaign)
    trials = faults_main.plan(20, 0, ["options", "policies"])
    first = faults_main.outcomes(trials[:7], 1)
    both = faults_main.outcomes(trials, 1)
    assert tried == trials
    assert {trial: both[trial][0] for trial in first} == dict.fromkeys(trials[:7], "refused")
    assert len(both) == 20
