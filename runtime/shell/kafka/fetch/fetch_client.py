"""Kafka's Fetch responses by sockets of our own, decoded in C straight into Arrow's buffers.

One thread does it all, in ``poll``: it asks each broker for what its partitions lack, and reads an answer while the next
one is on its way.  Nothing is made per record, and little per request.  What this can't do (brokers and records that it
doesn't know) it gives up, all of it, for ``source`` to hand to librdkafka.  A broker that refuses us, or
that we refuse, is tried again, ever more slowly.

Sources: KIP-227 (sessions), KIP-320 and KIP-595 (epochs and divergence), KIP-392 (nearest replica), KIP-516 (topic ids),
KIP-219 (throttling), KIP-74 (limits); Kafka's ``FetchCollector``.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError

from sparkcohort.native import _native
from sparkcohort.runtime.kafka.fetch_messages import (
    NO_ID,
    FetchAnswer,
    FetchedPartition,
    Key,
    MalformedResponse,
    Metadata,
    Request,
    Topic,
    fetch_answer,
    fetch_request,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.kafka.client_log import CLIENT_LOG
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.assigned_partition import (
    LEADER_CHANGED,
    LEAST_BYTES,
    SESSION_LOST,
    Partition,
    last_fetched,
    overdue_seconds,
)
from sparkcohort.runtime.shell.kafka.fetch.background import BackgroundWork
from sparkcohort.runtime.shell.kafka.fetch.backoff import BACKOFF_S
from sparkcohort.runtime.shell.kafka.fetch.broker import HIDDEN_S, MOST_THROTTLE_S, Fetched, FetchLink, FrameReader
from sparkcohort.runtime.shell.kafka.fetch.cluster import Cluster
from sparkcohort.runtime.shell.kafka.fetch.connection import Transport, connect_to
from sparkcohort.runtime.shell.kafka.fetch.decode import NotYet, PartDecoder
from sparkcohort.runtime.shell.kafka.fetch.events import (
    BATCH_RECORDS,
    EndOfLog,
    Event,
    Largest,
    PartitionError,
    Records,
)
from sparkcohort.runtime.shell.options.connection_settings import (
    ConnectionRefused,
    Settings,
    TransportError,
    UnsupportedBroker,
)
from sparkcohort.runtime.shell.options.kafka_settings import value_of
from sparkcohort.runtime.values.columns import Columns

WAKE_S = 0.05  # how long a wait takes at most: what is due by the clock no socket tells
REPLICA_S = 300.0  # how long the nearest replica is fetched from before the leader is asked again (KIP-392)

RECEIVE_MORE = "set kafka.receive.message.max.bytes to more, and give the executors memory for it"

OnError = Callable[[KafkaError], None]


class FetchClient:
    """Assigned partitions as a stream of events, as ``RecordSource`` has them; for one thread at a time.

    ``given_up`` says why nothing more comes from here, once that is so; ``on_error`` takes errors of no partition.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        cluster: ClusterClient,
        *,
        columns: Columns,
        batch_bytes: int,
        on_error: OnError,
        largest: Largest | None = None,
    ) -> None:
        """``conf``: all settings, librdkafka's.  Raises TransportError, ValueError for values that can't be used.

        ``cluster`` tells who leads what; ``largest`` bounds a record further than ``receive.message.max.bytes`` does.
        """
        self._batch_bytes, self._on_error = batch_bytes, on_error
        self._settings = Settings.parse(conf)
        self._committed = str(conf["isolation.level"]) == "read_committed"
        max_wait_ms = int(conf["fetch.wait.max.ms"])
        self._max_wait_s = max_wait_ms / 1000
        self._request_body = partial(
            fetch_request,
            max_wait_ms=max_wait_ms,
            min_bytes=int(value_of(conf, "fetch.min.bytes")),
            committed=self._committed,
            rack=str(value_of(conf, "client.rack")),
        )
        self._max_bytes, self._partition_bytes = int(conf["fetch.max.bytes"]), int(conf["max.partition.fetch.bytes"])
        self._largest = max(int(value_of(conf, "receive.message.max.bytes")), self._max_bytes + 512)
        self._timeout_s = int(value_of(conf, "socket.timeout.ms")) / 1000 + self._max_wait_s
        age_ms = int(value_of(conf, "topic.metadata.refresh.interval.ms"))
        largest = min(Largest(self._largest, RECEIVE_MORE), largest or Largest(self._largest, RECEIVE_MORE))
        self._decoder = PartDecoder(largest, columns=columns)
        self._assigned: dict[TopicPartition, Partition] = {}
        self._ready: deque[tuple[Partition, _native.Part | Event]] = deque()
        self._links: dict[int, FetchLink] = {}
        self._cluster = Cluster(cluster, age_ms / 1000 if age_ms > 0 else float("inf"))
        self._jobs = BackgroundWork()
        self.pace_s, self._woken, self.given_up = 0.0, False, ""  # see ``RecordSource``
        self.tells_ids = True  # until the cluster has told topics without
        self._changed = True  # what to ask which broker, since ``_go_through``
        self.throttled_s = 0.0  # for so long brokers asked to be left alone, in all

    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Start fetching; see ``RecordSource``."""
        self._changed = self._changed or bool(spans)
        for tp, (start, end) in spans.items():
            old = self._assigned.get(tp)
            if old is not None:
                old.ended = True
            partition = self._assigned[tp] = Partition(tp, end, start, start)
            topic = self._cluster.topics.get(tp.topic)
            if topic is not None and tp.partition in topic.leaders:  # else the metadata may be older than the partition
                self._resolve(partition, topic)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; see ``RecordSource``."""
        for tp in partitions:
            partition = self._assigned.pop(tp, None)
            if partition is not None:
                partition.ended = self._changed = True

    def poll(self, timeout_s: float, records: int) -> list[Event]:
        """What is there; see ``RecordSource``."""
        deadline = time.monotonic() + timeout_s
        while not self.given_up:
            events = self._harvest(max(1, min(records, BATCH_RECORDS)))
            now = time.monotonic()
            if events or self._woken or (now >= deadline and timeout_s > 0):
                self._woken = False
                return events
            self._attend(now)
            if not self._ready and not self.given_up:
                self._wait(max(0.0, deadline - now))
            if timeout_s <= 0 and not self._ready:
                return []
        return []

    def wake(self) -> None:
        """From any thread: end a ``poll``; see ``RecordSource``."""
        self._woken = True
        self._jobs.wake()

    def partition(self, tp: TopicPartition) -> Partition | None:
        """What is assigned, if it is."""
        return self._assigned.get(tp)

    def log_end(self, tp: TopicPartition) -> int | None:
        """The log's end as last heard; see ``RecordSource``."""
        partition = self._assigned.get(tp)
        return partition.log_end if partition is not None else None

    def silence(self) -> dict[TopicPartition, float]:
        """For how long leaders have owed an answer; see ``RecordSource``."""
        return overdue_seconds(self._assigned.values(), self._links, self._max_wait_s)

    def close(self) -> None:
        """Close the connections; a second time does nothing."""
        self.given_up = self.given_up or "closed"
        self._jobs.close()
        for link in self._links.values():
            link.disconnect()
        self._links.clear()
        self._assigned.clear()
        self._ready.clear()

    # --- handing out ----------------------------------------------------------------------------

    def _harvest(self, records: int) -> list[Event]:
        """What has been received, up to so many records or about a batch's bytes."""
        events: list[Event] = []
        room = self._batch_bytes
        while self._ready and records > 0 and room > 0:
            partition, item = self._ready[0]
            if partition.ended:
                self._ready.popleft()
                continue
            try:
                event = self._decoder.take(partition, item, records, room) if isinstance(item, _native.Part) else item
            except Exception:
                self.assign({partition.tp: (partition.next_offset, partition.end)})  # the part is of no use any more
                if not events:
                    raise
                break  # hand out what there is: the partition is fetched again, and the error comes again or doesn't
            if isinstance(event, NotYet):
                # Others first; but a partition's own parts stay in their order.
                self._ready = deque(sorted(self._ready, key=lambda entry: entry[0] is partition))
                break
            if isinstance(event, PartitionError) and event.code == KafkaError._NOT_IMPLEMENTED:
                offset = partition.next_offset
                self._give_up(f"{names_of([partition.tp])} has records of an older format at offset {offset}")
                break
            if event is None or event is item:
                self._ready.popleft()
            if event is None:
                continue
            if isinstance(event, PartitionError):
                partition.failed = partition.ended = self._changed = True
            events.append(event)
            if isinstance(event, Records) and event.batch is not None:
                records, room = records - event.batch.num_rows, room - event.nbytes
        return events

    def _fail(self, partition: Partition, code: int, words: str | None = None) -> None:
        """An error that is for the caller to solve; what came before it is handed out first."""
        partition.failed = self._changed = True
        error = KafkaError(code) if words is None else KafkaError(code, words)
        self._ready.append((partition, PartitionError(partition.tp, error, partition.position)))

    # --- asking ---------------------------------------------------------------------------------

    def _attend(self, now: float) -> None:
        """Do what is due: connect, ask who leads what, ask for records."""
        if not self._changed and not self._cluster.is_due(missing=False, now=now):
            for link in self._links.values():
                self._ask_again(link, now)
        if self._changed or self._cluster.is_due(missing=False, now=now):
            self._go_through(now)

    def _go_through(self, now: float) -> None:
        """Look at every partition; once all are asked for, ``_changed`` is False until something happens."""
        by_node: dict[int, list[Partition]] = {}
        topics, missing, pending = set(), False, False
        for partition in self._assigned.values():
            if partition.failed:
                continue
            topics.add(partition.tp.topic)
            if partition.replica >= 0 and now >= partition.replica_until:
                partition.replica = -1
            if partition.replica >= 0 and partition.replica not in self._cluster.nodes:  # the leader may name it again
                missing, partition.replica, partition.not_before = True, -1, now + BACKOFF_S
            pending = pending or partition.replica >= 0 or partition.not_before > now
            if partition.node not in self._cluster.nodes:
                missing = True
            elif partition.position < partition.end:
                by_node.setdefault(partition.node, []).append(partition)
        # A broker that can't be reached may lead no more, though no other broker has said so yet.
        missing = missing or any(node in by_node and link.failures for node, link in self._links.items())
        if topics and self._cluster.is_due(missing, now):
            self._cluster.ask(self._jobs, topics, self._take_metadata)
        for node in self._links.keys() - by_node.keys():
            self._links[node].base = {}
        done = [self._ask_records(self._link(node), share, len(by_node), now) for node, share in by_node.items()]
        self._changed = missing or pending or not all(done)

    def _link(self, node: int) -> FetchLink:
        """The link to a broker; a new one where its address has changed."""
        address = self._cluster.nodes[node]
        link = self._links.get(node)
        if link is None or link.node != address:
            if link is not None:
                link.disconnect()
            frames = FrameReader(self._largest, self._max_bytes + (64 << 10))
            link = self._links[node] = FetchLink(node, address, self._settings.client_id, frames)
        return link

    def _ask_records(self, link: FetchLink, partitions: list[Partition], links: int, now: float) -> bool:
        """Ask a broker for all of these; whether that has been done, or is under way."""
        if not self._is_free(link, now):
            return bool(link.pending) and len(link.base) == len(partitions) and all(p.is_in(link) for p in partitions)
        if link.connecting or link.rest_s(now, self.pace_s):
            return False
        if link.transport is None:
            self._connect(link)
            return False
        due = sorted((p for p in partitions if p.not_before <= now), key=last_fetched)
        if not due:
            return False
        link.agree_on_version(by_names=any(p.topic_id == NO_ID for p in partitions))
        fetches = {p.key(link.version): p.next_fetch(self._partition_bytes) for p in due}
        request = link.session.request(fetches, frozenset(p.key(link.version) for p in due if p.refresh))
        for partition in due:
            partition.refresh = False
        link.max_bytes = max(self._max_bytes // links, min(self._max_bytes, 4 * LEAST_BYTES))
        return self._send(link, request, {p.key(link.version): (p, p.position) for p in due}, now)

    def _ask_again(self, link: FetchLink, now: float) -> None:
        """Ask a broker for what it was asked for before, from where each partition has come to."""
        if not self._is_free(link, now) or not link.base or link.rest_s(now, self.pace_s):
            return
        request = None
        if link.transport is not None:
            request = link.session.request_changes(
                {key: p.next_fetch(self._partition_bytes) for key, (p, _) in link.advanced.items()}
            )
        if request is None:
            self._changed = True
            return
        for key, (partition, _) in link.advanced.items():
            link.base[key] = partition, partition.position
        self._send(link, request, link.base, now)

    def _is_free(self, link: FetchLink, now: float) -> bool:
        """Whether nothing is under way; a link that has fallen silent, or whose login ends, is given up."""
        if link.pending is not None:
            # Not while there is something to read: the caller may not have polled for long.
            if now - link.heard_at > self._timeout_s and not link.readable():
                self._lose(link, TransportError(f"no answer within {self._timeout_s:g} s (socket.timeout.ms)"), now)
            return False
        self._changed = link.renew(now) or self._changed
        return True

    def _send(self, link: FetchLink, request: Request, pending: dict[Key, Fetched], now: float) -> bool:
        body = self._request_body(request, max_bytes=link.max_bytes, version=link.version)
        try:
            link.send(body, pending, now)
        except TransportError as error:
            self._lose(link, error, now)
            return False
        return True

    def _connect(self, link: FetchLink) -> None:
        work = partial(connect_to, link.node, self._settings, self._settings.setup_timeout_s)
        self._jobs.start(work, partial(self._connected, link))
        link.connecting = True

    def _connected(self, link: FetchLink, result: Transport | Exception) -> None:
        link.connecting, self._changed = False, True
        if isinstance(result, Exception):
            self._lose(link, result, time.monotonic())
        elif self._links.get(link.node_id) is not link:
            result.close()
        else:
            link.connected(result, time.monotonic())

    def _lose(self, link: FetchLink, error: Exception, now: float) -> None:
        """The broker can't be reached (any more): another may lead its partitions by now."""
        link.lose(error, now)
        self._changed = True
        for partition in self._assigned.values():
            partition.lose(link)
        self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not isinstance(error, TransportError):
            raise error
        if isinstance(error, UnsupportedBroker):
            self._give_up(str(error))
            return
        CLIENT_LOG.info("%s", error)
        refused = isinstance(error, ConnectionRefused)
        self._on_error(KafkaError(KafkaError._AUTHENTICATION if refused else KafkaError._TRANSPORT, str(error)))

    # --- metadata -------------------------------------------------------------------------------

    def _take_metadata(self, result: Metadata | Exception) -> None:
        self._changed = True
        self._cluster.take_answer(result, time.monotonic())
        if isinstance(result, Exception):
            self._complain(result)
            return
        for words in result.unusable:
            CLIENT_LOG.info("%s", words)
            self._on_error(KafkaError(KafkaError._RESOLVE, words))
        self.tells_ids = all(topic.error or topic.topic_id != NO_ID for topic in result.topics.values())
        for partition in list(self._assigned.values()):
            if not partition.failed and partition.tp.topic in result.topics:
                self._resolve(partition, result.topics[partition.tp.topic])
        for node in self._links.keys() - result.nodes.keys():
            self._links.pop(node).disconnect()

    def _resolve(self, partition: Partition, topic: Topic) -> None:
        """Take the partition's leader from the metadata; an error that these settle is the caller's."""
        code = partition.take_leader(topic)
        if code == KafkaError.LEADER_NOT_AVAILABLE:
            self._on_error(KafkaError(code))
        elif code:
            self._cluster.forget(partition.tp.topic)  # the next assignment is not to rest upon it
            self._fail(partition, code)

    # --- receiving ------------------------------------------------------------------------------

    def _wait(self, timeout_s: float) -> None:
        """Wait until a broker has sent something, and take it in."""
        poller = select.poll()
        poller.register(self._jobs, select.POLLIN)
        links, now, wake_s = {}, time.monotonic(), max(WAKE_S, self.pace_s)
        for link in self._links.values():
            if link.pending is None:
                wake_s = min(wake_s, link.rest_s(now, self.pace_s) or WAKE_S)
            elif link.transport is not None:
                if now - link.heard_at > HIDDEN_S:
                    link.transport.expect(0)
                links[link.transport.fileno()] = link
                poller.register(link.transport, select.POLLIN if link.flushed else select.POLLIN | select.POLLOUT)
        for descriptor, _ in poller.poll(1000 * min(timeout_s, wake_s)):
            if descriptor not in links:
                self._jobs.deliver()
            elif not self.given_up:
                self._receive(links[descriptor])

    def _receive(self, link: FetchLink) -> None:
        now = time.monotonic()
        try:
            frame = link.receive(now)
            if frame is None:
                return
            answer = fetch_answer(frame, len(frame), link.correlation_id, link.version)
        except (TransportError, MalformedResponse) as error:
            self._lose(link, error if isinstance(error, TransportError) else TransportError(str(error)), now)
            return
        self.throttled_s += min(max(answer.throttle_ms / 1000, 0.0), MOST_THROTTLE_S)
        pending = link.record_answer(answer.throttle_ms, 0 if answer.error in SESSION_LOST else answer.error, now)
        if answer.error:
            link.session.drop_session()
            self._changed = True
        if answer.error in SESSION_LOST:
            pass  # a full request begins another
        elif answer.error:
            self._on_error(KafkaError(answer.error))
            for partition, _ in pending.values():
                partition.leader, partition.refresh = -1, True
        else:
            link.session.record_answer(answer.session_id)
            self._take_in(link, answer, pending, frame, now)
        if not link.advanced:
            link.keep_pace(self._max_wait_s)
        self._attend(now)  # the next answer is on its way while this one is read

    def _take_in(
        self, link: FetchLink, answer: FetchAnswer, pending: Mapping[Key, Fetched], frame: memoryview, now: float
    ) -> None:
        for result in answer.partitions:
            entry, offset = pending.get((result.topic, result.partition), (None, -1))
            # The partition may have failed, or been assigned again, since the request: then its records are thrown away.
            if entry is None or self._assigned.get(entry.tp) is not entry or entry.failed or entry.position != offset:
                continue
            if result.error:
                self._on_partition_error(link, entry, result.error, now)
            elif result.diverged:
                self._fail(entry, KafkaError._LOG_TRUNCATION, f"the log was truncated before offset {entry.position}")
            else:
                self._on_records(entry, result, frame, now)
                link.has_more = link.has_more or entry.position < (entry.log_end or 0)
                if entry.position != offset:
                    link.advanced[entry.key(link.version)] = entry, offset

    def _on_partition_error(self, link: FetchLink, partition: Partition, code: int, now: float) -> None:
        self._changed = True
        if partition.replica >= 0 and partition.replica == link.node_id:
            # The leader may know of a better replica.
            partition.replica, partition.not_before, partition.refresh = -1, now + BACKOFF_S, True
        elif code in LEADER_CHANGED:
            partition.leader, partition.not_before, partition.refresh = -1, now + BACKOFF_S, True
            self._on_error(KafkaError(code))
        else:
            self._fail(partition, code)

    def _on_records(self, partition: Partition, result: FetchedPartition, frame: memoryview, now: float) -> None:
        end = result.last_stable_offset if self._committed else result.high_watermark
        partition.log_end = end if end >= 0 else partition.log_end
        if result.preferred_replica >= 0:
            partition.replica, partition.replica_until = result.preferred_replica, now + REPLICA_S
            partition.refresh = self._changed = True
        if result.end > result.start:
            part = self._decoder.part(frame, partition, result, committed=self._committed)
            start = partition.position
            partition.position, epoch = part.ahead()
            if partition.position == start:  # a batch that never ends, or one of another format
                partition.not_before = now + BACKOFF_S
            self._changed = self._changed or partition.position == start or partition.position >= partition.end
            partition.last_fetched_at = now
            partition.fetched_epoch = max(partition.fetched_epoch, epoch)
            self._ready.append((partition, part))
        if partition.log_end is not None:  # it may have grown while the broker read it
            partition.log_end = max(partition.log_end, partition.position)
        if 0 <= end <= partition.position and partition.told_end != partition.position:
            partition.told_end = partition.position
            self._ready.append((partition, EndOfLog(partition.tp, partition.position)))

    def _give_up(self, reason: str) -> None:
        self.given_up = self.given_up or reason
