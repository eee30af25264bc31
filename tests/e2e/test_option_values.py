"""Options that Spark's Kafka source has, too: one text means one thing to both, by Spark's own parsers in a real JVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.options.security_settings import SPARK_REDACTS
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS
from tests.kit.jars import ROOT

LEAST = {"kafka.bootstrap.servers": "b1:9092", "group.id": "billing"}
SUBSCRIBED = LEAST | {"subscribe": "orders"}

Parser: TypeAlias = Callable[[Any, str], Any]

INTEGERS = ("1", "+7", "007", "2147483647", "-1", "0", "1_000", "1.5", "1e3", "0x10", "", "many", "9" * 40, " 7 ")
DURATIONS = (
    "900000|15m|15M| 90s |500ms|1999us|2min|1h|1d|0|0s|15 m|1.5h||soon|-5s|5w|1hour|60sec|"
    "9223372036854775807|9223372036854775807us|10000000000000000000"
)
BOOLEANS = ("true", "TRUE", "True", "false", "fAlSe", "yes", "1", "", "t", " true ")
OFFSETS = (
    '{"orders":{"0":5,"10":-1,"2":-2}}|{"orders":{"00":5}}|{"orders":{"0":9223372036854775807}}|{"orders":{"x":1}}|'
    '{"orders":[0]}|[]|5|{"orders":{"0":"1"}}|{"orders":{"0":1.5}}|{"orders":{"²":1}}'
)
TIMES = ('{"orders":{"0":1700000000000,"10":0}}', *OFFSETS.split("|")[1:])
PARTITIONS = ('{"orders":[0,1]}', '{"orders":[1,0,1],"b":[2]}', '{"orders":0}', '{"orders":["0"]}', "[]", "orders")
WIDER = {" 7 ", " true "}
"""Spaces are left out: a row of the page on switching."""
# What Spark takes and we don't is a clear error, and not another meaning.
NARROWER = {"-1", "0", "-5s", '{"orders":{"0":1.5}}'}

SECRET = "principal=hunter2"  # the value of kafka.sasl.oauthbearer.config


def _long(jvm: Any, text: str) -> Any:
    return jvm.java.lang.Long.parseLong(text)


def _time(jvm: Any, text: str) -> Any:
    return jvm.org.apache.spark.network.util.JavaUtils.timeStringAsMs(text)


def _boolean(jvm: Any, text: str) -> Any:
    return getattr(getattr(jvm.scala.collection, "StringOps$"), "MODULE$").__getattr__("toBoolean$extension")(text)


def _offsets(jvm: Any, text: str) -> Any:
    found = jvm.org.apache.spark.sql.kafka010.JsonUtils.partitionOffsets(text)
    pairs = _items(found.toSeq())
    return {TopicPartition(pair._1().topic(), pair._1().partition()): pair._2() for pair in pairs}


def _partitions(jvm: Any, text: str) -> Any:
    return {
        TopicPartition(tp.topic(), tp.partition())
        for tp in jvm.org.apache.spark.sql.kafka010.JsonUtils.partitions(text)
    }


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _headers(jvm: Any, text: str) -> Any:
    return KAFKA_ROW_WITH_HEADERS if _boolean(jvm, text) else KAFKA_ROW


CASES = [
    ("maxTriggerDelay", "max_trigger_delay_ms", DURATIONS.split("|"), _time),
    ("maxOffsetsPerTrigger", "max_offsets_per_trigger", INTEGERS, _long),
    ("minOffsetsPerTrigger", "min_offsets_per_trigger", INTEGERS, _long),
    ("startingTimestamp", "starting_timestamp", INTEGERS, _long),
    ("minPartitions", "min_partitions", INTEGERS, _long),
    ("maxRecordsPerPartition", "max_records_per_partition", INTEGERS, _long),
    ("kafkaConsumer.pollTimeoutMs", "poll_timeout_ms", INTEGERS, _long),
    ("fetchOffset.numRetries", "fetch_retries", INTEGERS, _long),
    ("fetchOffset.retryIntervalMs", "fetch_retry_interval_ms", INTEGERS, _long),
    ("failOnDataLoss", "fail_on_data_loss", BOOLEANS, _boolean),
    ("includeHeaders", "columns", BOOLEANS, _headers),
    ("startingOffsets", "starting_offsets", OFFSETS.split("|"), _offsets),
    ("startingOffsetsByTimestamp", "starting_offsets_by_timestamp", TIMES, _offsets),
]


def _theirs(parser: Parser, jvm: Any, text: str) -> tuple[bool, Any]:
    try:
        return True, parser(jvm, text)
    except (Py4JJavaError, PySparkException):
        return False, None


def _ours(name: str, field: str, text: str) -> tuple[bool, Any]:
    try:
        return True, getattr(parse(SUBSCRIBED | {name: text}), field)
    except OptionError as error:
        assert str(error).startswith(f"option {name}")
        return False, None


@pytest.mark.parametrize(("name", "field", "texts", "parser"), CASES, ids=[name for name, *_ in CASES])
def test_a_text_means_what_it_means_to_spark(
    spark: SparkSession, name: str, field: str, texts: Sequence[str], parser: Parser
) -> None:
    """What both take is one value; what Spark can't read is refused here, too."""
    agreed = 0
    for text in texts:
        (they_take, theirs), (we_take, ours) = _theirs(parser, spark._jvm, text), _ours(name, field, text)
        assert not we_take or they_take or text in WIDER, (name, text, ours)
        assert not (we_take and they_take) or ours == theirs, (name, text, ours, theirs)
        assert we_take or not they_take or text in NARROWER, (name, text, theirs)
        agreed += we_take
    assert agreed >= 2


def test_assigned_partitions_mean_what_they_mean_to_spark(spark: SparkSession) -> None:
    """``assign``, likewise."""
    for text in PARTITIONS:
        they_take, theirs = _theirs(_partitions, spark._jvm, text)
        if they_take:
            assert set(parse(LEAST | {"assign": text}).subscription.partitions) == theirs
        else:
            with pytest.raises(OptionError, match=r"^option assign"):
                parse(LEAST | {"assign": text})


def test_secrets_in_plans(spark: SparkSession) -> None:
    """Spark's defaults show what we warn of; with the patterns of conf/spark-defaults.conf nothing is shown."""
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text().splitlines()
    (pattern,) = [line.split(None, 1)[1] for line in lines if line.startswith("spark.sql.redaction.options.regex")]
    secret = SUBSCRIBED | {"kafka.sasl.oauthbearer.config": SECRET}

    def plan() -> str:
        frame: Any = spark.readStream.format("cohort").options(**secret).load()
        return str(frame._jdf.queryExecution().toString())

    package: Any = getattr(spark._jvm.org.apache.spark.internal, "config.package$")  # type: ignore[union-attr]
    assert package.__getattr__("MODULE$").SECRET_REDACTION_PATTERN().defaultValueString() == SPARK_REDACTS.pattern
    assert SECRET in plan()
    spark.conf.set("spark.sql.redaction.options.regex", pattern)
    try:
        assert SECRET not in plan()
        assert "orders" in plan()
    finally:
        spark.conf.unset("spark.sql.redaction.options.regex")
