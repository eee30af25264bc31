"""Writes that brokers refuse, and brokers and executors that go away while rows are written: at least once, or one clear error."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.kit.application import LIMIT_S, Application
from tests.kit.broker import Broker
from tests.kit.delivery import held
from tests.kit.shared_brokers import PASSWORD, Guarded
from tests.kit.streams import AVAILABLE_NOW, error, options
from tests.kit.waiting import wait_until
from tests.kit.writes import LineStream, values, write

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.thorough("failures of brokers and executors"),
]

RECORDS, PARTITIONS, PER_BATCH = 60_000, 6, 6_000
AWAY_S: Final = 5.0


def _crcs(broker: Broker, topic: str) -> Counter[int]:
    """How often the topic has each record, by what its key and value come to."""
    return Counter(held(broker.bootstrap, [topic]).column("crc").to_pylist())


def test_no_right_to_write(spark: SparkSession, guarded: Guarded, topic: str) -> None:
    """The error names the topic and the right; with the right the rows are there."""
    guarded.admin.create_topic(topic)
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{PASSWORD}";'
    given: dict[str, Any] = {
        "kafka__bootstrap__servers": guarded.sasl_bootstrap,
        "kafka__security__protocol": "SASL_PLAINTEXT",
        "kafka__sasl__mechanism": "PLAIN",
        "kafka__sasl__jaas__config": login,
        "topic": topic,
    }
    frame = spark.createDataFrame([("k", "v")], "key string, value string")
    guarded.admin.allow("alice", "topic", topic, "describe")
    denied = f"no permission to write to topic {topic}: allow this user WRITE"
    text = error(lambda: write(frame, guarded, "cohort", **given))
    # A user who may write nowhere gets no producer id; another test may have let this one write elsewhere.
    assert "allow it WRITE on the topic" in text or denied in text
    text += error(lambda: write(frame, guarded, "cohort", kafka__enable__idempotence="false", **given))
    assert denied in text
    assert PASSWORD not in text
    guarded.admin.allow("alice", "topic", topic, "write")

    def written() -> bool:  # not before the broker has heard of the right from its controller
        with suppress(PySparkException):
            write(frame, guarded, "cohort", **given)
            return True
        return False

    wait_until(written, 60, "a write with the right")
    assert set(values(spark, guarded, topic)) == {"v"}


@pytest.mark.parametrize("limit", ["topic", "option"])
def test_a_record_too_large(spark: SparkSession, broker: Broker, topic: str, limit: str) -> None:
    """The error names topic, size and limit, and no value."""
    broker.admin.create_topic(topic, configs={"max.message.bytes": "10000"} if limit == "topic" else {})
    frame = spark.range(1).selectExpr("repeat('secret', 5000) as value")
    more: dict[str, Any] = {} if limit == "topic" else {"kafka__max__request__size": 20_000}
    text = error(lambda: write(frame, broker, "cohort", topic=topic, **more))
    assert topic in text
    assert "max.message.bytes" in text or "max.request.size" in text
    assert "secretsecret" not in text


def test_a_broker_that_is_away_and_back(spark: SparkSession, topic: str, tmp_path: Path) -> None:
    """Rows wait for it within delivery.timeout.ms; behind that the query ends with the option's name, and goes on later."""
    with Broker() as broker:
        broker.admin.create_topic(topic)
        stream = LineStream(spark, tmp_path / "patient", broker, "cohort", topic=topic, kafka__max__block__ms=60_000)
        stream.run("0")  # what is imported and connected once
        broker.pause()
        back = threading.Timer(AWAY_S, broker.resume)
        back.start()
        began = time.monotonic()
        stream.run("1", "2", "3")
        back.join()
        assert time.monotonic() - began > AWAY_S - 1
        assert sorted(set(values(spark, broker, topic))) == ["0", "1", "2", "3"]

        short: dict[str, Any] = {
            "kafka__delivery__timeout__ms": 3_000,
            "kafka__request__timeout__ms": 1_000,
            "kafka__max__block__ms": 3_000,
        }
        hasty = LineStream(spark, tmp_path / "hasty", broker, "cohort", topic=topic, **short)
        broker.pause()
        try:
            text = error(lambda: hasty.run("4"))
        finally:
            broker.resume()
        assert "kafka.delivery.timeout.ms" in text or "kafka.max.block.ms" in text
        broker.wait_for_nodes()
        hasty.run("5")
        assert set(values(spark, broker, topic)) == {"0", "1", "2", "3", "4", "5"}


def test_an_executor_is_killed(application: Application, broker: Broker, topic: str) -> None:
    """Every record is written at least once, and no more than a batch of them again."""
    broker.fill(topic, RECORDS, PARTITIONS)
    copy = f"{topic}-copy"
    broker.admin.create_topic(copy, PARTITIONS)
    source = options(broker, topic, maxOffsetsPerTrigger=PER_BATCH)
    sink = {"kafka.bootstrap.servers": broker.bootstrap, "topic": copy}
    query = application.start(topic, source, trigger=AVAILABLE_NOW, sink=sink)
    query.wait(lambda: sum(broker.admin.ends(copy).values()) > 2 * PER_BATCH, LIMIT_S, "some batches")
    executor = application.driver.executors()[1]
    os.kill(executor.pid, signal.SIGKILL)
    assert query.end() is None
    wanted, found = _crcs(broker, topic), _crcs(broker, copy)
    assert set(found) == set(wanted)
    assert sum(found.values()) - sum(wanted.values()) <= PER_BATCH
    wait_until(lambda: len(application.driver.executors()) == 3, LIMIT_S, "another executor", every_s=0.25)
