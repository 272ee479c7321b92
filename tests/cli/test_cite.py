"""``saddleback --cite``: the software and its paper, and the methods of a result or a store."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saddleback as sb
from helpers.logs import columns
from helpers.studies import invoke, write_study
from saddleback.cli import cite
from saddleback.rules import NAMED


def cited(*words):
    return re.findall(r"^@\w+\{(\w+),$", invoke("--cite", *words).stdout, re.MULTILINE)


def test_every_rule_and_estimator_has_an_entry():
    estimators = {"Marginal DR", "LSTD", "DR", "WDR", "IS", "PDIS", "WIS", "PDWIS"}
    sources = cite.sources_by_name()
    assert {*NAMED, *estimators} <= set(sources)
    keys = {key for of_method in sources.values() for key in of_method}
    assert {*keys, *cite.ALWAYS} == set(cite._entries())
    assert sources["GTD2Split"] == ["sutton2009", "geist2014"]


def test_the_software_is_cited_with_its_version():
    assert cited() == ["saddleback", "yang2021"]
    assert f"version = {{{sb.__version__}}}" in invoke("--cite").stdout


def test_entries_are_complete():
    for key, entry in cite._entries().items():
        assert entry.count("{") == entry.count("}"), key
        assert {"title", "author"} <= set(re.findall(r"^  (\w+) = ", entry, re.MULTILINE)), key
        assert ("year" in entry) == (key != "saddleback")


def test_the_entries_of_the_readme_are_those_printed():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert re.search(r"```bibtex\n(.*?)```", readme, re.DOTALL)[1] == cite.citations(None)


@pytest.mark.slow
def test_a_result_and_a_study_cite_what_they_used(tmp_path):
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    log, result = tmp_path / "log.parquet", tmp_path / "result.json"
    sb.collect(walk, episodes=40, rng=0, out=log)
    invoke(
        "evaluate", log, "--target", "uniform", "--features", "states", "--gamma", 0.9,
        "--rule", "TDC:0", "--save", result, "--quiet",
    )  # fmt: skip
    methods = {estimate["method"] for estimate in json.loads(result.read_bytes())["estimates"]}
    used = set(cited(str(result)))
    assert {"bradtke1996", "sutton2009"} <= used
    assert ("kallus2020" in used) == ("Marginal DR" in methods)
    assert "rahimi2007" not in used
    study = write_study(
        tmp_path,
        "steps = 5\ngrid = {alpha = [0.1], ratio = [1.0]}\n"
        '[[problem]]\nname = "two_state"\n[[rule]]\nname = "GTB"\nlam = 0.5\n',
    )
    assert invoke("sweep", study, "--quiet", "--out", tmp_path / "store").exit_code == 0
    assert cited(str(tmp_path / "store")) == ["saddleback", "yang2021", "touati2018"]


@pytest.mark.parametrize("mu", [True, False])
def test_a_result_cites_windowed_ratios_where_it_used_them(mu, tmp_path):
    """Only with propensities."""
    data = columns([8] * 40, "terminated")
    if not mu:
        data = {name: data[name] for name in data if not name.startswith(("mu", "behavior"))}
    log, result = tmp_path / "log.parquet", tmp_path / "result.json"
    pq.write_table(pa.table(data), log)
    invoke(
        "evaluate", log, "--target", "uniform", "--features", "polynomial:1", "--gamma", 0.9,
        "--rule", "GTB:0", "--save", result, "--quiet",
    )  # fmt: skip
    assert ("yuan2021" in cited(str(result))) == mu


@pytest.mark.parametrize("name", ["nowhere.json", "."])
def test_other_files_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("--cite", name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
