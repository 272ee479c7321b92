"""Files that were changed: results, statistics and systems are told from damaged ones."""

import copy
import json

import pytest
from click.testing import CliRunner

import saddleback as sb
from saddleback.commands import group
from saddleback.commands._logs import as_json
from saddleback.commands.explain import read_result
from saddleback.errors import InvalidParameter
from saddleback.problems import clinic
from saddleback.report import evaluation_page
from saddleback.verdict.saved import RESULT, damage
from saddleback.verdict.words import explained

OTHERS = (None, "x", -1, 1e308, [], {}, True)
"""What is put in the place of each part."""


def run(*words):
    return CliRunner().invoke(group, [str(word) for word in words])


def said(done):
    """The complaint, in one line."""
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    assert max(map(len, done.stderr.splitlines())) <= 80
    return " ".join(done.stderr.split())


def places(plain, most=2):
    """Every place in nested data, with what holds it; of a long list the first few."""
    inside = list(plain.items() if isinstance(plain, dict) else enumerate(plain[:most]))
    for key, each in inside:
        yield plain, key
        if isinstance(each, (dict, list)):
            yield from places(each, most)


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
    """A saved result with all that one may have."""
    log = sb.Log(clinic.clinic(60, rng=0), observations=clinic.SIGNS, actions=clinic.DOSES)
    box = sb.features.Polynomial((50, 50, 0), (150, 130, 12), degree=1)
    found = sb.evaluate(
        log, {"new": clinic.earlier}, features=box, gamma=0.97, path=True, draws=20
    ).as_dict()
    found |= {"made": {"command": "saddleback", "versions": {"numpy": "2"}, "seed": 0}}
    found["card"] = log.card(0.97).as_dict()
    found["verdicts"][0]["spectrum"]["draws"] = 100  # from where on more is told of them
    return json.loads(as_json(found))


def test_the_description_knows_every_field_of_a_result(result):
    names = {name.removesuffix("?") for name in RESULT}
    assert names == set(result) - {"kind", "schema"}
    assert damage(result) is None


def test_no_change_of_a_result_ends_in_a_crash(result, monkeypatch):
    """What is not said to be damaged is told again, on the terminal and as a page."""
    monkeypatch.setattr("saddleback.report.evaluation.page", lambda *_, **shown: str(shown))
    plain = copy.deepcopy(result)
    refused = told = 0
    for _ in mutations(plain):
        if damage(plain) is None:
            told += 1
            explained(plain)
            evaluation_page(plain)
        else:
            refused += 1
    assert plain == result
    assert refused > 1000
    assert told > 100


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda r: r["verdicts"][0].update(value="x"), "verdicts[0].value is not a number"),
        (lambda r: r["verdicts"][0].update(evidence=None), "verdicts[0].evidence is not an object"),
        (lambda r: r["verdicts"][0]["gates"][1].pop("code"), "verdicts[0].gates[1].code is miss"),
        (lambda r: r["verdicts"][0].update(trust="sure"), "trust is none of doubtful, refused"),
        (lambda r: r["verdicts"][0].update(wide=[1.0]), "verdicts[0].wide is not a list of 2"),
        (lambda r: r.update(estimates=[]), "estimates is empty"),
        (lambda r: r.update(episodes=True), "episodes is not a whole number"),
        (lambda r: r.update(gamma=10**400), "gamma is not a number"),
        (lambda r: r.update(schema="1"), "its schema is '1', not 1"),
        (lambda r: r.update(schema=0), "its schema is 0, not 1"),
        (lambda r: r.update(schema=True), "its schema is True, not 1"),
        (lambda r: r.update(schema=2), "schema 2, written by a newer saddleback"),
        (lambda r: r.update(kind="saddleback check"), "holds saddleback check: give what"),
        (lambda r: r.update(kind=[1]), "holds something else: give what"),
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
    assert complaint in said(run(command, "r.json"))
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\x80", "1" * 5000])
def test_what_is_not_json_is_said_to_be_none(text, tmp_path):
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidParameter, match=r"is not JSON \(.*give what saddleback evaluate"):
        read_result(path)
