"""Checks of a page in a browser: accessibility, contrast, and use by keyboard."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

THEMES = ("light", "dark")
WIDTHS = {"phone": 390, "desktop": 1280}

REVIEWED = {"color-contrast"}
"""Rules of axe that may stay undecided: it cannot measure text in SVG, which `contrasts` does."""

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text(encoding="utf-8")


def contrasts(page):
    """Contrast of each text and each line of the charts with its background."""
    return page.evaluate(CONTRASTS)


DISTINCT_ROWS = """() => {
  for (const body of document.querySelectorAll("tbody")) {
    const looks = {};
    for (const row of [...body.rows]) {
      const look = row.outerHTML.replace(/>[^<]*</g, "><");
      looks[look] = (looks[look] ?? 0) + 1;
      if (looks[look] > 2) row.remove();
    }
  }
}"""
"""Of the rows of a table that differ only in their text, keep two."""


def axe(page, contrast=True):
    """Violations that axe-core reports, and what it cannot decide, by the name of the rule.

    Its rule on contrast takes four fifths of the time, most of it for cells of long tables.
    """
    page.evaluate(DISTINCT_ROWS)
    script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    report = page.evaluate(
        "(contrast) => axe.run({resultTypes: ['violations', 'incomplete'],"
        " rules: {'color-contrast': {enabled: contrast}}})",
        contrast,
    )
    return [
        {
            rule["id"]: [
                node["html"][:200] + " " + node["failureSummary"] for node in rule["nodes"]
            ]
            for rule in report[kind]
        }
        for kind in ("violations", "incomplete")
    ]


STOPS = """() => [...document.querySelectorAll(
  "button, select, input, textarea, summary, a[href], [tabindex='0']")]
  .filter((control) => control.checkVisibility() && !control.disabled)
  .map((control, k) => {
    control.dataset.stop = String(k);
    return control.id || control.textContent.slice(0, 40);
  })"""


def tab_walk(page):
    """Names of controls that the Tab key does not reach, and the number of those it does."""
    names = page.evaluate(STOPS)
    page.evaluate("() => { document.activeElement.blur(); window.scrollTo(0, 0); }")
    reached = set()
    for _ in range(len(names) + 5):
        page.keyboard.press("Tab")
        stop = page.evaluate("document.activeElement.dataset.stop")
        if stop is not None:
            reached.add(int(stop))
    return [name for k, name in enumerate(names) if k not in reached], len(reached)
