"""The sink of docs/guides/sinks.md, on a real broker: a batch that comes twice changes nothing, a newer record does."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tests.kit.pages import block
from tests.kit.produce import FLUSH_TIMEOUT_S, producer

pytestmark = pytest.mark.timeout(300)  # four queries, one after the other

KEYS, PARTITIONS = 40, 3


def write(broker: Broker, topic: str, content: str) -> None:
    """A record for each key, by the default partitioner."""
    writer = producer(broker.bootstrap)
    for key in range(KEYS):
        writer.produce(topic, key=f"id-{key}", value=f"{content}-{key}")
    assert writer.flush(FLUSH_TIMEOUT_S) == 0


def rows(database: Path) -> dict[str, tuple[str, int, int]]:
    """The table: id to content, partition and position."""
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT id, content, partition, position FROM orders").fetchall()
    return {id_: (content, partition, position) for id_, content, partition, position in found}


def test_a_batch_that_comes_twice_changes_nothing(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands, four times: two lots of records, the last batch again after its commit is lost, and an older batch."""
    broker.admin.create_topic(topic, PARTITIONS)
    database, checkpoint = tmp_path / "orders.db", tmp_path / "checkpoint"
    program = ["upsert.py", broker.bootstrap, topic, topic, str(database), str(checkpoint)]
    monkeypatch.setattr(sys, "argv", program)
    names: dict[str, object] = {"__name__": "__main__", "spark": spark}

    def run() -> dict[str, tuple[str, int, int]]:
        exec(compile(block("upsert"), "upsert.py", "exec"), names)  # noqa: S102  the example as it is shown
        return rows(database)

    write(broker, topic, "old")
    first = run()
    write(broker, topic, "new")
    second = run()
    assert {id_: content for id_, (content, _, _) in first.items()} == {f"id-{n}": f"old-{n}" for n in range(KEYS)}
    assert {id_: content for id_, (content, _, _) in second.items()} == {f"id-{n}": f"new-{n}" for n in range(KEYS)}
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) >= 2
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    assert run() == second
    older = spark.createDataFrame(
        [(b"id-0", b"old-0", *first["id-0"][1:])], "key BINARY, value BINARY, partition INT, offset BIGINT"
    )
    names["write_batch"](older, 0)  # type: ignore[operator]
    assert rows(database) == second
