"""Spark's rows as records: nothing is lost or changed on the way to the producer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.kafka.produce.row_encoding import ROWS, as_producer_rows
from sparkcohort.streaming.sink_rows import producer_rows

# As Spark hands them to Python (ArrowUtils.toArrowSchema).
HEADER = pa.struct([pa.field("Key", pa.string()), pa.field("VALUE", pa.binary())])
TYPES: dict[str, list[pa.DataType]] = {
    "topic": [pa.string(), pa.large_string()],
    "partition": [pa.int32()],
    "key": [pa.binary(), pa.string(), pa.large_binary()],
    "value": [pa.string(), pa.binary(), pa.large_string()],
    "headers": [pa.list_(pa.field("element", HEADER))],
    "timestamp": [pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC")],
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["a", "b"]),
    "partition": st.none() | st.integers(0, 9),
    "key": st.none() | st.text(max_size=3),
    "value": st.none() | st.text(max_size=9),
    "headers": st.none()
    | st.lists(
        st.fixed_dictionaries({"Key": st.text(max_size=2), "VALUE": st.none() | st.binary(max_size=3)}), max_size=3
    ),
    "timestamp": st.none() | st.integers(0, 2**41 * 1000).map(lambda us: EPOCH + timedelta(microseconds=us)),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Some rows of all columns, of types that Spark has for them, maybe cut from larger ones."""
    rows = draw(st.lists(st.fixed_dictionaries(VALUES), max_size=8))
    types = {name: draw(st.sampled_from(kinds)) for name, kinds in TYPES.items()}
    columns = [pa.array([_plain(row[name], types[name]) for row in rows], types[name]) for name in VALUES]
    begin = draw(st.integers(0, len(rows)))
    return pa.RecordBatch.from_arrays(columns, names=list(VALUES)).slice(begin)


def _plain(value: Any, kind: pa.DataType) -> Any:
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return value.encode() if is_bytes and value is not None else value


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


@given(batches())
def test_records_are_the_rows(batch: pa.RecordBatch) -> None:
    """Each column has the bytes, headers and milliseconds of its row, null where the row has null."""
    found = as_producer_rows(producer_rows(batch, {name: place for place, name in enumerate(VALUES)}, ""))
    assert found.schema == ROWS
    found.validate(full=True)
    wanted = [
        {
            **row,
            "key": _bytes(row["key"]),
            "value": _bytes(row["value"]),
            "headers": row["headers"] and [{"key": each["Key"], "value": each["VALUE"]} for each in row["headers"]],
            "timestamp": row["timestamp"] and (row["timestamp"] - EPOCH) // timedelta(milliseconds=1),
        }
        for row in batch.to_pylist()
    ]
    assert found.to_pylist() == wanted


def test_columns_that_are_not_there() -> None:
    """The topic is the option's, all else null."""
    found = as_producer_rows(
        producer_rows(pa.record_batch([pa.array(["x", None])], names=["value"]), {"value": 0}, "billed")
    )
    rest = {"partition": None, "key": None, "headers": None, "timestamp": None}
    assert found.to_pylist() == [{"topic": "billed", "value": value, **rest} for value in (b"x", None)]


def test_rows_that_are_no_records() -> None:
    """A null topic, in Spark's words; a header without a key, or that is null."""
    with pytest.raises(CohortError, match="contains a null topic") as caught:
        producer_rows(
            pa.record_batch([pa.array(["a", None]), pa.array(["x", "y"])], names=["topic", "value"]),
            {"topic": 0, "value": 1},
            "",
        )
    assert caught.value.error == "KAFKA_NULL_TOPIC_IN_DATA"
    for headers in ([{"Key": None, "VALUE": b""}], [None]):
        column = pa.array([None, headers], TYPES["headers"][0])
        with pytest.raises(CohortError, match="a header without a key"):
            producer_rows(
                pa.record_batch([pa.array(["x", "y"]), column], names=["value", "headers"]),
                {"value": 0, "headers": 1},
                "t",
            )
