"""``spark.read.format("cohort")``: ranges are fixed when the plan is made; tasks read them in any order.

The reader lives only in the process in which Spark plans a read.  Its plan crosses to the executors in the input partitions.
No group is joined, and nothing is committed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSourceReader, InputPartition

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr
from sparkcohort.streaming.batch_planner import task_ranges
from sparkcohort.streaming.batch_scan import BatchScan
from sparkcohort.streaming.installation import unusable_reason
from sparkcohort.streaming.narrowing import narrow_range, times_of_bound
from sparkcohort.streaming.pyfiles import find_pyfiles, has_own_provider
from sparkcohort.streaming.spark_errors import error_for_spark, message_first

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkcohort.runtime.shell.options.source_options import SourceOptions

log = logging.getLogger("sparkcohort.batch")


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """One input partition: the range of one task, and its topic's id, as far as known."""

    part: Range
    topic_id: str | None

    def __repr__(self) -> str:
        return f"{self.part.topic}-{self.part.partition} [{self.part.start}, {self.part.end})"


class CohortBatchReader(DataSourceReader):
    """Plans one read, or one scan of it where the JVM says what each needs."""

    def __init__(self, options: SourceOptions, scan: BatchScan | None = None) -> None:
        """No broker is asked before ``partitions``."""
        self._options = options
        self._scan = scan

    def __reduce__(
        self,
    ) -> tuple[Callable[[SourceOptions, int | None], RangesReader], tuple[SourceOptions, int | None]]:
        """Pickle as the reader of ranges with a task's options: Spark pickles the reader with the read function."""
        return RangesReader, (self._options, self._scan.limit if self._scan else None)

    @message_first
    def partitions(self) -> Sequence[InputPartition]:
        """The ranges of each task, the same for every action on this DataFrame.  Raises CohortError.

        For a scan one more partition comes last, with the plan of the whole, which the jar keeps for the scans that follow.
        """
        try:
            from sparkcohort.runtime.shell.driver import spark_settings  # noqa: PLC0415  only here
            from sparkcohort.runtime.shell.driver.batch_ranges import BATCH_RANGES, batch_ranges  # noqa: PLC0415
        except Exception as failed:
            raise CohortError(unusable_reason(failed)) from failed

        log_to_stderr()
        source = self._options
        if has_own_provider(source.kafka):
            find_pyfiles()
        scan = self._scan or BatchScan()
        earlier = BATCH_RANGES.decode(scan.plan) if scan.plan else None
        if not earlier:  # else the first scan has said it
            for warning in (*source.warnings, *spark_settings.token_warnings(spark_settings.of_application())):
                log.warning("%s", warning)
            for note in source.notes:
                log.info("%s", note)
        plan, first_offsets = batch_ranges(source, earlier, times_of_bound(scan.bound))
        tasks = task_ranges(
            (narrow_range(scan.bound, each, first_offsets) for each in plan.ranges),
            min_partitions=source.min_partitions,
            max_records=source.max_records_per_partition,
        )
        partitions: list[InputPartition] = [RangePartition(each, plan.ids.get(each.topic)) for each in tasks]
        return [*partitions, InputPartition(str(msgspec.json.encode(plan), "utf-8"))] if self._scan else partitions

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """As ``RangesReader``, which executors have."""
        return RangesReader(self._options).read(partition)


class RangesReader:
    """The reader of a task, of as many rows as it has to give; the planning process has ``CohortBatchReader``."""

    def __init__(self, options: SourceOptions, limit: int | None = None) -> None:
        self._options = options
        self._limit = limit

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """The rows of one input partition, on an executor; the same rows at every call."""
        from sparkcohort.streaming.direct_read import first_rows, keep_imports, new_direct_read, packed  # noqa: PLC0415  only tasks
        from sparkcohort.streaming.session_zone import check_session  # noqa: PLC0415  likewise

        if not isinstance(partition, RangePartition):
            return  # Spark's own, where there is nothing to read
        log_to_stderr()
        try:
            check_session(self._options)
            reading = new_direct_read(self._options.on_executor(os.environ))
            ids = {partition.part.topic: partition.topic_id} if partition.topic_id else {}
            batches = (
                batch for _, _, batch in reading.pieces((partition.part,), ids) if batch is not None and batch.num_rows
            )
            yield from packed(batches if self._limit is None else first_rows(batches, self._limit))
        except CohortError as error:
            raise error_for_spark(error)  # noqa: B904  its cause is set
        finally:
            keep_imports()
