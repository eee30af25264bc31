"""``spark.read.format("cohort")``: ranges are fixed when the plan is made; tasks read them in any order.

The reader lives only in the process in which Spark plans a read.  Its plan crosses to the executors in the input partitions.
No group is joined, and nothing is committed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from sparkcohort.runtime.batches.offset_filters import ALL, Comparison, Condition, Selection, Value, selection
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr
from sparkcohort.runtime.values.columns import Columns, Field
from sparkcohort.streaming.batch_planner import task_ranges
from sparkcohort.streaming.installation import unusable_reason
from sparkcohort.streaming.pyfiles import find_pyfiles, has_own_provider
from sparkcohort.streaming.spark_errors import error_for_spark, message_first

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkcohort.runtime.shell.options.batch_options import BatchOptions
    from sparkcohort.runtime.shell.options.source_options import SourceOptions

log = logging.getLogger("sparkcohort.batch")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARED: Final[dict[type[Filter], Comparison]] = {
    EqualTo: Comparison.EQUAL,
    EqualNullSafe: Comparison.EQUAL,
    In: Comparison.IN,
    GreaterThan: Comparison.GREATER,
    GreaterThanOrEqual: Comparison.GREATER_OR_EQUAL,
    LessThan: Comparison.LESS,
    LessThanOrEqual: Comparison.LESS_OR_EQUAL,
}
_NUMBERS: Final = (Field.PARTITION, Field.OFFSET)
_PLACES: Final = frozenset((Field.TOPIC, Field.PARTITION, Field.OFFSET, Field.TIMESTAMP))


@dataclass(frozen=True)
class RangesPartition(InputPartition):
    """One input partition: the ranges of one task."""

    ranges: tuple[Range, ...]
    ids: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return ", ".join(f"{each.topic}-{each.partition} [{each.start}, {each.end})" for each in self.ranges)


class CohortBatchReader(DataSourceReader):
    """Plans one read."""

    def __init__(self, options: BatchOptions) -> None:
        """No broker is asked before ``partitions``."""
        self._options = options
        self._selected: Selection = ALL

    def __reduce__(self) -> tuple[Callable[[SourceOptions], RangesReader], tuple[SourceOptions]]:
        """Pickle as the reader of ranges with a task's options: Spark pickles the reader with the read function."""
        return RangesReader, (self._options.source,)

    @message_first
    def partitions(self) -> Sequence[InputPartition]:
        """The ranges of each task, the same for every action on this DataFrame.  Raises CohortError."""
        try:
            from sparkcohort.runtime.shell.driver import delegation_tokens  # noqa: PLC0415  only here
            from sparkcohort.runtime.shell.driver.batch_ranges import batch_ranges  # noqa: PLC0415
        except Exception as failed:
            raise CohortError(unusable_reason(failed)) from failed

        log_to_stderr()
        source = self._options.source
        if has_own_provider(source.kafka):
            find_pyfiles()
        for warning in (*source.warnings, *delegation_tokens.warnings()):
            log.warning("%s", warning)
        for note in source.notes:
            log.info("%s", note)
        plan = batch_ranges(self._options, self._selected)
        tasks = task_ranges(
            plan.ranges, min_partitions=source.min_partitions, max_records=source.max_records_per_partition
        )
        return [RangesPartition((each,), _ids_of(each, plan.ids)) for each in tasks]

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """As ``RangesReader``, which executors have."""
        return RangesReader(self._options.source).read(partition)


class FilteringBatchReader(CohortBatchReader):
    """The reader with push-down of filters.

    A class of its own: PySpark refuses a reader with ``pushFilters`` while spark.sql.python.filterPushdown.enabled is false.
    """

    def __init__(self, options: BatchOptions, load_id: str) -> None:
        """No broker is asked yet; ``load_id`` is the identity of one ``load()``."""
        super().__init__(options)
        self._load_id = load_id

    @message_first
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  PySpark's name
        """Take the filters that bound what is read; return those that Spark must apply again, since their bounds are wider.

        Raises OptionError where this ``load()`` is already read with other filters.
        """
        from sparkcohort.runtime.shell.driver.load_selections import claim  # noqa: PLC0415  only here

        conditions = {number: condition_of(each, self._options.source.columns) for number, each in enumerate(filters)}
        self._selected = selection(each for each in conditions.values() if each is not None)
        claim(self._load_id, self._selected)
        return [each for number, each in enumerate(filters) if not _is_done(each, conditions[number], self._options)]


class RangesReader:
    """The reader of a task; the planning process has ``CohortBatchReader``."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """The rows of one input partition, on an executor; the same rows at every call."""
        from sparkcohort.streaming.direct_read import DirectRead, keep_imports, packed  # noqa: PLC0415  only tasks
        from sparkcohort.streaming.session_zone import check_session  # noqa: PLC0415  likewise

        if not isinstance(partition, RangesPartition):
            return  # Spark's own, where there is nothing to read
        log_to_stderr()
        try:
            check_session(self._options)
            reading = DirectRead(self._options.on_executor(os.environ))
            yield from packed(batch for _, batch in reading.batches(partition.ranges, partition.ids))
        except CohortError as error:
            raise error_for_spark(error)  # noqa: B904  its cause is set
        finally:
            keep_imports()


def condition_of(pushed: Filter, columns: Columns) -> Condition | None:
    """A filter as a condition on topic, partition, offset or timestamp; None where it is on something else."""
    comparison = _COMPARED.get(type(pushed))
    column = _place(pushed, columns)
    if comparison is None or column is None:
        return None
    value: Any = getattr(pushed, "value", None)  # all that are compared have one
    # NULL equals nothing, so that in a list it adds nothing.
    values = [each for each in value if each is not None] if comparison is Comparison.IN else [value]
    converted = [_value(column, each) for each in values]
    usable = tuple(each for each in converted if each is not None)
    return Condition(column, comparison, usable) if len(usable) == len(values) else None


def _place(pushed: Filter, columns: Columns) -> Field | None:
    """The column of a record's place that a filter is about; None for other columns and for fields within a column."""
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    if len(path) != 1:
        return None
    return next((each.field for each in columns if each.name == path[0] and each.field in _PLACES), None)


def _value(column: Field, value: object) -> Value | None:
    if column in _NUMBERS:
        return value if type(value) is int else None
    if column is Field.TOPIC:
        return value if type(value) is str else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(microseconds=1)
    return None


def _is_done(pushed: Filter, condition: Condition | None, options: BatchOptions) -> bool:
    """Whether the bounds are exact, so that Spark needn't apply the filter again."""
    if isinstance(pushed, IsNotNull):
        return _place(pushed, options.source.columns) is not None  # these are never null
    return condition is not None and condition.exact


def _ids_of(part: Range, ids: Mapping[str, str]) -> dict[str, str]:
    return {part.topic: ids[part.topic]} if part.topic in ids else {}
