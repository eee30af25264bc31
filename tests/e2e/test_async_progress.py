"""``asyncProgressTrackingEnabled``: Spark writes its logs behind the query's back, and Kafka never has more than they."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tests.kit.produce import Steady
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
