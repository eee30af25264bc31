"""What Spark sends to the executors: the right to claim one slot, and the reader of a task.

The process in which Spark plans a read imports this module.  So it imports nothing that only a task uses.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
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

    ``avoid`` are the addresses of agents that lately did not answer a task.  The reader in the JVM has no other word of what
    follows: ``agent_timeout_s`` bounds an agent's silence, and the first slot of a plan has the ``agent_config`` of agents that
    are missing (``launch``).
    """

    run: Run
    plan_id: str
    index: int
    agent_timeout_s: float
    avoid: frozenset[str] = frozenset()
    agent_config: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return f"SlotPartition(plan={self.plan_id}, index={self.index})"


class SlotReader:
    """The reader of a task; the driver has ``CohortStreamReader``."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """The rows of one slot, or the rest of one that the reader in the JVM has begun; on an executor."""
        from sparkcohort.streaming import task  # noqa: PLC0415  only tasks come here

        try:
            if isinstance(partition, SlotPartition):
                yield from task.read_slot(self._options, partition)
            else:
                yield from task.read_rest(self._options, partition.value)
        except CohortError as error:
            raise error_for_spark(error)  # noqa: B904  its cause is set


def reader_on_executor(options: SourceOptions) -> SlotReader:
    """The driver's reader unpickles as this at the start of each task, before Spark sends the task its input."""
    set_quickack()
    return SlotReader(options)
