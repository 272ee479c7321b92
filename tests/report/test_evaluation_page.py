"""The page of an evaluation says what terminal and JSON say, and shows what it rests on."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

import saddleback as sb
from helpers import logs
from saddleback.cli.group import group
from saddleback.evaluation.weight_diagnostics import pareto_k, weight_tail
from saddleback.report import evaluation_page, write
from saddleback.verdict.text_report import (
    answer,
    baseline_line,
    failed_checks,
    format_result,
    least_data,
    rows,
    value_line,
)

EVIL = "<img src=x onerror='window.hacked=1'>"
SCRIPT = "<script>window.hacked=1</script>"


class Text(HTMLParser):
    """The text of a page, without its scripts and its style."""

    def __init__(self):
        super().__init__()
        self.parts, self.inside = [], []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "style"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data):
        if not self.inside:
            self.parts.append(data)


def text_of(page):
    parser = Text()
    parser.feed(page)
    return " ".join(" ".join(parser.parts).split())


def evil_log():
    """A log whose columns and actions are called like HTML."""
    frame = logs.columns([6] * 150, "terminated", d=2, seed=3)
    frame[EVIL], frame[SCRIPT] = frame.pop("obs_0"), frame.pop("obs_1")
    for name in [each for each in frame if each.startswith(("next_", "mu_"))]:
        del frame[name]
    return sb.Log(frame, observations=[EVIL, SCRIPT], actions=[SCRIPT, "low", EVIL])


@pytest.fixture(scope="module")
def results():
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    features = sb.features.OneHot(walk.mdp.n_states)
    log = sb.collect(walk, episodes=400, rng=0)
    car = sb.problems.mountain_car()
    few = sb.collect(car, episodes=60, rng=0)
    both = {"pump & go": "pump:0.8", SCRIPT: "uniform"}
    evil = evil_log()
    centres = sb.features.RBF([-3.0, -3.0], [3.0, 3.0], centres=3)
    bare = logs.columns([6] * 150, "terminated", mu=False)
    del bare["behavior_prob"]
    found = {
        "good": sb.evaluate(log, walk.target, features=features, gamma=0.9, path=True),
        "several": sb.evaluate(few, both, features=car.features, gamma=0.99, path=True),
        "evil": sb.evaluate(evil, {EVIL: "uniform"}, features=centres, gamma=0.9, path=True),
        "without ratios": sb.evaluate(
            sb.Log(bare), "uniform", features=centres, gamma=0.9, rule=sb.GES(0.0)
        ),
    }
    return {name: each.as_dict() for name, each in found.items()}


NAMES = ("good", "several", "evil", "without ratios")


@pytest.mark.parametrize("name", NAMES)
def test_terminal_json_and_page_say_the_same(results, name):
    live = results[name]
    saved = json.loads(json.dumps(live))
    assert saved == live
    assert format_result(saved) == format_result(live)
    terminal, page = " ".join(format_result(saved).split()), text_of(evaluation_page(saved))
    trusts = set()
    for verdict in saved["verdicts"]:
        sentences = [
            answer(verdict).text, value_line(verdict), baseline_line(saved), least_data(verdict),
            *(" ".join(check) for check in failed_checks(verdict)),
        ]  # fmt: skip
        for sentence in sentences:
            assert " ".join(sentence.split()) in terminal
            assert " ".join(sentence.split()) in page
        for row in rows(saved, verdict["target"], verdict)[0]:
            cells = " ".join(" ".join(row).split())
            assert cells in terminal
            assert cells in page
        trusts.add(verdict["trust"])
        for gate in verdict["gates"]:
            assert gate["sentence"] in page
    assert trusts
    for warning in saved["warnings"]:
        assert " ".join(warning.split()) in page


def test_all_verdicts_are_tried(results):
    trusts = {each["trust"] for found in results.values() for each in found["verdicts"]}
    assert trusts == {"usable", "doubtful", "refused"}


def test_a_refused_answer_leads_with_the_reason_and_is_grey(visit, results, tmp_path):
    page = visit(write(evaluation_page(results["several"]), tmp_path / "several.html"))
    at = [each["trust"] for each in results["several"]["verdicts"]].index("refused")
    card = page.locator(f"#verdict-{at}")
    assert "No answer, the estimate is refused: " in " ".join(card.inner_text().split())
    assert "bad" in card.get_attribute("class")
    colours = page.eval_on_selector_all(
        f"#policy-{at} .estimates td",
        "all => [...new Set(all.map((e) => getComputedStyle(e).color))]",
    )
    assert colours == ["rgb(89, 99, 110)"]
    kinds = page.evaluate(
        "Object.values(JSON.parse(document.getElementById('data').textContent).figures"
        f"['forest-{at}'].rows).map((row) => row.kind)"
    )
    assert "refused" in kinds
    assert not {"used", "of V^π"} & set(kinds)


def test_names_made_of_html_are_text(visit, results, tmp_path):
    page = visit(write(evaluation_page(results["evil"]), tmp_path / "evil.html"), width=390)
    assert page.evaluate("window.hacked") is None
    assert f"Value of {EVIL}" in page.locator("#verdict").inner_text()
    assert page.locator("main img, main script").count() == 0
    for name in (EVIL, SCRIPT):
        assert name in page.locator("#data-card").inner_text()
        page.select_option("select[data-signal=column]", name)
        page.wait_for_function(
            "([name]) => document.querySelector('#coverage-0 svg').textContent.includes(name)",
            arg=[name[:8]],  # long labels are cut short
        )
    page.locator("#coverage-0 .mark-rect path").first.hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "window.hacked" in page.inner_text("#vg-tooltip-element")
    assert page.evaluate("window.hacked") is None
    long = json.loads(json.dumps(results["several"]).replace("pump & go", "x" * 60))
    for one in (page, visit(write(evaluation_page(long), tmp_path / "long.html"), width=390)):
        assert one.evaluate("document.documentElement.scrollWidth") <= 390


def test_charts_follow_their_controls_by_keyboard(visit, results, tmp_path):
    page = visit(write(evaluation_page(results["evil"]), tmp_path / "page.html"))
    ticks = "() => document.querySelector('#ess-0 svg').textContent"
    before = page.evaluate(ticks)
    page.focus("#ess-0-axis")
    page.keyboard.press("ArrowDown")
    page.wait_for_function(f"({ticks})() !== {json.dumps(before)}")
    page.focus("#figure-tail-0 summary")
    page.keyboard.press("Enter")
    page.wait_for_selector("#figure-tail-0 tbody tr >> nth=5")
    page.keyboard.press("Tab")
    with page.expect_download() as caught:
        page.keyboard.press("Enter")
    lines = caught.value.path().read_text().splitlines()
    assert lines[0] == "weight,share"
    pairs = np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]])
    wanted = results["evil"]["tails"][EVIL]
    assert np.allclose(pairs, [each for each in wanted if each[0] >= 0.01])


def test_axes_show_what_is_near_nothing(visit, results, tmp_path):
    """Steps at which no episode counts, and eigenvalues close to the axis."""
    changed = json.loads(json.dumps(results["good"]))
    name = next(iter(changed["ess_by_step"]))
    changed["ess_by_step"][name][-3:] = [0.0] * 3
    cloud = changed["verdicts"][0]["spectrum"]
    cloud["values"] = [[-1e-7, 0.0], [-1.0, 0.0]]
    page = visit(write(evaluation_page(changed), tmp_path / "page.html"))
    assert "leaves out the steps at which none counts" in page.inner_text(
        "#figure-ess-0 figcaption"
    )
    page.select_option("#ess-0-axis", "log")
    page.wait_for_function("document.querySelectorAll('#ess-0 .mark-line path').length === 1")
    page.wait_for_timeout(100)
    line = page.locator("#ess-0 .mark-line path").get_attribute("d")
    heights = [float(y) for y in re.findall(r"[ML][\d.-]+,([\d.-]+)", line)]
    assert len(heights) == len(changed["ess_by_step"][name]) - 3
    assert max(heights) > min(heights) + 50
    tick = "document.querySelector('#spectrum-0 svg').textContent.includes('−0.01')"
    assert not page.evaluate(tick)
    page.select_option("#spectrum-0-axis", "symlog")
    page.wait_for_function(tick)


def test_a_tail_is_too_heavy_where_its_estimates_are_void(results):
    """With few episodes the limit of k-hat is below ½."""
    changed = json.loads(json.dumps(results["good"]))
    for each in changed["estimates"]:
        each["k_hat"] = each["k_hat"] and 0.4
    assert "k-hat is 0.40: light." in evaluation_page(changed)
    changed["episodes"] = 25
    text = evaluation_page(changed)
    assert "k-hat is 0.40: too heavy." in text
    assert "up to 0.28, the dashed line" in text


def test_nothing_covered_is_said_and_drawn(visit, results, tmp_path):
    changed = json.loads(json.dumps(results["good"]))
    parts = changed["verdicts"][0]["support"]["parts"]
    parts[0]["coverage"] = 0.0
    page = visit(write(evaluation_page(changed), tmp_path / "page.html"))
    said = page.inner_text("#figure-coverage-0 figcaption")
    assert said.endswith(f"Least covered: {parts[0]['where']}, 0%.")
    texts = page.locator("#coverage-0 .mark-text text").all_text_contents()
    assert "0%" in texts


def test_what_lies_beyond_the_picture_has_an_arrow(visit, results, tmp_path):
    changed = json.loads(json.dumps(results["good"]))
    changed["estimates"][-1] |= {"value": 1e6, "low": 1e5, "high": 1e7, "k_hat": 2.0}
    page = visit(write(evaluation_page(changed), tmp_path / "page.html"))
    assert page.locator("#forest-0 svg").text_content().count("▶") == 1
    assert "An arrow points to what lies beyond" in page.inner_text("#figure-forest-0 figcaption")
    inside = changed["estimates"][0]["value"]
    changed["estimates"][-1] |= {"value": inside, "low": -1e5, "high": 1e5}
    both = visit(write(evaluation_page(changed), tmp_path / "both.html"))
    assert re.findall("[◀▶]", both.locator("#forest-0 svg").text_content()) == ["◀", "▶"]
    assert "An arrow points to what lies beyond" in both.inner_text("#figure-forest-0 figcaption")
    path = write(evaluation_page(results["good"]), tmp_path / "good.html")
    assert "▶" not in visit(path).locator("#forest-0 svg").text_content()


def test_csv_cannot_begin_a_formula(visit, results, tmp_path):
    changed = json.loads(json.dumps(results["good"]))
    changed["estimates"][0]["method"] = '=HYPERLINK("http://x";"y")'
    page = visit(write(evaluation_page(changed), tmp_path / "page.html"))
    page.click("#figure-forest-0 summary")
    with page.expect_download() as caught:
        page.click("[data-csv=forest-0]")
    assert '"\'=HYPERLINK(""http://x"";""y"")"' in caught.value.path().read_text()


@pytest.mark.parametrize("episodes", [2, 10, 11])
def test_few_episodes_make_a_page(episodes):
    """Weights are never enough then, and there is no line that they could follow."""
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    features = sb.features.OneHot(walk.mdp.n_states)
    log = sb.collect(walk, episodes=episodes, rng=0)
    found = sb.evaluate(log, walk.target, features=features, gamma=0.9, path=True)
    assert "the dashed line; a tail" not in evaluation_page(found.as_dict())


def test_all_eigenvalues_are_drawn(results):
    changed = json.loads(json.dumps(results["good"]))
    changed["verdicts"][0]["spectrum"]["values"] = [[-0.001 * k, 0.0] for k in range(1, 801)]
    page = evaluation_page(changed)
    found = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    rows = [row for row in found["figures"]["spectrum-0"]["rows"] if row["of"] == "Â"]
    assert len(rows) == 800


def test_what_was_refused_is_grey_along_the_trace(results):
    changed = json.loads(json.dumps(results["good"]))
    for trust, colour in (("usable", "var(--c1)"), ("refused", "var(--muted)")):
        changed["verdicts"][0]["trust"] = trust
        page = evaluation_page(changed)
        found = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
        assert found["figures"]["path-0"]["spec"]["layer"][0]["mark"]["color"] == colour


def test_a_path_without_values_is_not_drawn(results):
    changed = json.loads(json.dumps(results["good"]))
    assert 'id="path-0"' in evaluation_page(changed)
    for each in changed["paths"].values():
        each["lambda"] = [[lam, None] for lam, _ in each["lambda"]]
    assert 'id="path-0"' not in evaluation_page(changed)


def test_what_was_not_made_is_not_shown(results):
    page = evaluation_page(results["without ratios"])
    for kind in ("ess", "tail", "path"):
        assert f'id="{kind}-0"' not in page
    assert 'id="spectrum-0"' in page
    old = {
        k: v
        for k, v in results["good"].items()
        if k not in ("tails", "fingerprint", "observations")
    }
    assert "not kept" in evaluation_page(old)


def test_long_episodes_and_no_verdict_make_a_page_too(results):
    long = json.loads(json.dumps(results["good"]))
    (name,) = long["ess_by_step"]
    long["ess_by_step"][name] = [1e5 / (1 + t) for t in range(200_000)]
    page = evaluation_page(long)
    assert len(page.encode()) < 1.2e6
    assert '{"step":1,"ess":100000.0}' in page
    assert '{"step":200000,"ess":0.5}' in page
    bare = json.loads(json.dumps(results["good"])) | {"verdicts": [], "paths": {}}
    del bare["logged"]
    text = text_of(evaluation_page(bare))
    assert "neither an interval nor a verdict" in text
    assert bare["estimates"][0]["method"] in text


@pytest.mark.parametrize("n", [30, 3000])
def test_the_tail_is_that_of_the_weights(n):
    logs_ = np.random.default_rng(n).normal(0, 2, n)
    found = weight_tail(logs_)
    weights = np.exp(logs_) / np.exp(logs_).mean()
    for weight, share in found:
        assert share == pytest.approx((weights >= weight * (1 - 1e-12)).mean())
    assert found[0, 0] == pytest.approx(weights.max())
    assert found[-1, 1] == 1.0
    assert len(found) <= 80
    assert np.isfinite(pareto_k(logs_))
    assert weight_tail(np.full(4, -np.inf)).shape == (0, 2)


def test_coverage_of_the_parts_is_that_of_the_whole(results):
    (verdict,) = results["evil"]["verdicts"]
    support = verdict["support"]
    for column in (EVIL, SCRIPT):
        parts = [each for each in support["parts"] if each["column"] == column]
        assert len(parts) > 5
        assert sum(each["share"] for each in parts) == pytest.approx(1.0)
        total = sum(each["share"] * each["coverage"] for each in parts)
        assert total == pytest.approx(support["coverage"])
        assert sum(each["rows"] for each in parts) == results["evil"]["steps"]


def test_the_fingerprint_is_of_the_episodes():
    frame = logs.columns([5] * 40, "terminated", seed=1)
    order = np.concatenate([np.arange(100, 200), np.arange(100)])
    centres = sb.features.RBF([-3.0, -3.0], [3.0, 3.0], centres=2)

    def of(columns):
        log = sb.Log(columns)
        return sb.evaluate(log, "uniform", features=centres, gamma=0.9).as_dict()["fingerprint"]

    first = of(frame)
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert of({name: each[order] for name, each in frame.items()}) == first
    assert of(frame | {"reward": frame["reward"] + 1.0}) != first


def run(*arguments):
    return CliRunner().invoke(group, [str(each) for each in arguments])


def test_evaluate_writes_a_page_of_a_log_and_of_statistics(tmp_path):
    path = tmp_path / "visits.parquet"
    sb.Log(logs.columns([6] * 150, "terminated", seed=3)).write(path, gamma=0.9)
    setting = ("--target", "uniform", "--features", "rbf:9")
    out, kept = tmp_path / "page.html", tmp_path / "kept.json"
    done = run("evaluate", path, *setting, "--report", out, "--save", kept, "--quiet")
    assert done.exit_code in (0, 3, 4), done.output
    assert f"wrote {out}" in done.stderr
    result = json.loads(kept.read_text())
    assert result["paths"]["uniform"]["lambda"]
    assert set(result["made"]["versions"]) > {"python", "saddleback", "numpy"}
    text = text_of(out.read_text(encoding="utf-8"))
    assert result["made"]["command"] in text
    assert result["fingerprint"] in text
    assert f"{result['card']['terminated']:,} terminated" in text
    sums = tmp_path / "visits.stats"
    assert run("stats", path, *setting, "--out", sums, "--quiet").exit_code == 0
    done = run("evaluate", sums, "--report", out, "--quiet")
    assert done.exit_code in (0, 3, 4), done.output
    again = text_of(out.read_text(encoding="utf-8"))
    assert result["fingerprint"] in again
    assert "the estimate is " in again


def test_pages_that_cannot_be_written_are_refused_before_any_work(tmp_path, monkeypatch):
    path = tmp_path / "none.parquet"
    for out, said in (
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "x.html", "there is no folder"),
    ):
        done = run("evaluate", path, "--target", "uniform", "--report", out)
        assert done.exit_code == 2
        assert said in " ".join(done.stderr.split())
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    done = run("evaluate", path, "--target", "uniform", "--report", tmp_path / "x.html")
    assert done.exit_code == 2
    assert "pip install 'saddleback[report]'" in done.stderr
    assert not (tmp_path / "x.html").exists()
