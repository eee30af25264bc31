"""JSON beside Spark's own ``from_json``: values and bad records; each difference is one that the page names."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.json_zone import zone_table
from sparkcohort.runtime.values.types import ColumnType, array, decimal, mapping, struct
from tests.kit import json_records as drawn
from tests.kit.plain_rows import plain, plain_rows
from tests.kit.spark_avro import SparkAvro, shown, sorted_maps

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "formats.md"
KINDS = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp"]
INNER = struct({"n": ColumnType("int"), "s": ColumnType("string")})
EVERYTHING = struct(
    {kind: ColumnType(kind) for kind in [*KINDS, "timestamp_ntz"]}
    | {"decimal": decimal(5, 2), "large": decimal(38, 10), "list": array(ColumnType("int")), "struct": INNER}
    | {"map": mapping(ColumnType("bigint")), "structs": array(INNER), "by_name": mapping(INNER)}
)

pytestmark = [pytest.mark.thorough("Spark's own functions, in a JVM of their own"), pytest.mark.timeout(300)]


def theirs(sparks: SparkAvro, target: ColumnType, record: bytes) -> tuple[Any, bool]:
    """What Spark makes of a record, and whether it is a bad one."""
    columns = zip(target.names, target.children, strict=True)
    sparks.columns(", ".join([*(f"`{name}` {kind}" for name, kind in columns), "_corrupt STRING"]))
    value = sparks.json(record)
    bad = bool(value) and value.pop("_corrupt") is not None
    return sorted_maps(value), bad


def ours(target: ColumnType, record: bytes) -> tuple[Any, bool]:
    """The same of ours, but a null record that is bad is a struct of nulls, as Spark has it."""
    rows, bad = JsonValues(target).decode(pa.array([record], pa.binary()))
    value = shown(plain(rows[0]), target)
    return dict.fromkeys(target.names) if bad and bad[0].reason.whole else sorted_maps(value), bool(bad)


def _of(kind: str, *values: str) -> list[bytes]:
    return [f'{{"{kind}":{value}}}'.encode() for value in values]


SAME = [
    *[b"", b" \n", b"null", b"1", b'"a"', b"[]", b'[{"int":1}]', b"{}", b'{"int":1', b'{"int":1,}', b'{"int":01}', b"{]"],
    *[b'{"int":1} x', b'{"int":1}{"int":2}', b'{"int":1}]', b'\n{"int":1}', b'{"INT":1}', b'\xef\xbb\xbf{"int":1}'],
    *[b'{"int":1,"int":2}', b'{"int":1,"int":"x"}', b'{"int":"x","int":2}', b'{"int":1,"int":null}'],
    *_of("int", "-0", "1.0", "1e2", '"1"', '""', "2147483648", "true", "[1]", "{}", "null", "+1", "NaN"),
    *_of("bigint", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1" + "0" * 30),
    *_of("double", "1", "-0", "1e400", "5e-324", "NaN", "-Infinity", '"NaN"', '"+INF"', '"-Infinity"', '"INF"', '"1"', '""'),
    *_of("float", "1e300", "16777217", "0.1", '"Infinity"'),
    *_of("boolean", "true", '"true"', "1"),
    *_of("string", '""', "true", "12", "1.5", '{"a" : [1, null, "\\u00e9\\/"]}', '"\\u0000\\ud83d\\ude00"', '"a\tb"'),
    *_of("binary", '"YWJj"', '"YQ=="', '"YWI="', '"YQ="', '"YQ"', '""', '" YWJj YWJj\\n"', '"YW Jj"', "1"),
    *_of("decimal", "123.455", "-0.005", "0.0049", "999.994", "999.995", "1e2", "1e-400", "1e400", "1000", "true"),
    *_of("decimal", '"1,23.4"', '"-.5"', '"5."', '"+1e1"', '" 1"', '"x"', '""', '"1e"'),
    *_of("decimal", '",-5"', '"-,5"', '"+-5"', '"-+5"', '"1e,-1"', '"1e-,1"', '"1e,"', '","', '"1e+-1"', '"1,e,0,"'),
    *_of("large", "1234567890123456789012345678.12345678905", "9" * 28, "9" * 29, "0.00000000005"),
    *_of("date", *map(drawn.string, drawn.TEXTS), "1"),
    *_of("timestamp", *map(drawn.string, drawn.TEXTS), "1", "-1", "1.5"),
    *_of("timestamp_ntz", *map(drawn.string, drawn.TEXTS), "1"),
    *_of("list", "[1,null]", '[1,"x"]', "{}", "[]", "[[1]]"),
    *_of("struct", '{"n":"x","s":"y"}', "[]", '{"n":1,"n":"x"}', '{"s":{"a":1}}', "{}"),
    *_of("map", '{"a":1,"b":null}', '{"a":"x"}', "{}", "[]"),
    *_of("structs", '[{"n":1},{"n":"x"},null]', "[1]", '[{"n":"x"},3]', "[{}]"),
    *_of("by_name", '{"a":{"n":"x","s":"y"},"b":{}}', '{"a":{"n":"x"},"b":3}'),
    b'{"struct":{"n":1},"struct":{"s":"b"}}',
    b'{"struct":{"n":"x","n":1},"struct":3}',
]  # fmt: skip


@pytest.mark.parametrize("record", SAME, ids=str)
def test_values_are_sparks(sparks: SparkAvro, record: bytes) -> None:
    """Every type's values at their limits, fields that don't fit, and records that are none."""
    assert ours(EVERYTHING, record) == theirs(sparks, EVERYTHING, record)


ZONES = (
    "America/New_York",
    "Europe/London",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "-03:30",
)
LOCAL = [
    *(
        "2026-03-08 02:30:00",
        "2026-11-01 01:30:00",
        "2026-03-29T01:59:59.999999",
        "2026-10-25 01:00",
        "2011-12-30",
        "1884-01-01",
    ),
    *(
        "0001-01-01",
        "1799-12-31 23:59:59",
        "2038-07-01 12:00",
        "2437-07-01",
        "9999-12-31 23:59:59",
        "292277-01-01",
        "1000000",
    ),
    *("2026-07-01 12:00:00Z", "2026-07-01 12:00:00+02:00", "2026-04-05 01:45", "2026-10-04 02:15", "-0044-03-15"),
]


@pytest.mark.parametrize("zone", ZONES)
def test_timestamps_of_a_session(sparks: SparkAvro, zone: str) -> None:
    """Texts without a zone, also those that a clock shows twice or never, and of centuries to come."""
    target = struct({"timestamp": ColumnType("timestamp"), "timestamp_ntz": ColumnType("timestamp_ntz")})
    moments = [datetime(1850, 1, 1) + timedelta(minutes=31 * 523 * number) for number in range(5_000)]  # noqa: DTZ001
    texts = [*LOCAL, *(moment.isoformat() for moment in moments[::100])]
    records = [f'{{"timestamp":"{text}","timestamp_ntz":"{text}"}}'.encode() for text in texts]
    sparks.zone(zone)
    try:
        expected = [theirs(sparks, target, record)[0] for record in records]
    finally:
        sparks.zone("UTC")
    rows, _ = JsonValues(target, zone=zone_table(zone)).decode(pa.array(records, pa.binary()))
    assert [shown(row, target) for row in plain_rows(rows)] == expected


DIFFERENT = {
    "no JSON inside of a field's value": b'{"list":[1,2 3],"int":4}',
    "names and strings in single quotes": b"{'int':1}",
    "bytes that are no UTF-8": b'{"string":"\xff"}',
    "half of a surrogate pair": b'{"string":"\\ud800"}',
    "`nan`, `inf` in lower case": b'{"double":nan}',
    "`+INF` without quotes": b'{"double":+INF}',
    "over 1,000 levels": b'{"z":' + b"[" * 1001 + b"]" * 1001 + b',"int":1}',
    "a number into STRING": b'{"string":1.10}',
    "`NaN` into STRING": b'{"string":NaN}',
    "128 to 255 into TINYINT": b'{"tinyint":128}',
    "a number between two FLOATs": b'{"float":1.00000017881393432617187499}',
    "a time of day without a date": b'{"timestamp":"10:11:12"}',
    "a timestamp with the name of a region": b'{"timestamp":"2020-01-02 03:04:05 Europe/Berlin"}',
    "a number of seconds that TIMESTAMP can't hold": b'{"timestamp":9223372036855}',
    "`GMT` in the middle of a timestamp": b'{"timestamp":"2020-01-02GMT 03:04:05"}',
    "digits of other scripts in a string, for DECIMAL": '{"decimal":"\u0661"}'.encode(),
    "a character beyond U+FFFF inside of an object, for STRING": '{"string":{"a":"\U0001f600"}}'.encode(),
    "base64 behind its padding": b'{"binary":"YQ==YQ=="}',
    "a date as days before 1582-10-15 in a string": b'{"date":"-99999999"}',
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_differences_are_those_of_the_page(sparks: SparkAvro, what: str) -> None:
    """Each is there, so none stays in the table that has gone."""
    assert f"| {what}" in PAGE.read_text()
    assert ours(EVERYTHING, DIFFERENT[what]) != theirs(sparks, EVERYTHING, DIFFERENT[what])


def test_the_page_has_no_more_differences() -> None:
    """But for the first row, which ``ours`` hides."""
    table = PAGE.read_text().partition("### Where it is not `from_json`")[2].partition("## Avro")[0]
    assert len([line for line in table.splitlines() if line.startswith("| ")]) == 1 + 1 + len(DIFFERENT)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_drawn_records(sparks: SparkAvro, data: st.DataObject) -> None:
    """Drawn types, and records that mostly fit them; one that is cut off is bad for both, or for neither."""
    target = data.draw(drawn.types(rare=False))
    record = data.draw(drawn.objects(target, rare=False)).encode()
    assert ours(target, record) == theirs(sparks, target, record)
    cut = record[: data.draw(st.integers(0, len(record)))]
    assert ours(target, cut)[1] == theirs(sparks, target, cut)[1]


REPEATED = struct(
    {
        "n": ColumnType("int"),
        "s": struct(
            {
                "n": ColumnType("int"),
                "s": INNER,
                "l": array(INNER),
                "m": mapping(struct({"n": ColumnType("int"), "l": array(ColumnType("int"))})),
            }
        ),
    }
)


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(drawn.repeated(REPEATED))
def test_fields_that_come_again(sparks: SparkAvro, record: str) -> None:
    """At every depth, and some fit: the last one that does counts."""
    assert ours(REPEATED, record.encode()) == theirs(sparks, REPEATED, record.encode())
