"""The door: the schema that the user has written, as Spark hands it over."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig, MalformedConfig, decode_config, encode_config
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.rpc.executor import Executor
from sparkcohort.runtime.shell.rpc.tls import Credentials
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS, Columns
from sparkcohort.streaming.source import CohortSource

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"}


def source(**more: str) -> Any:
    """A source with these options beside those that it needs."""
    return CohortSource({**OPTIONS, **more})


def columns_for(schema: StructType, **more: str) -> Columns:
    """What the reader of this schema delivers."""
    found: Columns = source(**more).streamReader(schema=schema)._options.columns
    return found


def test_without_a_schema_all_stays_as_it_was() -> None:
    """Spark hands the source's own schema back: seven columns, eight with includeHeaders."""
    assert columns_for(source().schema()) == KAFKA_ROW
    assert columns_for(source(includeHeaders="true").schema(), includeHeaders="true") == KAFKA_ROW_WITH_HEADERS


def test_any_columns_are_as_pyspark_compares_them() -> None:
    """Names as written, types, nullability where a column can't be null: what PySpark makes of the schema itself."""
    fields = source(includeHeaders="true").schema().fields
    for some in permutations(fields, 2):
        schema = StructType(list(some))
        assert arrow_rows.schema(columns_for(schema)).equals(to_arrow_schema(schema, timezone="UTC"))
    odd = StructType(
        [
            StructField("TIMESTAMP", fields[5].dataType, nullable=False, metadata={"comment": "when"}),
            StructField("Headers", fields[7].dataType, metadata={"comment": "h"}),
        ]
    )
    assert arrow_rows.schema(columns_for(odd)).equals(to_arrow_schema(odd, timezone="UTC"))


def test_headers_in_the_schema_need_no_option_and_the_option_needs_them() -> None:
    """The schema decides; the option that is of no use then is told of."""
    headers = StructType([source(includeHeaders="true").schema()["headers"]])
    assert columns_for(headers) == KAFKA_ROW_WITH_HEADERS[-1:]
    options = source(includeHeaders="true").streamReader(schema=StructType().add("value", BinaryType()))._options
    assert options.columns == KAFKA_ROW[1:2]
    assert [words for words in options.warnings if "includeHeaders" in words]
    assert not source().streamReader(schema=headers)._options.warnings


INNER = StructType().add("key", StringType()).add("value", BinaryType())


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType(), "has no column"),
        (StructType().add("payload", BinaryType()), "names the column payload, which a record of Kafka does not have"),
        (StructType().add("value", StringType()), "has the column value as STRING, and it can only be BINARY"),
        (StructType().add("partition", LongType()), "has the column partition as BIGINT, and it can only be INT"),
        (StructType().add("value", BinaryType()).add("Value", BinaryType()), "names the column Value twice"),
        (StructType().add("value", BinaryType(), nullable=False), "has the column value as NOT NULL"),
        (StructType().add("headers", ArrayType(INNER, containsNull=False)), "NOT NULL INSIDE, and it can only be ARRAY<"),
        (StructType().add("headers", ArrayType(StructType().add("key", StringType(), False).add("value", BinaryType()))), "INSIDE"),
        (StructType().add("topic", StringType("UTF8_LCASE")), "has the column topic as STRING COLLATE UTF8_LCASE"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_the_door(schema: StructType, words: str) -> None:
    """Before anything is joined or read."""
    with pytest.raises(OptionError, match=words):
        source().streamReader(schema=schema)


def test_the_columns_travel_to_tasks_and_agents() -> None:
    """With the reader of each task, as pickle has it; as JSON to the agent, which checks what it reads."""
    schema = StructType([source().schema()["timestamp"], source().schema()["value"]])
    reader = source().streamReader(schema=schema)
    wanted = (KAFKA_ROW[5], KAFKA_ROW[1])
    unpickled, given = reader.__reduce__()
    assert unpickled(*given)._options.columns == wanted
    config = AgentConfig(
        "address", Executor(1, 2, "0", "host", 1), "127.0.0.1", 1, Credentials(b"", b"", b"", "t" * 16), {}, wanted, True, 9,
        buffer_bytes=1, session_timeout_ms=1, heartbeat_interval_ms=1, rebalance_timeout_ms=1, assignors=(), rack="",
    )  # fmt: skip
    assert decode_config(encode_config(config)) == config
    as_json = json.loads(encode_config(config))
    for wrong in ({"columns": [[1]]}, {"columns": "value"}, {"buffer_bytes": 0}, {"credentials": {"token": "secret"}}):
        with pytest.raises(MalformedConfig) as refused:
            decode_config(json.dumps({**as_json, **wrong}).encode())
        assert "secret" not in str(refused.value)


def test_columns_are_asked_for_before_spark_says_which_read_it_is() -> None:
    """What one of the two reads takes is enough; else both are told what is wrong, and an error of both is told once."""
    least = {name: value for name, value in OPTIONS.items() if name != "group.id"}
    assert len(CohortSource(least | {"endingOffsets": "latest"}).schema()) == len(KAFKA_ROW)
    with pytest.raises(OptionError, match=r"group.id is missing: .*; as a batch read: .* can't start at latest"):
        CohortSource(least | {"startingOffsets": "latest"}).schema()
    with pytest.raises(OptionError) as refused:
        source(minPartitions="x").schema()
    assert str(refused.value).count("minPartitions") == 1
