"""PySpark's filters as conditions: what is taken, what goes back to Spark."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from sparkcohort.runtime.batches.offset_filters import ALL, Bounds
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.batch_options import parse_batch
from sparkcohort.streaming.batch_reader import CohortBatchReader, FilteringBatchReader, condition_of

OPTIONS = parse_batch({"kafka.bootstrap.servers": "b:1", "subscribe": "t", "pushDownPredicate": "true"})
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each push is written down there."""
    monkeypatch.setenv("COHORT_HOME", str(tmp_path))


def test_a_load_has_one_selection() -> None:
    """The first stays, in whatever order its conditions are told; another load has another."""
    low, third, topic = LessThan(("offset",), 5), EqualTo(("partition",), 3), EqualTo(("topic",), "t")
    FilteringBatchReader(OPTIONS, "one").pushFilters([low, third, topic])
    FilteringBatchReader(OPTIONS, "one").pushFilters([topic, IsNotNull(("offset",)), third, low])
    others: list[list[Filter]] = [[low], [low, EqualTo(("partition",), 4), topic], [IsNotNull(("key",))]]
    for other in others:
        with pytest.raises(CohortError, match="anew for each filter"):
            FilteringBatchReader(OPTIONS, "one").pushFilters(other)
        FilteringBatchReader(OPTIONS, uuid.uuid4().hex).pushFilters(other)
    FilteringBatchReader(OPTIONS, "one").pushFilters([low, third, topic])


def pushed(*filters: Filter) -> tuple[Any, list[Filter]]:
    """What is selected, and what Spark looks at again."""
    reader = FilteringBatchReader(OPTIONS, uuid.uuid4().hex)
    left = list(reader.pushFilters(list(filters)))
    return reader._selected, left


def test_places_are_done_and_times_are_looked_at_again() -> None:
    """A partition, a topic and bounds of offsets say all; a set of offsets and times have gaps."""
    done = [
        EqualTo(("partition",), 3),
        EqualNullSafe(("topic",), "t"),
        GreaterThan(("offset",), 9),
        In(("partition",), (3, None)),
        IsNotNull(("timestamp",)),
    ]
    again = [LessThan(("timestamp",), NOON), In(("offset",), (20, 30))]
    selected, left = pushed(*done, *again)
    assert left == again
    assert selected.wants(TopicPartition("t", 3))
    assert not selected.wants(TopicPartition("t", 4))
    assert selected.offsets == Bounds(20, 31)
    assert selected.times == Bounds(None, NOON_MS)


@pytest.mark.parametrize(
    "filter_",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("value", "offset"), 3),
        EqualTo(("partition",), None),
        EqualTo(("partition",), True),
        EqualTo(("offset",), 3.5),
        EqualTo(("timestamp",), NOON.replace(tzinfo=None)),
        In(("offset",), (1, "2")),
        Not(EqualTo(("partition",), 3)),
        StringStartsWith(("topic",), "t"),
        IsNotNull(("key",)),
        LessThanOrEqual(("timestampType",), 0),
    ],
    ids=repr,
)
def test_what_goes_back_to_spark(filter_: Filter) -> None:
    """Filters of something else, or compared with something else than a place has, bound nothing."""
    selected, left = pushed(filter_)
    assert left == [filter_]
    assert selected == ALL


def test_a_column_by_the_users_name() -> None:
    """The schema of the user may write its columns otherwise; a filter names them as the schema does."""
    columns = tuple(each._replace(name=each.name.upper()) for each in OPTIONS.source.columns)
    assert condition_of(EqualTo(("OFFSET",), 3), columns) is not None
    assert condition_of(EqualTo(("offset",), 3), columns) is None


def test_a_reader_without_the_option_takes_no_filters() -> None:
    """PySpark refuses readers that do, wherever its configuration has push-down off, which is its default."""
    assert CohortBatchReader.pushFilters is DataSourceReader.pushFilters
