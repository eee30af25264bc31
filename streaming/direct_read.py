"""Direct reads from Kafka in a task: ranges that no agent has, and all ranges of a batch read.

A new Python worker imports this before its first row, and the Kafka client only with its first direct read.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from sparkcohort.runtime.batches.record_sizes import WHOLE_BYTES, WHOLE_ROWS

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.kafka.fetch.direct_read import DirectRead
    from sparkcohort.runtime.shell.kafka.fetch.relay import RelayedReader
    from sparkcohort.runtime.shell.options.source_options import SourceOptions


def new_direct_read(options: SourceOptions, elsewhere: RelayedReader | None = None) -> DirectRead:
    """A read that has not begun; ``elsewhere`` reads what the brokers don't deliver to this executor."""
    from sparkcohort.runtime.shell.kafka.fetch.direct_read import DirectRead  # noqa: PLC0415  with the Kafka client
    from sparkcohort.streaming.pyfiles import find_pyfiles, has_own_provider  # noqa: PLC0415  as above

    if has_own_provider(options.kafka):
        find_pyfiles()
    return DirectRead(options, elsewhere)


def first_rows(batches: Iterable[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """The first ``count`` rows, or all; no batch behind them is waited for."""
    for batch in batches:
        yield batch.slice(0, count)
        count -= batch.num_rows
        if count <= 0:
            return


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
