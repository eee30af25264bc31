"""The live page in a real Chromium, over the driver's port; the group's status is scripted (tests/e2e has a real one)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from sparkcohort.runtime.shell.driver.metrics import MetricsEndpoint
from tests.kit.browser import LiveView, chromium
from tests.kit.scripted_group import ScriptedGroup
from tests.kit.status import IN_FLIGHT
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.thorough("needs Chromium")

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
STEP_S = 30.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests."""
    with chromium() as running:
        yield running


@contextmanager
def endpoint(group: ScriptedGroup, port: int = 0) -> Iterator[int]:
    """The port of the group's driver."""
    serving = MetricsEndpoint("127.0.0.1", port, group.status, rebalance=lambda _: {"known": [8, 9]})
    serving.start()
    try:
        yield serving.port
    finally:
        serving.close()


@contextmanager
def shown(browser: Browser, group: ScriptedGroup, **window: Any) -> Iterator[LiveView]:
    """A window on the group's page; its console has nothing to say in the end."""
    with endpoint(group) as port:
        view = LiveView(browser, f"http://127.0.0.1:{port}/", **window)
        yield view
        assert view.said == []
        view.page.context.close()


def owned(group: ScriptedGroup) -> dict[str, set[str]]:
    """Who owns what."""
    lanes: dict[str, set[str]] = {f"executor-{name}": set() for name in group.names}
    for number, owner in enumerate(group.owners):
        lanes.setdefault(f"executor-{owner}" if owner else "read directly", set()).add(f"{group.topic}-{number}")
    return lanes


def shows(view: LiveView, group: ScriptedGroup) -> bool:
    """Whether each partition is in its lane."""
    lanes = {name: set(keys) for name, keys in view.cells().items()}
    wanted = owned(group)
    return all(lanes.get(name) == keys for name, keys in wanted.items())


def test_a_lost_executor_moves_its_own_cells_only(browser: Browser) -> None:
    """The others are the same elements at the same places; for a minute traces say whence and where."""
    group = ScriptedGroup(3, 12)
    with shown(browser, group) as view:
        assert shows(view, group)
        view.keep_places()
        lost = {f"orders-{number}" for number in group.lose("2")}
        wait_until(lambda: shows(view, group), STEP_S, "what is read directly")
        assert view.moved() == lost
        assert "read directly" in view.attribute(".lane.direct .cell", "title")
        group.names.append("4")
        group.give([number for number, owner in enumerate(group.owners) if owner is None], "4", "executor-4 joined")
        wait_until(lambda: shows(view, group), STEP_S, "the replacement's share")
        assert view.moved() == lost
        assert (
            view.page.eval_on_selector_all("#lanes .cell.came span", "all => all.map(each => each.textContent)")
            == ["← 2"] * 4
        )
        ghosts = view.page.eval_on_selector_all(".lane.left .ghost", "all => all.map(each => each.textContent)")
        assert ghosts == [f"{number}\n→ 4" for number in (1, 4, 7, 10)]
        assert view.text("#rebalances").count("executor-") == 2


def test_a_page_that_is_opened_right_after_shows_whence(browser: Browser) -> None:
    """From the history of the document."""
    group = ScriptedGroup(2, 4)
    group.give([0, 2], "2", "load")
    with shown(browser, group) as view:
        assert view.page.eval_on_selector_all("#lanes .cell.came", "all => all.map(each => each.cell.key)") == [
            "orders-0",
            "orders-2",
        ]


def test_what_is_wrong_comes_first_and_goes(browser: Browser) -> None:
    """One line each, with since when, what it means and what to do; nothing wrong is one quiet line."""
    group = ScriptedGroup(2, 4)
    with shown(browser, group) as view:
        assert view.text("#problems") == "✓ Nothing is wrong."
        group.changes = {"foreign_members": {"found": 1, "present": 1}, "batches": {"in_flight": IN_FLIGHT}}
        group.rows = {1: {"unreachable": "broker 3 does not answer"}, 2: {"late": "its leader is slow"}}
        view.page.wait_for_selector(".problem >> nth=2")
        words = view.text("#problems")
        for part in (
            "orders-1 held: broker 3 does not answer",
            "1 foreign consumer",
            "since",
            "Look now",
            "Look today",
        ):
            assert part in words
        view.page.click(".problem >> nth=0 >> summary")
        assert "Stop it, or give it a group of its own." in view.text(".problem >> nth=0")
        assert "cell l1 held" in view.attribute("[title^='orders-1,']", "class")
        assert "cell l1 late" in view.attribute("[title^='orders-2,']", "class")
        assert "10 of 12 ranges delivered" in view.text("#batch")
        group.changes, group.rows = {}, {}
        view.page.wait_for_selector("#problems .quiet")


def test_what_is_written_has_a_section(browser: Browser) -> None:
    """Only where the query writes by Cohort; it comes below all else that every query has."""
    group = ScriptedGroup(2, 4)
    group.changes = {"writes": None}
    with shown(browser, group) as view:
        assert view.page.is_hidden("#writes-section")
        group.changes = {}
        view.page.wait_for_selector("#writes-section:visible")
        words = view.text("#writes")
        assert "bills" in words and "42,000" in words
        assert "waited 0.1 s of 0.5 s for brokers. Batches not written whole: 0." in words


def test_names_of_strangers_are_text(browser: Browser) -> None:
    """A topic, a group, a reason and a client id that are scripts."""
    group = ScriptedGroup(2, 4, SCRIPT)
    group.changes = {"group": SCRIPT, "malformed": [{"topic": SCRIPT, "reason": "syntax", "count": 1}]}
    group.rows = {1: {"unreachable": SCRIPT}}
    group.give([0], "2", SCRIPT)
    with shown(browser, group) as view:
        assert view.text("#group") == SCRIPT
        assert f"{SCRIPT}-1" in view.cells()["executor-2"]
        assert SCRIPT in view.text("#problems")
        assert SCRIPT in view.text("#rebalances")
        assert view.page.locator("img, body script:not(:last-of-type)").count() == 0


def test_a_driver_that_is_gone(browser: Browser) -> None:
    """The page says so, and since when by the driver's clock; when one answers on that port again, it is live again."""
    group = ScriptedGroup(2, 4)
    with endpoint(group) as port:
        view = LiveView(browser, f"http://127.0.0.1:{port}/")
        assert "live" in view.text("#live")
    view.page.wait_for_selector("#gone:visible")
    assert "No answer from the driver since" in view.text("#gone")
    group.give([0], "2", "load")
    with endpoint(group, port):
        view.page.wait_for_selector("#gone", state="hidden")
        wait_until(lambda: shows(view, group), STEP_S, "what came meanwhile")
        view.page.context.close()


def test_the_keyboard_is_enough(browser: Browser) -> None:
    """One stop among the cells, arrows between them, Enter chooses; the look-up finds partitions and executors."""
    group = ScriptedGroup(3, 12)
    with shown(browser, group) as view:
        view.page.focus(".cell[tabindex='0']")
        for key in ("ArrowRight", "ArrowDown", "Enter"):
            view.page.keyboard.press(key)
        wait_until(lambda: view.text("#chosen").startswith("orders-4 · executor-2"), STEP_S, "the choice")
        view.page.fill("#lookup", "executor-3")
        wait_until(lambda: view.text("#chosen").startswith("executor-3: 4 partitions"), STEP_S, "the executor")
        view.page.fill("#lookup", "11")
        wait_until(lambda: view.text("#chosen").startswith("orders-11 "), STEP_S, "the partition")
        view.page.click("#all")
        wait_until(lambda: view.text("#chosen") == "all partitions", STEP_S, "all")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light"), (2560, "dark")])
def test_it_fits_and_can_be_read(browser: Browser, width: int, scheme: str) -> None:
    """Nothing is wider than the window; axe finds no fault in contrast, names and roles."""
    group = ScriptedGroup(3, 12)
    group.give([0, 3], "2", "load")
    group.rows = {1: {"unreachable": "broker 3 does not answer"}, 2: {"late": "its leader is slow"}}
    group.ends = [1_000 * 4**number for number in range(12)]
    group.changes = {"batches": {"in_flight": IN_FLIGHT}}
    with shown(browser, group, width=width, scheme=scheme) as view:
        assert view.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        found = Axe().run(view.page)
        assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(("executors", "partitions"), [(100, 3_000)])
def test_a_large_group_is_there_within_a_second(browser: Browser, executors: int, partitions: int) -> None:
    """From its document to its picture, and a rebalance in the heat map is found by the look-up."""
    group = ScriptedGroup(executors, partitions)
    with shown(browser, group, width=1600) as view:
        view.page.route("**/events", lambda route: route.abort())
        draw = """async () => {
              const status = await (await fetch('status.json')).json();
              for (const lane of [...lanes.lanes.values()]) if (lane.id) { lane.element.remove(); lanes.lanes.delete(lane.id); }
              lanes.cells.clear();
              const before = performance.now();
              take(status);
              await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
              return performance.now() - before;
            }"""
        took_ms = min(view.page.evaluate(draw) for _ in range(5))  # a busy machine is slower at times
        assert view.page.locator(".dense .cell").count() == partitions
        assert took_ms < 1_000
        view.page.fill("#lookup", "orders-1717")
        wait_until(lambda: view.text("#chosen").startswith("orders-1717 · executor-18"), STEP_S, "the partition")
