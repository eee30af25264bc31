"""``asyncProgressTrackingEnabled``: Spark writes its logs behind the query's back, and Kafka never has more than they."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tests.kit.dying import DIES
from tests.kit.produce import Steady, place_of, produce
from tests.kit.spark import Driver
from tests.kit.streams import options
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.timeout(240),  # a busy machine makes a query slow
    pytest.mark.usefixtures("sparks_checkpoint_files"),
]


def in_the_logs(checkpoint: Path, topic: str) -> int:
    """The end of the last batch in the commit log whose end the offset log has, of partition 0."""
    logged = [path for path in (checkpoint / "commits").glob("[0-9]*") if (checkpoint / "offsets" / path.name).exists()]
    if not logged:
        return 0
    text = (checkpoint / "offsets" / max(logged, key=lambda path: int(path.name)).name).read_text().splitlines()[-1]
    return int(json.loads(text)[topic]["0"])


@pytest.mark.thorough("asynchronous progress")
@pytest.mark.usefixtures(
    "listener"
)  # its events are ahead of such logs, and between triggers there is time to hear them
@pytest.mark.parametrize(("interval_ms", "trigger_s"), [(0, 0), (600_000, 0), (600_000, 2)])
def test_kafka_never_has_more_than_the_logs(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, interval_ms: int, trigger_s: int
) -> None:
    """However rarely these are written; where they are written, the group follows."""
    broker.admin.create_topic(topic, 1)
    stream = spark.readStream.format("cohort").options(**options(broker, topic)).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer = writer.option("asyncProgressTrackingEnabled", "true")
    writer = writer.option("asyncProgressTrackingCheckpointIntervalMs", str(interval_ms))
    writer = writer.trigger(processingTime=f"{trigger_s} seconds")
    last = 3 if trigger_s else 6
    with Steady(broker.bootstrap, topic, partitions=1, rate=50):
        query = writer.start()
        try:

            def done() -> bool:
                ahead = broker.admin.committed(topic).get((topic, 0), 0)
                assert ahead <= in_the_logs(checkpoint, topic)
                assert query.isActive, query.exception()
                progress = query.lastProgress
                return progress is not None and progress["batchId"] >= last and (interval_ms > 0 or ahead > 0)

            wait_until(done, 90, "batches")
        finally:
            query.stop()
    assert broker.admin.committed(topic)[topic, 0] <= in_the_logs(checkpoint, topic)


PLACES = ("planned 2", "offsets 2", "commits 2", "commit 1")
RECORDS, LIMIT = 300, 20  # more batches than all lives but the last one see


@pytest.mark.thorough("five lives of a driver")
@pytest.mark.timeout(600)
def test_killed_at_every_place_of_asynchronous_progress(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Wherever the driver dies, Kafka has no more than the logs, and the next life goes on from there: nothing is lost."""
    out, checkpoint = f"{topic}-out", tmp_path / "checkpoint"
    broker.admin.create_topic(topic, 1)
    broker.admin.create_topic(out, 1)
    produce(broker.bootstrap, topic, RECORDS, partitions=1)
    arguments = {
        "options": options(broker, topic, maxOffsetsPerTrigger=LIMIT),
        "sink": {"kafka.bootstrap.servers": broker.bootstrap, "topic": out},
        "checkpoint": checkpoint,
        "topic": topic,
        "records": RECORDS,
    }
    for life, dies in enumerate((*PLACES, "")):
        with Driver(
            "drivers/async_progress.py", tmp_path / str(life), arguments, env={DIES: dies}, kafka=True
        ) as driver:
            ended = driver.end(200)
            assert ended == (-signal.SIGKILL if dies else 0), driver.log_tail()
        assert broker.admin.committed(topic).get((topic, 0), 0) <= in_the_logs(checkpoint, topic), dies
    assert broker.admin.committed(topic)[topic, 0] > 0
    assert {place_of(value)[1] for value in values(broker, out)} == set(range(RECORDS))


def values(broker: Broker, topic: str) -> list[bytes]:
    """What the only partition of a topic holds."""
    client = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        client.assign([TopicPartition(topic, 0, 0)])
        end = client.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
        found: list[bytes] = []
        while len(found) < end:
            messages = client.consume(end - len(found), timeout=30)
            assert messages, "the broker sends nothing"
            found += [message.value() or b"" for message in messages]
        return found
    finally:
        client.close()
