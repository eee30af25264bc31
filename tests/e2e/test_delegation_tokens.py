"""Spark's settings for delegation tokens: a query runs without them, and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.broker import Broker
from tests.kit.produce import produce

pytestmark = pytest.mark.thorough("a driver of its own, for its conf")

SETTING = "spark.kafka.clusters.main.auth.bootstrap.servers"
PROGRAM = f"""
import sys
from pyspark.sql import SparkSession

host = {{"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}}
spark = SparkSession.builder.master("local[2]").config(map=host | {{"{SETTING}": "x:1"}}).getOrCreate()
options = {{"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}}
print("rows", spark.read.format("cohort").options(**options).load().count())
stream = spark.readStream.format("cohort").options(**options).option("group.id", sys.argv[2]).load()
writer = stream.writeStream.format("noop").trigger(availableNow=True).option("checkpointLocation", sys.argv[3])
writer.start().awaitTermination(120)
spark.stop()
"""


def test_they_are_named_with_the_remedy(broker: Broker, topic: str, checkpoint: Path) -> None:
    """Once for a batch read and once for a stream, by name, with what to set instead."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 10)
    command = [sys.executable, "-P", "-c", PROGRAM, broker.bootstrap, topic, str(checkpoint)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "rows 10" in done.stdout
    lines = [line for line in done.stderr.splitlines() if SETTING in line]
    assert ["sparkcohort.batch" in line for line in lines] == [True, False]
    assert all("kafka.sasl.jaas.config" in line for line in lines)
