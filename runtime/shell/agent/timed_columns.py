"""What is fetched ahead: the query's columns, and the records' timestamps, whose ages are wanted whatever the query reads."""

from __future__ import annotations

import pyarrow as pa

from sparkcohort.runtime.shell.kafka.fetch.record_source import MalformedRecordError, PartitionError
from sparkcohort.runtime.values.columns import Columns, Field, with_timestamp


class TimedColumns:
    """``fetched`` are the columns to fetch; for one thread."""

    def __init__(self, columns: Columns) -> None:
        self._wanted = columns
        self.fetched = with_timestamp(columns)

    def parted(self, batch: pa.RecordBatch | None) -> tuple[pa.RecordBatch | None, pa.Array | None]:
        """The rows as the query has them, and their timestamps."""
        fields = [each.field for each in self.fetched]
        if batch is None or Field.TIMESTAMP not in fields:
            return batch, None
        times = batch.column(fields.index(Field.TIMESTAMP))
        return (batch if self.fetched == self._wanted else batch.select(range(len(self._wanted)))), times

    def do_without(self, failure: PartitionError) -> bool:
        """Whether to fetch anew, without timestamps: the failure may be of one that the query doesn't read."""
        if not isinstance(failure.error, MalformedRecordError) or self.fetched == self._wanted:
            return False
        self.fetched = self._wanted
        return True
