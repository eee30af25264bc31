"""A broker that for some seconds tells of no broker leaves clients that ask nobody any more (librdkafka 5301): they are replaced."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException

from sparkcohort.runtime.protocol.offsets_json import LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import list_offsets
from sparkcohort.runtime.shell.driver.discovery import Discovery
from sparkcohort.runtime.shell.driver.list_offsets import KeptClient
from sparkcohort.runtime.shell.kafka import renewed_client
from sparkcohort.runtime.shell.kafka.renewed_client import RenewedClient
from sparkcohort.runtime.shell.kafka.topic_ids import TopicIds
from sparkcohort.runtime.shell.kafka.uncommitted_ends import UncommittedEnds
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.shared_brokers import Guarded
from tests.kit.waiting import hold_for, wait_until

Ask = Callable[[], bool]


def _discovery(conf: dict[str, str], topic: str) -> Ask:
    discovery = Discovery(
        parse({"subscribe": topic, "group.id": topic, "kafka.bootstrap.servers": conf["bootstrap.servers"]})
    )
    discovery.first()
    return lambda: discovery.again() is not None


def _ids(conf: dict[str, str], topic: str) -> Ask:
    ids = TopicIds(conf)
    return lambda: bool(ids.ask([topic], 1))


def _ends(conf: dict[str, str], topic: str) -> Ask:
    ends = UncommittedEnds(conf)
    return lambda: bool(ends.ask([TopicPartition(topic, 0)], 1))


def _kept(conf: dict[str, str], topic: str) -> Ask:
    kept = KeptClient(conf)

    def ask() -> bool:
        try:
            found, _ = list_offsets.ask(kept.get(), {TopicPartition(topic, 0): LATEST}, 1)
        except (KafkaException, list_offsets.NoAnswer):
            found = {}
        kept.answered(yes=bool(found))
        return bool(found)

    return ask


@pytest.mark.parametrize("asker", [_discovery, _ids, _ends, _kept])
def test_each_asks_again(
    guarded: Guarded, topic: str, monkeypatch: pytest.MonkeyPatch, asker: Callable[[dict[str, str], str], Ask]
) -> None:
    """Within seconds of the broker's return, and while it tells of no broker there is no answer."""
    monkeypatch.setattr(renewed_client, "SILENT_S", 1.0)
    guarded.admin.create_topic(topic, 1)
    asks, way = asker({"bootstrap.servers": guarded.at["BROKERLESS"]}, topic), guarded.brokerless

    def answered() -> bool:
        try:
            return asks()
        except (KafkaException, TimeoutError):
            return False

    wait_until(answered, 30, "an answer")
    way.brokerless = True
    way.cut()
    hold_for(lambda: [answered()], 3, "asked again and again, whatever comes of it", every_s=0.1)
    way.brokerless = False
    wait_until(answered, 60, "an answer again")


def test_whose_place_is_taken(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """By time without an answer from the first question on, twice as long each time; told where the next is answered at once."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    made: list[Any] = []
    kept, before = RenewedClient[int]({}), renewed_client.replaced.total

    def ask(at: float, *, yes: bool) -> int:
        nonlocal now
        now = at
        made.append(kept.get(lambda: len({*made})))
        kept.answered(yes=yes)
        return int(made[-1])

    assert [ask(at, yes=yes) for at, yes in ((0, True), (100, False), (105, True), (106, False), (115, False))] == [
        0
    ] * 5
    assert [ask(at, yes=False) for at in (116, 117, 136, 137, 138)] == [0, 1, 1, 1, 2]
    assert not caplog.messages
    assert [ask(at, yes=False) for at in (177, 178)] == [2, 2]
    assert ask(179, yes=True) == 3
    assert [ask(at, yes=yes) for at, yes in ((180, True), (181, False), (191, False), (192, False), (193, True))] == [
        3,
        3,
        3,
        4,
        4,
    ]
    assert caplog.messages == [
        "a Kafka client was stuck: no answer for 40 s; another one was answered at once and goes on"
    ]
    assert renewed_client.replaced.total == before + 4
