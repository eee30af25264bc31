"""Our own client as a producer: who leads what, one connection to each broker, one batch of each partition under way.

It has no thread: the caller's moves it on, by ``write`` and ``flush``.  Time in which the caller does something else counts for no limit,
so that a task that computes for minutes between two writes loses nothing by it.
"""

from __future__ import annotations

import random
import select
import time
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sparkcohort.runtime.kafka.fetch_messages import MalformedResponse, Metadata, Node
from sparkcohort.runtime.kafka.produce_messages import (
    NO_PRODUCER_ID,
    PRODUCE_VERSIONS,
    ProducedPartition,
    ProducerId,
    ProducerIdQuestion,
)
from sparkcohort.runtime.kafka.produce_progress import (
    CLUSTER_DENIED,
    NETWORK,
    RETRIABLE,
    TOPIC_DENIED,
    BatchProgress,
    BatchStep,
    PartitionSequence,
    RetryLimits,
    judge,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.background import BackgroundWork
from sparkcohort.runtime.shell.kafka.fetch.backoff import JITTER, backoff
from sparkcohort.runtime.shell.kafka.fetch.cluster import Cluster
from sparkcohort.runtime.shell.kafka.fetch.connection import Transport, connect_to
from sparkcohort.runtime.shell.kafka.fetch.settings import settings_of
from sparkcohort.runtime.shell.kafka.produce.batch_rows import rows_of_batch
from sparkcohort.runtime.shell.kafka.produce.failures import (
    INVALID_TOPIC,
    error_name,
    expired_batch,
    refused_batch,
    refused_id,
    topic_error,
)
from sparkcohort.runtime.shell.kafka.produce.partition_queue import PartitionQueue, QueuedBatch
from sparkcohort.runtime.shell.kafka.produce.produce_link import ProduceLink
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError, ProduceReport, ProduceTally
from sparkcohort.runtime.shell.kafka.produce.row_encoding import CODED, TOPIC, EncodedBatch, RoomPool, RowEncoder
from sparkcohort.runtime.shell.options.connection_settings import (
    ConnectionRefused,
    Settings,
    TransportError,
    UnsupportedBroker,
)
from sparkcohort.runtime.shell.options.kafka_settings import value_of
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings

LARGEST_PIECE, LEAST_PIECE = 4 << 20, 64 << 10  # bytes of rows that are encoded at once
TURN_S: Final = 0.05
ANSWER_S: Final = 5.0
MOST_REFUSALS: Final = 3  # in a row: another password may not have reached all brokers yet


class WireSender:
    """See the module and ``Producer``."""

    def __init__(self, settings: ProducerSettings) -> None:
        """Nothing is connected yet."""
        self._settings = settings
        self._limits = RetryLimits(settings.retries, settings.backoff_s, settings.most_backoff_s)
        self._rooms = RoomPool(max(min(LARGEST_PIECE, settings.buffer_bytes // 4), LEAST_PIECE))
        self._encoder = RowEncoder(settings, self._rooms)
        self._client = ClusterClient(settings.connection)
        self._cluster = Cluster(self._client, settings.metadata_age_s)
        self._jobs: BackgroundWork | None = None
        self._connection: Settings | None = None
        self._answer_bytes = 0
        self._links: dict[int, ProduceLink] = {}
        self._codes: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._slots: list[PartitionQueue] = []
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[TopicPartition, PartitionQueue] = {}  # with batches
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes, self._gathered_at = 0, 0.0
        self._stale = False  # what is known of leaders
        self._producer = NO_PRODUCER_ID
        self._id_request: Future[tuple[int, ProducerId]] | None = None
        self._id_not_before, self._id_failures = 0.0, 0
        self._tally = ProduceTally()
        self._failure: ProduceError | None = None
        self._cause: Exception | None = None  # the last trouble on the way to a broker
        self._refusals = 0
        self._idle_s, self._left_at = 0.0, time.monotonic()

    # --- the caller's ---------------------------------------------------------------------------

    def write(self, rows: pa.RecordBatch) -> None:
        """See ``Producer``."""
        self._enter()
        try:
            if rows.num_rows:
                self._gather(self._coded(rows))
            self._move_on(0.0)
        finally:
            self._leave()

    def flush(self) -> ProduceReport:
        """See ``Producer``."""
        self._enter()
        try:
            self._encode_gathered()
            self._attend(self._now())
            while self._busy:
                self._wait_for_brokers()
        finally:
            self._leave()
        report, self._tally = self._tally.report(), ProduceTally()
        return report

    def close(self) -> None:
        """See ``Producer``."""
        self._failure = self._failure or ProduceError("the producer is closed")
        for link in self._links.values():
            link.disconnect()
        self._links = {}
        self._client.close()
        if self._jobs is not None:
            self._jobs.close()

    def _enter(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._idle_s += time.monotonic() - self._left_at
        if self._jobs is not None:
            return
        config = settings_of(self._settings.connection)
        try:
            self._connection = Settings.parse(config)
        except TransportError as error:
            raise self._fail(ProduceError(str(error))) from None
        self._answer_bytes = int(value_of(config, "receive.message.max.bytes"))
        self._jobs = BackgroundWork()

    def _leave(self) -> None:
        self._left_at = time.monotonic()

    def _now(self) -> float:
        return time.monotonic() - self._idle_s

    def _fail(self, error: ProduceError) -> ProduceError:
        self._failure = self._failure or error
        self.close()
        return self._failure

    # --- rows -----------------------------------------------------------------------------------

    def _coded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with topics as the encoder numbers them, which needs their partitions."""
        topics = rows.column(TOPIC)
        names = topics.dictionary.to_pylist()
        if any(name is not None and name not in self._codes for name in names):
            present = pc.unique(topics.indices).to_pylist()  # a slice's dictionary has names that no row has
            self._add_topics([names[index] for index in present if index is not None and names[index] is not None])
        codes = pa.array([self._codes.get(name) for name in names], pa.int32())
        numbers = codes.take(topics.indices) if len(codes) else pa.nulls(rows.num_rows, pa.int32())
        return pa.RecordBatch.from_arrays([*rows.columns[:TOPIC], numbers, *rows.columns[TOPIC + 1 :]], schema=CODED)

    def _add_topics(self, names: Iterable[str]) -> None:
        """Wait for the partitions of new topics, within ``max.block.ms``."""
        new_names = [name for name in dict.fromkeys(names) if name not in self._codes]
        for name in new_names:
            self._codes[name] = len(self._codes)
            self._names[self._codes[name]] = name
            self._encoder.topics.extend((0, 0, 0, 0))
        self._stale = self._stale or bool(new_names)
        deadline = self._now() + self._settings.block_s
        while missing := [name for name in new_names if not self._encoder.topics[4 * self._codes[name] + 1]]:
            topic = self._cluster.topics.get(missing[0])
            code = topic.error if topic is not None else 0
            if code in (TOPIC_DENIED, INVALID_TOPIC) or self._now() >= deadline:
                if not code and self._cause is not None:
                    raise self._fail(
                        ProduceError(
                            f"no partitions of topic {missing[0]} within {self._settings.block_s:g} s (kafka.max.block.ms): {self._cause}"
                        )
                    )
                raise self._fail(topic_error(missing[0], code, self._settings.block_s))
            self._wait_for_brokers()

    def _gather(self, rows: pa.RecordBatch) -> None:
        """Keep rows until they are worth a request, or have waited for ``linger.ms``."""
        now = self._now()
        if not self._gathered:
            self._gathered_at = now
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes
        if self._gathered_bytes >= self._piece_bytes() or now - self._gathered_at >= self._settings.linger_s:
            self._encode_gathered()

    def _piece_bytes(self) -> int:
        """Rows for a batch of each partition."""
        return max(min(len(self._queues) * self._settings.batch_bytes, self._rooms.usual * 3 // 4), LEAST_PIECE // 2)

    def _encode_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        nbytes, self._gathered_bytes = self._gathered_bytes, 0
        if not gathered:
            return
        batches = gathered
        if len(gathered) > 1 and nbytes <= 2 * self._rooms.usual:
            batches = pa.Table.from_batches(gathered).combine_chunks().to_batches()
        for rows in batches:
            count = max(1, rows.num_rows * self._piece_bytes() // max(rows.nbytes, 1))
            for start in range(0, rows.num_rows, count):
                piece = rows.slice(start, count)
                while (
                    self._rooms.nbytes
                    and self._rooms.nbytes + max(piece.nbytes, self._rooms.usual) > self._settings.buffer_bytes
                ):
                    self._wait_for_brokers()
                self._queue_batches(piece)
                self._attend(self._now())

    def _queue_batches(self, rows: pa.RecordBatch) -> None:
        try:
            batches = self._encoder.encode(rows, int(time.time() * 1000), self._names)
        except ProduceError as error:
            raise self._fail(error) from None
        deadline = self._now() + self._settings.delivery_s
        for encoded in batches:
            queue = self._slots[encoded.slot]
            queue.batches.append(QueuedBatch(encoded, BatchProgress(encoded.records, deadline)))
            self._busy[queue.tp] = queue

    # --- turns ----------------------------------------------------------------------------------

    def _wait_for_brokers(self) -> None:
        began = time.monotonic()
        self._move_on(TURN_S)
        self._tally.waited_s += time.monotonic() - began

    def _move_on(self, timeout_s: float) -> None:
        """Take what brokers have sent, for which to wait, and do what is due then."""
        assert self._jobs is not None  # noqa: S101  see _enter
        poller = select.poll()
        poller.register(self._jobs, select.POLLIN)
        links = {}
        for link in self._links.values():
            if link.transport is not None:
                links[link.transport.fileno()] = link
                poller.register(link.transport, select.POLLIN | (0 if link.flushed else select.POLLOUT))
        for descriptor, _ in poller.poll(1000 * timeout_s):
            if descriptor in links:
                self._receive(links[descriptor])
            else:
                self._jobs.deliver()
        self._attend(self._now())

    def _attend(self, now: float) -> None:
        """Ask for leaders and a producer id, connect, and send: whatever is due."""
        missing = self._stale or any(link.failures for link in self._links.values())
        by_node: dict[int, list[PartitionQueue]] = {}
        for queue in self._busy.values():
            progress = queue.batches[0].progress
            if not queue.in_flight and progress.is_expired(now):
                raise self._fail(self._expired(queue, progress))
            if queue.in_flight or progress.not_before > now:
                continue
            topic = self._cluster.topics.get(queue.tp.topic)
            leader = topic.leaders.get(queue.tp.partition) if topic is not None else None
            if leader is None or leader.node not in self._cluster.nodes:
                missing = True
            else:
                by_node.setdefault(leader.node, []).append(queue)
        if self._codes and self._cluster.is_due(missing, now):
            assert self._jobs is not None  # noqa: S101  see _enter
            self._cluster.ask(self._jobs, list(self._codes), self._take_metadata)
        # Once there is a leader to write to: without a right to the topic, the topic is what has to be named.
        if by_node and self._settings.idempotent and self._producer == NO_PRODUCER_ID:
            self._ask_producer_id(now)
            by_node = by_node if self._producer != NO_PRODUCER_ID else {}
        for link in self._links.values():
            if link.is_late(now, self._settings.request_s):
                self._lose(
                    link, TransportError(f"no answer within {self._settings.request_s:g} s (kafka.request.timeout.ms)")
                )
            elif not link.in_flight:
                link.renew(time.monotonic())
        for node_id, queues in by_node.items():
            self._send(self._link(node_id), queues, now)

    def _expired(self, queue: PartitionQueue, progress: BatchProgress) -> ProduceError:
        topic = self._cluster.topics.get(queue.tp.topic)
        code = progress.error or (topic.error if topic is not None else 0)
        cause = "" if self._cause is None else str(self._cause)
        return expired_batch(queue.tp, code, progress.attempts, self._settings.delivery_s, cause)

    def _link(self, node_id: int) -> ProduceLink:
        """The link to a broker; a new one where its address has changed."""
        address: Node = self._cluster.nodes[node_id]
        link = self._links.get(node_id)
        if link is None or link.node != address:
            if link is not None:
                self._lose(link, TransportError("the broker has moved"))
            link = self._links[node_id] = ProduceLink(node_id, address, self._answer_bytes)
        return link

    def _send(self, link: ProduceLink, queues: list[PartitionQueue], now: float) -> None:
        """One batch of each partition, in requests of ``max.request.size``."""
        if link.transport is None:
            self._connect(link, now)
            return
        index = 0
        while index < len(queues) and len(link.in_flight) < self._settings.in_flight and now >= link.not_before:
            batches: dict[TopicPartition, memoryview] = {}
            size = 0
            while index < len(queues) and (
                not batches or size + len(queues[index].batches[0].encoded.data) <= self._settings.request_bytes
            ):
                queue = queues[index]
                if self._settings.idempotent and queue.sequence.producer == NO_PRODUCER_ID:
                    queue.sequence = PartitionSequence(self._producer)
                batches[queue.tp] = queue.seal_first(self._settings.codec)
                size, index, queue.in_flight = size + len(batches[queue.tp]), index + 1, True
            client_id = self._connection.client_id if self._connection is not None else ""
            try:
                link.send_batches(
                    batches, client_id=client_id, acks=self._settings.acks, timeout_s=self._settings.request_s, now=now
                )
            except TransportError as error:
                self._lose(link, error)
                return

    # --- connections ----------------------------------------------------------------------------

    def _connect(self, link: ProduceLink, now: float) -> None:
        if link.connecting or now < link.not_before:
            return
        assert self._jobs is not None  # noqa: S101  see _enter
        assert self._connection is not None  # noqa: S101
        settings = self._connection
        work = partial(connect_to, link.node, settings, settings.setup_timeout_s, PRODUCE_VERSIONS)
        self._jobs.start(work, partial(self._connected, link))
        link.connecting = True

    def _connected(self, link: ProduceLink, result: Transport | Exception) -> None:
        link.connecting = False
        if isinstance(result, Exception):
            self._lose(link, result)
        elif self._links.get(link.node_id) is not link:
            result.close()
        else:
            self._refusals, self._cause = 0, None
            link.connected(result, time.monotonic())

    def _lose(self, link: ProduceLink, error: Exception) -> None:
        """The broker can't be reached (any more); what was under way is sent again, as it was."""
        now = self._now()
        link.lose(error, now)
        self._note_trouble(error)
        for tp in link.take_in_flight():
            self._take_result(self._queues[tp], NETWORK, str(error), now)

    def _note_trouble(self, error: Exception) -> None:
        self._cause = error
        self._refusals = self._refusals + 1 if isinstance(error, ConnectionRefused) else 0
        if isinstance(error, UnsupportedBroker):
            raise self._fail(ProduceError(f"{error}: rows are written to Kafka 2.4 and newer"))
        if not isinstance(error, TransportError | MalformedResponse):
            raise error
        if self._refusals >= MOST_REFUSALS:
            raise self._fail(ProduceError(str(error), "SASL_AUTHENTICATION_FAILED"))

    def _receive(self, link: ProduceLink) -> None:
        now = self._now()
        try:
            while (answer := link.receive_answer(now)) is not None:
                partitions, results = answer
                for tp in partitions:
                    result = results.partitions.get(tp, ProducedPartition(NETWORK, -1, "no answer for the partition"))
                    self._take_result(self._queues[tp], result.error, result.words, now)
        except (TransportError, MalformedResponse) as error:
            if link.in_flight or isinstance(error, MalformedResponse):
                self._lose(link, error)
            else:
                link.disconnect()  # idle for long

    # --- answers --------------------------------------------------------------------------------

    def _take_result(self, queue: PartitionQueue, error: int, words: str, now: float) -> None:
        """Do with the partition's first batch as its progress says."""
        batch, queue.in_flight = queue.batches[0], False
        spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  no secret
        verdict = judge(batch.progress, error, now, self._limits, spread)
        batch.progress = verdict.batch
        self._stale = self._stale or verdict.refresh
        if verdict.step is BatchStep.DONE:
            self._acknowledge(queue, batch)
        elif verdict.step is BatchStep.SPLIT:
            self._split(queue, batch)
        elif verdict.step is BatchStep.FAIL and error in RETRIABLE:
            raise self._fail(self._expired(queue, verdict.batch))
        elif verdict.step is BatchStep.FAIL:
            raise self._fail(refused_batch(queue.tp, error, words, len(batch.encoded.data)))
        else:
            self._tally.retries[queue.tp.topic] += 1
            if verdict.step is BatchStep.NEXT_EPOCH:
                queue.sequence = queue.sequence.next_epoch()
                if queue.sequence.producer == NO_PRODUCER_ID:
                    self._producer = NO_PRODUCER_ID

    def _acknowledge(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        queue.batches.popleft()
        if not queue.batches:
            del self._busy[queue.tp]
        queue.sequence = queue.sequence.advance(batch.progress.records)
        self._tally.acknowledge(queue.tp.topic, batch.progress.records, len(batch.encoded.data))
        self._rooms.give_back(batch.encoded.room)

    def _split(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """As ``ProducerBatch.split``: the broker takes smaller batches than ``batch.size``."""
        rows = rows_of_batch(batch.encoded.data, queue.tp)
        parts: list[EncodedBatch] = self._encoder.split(rows, queue.slot, max(rows.nbytes, len(batch.encoded.data)))
        queue.batches.popleft()
        self._rooms.give_back(batch.encoded.room)
        queue.batches.extendleft(
            QueuedBatch(part, BatchProgress(part.records, batch.progress.deadline)) for part in reversed(parts)
        )

    # --- what the cluster says --------------------------------------------------------------------

    def _take_metadata(self, result: Metadata | Exception) -> None:
        now = self._now()
        self._cluster.take_answer(result, now)
        if isinstance(result, Exception):
            self._note_trouble(result)
            return
        self._stale = False
        for name, code in self._codes.items():
            topic = result.topics.get(name)
            if topic is None or topic.error or not topic.leaders:
                self._stale = True
            else:
                self._take_partitions(name, code, len(topic.leaders))

    def _take_partitions(self, name: str, code: int, count: int) -> None:
        """Give a topic's partitions their slots; those of a topic that has grown get new ones."""
        numbers, start = self._encoder.topics, 4 * code
        if numbers[start + 1] >= count:
            return
        numbers[start : start + 2] = type(numbers)("q", (len(self._slots), count))
        numbers[start + 2] = random.randrange(count)  # noqa: S311  no secret
        for partition in range(count):
            tp = TopicPartition(name, partition)
            queue = self._queues.setdefault(tp, PartitionQueue(tp, 0))
            queue.slot = len(self._slots)
            self._slots.append(queue)

    def _ask_producer_id(self, now: float) -> None:
        """Ask any broker; partitions get the id with their next batch."""
        if self._id_request is None and now >= self._id_not_before:
            self._id_request = self._client.ask(ProducerIdQuestion(), None, ANSWER_S)
            if self._jobs is not None:
                jobs = self._jobs
                self._id_request.add_done_callback(lambda _: jobs.wake())
        if self._id_request is None or not self._id_request.done():
            return
        request, self._id_request = self._id_request, None
        error = request.exception()
        code, producer = (NETWORK, NO_PRODUCER_ID) if error is not None else request.result()
        if not code:
            self._producer, self._id_failures = producer, 0
        elif code == CLUSTER_DENIED or code not in RETRIABLE:
            raise self._fail(refused_id(code))
        else:
            self._id_failures += 1
            self._id_not_before = now + backoff(self._id_failures, error if isinstance(error, Exception) else None)
            self._note_trouble(
                error if isinstance(error, Exception) else TransportError(f"no producer id: {error_name(code)}")
            )
