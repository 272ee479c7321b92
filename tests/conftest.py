"""Marks for tests by their fixtures, and a browser for the pages: Chromium on PATH, offline."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

MARKS = {"browser": pytest.mark.browser, "dask": pytest.mark.cluster}
"""Marks of tests that use a fixture."""

INSTALL = "Debian and Ubuntu: apt-get install chromium; then pip install playwright, or make test"


def pytest_collection_modifyitems(items):
    """Mark tests that open pages in a browser, or start a cluster."""
    for item in items:
        for name in MARKS.keys() & getattr(item, "fixturenames", ()):
            item.add_marker(MARKS[name])


def missing(requirement):
    """Skip, or fail where the browser is required."""
    message = f"cannot test pages in a browser without {requirement}. {INSTALL}"
    if os.environ.get("SADDLEBACK_BROWSER") == "required":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def browser():
    """Chromium, started once."""
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if executable is None:
        missing("Chromium on PATH")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the package playwright")
    # Chromium refuses to run as root with its sandbox, and containers run as root.
    options = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=options)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Open pages from disk; assert that they log nothing and request nothing from elsewhere."""
    contexts, messages, requests = [], [], []

    def open_(path, theme="light", width=1280, height=900):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(Path(path).as_uri())
        page.wait_for_selector("body[data-ready=yes]")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert messages == []
    outside = [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []
