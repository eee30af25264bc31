"""``format("dying")``: ``format("cohort")`` in a driver that is SIGKILLed at a chosen place of Spark's cycle.

The environment variable ``COHORT_TEST_DIES`` names the place and how many times it is passed before: ``"partitions 0"``.
Places: ``pinned`` (an end is chosen, maybe the start itself), ``planned`` (one behind the start, not in the offset log), ``partitions``
(in the offset log, nothing read), ``sink`` (written, not in the commit log), ``latestOffset`` (in the commit log, Kafka
not told).  Of an exactly-once write ``CLAIM-1``, ``DECIDE-1``, ``COMMIT-1``: before this phase of the commit of batch 1.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Any

import psutil
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from sparkcohort.runtime.kafka.batch_commit import BatchCommit
from sparkcohort.runtime.shell.kafka.produce.sink_committer import SinkCommitter
from sparkcohort.streaming.reader import CohortStreamReader
from sparkcohort.streaming.slot_reader import SlotPartition
from sparkcohort.streaming.source import CohortSource
from sparkcohort.streaming.writer import CohortStreamWriter, RowWriter

DIES = "COHORT_TEST_DIES"
_passed: Counter[str] = Counter()


def die_at(place: str) -> None:
    """SIGKILL the driver's JVM, its script and this process, if this is the place."""
    here = f"{place} {_passed[place]}"
    _passed[place] += 1
    if os.environ.get(DIES) != here:
        return
    above = [psutil.Process(), *psutil.Process().parents()]
    script = [process for process in above if _of_the_driver(process)][-1]
    for process in [*script.children(), script]:  # the JVM first, so that it sees nobody else's end
        process.send_signal(signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _of_the_driver(process: psutil.Process) -> bool:
    """Whether a process above is the driver's (what started the driver has no such variable)."""
    try:
        return DIES in process.environ()
    except psutil.Error:
        return False


class DyingReader(CohortStreamReader):
    """Passes every call on, or dies."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  PySpark's name
        """Die before it, or after it when it found something."""
        die_at("latestOffset")
        end = super().latestOffset(start, limit)
        die_at("pinned")
        if end != start:
            die_at("planned")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[SlotPartition]:
        """Die before it."""
        die_at("partitions")
        return super().partitions(start, end)


class DyingCommitter(SinkCommitter):
    """Takes every step, or dies before it."""

    def step(self, state: BatchCommit) -> BatchCommit:
        """Die before it."""
        die_at(f"{state.phase.name}-{state.batch}")
        return super().step(state)


class DyingRows(RowWriter):
    """The rows of a write that commits by the dying committer."""

    def _committer(self) -> SinkCommitter:
        return DyingCommitter(self.options.producer, self.options.sink_id, self.options.state_topic)


class DyingSource(CohortSource):
    """The source of the dying reader, and of writes whose commit dies."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "dying"

    def streamReader(self, schema: StructType) -> DyingReader:  # noqa: N802  PySpark's name
        """The reader."""
        return DyingReader(super().streamReader(schema)._options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> CohortStreamWriter:  # noqa: N802  PySpark's name
        """The writer."""
        rows = super().streamWriter(schema, overwrite)._rows
        return CohortStreamWriter(DyingRows(rows.options, rows.columns, rows.last))
