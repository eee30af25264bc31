"""The rows of a batch that was encoded, to be encoded again in smaller ones."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa

from sparkcohort.native import _native
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.arrow_rows import HEADERS_LIST, TIMESTAMP
from sparkcohort.runtime.shell.kafka.fetch.compression import unpack
from sparkcohort.runtime.shell.kafka.fetch.decode import import_rows
from sparkcohort.runtime.shell.kafka.produce.row_encoding import CODED, as_producer_rows
from sparkcohort.runtime.values.columns import Field

_FIELDS: Final = {
    Field.KEY: pa.field("key", pa.binary()),
    Field.VALUE: pa.field("value", pa.binary()),
    Field.TIMESTAMP: pa.field("timestamp", TIMESTAMP),
    Field.HEADERS: pa.field("headers", HEADERS_LIST),
}
_LARGEST: Final = 2**31 - 1
_END: Final = 2**63 - 1


def rows_of_batch(data: memoryview, tp: TopicPartition) -> pa.RecordBatch:
    """Rows of ``CODED``, of the first topic in the table."""
    take = partial(import_rows, pa.schema(list(_FIELDS.values())))
    decoder = _native.Decoder(bytes(_FIELDS), take, unpack, _LARGEST, 1 << 20)
    part = decoder.part(data, 0, len(data), tp.topic, tp.partition, 0, _END, -1, None)
    batches: list[pa.RecordBatch] = []
    while (event := part.take(_LARGEST, _LARGEST)) is not None:
        if event[0] == _native.RECORDS and event[5] is not None:
            batches.append(event[5][0])
        elif event[0] != _native.UNPACKING:
            raise RuntimeError(f"a batch of {tp} can't be read again: event {event[0]}")  # it was encoded here
    (rows,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    columns = as_producer_rows(rows)
    codes = pa.array(bytes(rows.num_rows), pa.int32())
    return pa.RecordBatch.from_arrays(
        [codes if field.name == "topic" else columns.column(field.name) for field in CODED], schema=CODED
    )
