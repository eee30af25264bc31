"""The columns of a query as Arrow, exactly as PySpark checks them (``KafkaRecordToRowConverter``).

PySpark compares the schema of the first batch with the declared one: names, types and nullability, not metadata.  Spark's
own Kafka row is all nullable, although topic, partition, offset and the two timestamp columns never hold a null.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from sparkcohort.runtime.values.columns import BINARY, HEADERS, STRING, Columns

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_LIST = pa.list_(pa.field("element", HEADER))
TIMESTAMP = pa.timestamp("us", tz="UTC")

_TYPES = {
    BINARY: pa.binary(),
    STRING: pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": TIMESTAMP,
    HEADERS: HEADERS_LIST,
}


@cache
def schema(columns: Columns) -> pa.Schema:
    """Return the schema of every batch of these columns; ``headers`` is null where a record has none."""
    return pa.schema([pa.field(each.name, _TYPES[each.type], each.nullable) for each in columns])
