"""What a later look at the cluster makes of a broker that is behind the others (which no real one is on demand)."""

from __future__ import annotations

from typing import Any

import pytest

from sparkcohort.runtime.kafka.fetch_messages import Metadata, Node, PartitionLeader, Topic
from sparkcohort.runtime.shell.driver.discovery import Discovery
from sparkcohort.runtime.shell.options.parse import parse


def metadata(counts: dict[str, int]) -> Metadata:
    """A cluster with so many partitions of each topic."""
    leaders = {
        name: {number: PartitionLeader(0, 1, 0, (1,)) for number in range(count)} for name, count in counts.items()
    }
    topics = {name: Topic(0, name.encode().ljust(16, b"-")[:16], each) for name, each in leaders.items()}
    return Metadata({1: Node("b", 9092)}, topics)


def looks(*answers: dict[str, int]) -> list[tuple[int, bool]]:
    """How many partitions each look finds, and whether there is doubt."""

    class Client:
        def metadata(self, *_: object) -> Metadata:
            """The first answer."""
            return metadata(answers[0])

    client: Any = Client()
    discovery = Discovery(parse({"kafka.bootstrap.servers": "b:9092", "subscribePattern": "t", "group.id": "g"}))
    first = len(discovery.first(client).leaders), discovery.in_doubt
    return [first, *((len(discovery.next_layout(metadata(each)).leaders), discovery.in_doubt) for each in answers[1:])]


def test_a_broker_that_is_behind_deletes_nothing() -> None:
    """Partitions and topics that lack in one look are kept until the next."""
    answers = [{"t": 3, "tt": 1}, {"t": 1}, {"t": 3, "tt": 1}, {"t": 3}, {"t": 3, "tt": 1}]
    assert looks(*answers) == [(4, False), (4, True), (4, False), (4, True), (4, False)]


def test_what_lacks_twice_in_a_row_is_gone() -> None:
    """Each partition for itself."""
    answers = [{"t": 3, "tt": 1}, {"t": 1, "tt": 1}, {"t": 1}, {"t": 1}]
    assert looks(*answers) == [(4, False), (4, True), (2, True), (1, False)]


def test_a_pattern_that_finds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """One warning names the pattern and topics that there are, however often it is looked; a later topic is found."""
    nothing = {f"x{number}": 1 for number in range(7)} | {"__consumer_offsets": 50}
    found = looks(nothing, nothing, nothing | {"t": 2})
    assert found == [(0, False), (0, False), (2, False)]
    (line,) = caplog.messages
    assert line.startswith(
        "option subscribePattern=t finds none of the 7 topics that this user may see (x0, x1, x2, x3, x4, …)"
    )


def test_no_warning_for_topics_that_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    """That is another matter, and told elsewhere."""
    looks({"t": 1}, {"x": 1}, {"x": 1})
    assert caplog.messages == []
