"""The page of an evaluation agrees with terminal and JSON, and shows the evidence."""

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
from saddleback.ope.text_report import (
    answer,
    baseline_line,
    failed_checks,
    format_result,
    least_data,
    rows,
    value_line,
)
from saddleback.ope.weight_diagnostics import pareto_k, weight_tail
from saddleback.report import evaluation_page, write

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
    """A log whose columns and actions have HTML for names."""
    frame = logs.columns([6] * 150, "terminated", d=2, seed=3)
    frame[EVIL], frame[SCRIPT] = frame.pop("obs_0"), frame.pop("obs_1")
    for name in [name for name in frame if name.startswith(("next_", "mu_"))]:
        del frame[name]
    return sb.Log(frame, observations=[EVIL, SCRIPT], actions=[SCRIPT, "low", EVIL])


@pytest.fixture(scope="module")
def results(few_candidates):
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    features = sb.features.OneHot(walk.mdp.n_states)
    log = sb.collect(walk, episodes=400, rng=0)
    car = sb.problems.mountain_car()
    few = sb.collect(car, episodes=60, rng=0)
    both = {"pump & go": "pump:0.8", SCRIPT: "uniform"}
    evil = evil_log()
    centres = sb.features.RBF([-3.0, -3.0], [3.0, 3.0], centres=3)
    bare = logs.columns([6] * 45, "terminated", mu=False)
    del bare["behavior_prob"]
    evaluations = {
        "good": sb.evaluate(log, walk.target, features=features, gamma=0.9, path=True),
        "several": sb.evaluate(few, both, features=car.features, gamma=0.99, path=True, ridge=10.0),
        "evil": sb.evaluate(evil, {EVIL: "uniform"}, features=centres, gamma=0.9, path=True),
        "without ratios": sb.evaluate(
            sb.Log(bare), "uniform", features=centres, gamma=0.9, rule=sb.GES(0.0)
        ),
    }
    return {name: evaluation.as_dict() for name, evaluation in evaluations.items()}


NAMES = ("good", "several", "evil", "without ratios")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_terminal_json_and_page_agree(results, name):
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


def test_all_levels_of_trust_are_covered(results):
    trusts = {v["trust"] for result in results.values() for v in result["verdicts"]}
    assert trusts == {"usable", "doubtful", "refused"}


def test_a_refused_estimate_leads_with_the_reason_and_is_grey(visit, results, tmp_path):
    page = visit(write(evaluation_page(results["several"]), tmp_path / "several.html"))
    at = [v["trust"] for v in results["several"]["verdicts"]].index("refused")
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
        assert name in page.locator("#log-summary").inner_text()
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
    tails = results["evil"]["tails"][EVIL]
    assert np.allclose(pairs, [pair for pair in tails if pair[0] >= 0.01])


def test_axes_show_values_at_and_near_zero(visit, results, tmp_path):
    """Steps at which no episode counts, and eigenvalues close to the axis."""
    changed = json.loads(json.dumps(results["good"]))
    name = next(iter(changed["ess_by_step"]))
    changed["ess_by_step"][name][-3:] = [0.0] * 3
    cloud = changed["verdicts"][0]["spectrum"]
    cloud["values"] = [[-1e-7, 0.0], [-1.0, 0.0]]
    page = visit(write(evaluation_page(changed), tmp_path / "page.html"))
    assert "A logarithmic axis omits steps where it is 0" in page.inner_text(
        "#figure-ess-0 figcaption"
    )
    page.select_option("#ess-0-axis", "log")
    page.wait_for_function("document.querySelectorAll('#ess-0 .mark-line path').length === 1")
    page.wait_for_timeout(100)
    line = page.locator("#ess-0 .mark-line path").get_attribute("d")
    heights = [float(y) for y in re.findall(r"[ML][\d.-]+,([\d.-]+)", line)]
    assert len(heights) == len(changed["ess_by_step"][name]) - 3
    assert max(heights) > min(heights) + 50
    tick = "document.querySelector('#spectrum-0 svg').textContent.includes('−10⁻²')"
    assert not page.evaluate(tick)
    page.select_option("#spectrum-0-axis", "symlog")
    page.wait_for_function(tick)
    crowded = json.loads(json.dumps(changed))
    crowded["verdicts"][0]["spectrum"]["values"] = [[-1e-7, 0.0], [-1e-3, 0.0], [-1.0, 0.0]]
    other = visit(write(evaluation_page(crowded), tmp_path / "crowded.html"))
    assert other.input_value("#spectrum-0-axis") == "symlog"
    assert other.evaluate(tick)


def test_a_tail_is_too_heavy_where_weighted_estimates_are_unreliable(results):
    """With few episodes the limit of k-hat is below ½."""
    changed = json.loads(json.dumps(results["good"]))
    for estimate in changed["estimates"]:
        estimate["k_hat"] = estimate["k_hat"] and 0.4
    assert "k̂ is 0.40: the tail is light." in evaluation_page(changed)
    changed["episodes"] = 25
    text = evaluation_page(changed)
    assert "k̂ is 0.40: the tail is too heavy." in text
    assert "With 25 episodes, k̂ up to 0.28 is acceptable (dashed line" in text


def test_a_coverage_of_zero_is_stated_and_drawn(visit, results, tmp_path):
    changed = json.loads(json.dumps(results["good"]))
    parts = changed["verdicts"][0]["support"]["parts"]
    parts[0]["coverage"] = 0.0
    page = visit(write(evaluation_page(changed), tmp_path / "page.html"))
    caption = page.inner_text("#figure-coverage-0 figcaption")
    assert caption.endswith(f"Least covered: {parts[0]['where']}, 0%.")
    texts = page.locator("#coverage-0 .mark-text text").all_text_contents()
    assert "0%" in texts


def test_intervals_that_leave_the_axis_have_an_arrow(visit, results, tmp_path):
    changed = json.loads(json.dumps(results["good"]))
    changed["estimates"][-1] |= {"value": 1e6, "low": 1e5, "high": 1e7, "k_hat": 2.0}
    page = visit(write(evaluation_page(changed), tmp_path / "page.html"))
    assert page.locator("#forest-0 svg").text_content().count("▶") == 1
    assert "An arrow marks an interval that leaves the axis" in page.inner_text(
        "#figure-forest-0 figcaption"
    )
    inside = changed["estimates"][0]["value"]
    changed["estimates"][-1] |= {"value": inside, "low": -1e5, "high": 1e5}
    both = visit(write(evaluation_page(changed), tmp_path / "both.html"))
    assert re.findall("[◀▶]", both.locator("#forest-0 svg").text_content()) == ["◀", "▶"]
    assert "An arrow marks an interval that leaves the axis" in both.inner_text(
        "#figure-forest-0 figcaption"
    )
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
    """There are too few weights for a tail, and no line to compare it with."""
    walk = sb.problems.random_walk(0.9, target_right=0.6)
    features = sb.features.OneHot(walk.mdp.n_states)
    log = sb.collect(walk, episodes=episodes, rng=0)
    result = sb.evaluate(log, walk.target, features=features, gamma=0.9, path=True)
    assert "(dashed line: a flatter tail" not in evaluation_page(result.as_dict())


def test_all_eigenvalues_are_drawn(results):
    changed = json.loads(json.dumps(results["good"]))
    changed["verdicts"][0]["spectrum"]["values"] = [[-0.001 * k, 0.0] for k in range(1, 801)]
    page = evaluation_page(changed)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    rows = [row for row in data["figures"]["spectrum-0"]["rows"] if row["of"] == "Â"]
    assert len(rows) == 800


def test_a_refused_estimate_is_grey_over_lambda(results):
    changed = json.loads(json.dumps(results["good"]))
    for trust, colour in (("usable", "var(--blue)"), ("refused", "var(--muted)")):
        changed["verdicts"][0]["trust"] = trust
        page = evaluation_page(changed)
        data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
        assert data["figures"]["path-0"]["spec"]["layer"][1]["mark"]["color"] == colour


def test_the_axis_over_lambda_holds_the_interval(results):
    verdict = results["good"]["verdicts"][0]
    page = evaluation_page(results["good"])
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    band = data["figures"]["path-0"]["spec"]["layer"][0]["data"]["values"]
    assert band == [{"low": verdict["low"], "high": verdict["high"]}]
    assert "than the width of the 95% CI of LSTD, GRetrace(0.5) (band)" in page


def test_numbers_have_a_minus_sign_and_the_head_names_the_file(results):
    changed = json.loads(json.dumps(results["evil"]))
    changed["made"] = {"command": "saddleback", "seed": 0, "versions": {"python": "3"}}
    changed["made"]["files"] = ["my log.parquet"]
    text = text_of(evaluation_page(changed))
    assert f"Log: my log.parquet, {changed['episodes']} episodes. Policies" in text
    card = text[text.index("Summary of the log") : text.rindex("Reproduction")]
    assert re.search(r"min −\d", card)
    assert not re.search(r"-\d", card.replace("low=(-3.0, -3.0)", ""))
    changed["made"]["date"] = "2025-01-31"
    assert "episodes, evaluated 2025-01-31." in text_of(evaluation_page(changed))


def test_the_line_of_the_logged_policy_is_unbroken(visit, results, tmp_path):
    page = visit(write(evaluation_page(results["good"]), tmp_path / "page.html"))
    dashed = page.locator("#forest-0 .mark-rule line[stroke-dasharray='5,4']")
    assert dashed.count() == 1
    height = page.evaluate("document.querySelector('#forest-0 svg').getBoundingClientRect().height")
    assert abs(float(dashed.get_attribute("y2"))) > 0.7 * height


def test_a_path_without_values_is_not_drawn(results):
    changed = json.loads(json.dumps(results["good"]))
    assert 'id="path-0"' in evaluation_page(changed)
    for path in changed["paths"].values():
        path["lambda"] = [[lam, None] for lam, _ in path["lambda"]]
    assert 'id="path-0"' not in evaluation_page(changed)


def test_missing_parts_of_a_result_are_omitted(results):
    page = evaluation_page(results["without ratios"])
    for kind in ("ess", "tail", "path"):
        assert f'id="{kind}-0"' not in page
    assert 'id="spectrum-0"' in page
    old = {
        k: v
        for k, v in results["good"].items()
        if k not in ("tails", "fingerprint", "observations")
    }
    assert "not saved" in evaluation_page(old)


def test_long_episodes_and_a_missing_verdict_make_a_page(results):
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
    log_weights = np.random.default_rng(n).normal(0, 2, n)
    pairs = weight_tail(log_weights)
    weights = np.exp(log_weights) / np.exp(log_weights).mean()
    for weight, share in pairs:
        assert share == pytest.approx((weights >= weight * (1 - 1e-12)).mean())
    assert pairs[0, 0] == pytest.approx(weights.max())
    assert pairs[-1, 1] == 1.0
    assert len(pairs) <= 80
    assert np.isfinite(pareto_k(log_weights))
    assert weight_tail(np.full(4, -np.inf)).shape == (0, 2)


def test_coverage_of_the_parts_adds_up(results):
    (verdict,) = results["evil"]["verdicts"]
    support = verdict["support"]
    for column in (EVIL, SCRIPT):
        parts = [part for part in support["parts"] if part["column"] == column]
        assert len(parts) > 5
        assert sum(part["share"] for part in parts) == pytest.approx(1.0)
        total = sum(part["share"] * part["coverage"] for part in parts)
        assert total == pytest.approx(support["coverage"])
        assert sum(part["rows"] for part in parts) == results["evil"]["steps"]


def test_the_fingerprint_is_of_the_episodes():
    frame = logs.columns([5] * 40, "terminated", seed=1)
    order = np.concatenate([np.arange(100, 200), np.arange(100)])
    centres = sb.features.RBF([-3.0, -3.0], [3.0, 3.0], centres=2)

    def of(columns):
        log = sb.Log(columns)
        return sb.evaluate(log, "uniform", features=centres, gamma=0.9).as_dict()["fingerprint"]

    first = of(frame)
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert of({name: column[order] for name, column in frame.items()}) == first
    assert of(frame | {"reward": frame["reward"] + 1.0}) != first


def run(*arguments):
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


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
    text = text_of(out.read_text(encoding="utf-8"))
    assert result["fingerprint"] in text
    assert "the estimate is " in text


def test_pages_that_cannot_be_written_are_refused_before_any_work(tmp_path, monkeypatch):
    path = tmp_path / "none.parquet"
    for out, message in (
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "x.html", "there is no folder"),
    ):
        done = run("evaluate", path, "--target", "uniform", "--report", out)
        assert done.exit_code == 2
        assert message in " ".join(done.stderr.split())
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    done = run("evaluate", path, "--target", "uniform", "--report", tmp_path / "x.html")
    assert done.exit_code == 2
    assert "pip install 'saddleback[report]'" in done.stderr
    assert not (tmp_path / "x.html").exists()


def test_estimated_propensities_have_a_calibration_plot(visit, tmp_path):
    frame = logs.columns([6] * 150, "terminated", d=1, seed=3, mu=False, following=False)
    del frame["behavior_prob"]
    behaviour = sb.estimate_behaviour(sb.Log(frame), "counts", bins=3)
    features = sb.features.RBF([-3.0], [3.0], centres=3)
    result = sb.evaluate(behaviour.log, "uniform", features=features, gamma=0.9).as_dict()
    bins = [row for row in behaviour.calibration.to_pylist() if row["pairs"]]
    assert result["card"]["calibration"] == bins
    saved = json.loads(json.dumps(result))
    page = visit(write(evaluation_page(saved), tmp_path / "x.html"))
    worst = max(bins, key=lambda row: row["pairs"] * abs(row["estimated"] - row["taken"]))
    assert (
        f"predicted {worst['estimated']:.3f}, observed {worst['taken']:.3f} "
        f"(n = {worst['pairs']:,})" in page.inner_text("#figure-calibration-0 figcaption")
    )
    page.click("#figure-calibration-0 summary")
    page.wait_for_selector("#figure-calibration-0 tbody tr")
    assert page.locator("#figure-calibration-0 tbody tr").count() == len(bins)


def test_logged_propensities_have_no_calibration_plot(results):
    assert "figure-calibration" not in evaluation_page(results["good"])
