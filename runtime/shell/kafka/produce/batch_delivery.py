"""Queued batches on their way to leaders: who leads what, one connection to each broker, one batch of each partition under way.

It has no thread: the caller's moves it on.  Time in which the caller does something else counts for no limit, so that a task that
computes for minutes between two writes loses nothing by it.
"""

from __future__ import annotations

import random
import select
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Final

from sparkcohort.runtime.kafka.decision import SinkTransaction, WrittenRange
from sparkcohort.runtime.kafka.fetch_messages import MalformedResponse, Metadata
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
    refused_transaction,
    topic_error,
)
from sparkcohort.runtime.shell.kafka.produce.partition_queue import TRANSACTIONAL, PartitionQueue, QueuedBatch
from sparkcohort.runtime.shell.kafka.produce.produce_link import ProduceLink
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError, ProduceReport
from sparkcohort.runtime.shell.kafka.produce.row_encoding import EncodedBatch, RowEncoder
from sparkcohort.runtime.shell.kafka.produce.transaction_client import TransactionClient
from sparkcohort.runtime.shell.options.connection_settings import (
    ConnectionRefused,
    Settings,
    TransportError,
    UnsupportedBroker,
)
from sparkcohort.runtime.shell.options.kafka_settings import value_of
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings

TURN_S: Final = 0.05
ANSWER_S: Final = 5.0
MOST_REFUSALS: Final = 3  # in a row: another password may not have reached all brokers yet


class BatchDelivery:
    """Brings the batches of each partition's queue to its leader, in their order, until each is acknowledged or one fails for good.

    ``busy`` has just the queues with batches.  Of a queue at most the first batch is under way, in one request of one link, and
    its sequence counts on when it is acknowledged.  A link is connected to the address that its broker has in the metadata.
    After the first failure nothing is connected, and each call raises it.
    """

    def __init__(
        self, settings: ProducerSettings, encoder: RowEncoder, take_partitions: Callable[[str, int], None]
    ) -> None:
        """Nothing is connected yet; ``take_partitions`` gets the number of each topic's partitions with each answer about it."""
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.busy: dict[TopicPartition, PartitionQueue] = {}
        self._settings, self._encoder, self._take_partitions = settings, encoder, take_partitions
        self._limits = RetryLimits(settings.retries, settings.backoff_s, settings.most_backoff_s)
        self._client = ClusterClient(settings.connection)
        self._cluster = Cluster(self._client, settings.metadata_age_s)
        self._topics: list[str] = []
        self._jobs = BackgroundWork()
        self._config = settings_of(settings.connection)
        self._connection: Settings | None = None  # made of it in the first call, which may raise
        self._links: dict[int, ProduceLink] = {}
        self._stale = False  # what is known of leaders
        self._producer = NO_PRODUCER_ID
        self._transactions: TransactionClient | None = None
        self._transaction: SinkTransaction | None = None
        self._attributes = settings.codec
        self._id_request: Future[tuple[int, ProducerId]] | None = None
        self._id_not_before, self._id_failures = 0.0, 0
        self._report = ProduceReport()
        self._failure: ProduceError | None = None
        self._cause: Exception | None = None  # the last trouble on the way to a broker
        self._refusals = 0
        self._idle_s, self._left_at = 0.0, time.monotonic()

    # --- the caller's ---------------------------------------------------------------------------

    @contextmanager
    def running_clock(self) -> Iterator[None]:
        """A call of the user's, whose time alone counts for limits.  Raises ProduceError."""
        if self._failure is not None:
            raise self._failure
        self._idle_s += time.monotonic() - self._left_at
        try:
            self._connection = self._connection or Settings.parse(self._config)
        except TransportError as error:
            raise self.fail(ProduceError(str(error))) from None
        try:
            yield
        finally:
            self._left_at = time.monotonic()

    def now(self) -> float:
        """The clock of limits, which stands still between calls."""
        return time.monotonic() - self._idle_s

    def add_topics(self, names: list[str]) -> None:
        """Ask for the partitions of these, too."""
        self._topics += names
        self._stale = True

    def check_topic(self, name: str, deadline: float) -> None:
        """Raise ProduceError for a topic that can't be written to, or whose partitions are still unknown after ``max.block.ms``."""
        topic = self._cluster.topics.get(name)
        code = topic.error if topic is not None else 0
        if code in (TOPIC_DENIED, INVALID_TOPIC) or self.now() >= deadline:
            raise self.fail(topic_error(name, code, self._settings.block_s, self._cause))

    def begin(self, name: str, timeout_ms: int, new_name: Callable[[], str] | None = None) -> SinkTransaction:
        """Begin a transaction of this id: all batches from now on are part of it, until the next begins.  Nothing waits to be sent."""
        self._attributes = self._settings.codec | TRANSACTIONAL
        self._transactions = self._transactions or TransactionClient(self._client, self._settings.block_s)
        try:
            self._transaction = self._transactions.begin(name, timeout_ms, new_name)
        except ProduceError as error:
            raise self.fail(error) from None
        self._producer = self._transaction.producer
        for queue in self.queues.values():
            queue.begin()
        return self._transaction

    def is_open(self, transaction: SinkTransaction) -> bool:
        """Whether it is neither ended nor followed by another one of its id."""
        assert self._transactions is not None  # noqa: S101  see begin
        try:
            return self._transactions.is_open(transaction)
        except ProduceError as error:
            raise self.fail(error) from None

    def written_ranges(self) -> tuple[WrittenRange, ...]:
        """What the transaction has had acknowledged."""
        return tuple(
            WrittenRange(*queue.tp, *(queue.offsets or (-1, -1)), queue.sequence.next)
            for queue in self.queues.values()
            if queue.sequence.next
        )

    def add_batch(self, queue: PartitionQueue, encoded: EncodedBatch) -> None:
        """Have a batch sent behind those of its partition, within ``delivery.timeout.ms``."""
        progress = BatchProgress(encoded.records, self.now() + self._settings.delivery_s)
        queue.batches.append(QueuedBatch(encoded, progress))
        self.busy[queue.tp] = queue

    def take_report(self) -> ProduceReport:
        """What was acknowledged since the last report."""
        report, self._report = self._report, ProduceReport()
        return report

    def fail(self, error: ProduceError) -> ProduceError:
        """End for good; the error to raise, which is the first one."""
        self._failure = self._failure or error
        self.close()
        return self._failure

    def close(self) -> None:
        """See ``Producer``."""
        self._failure = self._failure or ProduceError("the producer is closed")
        for link in self._links.values():
            link.disconnect()
        self._links = {}
        self._client.close()
        self._jobs.close()

    # --- turns ----------------------------------------------------------------------------------

    def wait_for_brokers(self) -> None:
        """Move on, and wait a little for what brokers send."""
        began = time.monotonic()
        self.move_on(TURN_S)
        self._report.waited_s += time.monotonic() - began

    def move_on(self, timeout_s: float) -> None:
        """Take what brokers have sent, for which to wait, and do what is due then."""
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
        self.attend()

    def attend(self) -> None:
        """Ask for leaders and a producer id, connect, and send: whatever is due."""
        now = self.now()
        missing = self._stale or any(link.failures for link in self._links.values())
        by_node: dict[int, list[PartitionQueue]] = {}
        for queue in self.busy.values():
            progress = queue.batches[0].progress
            if not queue.in_flight and progress.is_expired(now):
                raise self.fail(self._expired(queue, progress))
            if queue.in_flight or progress.not_before > now:
                continue
            topic = self._cluster.topics.get(queue.tp.topic)
            leader = topic.leaders.get(queue.tp.partition) if topic is not None else None
            if leader is None or leader.node not in self._cluster.nodes:
                missing = True
            else:
                by_node.setdefault(leader.node, []).append(queue)
        if self._topics and self._cluster.is_due(missing, now):
            self._cluster.ask(self._jobs, list(self._topics), self._take_metadata)
        # Once there is a leader to write to: without a right to the topic, the topic is what has to be named.
        if by_node and self._settings.idempotent and self._producer == NO_PRODUCER_ID:
            self._ask_producer_id(now)
            by_node = by_node if self._producer != NO_PRODUCER_ID else {}
        for link in self._links.values():
            if link.is_late(now, self._settings.request_s):
                words = f"no answer within {self._settings.request_s:g} s (kafka.request.timeout.ms)"
                self._lose(link, TransportError(words))
            elif not link.in_flight:
                link.renew(time.monotonic())
        if self._transaction is not None:
            self._add_partitions(self._transaction, chain.from_iterable(by_node.values()))
        for node_id, queues in by_node.items():
            self._send(self._link(node_id), queues, now)

    def _add_partitions(self, transaction: SinkTransaction, queues: Iterable[PartitionQueue]) -> None:
        """Before the first batch for each: the leader asks the coordinator whether they are part of it (KIP-890)."""
        new = [queue for queue in queues if not queue.is_in_transaction]
        if not new:
            return
        assert self._transactions is not None  # noqa: S101  see begin
        try:
            self._transactions.add(transaction, [queue.tp for queue in new])
        except ProduceError as error:
            raise self.fail(error) from None
        for queue in new:
            queue.is_in_transaction = True

    def _expired(self, queue: PartitionQueue, progress: BatchProgress) -> ProduceError:
        topic = self._cluster.topics.get(queue.tp.topic)
        code = progress.error or (topic.error if topic is not None else 0)
        return expired_batch(queue.tp, code, progress.attempts, self._settings.delivery_s, str(self._cause or ""))

    def _link(self, node_id: int) -> ProduceLink:
        """The link to a broker; a new one where its address has changed."""
        address, link = self._cluster.nodes[node_id], self._links.get(node_id)
        if link is None or link.node != address:
            if link is not None:
                self._lose(link, TransportError("the broker has moved"))
            largest = int(value_of(self._config, "receive.message.max.bytes"))
            link = self._links[node_id] = ProduceLink(node_id, address, largest)
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
                batches[queue.tp] = queue.seal_first(self._attributes)
                size, index, queue.in_flight = size + len(batches[queue.tp]), index + 1, True
            client_id = self._connection.client_id if self._connection is not None else ""
            try:
                name = self._transaction.name if self._transaction is not None else ""
                link.send_batches(batches, client_id, self._settings, now, name)
            except TransportError as error:
                self._lose(link, error)
                return

    # --- connections ----------------------------------------------------------------------------

    def _connect(self, link: ProduceLink, now: float) -> None:
        if link.connecting or now < link.not_before:
            return
        assert self._connection is not None  # noqa: S101  see running_clock
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
        now = self.now()
        link.lose(error, now)
        self._note_trouble(error)
        for tp in link.take_in_flight():
            self._take_result(self.queues[tp], ProducedPartition(NETWORK, -1, str(error)), now)

    def _note_trouble(self, error: Exception) -> None:
        self._cause = error
        self._refusals = self._refusals + 1 if isinstance(error, ConnectionRefused) else 0
        if isinstance(error, UnsupportedBroker):
            raise self.fail(ProduceError(f"{error}: rows are written to Kafka 2.4 and newer"))
        if not isinstance(error, TransportError | MalformedResponse):
            raise error
        if self._refusals >= MOST_REFUSALS:
            raise self.fail(ProduceError(str(error), "SASL_AUTHENTICATION_FAILED"))

    def _receive(self, link: ProduceLink) -> None:
        now = self.now()
        try:
            while (answer := link.receive_answer(now)) is not None:
                partitions, results = answer
                for tp in partitions:
                    result = results.partitions.get(tp, ProducedPartition(NETWORK, -1, "no answer for the partition"))
                    self._take_result(self.queues[tp], result, now)
        except (TransportError, MalformedResponse) as error:
            if link.in_flight or isinstance(error, MalformedResponse):
                self._lose(link, error)
            else:
                link.disconnect()  # idle for long

    # --- answers --------------------------------------------------------------------------------

    def _take_result(self, queue: PartitionQueue, result: ProducedPartition, now: float) -> None:
        """Do with the partition's first batch as its progress says."""
        error, base_offset, words = result
        batch, queue.in_flight = queue.batches[0], False
        spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  no secret
        verdict = judge(batch.progress, error, now, self._limits, spread)
        batch.progress = verdict.batch
        self._stale = self._stale or verdict.refresh
        if verdict.step is BatchStep.DONE:
            self._acknowledge(queue, batch, base_offset)
        elif verdict.step is BatchStep.SPLIT:
            self._split(queue, batch)
        elif verdict.step is BatchStep.FAIL:
            refusal = refused_batch(queue.tp, error, words, len(batch.encoded.data))
            raise self.fail(self._expired(queue, verdict.batch) if error in RETRIABLE else refusal)
        elif verdict.step is BatchStep.NEXT_EPOCH and self._transaction is not None:
            raise self.fail(refused_transaction(self._transaction.name, error))  # its epoch is over for good
        else:
            self._report.add(ProduceReport(retries={queue.tp.topic: 1}))
            if verdict.step is BatchStep.NEXT_EPOCH:
                queue.sequence = queue.sequence.next_epoch()
                if queue.sequence.producer == NO_PRODUCER_ID:
                    self._producer = NO_PRODUCER_ID

    def _acknowledge(self, queue: PartitionQueue, batch: QueuedBatch, base_offset: int) -> None:
        queue.batches.popleft()
        queue.add_offsets(base_offset, batch.progress.records)
        if not queue.batches:
            del self.busy[queue.tp]
        queue.sequence = queue.sequence.advance(batch.progress.records)
        self._report.acknowledge(queue.tp.topic, batch.progress.records, len(batch.encoded.data))
        self._encoder.rooms.give_back(batch.encoded.room)

    def _split(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """As ``ProducerBatch.split``: the broker takes smaller batches than ``batch.size``."""
        rows = rows_of_batch(batch.encoded.data, queue.tp)
        parts = self._encoder.split(rows, queue.slot, max(rows.nbytes, len(batch.encoded.data)))
        queue.batches.popleft()
        self._encoder.rooms.give_back(batch.encoded.room)
        queue.batches.extendleft(
            QueuedBatch(part, BatchProgress(part.records, batch.progress.deadline)) for part in reversed(parts)
        )

    # --- what the cluster says --------------------------------------------------------------------

    def _take_metadata(self, result: Metadata | Exception) -> None:
        now = self.now()
        self._cluster.take_answer(result, now)
        if isinstance(result, Exception):
            self._note_trouble(result)
            return
        self._stale = False
        for name in self._topics:
            topic = result.topics.get(name)
            if topic is None or topic.error or not topic.leaders:
                self._stale = True
            else:
                self._take_partitions(name, len(topic.leaders))

    def _ask_producer_id(self, now: float) -> None:
        """Ask any broker; partitions get the id with their next batch."""
        if self._id_request is None and now >= self._id_not_before:
            self._id_request = self._client.ask(ProducerIdQuestion(), None, ANSWER_S)
            self._id_request.add_done_callback(lambda _: self._jobs.wake())
        if self._id_request is None or not self._id_request.done():
            return
        request, self._id_request = self._id_request, None
        error = request.exception()
        code, producer = (NETWORK, NO_PRODUCER_ID) if error is not None else request.result()
        if not code:
            self._producer, self._id_failures = producer, 0
        elif code == CLUSTER_DENIED or code not in RETRIABLE:
            raise self.fail(refused_id(code))
        else:
            failure = error if isinstance(error, Exception) else TransportError(f"no producer id: {error_name(code)}")
            self._id_failures += 1
            self._id_not_before = now + backoff(self._id_failures, failure)
            self._note_trouble(failure)
