"""What a fetching client has received, decoded in C piece by piece: nothing is unpacked before somebody wants its records."""

from __future__ import annotations

from enum import Enum
from functools import partial

from sparkcohort.native import _native
from sparkcohort.runtime.kafka.fetch_messages import FetchedPartition
from sparkcohort.runtime.shell.kafka.consumer import arrow_rows
from sparkcohort.runtime.shell.kafka.consumer.native_source import event_of, taken_rows
from sparkcohort.runtime.shell.kafka.consumer.record_source import (
    Event,
    Largest,
    MalformedRecordError,
    PartitionError,
    Records,
)
from sparkcohort.runtime.shell.kafka.fetch.assigned_partition import Partition
from sparkcohort.runtime.shell.kafka.fetch.compression import unpack
from sparkcohort.runtime.values.columns import Columns, fields_of

ROW_BYTES = 40  # more than that of a record is asked for: the next batch may not pack as well
WINDOW = 1 << 20  # most batches are there with the first piece; one that is damaged has no record then


class Later(Enum):
    """Not an event: much was unpacked, and no record was in it yet that is wanted."""

    LATER = 0


class PartDecoder:
    """Parts of Fetch responses as events; for one thread."""

    def __init__(self, largest: Largest, *, columns: Columns) -> None:
        """Nothing is decoded yet."""
        self._largest = largest
        take = partial(taken_rows, arrow_rows.schema(columns))
        self._decoder = _native.Decoder(fields_of(columns), take, unpack, largest.nbytes, WINDOW)

    def part(self, frame: memoryview, of: Partition, found: FetchedPartition, *, committed: bool) -> _native.Part:
        """A partition's share of an answer, which has to stay as it is until the last event."""
        return self._decoder.part(
            frame, found.start, found.end, of.tp.topic, of.tp.partition, of.position, of.end,
            found.high_watermark, found.aborted if committed else None,
        )  # fmt: skip

    def take(self, of: Partition, part: _native.Part, records: int, nbytes: int) -> Event | Later | None:
        """The next run of records, None after the last; a fault ends the partition.

        Raises MemoryError that says where, and whatever Python makes of a batch: the part is no more what it was.
        """
        try:
            found = part.take(records, nbytes)
        except MemoryError as error:
            raise MemoryError(
                f"no memory for the records of topic {of.tp.topic} partition {of.tp.partition} from offset {of.taken} on, "
                f"of {of.record_bytes} bytes each lately"
            ) from error
        if found is None:
            return None
        if found[0] == _native.UNPACKING:
            return Later.LATER
        if found[0] == _native.TOO_LARGE:
            return PartitionError(of.tp, self._too_large(of, *found[3:5]), of.taken)
        event = event_of(found)
        if isinstance(event, Records):
            of.taken = event.next_offset
            if event.batch is not None:
                records, nbytes = part.begun()  # what crossed the network, whatever becomes columns
                of.record_bytes = nbytes // records + ROW_BYTES
        return event

    def _too_large(self, of: Partition, offset: int, nbytes: int) -> MalformedRecordError:
        most, remedy = self._largest
        return MalformedRecordError(
            f"a record of topic {of.tp.topic} partition {of.tp.partition} offset {offset} takes {nbytes} bytes, unpacked, "
            f"and at most {most} are read: {remedy}",
            "RECORD_TOO_LARGE",
        )
