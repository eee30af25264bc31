"""The live page of a real query with real executors, in a real Chromium."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from confluent_kafka import Consumer

from tests.kit.application import HOME, LIMIT_S, Application, Query, Status
from tests.kit.broker import Broker, Cluster
from tests.kit.browser import LiveView, chromium
from tests.kit.command import process
from tests.kit.ports import free_port
from tests.kit.produce import produce
from tests.kit.streams import options
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.thorough("needs Chromium, and an application of three executors")

PARTITIONS, RECORDS, PER_BATCH = 12, 60_000, 2_000
SEEN_S = 2.0


def lanes(status: Status) -> dict[str, set[str]]:
    """The partitions of each executor, as ``describe`` has them; without an owner: read directly."""
    by_lane: dict[str, set[str]] = {f"executor-{member['executor']}": set() for member in status["members"]}
    for row in status["partitions"]:
        name = "read directly" if row["executor"] is None else f"executor-{row['executor']}"
        by_lane.setdefault(name, set()).add(f"{row['topic']}-{row['partition']}")
    return by_lane


def shows(view: LiveView, status: Status) -> bool:
    """Whether the page has each partition in that lane."""
    cells = {name: set(keys) for name, keys in view.cells().items()}
    return all(cells.get(name) == keys for name, keys in lanes(status).items())


def described(query: Query) -> Status:
    """The document that the command prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME, str(query.app.directory / "home"))
        (document,) = json.loads(process("describe", "--group", query.group, "--whole").stdout)
    return dict(document)


def moved_since(status: Status, generation: int) -> set[str]:
    """The partitions that left their owner in the rebalances after a generation; all others were kept."""
    done = [row for row in status["rebalances"] if row["generation"] > generation]
    return {f"{topic}-{number}" for row in done for topic, number in (*row["moved"], *row["revoked"])}


@pytest.mark.timeout(900)
def test_the_page_shows_what_describe_says(application: Application, broker: Broker, topic: str, port: int) -> None:
    """Partition by partition; a killed executor's cells and no others move, within two seconds of the rebalance."""
    broker.fill(topic, RECORDS, PARTITIONS)
    source = options(broker, topic, maxOffsetsPerTrigger=PER_BATCH, metrics__port=port)
    query = application.start(topic, source, gate=1 << 60)
    query.wait_for_members(3)
    with chromium() as browser:
        view = LiveView(browser, f"http://127.0.0.1:{port}/")
        before = described(query)
        wait_until(lambda: shows(view, before), LIMIT_S, "each partition in its lane")
        view.keep_places()
        victim = before["members"][1]
        lost = {f"{name}-{number}" for name, number in victim["owned"]}
        (executor,) = [each for each in application.driver.executors() if each.executor_id == victim["executor"]]
        os.kill(executor.pid, signal.SIGKILL)
        after = query.wait_for_status(lambda now: moved_since(now, before["generation"]), "the departure")
        seen_s = time.time()
        wait_until(lambda: shows(view, after), LIMIT_S, "the cells of the lost executor elsewhere")
        assert time.time() - seen_s < SEEN_S
        assert lost <= view.moved() <= moved_since(after, before["generation"])
        replaced = query.wait_for_members(3)
        wait_until(lambda: shows(view, replaced), LIMIT_S, "the replacement's share")
        assert view.moved() <= moved_since(replaced, before["generation"])
        _story_and_strangers(view, query, broker)
        assert view.said == []
        query.stop()
        view.page.wait_for_selector("#gone:visible", timeout=LIMIT_S * 1000)
        assert "No answer from the driver since" in view.text("#gone")


@pytest.mark.timeout(900)
def test_what_is_wrong_is_there_while_it_is(
    application: Application, other: Application, pair: Cluster, topic: str, port: int
) -> None:
    """Records that can't be decoded, a broker that is away, a newer driver: each row comes with its cause, and goes with it."""
    pair.admin.create_topic(topic, assignment=[1, 2])
    produce(pair.bootstrap, topic, 200, partitions=2)  # values that are no JSON
    source = options(pair, topic, value__format="json", value__schema="a INT", metrics__port=port)
    query = application.start(topic, source)
    query.wait_for_no_lag()
    with chromium() as browser:
        view = LiveView(browser, f"http://127.0.0.1:{port}/")
        view.wait_for_problem(f"200 records of {topic} so far could not be decoded")
        pair.node(2).stop()
        view.wait_for_problem(f"{topic}-1 held")
        assert f"{topic}-0" not in view.text("#problems")
        pair.start()
        view.wait_for_problem(f"{topic}-1 held", gone=True)
        assert view.said == []
        newer_port = free_port()
        newer = other.start(topic, {**source, "metrics.port": str(newer_port)})
        view.page.wait_for_selector("#gone:visible", timeout=LIMIT_S * 1000)
        assert "FENCED_INSTANCE_ID" in str(query.end())
        newer.wait_for_no_lag()
        LiveView(browser, f"http://127.0.0.1:{newer_port}/").wait_for_problem(
            "took the group from another one that still ran"
        )
        newer.stop()


def _story_and_strangers(view: LiveView, query: Query, broker: Broker) -> None:
    """A click tells a rebalance's story; a foreign consumer comes and goes."""
    view.page.click("#rebalances button >> nth=0")
    view.page.wait_for_selector("#story-body table")
    words = view.text("#story-body")
    assert "reason: " in words
    assert "executor-" in words
    view.page.keyboard.press("Escape")
    stranger = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": query.group, "client.id": "<b>me</b>"})
    stranger.subscribe([query.topic])
    try:
        view.wait_for_problem("foreign consumer")
    finally:
        stranger.close()
    view.wait_for_problem("foreign consumer", gone=True)
