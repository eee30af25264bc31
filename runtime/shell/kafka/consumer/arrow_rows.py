"""The row of Spark's Kafka source as Arrow, exactly as PySpark checks it (``KafkaRecordToRowConverter``).

PySpark compares the schema of the first batch with the declared one: names, types and nullability.  All columns are
nullable there, so they are here, although topic, partition, offset and the two timestamp columns never hold a null.
"""

from __future__ import annotations

import pyarrow as pa

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))
TIMESTAMP = pa.timestamp("us", tz="UTC")

_COLUMNS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP),
    pa.field("timestampType", pa.int32()),
)
_WITHOUT_HEADERS = pa.schema(_COLUMNS)
_WITH_HEADERS = pa.schema((*_COLUMNS, pa.field("headers", HEADERS)))

OFFSET = 4  # the index of the offset column


def schema(include_headers: bool) -> pa.Schema:
    """Return the schema of every batch of this source; ``headers`` is null where a record has none."""
    return _WITH_HEADERS if include_headers else _WITHOUT_HEADERS
