"""Spark's rows as records: one Arrow batch of a task becomes the columns of a producer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sparkcohort.runtime.errors import CohortError

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("timestamp", pa.int64()),
    ]
)
"""The columns that a producer takes; timestamps are milliseconds."""


def records(batch: pa.RecordBatch, columns: Mapping[str, int], topic: str) -> pa.RecordBatch:
    """The rows of a batch as records; ``columns`` are those of ``sink_columns``, ``topic`` the option's, "" without.

    Raises CohortError for rows that are no records.
    """
    arrays = []
    for field in RECORDS:
        if field.name == "topic" and topic:
            arrays.append(pa.repeat(topic, batch.num_rows))
        elif field.name in columns:
            arrays.append(_column(field, batch.column(columns[field.name])))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _column(field: pa.Field, column: pa.Array) -> pa.Array:
    if field.name == "topic" and column.null_count:
        raise CohortError(
            "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default topic.",
            "KAFKA_NULL_TOPIC_IN_DATA",
        )
    if field.name == "headers":
        return _headers(column)
    if field.name == "timestamp":  # Spark's are microseconds, Kafka's milliseconds
        return pc.divide(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), 1000)
    return column.cast(field.type)


def _headers(column: pa.Array) -> pa.Array:
    """The headers with their fields as Kafka calls them.  Raises CohortError for a header without a key."""
    entries = column.flatten()
    if entries.null_count or entries.field(0).null_count:
        raise CohortError(
            "a row has a header without a key, which no record of Kafka can have: filter the column headers, or give each a key"
        )
    pairs = pa.StructArray.from_arrays(
        [entries.field(0).cast(pa.string()), entries.field(1).cast(pa.binary())], fields=list(HEADERS.value_type)
    )
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS, mask=column.is_null())
