"""Our own client as a producer: rows are gathered, encoded within the bound of memory, and handed to ``batch_delivery``."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sparkcohort.runtime.kafka.decision import SinkTransaction, WrittenRange
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.produce.batch_delivery import BatchDelivery
from sparkcohort.runtime.shell.kafka.produce.partition_queue import PartitionQueue
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError, ProduceReport
from sparkcohort.runtime.shell.kafka.produce.row_encoding import CODED, TOPIC, RoomPool, RowEncoder
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings

LARGEST_PIECE, LEAST_PIECE = 4 << 20, 64 << 10  # bytes of rows that are encoded at once


class WireSender:
    """Turns rows into queued batches; see ``Producer``.

    A topic has one code for good, its place in the encoder's table.  Its partitions have consecutive slots, and a slot has one queue;
    a topic that grows gets new slots.  Encoded batches take ``buffer.memory`` at most, unless a single piece is larger, and rows
    keep their order from ``write`` to the queue of their partition.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        """Nothing is connected yet."""
        self._settings = settings
        self._rooms = RoomPool(max(min(LARGEST_PIECE, settings.buffer_bytes // 4), LEAST_PIECE))
        self._encoder = RowEncoder(settings, self._rooms)
        self._delivery = BatchDelivery(settings, self._encoder, self._take_partitions)
        self._codes: dict[str, int] = {}
        self._slots: list[PartitionQueue] = []
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes, self._gathered_at = 0, 0.0

    def begin(self, name: str, timeout_ms: int, new_name: Callable[[], str] | None = None) -> SinkTransaction:
        """See ``Producer``."""
        with self._delivery.running_clock():
            return self._delivery.begin(name, timeout_ms, new_name)

    def is_open(self, transaction: SinkTransaction) -> bool:
        """See ``Producer``."""
        with self._delivery.running_clock():
            return self._delivery.is_open(transaction)

    def written_ranges(self) -> tuple[WrittenRange, ...]:
        """See ``Producer``."""
        return self._delivery.written_ranges()

    def write(self, rows: pa.RecordBatch) -> None:
        """See ``Producer``."""
        with self._delivery.running_clock():
            if rows.num_rows:
                self._gather(self._coded(rows))
            self._delivery.move_on(0.0)

    def flush(self) -> ProduceReport:
        """See ``Producer``."""
        with self._delivery.running_clock():
            self._encode_gathered()
            self._delivery.attend()
            while self._delivery.busy:
                self._delivery.wait_for_brokers()
        return self._delivery.take_report()

    def close(self) -> None:
        """See ``Producer``."""
        self._delivery.close()

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
            self._encoder.topics.extend((0, 0, 0, 0))
        if new_names:
            self._delivery.add_topics(new_names)
        deadline = self._delivery.now() + self._settings.block_s
        while missing := [name for name in new_names if not self._encoder.topics[4 * self._codes[name] + 1]]:
            self._delivery.check_topic(missing[0], deadline)
            self._delivery.wait_for_brokers()

    def _take_partitions(self, name: str, count: int) -> None:
        """Give a topic's partitions their slots; those of a topic that has grown get new ones."""
        numbers, start = self._encoder.topics, 4 * self._codes[name]
        if numbers[start + 1] >= count:
            return
        numbers[start : start + 2] = type(numbers)("q", (len(self._slots), count))
        numbers[start + 2] = random.randrange(count)  # noqa: S311  no secret
        for partition in range(count):
            tp = TopicPartition(name, partition)
            queue = self._delivery.queues.setdefault(tp, PartitionQueue(tp, 0))
            queue.slot = len(self._slots)
            self._slots.append(queue)

    def _gather(self, rows: pa.RecordBatch) -> None:
        """Keep rows until they are worth a request, or have waited for ``linger.ms``."""
        now = self._delivery.now()
        if not self._gathered:
            self._gathered_at = now
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes
        if self._gathered_bytes >= self._piece_bytes() or now - self._gathered_at >= self._settings.linger_s:
            self._encode_gathered()

    def _piece_bytes(self) -> int:
        """Rows for a batch of each partition."""
        partitions = len(self._delivery.queues)
        return max(min(partitions * self._settings.batch_bytes, self._rooms.usual * 3 // 4), LEAST_PIECE // 2)

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
                size = max(piece.nbytes, self._rooms.usual)
                while self._rooms.nbytes and self._rooms.nbytes + size > self._settings.buffer_bytes:
                    self._delivery.wait_for_brokers()
                self._queue_batches(piece)
                self._delivery.attend()

    def _queue_batches(self, rows: pa.RecordBatch) -> None:
        try:
            batches = self._encoder.encode(rows, int(time.time() * 1000), dict(enumerate(self._codes)))
        except ProduceError as error:
            raise self._delivery.fail(error) from None
        for batch in batches:
            self._delivery.add_batch(self._slots[batch.slot], batch)
