"""The page in a real Chromium: live, readable, operable, and asking nobody else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.e2e import traffic
from tests.e2e.rig import Rig
from tests.page.conftest import SLUG

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WAIT_MS = 20_000
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 900}

CONTRAST = """() => {
  const light = (channel) => channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * light(r / 255) + 0.7152 * light(g / 255) + 0.0722 * light(b / 255);
  const ground = (element) => {
    for (let here = element; here; here = here.parentElement) {
      const colour = numbers(getComputedStyle(here).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const words = walker.currentNode.data.trim();
    if (!words || !element.checkVisibility() || element.closest("svg, .unseen")) continue;
    const pair = [luminance(numbers(getComputedStyle(element).color)), luminance(ground(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    seen += 1;
    if (ratio < 4.5) poor.push(`${words.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return {seen, poor};
}"""


class Visit:
    """One page, with everything that it complained about and asked for."""

    def __init__(self, browser: Any, rig: Rig, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda one: self.complaints.append(one.text))
        self.page.on("pageerror", lambda one: self.complaints.append(str(one)))
        self.page.on("request", lambda one: self.asked.append(one.url))
        self.home = f"http://127.0.0.1:{rig.port}"
        self.page.goto(f"{self.home}/")

    def live(self) -> Any:
        """The page once its stream has spoken."""
        self.page.wait_for_selector('html[data-live="yes"]', timeout=WAIT_MS)
        return self.page


@pytest.fixture
def visit(chromium: Any, served: tuple[Rig, int]) -> Any:
    """Opens the page; closed after the test."""
    opened: list[Visit] = []

    def go(**options: Any) -> Visit:
        opened.append(Visit(chromium, served[0], **options))
        return opened[-1]

    yield go
    for one in opened:
        one.context.close()


def test_the_page_becomes_live_and_complains_of_nothing(visit: Any) -> None:
    """No broken rule of its own policy, no script error, no resource of anybody else."""
    one = visit(viewport=DESKTOP)
    page = one.live()
    assert SLUG in page.inner_text("article h2")
    assert page.inner_text("article .badge").split()[-1] in ("ready", "busy")
    assert one.complaints == []
    paths = {url.removeprefix(one.home).partition("?")[0] for url in one.asked}
    assert paths - {"/assets/icon.svg"} == {"/", "/assets/page.css", "/assets/page.js", "/summary"}


def test_a_screen_reader_finds_its_way(visit: Any) -> None:
    """Landmarks, one first heading, a label on every article and picture, one polite voice."""
    page = visit(viewport=DESKTOP).live()
    for role in ("banner", "main", "contentinfo", "status"):
        assert page.get_by_role(role).count() == 1, role
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("article", name=SLUG).count() == 1
    assert page.get_by_role("region", name="Host").count() == 1
    labels = [one.get_attribute("aria-label") for one in page.locator("svg").all()]
    assert len(labels) == 4
    assert all(labels)
    levels = page.eval_on_selector_all("h1,h2,h3", "all => all.map(one => Number(one.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_keyboard_reaches_everything_in_reading_order(visit: Any) -> None:
    """The first stop leads past the head; every link and fold follows in the order of the page."""
    page = visit(viewport=DESKTOP).live()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    stops = []
    for _ in range(page.locator("main a, main summary, footer a").count()):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.textContent"))
    assert stops == page.locator("main a, main summary, footer a").all_text_contents()


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(visit: Any, scheme: str, viewport: dict[str, int]) -> None:
    """WCAG's AA contrast for every visible text, and nothing wider than the screen."""
    page = visit(viewport=viewport, color_scheme=scheme).live()
    found = page.evaluate(CONTRAST)
    assert found["seen"] > 20
    assert found["poor"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_without_scripts_it_is_a_plain_page(visit: Any) -> None:
    """The same state, sentence, figures, plots and time line; it loads itself again."""
    page = visit(java_script_enabled=False, viewport=DESKTOP).page
    # what a first look has not seen yet comes with a later load, which the page does by itself
    page.wait_for_selector("article figure svg path", timeout=WAIT_MS, state="attached")
    assert page.inner_text("article .badge").split()[-1] in ("ready", "busy")
    assert page.locator("article .why").inner_text() != ""
    assert page.locator("article .story li").count() > 0
    assert page.locator('noscript meta[http-equiv="refresh"]').count() == 1 or "refresh" in page.content()


def test_a_stall_comes_to_the_open_page_by_itself(visit: Any, served: tuple[Rig, int]) -> None:
    """Badge, title, time line and voice say so with no reload; what the reader focused and unfolded stays."""
    rig, port = served
    page = visit(viewport=DESKTOP).live()
    page.evaluate("window.untouched = true")
    with traffic.client(port):
        rig.until(SLUG, "busy")
        traffic.fault(port, "stall")
        page.wait_for_selector("article.bad .badge.bad", timeout=WAIT_MS)
        page.wait_for_function("document.title.startsWith('✖')", timeout=WAIT_MS)
    page.wait_for_selector("article .story .sign.incident", timeout=WAIT_MS, state="attached")
    assert f"{SLUG} is " in page.inner_text("#said")
    page.wait_for_selector("article.work progress[value]", timeout=WAIT_MS)
    page.locator("article details summary").focus()
    page.keyboard.press("Enter")
    rig.until(SLUG, "ready", within=40)
    page.wait_for_selector("article.good", timeout=WAIT_MS)
    assert page.evaluate("window.untouched === true")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert page.locator("article details").get_attribute("open") is not None
    assert "1 of 3 spent" in page.inner_text("article .facts")


def test_an_agent_that_is_gone_makes_no_page_that_looks_alive(visit: Any, served: tuple[Rig, int]) -> None:
    """Silence is said at once, and the page comes back with the agent."""
    rig, _ = served
    page = visit(viewport=DESKTOP).live()
    rig.kill()
    page.wait_for_selector('html[data-live="no"]', timeout=WAIT_MS)
    assert "has not answered since" in page.inner_text("#live")
    assert "does not answer" in page.inner_text("#said")
    rig.start()
    page.wait_for_selector('html[data-live="yes"]', timeout=WAIT_MS)
    assert "live again" in page.inner_text("#said")
