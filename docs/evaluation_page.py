"""Take the picture of an evaluation page that README shows.

Run by ``make evaluation-page``; needs Chromium on PATH. Writes ``results/evaluation-page.png``.
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import saddleback as sb
from saddleback import report
from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier

PICTURE = Path("results/evaluation-page.png")


def main() -> None:
    """Evaluate the clinic's log, open the page and save its first screen at twice the size."""
    log = sb.Log(clinic(2000, rng=0), observations=SIGNS, actions=DOSES)
    result = sb.evaluate(log, earlier, gamma=0.97)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("evaluation_page.py: there is no Chromium on PATH.")
    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "result.html"
        report.write(report.evaluation_page(result), page)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": 960, "height": 900}, device_scale_factor=2, color_scheme="light"
        )
        tab = context.new_page()
        tab.goto(page.as_uri())
        chart = tab.locator("main svg").first
        chart.wait_for()
        box = chart.bounding_box()
        assert box is not None
        clip = {"x": 0, "y": 0, "width": 960, "height": box["y"] + box["height"] + 8}
        tab.screenshot(path=PICTURE, clip=clip)
        browser.close()


if __name__ == "__main__":
    main()
