"""Spark's rows as a producer takes them: the columns that are written, by Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sparkcohort.runtime.errors import CohortError

if TYPE_CHECKING:
    from sparkcohort.runtime.values.encodings import Encoding


def producer_rows(
    batch: pa.RecordBatch, columns: Mapping[str, int], topic: str, encodings: Iterable[Encoding] = ()
) -> pa.RecordBatch:
    """The rows of a batch; ``columns`` are those of ``sink_columns``, ``topic`` the option's, "" without.

    Raises CohortError for rows that are no records, or that can't be encoded.
    """
    arrays = {name: batch.column(place) for name, place in columns.items()}
    if topic:
        arrays["topic"] = pa.DictionaryArray.from_arrays(pa.array([0] * batch.num_rows, pa.int32()), [topic])
    elif arrays["topic"].null_count:
        raise CohortError(
            "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic. Use the `topic` option for "
            "setting a default topic.",
            "KAFKA_NULL_TOPIC_IN_DATA",
        )
    if "headers" in arrays:
        arrays["headers"] = _headers(arrays["headers"])
    for encoding in encodings:
        if encoding.of_structs and encoding.part in arrays:
            from sparkcohort.runtime.shell.values.records_by_format import encoded  # noqa: PLC0415  most writes have none

            arrays[encoding.part] = encoded(encoding, arrays[encoding.part], arrays["topic"])
    return pa.RecordBatch.from_pydict(arrays)


def _headers(column: pa.Array) -> pa.Array:
    """The headers, their fields named as Kafka's, whose case may be another one in Spark.  Raises CohortError for one without a key."""
    entries = column.flatten()
    if entries.null_count or entries.field(0).null_count:
        raise CohortError(
            "a row has a header without a key, which no record of Kafka can have: filter the column headers, or give each a key"
        )
    pairs = pa.StructArray.from_arrays([entries.field(0), entries.field(1)], names=["key", "value"])
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, pairs, mask=column.is_null())
