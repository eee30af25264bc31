"""The answers of librdkafka's administrator, where our own client can't log in or the brokers are too old for it.

One client, asked by threads that may block, one for each question.  It knows no epochs and takes no members out.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, OffsetSpec

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.cluster_messages import (
    AnyQuestion,
    CoordinatorAddress,
    CoordinatorQuestion,
    DescribedMember,
    GroupDescription,
    GroupQuestion,
    ListedOffset,
    MetadataQuestion,
    OffsetsQuestion,
)
from sparkcohort.runtime.kafka.fetch_messages import NO_ID, Metadata, Node, PartitionLeader, Topic
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import clients, errors, group_requests
from sparkcohort.runtime.shell.options.certificate_files import ChangedFiles
from sparkcohort.runtime.shell.options.connection_settings import ConnectionRefused, TransportError, UnsupportedBroker

IDS_S: Final = 2.0
"""Patience with brokers that have just answered another question."""
NO_ANSWER: Final = -1001
"""librdkafka's offset of a partition whose leader gave none (``RD_KAFKA_OFFSET_INVALID``)."""
_SPECS: Final[Mapping[int, Callable[[], OffsetSpec]]] = {EARLIEST: OffsetSpec.earliest, LATEST: OffsetSpec.latest}


class LibrdkafkaQuestions:
    """Answers questions; from any thread, several at once.

    librdkafka reads certificates when a client is made, never again.  And a client that was told of no broker may never
    ask again (its issue 5301).  So another is made where files have changed, or no brokers are known.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Nothing is opened before the first question."""
        self._conf, self._lock = conf, threading.Lock()
        self._files = ChangedFiles(conf)
        self._admin: AdminClient | None = None

    def answer(self, question: AnyQuestion, node: Node | int | None, timeout_s: float) -> Any:
        """The answer, waited for.  Raises TransportError; UnsupportedBroker for what librdkafka has no request for."""
        try:
            with self._lock:
                if self._files.have_changed():
                    self._admin = None
                if self._admin is None:  # its length, and so its truth, is that of its queue
                    self._admin = clients.new_admin(self._conf)
                admin = self._admin
            return _answer(admin, question, node, timeout_s)
        except TimeoutError:
            raise TransportError(f"no answer to {question.name} in time") from None
        except CohortError as error:
            raise TransportError(str(error)) from None
        except KafkaException as error:
            if isinstance(question, MetadataQuestion) and clients.code_of(error) < 0:
                self._admin = None
            kind = ConnectionRefused if clients.code_of(error) in errors.AUTHENTICATION else TransportError
            raise kind(clients.text_of(error)) from None


def _answer(admin: AdminClient, question: AnyQuestion, node: Node | int | None, timeout_s: float) -> Any:
    match question:
        case MetadataQuestion(topics):
            return _metadata(admin, None if topics is None else list(topics), timeout_s)
        case OffsetsQuestion():
            return _offsets(admin, question, node, timeout_s)
        case CoordinatorQuestion():
            return CoordinatorAddress(ErrorCode.NONE, Node("", 0))  # librdkafka finds it itself
        case GroupQuestion(group):
            return _group(admin, group, timeout_s)
    raise UnsupportedBroker(f"librdkafka has no {question.name}")


def _metadata(admin: AdminClient, names: list[str] | None, timeout_s: float) -> Metadata:
    # librdkafka lists one topic, or all.
    listings = [admin.list_topics(name, timeout=timeout_s) for name in names or ()]
    listings = listings or [admin.list_topics(timeout=timeout_s)]
    brokers = {
        broker.id: Node(str(broker.host), broker.port or 0) for listed in listings for broker in listed.brokers.values()
    }
    if not brokers:
        raise TransportError("the broker that was asked knows of no broker")
    listed_topics = {name: entry for listed in listings for name, entry in listed.topics.items()}
    selected = list(listed_topics) if names is None else names
    ids: dict[str, bytes] = {}
    racks: dict[int, str] = {}
    described = admin.describe_topics(TopicCollection(selected), request_timeout=IDS_S) if selected else {}
    for name, future in described.items():
        try:
            topic = future.result(IDS_S)
        except (KafkaException, TimeoutError):  # no such topic, or brokers that don't know the request: without ids
            continue
        ids[name] = base64.urlsafe_b64decode(str(topic.topic_id).replace("+", "-").replace("/", "_") + "==")
        racks |= {each.id: each.rack for part in topic.partitions for each in part.replicas if each.rack}
    topics = {
        name: Topic(
            entry.error.code() if entry.error is not None else 0,
            ids.get(name, NO_ID),
            {
                number: PartitionLeader(0, part.leader, -1, tuple(part.replicas))
                for number, part in entry.partitions.items()
            },
        )
        for name, entry in listed_topics.items()
        if names is None or name in names
    }
    return Metadata(brokers, topics, (), racks)


def _offsets(
    admin: AdminClient, question: OffsetsQuestion, node: Node | int | None, timeout_s: float
) -> dict[TopicPartition, ListedOffset]:
    level = IsolationLevel.READ_COMMITTED if question.committed else IsolationLevel.READ_UNCOMMITTED
    specs = {
        Position(*tp): _SPECS[spec]() if spec in _SPECS else OffsetSpec.for_timestamp(spec)
        for tp, spec in question.specs.items()
    }
    offsets: dict[TopicPartition, ListedOffset] = {}
    for position, future in admin.list_offsets(specs, isolation_level=level, request_timeout=timeout_s).items():
        tp = TopicPartition(position.topic, position.partition)
        try:
            info = future.result(timeout_s)
        except KafkaException as error:
            if clients.code_of(error) < 0:  # the library's own: no broker has answered
                raise
            offsets[tp] = ListedOffset(clients.code_of(error), -1, -1)
            continue
        if info.offset == NO_ANSWER:
            raise TransportError(f"broker {node} does not answer")
        offsets[tp] = ListedOffset(0, info.offset, info.leader_epoch if info.leader_epoch is not None else -1)
    return offsets


def _group(admin: AdminClient, name: str, timeout_s: float) -> GroupDescription:
    try:
        group = group_requests.describe_groups(admin, [name])[name].result(timeout_s)
    except KafkaException as error:
        if clients.code_of(error) < 0:
            raise
        return GroupDescription(clients.code_of(error), "", ())
    members = tuple(
        DescribedMember(
            each.member_id,
            each.group_instance_id or "",
            each.client_id,
            str(each.host),
            frozenset(TopicPartition(tp.topic, tp.partition) for tp in each.assignment.topic_partitions),
        )
        for each in group.members
    )
    return GroupDescription(0, group.state.name.replace("_", " ").title().replace(" ", ""), members)
