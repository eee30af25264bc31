"""The one client that asks a cluster: deadlines, silent brokers, connections that end, and librdkafka where ours can't."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from sparkcohort.runtime.kafka.cluster_messages import (
    BrokerQuestion,
    CoordinatorQuestion,
    EpochEndsQuestion,
    ListedOffset,
    MetadataQuestion,
    OffsetsQuestion,
    topic_ids,
)
from sparkcohort.runtime.kafka.fetch_messages import Node
from sparkcohort.runtime.kafka.produce_messages import ProducerIdQuestion
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient, result_of
from sparkcohort.runtime.shell.options.connection_settings import TransportError, UnsupportedBroker
from tests.kit.broker import Broker
from tests.kit.mock import MockCluster
from tests.kit.produce import open_transaction, produce
from tests.kit.relay import AnswerRelay
from tests.kit.waiting import wait_until

ONLY_LIBRDKAFKAS = {"test.mock.broker.rtt": "0"}


@pytest.fixture(params=[{}, ONLY_LIBRDKAFKAS], ids=["wire", "librdkafka"])
def conf(request: pytest.FixtureRequest) -> dict[str, str]:
    """Settings of which our own client can honour all, or not."""
    given: dict[str, str] = request.param
    return given


def offset(client: ClusterClient, tp: TopicPartition, spec: int, *, committed: bool = False) -> ListedOffset:
    """What the leader, broker 1, says."""
    return result_of(client.ask(OffsetsQuestion({tp: spec}, committed), 1, 20), 20)[tp]


def test_questions_and_answers(broker: Broker, topic: str, conf: dict[str, str]) -> None:
    """Topics with ids, racks and leaders; offsets by time and isolation; a group; the same from librdkafka, but for epochs."""
    broker.admin.create_topic(topic, 2, configs={"retention.ms": "-1"})  # records of long ago are not deleted meanwhile
    produce(broker.bootstrap, topic, 20, partitions=2, timestamp_ms=1_700_000_000_000)
    open_transaction(broker.bootstrap, topic, 5, 12, partition=1)
    broker.admin.delete_records(topic, {0: 4})
    broker.admin.commit(f"{topic}-g", topic, {0: 7})
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    client = ClusterClient({"bootstrap.servers": broker.bootstrap, **conf})
    try:
        metadata = client.metadata(MetadataQuestion([topic, f"{topic}-none"]), 20)
        assert {number: leader.node for number, leader in metadata.topics[topic].leaders.items()} == {0: 1, 1: 1}
        assert metadata.topics[f"{topic}-none"].error == 3 and metadata.racks == {1: "rack-1"}
        assert topic_ids(metadata).keys() == {topic}
        assert topic in client.metadata(MetadataQuestion(None), 20).topics
        assert offset(client, first, EARLIEST)[:2] == (0, 4)
        assert offset(client, first, 1_600_000_000_000)[:2] == (0, 4)
        assert offset(client, first, 1_800_000_000_000)[:2] == (0, -1)
        assert offset(client, second, LATEST)[:2] == (0, 17)
        assert offset(client, second, LATEST, committed=True)[:2] == (0, 10)
        if not conf:  # librdkafka waits for a topic that there isn't
            assert offset(client, TopicPartition(f"{topic}-none", 0), LATEST).error == 3
        assert client.describe_group(f"{topic}-g", 20).is_memberless
        epochs = client.ask(EpochEndsQuestion({topic: {0: (0, 0)}}), 1, 20)
        if conf:
            with pytest.raises(UnsupportedBroker):
                epochs.result(30)
        else:
            assert epochs.result(30)[first].end == 10
    finally:
        client.close()


@pytest.fixture
def trio(topic: str) -> Iterator[MockCluster]:
    """Three brokers, each of which leads one partition."""
    with MockCluster(3) as mock:
        mock.create_topic(topic, 3)
        for number in range(3):
            mock.set_leader(topic, number, number + 1)
        yield mock


def test_a_silent_broker_costs_its_own_questions_only(trio: MockCluster, topic: str, conf: dict[str, str]) -> None:
    """Also those that any broker may answer; it answers again when it is well."""
    client = ClusterClient({"bootstrap.servers": trio.bootstrap, **conf})

    def answers() -> list[bool]:
        specs = [{TopicPartition(topic, number): LATEST} for number in range(3)]
        asked = [client.ask(OffsetsQuestion(each, committed=False), node, 1) for node, each in enumerate(specs, 1)]
        return [each.exception(20) is None for each in asked]

    try:
        client.metadata(MetadataQuestion([topic]), 20)
        wait_until(lambda: answers() == [True] * 3, 20, "all to answer")
        trio.round_trip_ms(60_000, 2)
        wait_until(lambda: answers() == [True, False, True], 20, "the second to be silent")
        for _ in range(4):
            assert client.metadata(MetadataQuestion([topic]), 20).nodes
        trio.round_trip_ms(0, 2)
        wait_until(lambda: answers() == [True] * 3, 60, "all to answer again")
    finally:
        client.close()


@pytest.mark.thorough("a broker is stopped and started")
def test_a_broker_that_restarts_is_asked_once_more(own: Broker, topic: str) -> None:
    """Its connections have ended meanwhile, of which the next question knows nothing."""
    own.admin.create_topic(topic)
    client, tp = ClusterClient({"bootstrap.servers": own.bootstrap}), TopicPartition(topic, 0)
    try:
        assert client.metadata(MetadataQuestion([topic]), 20).nodes
        assert offset(client, tp, LATEST).offset == 0
        own.stop()
        with pytest.raises(TransportError):
            offset(client, tp, LATEST)
        own.start()
        wait_until(lambda: client.ask(CoordinatorQuestion("g"), None, 5).exception(20) is None, 60, "an answer")
        assert offset(client, tp, LATEST).offset == 0
    finally:
        client.close()


@pytest.fixture
def own() -> Iterator[Broker]:
    """A broker that a test may stop."""
    with Broker() as broker:
        yield broker


class LosingRelay(AnswerRelay):
    """Ends a connection in place of the second answer to such a question."""

    def __init__(self, target_port: int, api: int) -> None:
        """To a broker on this host."""
        self.watched, self.answers = api, 0
        super().__init__("127.0.0.1", target_port)

    def is_watched(self, api: int, version: int) -> bool:
        """See AnswerRelay."""
        return api == self.watched

    def changed_answer(self, answer: bytes) -> bytes:
        """See AnswerRelay."""
        self.answers += 1
        if self.answers == 2:
            raise OSError("lost")
        return answer


@pytest.mark.parametrize("question", [CoordinatorQuestion("g"), ProducerIdQuestion()], ids=lambda each: each.name)
def test_what_a_lost_connection_owes(broker: Broker, question: BrokerQuestion[Any]) -> None:
    """It is asked once more by another connection, unless its first copy could do harm behind the answer to the second."""
    port = int(broker.bootstrap.rpartition(":")[2])
    with (
        closing(LosingRelay(port, question.api)) as relay,
        closing(ClusterClient({"bootstrap.servers": "127.0.0.1:1"})) as client,
    ):
        node = Node("127.0.0.1", relay.port)
        result_of(client.ask(question, node, 20), 20)
        asked = client.ask(question, node, 20)
        if question.may_repeat:
            assert result_of(asked, 20) is not None
        else:
            assert isinstance(asked.exception(20), TransportError)
        assert relay.answers == (3 if question.may_repeat else 2)


def test_who_answers_with_nonsense_or_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    """Each question fails by its deadline, with the reason; the client's thread ends with the client."""
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as stranger:

        def answer() -> None:
            peer = stranger.accept()[0]
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        for server, why in ((silent, "in time"), (stranger, "does not speak Kafka's protocol")):
            client = ClusterClient({"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"})
            with pytest.raises(TransportError, match=why):
                client.metadata(MetadataQuestion(["t"]), 1)
            client.close()
            with pytest.raises(TransportError, match="closed"):
                client.metadata(MetadataQuestion(["t"]), 1)
            wait_until(lambda client=client: not client._thread.is_alive(), 20, "its end")  # type: ignore[misc]
    assert caplog.messages == []
