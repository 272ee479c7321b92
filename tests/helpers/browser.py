"""What is asked of a page in a browser: accessibility, contrast, and work by keyboard."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

THEMES = ("light", "dark")
WIDTHS = {"phone": 390, "desktop": 1280}

REVIEWED = {"color-contrast"}
"""Rules of axe that may end undecided: of text in SVG it cannot tell, and `contrasts` does."""

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text(encoding="utf-8")


def contrasts(page):
    """Contrast of each text and each line of the charts against what they stand on."""
    return page.evaluate(CONTRASTS)


def axe(page):
    """What axe-core objects to, and what it cannot decide, by the name of its rule."""
    script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    found = page.evaluate("axe.run({resultTypes: ['violations', 'incomplete']})")
    return [
        {
            each["id"]: [
                node["html"][:200] + " " + node["failureSummary"] for node in each["nodes"]
            ]
            for each in found[kind]
        }
        for kind in ("violations", "incomplete")
    ]


STOPS = """() => [...document.querySelectorAll(
  "button, select, input, textarea, summary, a[href], [tabindex='0']")]
  .filter((each) => each.checkVisibility() && !each.disabled)
  .map((each, k) => {
    each.dataset.stop = String(k);
    return each.id || each.textContent.slice(0, 40);
  })"""


def tab_walk(page):
    """Names of what could be operated but is not reached by the key Tab, and how many are."""
    names = page.evaluate(STOPS)
    page.evaluate("() => { document.activeElement.blur(); window.scrollTo(0, 0); }")
    reached = set()
    for _ in range(len(names) + 5):
        page.keyboard.press("Tab")
        stop = page.evaluate("document.activeElement.dataset.stop")
        if stop is not None:
            reached.add(int(stop))
    return [name for k, name in enumerate(names) if k not in reached], len(reached)
