"""Direct reads from Kafka in a task: ranges that no agent has, and all ranges of a batch read.

A new Python worker imports this before its first row, and the Kafka client only with its first direct read.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from sparkcohort.runtime.batches.record_sizes import WHOLE_BYTES, WHOLE_ROWS
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition

if TYPE_CHECKING:
    from sparkcohort.runtime.protocol.calls import MalformedCount
    from sparkcohort.runtime.shell.kafka.fetch.relay import RelayedReader
    from sparkcohort.runtime.shell.options.source_options import SourceOptions

log = logging.getLogger("sparkcohort.task")


class DirectRead:
    """One task's direct read.

    After the last row ``replaced`` are the recreated topics, and ``malformed`` counts the records that could not be decoded.
    """

    def __init__(self, options: SourceOptions, elsewhere: RelayedReader | None = None) -> None:
        """Opens nothing; ``elsewhere`` reads ranges that the brokers don't deliver to this executor."""
        self._options = options
        self._elsewhere = elsewhere
        self.replaced: frozenset[str] = frozenset()
        self.malformed: list[MalformedCount] = []

    def batches(
        self, ranges: Sequence[Range], ids: Mapping[str, str]
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """The rows of the ranges, with the partition of each batch; ``ids`` are of the topics that the ranges are of."""
        from sparkcohort.runtime.shell.kafka.fetch.events import malformed_counts  # noqa: PLC0415  as above
        from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader  # noqa: PLC0415  with the client

        if self._options.kafka.get("sasl.oauthbearer.provider"):
            _await_token(self._options.kafka)
        reader = RangeReader(
            self._options.kafka,
            columns=self._options.columns,
            fail_on_data_loss=self._options.fail_on_data_loss,
            poll_timeout_ms=self._options.poll_timeout_ms,
            on_data_loss=log.warning,
            elsewhere=self._elsewhere,
        )
        try:
            for tp, _, batch in reader.read(ranges, ids):
                if batch is not None and batch.num_rows:
                    yield tp, batch
            self.replaced = frozenset(reader.replaced)
            self.malformed = malformed_counts(reader.malformed)
        finally:
            reader.close()


def _await_token(kafka: Mapping[str, str]) -> None:
    """Wait for a token before the first fetch, also through short failures of the provider.  Raises CohortError."""
    from sparkcohort.runtime.shell.kafka.tokens import await_token  # noqa: PLC0415  with the Kafka client
    from sparkcohort.streaming.pyfiles import find_pyfiles, has_own_provider  # noqa: PLC0415  only for such a query

    if has_own_provider(kafka):
        find_pyfiles()
    await_token(kafka)


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, small batches joined; large ones pass as they are, without a copy.

    Each batch costs PySpark and the JVM the same, whatever its size.
    """
    pending: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        small = batch.num_rows < WHOLE_ROWS and batch.nbytes < WHOLE_BYTES
        if small:
            pending.append(batch)
            rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if pending and (not small or rows >= WHOLE_ROWS or nbytes >= WHOLE_BYTES):
            yield _joined(pending)
            pending, rows, nbytes = [], 0, 0
        if not small:
            yield batch
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


@cache
def keep_imports() -> None:
    """Exclude all imported modules from garbage collection, once per process.

    PySpark collects garbage after every task of a worker that it keeps (``daemon.py``): with Arrow, Flight and the Kafka
    client imported that was half of the worker's CPU time, and nothing was ever found among them.
    """
    gc.freeze()
