"""An operator's list of Kafka's settings that no query may give holds for ours: at load(), and in tasks where the driver could not see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkcohort.runtime.shell.options.disallowed import SETTING
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import Stream, error, options

PROGRAM = f"""
from pyspark.sql import SparkSession

host = {{"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}}
spark = SparkSession.builder.master("local[1]").config(map=host | {{"{SETTING}": "fetch.min.bytes,group.id"}}).getOrCreate()
options = {{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}}
for reader, more in (spark.readStream, "group.id"), (spark.read, "kafka.fetch.min.bytes"), (spark.read, "includeHeaders"):
    try:
        reader.format("cohort").options(**options).option(more, "1").load()
        print(more, "is allowed")
    except Exception as refused:
        print(more, "KAFKA_DISALLOWED_OPTION: option " + more + " is not allowed" in str(refused))
spark.stop()
"""


@pytest.mark.thorough("a driver of its own, for its conf")
def test_load_refuses_what_is_listed() -> None:
    """Streams and batch reads, before a broker is asked."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == ["group.id True", "kafka.fetch.min.bytes True", "includeHeaders False"]


@pytest.mark.thorough("an operator's list")
def test_a_task_refuses_what_is_listed(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Where the list is set so that the driver's Python could not find it."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 10)
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
