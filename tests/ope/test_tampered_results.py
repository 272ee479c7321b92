"""Tampered files: damaged results, statistics and systems are recognised."""

import copy
import io
import json
import re
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import saddleback as sb
from saddleback._json import json_text
from saddleback._npz import pack
from saddleback._paths import check_writable
from saddleback.cli.cmd_explain import read_result
from saddleback.cli.group import group
from saddleback.errors import InvalidParameter
from saddleback.ope.result_schema import SavedEvaluation, digest, find_damage
from saddleback.ope.statistics_io import packed_statistics
from saddleback.ope.text_report import format_result_verbose
from saddleback.problems import synthetic_clinic
from saddleback.report import evaluation_page, read_results, study_page
from saddleback.sweep import run_study

OTHERS = (None, "x", -1, 1e308, [], {}, True)
"""What is put in the place of each part."""


def run(*words):
    return CliRunner().invoke(group, [str(argument) for argument in words])


def error_text(done):
    """The complaint, in one line."""
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    assert max(map(len, done.stderr.splitlines())) <= 80
    return " ".join(done.stderr.split())


def places(plain, most=2):
    """Every place in nested data, with what holds it; of a long list the first few."""
    inside = list(plain.items() if isinstance(plain, dict) else enumerate(plain[:most]))
    for key, item in inside:
        yield plain, key
        if isinstance(item, (dict, list)):
            yield from places(item, most)


def mutations(plain):
    """The data with one place changed or left out, again and again, and changed back."""
    for holder, key in places(plain):
        kept = copy.copy(holder)
        for other in (*OTHERS, ...):
            if other is ...:
                del holder[key]
            else:
                holder[key] = other
            yield key, other
            holder.clear() if isinstance(holder, dict) else holder.__delitem__(slice(None))
            holder.update(kept) if isinstance(holder, dict) else holder.extend(kept)


@pytest.fixture(scope="module")
def result():
    """A saved result with all that one may have, of long lists the first few."""
    log = sb.Log(
        synthetic_clinic.clinic(60, rng=0),
        observations=synthetic_clinic.SIGNS,
        actions=synthetic_clinic.DOSES,
    )
    box = sb.features.Polynomial((50, 50, 0), (150, 130, 12), degree=1)
    data = sb.evaluate(
        log, {"new": synthetic_clinic.earlier}, features=box, gamma=0.97, path=True, draws=20,
        distribution=True,
    ).as_dict()  # fmt: skip
    data |= {"made": {"command": "saddleback", "versions": {"numpy": "2"}, "seed": 0}}
    data["card"] = log.summary(0.97).as_dict()
    data = json.loads(json_text(data))
    verdict, (distribution,) = data["verdicts"][0], data["distributions"]
    spectrum = verdict["spectrum"]
    spectrum["draws"] = 100  # the number from which draws are reported
    for holder, name in (
        (verdict["consensus"], "candidates"), (verdict["support"], "parts"), (spectrum, "values"),
        (spectrum, "cloud"), (spectrum, "drawn"), (data["ess_by_step"], "new"),
        (data["tails"], "new"), (distribution, "curve"),
    ):  # fmt: skip
        assert len(holder[name]) > 5
        del holder[name][5:]
    return data


def test_the_schema_covers_every_field_of_a_result(result):
    assert set(SavedEvaluation.__struct_encode_fields__) == set(result) - {"kind", "schema"}
    assert find_damage(result) is None


@pytest.mark.slow
def test_no_change_of_a_result_ends_in_a_crash(result, monkeypatch):
    """A result that is not rejected as damaged can be printed and rendered as a page."""
    monkeypatch.setattr("saddleback.report.evaluation_html.page", lambda *_, **shown: str(shown))
    plain = copy.deepcopy(result)
    refused = accepted = 0
    for _ in mutations(plain):
        if find_damage(plain) is None:
            accepted += 1
            format_result_verbose(plain)
            evaluation_page(plain)
        else:
            refused += 1
    assert plain == result
    assert refused > 1000
    assert accepted > 100


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda r: r["verdicts"][0].update(value="x"),
            "verdicts[0].value: expected `float | null`, got `str`",
        ),
        (
            lambda r: r["verdicts"][0].update(evidence=None),
            "verdicts[0].evidence: expected `object`, got `null`",
        ),
        (
            lambda r: r["verdicts"][0]["gates"][1].pop("code"),
            "verdicts[0].gates[1]: object missing required field `code`",
        ),
        (
            lambda r: r["verdicts"][0].update(trust="sure"),
            "verdicts[0].trust: invalid enum value 'sure'",
        ),
        (
            lambda r: r["verdicts"][0].update(interval_with_gap=[1.0]),
            "verdicts[0].interval_with_gap: expected `array` of length 2",
        ),
        (lambda r: r.update(estimates=[]), "estimates: expected `array` of length >= 1"),
        (lambda r: r.update(episodes=True), "episodes: expected `int`, got `bool`"),
        (lambda r: r.update(gamma=10**400), "gamma: number out of range"),
        (lambda r: r.update(schema="1"), "its schema is '1', not 1"),
        (lambda r: r.update(schema=0), "its schema is 0, not 1"),
        (lambda r: r.update(schema=True), "its schema is True, not 1"),
        (lambda r: r.update(schema=2), "schema 2, written by a newer saddleback"),
        (lambda r: r.update(kind="saddleback check"), "holds saddleback check: give a file"),
        (lambda r: r.update(kind=[1]), "holds other JSON: give a file"),
    ],
)
@pytest.mark.parametrize("command", ["explain", "report"])
def test_a_damaged_result_is_named_with_the_place(
    command, change, complaint, result, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    plain = copy.deepcopy(result)
    change(plain)
    (tmp_path / "r.json").write_text(json.dumps(plain))
    assert complaint in error_text(run(command, "r.json"))
    assert not (tmp_path / "r.html").exists()


def test_an_edited_number_of_a_result_is_noticed(result, tmp_path):
    path = tmp_path / "r.json"
    sealed = result | {"digest": digest(result)}
    path.write_text(json_text(sealed))
    assert read_result(path) == sealed
    for changed in (sealed | {"gamma": 0.5}, sealed | {"digest": "0"}, result):
        path.write_text(json_text(changed))
        with pytest.raises(InvalidParameter, match="its content does not match its digest"):
            read_result(path)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\x80", "1" * 5000])
def test_files_that_are_not_json_are_named(text, tmp_path):
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidParameter, match=r"is not JSON \(.*give a file written"):
        read_result(path)


@pytest.fixture(scope="module")
def content():
    """Small statistics as metadata and arrays, including their hash."""
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    log = sb.collect(walk, episodes=30, rng=0)
    sums = sb.Statistics.of(
        log, sb.GES(0.5), {"new": walk.target}, features=sb.features.OneHot(5), gamma=0.9, blocks=4
    )
    with np.load(io.BytesIO(packed_statistics(sums))) as file:
        return dict(file)


def changed_arrays(array):
    """An array with other numbers, and of other shapes."""
    yield np.full_like(array, 1 if array.dtype.kind == "b" else 7)
    if array.ndim:
        yield from (array[:-1], np.concatenate([array, array[:1]]), array[None])
    if array.dtype.kind == "f":
        yield np.full_like(array, np.nan)
        yield array.astype(np.float32)


@pytest.mark.slow
def test_no_change_of_statistics_goes_unnoticed(content, tmp_path):
    path, text = tmp_path / "day.stats", str(content["words"])
    with path.open("wb") as file:
        np.savez(file, **content)
    assert sb.load_statistics(path).episodes.sum() == 30
    words = json.loads(text)
    texts = {json.dumps(words) for _ in mutations(words)} - {text}
    others = [content | {"words": np.array(text)} for text in sorted(texts)]
    others += [
        content | {name: other}
        for name, array in content.items()
        for other in ((np.array(""),) if array.dtype.kind == "U" else changed_arrays(array))
    ]
    others += [{n: a for n, a in content.items() if n != name} for name in content]
    assert len(others) > 300
    for other in others:
        with path.open("wb") as file:
            np.savez(file, **other)
        with pytest.raises(InvalidParameter, match=r"damaged|has schema"):
            sb.load_statistics(path)


def test_arrays_of_wrong_shapes_are_rejected(content, tmp_path):
    """Even if the hash is correct, as from a faulty writer."""
    arrays = {name: array for name, array in content.items() if name not in ("words", "digest")}
    words = json.loads(str(content["words"]))
    for name, array in arrays.items():
        with (tmp_path / "day.stats").open("wb") as file:
            pack(file, words, arrays | {name: array[None]})
        with pytest.raises(InvalidParameter, match="is not statistics saved by saddleback"):
            sb.load_statistics(tmp_path / "day.stats")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (dict(p=10**6), "Statistics: 1,000,000 features (one copy per action) exceed 10,000"),
        (dict(p=5), "its active features are not numbered in order."),
        (dict(p=999), "its number of features does not fit its actions."),
        (dict(p=True), "p: expected `int`, got `bool`."),
        (dict(gamma=-1), "gamma: expected `float` >= 0.0."),
        (dict(values="both"), "values: expected `str` matching regex '^(action|state)$'."),
        (dict(targets=[["new"]]), "targets[0]: expected `str`, got `array`."),
        (dict(rules=[["GES(0.5)", 3]]), "[0][1]: expected `str`, got `int`."),
    ],
)
def test_settings_that_cannot_be_are_rejected_before_memory_is_used(
    change, complaint, content, tmp_path
):
    """Even if the hash is correct, as in a forged file."""
    arrays = {name: array for name, array in content.items() if name not in ("words", "digest")}
    words = json.loads(str(content["words"]))
    words["setting"] |= change
    with (tmp_path / "day.stats").open("w+b") as file:
        pack(file, words, arrays)
    with pytest.raises(InvalidParameter, match=re.escape(f"or is damaged: {complaint}")):
        sb.load_statistics(tmp_path / "day.stats")


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("action_mass", lambda array: array * np.nan, "action_mass[0, 0] is nan"),
        ("action_mass", lambda array: array.astype(str), "action_mass does not hold numbers"),
        ("action_mass", lambda array: array.astype("M8[s]"), "action_mass does not hold numbers"),
        ("steps", np.zeros_like, "its numbers of steps are all 0"),
        ("steps", np.negative, "steps is negative"),
        ("steps", lambda x: x / 1e9, "steps does not hold whole numbers"),
        ("steps", lambda x: -x.astype(np.uint64), "steps is too large"),
        ("squares", np.negative, "squares is negative"),
        ("altered", np.zeros_like, "its numbers of rows contradict each other"),
        ("altered", np.negative, "altered is negative"),
    ],
)
def test_arrays_of_impossible_numbers_are_rejected(name, change, complaint, content, tmp_path):
    arrays = {name: array for name, array in content.items() if name not in ("words", "digest")}
    arrays[name] = change(arrays[name])
    with (tmp_path / "day.stats").open("w+b") as file:
        pack(file, json.loads(str(content["words"])), arrays)
    with pytest.raises(InvalidParameter, match=re.escape(f"or is damaged: {complaint}")):
        sb.load_statistics(tmp_path / "day.stats")


def test_arrays_larger_than_their_file_are_rejected_before_memory_is_used(content, tmp_path):
    path, huge = tmp_path / "day.stats", io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(huge, header)
    with path.open("wb") as file:
        np.savez(file, **{name: array for name, array in content.items() if name != "M"})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("M.npy", huge.getvalue())
    with pytest.raises(InvalidParameter, match=r"M\.npy is not as large as its header says"):
        sb.load_statistics(path)


@pytest.mark.parametrize("command", ["evaluate", "rank", "merge"])
@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda c: c | {"steps": c["steps"][:-1]}, "its content does not match its digest."),
        (lambda c: {**c, "words": np.array('{"schema": 6}')}, "written by an older saddleback"),
        (lambda c: {**c, "words": np.array('{"schema": 9}')}, "written by a newer saddleback"),
        (lambda c: {"active": np.array([{}], dtype=object)}, "or is damaged."),
        (lambda c: b"", "is not statistics saved by saddleback, or is damaged."),
        (lambda c: b"PK\3\4 cut short", "is not statistics saved by saddleback, or is damaged."),
    ],
)  # fmt: skip
def test_damaged_statistics(command, damage, complaint, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = damage(content)
    with (tmp_path / "day.stats").open("wb") as file:
        file.write(other) if isinstance(other, bytes) else np.savez(file, **other)
    out = ("--out", "all.stats") if command == "merge" else ()
    message = error_text(run(command, "day.stats", *out))
    assert complaint in message
    assert "pickle" not in message
    assert not (tmp_path / "all.stats").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "check day.stats",
            "day.stats holds statistics, not a log: use saddleback evaluate, rank or",
        ),
        ("stats day.stats --target uniform --gamma 0.9 --out x", "holds statistics, not a log"),
        ("check day.json", "day.json holds a result, not a log: use saddleback explain day.json."),
        ("rank day.json --target uniform", "day.json holds a result, not a log: use saddleback"),
        ("evaluate nix.stats", "cannot read nix.stats: No such file or directory."),
        ("report day.stats", "saddleback evaluate day.stats --report FILE."),
        ("explain day.stats", "day.stats holds statistics, not a result. Use saddleback evaluate"),
        (
            "report log.parquet",
            "log.parquet holds a log, not a result. Use saddleback evaluate log",
        ),
        ("merge log.parquet --out x", "log.parquet is not statistics saved by saddleback, or is"),
        ("analyse day.npz", "day.npz is not a system saved by saddleback, or is damaged."),
    ],
)
def test_wrong_kinds_of_files_are_named(words, complaint, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "day.stats").open("wb") as file:
        np.savez(file, **content)
    (tmp_path / "day.json").write_text('{\n "kind": "saddleback evaluation",\n "schema": 1\n}\n')
    sb.collect(sb.problems.mountain_car(), episodes=1, rng=0, out="log.parquet")
    (tmp_path / "day.npz").write_bytes(b"\x80\x04K\x01.")
    assert complaint in error_text(run(*words.split()))


STUDY = """
title = "small"
steps = 50
grid = {alpha = [0.1, 0.2], ratio = [1.0]}
problem = [{name = "two_state"}]
rule = [{name = "GES", lam = 0.5}]
"""


def test_no_change_of_a_manifest_ends_in_a_crash(tmp_path, monkeypatch):
    monkeypatch.setattr("saddleback.report.study_html.page", lambda *_, **shown: str(shown))
    study, out = tmp_path / "s.toml", tmp_path / "s"
    study.write_text(STUDY)
    run_study(study, out)
    path = out / "manifest.json"
    plain = json.loads(path.read_text())
    refused = 0
    for _ in mutations(plain):
        path.write_text(json.dumps(plain))
        try:
            results = read_results(out)
        except InvalidParameter:
            refused += 1
            continue
        study_page(results, "s")
        run_study(study, out)
    assert refused > 100


def test_a_dangling_link_is_left_alone(tmp_path):
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "new.html")
    check_writable(link)
    assert link.is_symlink()
    assert not (tmp_path / "new.html").exists()
