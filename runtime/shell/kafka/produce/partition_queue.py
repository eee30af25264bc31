"""What waits for one partition: encoded batches in their order, of which the first may be under way."""

from __future__ import annotations

from collections import deque
from typing import Final

from sparkcohort.native import _native
from sparkcohort.runtime.kafka.produce_progress import BatchProgress, PartitionSequence
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.produce.row_encoding import EncodedBatch

TRANSACTIONAL: Final = 0x10
"""The attribute of a batch that is part of a transaction (``DefaultRecordBatch.TRANSACTIONAL_FLAG_MASK``)."""


class QueuedBatch:
    """An encoded batch and how it gets on."""

    __slots__ = ("encoded", "progress", "sealed_for")

    def __init__(self, encoded: EncodedBatch, progress: BatchProgress) -> None:
        """Not sent yet."""
        self.encoded, self.progress = encoded, progress
        self.sealed_for: PartitionSequence | None = None


class PartitionQueue:
    """See the module; ``in_flight`` says that the first batch is under way.

    ``offsets`` are the first and last that the transaction, or the producer, has written, as far as brokers have said so.
    """

    def __init__(self, tp: TopicPartition, slot: int) -> None:
        """Nothing waits."""
        self.tp, self.slot = tp, slot
        self.batches: deque[QueuedBatch] = deque()
        self.sequence = PartitionSequence()
        self.in_flight = self.is_in_transaction = False
        self.offsets: tuple[int, int] | None = None

    def begin(self) -> None:
        """A transaction begins: a new epoch, and sequence 0."""
        self.sequence, self.offsets, self.is_in_transaction = PartitionSequence(), None, False

    def add_offsets(self, first: int, records: int) -> None:
        """A batch was acknowledged; ``first`` is -1 where the broker had it before."""
        if first >= 0:
            start, end = self.offsets or (first, first)
            self.offsets = min(start, first), max(end, first + records - 1)

    def seal_first(self, attributes: int) -> memoryview:
        """The first batch with the partition's sequence and its checksum; one that is sent again as before stays as it is."""
        first = self.batches[0]
        if first.sealed_for != self.sequence:
            (producer_id, epoch), number = self.sequence
            base = number if producer_id >= 0 else -1
            _native.seal(first.encoded.data, attributes, producer_id, epoch, base)
            first.sealed_for = self.sequence
        return first.encoded.data
