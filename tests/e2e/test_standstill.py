"""A query that stands still says why, to whoever asks and in its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_metrics import asked, scraped
from tests.kit.application import Application
from tests.kit.broker import Broker
from tests.kit.produce import open_transaction, produce
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.thorough("minutes of standing still")

LIMIT_S = 120.0


@pytest.mark.timeout(600)
def test_an_open_transaction_is_told_of(
    broker: Broker, topic: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With lag 0: beside the table and in it as JSON, as two figures, as one warning, until the transaction ends."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 20, partitions=2)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "group.id": topic}
    options |= {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest", "metrics.port": str(port)}
    monkeypatch.setenv("COHORT_HOME", str(tmp_path / "app" / "home"))
    with Application(tmp_path / "app", master="local[2]") as app:
        query = app.start("orders", options)
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
        log = app.driver.log()
    assert log.count("kafka-transactions find-hanging") == 1, log
