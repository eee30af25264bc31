"""A query that stands still says why, to whoever asks and in its log."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.e2e.test_metrics import asked, scraped
from tests.kit.application import Application
from tests.kit.broker import Broker
from tests.kit.produce import open_transaction, produce
from tests.kit.streams import ASAP, Stream, options
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.thorough("minutes of standing still")

LIMIT_S = 120.0


@pytest.mark.timeout(600)
def test_an_open_transaction_is_told_of(
    broker: Broker, topic: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With lag 0: beside the table and in it as JSON, as two figures, as one warning, until the transaction ends."""
    broker.fill(topic, 20, 2)
    source = options(broker, topic, kafka__isolation__level="read_committed", metrics__port=port)
    monkeypatch.setenv("COHORT_HOME", str(tmp_path / "app" / "home"))
    with Application(tmp_path / "app", master="local[2]") as app:
        query = app.start("orders", source)
        query.wait_for_no_lag()
        client = open_transaction(broker.bootstrap, topic, 10, 17, partition=1)
        produce(broker.bootstrap, topic, 6, partitions=2, first=10)
        query.wait(lambda: "open transactions hold" in app.driver.log(), LIMIT_S, "a warning that nobody asked for")
        query.wait(lambda: asked("describe", topic)[2], LIMIT_S, "the line")
        _, rows, said = asked("describe", topic)
        assert f"{topic}-1 held by open transactions: 10 records wait, for " in said
        assert [(row["log_end_offset"], row["lag"]) for row in rows][1] == (10, 0)
        assert rows[0]["open_transaction"] is None
        assert rows[1]["open_transaction"]["records"] == 10
        samples = scraped(port)
        assert samples["cohort_partition_open_transaction_seconds", "1"] >= rows[1]["open_transaction"]["seconds"] >= 5
        names = [f"cohort_partition_open_transaction_{name}" for name in ("records", "seconds")]
        assert [samples[name, "0"] for name in names] == [0, 0]
        client.commit_transaction(30)
        wait_until(lambda: [scraped(port)[name, "1"] for name in names] == [0, 0], LIMIT_S, "its end")
        assert query.wait_for_no_lag()["partitions"][1]["current_offset"] > 17
        assert asked("describe", topic)[2] == ""
        query.stop()
        log = app.driver.log()
    assert log.count("kafka-transactions find-hanging") == 1, log


@pytest.mark.timeout(400)
def test_the_batch_in_flight_is_told_of(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, port: int
) -> None:
    """A sink that hangs before it reads, and after: the number, what is owed, and who is waited for; until it ends."""
    broker.fill(topic, 20, 2)
    read, end = threading.Event(), threading.Event()

    def write(batch: DataFrame, _number: int) -> None:
        assert read.wait(LIMIT_S)
        batch.collect()
        assert end.wait(LIMIT_S)

    def in_flight(accept: Any) -> dict[str, Any]:
        def told() -> Any:
            status, rows, _ = asked("describe", topic, "--state")
            return rows if status == 0 and accept(rows[0]["batch"]) else None

        found: dict[str, Any] = wait_until(told, LIMIT_S, "the batch")[0]["batch"]
        return found

    source = Stream(spark, options(broker, topic, metrics__port=port), checkpoint).load()
    writer = source.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint)).trigger(**ASAP)
    query = writer.start()
    try:
        before = in_flight(lambda batch: batch and batch["ranges_owed"])
        assert scraped(port)["cohort_batch_in_flight_seconds", ""] >= before["age_ms"] / 1000
        assert before["waits_for"] == f"tasks that have not begun and are to read {topic}-0, {topic}-1"
        read.set()
        after = in_flight(lambda batch: batch["ranges_owed"] == 0)
        assert (after["number"], after["ranges_delivered"]) == (0, 2)
        assert after["waits_for"].startswith("the sink")
        assert after["age_ms"] > before["age_ms"]
        assert (after["may_be_over"], scraped(port)["cohort_batch_in_flight_seconds", ""]) == (True, 0)
        end.set()
        wait_until(lambda: asked("describe", topic, "--state")[1][0]["batch"] is None, LIMIT_S, "its end")
        assert scraped(port)["cohort_batch_in_flight_seconds", ""] == 0
    finally:
        read.set()
        end.set()
        query.stop()
