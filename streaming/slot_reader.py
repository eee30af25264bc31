"""What Spark sends to the executors: the right to claim one slot, and the reader of a task.

The process in which Spark plans a read imports this module.  So it imports nothing that only a task uses.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.streaming.quickack import set_quickack
from sparkcohort.streaming.spark_errors import error_for_spark

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkcohort.runtime.shell.options.source_options import SourceOptions


@dataclass(frozen=True)
class SlotPartition(InputPartition):
    """One input partition: the right to claim one slot of a plan.

    ``avoid`` are the addresses of agents that lately did not answer a task.
    """

    run: Run
    plan_id: str
    index: int
    avoid: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"SlotPartition(plan={self.plan_id}, index={self.index})"


class SlotReader:
    """The reader of a task; the driver has ``CohortStreamReader``."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def read(self, partition: SlotPartition) -> Generator[pa.RecordBatch, None, None]:
        """The rows of one slot, on an executor."""
        from sparkcohort.streaming.task import read_slot  # noqa: PLC0415  only tasks come here

        try:
            yield from read_slot(self._options, partition)
        except CohortError as error:
            raise error_for_spark(error)  # noqa: B904  its cause is set


def reader_on_executor(options: SourceOptions) -> SlotReader:
    """The driver's reader unpickles as this at the start of each task, before Spark sends the task its input."""
    set_quickack()
    return SlotReader(options)
