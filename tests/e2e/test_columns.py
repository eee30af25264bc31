"""The columns that a schema chooses, through Spark: those of Spark's own source, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from sparkcohort.runtime.values.ddl import MalformedDdl, parse_ddl
from tests.kit.batch_reads import load
from tests.kit.broker import Broker
from tests.kit.produce import FLUSH_TIMEOUT_S, producer
from tests.kit.streams import FORMS, Stream, options

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

RECORDS = 120
HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
TEXTS = ["plain", "ü€𝄞", "", None, b"\xff\xfe not text", b"\xc0\x80", b"cut \xe2\x82", b"a\x00b"]


def fill(broker: Broker, topic: str) -> None:
    """Records of two partitions, with nulls and headers."""
    broker.admin.create_topic(topic, 2)
    client = producer(broker.bootstrap)
    for n in range(RECORDS):
        headers: list[tuple[str, str | bytes | None]] = [("h", b"%d" % n)] if n % 5 == 0 else []
        client.produce(topic, None if n % 7 == 0 else b"v%d" % n, None if n % 3 else b"k%d" % n, n % 2, headers=headers)
    assert client.flush(FLUSH_TIMEOUT_S) == 0


def rows(found: list[Row]) -> list[tuple[Any, ...]]:
    """All rows, in an order that does not depend on who delivered them."""
    return sorted((tuple(row) for row in found), key=repr)


@pytest.mark.parametrize(
    "schema",
    [
        "TOPIC STRING, Partition INT NOT NULL, offset BIGINT NOT NULL COMMENT 'where'",
        (
            f"offset BIGINT, headers {HEADERS}, value BINARY, timestampType INT, topic STRING, key BINARY, partition INT, "
            "timestamp TIMESTAMP"
        ),
    ],
)
def test_the_schemas_columns_are_those_of_sparks_own_source(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, schema: str
) -> None:
    """In its order and by its names, read directly and from agents; the values are what ``format("kafka")`` selects."""
    fill(broker, topic)
    names = [part.split()[0] for part in schema.replace("key: STRING, value: BINARY", "").split(", ")]
    ours = Stream(spark, options(broker, topic, maxOffsetsPerTrigger=25), checkpoint, columns=None, schema=schema)
    assert ours.load().columns == names
    theirs = load(spark, broker, topic, FORMS[-1], includeHeaders="true").select(*names).collect()
    assert rows(ours.finish().rows) == rows(theirs)
    assert len(theirs) == RECORDS
    assert len(ours.batches) > 3


def test_strings_are_sparks_cast(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Byte for byte, also what is no UTF-8: neither Spark nor the Python that collects the rows stumbles over it."""
    broker.admin.create_topic(topic, 1)
    client = producer(broker.bootstrap)
    for text in TEXTS:
        client.produce(topic, text, text, 0)
    assert client.flush(FLUSH_TIMEOUT_S) == 0

    def told(stream: DataFrame) -> DataFrame:
        return stream.selectExpr("value", "key", "hex(value) AS bytes")

    strings = options(broker, topic, value__format="string", key__format="string")
    ours = Stream(spark, strings, tmp_path / "ours", columns=None, transform=told, schema="value STRING, key STRING")
    cast = ("CAST(value AS STRING) AS value", "CAST(key AS STRING) AS key", "hex(CAST(value AS STRING)) AS bytes")
    assert ours.finish().rows == load(spark, broker, topic, FORMS[-1]).orderBy("offset").selectExpr(*cast).collect()
    kept = [
        None if text is None else (text.encode() if isinstance(text, str) else text).hex().upper() for text in TEXTS
    ]
    assert [row.bytes for row in ours.rows] == kept
    whole = Stream(spark, strings, tmp_path / "whole", columns=("value", "offset"))
    assert [dict(whole.load().dtypes)[name] for name in ("key", "value")] == ["string", "string"]
    assert [row.offset for row in whole.finish().rows] == list(range(len(TEXTS)))


SCHEMAS = [
    "a INT",
    "a integer,b Long , c SHORT\n,d byte, e real",
    "a DECIMAL, b dec(5), c NUMERIC ( 7 , 3 ), d DECIMAL(38,38)",
    "`a``b` DATE, `ü 𝄞` DOUBLE",
    "a TIMESTAMP_LTZ, b TIMESTAMP_NTZ, c TIMESTAMP",
    "a STRUCT<>, b STRUCT<c: BOOLEAN>",
    "a STRUCT<b INT, c: INT NOT NULL COMMENT 'x'>",
    "a INT NOT NULL COMMENT 'it''s -- no comment', b FLOAT",
    "-- the first\na INT, /* the\nsecond */ b INT -- the end",
    "struct INT, array STRING, comment DATE, null INT",
    "a ARRAY<ARRAY<MAP<STRING,ARRAY<INT>>>>, b MAP<STRUCT<c: INT>, BINARY>",
    "STRUCT<a: INT, b: STRUCT<c: TINYINT>>",
    "a",
    "a INT b INT",
    "a INT,",
    "my-name INT",
    "12 INT",
    "1a INT",
    "a MAP<STRING>",
    "a INT NOT",
    "a DECIMAL(39)",
    "a DECIMAL(5,6)",
    "a TEXT",
    "a INT /* never closed",
]


def test_ddl_means_what_it_means_to_spark(spark: SparkSession) -> None:
    """What both take is one schema, and what Spark can't read is refused here, too."""
    data_type: Any = getattr(spark._jvm, "org.apache.spark.sql.types.DataType")
    for text in SCHEMAS:
        try:
            theirs = described(json.loads(data_type.fromDDL(text).json()))
        except (Py4JJavaError, PySparkException):
            theirs = ""
        try:
            ours = str(parse_ddl(text))
        except MalformedDdl:
            ours = ""
        assert ours == theirs, text


def described(kind: Any) -> str:
    """Spark's JSON of a type, as ``ColumnType`` writes it."""
    if isinstance(kind, str):
        return {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{described(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{described(kind['keyType'])},{described(kind['valueType'])}>"
    fields = (f"{each['name']}:{described(each['type'])}" for each in kind["fields"])
    return f"struct<{','.join(fields)}>"
