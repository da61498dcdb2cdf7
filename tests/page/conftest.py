"""A live daemon with a deployed simulator, and a real Chromium to look at its page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.e2e.rig import Rig, deployed, running
from tests.lab.fixtures import without
from tests.lab.place import Unavailable

SLUG = "page-sim"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """A browser that talks to nobody but the page under test."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        without(Unavailable("a browser: apt-get install chromium"))
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, int]]:
    """A rig on plain processes, and the port of the engine that it has deployed."""
    try:
        with running(tmp_path_factory.mktemp("page")) as rig:
            # a start of six seconds: a browser on a busy machine draws it all the same
            yield rig, deployed(rig, SLUG, SIM_START_S="60")
    except Unavailable as gap:
        without(gap)
