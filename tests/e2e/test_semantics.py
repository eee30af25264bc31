"""What user code does with a batch, however often and in whatever pieces it reads it, gives the rows that Kafka holds."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  everybody's name for it

from tests.kit import delivery, processes
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.spark import EXECUTOR, Driver
from tests.kit.standalone import environment, standalone
from tests.kit.streams import PLAIN_COLUMNS, Stream, Transform, options

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

RECORDS, PARTITIONS = 900, 3
SHAPES: dict[str, Transform] = {
    "coalesce": lambda stream: stream.coalesce(1),
    "union with itself": lambda stream: stream.union(stream),
    "union of two selections, coalesced": lambda stream: (
        stream.where("partition = 0").union(stream.where("offset % 2 = 0")).coalesce(1)
    ),
    "limit": lambda stream: stream.limit(70),
}


@pytest.mark.thorough("beside Spark's own source")
def test_shapes_of_queries(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """coalesce, union and limit of a stream give, per batch, the rows that ``format("kafka")`` gives."""
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS)
    for name, shape in SHAPES.items():
        found: dict[str, dict[int, Counter[Any]]] = {}
        for form in ("cohort", "kafka"):
            source = options(broker, topic, group__id=f"{topic}-{name[-5:]}", maxOffsetsPerTrigger=600)
            run = Stream(spark, source, tmp_path / form / name, form=form, transform=shape).finish()
            found[form] = {number: Counter(rows) for number, rows in run.batches.items()}
        if name == "limit":  # which rows come first, nobody promises
            assert sum(found["cohort"].values(), Counter()).total() == 70
            assert max(sum(found["cohort"].values(), Counter()).values()) == 1
        else:
            assert found["cohort"] == found["kafka"], name


def actions(batch: DataFrame, folder: Path) -> dict[str, Any]:
    """What one foreachBatch may do: seven actions, three of which stop early, and a write."""
    plain = batch.select(*PLAIN_COLUMNS)
    seen: dict[str, Any] = {
        "empty": plain.isEmpty(),
        "count": plain.count(),
        "limited": plain.limit(5).count(),
        "head": len(plain.head(3)),
        "by partition": Counter(row.asDict()["partition"] for row in plain.select("partition").collect()),
        "once": Counter(plain.coalesce(1).collect()),
        "twice": Counter(plain.union(plain).collect()),
        "values": plain.agg(F.sum(F.length("value")), F.countDistinct("partition", "offset")).first(),
    }
    plain.write.mode("overwrite").parquet(str(folder))
    return seen


class Acting(Stream):
    """A query whose foreachBatch does all of ``actions``; ``seen`` is what they gave, by batch."""

    folder: Path
    seen: dict[int, dict[str, Any]]

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        self.seen[batch_id] = actions(batch, self.folder / f"batch_id={batch_id}")


def test_many_actions_of_one_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """isEmpty, count, limit, head, coalesce, union and a write in one foreachBatch all see the batch's rows."""
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS)
    seen: dict[str, dict[int, dict[str, Any]]] = {}
    for form in ("cohort", "kafka"):
        source = options(broker, topic, maxOffsetsPerTrigger=450)
        run = Acting(spark, source, tmp_path / form / "checkpoint", form=form)
        run.folder, run.seen = tmp_path / form / "out", {}
        seen[form] = run.finish().seen
        delivered = delivery.from_parquet(run.folder)
        delivery.check(delivered, delivery.held(broker.bootstrap, [topic])).assert_exact()
    assert seen["cohort"] == seen["kafka"]
    assert [batch["count"] for batch in seen["cohort"].values()] == [450, 450]


@pytest.mark.thorough("a standalone cluster of two hosts")
@pytest.mark.timeout(360)
def test_speculation_and_a_lost_cache(broker: Broker, topic: str, tmp_path: Path) -> None:
    """A speculative copy reads the rows of its original; a cached batch whose executors are killed is read again."""
    broker.admin.create_topic(topic, 4)
    produce(broker.bootstrap, topic, 4_000, partitions=4)
    out, turn = tmp_path / "out", tmp_path / "turn"
    turn.mkdir()
    arguments = {
        "options": options(broker, topic, maxOffsetsPerTrigger=2_000),
        "checkpoint": tmp_path / "checkpoint",
        "out": out,
        "turn": turn,
    }
    # A copy never runs on its original's host: hence two hosts.
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "0.1",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    env = environment(tmp_path, uuid.uuid4().hex)
    with (
        standalone(tmp_path, env, hosts=["127.0.0.1", "127.0.0.2"]) as master,
        Driver("drivers/semantics.py", tmp_path / "driver", arguments, master=master, conf=conf) as driver,
    ):
        (cached,) = driver.wait_for("cached", 150)
        assert cached["copies"] == 1
        executors = processes.matching(f"{EXECUTOR} --driver-url", processes.marked(env[processes.MARK]))
        assert len(executors) == 2
        for executor in executors:
            executor.kill()
        (turn / "killed").touch()
        driver.wait(150)
    assert driver.events("counted")[0]["rows"] == 2_000
    assert cached["blocks"] > 0
    delivery.check(delivery.from_parquet(out), delivery.held(broker.bootstrap, [topic])).assert_exact()
