"""Marks for tests by their fixtures, and a browser for the pages: Chromium on PATH, offline."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.opinions import know_opinions, use_few_candidates

MARKS = {"browser": pytest.mark.browser, "dask": pytest.mark.cluster}
"""Marks of tests that use a fixture."""

INSTALL = "Debian and Ubuntu: apt-get install chromium; then pip install playwright, or make test"


FIRST = (
    "docs/test_site.py", "sweep/test_crash_safety.py", "cli/test_paper_and_analyse.py",
    "cli/test_terminal.py", "docs/test_docs.py", "theory/test_step_size_advice.py",
    "ope/test_verdict_accuracy.py", "sweep/test_executors.py", "ope/test_importance_sampling.py",
)  # fmt: skip
"""Files with the longest tests."""


def pytest_collection_modifyitems(config, items):
    """Mark tests that open pages in a browser, or start a cluster; order them for workers.

    Workers start with the longest tests, so that none is still busy with one when the other ends.
    """
    for item in items:
        for name in MARKS.keys() & getattr(item, "fixturenames", ()):
            item.add_marker(MARKS[name])
    if hasattr(config, "workerinput"):
        places = {Path(__file__).parent / name: place for place, name in enumerate(FIRST)}
        assert all(map(Path.exists, places)), "FIRST in tests/conftest.py names a missing file"
        items.sort(key=lambda item: places.get(item.path, len(FIRST)))


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
    options = ["--disable-gpu"]  # to emulate one takes a tenth of the time
    # Chromium refuses to run as root with its sandbox, and containers run as root.
    options += ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=options)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def idle_pages(browser):
    """Pages that no test uses: opening a window takes longer than loading a page into one."""
    idle = []
    yield idle
    for page in idle:
        page.context.close()


@pytest.fixture
def blank_page(browser, idle_pages):
    """Return blank pages, each in a context of its own, until the test ends."""
    lent = []

    def lend():
        page = idle_pages.pop() if idle_pages else browser.new_context(offline=True).new_page()
        lent.append(page)
        return page

    yield lend
    for page in lent:
        page.goto("about:blank")
        idle_pages.append(page)


@pytest.fixture
def visit(blank_page):
    """Open pages from disk; assert that they log nothing and request nothing from elsewhere."""
    opened, messages, requests = [], [], []
    listeners = {
        "console": lambda message: messages.append(f"{message.type}: {message.text}"),
        "pageerror": lambda error: messages.append(f"error: {error}"),
        "request": lambda request: requests.append(request.url),
    }

    def open_(path, theme="light", width=1280, height=900):
        page = blank_page()
        opened.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme, media="null")
        page.set_default_timeout(20_000)
        for event, listener in listeners.items():
            page.on(event, listener)
        page.goto(Path(path).as_uri())
        page.wait_for_selector("body[data-ready=yes]")
        return page

    yield open_
    for page in opened:
        page.goto("about:blank")
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    assert messages == []
    outside = [url for url in requests if not url.startswith(("file:", "data:", "blob:", "about:"))]
    assert outside == []


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder that the workers of the suite share: the one above their own."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def patched(function, folder):
    """Let evaluations keep what they find in a folder."""
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        function(patch, folder)
        yield


@pytest.fixture(scope="module")
def few_candidates(shared_folder):
    """Find the consensus of a few candidates: its value does not matter to these tests."""
    with patched(use_few_candidates, shared_folder / "opinions of few"):
        yield


@pytest.fixture(scope="module")
def known_opinions(shared_folder):
    """Find the consensus on the same sample and policy once for all tests with this fixture."""
    with patched(know_opinions, shared_folder / "opinions"):
        yield
