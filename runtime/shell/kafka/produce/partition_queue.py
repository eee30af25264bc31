"""What waits for one partition: encoded batches in their order, of which the first may be under way."""

from __future__ import annotations

from collections import deque

from sparkcohort.native import _native
from sparkcohort.runtime.kafka.produce_progress import BatchProgress, PartitionSequence
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.produce.row_encoding import EncodedBatch


class QueuedBatch:
    """An encoded batch and how it gets on."""

    __slots__ = ("encoded", "progress", "sealed_for")

    def __init__(self, encoded: EncodedBatch, progress: BatchProgress) -> None:
        """Not sent yet."""
        self.encoded, self.progress = encoded, progress
        self.sealed_for: PartitionSequence | None = None


class PartitionQueue:
    """See the module; ``in_flight`` says that the first batch is under way."""

    def __init__(self, tp: TopicPartition, slot: int) -> None:
        """Nothing waits."""
        self.tp, self.slot = tp, slot
        self.batches: deque[QueuedBatch] = deque()
        self.sequence = PartitionSequence()
        self.in_flight = False

    def seal_first(self, attributes: int) -> memoryview:
        """The first batch with the partition's sequence and its checksum; one that is sent again as before stays as it is."""
        first = self.batches[0]
        if first.sealed_for != self.sequence:
            (producer_id, epoch), number = self.sequence
            base = number if producer_id >= 0 else -1
            _native.seal(first.encoded.data, attributes, producer_id, epoch, base)
            first.sealed_for = self.sequence
        return first.encoded.data
