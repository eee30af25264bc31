"""JSON's records into columns, and what is said of bad records."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from sparkcohort.native import _native
from sparkcohort.runtime.shell.values.arrow_types import BadRecord
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.json_plan import JsonReason
from sparkcohort.runtime.values.types import (
    BIGINT,
    DOUBLE,
    INT,
    STRING,
    ColumnType,
    array,
    decimal,
    mapping,
    struct,
)
from tests.kit import json_records as drawn
from tests.kit.plain_rows import plain_rows
from tests.kit.tier import of_tier

FLIGHT = struct({"carrier": STRING, "flight": INT, "delay": DOUBLE, "price": decimal(9, 2)})
RECORD = b'{"year":2013,"carrier":"UA","flight":1545,"tail":{"a":[1,"}"]},"delay":2.5,"price":12.345}'
ROW = "{'carrier': 'UA', 'flight': 1545, 'delay': 2.5, 'price': Decimal('12.35')}"


def binary(*records: bytes | None) -> Any:
    """A column as it comes from Kafka."""
    return pa.array(records, pa.binary())


def read(target: ColumnType, records: Any) -> tuple[list[Any], list[BadRecord]]:
    """The rows, times and dates as numbers, and the bad ones; NaN is itself, and -0.0 is not 0.0."""
    rows, bad = JsonValues(target).decode(records)
    rows.validate(full=True)
    return list(map(repr, plain_rows(rows))), bad


def test_a_record_becomes_a_row() -> None:
    """What isn't asked for is passed over; a null row is null, and so is an empty one, and neither is bad."""
    assert read(FLIGHT, binary(RECORD, None, b"", b" \n", RECORD)) == ([ROW, "None", "None", "None", ROW], [])


def test_a_part_of_a_column() -> None:
    """A slice, with nulls before it, inside of it and behind; an empty one; one that was never any other."""
    whole = binary(None, RECORD, b"x", None, RECORD, None)
    rows, bad = read(FLIGHT, whole[1:5])
    assert (rows, [each.row for each in bad]) == ([ROW, "None", "None", ROW], [1])
    assert read(FLIGHT, whole[6:]) == read(FLIGHT, binary()) == ([], [])


FAULTS = [
    (b'{"flight":1', JsonReason.SYNTAX, "not JSON at byte 11"),
    (b'{"flight":1,}', JsonReason.SYNTAX, "not JSON at byte 11"),
    (b'{"carrier":"\xff"}', JsonReason.UTF8, "not UTF-8 at byte 12"),
    (b'\xef\xbb\xbf{"flight":1}', JsonReason.SYNTAX, "not JSON at byte 0"),
    (b"null", JsonReason.NOT_OBJECT, "not a JSON object"),
    (b'[{"flight":1}]', JsonReason.NOT_OBJECT, "not a JSON object"),
    (b'{"flight":"1"}', JsonReason.WRONG_TYPE, "value.flight: JSON of another type than int"),
    (b'{"flight":2147483648}', JsonReason.OUT_OF_RANGE, "value.flight: a number out of the range of int"),
    (b'{"price":1e7}', JsonReason.OUT_OF_RANGE, "value.price: a number out of the range of decimal(9,2)"),
    (b'{"price":"much"}', JsonReason.BAD_TEXT, "value.price: a text that can't be read as decimal(9,2)"),
]


@pytest.mark.parametrize(("record", "reason", "message"), FAULTS, ids=[message for *_, message in FAULTS])
def test_what_is_wrong_is_told(record: bytes, reason: JsonReason, message: str) -> None:
    """By row, reason and place, without the value; a record is lost as a whole, or a field of it; others aren't."""
    rows, bad = read(FLIGHT, binary(RECORD, record, RECORD))
    nothing = "{'carrier': None, 'flight': None, 'delay': None, 'price': None}"
    assert (rows, bad) == ([ROW, "None" if reason.whole else nothing, ROW], [BadRecord(1, reason, message)])


INNER = struct({"n": INT, "s": STRING})
PARTIAL = [
    (INNER, b'{"f":{"n":"x","s":"y"}}', "{'n': None, 's': 'y'}"),
    (array(INNER), b'{"f":[{"n":1},{"n":"x","s":"y"}]}', "[{'n': 1, 's': None}, {'n': None, 's': 'y'}]"),
    (mapping(INNER), b'{"f":{"k":{"n":"x","s":"y"}}}', "[('k', {'n': None, 's': 'y'})]"),
    (array(INT), b'{"f":[1,"x",3]}', "None"),
    (mapping(INT), b'{"f":{"a":1,"b":"x"}}', "None"),
    (array(array(INT)), b'{"f":[[1],["x"]]}', "None"),
    (INT, b'{"f":1,"f":"x"}', "1"),
    (INT, b'{"f":"x","f":2}', "2"),
    (array(INT), b'{"f":[1,2],"f":[3,"x"]}', "[1, 2]"),
    (INNER, b'{"f":{"n":1,"n":"x"},"f":7}', "{'n': 1, 's': None}"),
]


@pytest.mark.parametrize(("kind", "record", "value"), PARTIAL, ids=str)
def test_what_fits_is_kept(kind: ColumnType, record: bytes, value: str) -> None:
    """A field that doesn't fit is null, a list or a map with an element that doesn't is null, and the last that fits counts."""
    rows, bad = read(struct({"f": kind, "g": INT}), binary(record[:-1] + b',"g":7}'))
    assert rows == [f"{{'f': {value}, 'g': 7}}"]
    assert [(each.row, each.reason) for each in bad] == [(0, JsonReason.WRONG_TYPE)]


TWICE = [
    (b'{"f":1,"f":2}', INT, "2"),
    (b'{"f":1,"f":null}', INT, "None"),
    (b'{"f":{"n":1},"f":{"s":"b"}}', INNER, "{'n': None, 's': 'b'}"),
    (b'{"f":{"a":1,"a":2}}', mapping(INT), "[('a', 1), ('a', 2)]"),
    (b'{"F":1}', INT, "None"),
    (b'{"f":-0}', INT, "0"),
    (b'{"f":1.10}', STRING, "'1.10'"),
    (b'{"f":{"a" : [1.50, "\\u00e9"]}}', STRING, '\'{"a":[1.50,"é"]}\''),
]


@pytest.mark.parametrize(("record", "kind", "value"), TWICE, ids=str)
def test_values(record: bytes, kind: ColumnType, value: str) -> None:
    """Fields that come twice, names by their case, numbers as texts: no fault."""
    assert read(struct({"f": kind}), binary(record)) == ([f"{{'f': {value}}}"], [])


DATE = ColumnType("date")
LONG = [
    (DATE, "9" * 5000, None),
    (DATE, "-" + "0" * 5000 + "7", -7),
    (DATE, "+-5", None),
    (decimal(5, 2), "0.004" + "9" * 3000, Decimal("0.00")),
    (decimal(5, 2), "0" * 5000 + ".125", Decimal("0.13")),
    (decimal(5, 2), "9" * 5000, None),
    (decimal(5, 2), ",-1,e,-,1,", Decimal("-0.10")),
    (decimal(5, 2), "1e,", None),
]


@pytest.mark.parametrize(("kind", "text", "value"), LONG, ids=[f"{kind} {text[:12]}" for kind, text, _ in LONG])
def test_texts_that_are_long_or_odd(kind: ColumnType, text: str, value: Any) -> None:
    """They are read to their last digit, or they are bad; none is an error of the batch."""
    rows, bad = read(struct({"f": kind}), binary(f'{{"f":"{text}"}}'.encode()))
    assert rows == [f"{{'f': {value!r}}}"]
    assert bool(bad) == (value is None)


@settings(max_examples=of_tier(quick=40, thorough=200))
@given(st.data())
def test_no_record_costs_another_one(data: st.DataObject) -> None:
    """Drawn types and records, some cut off or hit somewhere: each is what it is alone, and what is no record is null."""
    target = data.draw(drawn.types())
    records = data.draw(st.lists(drawn.records(target), max_size=6))
    rows, bad = read(target, binary(*records))
    for place, record in enumerate(records):
        alone = [each._replace(row=0) for each in bad if each.row == place]
        assert read(target, binary(record)) == ([rows[place]], alone)
        if not record or (alone and alone[0].reason.whole):
            assert rows[place] == "None"
    for each in bad:
        event(each.reason.name)


def test_fields_that_come_again_are_not_read_again() -> None:
    """A value before one that doesn't fit, and objects in objects of such ones: a few kilobytes would take seconds."""
    flat = b'{"f":[' + b"1," * 100_000 + b"1]" + b',"f":5' * 30_000 + b"}"
    target, deep, value = BIGINT, b"1", "1"
    for _ in range(5):
        target, deep, value = struct({"f": target}), b'{"f":' + deep + b',"f":[]' * 60 + b"}", f"{{'f': {value}}}"
    start = time.process_time()
    rows, _ = JsonValues(struct({"f": array(BIGINT)})).decode(binary(flat))
    assert len(rows[0]["f"]) == 100_001
    assert read(target, binary(deep))[0] == [value]
    assert time.process_time() - start < 3


def test_many_rows() -> None:
    """Columns grow; nulls in runs; what a batch had leaves nothing for the next."""
    values = JsonValues(struct({"n": BIGINT, "l": array(STRING)}))
    records = [b'{"n":%d,"l":["%d"]}' % (number, number) for number in range(10_000)]
    some = [record if number % 7 else None for number, record in enumerate(records)]
    for _ in range(2):
        rows, bad = values.decode(binary(*some, *[None] * 5000, *records))
        rows.validate(full=True)
        assert (len(rows), rows.null_count, bad) == (25_000, 1429 + 5000, [])
        assert rows[-1].as_py() == {"n": 9999, "l": ["9999"]}
    assert values.decode(binary(b"{}"))[0].to_pylist() == [{"n": None, "l": None}]


def test_deep_values() -> None:
    """What is passed over may be as deep as it likes, and so may what becomes a text."""
    deep = b"[" * 100_000 + b"]" * 100_000
    assert read(struct({"n": INT}), binary(b'{"z":' + deep + b',"n":1}')) == (["{'n': 1}"], [])
    rows, bad = JsonValues(struct({"z": STRING})).decode(binary(b'{"z":' + deep + b"}"))
    assert (rows[0]["z"].as_py(), bad) == (deep.decode(), [])


@pytest.mark.parametrize("length", [*range(1, 18), 63, 64, 65, 128])
def test_names_are_told_apart_by_every_letter(length: int) -> None:
    """Of whatever length: one that differs in one place only is another one, and so is a longer one."""
    name = "abcdefghijklmnopq"[:length].ljust(length, "z")
    others = [name[:place] + "_" + name[place + 1 :] for place in range(length)] + [name + "a", name[:-1]]
    record = "{" + ",".join(f'"{other}":2' for other in others) + f',"{name}":1' + "}"
    found, bad = JsonValues(struct({name: INT, "o": INT})).decode(
        binary(record.encode(), record[:-1].encode() + b',"o":3}')
    )
    assert (found.to_pylist(), bad) == ([{name: 1, "o": None}, {name: 1, "o": 3}], [])
    rows, _ = JsonValues(struct({other: INT for other in others if other})).decode(binary(record.encode()))
    assert set(rows[0].as_py().values()) == {2}


UNCLOSED = [
    b"[",
    b"{",
    b'{"b":',
    b'{"b":[',
    b"[1,",
    b"[[1],",
    b'[{"b":1},',
    b'["a",',
    b"[ ",
    b'{"a":{"b":',
    b'{"b":1,"c":[',
    b"[1.5e3,",
]


@pytest.mark.parametrize("opening", UNCLOSED)
@pytest.mark.parametrize("kind", [STRING, array(STRING), BIGINT])
def test_what_is_never_closed_is_broken_and_no_lack_of_memory(opening: bytes, kind: ColumnType) -> None:
    """Of any length, to a decoder that is new and to one that has read others, and whatever is closed is read as before."""
    target = struct({"b": kind, "price": decimal(9, 2)})
    used = JsonValues(target)
    lengths = [*range(1, 300), *(length * 7 // 5 for length in range(300, 2_000, 37)), 10_000, 25_000, 100_000]
    for length in lengths:
        record = opening * length
        for values in (JsonValues(target), used):
            rows, bad = values.decode(binary(record, b'{"price": 1}'))
            assert [each.reason for each in bad] == [JsonReason.SYNTAX], (opening, length)
            assert rows.to_pylist() == [None, {"b": None, "price": Decimal("1.00")}]


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (b"", b""),
        (bytes(15), b"\0"),
        (bytes(16), b""),
        (bytes(16), b"a\0b\0"),
        (b"\3" + bytes(15), b"\0"),
        (b"\x10" + bytes(15), b"\0"),
        (b"\0\0\0\0\2" + bytes(11), b"\0"),
    ],
)
def test_a_plan_that_is_none_is_refused(fields: bytes, names: bytes) -> None:
    """Whatever Python hands over, memory is not touched beyond it."""
    with pytest.raises(ValueError, match="no fields"):
        _native.JsonDecoder(fields, names)


def test_buffers_that_are_too_short_are_refused() -> None:
    """Before any row is read."""
    decoder = _native.JsonDecoder(bytes(16), b"\0")
    for offsets, rows in ((bytes(4), 1), (bytes(8), 2), (b"", 1)):
        with pytest.raises(ValueError, match="shorter"):
            decoder.decode(None, offsets, b"", 0, rows, print)
