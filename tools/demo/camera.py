"""A picture of the live page of a run of the demo, in a real Chromium (``make chromium``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kit.browser import LiveView, chromium


@contextmanager
def camera(url: str, path: Path | None) -> Iterator[Callable[[], None]]:
    """Watch the page from now on; what is yielded takes the picture.  Without a ``path`` neither happens."""
    if path is None:
        yield lambda: None
        return
    with chromium() as browser:
        view = LiveView(browser, url, width=1180, height=684)

        def take_picture() -> None:
            view.page.wait_for_selector(".lane:not(.direct) .cell.came >> nth=3")
            view.page.wait_for_function("!document.querySelector('.lane.direct .cell')")
            view.page.screenshot(path=path)

        yield take_picture
