"""The tab in Spark's UI: the live page of each query of an application, through Spark's own port."""

from __future__ import annotations

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.kit.application import LIMIT_S, Application
from tests.kit.broker import Broker
from tests.kit.browser import LiveView, chromium
from tests.kit.jars import reader_jar
from tests.kit.ports import free_port
from tests.kit.streams import options
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.thorough("needs Chromium, and an application with Spark's UI"),
    pytest.mark.skipif(not reader_jar(), reason="a run without the jar (COHORT_READER)"),
]

PARTITIONS, RECORDS = 4, 400
TIMEOUT_S = 30.0


def body(url: str, **headers: str) -> str:
    """What a GET answers."""
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT_S) as answer:  # noqa: S310  http
        return str(answer.read().decode())


def status(url: str, method: str = "GET") -> int:
    """The status of an answer."""
    try:
        with urlopen(Request(url, method=method), timeout=TIMEOUT_S) as answer:  # noqa: S310  http
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.timeout(900)
def test_the_tab_has_the_page_of_each_query(broker: Broker, topic: str, tmp_path: Path) -> None:
    """It lives in its frame, behind a proxy's path as well; nothing but the page passes; a query that was stopped is gone."""
    broker.fill(topic, RECORDS, PARTITIONS)
    ui = f"http://127.0.0.1:{(number := free_port())}"
    conf = {"spark.ui.enabled": "true", "spark.ui.port": str(number)}
    names = [f"{topic}/<i>first</i>", f"{topic} second"]
    pages = [f"/cohort/page/{name.encode().hex()}/" for name in names]
    with Application(tmp_path / "app", master="local[2]", conf=conf) as app, chromium() as browser:
        first, second = (
            app.start(
                f"query{place}",
                options(broker, topic, group__id=name, metrics__port=free_port()),
            )
            for place, name in enumerate(names)
        )
        first.wait_for_no_lag()
        second.wait_for_no_lag()
        wait_until(lambda: status(ui + pages[0]) == status(ui + pages[1]) == 200, LIMIT_S, "both pages")
        tab = body(f"{ui}/cohort/", **{"X-Forwarded-Context": "/proxy/app-1"})
        assert [f'"/proxy/app-1{page}"' in tab for page in pages] == [False, True]  # in the order of their names
        assert "<i>first" not in tab
        assert status(f"{ui}{pages[0]}metrics") == status(f"{ui}{pages[0]}rebalances/x") == 404
        assert status(f"{ui}/cohort/page/zz/") == status(f"{ui}/cohort/page/{b'stranger'.hex()}/") == 404
        assert status(ui + pages[0], "POST") == 405
        view = LiveView(browser, ui + pages[0])
        assert view.text("#group") == names[0]
        assert sum(map(len, view.cells().values())) == PARTITIONS
        view.page.click("#rebalances button >> nth=0")
        view.page.wait_for_selector("#story-body table")
        view.page.goto(f"{ui}/cohort/?group={names[0].encode().hex()}")
        inside = view.page.frame_locator("iframe")
        inside.locator("#lanes .cell").first.wait_for()
        assert inside.locator("#queries-section").is_hidden()
        assert view.page.locator(".navbar .active").inner_text() == "Cohort"
        first.stop()
        wait_until(lambda: status(ui + pages[0]) == 404, LIMIT_S, "no page of a query that has ended")
        view.page.goto(f"{ui}/cohort/")
        view.page.frame_locator("iframe").locator("#lanes .cell").first.wait_for()
        assert view.said == []
