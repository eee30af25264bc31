"""One assigned partition of a fetching client: what has been asked for, and what has been handed out."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from sparkcohort.runtime.kafka.fetch_messages import FETCH_BY_NAMES, NO_ID, FetchPartition, Key, Topic
from sparkcohort.runtime.protocol.partitions import TopicPartition

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.kafka.fetch.broker import FetchLink


LEAST_BYTES = 64 << 10
SLOW_S = 10.0


LEADER_CHANGED = frozenset(
    (
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN,
        # The topic is deleted, or this broker has not heard of it yet: the metadata tell which.
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
    )
)
TRANSIENT = frozenset((KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN))
SESSION_LOST = frozenset((KafkaError.FETCH_SESSION_ID_NOT_FOUND, KafkaError.INVALID_FETCH_SESSION_EPOCH))


@dataclass(slots=True, eq=False)
class Partition:
    """See the module; times are the clock's of the thread that polls."""

    tp: TopicPartition
    end: int
    position: int  # the next to ask Kafka for
    next_offset: int  # the next to hand to the caller; never above ``position``
    topic_id: bytes = NO_ID
    leader: int = -1
    leader_epoch: int = -1
    fetched_epoch: int = -1
    replica: int = -1  # fetched from instead of the leader
    replica_until: float = 0.0
    log_end: int | None = None
    told_end: int = -1
    not_before: float = 0.0
    failed: bool = False  # no more is asked for
    ended: bool = False  # no more is handed out
    refresh: bool = True  # the broker has to tell its state again, changed or not: see ``FetchSession.request``
    record_bytes: int = 1024
    lost_at: float = 0.0  # since when there is no connection to the broker to fetch from
    # When it last had records: a broker without sessions begins with the first partition that is named.
    last_fetched_at: float = 0.0

    @property
    def topic_name(self) -> str:
        """The topic's id as Kafka's tools show it; "" while it isn't known."""
        return "" if self.topic_id == NO_ID else urlsafe_b64encode(self.topic_id).decode().rstrip("=")

    def key(self, version: int) -> Key:
        """What requests of this version call it."""
        return self.topic_id if version > FETCH_BY_NAMES else self.tp.topic.encode(), self.tp.partition

    @property
    def node(self) -> int:
        """The broker to fetch from; -1: not known."""
        return self.replica if self.replica >= 0 else self.leader

    def take_leader(self, topic: Topic) -> int:
        """Take the leader from the metadata, unless they are older than what is known; 0, or Kafka's code of what is wrong."""
        if topic.error:
            return 0 if topic.error in TRANSIENT else topic.error
        if NO_ID not in (self.topic_id, topic.topic_id) and self.topic_id != topic.topic_id:
            return int(KafkaError.UNKNOWN_TOPIC_ID)
        leader = topic.leaders.get(self.tp.partition)
        if leader is None:
            return int(KafkaError._UNKNOWN_PARTITION)
        if leader.node < 0 or leader.epoch < self.leader_epoch:
            return int(KafkaError.LEADER_NOT_AVAILABLE)
        if topic.topic_id != NO_ID:  # an older broker of the same cluster tells none
            self.topic_id = topic.topic_id
        self.leader, self.leader_epoch = leader.node, leader.epoch
        return 0

    def lose(self, link: FetchLink) -> None:
        """A broker can't be reached: if it is this partition's, another may lead by now."""
        if self.node == link.node_id:
            self.leader = self.replica = -1
            self.refresh = True

    def is_in(self, link: FetchLink) -> bool:
        """Whether the last request to this broker was for this very assignment."""
        return not self.refresh and link.base.get(self.key(link.version), (None, 0))[0] is self

    def next_fetch(self, most: int) -> FetchPartition:
        """What to ask for, ``most`` bytes at most: a small range of a large log need not cost a large answer."""
        estimate = max((self.end - self.position) * self.record_bytes, LEAST_BYTES)
        return FetchPartition(self.leader_epoch, self.position, self.fetched_epoch, min(estimate, most))


def overdue_seconds(
    assigned: Iterable[Partition], links: Mapping[int, FetchLink], wait_s: float
) -> dict[TopicPartition, float]:
    """For how long the brokers that partitions are fetched from have sent nothing though they owe an answer.

    ``wait_s`` is what a broker may wait for records.  What has come and wasn't read yet is no silence of the broker's, nor is
    the rest that it has asked for.  In the middle of an answer it may be slow: its next bytes have ``SLOW_S``.
    """
    now, silent = time.monotonic(), dict[int, float]()
    for node, link in links.items():
        if link.transport is not None and not link.down:
            late_s = now - link.heard_at - (SLOW_S if link.frames.filled else wait_s)
            waits = link.pending is not None and late_s > 0 and not link.readable()
            silent[node] = late_s if waits else 0.0
    overdue = {}
    for partition in assigned:
        if not partition.failed and partition.position < partition.end:
            partition.lost_at = 0.0 if partition.node in silent else partition.lost_at or now
            overdue[partition.tp] = silent.get(partition.node, now - partition.lost_at)
    return overdue


def last_fetched(partition: Partition) -> float:
    """When it last had something, to sort by."""
    return partition.last_fetched_at
