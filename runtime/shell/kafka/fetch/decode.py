"""What a fetching client has received, decoded in C piece by piece: nothing is unpacked before its records are asked for."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError

from sparkcohort.native import _native
from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.kafka.fetch_messages import FetchedPartition
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.kafka.fetch.assigned_partition import Partition
from sparkcohort.runtime.shell.kafka.fetch.compression import unpack
from sparkcohort.runtime.shell.kafka.fetch.events import (
    Event,
    Largest,
    MalformedRecordError,
    PartitionError,
    Records,
    header_error,
    timestamp_error,
)
from sparkcohort.runtime.values.columns import Columns, fields_of

ROW_BYTES = 40  # more than that of a record is asked for: the next batch may not pack as well
WINDOW = 1 << 20  # most batches are there with the first piece; one that is damaged has no record then


class NotYet(Enum):
    """Not an event: much was unpacked without a record in the range yet, and other partitions have a turn."""

    NOT_YET = 0


class PartDecoder:
    """Parts of Fetch responses as events; for one thread."""

    def __init__(self, largest: Largest, *, columns: Columns) -> None:
        """Nothing is decoded yet."""
        self._largest = largest
        take = partial(import_rows, arrow_rows.schema(columns))
        self._decoder = _native.Decoder(fields_of(columns), take, unpack, largest.nbytes, WINDOW)

    def part(
        self, frame: memoryview, partition: Partition, fetched: FetchedPartition, *, committed: bool
    ) -> _native.Part:
        """A partition's share of an answer, which has to stay as it is until the last event."""
        return self._decoder.part(
            frame, fetched.start, fetched.end, partition.tp.topic, partition.tp.partition, partition.position, partition.end,
            fetched.high_watermark, fetched.aborted if committed else None,
        )  # fmt: skip

    def take(self, partition: Partition, part: _native.Part, records: int, nbytes: int) -> Event | NotYet | None:
        """The next run of records, None after the last; a fault ends the partition.

        Raises MemoryError that says where, and any error of Python's while a batch is made: the part is then of no use.
        """
        try:
            native_event = part.take(records, nbytes)
        except MemoryError as error:
            raise MemoryError(
                f"no memory for the records of topic {partition.tp.topic} partition {partition.tp.partition} from offset {partition.next_offset} on, "
                f"of {partition.record_bytes} bytes each lately"
            ) from error
        if native_event is None:
            return None
        if native_event[0] == _native.UNPACKING:
            return NotYet.NOT_YET
        if native_event[0] == _native.TOO_LARGE:
            return PartitionError(partition.tp, self._too_large(partition, *native_event[3:5]), partition.next_offset)
        event = _event(partition, native_event)
        if isinstance(event, Records):
            partition.next_offset = event.next_offset
            if event.batch is not None:
                records, nbytes = part.begun()  # what crossed the network, whatever becomes columns
                partition.record_bytes = nbytes // records + ROW_BYTES
        return event

    def _too_large(self, partition: Partition, offset: int, nbytes: int) -> MalformedRecordError:
        most, remedy = self._largest
        return MalformedRecordError(
            f"a record of topic {partition.tp.topic} partition {partition.tp.partition} offset {offset} takes {nbytes} bytes, unpacked, "
            f"and at most {most} are read: {remedy}",
            "RECORD_TOO_LARGE",
        )


def _event(partition: Partition, native_event: tuple[int, str, int, int, int, Any]) -> Records | PartitionError:
    """What the native code tells of a partition, see ``_native.pyi``."""
    kind, _, _, offset, number, content = native_event
    if kind == _native.RECORDS:
        batch, runs = content or (None, None)
        return Records(partition.tp, offset, batch, number, runs)
    if kind == _native.BAD_TIMESTAMP:
        return PartitionError(partition.tp, timestamp_error(partition.tp, offset, number))
    if kind == _native.BAD_HEADER:
        return PartitionError(partition.tp, header_error(partition.tp, offset))
    return PartitionError(partition.tp, KafkaError(number, content), offset)


def import_rows(schema: pa.Schema, address: int, runs: bytes) -> tuple[pa.RecordBatch, OffsetRuns]:
    """Take over the ArrowArray at this address, and where its rows stand."""
    return pa.RecordBatch._import_from_c(address, schema), OffsetRuns(runs)
