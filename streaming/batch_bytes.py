"""The bytes of a batch by partition: what a task tells the driver, so that it can weigh what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparkcohort.runtime.protocol.partitions import TopicPartition


def bytes_by_partition(
    batch: pa.RecordBatch, nbytes: int, among: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """How a batch's ``nbytes`` are divided over the partitions of its rows, which are all ``among`` these, each in a run.

    Keys and values are counted, the other columns taken for equal in all rows.  A trickle brings batches of hundreds of
    partitions, so nothing here is done row by row.
    """
    if len(among) == 1:
        return {among[0]: nbytes}
    one_topic = len({tp.topic for tp in among}) == 1
    numbers = _numbers(batch.column("partition"))
    new = numbers[1:] != numbers[:-1]
    if not one_topic:
        import pyarrow.compute as pc  # noqa: PLC0415  costs a new worker a second, and most slots are of one topic

        names = batch.column("topic")
        new |= pc.not_equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False)
    bounds = np.concatenate(([0], np.flatnonzero(new) + 1, [batch.num_rows]))
    data = _lengths(batch.column("key"), bounds) + _lengths(batch.column("value"), bounds)
    per_row = (nbytes - int(data.sum())) / batch.num_rows
    sizes = data + np.rint(np.diff(bounds) * per_row).astype(np.int64)
    starts = bounds[:-1]
    topics = (
        [among[0].topic] * len(starts) if one_topic else [batch.column("topic")[at].as_py() for at in starts.tolist()]
    )
    found: dict[TopicPartition, int] = {}
    for topic, number, size in zip(topics, numbers[starts].tolist(), sizes.tolist(), strict=True):
        tp = TopicPartition(topic, number)
        found[tp] = found.get(tp, 0) + size
    return found


def _numbers(column: Any) -> Any:
    """The values of an int32 column without nulls; pyarrow's own conversion imports pandas and pyarrow.compute first."""
    return np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column)]


def _lengths(column: Any, bounds: Any) -> Any:
    """The bytes of a binary column's values between rows."""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    return np.diff(offsets[column.offset + bounds].astype(np.int64))
