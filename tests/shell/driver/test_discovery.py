"""What a later look at the cluster makes of a broker that is behind the others (which no real one is on demand)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata

from sparkcohort.runtime.shell.driver.discovery import Discovery
from sparkcohort.runtime.shell.options.parse import parse


class Scripted:
    """Answers metadata requests with these partition counts, one after the other; the last for ever."""

    def __init__(self, *answers: dict[str, int]) -> None:
        self._answers = list(answers)

    def poll(self, timeout: float) -> None:
        """Serve nothing."""

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> ClusterMetadata:
        """The next answer."""
        counts = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        found = ClusterMetadata()
        broker: Any = BrokerMetadata()
        found.brokers[1] = broker
        broker.id, broker.host, broker.port = 1, "b", 9092
        for name, count in counts.items():
            found.topics[name] = described = TopicMetadata()
            described.topic = name
            described.partitions = {number: PartitionMetadata() for number in range(count)}
        return found


def looks(monkeypatch: pytest.MonkeyPatch, *answers: dict[str, int]) -> list[tuple[int, bool]]:
    """How many partitions each look finds, and whether there is doubt."""
    client: Any = Scripted(answers[0], *answers)
    monkeypatch.setattr("sparkcohort.runtime.shell.kafka.clients.new_consumer", lambda *_: client)
    monkeypatch.setattr("sparkcohort.runtime.shell.kafka.topic_ids.TopicIds.of", lambda *_: {})
    options = {"kafka.bootstrap.servers": "b:9092", "subscribePattern": "t", "group.id": "g"}
    discovery = Discovery(parse(options))
    found = [(len(discovery.first().leaders), discovery.in_doubt)]
    for _ in answers[1:]:
        layout = discovery.again()
        assert layout is not None
        found.append((len(layout.leaders), discovery.in_doubt))
    return found


def test_a_broker_that_is_behind_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions and topics that lack in one look are kept until the next."""
    answers = [{"t": 3, "tt": 1}, {"t": 1}, {"t": 3, "tt": 1}, {"t": 3}, {"t": 3, "tt": 1}]
    assert looks(monkeypatch, *answers) == [(4, False), (4, True), (4, False), (4, True), (4, False)]


def test_what_lacks_twice_in_a_row_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition for itself."""
    answers = [{"t": 3, "tt": 1}, {"t": 1, "tt": 1}, {"t": 1}, {"t": 1}]
    assert looks(monkeypatch, *answers) == [(4, False), (4, True), (2, True), (1, False)]


def test_a_pattern_that_finds_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One warning names the pattern and topics that there are, however often it is looked; a later topic is found."""
    nothing = {f"x{number}": 1 for number in range(7)} | {"__consumer_offsets": 50}
    found = looks(monkeypatch, nothing, nothing, nothing | {"t": 2})
    assert found == [(0, False), (0, False), (2, False)]
    (line,) = caplog.messages
    assert line.startswith(
        "option subscribePattern=t finds none of the 7 topics that this user may see (x0, x1, x2, x3, x4, …)"
    )


def test_no_warning_for_topics_that_are_gone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """That is another matter, and told elsewhere."""
    looks(monkeypatch, {"t": 1}, {"x": 1}, {"x": 1})
    assert caplog.messages == []
