"""Records, read by the list of steps in plain Python, beside Google's own library."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.values.protobuf.columns import column_type
from sparkcohort.runtime.values.protobuf.compilation import compile_steps
from sparkcohort.runtime.values.protobuf.descriptor import parse_message
from sparkcohort.runtime.values.protobuf.interpreter import ProtobufReader
from sparkcohort.runtime.values.protobuf.steps import MessageSteps, ProtobufReason
from tests.kit import protobuf_schemas as drawn
from tests.kit.tier import of_tier

Proto = drawn.Proto


def steps_of(data: bytes, name: str = "p.M0") -> MessageSteps:
    """The steps that read all of a message."""
    message = parse_message(data, name)
    return compile_steps(message, column_type(message))


def read(steps: MessageSteps, *records: bytes | None) -> tuple[list[Any], list[ProtobufReason | None]]:
    """The rows, and why some are null."""
    reader = ProtobufReader(steps.target)
    errors = [reader.read(record, steps) for record in records]
    return reader.root.rows(), [error.reason if error else None for error in errors]


def has_columns(data: bytes) -> bool:
    """Whether the drawn message has any."""
    return any(map(drawn.has_column, drawn.descriptor(data).fields))


@settings(max_examples=of_tier(quick=50, thorough=300))
@given(st.data())
def test_rows_are_those_of_googles_library(data: st.DataObject) -> None:
    """Drawn messages; fields in any order, several times, packed or not, unknown ones between them."""
    schema = data.draw(drawn.sets())
    assume(has_columns(schema))
    of = drawn.descriptor(schema)
    records = data.draw(st.lists(drawn.records(of), min_size=1, max_size=3))
    rows, why = read(steps_of(schema), *records)
    for row, record, reason in zip(rows, records, why, strict=True):
        wanted = drawn.parsed(of, record)
        if reason in (ProtobufReason.RANGE, ProtobufReason.REQUIRED):  # of two values of a map's key, both count
            assert wanted is None or drawn.out_of_range(wanted) or b"Entry" in schema
        else:
            assert reason is None
            assert repr(drawn.last_of_each(row)) == repr(drawn.last_of_each(wanted)), record.hex()
