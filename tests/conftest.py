"""Marks by what a test uses, and a real browser for the pages: the Chromium on PATH, off line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

MARKS = {"browser": pytest.mark.browser, "dask": pytest.mark.cluster}
"""Marks that come with a fixture."""

GET = "Debian and Ubuntu: apt-get install chromium; then pip install playwright, or make test"


def pytest_collection_modifyitems(items):
    """Mark tests that look at pages in a browser, or start a cluster."""
    for item in items:
        for name in MARKS.keys() & getattr(item, "fixturenames", ()):
            item.add_marker(MARKS[name])


def missing(what):
    """Skip, or fail where the browser is required."""
    said = f"pages are not looked at, for want of {what}. {GET}"
    if os.environ.get("SADDLEBACK_BROWSER") == "required":
        pytest.fail(said)
    pytest.skip(said)


@pytest.fixture(scope="session")
def browser():
    """Chromium, started once."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        missing("Chromium on PATH")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the package playwright")
    # Chromium has no sandbox for root, as whom containers run.
    options = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=options)
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """Open pages from disk; in the end nothing may have been logged, and nothing asked for."""
    contexts, said, asked = [], [], []

    def open_(path, theme="light", width=1280, height=900):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(Path(path).as_uri())
        page.wait_for_selector("body[data-ready=yes]")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []
    outside = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []
