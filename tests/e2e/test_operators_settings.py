"""Spark's settings of an operator: Kafka's settings that no query may give are refused, and delegation tokens are named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkcohort.runtime.shell.options.disallowed import SETTING
from tests.kit.broker import Broker
from tests.kit.streams import Stream, error, options

TOKENS = "spark.kafka.clusters.main.auth.bootstrap.servers"
PROGRAM = f"""
import sys
from pyspark.sql import SparkSession

conf = {{"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}}
conf |= {{"{TOKENS}": "x:1", "{SETTING}": "fetch.min.bytes"}}
spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
options = {{"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}}
for reader in spark.readStream.option("group.id", sys.argv[2]), spark.read:
    try:
        reader.format("cohort").options(**options).option("kafka.fetch.min.bytes", "1").load()
    except Exception as refused:
        print("KAFKA_DISALLOWED_OPTION: option kafka.fetch.min.bytes is not allowed" in str(refused))
print("rows", spark.read.format("cohort").options(**options).load().count())
stream = spark.readStream.format("cohort").options(**options).option("group.id", sys.argv[2]).load()
writer = stream.writeStream.format("noop").trigger(availableNow=True).option("checkpointLocation", sys.argv[3])
writer.start().awaitTermination(120)
spark.stop()
"""


@pytest.mark.thorough("a driver of its own, for its conf")
def test_they_are_refused_or_named(broker: Broker, topic: str, checkpoint: Path) -> None:
    """At load() of streams and batch reads; tokens once for each, by name, with what to set instead."""
    broker.fill(topic, 10)
    command = [sys.executable, "-P", "-c", PROGRAM, broker.bootstrap, topic, str(checkpoint)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == ["True", "True", "rows 10"]
    lines = [line for line in done.stderr.splitlines() if TOKENS in line]
    assert ["sparkcohort.batch" in line for line in lines] == [True, False]
    assert all("kafka.sasl.jaas.config" in line for line in lines)


@pytest.mark.thorough("an operator's list")
def test_a_task_refuses_what_is_listed(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Where the list is set so that the driver's Python could not find it."""
    broker.fill(topic, 10)
    source = options(broker, topic, kafka__fetch__min__bytes=1)
    spark.conf.set(SETTING, "fetch.min.bytes")
    try:
        message = Stream(spark, source, tmp_path / "refused").failure()
        read = error(spark.read.format("cohort").options(**{**source, "group.id": topic}).load().collect)
    finally:
        spark.conf.unset(SETTING)
    for text in (message, read):
        assert "KAFKA_DISALLOWED_OPTION: option kafka.fetch.min.bytes is not allowed" in text
    assert len(Stream(spark, source, tmp_path / "allowed").finish().rows) == 10
