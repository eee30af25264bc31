"""The columns that are fetched ahead: the query's, and the timestamps, since records' ages are reported for every query."""

from __future__ import annotations

import pyarrow as pa

from sparkcohort.runtime.shell.kafka.fetch.events import MalformedRecordError, PartitionError
from sparkcohort.runtime.values.columns import Columns, Field, with_timestamp


class TimedColumns:
    """``fetched`` are the columns to fetch; for one thread."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.fetched = with_timestamp(columns)

    def split_timestamps(self, batch: pa.RecordBatch | None) -> tuple[pa.RecordBatch | None, pa.Array | None]:
        """The rows as the query has them, and their timestamps."""
        fields = [each.field for each in self.fetched]
        if batch is None or Field.TIMESTAMP not in fields:
            return batch, None
        times = batch.column(fields.index(Field.TIMESTAMP))
        return (batch if self.fetched == self._columns else batch.select(range(len(self._columns)))), times

    def drop_timestamps(self, failure: PartitionError) -> bool:
        """Drop the timestamps if the failure may be of one that the query doesn't read; whether to fetch again."""
        if not isinstance(failure.error, MalformedRecordError) or self.fetched == self._columns:
            return False
        self.fetched = self._columns
        return True
