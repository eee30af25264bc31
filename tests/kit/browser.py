"""A real Chromium without a window, Debian's (``make chromium``), driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync")
QUIET = ("--disable-background-networking", "--disable-component-update")
PATIENCE_MS = 30_000
PROBLEM_MS = 240_000
CELLS = """Object.fromEntries([...document.querySelectorAll('#lanes .lane')].map((lane) =>
  [lane.querySelector('.name b').textContent, [...lane.querySelectorAll('.cell')].map((cell) => cell.cell.key)]))"""
PLACES = """(keep) => {
  window.kept ??= new Map();
  const moved = [];
  for (const [key, cell] of lanes.cells) {
    const box = cell.element.getBoundingClientRect(), now = {element: cell.element, parent: cell.element.parentNode, x: box.x, y: box.y};
    const then = window.kept.get(key);
    if (keep) window.kept.set(key, now);
    else if (!then || Object.keys(now).some((name) => then[name] !== now[name])) moved.push(key);
  }
  return moved;
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*FLAGS, *QUIET])
        try:
            yield browser
        finally:
            browser.close()


class LiveView:
    """One window on a page; ``said`` is what its console has, and the errors of its scripts."""

    def __init__(
        self, browser: Browser, url: str, *, width: int = 1280, height: int = 900, scheme: Any = "light"
    ) -> None:
        """Opened when its first cell is there."""
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(PATIENCE_MS)
        self.page: Page = context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.goto(url)
        self.page.wait_for_selector("#lanes .cell")

    def cells(self) -> dict[str, list[str]]:
        """The partitions in each lane, as the page has them, by the lane's name; those without any, too."""
        lanes: dict[str, list[str]] = self.page.evaluate(CELLS)
        return lanes

    def keep_places(self) -> None:
        """Remember where each cell is."""
        self.page.evaluate(PLACES, True)

    def moved(self) -> set[str]:
        """The cells that are another element, in another lane or at another place than then."""
        return set(self.page.evaluate(PLACES, False))

    def wait_for_problem(self, words: str, *, gone: bool = False) -> None:
        """Wait until a row of what is wrong has these words, or none has."""
        row = self.page.locator(".problem", has_text=words).first
        row.wait_for(state="detached" if gone else "visible", timeout=PROBLEM_MS)

    def text(self, selector: str) -> str:
        """What is shown there."""
        return self.page.inner_text(selector)

    def attribute(self, selector: str, name: str) -> str:
        """An attribute of the first element there."""
        return str(self.page.get_attribute(selector, name))
